"""Splitting the rows of a table into training rows and held-out rows."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError


def hold_out(table: Table, share: float, rng: np.random.Generator) -> tuple[Table, Table]:
    """Return the remaining rows, and a random share of the rows, at least one.

    Examples
    --------
    >>> from conjoin import Domain
    >>> table = Table(Domain.numbered([2]), np.zeros((10, 1), np.uint8))
    >>> [len(part) for part in hold_out(table, 0.3, np.random.default_rng(0))]
    [7, 3]
    """
    if not 0 < share < 1:
        raise ModelError(f"holdout must be a fraction between 0 and 1, not {share}")
    order = rng.permutation(len(table))
    return _apart(table, order[: max(1, round(share * len(table)))])


def deal_out(table: Table, folds: int, rng: np.random.Generator) -> list[tuple[Table, Table]]:
    """Split the rows into folds; for each fold return the remaining rows and the fold."""
    if not 2 <= folds <= len(table):
        raise ModelError(f"folds must be between 2 and the number of rows, not {folds}")
    return [_apart(table, part) for part in np.array_split(rng.permutation(len(table)), folds)]


def sample_rows(table: Table, count: int, rng: np.random.Generator) -> Table:
    """Return a random sample of the rows in their order; the table itself if it has no more rows.

    Examples
    --------
    >>> from conjoin import Domain
    >>> table = Table(Domain.numbered([10]), np.arange(10)[:, None])
    >>> sample_rows(table, 3, np.random.default_rng(0)).codes.ravel().tolist()
    [5, 6, 9]
    """
    if len(table) <= count:
        return table
    return _select(table, np.sort(rng.choice(len(table), count, replace=False, shuffle=False)))


def _apart(table: Table, part: IntArray) -> tuple[Table, Table]:
    out = np.zeros(len(table), bool)
    out[part] = True
    return _select(table, ~out), _select(table, out)


def _select(table: Table, rows: IntArray | BoolArray) -> Table:
    weights = None if table.weights is None else table.weights[rows]
    return Table.adopt(table.domain, table.codes[rows], weights)
