"""The most probable instance as an integer program, solved by HiGHS, with the remaining gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.inference.instances import no_dependency_network, score
from conjoin.inference.results import Assignment, Run
from conjoin.inference.terms import as_markov_network
from conjoin.models.features import Features
from conjoin.models.network import Network

MAX_SOFT_LENGTH = 10
"""A feature with off values of at most this length is expanded into conjunctions."""


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    time_limit: float = 60.0,
    gap: float = 1e-9,
) -> Assignment:
    """Return the most probable instance, or the best one found in time, with a bound.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    given : mapping, optional
        The evidence.
    time_limit : float
        In seconds.
    gap : float
        The relative gap between the best instance and the bound at which to stop.
    """
    no_dependency_network(model, "ilp")
    given = dict(given or {})
    reduced = as_markov_network(model).condition(given).to_features().merged()
    features, cards = _hardened(reduced.features), reduced.domain.cards
    constant = float(features.weights[features.lengths == 0].sum())
    if constant == -np.inf:
        raise impossible(given)
    program = _Program(features.select(np.flatnonzero(features.lengths > 0)), cards)
    if not len(program.cost):
        row = _complete(model, given, [])
        return Assignment(model.domain.decode(row), constant, Run("ilp", exact=True), constant)
    found = program.solve(time_limit, gap)
    if found.status == 2:
        raise impossible(given)
    if found.x is None:
        raise ModelError(
            f"no instance was found in {time_limit:g} s; allow more with time_limit, or use "
            "method='annealing'"
        )
    row = _complete(model, given, program.states(found.x))
    best = score(model, row)
    dual = found.mip_dual_bound if found.mip_dual_bound is not None else found.fun
    bound = max(best, constant - float(dual))
    done = found.status == 0
    note = "" if done else f"stopped after {time_limit:g} s, {bound - best:.3g} nats from the bound"
    run = Run("ilp", exact=done, converged=done, note=note)
    return Assignment(model.domain.decode(row), best, run, bound=bound)


class _Program:
    """The integer program: one column per state, then one per feature of finite weight.

    A column is 1 if the state is chosen, or if the feature holds.
    """

    def __init__(self, features: Features, cards: IntArray) -> None:
        self.first = np.concatenate([[0], np.cumsum(cards)])
        self.n_states = int(self.first[-1])
        self.columns: list[list[int]] = []
        self.values: list[list[float]] = []
        self.low: list[float] = []
        self.high: list[float] = []
        for v in range(len(cards)):
            states = list(range(self.first[v], self.first[v + 1]))
            self._add(states, [1.0] * len(states), 1.0, 1.0)
        barred = np.isneginf(features.weights)
        column = np.full(len(features), -1)
        column[~barred] = self.n_states + np.arange(np.count_nonzero(~barred))
        members = features.tests.members()
        for f, (weight, tests) in enumerate(features):
            parts = []
            for test in tests.tolist():
                v = int(features.tests.var[test])
                inside = np.flatnonzero(members[test, : cards[v]])
                parts.append((self.first[v] + inside).tolist())
            self._add_feature(int(column[f]), weight, parts)
        self.cost = np.concatenate([np.zeros(self.n_states), -features.weights[~barred]])

    def _add(self, columns: list[int], values: list[float], low: float, high: float) -> None:
        """Add the constraint low <= values . columns <= high."""
        self.columns.append(columns)
        self.values.append(values)
        self.low.append(low)
        self.high.append(high)

    def _add_feature(self, column: int, weight: float, parts: list[list[int]]) -> None:
        """Link a feature with the states, per test, in which it holds."""
        together = [c for part in parts for c in part]
        ones = [1.0] * len(together)
        if weight == -np.inf:
            self._add(together, ones, -np.inf, len(parts) - 1)
        elif weight > 0:  # it holds only if each test does
            for part in parts:
                self._add([column, *part], [1.0, *[-1.0] * len(part)], -np.inf, 0.0)
        else:  # it holds if all tests do
            self._add([*together, column], [*ones, -1.0], -np.inf, len(parts) - 1)

    def solve(self, time_limit: float, gap: float) -> Any:
        """Return the result of the solver."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        first = np.concatenate([[0], np.cumsum([len(c) for c in self.columns])])
        flat = (np.concatenate(self.values), np.concatenate(self.columns), first)
        matrix = csr_array(flat, shape=(len(self.low), len(self.cost)))
        integral = np.arange(len(self.cost)) < self.n_states
        return milp(
            self.cost,
            integrality=integral.astype(np.int64),
            bounds=Bounds(0.0, 1.0),
            constraints=LinearConstraint(matrix, self.low, self.high),
            options={"time_limit": time_limit, "mip_rel_gap": gap},
        )

    def states(self, solution: FloatArray) -> list[int]:
        """Return the state of each variable in a solution."""
        parts = np.split(solution[: self.n_states], self.first[1:-1])
        return [int(np.argmax(part)) for part in parts]


def _complete(model: Network, given: Mapping[str, Any], states: list[int]) -> Any:
    codes = model.domain.encode_partial(given)
    row = np.zeros(len(model.domain), np.int64)
    free = [v for v in range(len(model.domain)) if v not in codes]
    row[free] = states
    row[list(codes)] = list(codes.values())
    return row


def _hardened(features: Features) -> Features:
    """Expand features with off values into conjunctions: a test is (1 - off) * [test] + off."""
    soft = features.soft_rows()
    if not soft.any():
        return features
    plain = features.select(np.flatnonzero(~soft))
    parts = [Features(plain.tests, plain.indptr, plain.indices, plain.weights)]
    for f in np.flatnonzero(soft).tolist():
        entries = slice(features.indptr[f], features.indptr[f + 1])
        tests, off = features.indices[entries], features.off_values()[entries]
        if len(tests) > MAX_SOFT_LENGTH:
            raise ModelError(
                f"a feature of {len(tests)} tests with off values is too long for an integer "
                "program; convert with a larger max_length, or use method='annealing'"
            )
        subsets = np.arange(1 << len(tests))[:, None] >> np.arange(len(tests)) & 1
        weights = features.weights[f] * np.where(subsets == 1, 1 - off, off).prod(axis=1)
        kept = np.flatnonzero(weights != 0)
        chosen: list[FloatArray] = [tests[subsets[k] == 1] for k in kept]
        indptr = np.concatenate([[0], np.cumsum([len(c) for c in chosen])])
        indices = np.concatenate(chosen).astype(np.int32)
        parts.append(Features(features.tests, indptr, indices, weights[kept]))
    return Features.concatenate(parts).merged().nonzero()
