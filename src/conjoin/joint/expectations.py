"""The log-likelihood of a table as a function of a network's weights, by exact inference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.plan import MAX_MEMORY, Plan, TooLarge, find_order
from conjoin.inference.terms import terms_of
from conjoin.kernels.layouts import packed
from conjoin.models.feature_tables import feature_tables
from conjoin.models.features import Features

MIN_VARIANCE = 1e-3
"""Lower bound of the variance of a feature per row, for features that hardly vary."""

MAX_TABLE, MAX_TABLES = 1 << 13, 1 << 21
"""Maximum number of cells of one table made of features, and of all of them."""

SMALL_TABLE, CELLS_PER_CELL = 256, 4
"""Tables in one clique are joined up to this size, or up to this multiple of their cells."""


def impossible_row() -> ModelError:
    """Return the error for a row of probability 0."""
    return ModelError(
        "a row of the table is impossible under the network's hard constraints; "
        "weights cannot be learned from it"
    )


class CompleteLikelihood:
    """Value and gradient of the log-likelihood of a table, as `Objective` is for pseudo-likelihood.

    The gradient is the sum of each feature over the table's rows minus its expectation under the network
    (the paper's Section 2.2).

    Parameters
    ----------
    features : Features
        The features whose weights are learned; weights of -inf stay fixed.
    table : Table
        The rows, without missing values.
    expect : Expectations, optional
        The expectations of the same features, to be reused.
    """

    def __init__(
        self, features: Features, table: Table, expect: Expectations | None = None
    ) -> None:
        if (table.codes == table.missing).any():
            raise ModelError("the likelihood needs rows without missing values; impute them first")
        self.free: BoolArray = np.isfinite(features.weights)
        self.weight = float(len(table) if table.weights is None else table.weights.sum())
        self.expect = Expectations(features) if expect is None else expect
        self.sums = self.expect.sums(features, table)
        if (self.sums[~self.free] > 0).any():
            raise impossible_row()

    def value(self, weights: FloatArray) -> float:
        """Return the log-likelihood."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its gradient, which is 0 for fixed weights."""
        log_z, means = self.expect(weights)
        free = self.free
        value = float(self.sums[free] @ weights[free]) - self.weight * log_z
        return value, np.where(free, self.sums - self.weight * means, 0.0)

    def curvature(self) -> FloatArray:
        """Return an approximate Hessian diagonal: the variance of each feature in the rows."""
        share = self.sums / self.weight
        return self.weight * np.maximum(share * (1 - share), MIN_VARIANCE)


class Expectations:
    """The means of the features of a network, for any weights; the plan is made once.

    Features over the same variables are added up in one table of exact inference, unless it is large.

    `max_table`: maximum number of cells of a table made of features.
    """

    def __init__(self, features: Features, max_table: int = MAX_TABLE) -> None:
        cards = features.tests.cards
        single = np.flatnonzero(cards == 1)
        scopes = (packed(features.indptr, np.int64), packed(features.entry_var, np.int64))
        order = find_order(cards, *scopes, single, MAX_MEMORY)
        if order.total * 8 > MAX_MEMORY:
            raise TooLarge(
                "the likelihood needs exact inference, and the network is too dense for it; make it "
                "thin first (`thin`), or learn by pseudo-likelihood"
            )
        groups = _scopes(features, order.ranks(), max_table)
        rows = [np.array(which) for which in groups.values()]
        self.tables = feature_tables(features, list(groups), rows)
        outside = np.ones(len(features), bool)
        outside[[f for which in groups.values() for f in which]] = False
        self.outside = np.flatnonzero(outside)
        empty = self.tables.tables(np.zeros(len(features)))
        self.plan = Plan(terms_of(empty, features.select(self.outside)), order)
        self.given = np.zeros(len(single), np.int64)
        self.last: tuple[bytes, float, FloatArray] | None = None

    def sums(self, features: Features, table: Table) -> FloatArray:
        """Return the sum of each feature over complete rows."""
        sums = self.tables.matrix.T @ self.tables.counts(table.codes, table.weights)
        sums[self.outside] = features.select(self.outside).sums(table.codes, table.weights)
        return sums

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return log Z and the mean of each feature."""
        key = weights.tobytes()
        if self.last is None or self.last[0] != key:
            matrix = self.tables.matrix
            log_z, shares, found = self.plan.expect(
                self.given, matrix @ weights, weights[self.outside]
            )
            means = matrix.T @ shares
            means[self.outside] = found
            self.last = (key, log_z, means)
        return self.last[1], self.last[2]


def _scopes(features: Features, rank: IntArray, max_table: int) -> dict[tuple[int, ...], list[int]]:
    """Return the features of each table.

    A scope within the scope of another small table joins it. Scopes whose first variable in the
    elimination order is the same lie in one clique, and share one table as long as it is small.
    """
    scopes: dict[tuple[int, ...], list[int]] = {}
    var, indptr = features.entry_var.tolist(), features.indptr.tolist()
    for f in range(len(features)):
        scopes.setdefault(tuple(var[indptr[f] : indptr[f + 1]]), []).append(f)
    size = {s: features.tests.cards[list(s)].prod(dtype=float) for s in scopes}
    small = [s for s in scopes if s and size[s] <= max_table]
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
            if cells <= max(
                SMALL_TABLE, min(max_table, CELLS_PER_CELL * (part.cells + size[scope]))
            ):
                part.variables, part.cells = union, part.cells + size[scope]
                part.features.extend(which)
                break
        else:
            home.append(_Part(set(scope), size[scope], list(which)))
    parts = sorted((p for home in homes.values() for p in home), key=lambda p: -len(p.features))
    room = np.cumsum([cards[list(p.variables)].prod(dtype=float) for p in parts]) <= MAX_TABLES
    return {
        tuple(sorted(p.variables)): p.features for p, fits in zip(parts, room, strict=True) if fits
    }


@dataclass
class _Part:
    """The variables of a table, the cells of the tables that joined it, and its features."""

    variables: set[int]
    cells: float
    features: list[int]
