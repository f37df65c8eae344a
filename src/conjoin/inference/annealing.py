"""Simulated annealing: Gibbs sampling while the temperature falls, for the most probable instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.inference.results import Assignment, Run
from conjoin.inference.sites import Sites, no_dependency_network, score
from conjoin.models.network import Network


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    starts: int = 10,
    max_sweeps: int = 300,
    seed: int | np.random.Generator = 0,
) -> Assignment:
    """Return the best instance that annealing met.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    given : mapping, optional
        The evidence.
    starts : int
        The number of runs.
    max_sweeps : int
        The sweeps of each; the inverse temperature rises from 0.1 to 10.
    seed : int or Generator
        The random numbers.
    """
    from conjoin.kernels.sites import anneal, climb

    no_dependency_network(model, "annealing")
    sites = Sites.of(model, given)
    rng = np.random.default_rng(seed)
    betas = np.geomspace(0.1, 10.0, max_sweeps)
    best, best_row, met = -np.inf, sites.row(), 0
    for _ in range(starts):
        row, found = sites.row(rng), sites.row()
        state = rng.integers(0, 2**64 - 1, 1, np.uint64)
        anneal(sites.arrays, row, betas, state, found)
        climb(sites.arrays, found, max_sweeps)
        value = score(model, found)
        if value > best + 1e-9:
            best, best_row, met = value, found, 1
        elif value > best - 1e-9:
            met += 1
    run = Run("annealing", note=f"the best of {starts} runs, met by {met} of them")
    return Assignment(model.domain.decode(best_row), best, run)
