"""The most probable instance as an integer program, solved by HiGHS, with the gap that is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.inference.instances import no_dependency_network, score
from conjoin.inference.operands import as_markov_network
from conjoin.inference.results import Assignment, Run
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network

MAX_SOFT_LENGTH = 10
"""A feature with off values is written out into at most 2 to this number of others."""


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    time_limit: float = 60.0,
    gap: float = 1e-9,
) -> Assignment:
    """Return the most probable instance, or the best found in time, with a bound.

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
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    no_dependency_network(model, "ilp")
    given = dict(given or {})
    reduced = as_markov_network(model).condition(given).to_features().merged()
    features = _hardened(reduced.features)
    cards = reduced.domain.cards
    first = np.concatenate([[0], np.cumsum(cards)])
    constant = float(features.weights[features.lengths == 0].sum())
    if constant == -np.inf:
        raise impossible(given)
    features = features.select(np.flatnonzero(features.lengths > 0))
    n_states, n_free = int(first[-1]), len(cards)
    barred = np.isneginf(features.weights)
    # One column a state, then one a feature of finite weight: whether it holds.
    column = np.full(len(features), -1)
    column[~barred] = n_states + np.arange((~barred).sum())
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    low: list[float] = []
    high: list[float] = []

    def add(row: list[tuple[int, float]], bottom: float, top: float) -> None:
        rows.extend([len(low)] * len(row))
        columns.extend(c for c, _ in row)
        values.extend(v for _, v in row)
        low.append(bottom)
        high.append(top)

    for v in range(n_free):
        add([(s, 1.0) for s in range(first[v], first[v + 1])], 1.0, 1.0)
    members = features.tests.members()
    for f, (weight, tests) in enumerate(features):
        parts = []
        for test in tests.tolist():
            v = int(features.tests.var[test])
            inside = np.flatnonzero(members[test, : cards[v]])
            parts.append([(int(first[v] + s), 1.0) for s in inside])
        together = [term for part in parts for term in part]
        if barred[f]:
            add(together, -np.inf, len(parts) - 1)
        elif weight > 0:  # it holds only if each test does
            for part in parts:
                add([(column[f], 1.0), *((c, -1.0) for c, _ in part)], -np.inf, 0.0)
        else:  # it holds if all of them do
            add([*together, (column[f], -1.0)], -np.inf, len(parts) - 1)
    cost = np.concatenate([np.zeros(n_states), -features.weights[~barred]])
    if not len(cost):
        row = _complete(model, given, [])
        return Assignment(model.domain.decode(row), constant, Run("ilp", exact=True), constant)
    matrix = csr_array((values, (rows, columns)), shape=(len(low), len(cost)))
    whole = np.concatenate([np.ones(n_states), np.zeros(len(cost) - n_states)])
    found = milp(
        cost,
        integrality=whole,
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(matrix, low, high),
        options={"time_limit": time_limit, "mip_rel_gap": gap},
    )
    if found.status == 2:
        raise impossible(given)
    if found.x is None:
        raise ModelError(
            f"no instance was found in {time_limit:g} s; give more with time_limit, or use "
            "method='annealing'"
        )
    states = [int(np.argmax(found.x[first[v] : first[v + 1]])) for v in range(n_free)]
    row = _complete(model, given, states)
    best = score(model, row)
    dual = found.mip_dual_bound if found.mip_dual_bound is not None else found.fun
    bound = max(best, constant - float(dual))
    done = found.status == 0
    note = "" if done else f"stopped after {time_limit:g} s, {bound - best:.3g} nats from the bound"
    run = Run("ilp", exact=done, converged=done, note=note)
    return Assignment(model.domain.decode(row), best, run, bound=bound)


def _complete(model: Network, given: Mapping[str, Any], states: list[int]) -> Any:
    codes = model.domain.encode_partial(given)
    row = np.zeros(len(model.domain), np.int64)
    free = [v for v in range(len(model.domain)) if v not in codes]
    row[free] = states
    row[list(codes)] = list(codes.values())
    return row


def _hardened(features: Features) -> Features:
    """Write features with off values as conjunctions: each test is (1 - off) * [test] + off."""
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
    return MarkovNetwork.merged(  # equal conjunctions become one
        MarkovNetwork(_numbered(features), Features.concatenate(parts))
    ).features


def _numbered(features: Features) -> Any:
    from conjoin.data.domain import Domain

    return Domain.numbered(features.tests.cards)
