"""Run the evaluation of the paper.

Run the evaluation of the paper (Lowd, UAI 2012, Section 6) on its data sets, and write its tables
and its figure with the published values next to ours. Results are kept: if the command is interrupted,
running it again resumes where it stopped.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    add(
        "--data DIR",
        "the collection of data sets, DIR/NAME/NAME.train.data[.gz] and so on (default: the "
        "folder debd in the one that the environment variable CONJOIN_DATA names)",
    )
    add("--out DIR", "the folder to write to (default reproduction)", default="reproduction")
    add("--only NAME", "only these data sets, by the names of their files", nargs="+")
    add("--quick", "only five small data sets: nltcs, plants, baudio, jester, bnetflix")
    shared.add_random_state(parser, "the chains of CMLL")
    shared.add_shared(parser, "--jobs", "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.research.reproduction.experiment_files import find_folder
    from conjoin.research.reproduction.paper_report import write_report
    from conjoin.research.reproduction.published import DATA_SETS, QUICK
    from conjoin.research.reproduction.steps import read_results, reproduce

    if options.quick and options.only:
        raise ModelError("--quick and --only cannot be combined")
    chosen = " --quick" if options.quick else ""
    if options.only:
        chosen = " --only " + shlex.join(options.only)
    out = Path(options.out)
    reproduce(
        find_folder(options.data),
        out,
        options.only or (QUICK if options.quick else tuple(DATA_SETS)),
        random_state=options.random_state,
        n_jobs=options.jobs,
        command=f"conjoin reproduce{chosen} --random-state {options.random_state}",
        report_progress=partial(print, file=sys.stderr, flush=True),
    )
    results = read_results(out)
    written = write_report(results, out)
    shared.print_result(options, results, *map(str, written))
