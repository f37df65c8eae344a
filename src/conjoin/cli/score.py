"""`conjoin score`: how well a model predicts a table."""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

from conjoin.cli.arguments import add_jobs, add_seed, check_seed_and_jobs


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "score",
        help="score a model on a table",
        description="Score a model on a table, in nats a row. The pseudo-log-likelihood (pll) is the sum "
        "of the log-probabilities of each value given the rest of its row; the conditional marginal "
        "log-likelihood (cmll) that of each value given the variables of three other sets of four. "
        "Values that are missing are not scored.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model (.conjoin, .mn, .dn, .uai, .bif)")
    parser.add_argument("data", metavar="DATA", help="the table (.csv, .parquet, .data)")
    parser.add_argument(
        "--metric", choices=("pll", "cmll"), default="pll", help="what to measure (default pll)"
    )
    parser.add_argument(
        "--against",
        metavar="MODEL",
        help="another model, to be compared with on the same rows",
    )
    parser.add_argument(
        "--marginals",
        metavar="FILE",
        help="pll: a table, such as that of training, whose marginals stand in for missing values; by "
        "default DATA itself",
    )
    parser.add_argument(
        "--sets",
        metavar="FILE",
        help="cmll: the sets of variables, one a line, names with commas between; by default four "
        "random ones, which are printed",
    )
    parser.add_argument(
        "--burn-in", metavar="K", type=int, default=100, help="cmll: sweeps before (default 100)"
    )
    parser.add_argument(
        "--samples", metavar="K", type=int, default=1000, help="cmll: sweeps (default 1000)"
    )
    parser.add_argument(
        "--by-variable", action="store_true", help="print the mean score of each variable too"
    )
    add_seed(parser, "cmll: the seed")
    add_jobs(parser)
    parser.add_argument("--json", action="store_true", help="print the result for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from pathlib import Path

    from conjoin.errors import ModelError
    from conjoin.formats.files import load, read_table
    from conjoin.scoring.marginal_likelihood import cmll
    from conjoin.scoring.pseudo_likelihood import pll
    from conjoin.scoring.result import Score, compare

    started = time.perf_counter()
    check_seed_and_jobs(options)
    model = load(options.model)
    table = read_table(options.data, model.domain)
    sets: Any = 4
    if options.sets is not None:
        text = Path(options.sets).read_text(encoding="utf-8")
        lines = [line.split(",") for line in text.splitlines() if line.strip()]
        sets = [[name.strip() for name in line] for line in lines]

    def score(of: Any) -> Score:
        if options.metric == "pll":
            given = options.marginals
            other = None if given is None else read_table(given, of.domain)
            return pll(of, table, marginals=other, n_jobs=options.jobs)
        return cmll(
            of,
            table,
            sets=sets,
            burn_in=options.burn_in,
            samples=options.samples,
            random_state=options.seed,
            n_jobs=options.jobs,
        )

    result = score(model)
    comparison = None
    if options.against is not None:
        rival = load(options.against)
        if rival.domain != model.domain:
            raise ModelError(
                f"{options.against} has other variables or states than {options.model}"
            )
        comparison = compare(result, score(rival))
    seconds = time.perf_counter() - started
    report = result.report()
    if comparison is not None:
        report["against"] = {
            "model": options.against,
            "difference": comparison.difference,
            "stderr": _number(comparison.stderr),
            "better": comparison.better,
            "worse": comparison.worse,
        }
    if options.json:
        print(json.dumps({**report, "seconds": seconds}))
        return
    error = "" if math.isnan(result.stderr) else f" ± {result.stderr:.6f}"
    print(
        f"{result.metric} {result.mean:.6f}{error} nats a row, {result.normalized:.6f} a variable, on "
        f"{result.rows:,} rows ({seconds:.2f} s)"
    )
    for line in result.notes():
        print(line)
    if comparison is not None:
        print(
            f"better than {options.against} by {comparison.difference:.6f} ± {comparison.stderr:.6f}: "
            f"on {comparison.better:,} rows, worse on {comparison.worse:,}"
        )
    if options.by_variable:
        for name, value in sorted(result.by_variable.items(), key=lambda item: item[1]):
            print(f"{value:12.6f}  {name}")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
