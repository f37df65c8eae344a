"""The log-likelihood of a table as a function of a network's weights, by exact inference."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.operands import Operands
from conjoin.inference.plan import MAX_MEMORY, Plan, TooLarge, find_order
from conjoin.models.features import Features
from conjoin.models.markov import TableFactor

LEAST = 1e-3
"""The least curvature a row, for features that hardly vary."""

CELLS = 64
"""Features over the same variables are one table if that has at most so many cells a feature."""

LARGEST = 1 << 12
"""Larger tables are not made of features."""


class Likelihood:
    """Value and gradient of the log-likelihood of a table; what `Objective` is for pseudo-likelihood.

    The gradient is what the table's rows hold of each feature less what the network expects (the
    paper's Section 2.2).

    Parameters
    ----------
    features : Features
        Their weights are what is sought; those that are -inf stay as they are.
    table : Table
        The rows, without missing values.
    expect : Expectations, optional
        Those of the features, if there are some already.
    """

    def __init__(
        self, features: Features, table: Table, expect: Expectations | None = None
    ) -> None:
        if (table.codes == table.missing).any():
            raise ModelError(
                "the likelihood of rows with missing values is not known; fill them in"
            )
        self.free: BoolArray = np.isfinite(features.weights)
        self.weight = float(len(table) if table.weights is None else table.weights.sum())
        self.sums = features.sums(table.codes, table.weights)
        if (self.sums[~self.free] > 0).any():
            raise ModelError(
                "a row of the table is impossible under the network's hard constraints; "
                "weights cannot be learned from it"
            )
        self.expect = Expectations(features) if expect is None else expect

    def value(self, weights: FloatArray) -> float:
        """Return the log-likelihood."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the same with its gradient; of fixed weights it is 0."""
        log_z, means = self.expect(weights)
        free = self.free
        value = float(self.sums[free] @ weights[free]) - self.weight * log_z
        return value, np.where(free, self.sums - self.weight * means, 0.0)

    def curvature(self) -> FloatArray:
        """Return a rough second derivative by each weight: the variance of its feature in the rows."""
        share = self.sums / self.weight
        return self.weight * np.maximum(share * (1 - share), LEAST)


class Expectations:
    """What a network expects of its features, for any weights; planned once.

    Features over the same variables are added up in one table of exact inference, unless that is large.

    Parameters
    ----------
    features : Features
        The features.
    """

    def __init__(self, features: Features) -> None:
        cards = features.tests.cards
        self.in_tables, self.spread, tables = _tables(features)
        self.alone = np.setdiff1d(np.arange(len(features)), self.in_tables)
        operands = Operands.of(cards, tables, features.select(self.alone))
        single = np.flatnonzero(cards == 1)
        order = find_order(cards, operands.indptr, operands.var, single, MAX_MEMORY)
        if order.total * 8 > MAX_MEMORY:
            raise TooLarge(
                "the likelihood takes exact inference, and the network is too dense for it; make it "
                "thin first (`thin`), or learn by pseudo-likelihood"
            )
        self.plan = Plan(operands, order, np.ones(len(operands.indptr) - 1, bool))
        self.given = np.zeros(len(single), np.int64)
        self.last: tuple[bytes, float, FloatArray] | None = None

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return log Z and the mean of each feature."""
        key = weights.tobytes()
        if self.last is None or self.last[0] != key:
            operands = self.plan.operands
            operands.values[:] = self.spread @ weights[self.in_tables]
            operands.weights[:] = weights[self.alone]
            log_z, shares, found = self.plan.expect(self.given)
            means = np.empty(len(weights))
            means[self.in_tables] = self.spread.T @ shares
            means[self.alone] = found
            self.last = (key, log_z, means)
        return self.last[1], self.last[2]


def _tables(features: Features) -> tuple[IntArray, Any, list[TableFactor]]:
    """Sort features by their variables.

    Returns
    -------
    features : array of int
        Those that go into tables.
    spread : sparse array
        Cells of all tables by these features: what each adds to a cell.
    tables : list of TableFactor
        The tables, empty.
    """
    from scipy import sparse

    cards = features.tests.cards
    members, off = features.tests.members(), features.off_values()
    chosen: list[int] = []
    tables, cells, columns, values = [], [], [], []
    size = 0
    for scope, which in _scopes(features).items():
        shape = cards[list(scope)]
        for f in which:
            numbers = [np.ones(card) for card in shape]
            for e in range(*features.indptr[f : f + 2].tolist()):
                axis = scope.index(features.entry_var[e])
                holds = members[features.indices[e], : shape[axis]]
                numbers[axis] = np.where(holds, 1.0, off[e])
            block = reduce(np.multiply.outer, numbers).ravel()
            held = np.flatnonzero(block)
            cells.append(size + held)
            columns.append(np.full(len(held), len(chosen)))
            values.append(block[held])
            chosen.append(f)
        tables.append(TableFactor(scope, np.zeros(shape)))
        size += tables[-1].table.size
    if not chosen:
        return np.zeros(0, np.int64), sparse.csr_array((0, 0)), []
    place = (np.concatenate(cells), np.concatenate(columns))
    spread = sparse.csr_array((np.concatenate(values), place), shape=(size, len(chosen)))
    return np.array(chosen, np.int64), spread, tables


def _scopes(features: Features) -> dict[tuple[int, ...], list[int]]:
    """Return the features of each table; a scope inside that of another small table joins that."""
    scopes: dict[tuple[int, ...], list[int]] = {}
    for f in range(len(features)):
        part = slice(features.indptr[f], features.indptr[f + 1])
        scopes.setdefault(tuple(features.entry_var[part].tolist()), []).append(f)
    size = {s: features.tests.cards[list(s)].prod(dtype=float) for s in scopes}
    small = [s for s in scopes if s and size[s] <= min(LARGEST, CELLS * len(scopes[s]))]
    result: dict[tuple[int, ...], list[int]] = {}
    around: dict[int, list[tuple[int, ...]]] = {}
    for scope in sorted(small, key=len, reverse=True):
        inside = set(scope)
        hosts = [s for s in around.get(scope[0], []) if inside.issubset(s)]
        host = min(hosts, key=lambda s: size[s], default=scope)
        if host is scope:
            for v in scope:
                around.setdefault(v, []).append(scope)
        result.setdefault(host, []).extend(scopes[scope])
    return result
