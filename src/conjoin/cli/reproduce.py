"""Run the evaluation of the paper.

Run the evaluation of the paper (Lowd, UAI 2012, Section 6) on its data sets, and write its tables
and its figure with the published values next to ours. Results are kept: if the command is interrupted,
running it again resumes where it stopped.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "--data",
        metavar="DIR",
        help="the collection of data sets, DIR/NAME/NAME.train.data[.gz] and so on (default: the "
        "folder debd in the one that the environment variable CONJOIN_DATA names)",
    )
    add(
        "--out",
        metavar="DIR",
        default="reproduction",
        help="the folder to write to (default reproduction)",
    )
    add(
        "--only",
        metavar="NAME",
        nargs="+",
        help="only these data sets, by the names of their files",
    )
    add(
        "--quick",
        action="store_true",
        help="only five small data sets: nltcs, plants, baudio, jester, bnetflix",
    )
    add(
        "--likelihood",
        action="store_true",
        help="instead of the paper's evaluation, learn the recommended network on each data set and "
        "compare its test log-likelihood with published figures, a tree and a mixture of trees",
    )
    add(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="how many times --likelihood learns each network (default 3); results that are there "
        "already are kept",
    )
    add(
        "--methods",
        action="store_true",
        help="instead of the paper's evaluation, compare all methods of learning a network on each data "
        "set: time, size, PLL, CMLL and log-likelihood",
    )
    add(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="the CPU seconds that a method of --methods may take on a data set, scores included "
        "(default 60; 0 for no limit); it is stopped then, and shown as such",
    )
    shared.add_random_state(parser, "the chains of CMLL")
    shared.add_jobs(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.reproduction.data import find_folder

    if options.seeds < 1:
        raise ModelError(f"--seeds must be 1 or more, not {options.seeds}")
    if options.quick and options.only:
        raise ModelError("--quick and --only cannot be combined")
    if options.likelihood and options.methods:
        raise ModelError("--likelihood and --methods cannot be combined")
    if options.limit is not None and not (options.methods and options.limit >= 0):
        raise ModelError("--limit needs --methods, and a number of seconds that is not negative")
    folder, out = find_folder(options.data), Path(options.out)
    if options.methods or options.likelihood:
        _compare(folder, out, options)
    else:
        _reproduce(folder, out, options)


def _reproduce(folder: Path, out: Path, options: argparse.Namespace) -> None:
    """Run the paper's evaluation."""
    from conjoin.reproduction.published import DATA_SETS, QUICK
    from conjoin.reproduction.report import write_report
    from conjoin.reproduction.run import read_results, reproduce

    chosen = " --quick" if options.quick else ""
    if options.only:
        chosen = " --only " + shlex.join(options.only)
    reproduce(
        folder,
        out,
        options.only or (QUICK if options.quick else tuple(DATA_SETS)),
        random_state=options.random_state,
        n_jobs=options.jobs,
        command=f"conjoin reproduce{chosen} --random-state {options.random_state}",
        report_progress=_progress,
    )
    results = read_results(out)
    written = write_report(results, out)
    if options.json:
        shared.print_json(results)
        return
    for path in written:
        print(path)


def _compare(folder: Path, out: Path, options: argparse.Namespace) -> None:
    """Run --methods or --likelihood, and write its page."""
    from conjoin.formats.storage import write_bytes
    from conjoin.reproduction.comparison import LIMIT, compare_methods
    from conjoin.reproduction.likelihood import PUBLISHED, likelihood_table, reproduce_likelihood
    from conjoin.reproduction.methods_report import methods_report
    from conjoin.reproduction.published import QUICK
    from conjoin.reproduction.stored_results import write_result

    present = tuple(name for name in PUBLISHED if (folder / name).is_dir())
    names = options.only or (QUICK if options.quick else present)
    results: dict[str, Any]
    if options.methods:
        results = compare_methods(
            folder,
            out,
            names,
            limit=LIMIT if options.limit is None else options.limit,
            random_state=options.random_state,
            n_jobs=options.jobs,
            report_progress=_progress,
        )
        page, text = out / "methods.md", methods_report(results)
        write_result(page.with_suffix(".json"), results)
    else:
        results = reproduce_likelihood(
            folder,
            out,
            names,
            seeds=tuple(options.random_state + k for k in range(options.seeds)),
            n_jobs=options.jobs,
            report_progress=_progress,
        )
        page, text = out / "likelihood.md", likelihood_table(results)
    if options.json:
        shared.print_json(results)
        return
    write_bytes(page, text.encode())
    print(page)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
