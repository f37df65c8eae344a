"""`conjoin learn`: a table becomes a dependency network, or at once a Markov network."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli.arguments import add_jobs, add_seed, check_seed_and_jobs

if TYPE_CHECKING:
    from conjoin.data.domain import Domain


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "learn",
        help="learn one conditional a variable from a table",
        description="Learn one conditional distribution a variable from a table. Written as .dn, the "
        "result is the dependency network; written as .conjoin, .mn or .uai, it is converted to a "
        "Markov network with the default options.",
    )
    parser.add_argument("table", metavar="TRAIN", help="the training table (.csv, .parquet, .data)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="MODEL",
        required=True,
        help="the model (.dn, .conjoin, .mn, .uai)",
    )
    parser.add_argument("--valid", metavar="FILE", help="a table to choose kappa or the penalty on")
    parser.add_argument(
        "--cpd",
        choices=("tree", "logistic", "hybrid", "mixed", "boosted"),
        default="hybrid",
        help="decision trees, L1-regularised logistic regression, the latter with the paths of each "
        "target's tree as further features (hybrid, the default), hybrids for variables of two states "
        "and trees for all others, or sums of small trees",
    )
    parser.add_argument("--kappa", metavar="K", type=float, help="the structure prior of trees")
    parser.add_argument("--penalty", metavar="L", type=float, help="the L1 penalty")
    parser.add_argument(
        "--folds", metavar="N", type=int, help="choose by cross-validation with so many folds"
    )
    parser.add_argument(
        "--min-leaf",
        metavar="N",
        type=float,
        default=10.0,
        help="least rows in a leaf (default 10)",
    )
    parser.add_argument(
        "--closed-form",
        action="store_true",
        help="leave a Markov network as it is converted; otherwise it is refined (from 50 rows): "
        "made thin enough for exact inference, with weights that maximise the likelihood of the table, "
        "or tuned by pseudo-likelihood where that would lose too much",
    )
    parser.add_argument(
        "--discretize",
        metavar="HOW",
        action="append",
        help="cut numeric columns into bins: quantile:N, width:N (N bins) or mdl:TARGET (the cuts that "
        "tell most about a column) for all that have only numbers, and more than N of them (than 5 "
        "for mdl); COLUMN=HOW for one column, where HOW may also be its cut points: age=30,40,65; may "
        "be given several times",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="keep finished work in this folder, and resume from it if it exists; it is removed when "
        "the model is written",
    )
    add_seed(parser, "draws the rows held out")
    add_jobs(parser)
    parser.add_argument("--json", action="store_true", help="print what was chosen, for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.conversion.convert import convert
    from conjoin.data.discretization import discretize_by
    from conjoin.errors import ModelError
    from conjoin.formats.files import check_can_save, read_table, save
    from conjoin.formats.storage import ending
    from conjoin.joint.refine import refine
    from conjoin.learning.checkpoint import Checkpoint
    from conjoin.learning.learn import learn
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork
    from conjoin.models.network import Network

    started = time.perf_counter()
    to_dn = ending(Path(options.output)) == ".dn"
    check_can_save(DependencyNetwork if to_dn else MarkovNetwork, options.output)
    check_seed_and_jobs(options)
    kept = None if options.checkpoint is None else Checkpoint(options.checkpoint)
    if kept is not None and kept.path.absolute() == Path(options.output).absolute():
        raise ModelError("the checkpoint and the model cannot have the same name")
    table = read_table(options.table)
    if options.discretize:
        table, _ = discretize_by(table, bins_wanted(options.discretize, table.domain.names))
    _point_out_numbers(table.domain)
    columns = table.domain.names
    table = table.reordered(table.domain.sorted_names())  # the order must not change the result
    valid = None if options.valid is None else read_table(options.valid, table.domain)
    if sys.stderr.isatty():
        print("learning (the first run also compiles, once)", file=sys.stderr)
    try:
        dn = learn(
            table,
            options.cpd,
            valid=valid,
            folds=options.folds,
            kappa=options.kappa,
            penalty=options.penalty,
            min_leaf=options.min_leaf,
            random_state=options.seed,
            n_jobs=options.jobs,
            checkpoint=kept,
        )
    except KeyboardInterrupt:
        if kept is None:
            raise
        raise KeyboardInterrupt(f"the same command goes on from {options.checkpoint}") from None
    dn.provenance["table"] = Path(options.table).name
    model: Network = dn
    if not to_dn:
        model = convert(dn, table)
        if not options.closed_form:
            model = refine(model, table, random_state=options.seed, n_jobs=options.jobs)
    model = model.reordered(columns)
    save(model, options.output)
    if kept is not None:
        kept.remove()
    seconds = time.perf_counter() - started
    learned = dn.provenance["learned"]
    if options.json:
        print(
            json.dumps({"model": options.output, "kind": model.kind, "seconds": seconds, **learned})
        )
        return
    chosen = "".join(f", {k} {learned[k]:g}" for k in ("kappa", "penalty") if k in learned)
    weights = model.provenance.get("weights", {}).get("objective", "closed form")
    if not to_dn:
        chosen += f", weights by {weights}"
    print(
        f"{options.output}: {model.kind} from {len(table):,} rows of {len(table.domain)} variables, "
        f"{options.cpd} CPDs{chosen} ({seconds:.2f} s)"
    )


def _point_out_numbers(domain: Domain) -> None:
    """Say which columns look like measurements, each number of which is a state of its own."""
    from conjoin.data.discretization import continuous

    many = [v for v in domain if v.cuts is None and continuous(v.states)]
    if many:
        named = ", ".join(f"{v.name} ({len(v):,})" for v in many[:5])
        more = f" and {len(many) - 5} more columns" if len(many) > 5 else ""
        print(
            f"conjoin: every number is a state of its own in {named}{more}; cut them into ranges with "
            "--discretize quantile:5",
            file=sys.stderr,
        )


def bins_wanted(given: list[str], names: Sequence[str]) -> dict[str | None, Any]:
    """Read what --discretize says: {column: how}, with None for all others.

    Examples
    --------
    >>> bins_wanted(["quantile:4", "age=30,40", "pay=width:3"], ["age", "pay"])
    {None: 'quantile:4', 'age': [30.0, 40.0], 'pay': 'width:3'}
    """
    from conjoin.data.discretization import METHODS
    from conjoin.errors import DataError, did_you_mean

    wanted: dict[str | None, Any] = {}
    for text in given:
        name: str | None = None
        how = text
        if text.partition(":")[0] not in METHODS:
            ends = [i for i, letter in enumerate(text) if letter == "="]
            found = [i for i in ends if text[:i] in names]  # names may have such signs too
            if not ends:
                raise DataError(f"--discretize {text}: there is no such method. {_KNOWN}")
            if not found:
                name = text[: ends[0]]
                raise DataError(f"there is no column {name!r}. " + did_you_mean(name, names))
            name, how = text[: found[0]], text[found[0] + 1 :]
        if name in wanted:
            raise DataError(f"--discretize {text}: this was said twice")
        wanted[name] = how
        if how.partition(":")[0] not in METHODS:
            try:
                wanted[name] = [float(cut) for cut in how.split(",")]
            except ValueError:
                raise DataError(f"--discretize {text}: {how!r} is not known. {_KNOWN}") from None
    return wanted


_KNOWN = "Use quantile:N, width:N or mdl:TARGET, or COLUMN=HOW, such as age=30,40,65"
