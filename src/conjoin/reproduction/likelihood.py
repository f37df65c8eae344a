"""The log-likelihood of the recommended network on a collection of data sets.

Networks are learned from the training rows, choices are made on the validation rows, and the test rows
are scored once. Each data set and seed has a result of its own, so a run that was stopped resumes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.bayesian.dependence_tree import tree_network
from conjoin.inference.engines import forecast
from conjoin.joint.learning import learn_joint
from conjoin.reproduction.data import Files
from conjoin.reproduction.stored_results import read_result, write_result
from conjoin.reproduction.tree_mixture import tree_mixture_scores
from conjoin.scoring.likelihood import log_likelihood
from conjoin.scoring.pseudo_likelihood import pll

PUBLISHED = {
    "nltcs": (-6.02, -6.00), "msnbc": (-6.04, -6.06), "kdd": (-2.13, -2.18),
    "plants": (-12.54, -14.26), "baudio": (-39.79, -39.77), "jester": (-52.86, -52.46),
    "bnetflix": (-56.36, -56.28), "dna": (-81.21, -79.06), "msweb": (-9.73, -9.99),
    "book": (-34.14, -33.83), "cwebkb": (-151.84, -152.77), "cr52": (-83.35, -86.26),
    "c20ng": (-151.47, -153.40), "bbc": (-248.93, -251.05),
}  # fmt: skip
"""Published test log-likelihoods: ID-SPN (Rooshenas and Lowd, 2014), and HCLT (Liu and Van den Broeck,
2021; the mean of five runs that the authors logged)."""


def reproduce_likelihood(
    folder: Path,
    out: Path,
    names: Sequence[str],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    effort: str = "default",
    n_jobs: int | None = None,
    report_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, list[dict[str, Any]]]:
    """Learn and score the recommended network on data sets, once per seed.

    Parameters
    ----------
    folder : Path
        The collection.
    out : Path
        The folder for results; those that are there already are kept.
    names : sequence of str
        The data sets, by file name.
    seeds : sequence of int
        The values of `random_state`.
    effort : str
        As for `refine`.
    n_jobs : int, optional
        The number of jobs; only times depend on it.
    report_progress : callable
        Called with a line about each run.

    Returns
    -------
    dict
        {data set: [result of each seed]}.
    """
    results: dict[str, list[dict[str, Any]]] = {}
    for number, name in enumerate(names, 1):
        files = Files(name, folder)

        def done(what: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
            path = out / "likelihood" / f"{name}.{what}.json"  # noqa: B023
            found = read_result(path)
            if found is None:
                report_progress(f"[{number}/{len(names)}] {name}, {what}")  # noqa: B023
                found = compute()
                write_result(path, found)
            return found

        trees = done("trees", partial(_trees, files))
        for seed in seeds:
            own = done(f"{effort}.{seed}", partial(_run, files, seed, effort, n_jobs))
            results.setdefault(name, []).append({**trees, **own})
    return results


def _trees(files: Files) -> dict[str, Any]:
    """Score the maximum-likelihood tree and a mixture of trees."""
    train, valid, test = files.train, files.valid, files.test
    started = time.process_time()
    score, components = tree_mixture_scores(train, valid, test)
    return {
        "tree": log_likelihood(tree_network(train), test).mean,
        "tree_mixture": score,
        "tree_mixture_components": components,
        "tree_mixture_seconds": time.process_time() - started,
    }


def _run(files: Files, seed: int, effort: str, n_jobs: int | None) -> dict[str, Any]:
    """Learn from one data set, and score its test rows."""
    train, valid, test = files.train, files.valid, files.test
    started = time.process_time()
    _, joint = learn_joint(train, valid=valid, effort=effort, random_state=seed, n_jobs=n_jobs)
    seconds = time.process_time() - started
    score = log_likelihood(joint, test)
    hidden = joint.domain.cards[joint.domain.hidden]
    return {
        "ll": score.mean,
        "stderr": score.stderr,
        "pll": pll(joint, test).mean,
        "seconds": seconds,
        "chosen": joint.provenance["refined"]["chosen"],
        "hidden_states": int(hidden.prod()) if len(hidden) else 0,
        "cells": int(forecast(joint).bytes // 8),
    }


def likelihood_table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the results as a Markdown table, next to published figures."""
    lines = [
        "| data set | tree | mixture of trees | ID-SPN | HCLT | Conjoin | spread | seeds | its PLL "
        "| CPU s | hidden states | cells |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in results.items():
        scores = np.array([run["ll"] for run in runs])
        seconds = float(np.mean([run["seconds"] for run in runs]))
        published = [f"{value:.2f}" for value in PUBLISHED.get(name, ())] or ["", ""]
        figures = [
            f"{runs[0]['tree']:.2f}", f"{runs[0]['tree_mixture']:.2f}", *published,
            f"**{scores.mean():.2f}**", f"{np.ptp(scores):.2f}", f"{len(runs)}",
            f"{np.mean([run['pll'] for run in runs]):.2f}", f"{seconds:.0f}",
            f"{runs[0]['hidden_states']}", f"{runs[0]['cells']:,}",
        ]  # fmt: skip
        lines.append("| " + " | ".join([name, *figures]) + " |")
    return "\n".join(lines) + "\n"
