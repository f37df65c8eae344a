"""Splitting the rows of a table into training rows and held-out rows."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError

MAX_EXACT = 1_000_000_000


def hold_out(table: Table, share: float, rng: np.random.Generator) -> tuple[Table, Table]:
    """Return the remaining rows, and a share of the rows; a row of weight n counts as n rows."""
    if not 0 < share < 1:
        raise ModelError(f"holdout must be a fraction between 0 and 1, not {share}")
    counts = _counts(table)
    if counts is not None:
        held = _drawn(counts, max(1, round(share * counts.sum())), rng)
        return _counted(table, counts - held), _counted(table, held)
    order = rng.permutation(len(table))
    return _apart(table, order[: max(1, round(share * len(table)))])


def deal_out(table: Table, folds: int, rng: np.random.Generator) -> list[tuple[Table, Table]]:
    """Split the rows into folds; for each fold return the remaining rows and the fold."""
    counts = _counts(table)
    rows = len(table) if counts is None else int(counts.sum())
    if not 2 <= folds <= rows:
        raise ModelError(f"folds must be between 2 and the number of rows, not {folds}")
    if counts is None:
        return [_apart(table, part) for part in np.array_split(rng.permutation(rows), folds)]
    parts, left = [], counts
    for number in range(folds, 0, -1):
        held = _drawn(left, round(left.sum() / number), rng)
        parts.append((_counted(table, counts - held), _counted(table, held)))
        left = left - held
    return parts


def sample_rows(table: Table, count: int, rng: np.random.Generator) -> Table:
    """Return a random sample of the rows in their order; the table itself if it has no more rows."""
    counts = _counts(table)
    if counts is not None:
        few = counts.sum() <= count
        return table if few else _counted(table, _drawn(counts, count, rng))
    if len(table) <= count:
        return table
    return table.select(np.sort(rng.choice(len(table), count, replace=False, shuffle=False)))


def _counts(table: Table) -> IntArray | None:
    """Return how often each row occurs, if weights tell, and if rows occur more than once."""
    weights = table.weights
    if weights is None or not len(weights) or weights.max() <= 1 or weights.sum() >= 2**53:
        return None
    return weights.astype(np.int64) if (weights == np.floor(weights)).all() else None


def _drawn(counts: IntArray, number: int, rng: np.random.Generator) -> IntArray:
    """Return how often each row is in a sample; the size is approximate beyond a billion rows."""
    total = int(counts.sum())
    if total < MAX_EXACT:
        return rng.multivariate_hypergeometric(counts, number, method="marginals")
    return rng.binomial(counts, number / total)


def _counted(table: Table, counts: IntArray) -> Table:
    rows = np.flatnonzero(counts)
    return table.select(rows).weighted(counts[rows].astype(np.float64))


def _apart(table: Table, part: IntArray) -> tuple[Table, Table]:
    out = np.zeros(len(table), bool)
    out[part] = True
    return table.select(~out), table.select(out)
