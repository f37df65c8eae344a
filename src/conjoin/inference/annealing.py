"""Simulated annealing: Gibbs sampling at a falling temperature, for the most probable instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.inference.chain import Sampler
from conjoin.inference.random_state import RandomState, streams
from conjoin.inference.results import Assignment, Run
from conjoin.inference.terms import as_markov_network
from conjoin.models.network import Network


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    starts: int = 10,
    max_sweeps: int = 300,
    random_state: RandomState = 0,
) -> Assignment:
    """Return the best instance that annealing finds.

    The best state of each run, of those at the end of sweeps, is then improved one variable at a time.

    `max_sweeps`: number of sweeps per run; the inverse temperature rises from 0.1 to 10.
    """
    joint, domain = as_markov_network(model), model.domain
    sampler = Sampler(model.form, domain.encode_partial(given or {}))
    betas = np.geomspace(0.1, 10.0, max_sweeps)
    best, best_row, count = -np.inf, np.zeros(len(domain), np.int64), 0
    for seed in streams(random_state, starts):
        chain = sampler.chain(seed)
        trace = chain.run(betas, draw=True, score=True)
        scores = np.append(trace.scores[1:], chain.log_potential)
        chain.set_state(trace.drawn[scores.argmax()].astype(np.int64))
        chain.run(np.full(max_sweeps, np.inf))
        value = float(joint.log_potential(chain.state[None])[0])
        if value > best + 1e-9:
            best, best_row, count = value, chain.state.copy(), 1
        elif value > best - 1e-9:
            count += 1
    run = Run("annealing", note=f"the best of {starts} runs, found by {count} of them")
    return Assignment(domain.decode(best_row), best, run)
