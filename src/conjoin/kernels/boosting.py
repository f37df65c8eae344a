"""Boosting: trees that each add a number to the score of every state of a column.

The codes of the columns that trees split on are small whole numbers: their states in an order that suits
the target. A tree is grown from histograms, always at the leaf where a split gains most. The values of
its leaves are steps of Newton's method for the cross entropy, with the diagonal of the Hessian.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Byte2, Float1, Int1, Single2, Single3, TreeNodes

LARGEST_VALUE = 8.0
"""The largest value of a leaf."""


@compiled
def write_slopes(scores: Single2, target: Int1, weights: Float1, used: Int1, out: Single3) -> None:
    """Write the gradient and the Hessian of some rows and each state: rows by two by states."""
    states = scores.shape[1]
    p = np.empty(states)
    for r in used:
        top, total = scores[r, 0], 0.0
        for s in range(states):
            top = max(top, scores[r, s])
        for s in range(states):
            p[s] = np.exp(scores[r, s] - top)
            total += p[s]
        for s in range(states):
            share = p[s] / total
            out[r, 0, s] = -weights[r] * share
            out[r, 1, s] = weights[r] * share * (1.0 - share)
        out[r, 0, target[r]] += weights[r]


@compiled
def log_losses(scores: Single2, target: Int1, out: Float1) -> None:
    """Write minus the log-probability of the state of each row."""
    for r in range(len(scores)):
        top, total = np.float64(scores[r, 0]), 0.0
        for s in range(scores.shape[1]):
            top = max(top, scores[r, s])
        for s in range(scores.shape[1]):
            total += np.exp(scores[r, s] - top)
        out[r] = np.log(total) + top - scores[r, target[r]]


@inner
def _add_rows(rows, codes, first, slopes, weights, sums, sizes):
    """Add the gradients and Hessians of some rows to the histogram of each column."""
    for v in range(codes.shape[1]):
        for r in rows:
            cell = first[v] + codes[r, v]
            sizes[cell] += weights[r]
            into, line = sums[cell], slopes[r]
            for k in range(2):
                for s in range(line.shape[1]):
                    into[k, s] += line[k, s]


@inner
def _quality(sums, ridge):
    """Return twice how much the best values of a leaf gain, in nats."""
    total = 0.0
    for s in range(sums.shape[1]):
        total += sums[0, s] * sums[0, s] / (sums[1, s] + ridge)
    return total


@inner
def _best_split(sums, sizes, first, least, ridge, left, right):
    """Return the gain of the best split of a leaf, its column and its threshold."""
    best, column, threshold = 0.0, -1, -1
    for v in range(len(first) - 1):
        low, high = first[v], first[v + 1]
        left[:], right[:] = 0.0, 0.0
        below = total = 0.0
        for cell in range(low, high):
            total += sizes[cell]
            for k in range(2):
                for s in range(right.shape[1]):
                    right[k, s] += sums[cell, k, s]
        if total < 2 * least:
            break
        whole = _quality(right, ridge)
        for cell in range(low, high - 1):
            below += sizes[cell]
            if total - below < least:
                break
            for k in range(2):
                for s in range(right.shape[1]):
                    left[k, s] += sums[cell, k, s]
                    right[k, s] -= sums[cell, k, s]
            if below < least or sizes[cell] == 0.0:
                continue
            gain = _quality(left, ridge) + _quality(right, ridge) - whole
            if gain > best:
                best, column, threshold = gain, v, cell - low
    return best, column, threshold


@inner
def _divide(rows, codes, column, threshold, spare):
    """Put the rows up to a threshold first; return how many there are. Both parts keep their order."""
    count = rest = 0
    for r in rows:
        if codes[r, column] <= threshold:
            rows[count] = r
            count += 1
        else:
            spare[rest] = r
            rest += 1
    for i in range(rest):
        rows[count + i] = spare[i]
    return count


@compiled
def grow_tree(
    codes: Byte2,
    first: Int1,
    slopes: Single3,
    weights: Float1,
    used: Int1,
    least: float,
    ridge: float,
    min_gain: float,
    rate: float,
    unit: float,
    tree: TreeNodes,
    values: Single2,
) -> int:
    """Grow a tree from some of the rows; return the number of its leaves.

    `first`: where the histogram of each column begins. `least`: the smallest weight of the rows of a
    leaf. `unit`: values are multiples of this. `tree`: the nodes, the root first. `values`: the values
    of the leaves, whose number is the maximum.
    """
    states, most = slopes.shape[2], len(values)
    sums, sizes = np.zeros((most, first[-1], 2, states)), np.zeros((most, first[-1]))
    rows, spare = used.copy(), np.empty_like(used)
    left, right = np.empty((2, states)), np.empty((2, states))
    node, start, stop = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    gain, column, threshold = np.zeros(most), np.zeros(most, np.int64), np.zeros(most, np.int64)
    _add_rows(rows, codes, first, slopes, weights, sums[0], sizes[0])
    stop[0] = len(rows)
    gain[0], column[0], threshold[0] = _best_split(
        sums[0], sizes[0], first, least, ridge, left, right
    )
    leaves, nodes = 1, 1
    while leaves < most:
        k = np.argmax(gain[:leaves])
        if gain[k] <= min_gain:
            break
        here, at = start[k], node[k]
        middle = here + _divide(rows[here : stop[k]], codes, column[k], threshold[k], spare)
        tree.column[at], tree.threshold[at], tree.below[at] = column[k], threshold[k], nodes
        node[k], node[leaves] = nodes, nodes + 1
        start[leaves], stop[leaves], stop[k] = middle, stop[k], middle
        nodes += 2
        small, large = (k, leaves) if middle - here <= stop[leaves] - middle else (leaves, k)
        if small == k:  # the histogram of the larger part is what is left of that of both
            sums[large], sizes[large] = sums[k], sizes[k]
            sums[k], sizes[k] = 0.0, 0.0
        part = rows[start[small] : stop[small]]
        _add_rows(part, codes, first, slopes, weights, sums[small], sizes[small])
        sums[large] -= sums[small]
        sizes[large] -= sizes[small]
        for leaf in (k, leaves):
            gain[leaf], column[leaf], threshold[leaf] = _best_split(
                sums[leaf], sizes[leaf], first, least, ridge, left, right
            )
        leaves += 1
    for leaf in range(leaves):
        tree.column[node[leaf]], tree.below[node[leaf]] = -1, leaf
        for s in range(states):
            slope = curve = 0.0
            for cell in range(first[0], first[1]):
                slope += sums[leaf, cell, 0, s]
                curve += sums[leaf, cell, 1, s]
            step = min(max(rate * slope / (curve + ridge), -LARGEST_VALUE), LARGEST_VALUE)
            values[leaf, s] = np.rint(step / unit) * unit
    return leaves


@compiled
def add_tree(codes: Byte2, tree: TreeNodes, values: Single2, scores: Single2) -> None:
    """Add the values of a tree to the scores of rows."""
    for r in range(len(codes)):
        node = 0
        while tree.column[node] >= 0:
            node = tree.below[node] + (codes[r, tree.column[node]] > tree.threshold[node])
        value = values[tree.below[node]]
        for s in range(len(value)):
            scores[r, s] += value[s]
