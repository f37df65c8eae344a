"""Predict a column of a table from the others.

Predict any one column of a table from the others: the most probable state and the probabilities of all
states, or the mean and quantiles of a number. Missing values, and columns that the table lacks,
are summed out; values of the column itself are ignored. A dependency network is converted first.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    from conjoin.inference.joint_rows import JointRows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL", "TABLE")
    add("--target NAME", "the column to predict", required=True)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="a .csv file to write, instead of printing"
    )
    add(
        "--statistic",
        "what is predicted of a number (default mean)",
        choices=("mean", "median", "mode"),
        default="mean",
    )
    shared.add_shared(parser, "--missing", "--unseen")
    shared.add_random_state(parser, "rows that are too large for exact inference")
    shared.add_shared(parser, "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import json

    from conjoin.cli.impute import joint_network
    from conjoin.formats.model_files import load
    from conjoin.formats.storage import write_bytes
    from conjoin.inference.joint_rows import JointRows
    from conjoin.models.left_out import naming_left_out

    path = None if options.output is None else shared.csv_path(options.output, "predictions")
    model, name = load(options.model), options.target
    domain = model.domain.observed
    with naming_left_out(model):
        domain.index(name)
    table, _ = shared.known_rows(options, domain, without=name)
    rows = JointRows(joint_network(model, table), table, options.random_state)
    find = predicted_numbers if name in domain.numeric else predicted_states
    columns, report = find(rows, options)
    if options.json:
        text = json.dumps({"target": name, **report}, ensure_ascii=False) + "\n"
    else:
        text = shared.csv_text([list(columns), *zip(*columns.values(), strict=True)])
    if path is None:
        sys.stdout.write(text)
    else:
        write_bytes(path, text.encode())
        print(f"{path}: {name} predicted for {len(table):,} rows", file=sys.stderr)


def predicted_states(
    rows: JointRows, options: argparse.Namespace
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return the most probable states and the probabilities of all, as columns of text and for JSON."""
    answer = rows.answer(options.target)
    if not answer.exact.all():
        count = len(answer.exact) - int(answer.exact.sum())
        print(
            f"conjoin: {count:,} of {len(answer.exact):,} predictions are approximate (gibbs: sampled)",
            file=sys.stderr,
        )
    states = [shared.plain(state) for state in rows.domain[options.target].states]
    predicted = [states[best] for best in answer.p.argmax(axis=1).tolist()]
    columns: dict[str, list[Any]] = {options.target: predicted}
    for state, p in zip(states, answer.p.T.tolist(), strict=True):
        columns[f"P({state})"] = [f"{x:.6g}" for x in p]
    return columns, {"states": states, "predicted": predicted, "probabilities": answer.p.tolist()}


def predicted_numbers(
    rows: JointRows, options: argparse.Namespace
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return a statistic and quantiles of numbers, as columns of text and for JSON."""
    from conjoin.cli.distribution_text import LEVEL

    found, name = rows.number(options.target), options.target
    scale = found.scale
    numbers = {name: getattr(found, options.statistic)()}
    for q in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2):
        numbers[f"quantile {q:g}"] = found.quantile(q)
    columns = {key: [scale.text(x, 12) for x in x.tolist()] for key, x in numbers.items()}
    values = {key: [shared.plain(scale.value(v)) for v in x.tolist()] for key, x in numbers.items()}
    if options.statistic == "mean":
        columns[name] = [scale.mean_text(x) for x in numbers[name].tolist()]
        values[name] = numbers[name].tolist() if scale.kind == "number" else values[name]
    return columns, {"columns": values}
