"""Questions that exact inference has no room for: which approximation to trust, and how far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from conjoin.errors import ModelError
from conjoin.inference.methods import engine, fitting
from conjoin.inference.plan import TooLarge
from conjoin.inference.results import Assignment, LogValue, Marginals
from conjoin.models.network import Network

GIBBS_FEATURES = 50_000
"""Chains that disagree go on for ten times as long if the model has no more features than this."""

ILP_SECONDS = 20.0
"""How long `method="auto"` looks for the most probable instance by integer programming."""

ILP_FEATURES = 20_000
"""Models of more features are not given to integer programming by `method="auto"`."""


def trusted_marginals(
    other: str,
    model: Network,
    given: Mapping[str, Any] | None,
    targets: Sequence[str] | None,
    options: dict[str, Any],
) -> Marginals:
    """Return marginals of Gibbs sampling if its chains agree, else of another engine.

    Both are asked, so that the answer can say how far they are apart.
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
            break  # sampling found no instance that is possible
        if sampled.run.converged:
            break
    if sampled is None:
        doubt = "; not sure: sampling found no instance that is possible to compare it with"
        fixed.run = replace(fixed.run, note=fixed.run.note + doubt)
        return fixed
    apart = max(np.abs(sampled.array(n) - fixed.array(n)).max() for n in model.domain.names)
    if sampled.run.converged or not fixed.run.converged:
        told = f"; {other} differs by up to {apart:.2g}" if sampled.run.converged else ""
        sampled.run = replace(sampled.run, note=sampled.run.note + told)
        return sampled
    doubt = f"; not sure: Gibbs chains disagree, and differ from this by up to {apart:.2g}"
    fixed.run = replace(fixed.run, note=fixed.run.note + doubt)
    return fixed


def trusted_log_partition(
    model: Network, given: Mapping[str, Any] | None, options: dict[str, Any]
) -> LogValue:
    """Return log Z by annealed importance sampling; by belief propagation if hardly a chain counts."""
    found: LogValue = engine("log_partition", "ais")(
        model, given, **fitting("log_partition", "ais", options)
    )
    if found.run.converged:
        return found
    other: LogValue = engine("log_partition", "bp")(
        model, given, **fitting("log_partition", "bp", options)
    )
    if other.run.exact:
        return other
    if not other.run.converged:
        return found
    doubt = f"; not sure: ais, of which hardly a chain counts, says {found.value:.6g}"
    return replace(other, run=replace(other.run, note=other.run.note + doubt))


def search(model: Network, given: Mapping[str, Any] | None, options: dict[str, Any]) -> Assignment:
    """Anneal, and try to do better, or to prove that nothing is better, by integer programming."""
    from conjoin.inference.operands import as_markov_network

    found: Assignment = engine("most_probable", "annealing")(
        model, given, **fitting("most_probable", "annealing", options)
    )
    size = len(as_markov_network(model).to_features().features)
    if size > ILP_FEATURES:
        return found
    try:
        limits = {"time_limit": ILP_SECONDS, **fitting("most_probable", "ilp", options)}
        proved: Assignment = engine("most_probable", "ilp")(model, given, **limits)
    except ModelError:
        return found
    if proved.score >= found.score:
        return proved
    return replace(found, bound=max(found.score, proved.bound))


def explained(run: Any, error: TooLarge) -> Any:
    """Say why the answer is not exact."""
    why = str(error).split(". Give more")[0].replace("exact inference would need", "exact needs")
    return replace(run, note=f"{run.note}; approximate, because {why}")
