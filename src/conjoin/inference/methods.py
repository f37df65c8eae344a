"""The methods that answer each question, and which approximation to trust where exact inference fails.

Every engine is a module with some of the functions `marginals`, `log_partition` and `most_probable`,
each of which takes (model, given, *, own options) and returns the same kind of result.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from conjoin.errors import ModelError, did_you_mean
from conjoin.inference.plan import TooLarge
from conjoin.inference.results import Assignment, LogValue, Marginals
from conjoin.models.network import Network

ENGINES = {
    "marginals": {
        "exact": "exact",
        "bp": "belief_propagation",
        "mean_field": "mean_field",
        "gibbs": "gibbs",
    },
    "log_partition": {
        "exact": "exact",
        "bp": "belief_propagation",
        "mean_field": "mean_field",
        "ais": "ais",
    },
    "most_probable": {
        "exact": "exact",
        "ilp": "integer",
        "max_product": "belief_propagation",
        "annealing": "annealing",
        "icm": "icm",
        "viterbi": "viterbi",
    },
}
"""The methods of each question, and the module of each method."""

NAMED = frozenset({"model", "query", "given", "targets", "max_memory"})
"""Arguments of engines that are no options of their own."""


@cache
def engine(question: str, method: str) -> Any:
    """Return the function that answers a question by a method."""
    known = ENGINES[question]
    if method not in known:
        raise ModelError(
            f"there is no method {method!r} for this question. " + did_you_mean(method, known)
        )
    return getattr(importlib.import_module(f"conjoin.inference.{known[method]}"), question)


@cache
def options_of(question: str, method: str) -> frozenset[str]:
    """Return the names of the options that a method has for a question; "auto" has those of all methods.

    Events are answered by `marginals`, by `log_partition`, or by Gibbs sampling of its own.
    """
    if question == "probability":
        from conjoin.inference.rare_probability import probability

        both = [q for q in ("marginals", "log_partition") if method in ("auto", *ENGINES[q])]
        of_sampling = _parameters(probability) if method in ("auto", "gibbs") else frozenset()
        return of_sampling.union(*(options_of(q, method) for q in both))
    methods = ENGINES[question] if method == "auto" else (method,)
    return frozenset().union(*(_parameters(engine(question, m)) for m in methods))


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters) - NAMED


def fitting(question: str, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a method has, out of some."""
    known = options_of(question, method) if options else frozenset()
    return {name: value for name, value in options.items() if name in known}


def check_options(question: str, options: Mapping[str, Any], method: str = "auto") -> None:
    """Reject options that a method does not have; with "auto", those that no method has.

    With "auto", the engine that runs may not use them all.
    """
    for name in options:
        known = sorted({*options_of(question, method), "method", "max_memory"})
        if name not in known:
            of = "" if method == "auto" else f" for method={method!r}"
            raise ModelError(f"there is no option {name!r}{of}. " + did_you_mean(name, known))


GIBBS_FEATURES = 50_000
"""Chains that disagree run ten times as long if the model has at most this number of features."""

ILP_SECONDS = 20.0
"""Time limit of integer programming with `method="auto"`."""

ILP_FEATURES = 20_000
"""`method="auto"` uses integer programming for models of at most this number of features."""


def trusted_marginals(
    other: str,
    model: Network,
    given: Mapping[str, Any] | None,
    targets: Sequence[str] | None,
    options: dict[str, Any],
) -> Marginals:
    """Return marginals of Gibbs sampling if its chains agree, else of another engine.

    Both are run, so that the answer can say how far they differ.
    """
    fixed: Marginals = engine("marginals", other)(
        model, given, targets=targets, **fitting("marginals", other, options)
    )
    if fixed.run.exact:
        return fixed
    sampled: Marginals | None = None
    for_chains = fitting("marginals", "gibbs", options)
    lengths = (1000, 10_000) if len(model.form.features) <= GIBBS_FEATURES else (1000,)
    if "n_samples" in for_chains:
        lengths = (for_chains.pop("n_samples"),)
    for n_samples in lengths:
        try:
            sampled = engine("marginals", "gibbs")(
                model, given, targets=targets, n_samples=n_samples, **for_chains
            )
        except ModelError:
            break  # sampling found no possible instance
        if sampled.run.converged:
            break
    if sampled is None:
        doubt = "; uncertain: sampling found no possible instance to compare it with"
        fixed.run = replace(fixed.run, note=fixed.run.note + doubt)
        return fixed
    names = model.domain.observed.names
    apart = max(np.abs(sampled.array(n) - fixed.array(n)).max() for n in names)
    if sampled.run.converged or not fixed.run.converged:
        told = f"; {other} differs by up to {apart:.2g}" if sampled.run.converged else ""
        sampled.run = replace(sampled.run, note=sampled.run.note + told)
        return sampled
    doubt = f"; uncertain: Gibbs chains disagree, and differ from this by up to {apart:.2g}"
    fixed.run = replace(fixed.run, note=fixed.run.note + doubt)
    return fixed


def trusted_log_partition(
    model: Network, given: Mapping[str, Any] | None, options: dict[str, Any]
) -> LogValue:
    """Return log Z by annealed importance sampling, or by belief propagation if that is unreliable."""
    annealed: LogValue = engine("log_partition", "ais")(
        model, given, **fitting("log_partition", "ais", options)
    )
    if annealed.run.converged:
        return annealed
    beliefs: LogValue = engine("log_partition", "bp")(
        model, given, **fitting("log_partition", "bp", options)
    )
    if beliefs.run.exact:
        return beliefs
    if not beliefs.run.converged:
        return annealed
    doubt = f"; uncertain: ais, with too small an effective sample size, gives {annealed.value:.6g}"
    return replace(beliefs, run=replace(beliefs.run, note=beliefs.run.note + doubt))


def search(model: Network, given: Mapping[str, Any] | None, options: dict[str, Any]) -> Assignment:
    """Anneal; then try to improve the result, or to prove it optimal, by integer programming."""
    annealed: Assignment = engine("most_probable", "annealing")(
        model, given, **fitting("most_probable", "annealing", options)
    )
    size = len(model.form.features)
    if size > ILP_FEATURES:
        return annealed
    try:
        limits = {"time_limit": ILP_SECONDS, **fitting("most_probable", "ilp", options)}
        proved: Assignment = engine("most_probable", "ilp")(model, given, **limits)
    except ModelError:
        return annealed
    if proved.score >= annealed.score:
        return proved
    return replace(annealed, bound=max(annealed.score, proved.bound))


def explained(run: Any, error: TooLarge) -> Any:
    """Return the run with the reason why the answer is not exact."""
    why = (
        str(error)
        .split(". Raise the limit")[0]
        .replace("exact inference would need", "exact needs")
    )
    return replace(run, note=f"{run.note}; approximate, because {why}")
