"""`conjoin learn`: a table becomes a dependency network, or at once a Markov network."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any


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
        choices=("tree", "logistic", "hybrid", "boosted"),
        default="tree",
        help="decision trees (the default), L1-regularised logistic regression, logistic regression "
        "with the paths of each target's tree as further features, or sums of small trees",
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
    parser.add_argument("--seed", type=int, default=0, help="draws the rows held out (default 0)")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=-1, help="how many cores to use (default all)"
    )
    parser.add_argument("--json", action="store_true", help="print what was chosen, for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.conversion.dn2mn import convert
    from conjoin.errors import ModelError
    from conjoin.formats.files import check_can_save, read_table, save
    from conjoin.formats.storage import ending
    from conjoin.learning.learn import learn
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork
    from conjoin.models.network import Network

    started = time.perf_counter()
    to_dn = ending(Path(options.output)) == ".dn"
    check_can_save(DependencyNetwork if to_dn else MarkovNetwork, options.output)
    if options.seed < 0:
        raise ModelError(f"--seed must not be negative, not {options.seed}")
    if options.jobs == 0:
        raise ModelError("--jobs must not be 0; -1 is all cores")
    table = read_table(options.table)
    valid = None if options.valid is None else read_table(options.valid, table.domain)
    if sys.stderr.isatty():
        print("learning (the first run also compiles, once)", file=sys.stderr)
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
    )
    dn.provenance["table"] = Path(options.table).name
    model: Network = dn if to_dn else convert(dn, table)
    save(model, options.output)
    seconds = time.perf_counter() - started
    learned = dn.provenance["learned"]
    if options.json:
        print(
            json.dumps({"model": options.output, "kind": model.kind, "seconds": seconds, **learned})
        )
        return
    chosen = "".join(f", {k} {learned[k]:g}" for k in ("kappa", "penalty") if k in learned)
    print(
        f"{options.output}: {model.kind} from {len(table):,} rows of {len(table.domain)} variables, "
        f"{options.cpd} CPDs{chosen} ({seconds:.2f} s)"
    )
