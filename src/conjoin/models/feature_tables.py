"""Features as tables: the one place where features are mapped to cells.

A feature within the scope of a table adds its weight, times the numbers of its tests, to some cells of
it. This is a sparse matrix, cells by features: multiplied by the weights it gives the tables, and its
transpose multiplied by the probabilities of the cells gives the means of the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes
from conjoin.models.features import Features, segment_index
from conjoin.models.markov import TableFactor

ROWS_AT_ONCE = 1 << 13
"""Number of rows whose cells are computed at a time: they stay in the cache."""


@dataclass(frozen=True, eq=False)
class FeatureTables:
    """A sparse matrix of the cells of tables, the last variable fastest, by features."""

    scopes: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    n_features: int  # including those without a table
    cell: IntArray  # the row of each nonzero element,
    feature: IntArray  # its column,
    value: FloatArray  # and its value: the product of the feature's tests in the cell

    @cached_property
    def first(self) -> IntArray:
        """The first cell of each table, and the number of all cells."""
        sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def matrix(self) -> Any:
        """The matrix as a SciPy sparse array."""
        from scipy import sparse

        shape = (int(self.first[-1]), self.n_features)
        return sparse.csr_array((self.value, (self.cell, self.feature)), shape=shape)

    def cells_of(self, codes: Codes | IntArray) -> npt.NDArray[np.int32]:
        """Return the cell of each table that each row is in, tables by rows."""
        columns = np.ascontiguousarray(codes.T, np.int32)
        cells = np.empty((len(self.scopes), len(codes)), np.int32)
        for cell, scope, shape, first in zip(
            cells, self.scopes, self.shapes, self.first.tolist(), strict=False
        ):
            cell[:] = 0
            for variable, size in zip(scope, shape, strict=True):
                cell *= size
                cell += columns[variable]
            cell += first
        return cells

    def counts(self, codes: Codes | IntArray, weights: FloatArray | None = None) -> FloatArray:
        """Return how many rows are in each cell; rows may have weights."""
        total = np.zeros(int(self.first[-1]))
        for low in range(0, len(codes), ROWS_AT_ONCE):
            rows = slice(low, low + ROWS_AT_ONCE)
            weight = None if weights is None else weights[rows]
            ranges = zip(self.cells_of(codes[rows]), self.first, self.first[1:], strict=False)
            for cell, first, end in ranges:
                total[first:end] += np.bincount(cell - first, weight, end - first)
        return total

    def tables(self, weights: FloatArray) -> list[TableFactor]:
        """Return the tables: the sums of the weighted features in each cell."""
        flat = np.bincount(
            self.cell, self.value * weights[self.feature], minlength=int(self.first[-1])
        ).astype(np.float64)
        first = self.first.tolist()
        return [
            TableFactor(scope, flat[first[i] : first[i + 1]].reshape(self.shapes[i]))
            for i, scope in enumerate(self.scopes)
        ]


def literals(features: Features) -> tuple[FloatArray, IntArray, IntArray]:
    """Return one number per state for every distinct test with its off value.

    It is 1 where the test holds, and the off value elsewhere. The numbers of all these literals are one
    after another; also returns where each literal starts, and the literal of each entry of the features.
    """
    if not len(features.indices):
        return np.zeros(0), np.zeros(1, np.int64), np.zeros(0, np.int64)
    off, off_code = np.unique(features.off_values(), return_inverse=True)
    key = features.indices.astype(np.int64) * len(off) + off_code
    used = np.zeros(len(features.tests) * len(off), bool)
    used[key] = True
    entry = (np.cumsum(used) - 1)[key]
    test, code = np.divmod(np.flatnonzero(used), len(off))
    inside = features.tests.members(test)
    numbers = np.where(inside, 1.0, off[code][:, None])
    width = features.tests.cards[features.tests.var[test]]
    keep = np.arange(inside.shape[1]) < width[:, None]
    starts = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
    return numbers[keep], starts, entry


def feature_tables(
    features: Features,
    scopes: Sequence[tuple[int, ...]],
    rows: Sequence[npt.NDArray[np.integer[Any]]],
) -> FeatureTables:
    """Map features to the cells of tables over the given scopes.

    `rows` are the features of each table; the variables that they test must be in its scope. The cells of
    all features are expanded together, axis after axis.
    """
    cards = features.tests.cards
    numbers, starts, entry = literals(features)
    # After the literals, one for every variable: true in all its states.
    every = len(starts) - 1 + np.arange(len(cards))
    numbers = np.concatenate([numbers, np.ones(int(cards.sum()))])
    starts = np.concatenate([starts[:-1], starts[-1] + np.cumsum(np.concatenate([[0], cards]))])
    nonzero = np.flatnonzero(numbers)
    literal_of = np.searchsorted(starts, nonzero, side="right") - 1
    state, number = nonzero - starts[literal_of], numbers[nonzero]
    count = np.bincount(literal_of, minlength=len(starts) - 1)
    begin = np.cumsum(count) - count

    shapes = tuple(tuple(int(cards[v]) for v in scope) for scope in scopes)
    sizes = np.array([np.prod(shape, dtype=np.int64) for shape in shapes], np.int64)
    chosen = np.concatenate([*rows, np.zeros(0, np.int64)]).astype(np.int64)
    table = np.repeat(np.arange(len(scopes)), [len(r) for r in rows])
    axes = max((len(scope) for scope in scopes), default=0)
    scope_var = np.full((len(scopes), axes), -1, np.int64)
    for i, scope in enumerate(scopes):
        scope_var[i, : len(scope)] = scope
    # The literal of each chosen feature on each axis of its table; -1 beyond the last axis.
    used = np.where(scope_var >= 0, every[scope_var] if len(every) else -1, -1)[table]
    lengths = features.lengths[chosen]
    owner = np.repeat(np.arange(len(chosen)), lengths)
    entries = segment_index(features.indptr[chosen], lengths)
    if axes:
        axis = (scope_var[table[owner]] == features.entry_var[entries][:, None]).argmax(axis=1)
        used[owner, axis] = entry[entries]

    row = np.arange(len(chosen))
    cell, value = np.zeros(len(chosen), np.int64), np.ones(len(chosen))
    for d in range(axes):
        literal = used[row, d]
        width = np.where(literal >= 0, count[literal], 1)
        live = np.repeat(literal >= 0, width)
        at = segment_index(begin[literal], width)[live]
        row, cell, value = np.repeat(row, width), np.repeat(cell, width), np.repeat(value, width)
        cell[live] = cell[live] * cards[scope_var[table[row[live]], d]] + state[at]
        value[live] *= number[at]
    cell += (np.cumsum(sizes) - sizes)[table[row]]
    scopes = tuple(tuple(int(v) for v in scope) for scope in scopes)
    return FeatureTables(scopes, shapes, len(features), cell, chosen[row], value)


def scope_tables(
    features: Features,
    scopes: Sequence[tuple[int, ...]],
    rows: Sequence[npt.NDArray[np.integer[Any]]],
) -> list[TableFactor]:
    """Return one table per scope, the sum of the features of it (see `feature_tables`)."""
    return feature_tables(features, scopes, rows).tables(features.weights)
