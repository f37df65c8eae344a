"""The log-likelihood of a table as a function of a network's weights, by exact inference."""

from __future__ import annotations

from dataclasses import dataclass
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

LARGEST, MOST_CELLS = 1 << 13, 1 << 21
"""Features over the same variables are one table of at most so many cells, and all tables of so many."""

SMALL, DENSE = 256, 4
"""Tables in one clique are joined up to this size, or to so many times the cells that they have."""


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

    Features over the same variables are added up in one table of exact inference, unless it is large.

    Parameters
    ----------
    features : Features
        The features.
    """

    def __init__(self, features: Features) -> None:
        cards = features.tests.cards
        single = np.flatnonzero(cards == 1)
        scopes = (features.indptr.astype(np.int64), features.entry_var.astype(np.int64))
        order = find_order(cards, *scopes, single, MAX_MEMORY)
        if order.total * 8 > MAX_MEMORY:
            raise TooLarge(
                "the likelihood takes exact inference, and the network is too dense for it; make it "
                "thin first (`thin`), or learn by pseudo-likelihood"
            )
        self.in_tables, self.spread, tables = _tables(features, order.ranks())
        self.alone = np.setdiff1d(np.arange(len(features)), self.in_tables)
        operands = Operands.of(cards, tables, features.select(self.alone))
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


def _tables(features: Features, rank: IntArray) -> tuple[IntArray, Any, list[TableFactor]]:
    """Sort features by their variables, which are eliminated in the order of `rank`.

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

    cards, off = features.tests.cards, features.off_values()
    inside = [
        np.flatnonzero(row[: cards[v]])
        for row, v in zip(features.tests.members(), features.tests.var.tolist(), strict=True)
    ]
    indptr, indices, entry_var = (
        a.tolist() for a in (features.indptr, features.indices, features.entry_var)
    )
    soft = features.soft_rows()
    chosen: list[int] = []
    tables, cells, values = [], [], []
    size = 0
    for scope, which in _scopes(features, rank).items():
        table = np.zeros(cards[list(scope)])
        strides = dict(zip(scope, [s // 8 for s in table.strides], strict=True))
        every = {v: np.arange(cards[v]) * strides[v] for v in scope}
        for f in which:
            entries = range(indptr[f], indptr[f + 1])
            places = dict(every)
            if not soft[f]:  # only the cells on which the conjunction holds
                for e in entries:
                    v = entry_var[e]
                    places[v] = inside[indices[e]] * strides[v]
            cell = reduce(np.add.outer, places.values()).ravel()
            value = np.ones(len(cell))
            if soft[f]:
                for e in entries:
                    v = entry_var[e]
                    holds = np.isin(cell // strides[v] % cards[v], inside[indices[e]])
                    value *= np.where(holds, 1.0, off[e])
            cells.append(size + cell)
            values.append(value)
            chosen.append(f)
        tables.append(TableFactor(scope, table))
        size += table.size
    if not chosen:
        return np.zeros(0, np.int64), sparse.csr_array((0, 0)), []
    column = np.repeat(np.arange(len(chosen)), [len(c) for c in cells])
    place = (np.concatenate(cells), column)
    spread = sparse.csr_array((np.concatenate(values), place), shape=(size, len(chosen)))
    spread.eliminate_zeros()  # times -inf they would be no number
    return np.array(chosen, np.int64), spread, tables


def _scopes(features: Features, rank: IntArray) -> dict[tuple[int, ...], list[int]]:
    """Return the features of each table.

    A scope inside that of another small table joins that. Scopes of which the same variable is
    eliminated first are in one clique then, and make one table as long as it is small.
    """
    scopes: dict[tuple[int, ...], list[int]] = {}
    var, indptr = features.entry_var.tolist(), features.indptr.tolist()
    for f in range(len(features)):
        scopes.setdefault(tuple(var[indptr[f] : indptr[f + 1]]), []).append(f)
    size = {s: features.tests.cards[list(s)].prod(dtype=float) for s in scopes}
    small = [s for s in scopes if s and size[s] <= LARGEST]
    joined: dict[tuple[int, ...], list[int]] = {}
    around: dict[int, list[tuple[int, ...]]] = {}
    for scope in sorted(small, key=len, reverse=True):
        inside = set(scope)
        hosts = [s for s in around.get(scope[0], []) if inside.issubset(s)]
        host = min(hosts, key=lambda s: size[s], default=scope)
        if host is scope:
            for v in scope:
                around.setdefault(v, []).append(scope)
        joined.setdefault(host, []).extend(scopes[scope])
    cards = features.tests.cards
    homes: dict[int, list[_Part]] = {}
    for scope, which in joined.items():
        home = homes.setdefault(min(scope, key=lambda v: rank[v]), [])
        for part in home:
            union = part.variables.union(scope)
            cells = cards[list(union)].prod(dtype=float)
            if cells <= max(SMALL, min(LARGEST, DENSE * (part.cells + size[scope]))):
                part.variables, part.cells = union, part.cells + size[scope]
                part.features.extend(which)
                break
        else:
            home.append(_Part(set(scope), size[scope], list(which)))
    parts = sorted((p for home in homes.values() for p in home), key=lambda p: -len(p.features))
    room = np.cumsum([cards[list(p.variables)].prod(dtype=float) for p in parts]) <= MOST_CELLS
    return {
        tuple(sorted(p.variables)): p.features for p, fits in zip(parts, room, strict=True) if fits
    }


@dataclass
class _Part:
    """Variables of a table in the making, the cells of what was joined to it, and its features."""

    variables: set[int]
    cells: float
    features: list[int]
