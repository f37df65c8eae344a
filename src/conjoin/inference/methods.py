"""The methods that answer each question, and which approximation to trust where exact inference fails.

Every engine is a module with some of the functions `marginals`, `log_partition` and `most_probable`,
each of which takes (model, given, *, own options) and returns the same kind of result.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from conjoin.errors import ModelError, did_you_mean
from conjoin.inference.plan import TooLarge
from conjoin.inference.results import LogValue, Marginals
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network

ENGINES = {
    "marginals": {"exact": "exact", "bp": "belief_propagation", "gibbs": "gibbs"},
    "log_partition": {"exact": "exact", "bp": "belief_propagation", "ais": "ais"},
    "most_probable": {"exact": "exact", "annealing": "annealing"},
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

    Events are answered by `marginals` or by `log_partition`.
    """
    if question == "probability":
        both = [q for q in ("marginals", "log_partition") if method in ("auto", *ENGINES[q])]
        return frozenset().union(*(options_of(q, method) for q in both))
    methods = ENGINES[question] if method == "auto" else (method,)
    parameters = [inspect.signature(engine(question, m)).parameters for m in methods]
    return frozenset().union(*parameters) - NAMED


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


def trusted_marginals(
    model: Network,
    given: Mapping[str, Any] | None,
    targets: Sequence[str] | None,
    options: dict[str, Any],
) -> Marginals:
    """Return marginals of Gibbs sampling if its chains agree, else of belief propagation.

    Both are run, so that the answer can say how far they differ; a dependency network is only sampled.
    """
    if isinstance(model, DependencyNetwork):
        return _sampled(model, given, targets, options)
    beliefs: Marginals = engine("marginals", "bp")(
        model, given, targets=targets, **fitting("marginals", "bp", options)
    )
    if beliefs.run.exact:
        return beliefs
    try:
        sampled = _sampled(model, given, targets, options)
    except ModelError:
        doubt = "; uncertain: sampling found no possible instance to compare it with"
        beliefs.run = replace(beliefs.run, note=beliefs.run.note + doubt)
        return beliefs
    names = model.domain.observed.names
    apart = max(np.abs(sampled.array(n) - beliefs.array(n)).max() for n in names)
    if sampled.run.converged or not beliefs.run.converged:
        told = f"; bp differs by up to {apart:.2g}" if sampled.run.converged else ""
        sampled.run = replace(sampled.run, note=sampled.run.note + told)
        return sampled
    doubt = f"; uncertain: Gibbs chains disagree, and differ from this by up to {apart:.2g}"
    beliefs.run = replace(beliefs.run, note=beliefs.run.note + doubt)
    return beliefs


def _sampled(
    model: Network,
    given: Mapping[str, Any] | None,
    targets: Sequence[str] | None,
    options: dict[str, Any],
) -> Marginals:
    """Return marginals of Gibbs sampling; chains that disagree run again, ten times as long."""
    sample, for_chains = engine("marginals", "gibbs"), fitting("marginals", "gibbs", options)
    found: Marginals = sample(model, given, targets=targets, **for_chains)
    short = "n_samples" not in for_chains and len(model.form.features) <= GIBBS_FEATURES
    if short and not found.run.converged:
        found = sample(model, given, targets=targets, n_samples=10_000, **for_chains)
    return found


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


def explained(run: Any, error: TooLarge) -> Any:
    """Return the run with the reason why the answer is not exact."""
    why = (
        str(error)
        .split(". Raise the limit")[0]
        .replace("exact inference would need", "exact needs")
    )
    return replace(run, note=f"{run.note}; approximate, because {why}")
