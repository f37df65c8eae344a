"""Bins of a number that tell something about the other columns.

Fine bins of about the same number of rows are merged with their neighbours, first those in which the
other columns are most alike. Two neighbours stay apart if some other column has different distributions
in them: if its log-likelihood gains more than a price for each additional probability, and for naming the
boundary and the column among all of them. The time is linear in the rows, and quadratic in the columns.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table

FINE_BINS = 32
"""Number of bins before any are merged."""

REFERENCE_BINS = 4
"""Number of bins of the other numbers."""

MOST_BINS = 16
"""Maximum number of bins."""

PRICE = 1.0
"""The gain in log-likelihood, in nats, that an additional probability has to be worth."""


def dependence_cuts(
    table: Table, fine: Mapping[str, list[float]], values: Mapping[str, FloatArray], most: int
) -> dict[str, list[float]]:
    """Return those of the fine cut points of some columns that tell something about other columns.

    Parameters
    ----------
    table : Table
        The rows.
    fine : mapping of str to list of float
        The cut points between the fine bins of each column.
    values : mapping of str to array
        The number that each state of these columns stands for.
    most : int
        Maximum number of bins of a column.
    """
    weights = np.ones(len(table)) if table.weights is None else table.weights
    codes = np.where(table.codes == table.missing, -1, table.codes.astype(np.int64))
    others, cards = codes.copy(), np.array(table.domain.cards, np.int64)
    for name, cuts in fine.items():
        j = table.domain.index(name)
        place = np.append(np.searchsorted(cuts, values[name], side="right"), -1)
        codes[:, j] = place[codes[:, j]]
        others[:, j], cards[j] = reference_bins(codes[:, j], len(cuts) + 1, weights), REFERENCE_BINS
    found = {}
    for name, cuts in fine.items():
        j = table.domain.index(name)
        rest = np.arange(len(cards)) != j
        kept = informative_boundaries(
            codes[:, j], len(cuts) + 1, others[:, rest], cards[rest], weights, most
        )
        found[name] = [cuts[k] for k in kept.tolist()]
    return found


def informative_boundaries(
    fine: IntArray,
    count: int,
    others: IntArray,
    cards: IntArray,
    weights: FloatArray,
    most: int = MOST_BINS,
    price: float = PRICE,
) -> IntArray:
    """Return the boundaries between fine bins that remain: k is that between bins k and k + 1.

    Parameters
    ----------
    fine : array of int, shape (rows,)
        The fine bin of each row; -1 where missing.
    count : int
        The number of fine bins.
    others : array of int, shape (rows, columns)
        The states of the other columns; -1 where missing.
    cards : array of int
        Their numbers of states.
    weights : array, shape (rows,)
        The weights of the rows.
    most : int
        Maximum number of bins.
    price : float
        The gain that an additional probability has to be worth.

    Examples
    --------
    >>> fine = np.repeat(np.arange(8), 25)
    >>> ill = (fine >= 5).astype(int)[:, None]
    >>> informative_boundaries(fine, 8, ill, np.array([2]), np.ones(200))
    array([4])
    """
    counts, first = _contingency(fine, count, others, cards, weights)
    kept = np.arange(count - 1)
    least = np.log(max(1, len(kept) * len(cards)))
    gains = _gains(counts[:-1], counts[1:], first, price)
    while len(kept) >= most or (len(kept) and gains.min() <= least):
        k = int(gains.argmin())
        counts[k] += counts[k + 1]
        counts, kept = np.delete(counts, k + 1, axis=0), np.delete(kept, k)
        gains = np.delete(gains, k)
        near = slice(max(k - 1, 0), k + 1)
        gains[near] = _gains(counts[:-1][near], counts[1:][near], first, price)
    return kept


def reference_bins(fine: IntArray, count: int, weights: FloatArray) -> IntArray:
    """Return the mean quantile of each fine bin as a bin of the column, for other columns to compare.

    Examples
    --------
    >>> reference_bins(np.array([0, 1, 2, 3, 4, 5, 6, 7, -1]), 8, np.ones(9))
    array([ 0,  0,  1,  1,  2,  2,  3,  3, -1])
    """
    known = fine >= 0
    size = np.bincount(fine[known], weights[known], minlength=count)
    middle = (np.cumsum(size) - size / 2) / max(float(size.sum()), 1e-300)
    place = np.minimum(REFERENCE_BINS * middle, REFERENCE_BINS - 1).astype(np.int64)
    return np.where(known, place[fine], -1)


def _contingency(
    fine: IntArray, count: int, others: IntArray, cards: IntArray, weights: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return the weight of each fine bin with each state of the others, and each one's first state."""
    tables = []
    for codes, card in zip(others.T, cards.tolist(), strict=True):
        both = (fine >= 0) & (codes >= 0)
        cells = np.bincount(fine[both] * card + codes[both], weights[both], count * card)
        tables.append(cells.reshape(count, card).astype(np.float64))
    first = np.cumsum(cards) - cards
    return np.concatenate(tables, axis=1) if tables else np.zeros((count, 0)), first


def _gains(left: FloatArray, right: FloatArray, first: IntArray, price: float) -> FloatArray:
    """Return what keeping pairs of bins apart is worth to the column that it tells most about."""
    if not len(first) or not len(left):
        return np.full(len(left), -np.inf)
    together = left + right

    def log_likelihood(counts: FloatArray) -> FloatArray:
        total = np.add.reduceat(counts, first, axis=1)
        return np.asarray(np.add.reduceat(_n_log_n(counts), first, axis=1) - _n_log_n(total))

    gain = log_likelihood(left) + log_likelihood(right) - log_likelihood(together)
    seen = np.add.reduceat(together > 0, first, axis=1, dtype=np.int64)
    return np.asarray((gain - price * np.maximum(seen - 1, 0)).max(axis=1))


def _n_log_n(counts: FloatArray) -> FloatArray:
    return counts * np.log(np.where(counts > 0, counts, 1.0))
