"""Missing values that say something: a cell is empty because no value applies, or none was asked for.

The date on which a contract ended is missing for those who have not left. Such a cell is not a value
that got lost, to be guessed from the rest of its row. Its column has one more state, that there is no
value, if other columns tell which cells are empty. This is tested on rows that were held out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.row_hashing import in_content_order
from conjoin.data.table import Table

MIN_ROWS, MIN_GAIN, MIN_SHARE = 10, 10.0, 0.1
"""What a column needs: this number of empty cells, and as many others; another column that predicts which
cells are empty, by this many nats and by this share of all that there is to predict."""

MAX_ROWS, MAX_CELLS = 1 << 15, 1 << 31
"""Maximum number of rows that are looked at, and of rows times pairs of columns."""


def with_absent_values(table: Table) -> Table:
    """Return the table with a state for empty cells in the columns in which these say something."""
    empty = table.holes.sum(axis=0)
    enough = (empty >= MIN_ROWS) & (len(table) - empty >= MIN_ROWS)
    tested = [v.name for v, many in zip(table.domain, enough, strict=True) if many and not v.hidden]
    if not tested:
        return table
    explained = _explained(in_content_order(table), tested)
    return table.with_absent([name for name, x in zip(tested, explained, strict=True) if x])


def _explained(table: Table, tested: list[str]) -> BoolArray:
    """Return whether one of the other columns tells which cells of a column are empty."""
    columns = len(table.domain)
    rows = min(len(table), MAX_ROWS, max(1000, MAX_CELLS // (columns * len(tested))))
    some = table.select(np.linspace(0, len(table) - 1, rows).astype(np.int64))
    weights = np.ones(rows) if some.weights is None else some.weights
    empty = some.holes[:, [table.domain.index(name) for name in tested]].astype(np.float64)
    indicators = _indicators(some)
    halves = [np.arange(rows) % 2 == k for k in (0, 1)]
    counts = [(indicators[h].T @ (empty[h] * weights[h, None])) for h in halves]
    sizes = [(indicators[h].T @ weights[h])[:, None] for h in halves]
    first = np.cumsum(table.domain.cards) - table.domain.cards
    gain = np.zeros((columns, len(tested)))
    for k in (0, 1):
        sides = counts[k], sizes[k], counts[1 - k], sizes[1 - k]
        gain += _gain(*sides, first, table.domain.cards)
    share = np.average(empty, axis=0, weights=weights)
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share)) * weights.sum()
    return np.asarray(gain.max(axis=0) >= np.maximum(MIN_GAIN, MIN_SHARE * entropy))


def _indicators(table: Table) -> Any:
    """Return which states hold in each row: rows by states of all columns, none where one is missing."""
    from scipy.sparse import csr_array

    first = np.cumsum(table.domain.cards) - table.domain.cards
    row, column = np.nonzero(~table.holes)
    place = first[column] + table.codes[row, column]
    shape = len(table), int(table.domain.cards.sum())
    return csr_array((np.ones(len(row)), (row, place)), shape=shape)


def _gain(
    learned: FloatArray, size: FloatArray, held: FloatArray, held_size: FloatArray, first: Any, cards: Any
) -> FloatArray:  # fmt: skip
    """Return how much better held-out cells are predicted to be empty, given each column alone.

    `learned`, `held`: empty cells beside each state, by tested column; `size`, `held_size`: all cells.
    """
    total, all_rows = np.add.reduceat(learned, first), np.add.reduceat(size, first)
    usual = np.repeat((total + 0.5) / (all_rows + 1.0), cards, axis=0)
    given = (learned + usual) / (size + 1.0)
    left = held_size - held
    nats = held * np.log(given / usual) + left * np.log((1 - given) / (1 - usual))
    return np.asarray(np.add.reduceat(nats, first))
