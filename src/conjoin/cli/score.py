"""Score a model on a table.

Score a model on a table, in nats per row. The pseudo-log-likelihood (pll) is the sum of the
log-probability of each value given the rest of its row. The conditional marginal log-likelihood (cmll)
divides the variables into four sets and predicts each value from the three sets that it is not in.
In both, missing values are not scored. The log-likelihood (ll) is the log-probability of the row, with
missing values summed out; it is exact, or its output says that it is estimated.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    from conjoin.scoring.result import Score


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    shared.add_model(parser)
    shared.add_table(parser)
    add("--metric", choices=("pll", "cmll", "ll"), default="pll", help="the score (default pll)")
    add("--against", metavar="MODEL", help="another model to compare with, on the same rows")
    add(
        "--marginals",
        metavar="FILE",
        help="pll: a table, such as the training table, whose marginals stand in for missing values "
        "(default: TABLE itself)",
    )
    add(
        "--sets",
        metavar="FILE",
        help="cmll: the sets of variables, one comma-separated set per line (default: four random "
        "sets, which are printed)",
    )
    shared.add_number(
        parser, "--burn-in", "K", 100, "cmll: number of sweeps before the first sample"
    )
    shared.add_number(parser, "--samples", "K", 1000, "cmll: number of sweeps")
    add("--by-variable", action="store_true", help="also print the mean score of each variable")
    shared.add_missing(parser)
    shared.add_unseen(parser)
    shared.add_random_state(parser, "cmll and estimates of ll")
    shared.add_jobs(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.formats.model_files import load
    from conjoin.scoring.result import compare

    started = time.perf_counter()
    model = load(options.model)
    table = shared.known_table(options.table, model.domain, options)
    result = score(model, table, options)
    report, comparison = result.report(), None
    if options.against is not None:
        rival = load(options.against)
        if rival.domain.observed != model.domain.observed:
            raise ModelError(
                f"{options.against} and {options.model} have different variables or states"
            )
        comparison = compare(result, score(rival, table, options))
        report["against"] = {
            "model": options.against,
            "difference": comparison.difference,
            "stderr": None if math.isnan(comparison.stderr) else comparison.stderr,
            "better": comparison.better,
            "worse": comparison.worse,
        }
    seconds = time.perf_counter() - started
    if options.json:
        shared.print_json({**report, "seconds": seconds})
        return
    error = "" if math.isnan(result.stderr) else f" ± {result.stderr:.6f}"
    unit = " (a log density)" if model.kind == "mixed network" else ""
    print(
        f"{result.metric} {result.mean:.6f}{error} nats per row{unit}, "
        f"{result.normalized:.6f} per variable, on {result.rows:,} rows ({seconds:.2f} s)"
    )
    for line in result.notes():
        print(line)
    if comparison is not None:
        print(
            f"difference to {options.against}: {comparison.difference:+.6f} ± {comparison.stderr:.6f} "
            f"nats per row; better on {comparison.better:,} rows, worse on {comparison.worse:,}"
        )
    if options.by_variable:
        print("mean score of each variable, in nats:")
        for name, value in sorted(result.by_variable.items(), key=lambda item: item[1]):
            print(f"{value:12.6f}  {name}")


def score(model: Any, table: Any, options: argparse.Namespace) -> Score:
    """Return the score that the options ask for."""
    from conjoin.scoring.likelihood import log_likelihood
    from conjoin.scoring.marginal_likelihood import cmll
    from conjoin.scoring.pseudo_likelihood import pll

    if options.metric == "ll":
        return log_likelihood(model, table, random_state=options.random_state)
    if options.metric == "pll":
        marginals = shared.optional_table(options.marginals, model.domain, options)
        return pll(model, table, marginals=marginals, n_jobs=options.jobs)
    return cmll(
        model,
        table,
        sets=4 if options.sets is None else _read_sets(options.sets),
        burn_in=options.burn_in,
        samples=options.samples,
        random_state=options.random_state,
        n_jobs=options.jobs,
    )


def _read_sets(path: str) -> list[list[str]]:
    from pathlib import Path

    from conjoin.formats.storage import read_text

    lines = [line for line in read_text(Path(path)).splitlines() if line.strip()]
    return [[name.strip() for name in line.split(",")] for line in lines]
