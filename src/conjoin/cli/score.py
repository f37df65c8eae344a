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
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    from conjoin.scoring.result import Score


NAMES = {"pll": "pseudo-", "cmll": "conditional marginal ", "ll": ""}
"""The likelihood that each score is the logarithm of."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL", "TABLE")
    add("--metric", "the score (default pll)", choices=("pll", "cmll", "ll"), default="pll")
    add("--against MODEL", "another model to compare with, on the same rows")
    add(
        "--marginals FILE",
        "pll: a table, such as the training table, whose marginals stand in for missing values "
        "(default: TABLE itself)",
    )
    add(
        "--sets FILE",
        "cmll: the sets of variables, one comma-separated set per line (default: four random "
        "sets, which are printed)",
    )
    burn_in = "cmll: number of sweeps before the first sample (default 100)"
    add("--burn-in K", burn_in, type=int, default=100)
    add("--samples K", "cmll: number of sweeps (default 1000)", type=int, default=1000)
    add("--by-variable", "also print the mean score of each variable")
    shared.add_shared(parser, "--missing", "--unseen")
    shared.add_random_state(parser, "cmll and estimates of ll")
    shared.add_shared(parser, "--jobs", "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.formats.model_files import load
    from conjoin.scoring.result import compare

    model = load(options.model)
    table = shared.known_table(options.table, model.domain, options)
    result = score(model, table, options)
    report, more = result.report(), []
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
        more = [
            f"difference to {options.against}: {comparison.difference:+.6f} ± {comparison.stderr:.6f} "
            f"nats per row; better on {comparison.better:,} rows, worse on {comparison.worse:,}"
        ]
    seconds = shared.seconds(options)
    error = "" if math.isnan(result.stderr) else f" ± {result.stderr:.6f}"
    density = table.numbers is not None and result.metric != "cmll"
    unit = " (a log density)" if density else ""
    lines = [
        f"{NAMES[result.metric]}log-likelihood: {result.metric} {result.mean:.6f}{error} nats per row"
        f"{unit}, {result.normalized:.6f} per variable, on {result.rows:,} rows ({seconds:.2f} s)",
        *result.notes(),
        *more,
    ]
    if options.by_variable:
        lines.append("mean score of each variable, in nats:")
        by_score = sorted(result.by_variable.items(), key=lambda item: item[1])
        lines += [f"{value:12.6f}  {name}" for name, value in by_score]
    shared.print_result(options, {**report, "seconds": seconds}, *lines)


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
