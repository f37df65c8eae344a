"""Mean field: independent variables that are as close as they can be to the model.

In a dependency network each variable follows the expected logarithm of its own CPD (Lowd and Shamaei
2011, the paper's Section 3); the normaliser of a CPD does not depend on its target and falls away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.inference.results import LogValue, Marginals, Run
from conjoin.inference.sites import Sites, no_dependency_network
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network

SOFT_ZERO = -50.0
"""What stands for log 0, which no distribution of independent variables could avoid."""


def _solve(
    model: Network,
    given: Mapping[str, Any] | None,
    starts: int,
    max_sweeps: int,
    tolerance: float,
    seed: int | np.random.Generator,
) -> tuple[Sites, FloatArray, float, Run]:
    from conjoin.kernels.sites import expected_total, mean_field

    sites = Sites.of(model, given, hard=SOFT_ZERO)
    rng = np.random.default_rng(seed)
    best, best_q, best_run = -np.inf, sites.distributions(), Run("mean_field")
    for start in range(starts):
        q = sites.distributions(rng if start else None)
        sweeps, change = mean_field(sites.arrays, sites.first, q, max_sweeps, tolerance)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.where(q > 0, q * np.log(q), 0.0).sum()
        bound = expected_total(sites.arrays, sites.first, q) + entropy
        if bound > best:
            ended = sweeps <= max_sweeps
            told = f"{min(sweeps, max_sweeps)} sweeps" + (
                "" if ended else f", not at rest (last change {change:.1g})"
            )
            best, best_q, best_run = bound, q, Run("mean_field", converged=ended, note=told)
        if isinstance(model, DependencyNetwork):
            break  # there is no bound by which to choose among several starts
    return sites, best_q, float(best), best_run


def marginals(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] | None = None,
    starts: int = 4,
    max_sweeps: int = 1000,
    tolerance: float = 1e-7,
    seed: int | np.random.Generator = 0,
) -> Marginals:
    """Return the distribution of each variable in the closest product of independent ones.

    Parameters
    ----------
    model : Network
        Any kind of model.
    given : mapping, optional
        The evidence.
    targets : sequence of str, optional
        The variables that are asked for; by default all.
    starts : int
        The iteration is started evenly, and then at random; the best bound of log Z is kept.
    max_sweeps : int
        When to give up.
    tolerance : float
        The iteration rests when no probability changes by more than this.
    seed : int or Generator
        The random numbers.
    """
    sites, q, _, run = _solve(model, given, starts, max_sweeps, tolerance, seed)
    names = None if targets is None else tuple(targets)
    return Marginals(model.domain, sites.split(q), run, names)


def log_partition(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    starts: int = 4,
    max_sweeps: int = 1000,
    tolerance: float = 1e-7,
    seed: int | np.random.Generator = 0,
) -> LogValue:
    """Return a lower bound of log Z; parameters are those of `marginals`."""
    no_dependency_network(model, "mean_field")
    sites, _, bound, run = _solve(model, given, starts, max_sweeps, tolerance, seed)
    weights = sites.arrays[4]
    kind = "an estimate, zeros softened" if (weights == SOFT_ZERO).any() else "a lower bound"
    return LogValue(bound, Run(run.method, converged=run.converged, note=f"{kind}; {run.note}"))
