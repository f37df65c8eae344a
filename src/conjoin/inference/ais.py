"""Annealed importance sampling: an estimate of log Z with its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.errors import ModelError
from conjoin.inference.chain import Sampler
from conjoin.inference.random_state import RandomState, streams
from conjoin.inference.results import LogValue, Run
from conjoin.inference.terms import as_markov_network
from conjoin.models.network import Network
from conjoin.progress import progress

SOFT_ZERO = -30.0
"""The weight that stands for log 0 on the way, so that chains can pass through impossible states; those
that end in one get a weight of 0."""


def log_partition(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    chains: int = 100,
    steps: int = 1000,
    random_state: RandomState = 0,
) -> LogValue:
    """Estimate log Z by chains that go from the uniform distribution to the model.

    The error is computed from the spread of the chains. Where strong couplings or zeros keep all of
    them away from a part of the distribution it is too small, and the estimate is usually too low: the
    result says so if there are zeros or if a few chains carry most of the weight.

    `chains`: number of independent chains; the error falls with its square root. `steps`: number of
    intermediate distributions, with one sweep of Gibbs sampling each.
    """
    as_markov_network(model)  # or an error
    domain = model.domain
    evidence = domain.encode_partial(given or {})
    sampler = Sampler(model.form, evidence, hard_weight=SOFT_ZERO)
    betas = np.linspace(0.0, 1.0, steps + 1)
    log_weights = np.empty(chains)
    for k, seed in progress(list(enumerate(streams(random_state, chains))), "annealing"):
        chain = sampler.chain(seed)
        trace = chain.run(betas[1:], score=True)
        log_weights[k] = np.diff(betas) @ trace.scores
        if not chain.is_possible():
            log_weights[k] = -np.inf
    free = np.setdiff1d(np.arange(len(domain)), list(evidence))
    log_weights += sampler.constant + np.log(domain.cards[free]).sum()
    top = log_weights.max()
    if top == -np.inf:
        raise ModelError(
            "no chain of annealed importance sampling ended in a possible instance: the evidence is "
            "impossible, or nearly so; use exact inference"
        )
    weights = np.exp(log_weights - top)
    mean = weights.mean()
    error = float(weights.std(ddof=1) / mean / np.sqrt(chains)) if chains > 1 else np.inf
    zeros = bool(sampler.hard.any())
    if zeros:  # possible states that no chain reached would not show in the spread
        error = float(np.hypot(error, 1 / chains))
    effective = weights.sum() ** 2 / (weights**2).sum()
    note = f"{chains} chains of {steps} steps, effective number of chains {effective:.0f}"
    if zeros or effective < chains / 2:
        note += "; the error may be larger than stated"
    run = Run("ais", converged=bool(effective >= chains / 10), note=note)
    return LogValue(float(top + np.log(mean)), run, error=error)
