"""Conditional distributions that are sums of trees, for many rows.

Trees split the states of a column, in an order of their own, at thresholds. What all states of one
column would change is found in one pass over the trees: each leaf counts for an interval of the states.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Byte1, Float1, Float2, Int1, Int2, Single2, TreeNodes


@inner
def _log_normaliser(scores):
    top, total = scores[0], 0.0
    for s in range(len(scores)):
        top = max(top, scores[s])
    for s in range(len(scores)):
        total += np.exp(scores[s] - top)
    return top + np.log(total)


@inner
def _add_leaves(codes, ranks, first, root, tree, values, v, width, stack, steps):
    """Add what a tree says where the ranks of column v begin, and take it off where they end."""
    stack[0, 0], stack[0, 1], stack[0, 2] = root, 0, width
    depth = 1
    while depth:
        depth -= 1
        node, low, high = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        while tree.column[node] >= 0:
            column, threshold = tree.column[node], tree.threshold[node]
            node = tree.below[node]
            if column != v:
                node += ranks[first[column] + codes[column]] > threshold
            elif low > threshold:
                node += 1
            elif high > threshold + 1:  # both children count, each for a part
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = node + 1, threshold + 1, high
                depth += 1
                high = threshold + 1
        value = values[tree.below[node]]
        for s in range(len(value)):
            steps[low, s] += value[s]
            steps[high, s] -= value[s]


@compiled
def add_log_conditionals(
    codes: Int2,
    ranks: Byte1,
    first: Int1,
    start: Float1,
    roots: Int1,
    tree: TreeNodes,
    values: Single2,
    target: int,
    v: int,
    out: Float2,
) -> None:
    """Add the log-probability of the target's state to each row, given each state of column v.

    `ranks`: the order of the states of all columns, side by side; `first`: where each column begins.
    `start`: the scores without trees. `roots`: the first node of each tree. `v`: -1 for no column; then
    there is one number per row. If it is the target itself, each of its states has its log-probability.
    """
    states, width = len(start), 1
    varies = v >= 0 and v != target
    if varies:
        for state in range(out.shape[1]):
            width = max(width, ranks[first[v] + state] + 1)
    steps, scores = np.zeros((width + 1, states)), np.empty(states)
    of_rank = np.empty((width, 2))  # the normaliser, and the score of the target's state
    stack = np.empty((len(tree.column) + 1, 3), np.int64)
    for r in range(len(codes)):
        steps[:] = 0.0
        for root in roots:
            _add_leaves(
                codes[r], ranks, first, root, tree, values, v if varies else -1, width, stack, steps
            )
        for s in range(states):
            scores[s] = start[s]
        for rank in range(width):
            for s in range(states):
                scores[s] += steps[rank, s]
            of_rank[rank, 0] = _log_normaliser(scores)
            if v != target:
                of_rank[rank, 1] = scores[codes[r, target]]
        for state in range(out.shape[1]):
            rank = ranks[first[v] + state] if varies else 0
            score = scores[state] if v == target else of_rank[rank, 1]
            out[r, state] += score - of_rank[rank, 0]
