"""The maximum-likelihood tree of a table (Chow and Liu, 1968).

Of all networks whose graph is a tree, the one that links the pairs of columns with the most mutual
information has the highest likelihood: a maximum spanning tree. Columns with hundreds of states seem to
tell much about all others, by chance. So a pair of columns with a large table counts by how well rows
that are left out are predicted, and pairs that tell nothing, or need too large a table, are not linked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes, Table
from conjoin.errors import OutOfMemoryError
from conjoin.inference.free_memory import memory_limit
from conjoin.learning.screening import strongest_tree
from conjoin.models.markov import MarkovNetwork, TableFactor

PSEUDO_COUNT = 0.5
"""Rows' worth of uniform counts that every pair of columns gets, against chance dependence."""

DENSE_RATE, SPARSE_RATE = 2e10, 2e8
"""Multiplications per second of dense and of sparse matrix products, to choose between them."""

ROWS_AT_ONCE, COUNTS_AT_ONCE = 1 << 14, 1 << 19
"""Number of rows, and about how many pairs of states, that are counted at a time."""


COUNTED_CELLS = 1 << 12
"""A pair of columns with more joint states counts by the prediction of rows that are left out."""

MAX_PAIR_CELLS = 1 << 17
"""Pairs of columns with more joint states are not linked."""

COPIES = 6
"""Number of arrays of the size of all pair counts that are in memory at a time."""


def check_pairs(domain: Domain) -> None:
    """Raise an error if the counts of all pairs of states would not fit into memory."""
    size, limit = COPIES * 8.0 * float(domain.cards.sum()) ** 2, memory_limit()
    if size > limit:
        raise OutOfMemoryError(
            f"a joint distribution of {len(domain):,} columns with {domain.cards.sum():,} states is "
            f"refined with the counts of all pairs of states, which take {size / 1e9:,.1f} GB, but "
            f"{limit / 1e9:,.1f} GB are free; leave columns out (exclude=, --exclude), or keep the "
            "network as it was converted (closed_form=True, --closed-form)"
        )


def pair_counts(table: Table) -> tuple[FloatArray, IntArray]:
    """Return how often each two states of a table occur together.

    Returns `counts`, weighted counts, over rows in which both values are known; `first`, the number
    of each column's first state.
    """
    cards = table.domain.cards
    first = np.concatenate([[0], np.cumsum(cards)])
    kept = np.ones(int(first[-1]), bool)
    whole = not (table.codes == table.missing).any()
    if whole:
        kept[first[:-1]] = False  # the first states are where no other state is
    found = np.zeros((np.count_nonzero(kept),) * 2)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    number = np.cumsum(kept) - 1
    for low in range(0, len(table), ROWS_AT_ONCE):
        some = slice(low, low + ROWS_AT_ONCE)
        held = _held(table.codes[some], cards, first, kept, number)
        found += _product(held, held * weights[some, None].astype(np.float32))
    if not whole:
        return found, first
    return _with_first_states(found, np.flatnonzero(kept), first, float(weights.sum())), first


def _held(codes: Codes, cards: IntArray, first: IntArray, kept: BoolArray, number: IntArray) -> Any:
    """Return which of some states each row has, rows by states."""
    from scipy import sparse

    known = codes < cards if kept.all() else (codes < cards) & (codes > 0)
    row, column = np.nonzero(known)
    state = number[first[column] + codes[row, column]]
    shape = (len(codes), int(np.count_nonzero(kept)))
    return sparse.csr_array((np.ones(len(row), np.float32), (row, state)), shape=shape)


def _with_first_states(
    found: FloatArray, kept: IntArray, first: IntArray, total: float
) -> FloatArray:
    """Return the counts of all pairs of states, given those without the first state of each column."""
    from scipy import sparse

    column = np.searchsorted(first, kept, side="right") - 1
    ones = np.ones(len(kept))
    columns = sparse.csr_array((ones, (column, np.arange(len(kept)))), (len(first) - 1, len(kept)))
    alone = np.diag(found)
    by_column = columns @ found
    others = columns @ alone
    counts = np.empty((int(first[-1]), int(first[-1])))
    counts[np.ix_(kept, kept)] = found
    counts[np.ix_(first[:-1], kept)] = alone - by_column
    counts[np.ix_(kept, first[:-1])] = (alone - by_column).T
    both = (columns @ by_column.T).T
    counts[np.ix_(first[:-1], first[:-1])] = total - others[:, None] - others + both
    return np.maximum(counts, 0.0, out=counts)  # sums of fractional weights are rounded


def _product(left: Any, right: Any) -> FloatArray:
    """Return the product of the transpose of a sparse matrix with another, by the cheaper method."""
    rows, states = left.shape
    per_row = np.diff(left.indptr).astype(float)
    if rows * states**2 / DENSE_RATE < float(per_row @ per_row) / SPARSE_RATE:
        return left.toarray().T @ right.toarray()
    return (left.T @ right).toarray()


def mutual_information(table: Table) -> FloatArray:
    """Return the mutual information of each two columns of a table, in nats.

    Examples
    --------
    >>> from conjoin import Domain
    >>> domain = Domain({"a": [0, 1], "copy": [0, 1], "other": [0, 1]})
    >>> rows = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]] * 1000)
    >>> mutual_information(Table(domain, rows)).round(2)  # log 2 = 0.693
    array([[0.69, 0.69, 0.  ],
           [0.69, 0.69, 0.  ],
           [0.  , 0.  , 0.69]])
    """
    return _information(table.domain.cards, *pair_counts(table))


def _information(cards: IntArray, counts: FloatArray, first: IntArray) -> FloatArray:
    """Return the mutual information of each two columns, given the counts of pairs of states."""
    column = np.repeat(np.arange(len(cards)), cards)
    starts, result = first[:-1], np.empty((len(cards), len(cards)))

    def by_column(values: FloatArray, starts: IntArray = starts) -> FloatArray:
        """Add up the lines of each column's states, and transpose."""
        return np.ascontiguousarray(np.add.reduceat(values, starts, axis=0).T)

    def entropy(values: FloatArray) -> FloatArray:
        return values * np.log(values)

    step = max(1, COUNTS_AT_ONCE // int(cards.max(initial=1) * first[-1] or 1))
    for low in range(0, len(cards), step):
        own = starts[low : low + step] - starts[low]
        some = slice(starts[low], first[min(low + step, len(cards))])
        block = counts[some] + PSEUDO_COUNT / np.outer(cards[column[some]], cards[column])
        by_state, by_own_state = by_column(block, own), by_column(np.ascontiguousarray(block.T))
        total = by_column(by_state)
        joint = by_column(by_column(entropy(block), own))
        alone = by_column(entropy(by_state)) + by_column(entropy(by_own_state), own).T
        result[low : low + step] = (joint - alone + entropy(total)) / total
    return result


def _links(
    table: Table, counts: FloatArray, first: IntArray, max_cells: int
) -> tuple[IntArray, IntArray]:
    """Return the columns, neighbours in the tree close together, and their parents; -1 without one."""
    cards = table.domain.cards
    information = _information(cards, counts, first)
    joint_states = cards[:, None] * cards
    for a, b in np.argwhere(np.triu(joint_states > COUNTED_CELLS, 1)).tolist():
        found = 0.0
        if joint_states[a, b] <= max_cells:
            both = counts[first[a] : first[a + 1], first[b] : first[b + 1]]
            found = max(left_out_gain(both), left_out_gain(both.T))
        information[a, b] = information[b, a] = found
    order, parent = strongest_tree(information)
    unlinked = (joint_states > COUNTED_CELLS) & (information <= 0)
    parent[unlinked[parent, np.arange(len(cards))]] = -1
    parent[order[:1]] = -1
    return order, parent


def left_out_gain(counts: FloatArray) -> float:
    """Return how much better a row's column is predicted given its line, in nats per row.

    The probabilities are counted from all other rows. Those of a line are shrunk to those of all lines by
    the weight of one row.

    Examples
    --------
    >>> left_out_gain(np.eye(4) * 5) > 1  # the line determines the column
    True
    >>> left_out_gain(np.ones((4, 4))) < 0
    True
    """
    line, column = np.nonzero(counts)
    found = counts[line, column]
    total = found.sum()
    if total <= 1:
        return 0.0
    own = np.minimum(found, 1.0)  # what is left out; less than a row if rows have small weights
    states = counts.shape[1]
    alone = (counts.sum(axis=0)[column] - own + 1 / states) / (total - own + 1)
    given = (found - own + alone) / (counts.sum(axis=1)[line] - own + 1)
    return float(found @ np.log(given / alone) / total)


def dependence_tree(table: Table) -> tuple[IntArray, IntArray]:
    """Return the pairs of columns that the maximum-likelihood tree links.

    `table`: the rows; missing values are ignored pair by pair.
    """
    order, parent = _links(table, *pair_counts(table), MAX_PAIR_CELLS)
    linked = order[parent[order] >= 0]
    return parent[linked], linked


def tree_network(table: Table, max_pair_cells: int = MAX_PAIR_CELLS) -> MarkovNetwork:
    """Return the maximum-likelihood tree of a table as a network.

    Each column is a factor given its parent, its probabilities shrunk a little to those of the column.

    `table`: the rows; missing values are ignored pair by pair. `max_pair_cells`: pairs of columns
    with more joint states than this, and than `COUNTED_CELLS`, are not linked.

    Examples
    --------
    >>> from conjoin import Domain, log_partition
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> network = tree_network(Table(domain, np.array([[0, 0], [1, 1], [1, 1], [1, 0]])))
    >>> abs(log_partition(network).value) < 1e-9
    True
    """
    counts, first = pair_counts(table)
    order, parent = _links(table, counts, first, max_pair_cells)
    marginals = table.marginals()
    factors = []
    for column in order.tolist():
        above = int(parent[column])
        own = slice(first[column], first[column + 1])
        if above < 0:
            factors.append(TableFactor((column,), np.log(marginals[column])))
            continue
        joint = counts[first[above] : first[above + 1], own] + marginals[column]
        joint /= joint.sum(axis=1, keepdims=True)
        factors.append(TableFactor((above, column), np.log(joint)))
    return MarkovNetwork(table.domain, factors=factors, provenance={"tree": len(factors)})
