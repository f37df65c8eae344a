"""Predict a column of a table from the others.

Predict any one column of a table from the others: the most probable state and the probabilities of all
states, or the mean and quantiles of a number. Missing values, and columns that the table lacks,
are summed out; values of the column itself are ignored. A dependency network is converted first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    from conjoin.data.domain import Domain
    from conjoin.data.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    shared.add_model(parser)
    shared.add_table(parser)
    add("--target", metavar="NAME", required=True, help="the column to predict")
    add("-o", "--output", metavar="FILE", help="a .csv file to write, instead of printing")
    add(
        "--statistic",
        choices=("mean", "median", "mode"),
        default="mean",
        help="what is predicted of a number (default mean)",
    )
    shared.add_missing(parser)
    shared.add_unseen(parser)
    shared.add_random_state(parser, "rows that are too large for exact inference")
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import json

    from conjoin.cli.distribution_text import plain
    from conjoin.cli.impute import joint_network
    from conjoin.errors import ModelError
    from conjoin.estimator.predict import probabilities_and_exactness
    from conjoin.formats.model_files import load
    from conjoin.models.left_out import naming_left_out
    from conjoin.models.mixed import MixedNetwork

    path = None if options.output is None else Path(options.output)
    if path is not None and path.suffix != ".csv":
        raise ModelError(f"{path}: predictions are written as .csv")
    if path is not None and not path.absolute().parent.is_dir():
        raise ModelError(f"there is no folder {str(path.parent)!r}; create it first")
    model = load(options.model)
    if isinstance(model, MixedNetwork):
        from conjoin.cli import mixed

        columns = mixed.predicted(model, options)
        if options.json:
            report: dict[str, Any] = {"target": options.target, "columns": columns}
            text = json.dumps(report, ensure_ascii=False) + "\n"
        else:
            text = mixed.csv_text(columns)
        _write(text, path, options.target, len(columns[options.target]))
        return
    domain = model.domain.observed
    with naming_left_out(model):
        target = domain.index(options.target)
    table = _read(options, domain)
    p, exact = probabilities_and_exactness(
        joint_network(model, table), table, target, options.random_state
    )
    if not exact.all():
        count = len(exact) - int(exact.sum())
        print(
            f"conjoin: {count:,} of {len(exact):,} predictions are approximate (gibbs: sampled)",
            file=sys.stderr,
        )
    states = [plain(state) for state in domain.variables[target].states]
    predicted = [states[best] for best in p.argmax(axis=1)]
    if options.json:
        report = {
            "target": options.target,
            "states": states,
            "predicted": predicted,
            "probabilities": p.tolist(),
        }
        text = json.dumps(report, ensure_ascii=False) + "\n"
    else:
        text = _csv(options.target, states, predicted, p)
    _write(text, path, options.target, len(table))


def _write(text: str, path: Path | None, target: str, rows: int) -> None:
    from conjoin.formats.storage import write_bytes

    if path is None:
        sys.stdout.write(text)
        return
    write_bytes(path, text.encode())
    print(f"{path}: {target} predicted for {rows:,} rows", file=sys.stderr)


def _csv(target: str, states: list[Any], predicted: list[Any], p: Any) -> str:
    import csv
    import io

    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow([target, *(f"P({state})" for state in states)])
    for state, row in zip(predicted, p, strict=True):
        writer.writerow([state, *(f"{x:.6g}" for x in row)])
    return page.getvalue()


def _read(options: argparse.Namespace, domain: Domain) -> Table:
    """Read the columns that the table has, except the target."""
    from conjoin.data.frames import widened
    from conjoin.formats.table_files import table_columns

    path = options.table
    names = table_columns(path)
    if names is None:
        return shared.known_table(path, domain, options)
    present = shared.evidence_columns(path, names, domain.names, options.target)
    own = domain.subset(map(domain.index, present))
    unseen = "missing" if present == [options.target] else None
    return widened(shared.known_table(path, own, options, unseen), domain)
