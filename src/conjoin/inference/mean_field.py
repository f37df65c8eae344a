"""Mean field: independent variables that are as close as possible to the model.

In a dependency network each variable follows the expected logarithm of its own CPD (Lowd and Shamaei
2011, the paper's Section 3); the normaliser of a CPD does not depend on its target and cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.inference.chain import possible_form
from conjoin.inference.random_state import RandomState, seed_sequence
from conjoin.inference.results import LogValue, Marginals, Run
from conjoin.inference.terms import no_dependency_network
from conjoin.kernels.mean_field_steps import expected_potential, mean_field
from conjoin.models.network import Network

SOFT_ZERO = -50.0
"""The weight that stands for log 0, which no distribution of independent variables could avoid."""


@dataclass(frozen=True, eq=False)
class _Solution:
    """The best fixed point: distributions of all variables side by side, and the bound of log Z."""

    q: FloatArray
    bound: float
    run: Run
    has_zeros: bool


def _start(
    domain: Domain, evidence: Mapping[int, int], rng: np.random.Generator | None
) -> FloatArray:
    """Return distributions of all variables: uniform, or random; certain where there is evidence."""
    parts = []
    for v, card in enumerate(domain.cards.tolist()):
        if v in evidence:
            parts.append(np.eye(card)[evidence[v]])
        else:
            parts.append(np.full(card, 1 / card) if rng is None else rng.dirichlet(np.ones(card)))
    return np.concatenate(parts) if parts else np.zeros(0)


def _solve(
    model: Network,
    given: Mapping[str, Any] | None,
    starts: int,
    max_sweeps: int,
    tolerance: float,
    random_state: RandomState,
) -> _Solution:
    evidence = model.domain.encode_partial(given or {})
    form = possible_form(model.form, evidence)
    features = form.with_hard_weight(SOFT_ZERO).arrays
    free = np.setdiff1d(np.arange(len(model.domain)), list(evidence)).astype(np.int64)
    rng = np.random.default_rng(seed_sequence(random_state))
    solutions: list[_Solution] = []
    # Without a joint distribution there is no bound by which to choose among several starts.
    for start in range(starts if form.is_joint else 1):
        q = _start(model.domain, evidence, rng if start else None)
        sweeps, change = mean_field(free, features, q, max_sweeps, tolerance)
        positive = q[q > 0]
        bound = form.constant + expected_potential(features, q) - positive @ np.log(positive)
        converged = sweeps <= max_sweeps
        note = f"{min(sweeps, max_sweeps)} sweeps"
        if not converged:
            note += f", not converged (last change {change:.1g})"
        run = Run("mean_field", converged=converged, note=note)
        solutions.append(_Solution(q, float(bound), run, bool(form.hard.any())))
    return max(solutions, key=lambda solution: solution.bound)


def marginals(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] | None = None,
    starts: int = 4,
    max_sweeps: int = 1000,
    tolerance: float = 1e-7,
    random_state: RandomState = 0,
) -> Marginals:
    """Return the distribution of each variable in the closest product of independent ones.

    `starts`: number of starts, the first uniform, the others random; the best bound of log Z is
    kept. `tolerance`: the iteration has converged when no probability changes by more than this in
    a sweep.
    """
    best = _solve(model, given, starts, max_sweeps, tolerance, random_state)
    cards = model.domain.cards
    arrays = np.split(best.q, np.cumsum(cards)[:-1]) if len(cards) else []
    return Marginals(model.domain, arrays, best.run, targets)


def log_partition(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    starts: int = 4,
    max_sweeps: int = 1000,
    tolerance: float = 1e-7,
    random_state: RandomState = 0,
) -> LogValue:
    """Return a lower bound of log Z; the parameters are as for `marginals`."""
    no_dependency_network(model, "mean_field")
    best = _solve(model, given, starts, max_sweeps, tolerance, random_state)
    kind = "an estimate, zeros softened" if best.has_zeros else "a lower bound"
    return LogValue(best.bound, replace(best.run, note=f"{kind}; {best.run.note}"))
