"""Annealed importance sampling: an estimate of log Z with its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.errors import ModelError
from conjoin.inference.results import LogValue, Run
from conjoin.inference.sites import Sites, no_dependency_network
from conjoin.inference.terms import as_markov_network
from conjoin.models.network import Network
from conjoin.progress import progress

SOFT_ZERO = -30.0
"""What stands for log 0 on the way, so that chains can pass; the end is taken with the true zeros."""


def log_partition(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    chains: int = 100,
    steps: int = 1000,
    seed: int | np.random.Generator = 0,
) -> LogValue:
    """Estimate log Z by chains that go from the even distribution to the model.

    The error is the spread of the chains that were run. Where strong couplings or zeros keep all of them
    away from a part of the distribution it is too small, and the estimate most often too low: the result
    says so where there are zeros, or where a few chains bear most of the weight.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    given : mapping, optional
        The evidence.
    chains : int
        The number of independent chains; the error falls with its square root.
    steps : int
        The number of distributions on the way, a sweep of Gibbs sampling each.
    seed : int or Generator
        The random numbers.
    """
    from conjoin.kernels.sites import annealed_weights

    no_dependency_network(model, "ais")
    rng = np.random.default_rng(seed)
    sites = Sites.of(model, given, hard=SOFT_ZERO)
    betas = np.linspace(0.0, 1.0, steps + 1)
    seeds = rng.integers(0, 2**64 - 1, chains, np.uint64)
    rows = np.tile(sites.row(), (chains, 1))
    log_weights = np.empty(chains)
    for part in progress(np.array_split(np.arange(chains), min(chains, 20)), "annealing"):
        some, ends = np.empty(len(part)), rows[part]
        annealed_weights(sites.arrays, betas, seeds[part], ends, some)
        log_weights[part], rows[part] = some, ends
    zeros = (sites.arrays[4] == SOFT_ZERO).any()
    if zeros:  # the last step goes from soft zeros to hard ones
        codes = rows.astype(np.uint16)
        ends_in_zero = as_markov_network(model).log_potential(codes) == -np.inf
        log_weights[ends_in_zero] = -np.inf
    log_weights += np.log(model.domain.cards[sites.free]).sum()
    top = log_weights.max()
    if top == -np.inf:
        raise ModelError(
            "no chain of annealed importance sampling met a possible instance: the evidence is "
            "impossible, or nearly so; ask exact inference"
        )
    weights = np.exp(log_weights - top)
    mean = weights.mean()
    error = float(weights.std(ddof=1) / mean / np.sqrt(chains)) if chains > 1 else np.inf
    if zeros:  # chains that end in zeros may not have been met
        error = float(np.hypot(error, 1 / chains))
    effective = weights.sum() ** 2 / (weights**2).sum()
    note = f"{chains} chains of {steps} steps, worth {effective:.0f}"
    if zeros or effective < chains / 2:
        note += "; the error may be larger than stated"
    run = Run("ais", converged=bool(effective >= chains / 10), note=note)
    return LogValue(float(top + np.log(mean)), run, error=error)
