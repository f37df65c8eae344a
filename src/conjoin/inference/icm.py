"""Iterated conditional modes: each variable takes its best state given the others, in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.inference.chain import Sampler
from conjoin.inference.random_state import RandomState, streams
from conjoin.inference.results import Assignment, Run
from conjoin.inference.terms import score
from conjoin.models.network import Network


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    starts: int = 10,
    max_sweeps: int = 1000,
    random_state: RandomState = 0,
) -> Assignment:
    """Return the best of several instances that no change of one variable improves.

    `starts`: number of starts: the first states of all variables, then random ones. `max_sweeps`:
    maximum number of sweeps; a dependency network may never converge.
    """
    domain = model.domain
    sampler = Sampler(model.form, domain.encode_partial(given or {}))
    zero_temperature = np.full(max_sweeps, np.inf)
    best, best_row, converged = -np.inf, np.zeros(len(domain), np.int64), False
    for number, seed in enumerate(streams(random_state, starts)):
        chain = sampler.chain(seed)
        if number == 0:
            chain.set_state(np.zeros(len(domain), np.int64))
        sweeps = chain.run(zero_temperature).sweeps
        value = score(model, chain.state)
        if value > best or number == 0:
            best, best_row, converged = value, chain.state.copy(), sweeps <= max_sweeps
    run = Run("icm", converged=converged, note=f"a local optimum, the best of {starts} starts")
    return Assignment(domain.decode(best_row), best, run)
