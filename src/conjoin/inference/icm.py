"""Iterated conditional modes: each variable takes its best state given the others, in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.inference.results import Assignment, Run
from conjoin.inference.sites import Sites, score
from conjoin.models.network import Network


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    starts: int = 10,
    max_sweeps: int = 1000,
    seed: int | np.random.Generator = 0,
) -> Assignment:
    """Return the best of several instances that no change of one variable improves.

    Parameters
    ----------
    model : Network
        Any kind of model.
    given : mapping, optional
        The evidence.
    starts : int
        How many starts: the first states of all variables, then random ones.
    max_sweeps : int
        When to give up; a dependency network may never come to rest.
    seed : int or Generator
        The random numbers.
    """
    from conjoin.kernels.sites import climb

    sites = Sites.of(model, given)
    rng = np.random.default_rng(seed)
    best, best_row, ended = -np.inf, sites.row(), False
    for start in range(starts):
        row = sites.row(rng if start else None)
        sweeps = climb(sites.arrays, row, max_sweeps)
        value = score(model, row)
        if value > best or start == 0:
            best, best_row, ended = value, row, sweeps <= max_sweeps
    run = Run("icm", converged=ended, note=f"a local optimum, the best of {starts} starts")
    return Assignment(model.domain.decode(best_row), best, run)
