"""`conjoin reproduce`: the paper's evaluation, run again."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from conjoin.cli.arguments import add_jobs, add_seed, check_seed_and_jobs


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "reproduce",
        help="run the evaluation of the paper again",
        description="Run the evaluation of the paper (Lowd, UAI 2012, Section 6) on its data sets, and "
        "write its tables and its figure beside the published figures. What is done is kept: the same "
        "command goes on where it was stopped.",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="the collection of data sets, DIR/NAME/NAME.train.data[.gz] and so on; by default the "
        "environment variable CONJOIN_DATA names it",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="reproduction", help="where to write (default reproduction)"
    )
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", help="some data sets, by the names of their files"
    )
    parser.add_argument(
        "--quick", action="store_true", help="the five smallest data sets: nltcs, plants, baudio, "
        "jester, bnetflix"
    )  # fmt: skip
    add_seed(parser, "of the chains of CMLL")
    add_jobs(parser)
    parser.add_argument("--json", action="store_true", help="print all results for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import json

    from conjoin.errors import ModelError
    from conjoin.reproduction.data import find_folder
    from conjoin.reproduction.published import DATA_SETS, QUICK
    from conjoin.reproduction.report import write_report
    from conjoin.reproduction.run import read_results, reproduce

    check_seed_and_jobs(options)
    if options.quick and options.only:
        raise ModelError("--quick and --only exclude each other")
    folder, out = find_folder(options.data), Path(options.out)
    names = options.only or (QUICK if options.quick else tuple(DATA_SETS))

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    chosen = " --quick" if options.quick else ""
    if options.only:
        chosen = " --only " + shlex.join(options.only)
    command = f"conjoin reproduce{chosen} --seed {options.seed}"
    reproduce(
        folder, out, names, seed=options.seed, n_jobs=options.jobs, command=command, tell=tell
    )
    results = read_results(out)
    written = write_report(results, out)
    if options.json:
        print(json.dumps(results))
        return
    for path in written:
        print(path)
