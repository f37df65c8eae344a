"""The most probable instance as an integer program, solved by HiGHS, with the remaining gap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.inference.results import Assignment, Run
from conjoin.inference.terms import as_markov_network, no_dependency_network, score
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

    `gap`: the relative gap between the best instance and the bound at which to stop.
    """
    no_dependency_network(model, "ilp")
    given = dict(given or {})
    reduced = as_markov_network(model).condition(given).to_features().merged()
    features, cards = _hardened(reduced.features), reduced.domain.cards
    constant = float(features.weights[features.lengths == 0].sum())
    if constant == -np.inf:
        raise impossible(given)
    features = features.select(np.flatnonzero(features.lengths > 0))
    if not len(cards):
        row = _complete(model, given, [])
        return Assignment(model.domain.decode(row), constant, Run("ilp", exact=True), constant)
    solution = _solve(features, cards, time_limit, gap)
    if solution.status == 2:
        raise impossible(given)
    if solution.x is None:
        raise ModelError(
            f"no instance was found in {time_limit:g} s; allow more with time_limit, or use "
            "method='annealing'"
        )
    chosen = np.split(solution.x[: cards.sum()], np.cumsum(cards)[:-1])
    row = _complete(model, given, [int(part.argmax()) for part in chosen])
    best = score(model, row)
    dual = solution.mip_dual_bound if solution.mip_dual_bound is not None else solution.fun
    bound = max(best, constant - float(dual))
    done = solution.status == 0
    note = "" if done else f"stopped after {time_limit:g} s, {bound - best:.3g} nats from the bound"
    run = Run("ilp", exact=done, converged=done, note=note)
    return Assignment(model.domain.decode(row), best, run, bound=bound)


def _solve(features: Features, cards: IntArray, time_limit: float, gap: float) -> Any:
    """Solve the integer program: one column per state, then one per feature of finite weight.

    A column is 1 if the state is chosen, or if the feature holds.
    """
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    tests, weights, n_states = features.tests, features.weights, int(cards.sum())
    first = np.concatenate([[0], np.cumsum(cards)])
    variables = sparse.csr_array((np.ones(n_states), np.arange(n_states), first))
    test, state = np.nonzero(tests.members())
    at = (test, first[tests.var[test]] + state)
    states = sparse.csr_array((np.ones(len(test)), at), shape=(len(tests), n_states))
    tested = sparse.csr_array(
        (np.ones(len(features.indices)), features.indices, features.indptr),
        shape=(len(features), len(tests)),
    )
    finite = np.flatnonzero(np.isfinite(weights))
    holds = sparse.eye_array(len(features), format="csr")[:, finite]
    entry_feature = features.entry_feature
    entry = np.flatnonzero(weights[entry_feature] > 0)
    others = np.flatnonzero(~(weights > 0))
    blocks = [
        [variables, sparse.csr_array((len(cards), len(finite)))],  # each has one state
        [-states[features.indices[entry]], holds[entry_feature[entry]]],  # only if each test holds
        [(tested @ states)[others], -holds[others]],  # if all tests hold; never if it has no column
    ]
    high = np.concatenate([np.ones(len(cards)), np.zeros(len(entry)), features.lengths[others] - 1])
    low = np.where(np.arange(len(high)) < len(cards), 1.0, -np.inf)
    matrix = sparse.vstack([sparse.hstack(line) for line in blocks], format="csr")
    return milp(
        np.concatenate([np.zeros(n_states), -weights[finite]]),
        integrality=(np.arange(matrix.shape[1]) < n_states).astype(np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(matrix, low, high),
        options={"time_limit": time_limit, "mip_rel_gap": gap},
    )


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
