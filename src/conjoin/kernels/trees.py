"""Growing decision trees on bit-packed columns.

A *set* is the rows on which a variable has a state, or one of several neighbouring states, as bits. All
counts that a node needs come from intersecting its rows with every set; one child of a split is counted,
the other is the difference. Each node has the gain of its best split, so that one table of nodes contains
the trees of all thresholds (see `conjoin.kernels.nested_trees`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.counts import count_bits, weigh
from conjoin.kernels.kernel import compiled, copy_into, inner
from conjoin.kernels.layouts import (
    Bool1,
    Float1,
    Float2,
    Int1,
    Int2,
    Short2,
    SignedByte1,
    Word1,
    Word2,
)

# Columns of the node table.
PARENT, YES, NO, SPLIT, MISSING_TO = 0, 1, 2, 3, 4


class TrainingRows(NamedTuple):
    """The rows that trees are grown on, as bits (see `conjoin.data.packed_table.PackedTable`)."""

    sets: Word2  # the rows of each set
    known: Word2  # the rows on which each variable is known; without words if no value is missing
    set_var: Int1  # the variable of each set
    candidate: Bool1  # whether trees may split on each set
    # The range of sets that add up to a variable's known rows; empty if it is always known
    known_of: Int2
    segments: Int1  # the first word of each segment of rows of equal weight
    powers: Float1  # the weight of a row in each segment


class Target(NamedTuple):
    """The variable that a tree predicts."""

    position: int  # its position
    rows: Word1  # the rows on which it is known
    state_sets: Word2  # the rows of each of its states but the first
    # 0 for variables that must not be split on, 2 for those that must, 1 for all others
    allowed: SignedByte1


class SplitScore(NamedTuple):
    """What decides between splits."""

    min_leaf: float  # the minimum weight of the rows in each branch
    pseudo: float  # the count added to each state
    # c log(c + pseudo) and c log(c + pseudo * states) for whole numbers c, if all counts are whole
    logs: Float2


class NodeTable(NamedTuple):
    """The nodes of a tree, in the order in which they were made."""

    # The parent, the two children, the set of the best split, and where rows without a value go
    links: Short2
    gains: Float1  # the gain of the best split
    counts: Float2  # the weight of the node's rows: in all, then of each state but the first


@inner
def log_likelihood(count, pseudo, logs):
    """Return the log-likelihood of counts under their own smoothed distribution.

    ``count[0]`` is the total, ``count[t]`` that of state t; `logs` holds c log(c + pseudo) and c log(c
    + pseudo * states) of whole numbers c, or nothing.
    """
    total = count[0]
    rest = total
    result = 0.0
    for t in range(1, len(count)):
        c = count[t]
        rest -= c
        if logs.shape[1]:
            result += logs[0, np.int64(c)]
        else:
            result += c * np.log(c + pseudo)
    if logs.shape[1]:
        return result + logs[0, np.int64(rest)] - logs[1, np.int64(total)]
    return result + rest * np.log(rest + pseudo) - total * np.log(total + pseudo * len(count))


@inner
def best_split(
    counts, node, position, set_var, candidate, known_of, allowed, min_leaf, pseudo, logs
):
    """Return the gain of the best split of a node and its set; ties go to the lowest set.

    A required variable comes before all others: while it can be split on, its best split has an
    infinite gain.
    """
    best, best_set = -np.inf, -1
    must, must_set = -np.inf, -1
    inside = np.empty(len(node))
    outside = np.empty(len(node))
    base = np.empty(len(node))
    last_var = -1
    base_value = node_value = log_likelihood(node, pseudo, logs)
    for i in range(counts.shape[0]):
        var = set_var[i]
        if not candidate[i] or var == position or not allowed[var]:
            continue
        if var != last_var:  # rows on which the variable is missing take no part in its splits
            last_var = var
            low, high = known_of[var, 0], known_of[var, 1]
            if high > low:
                base[:] = 0.0
                for k in range(low, high):
                    for t in range(len(node)):
                        base[t] += counts[k, t]
                base_value = log_likelihood(base, pseudo, logs)
            else:
                copy_into(base, node)
                base_value = node_value
        if counts[i, 0] < min_leaf or base[0] - counts[i, 0] < min_leaf:
            continue
        for t in range(len(node)):
            inside[t] = counts[i, t]
            outside[t] = base[t] - inside[t]
        gain = log_likelihood(inside, pseudo, logs) + log_likelihood(outside, pseudo, logs)
        gain -= base_value
        if gain > best:
            best, best_set = gain, i
        if allowed[var] == 2 and gain > must:
            must, must_set = gain, i
    if must_set >= 0:
        return np.inf, must_set
    return best, best_set


@inner
def split_rows(rows, inside, known, missing_to, yes, no):
    """Send the rows of a node to its children; those that are not `known` follow `missing_to`."""
    for k in range(len(rows)):
        yes[k] = rows[k] & inside[k]
        no[k] = rows[k] & ~inside[k]
    if len(known):
        larger, smaller = (yes, no) if missing_to == 1 else (no, yes)
        for k in range(len(rows)):
            unknown = rows[k] & ~known[k]
            larger[k] |= unknown
            smaller[k] &= ~unknown


@inner
def visit_leaf(tree, leaf, data, target, path, rows, counts, masks):
    """Find the rows of a leaf, by following its path from the root, and count them."""
    length, node = 0, leaf
    while node >= 0:
        path[length] = node
        length += 1
        node = tree.links[node, PARENT]
    copy_into(rows, target.rows)
    for step in range(length - 2, -1, -1):
        above, below = path[step + 1], path[step]
        split = tree.links[above, SPLIT]
        split_rows(
            rows, data.sets[split], data.known[data.set_var[split]],
            tree.links[above, MISSING_TO], masks[0], masks[1],
        )  # fmt: skip
        copy_into(rows, masks[0 if tree.links[above, YES] == below else 1])
    masks_of(rows, target.state_sets, masks)
    count_bits(data.sets, masks, data.segments, data.powers, counts)


@inner
def larger_branch(weight, here, split, low, high):
    """Return 1 if more of a node's rows are in a set than outside: where missing values go.

    The sets from `low` to `high` add up to the rows on which the variable is known.
    """
    full = weight
    if high > low:
        full = 0.0
        for k in range(low, high):
            full += here[k, 0]
    return 1 if 2 * here[split, 0] > full else 0


@inner
def subtract(whole, part, rest):
    """Set `rest` to a difference of counts."""
    for i in range(len(whole)):
        for t in range(whole.shape[1]):
            rest[i, t] = whole[i, t] - part[i, t]


@compiled
def grow(
    threshold: float,
    data: TrainingRows,
    target: Target,
    score: SplitScore,
    tree: NodeTable,
    size: int,
    max_depth: int,
) -> int:
    """Split every leaf whose best gain exceeds the threshold; return the number of nodes.

    `tree` has `size` nodes so far. Stops early when the node table is full; call it again with a
    larger one.
    """
    n_sets, width = data.sets.shape
    states = tree.counts.shape[1]
    # The rows and the counts of the nodes on the current path, two per level.
    rows_at = np.empty((max_depth + 1, 2, width), np.uint64)
    counts_at = np.empty((max_depth + 1, 2, n_sets, states))
    masks, total = np.empty((states, width), np.uint64), np.empty(states)
    stack = np.empty((2 * max_depth + 4, 3), np.int64)
    path = np.empty(len(tree.links) + 1, np.int64)
    # Reading the members of tuples in a loop costs time: references to them are counted.
    links, gains, weights = tree.links, tree.gains, tree.counts
    sets, known, set_var, known_of = data.sets, data.known, data.set_var, data.known_of
    segments, powers, candidate = data.segments, data.powers, data.candidate
    position, state_sets, allowed = target.position, target.state_sets, target.allowed
    min_leaf, pseudo, logs = score.min_leaf, score.pseudo, score.logs
    if size == 0:
        copy_into(rows_at[0, 0], target.rows)
        masks_of(target.rows, state_sets, masks)
        count_bits(sets, masks, segments, powers, counts_at[0, 0])
        for t in range(len(total)):
            weights[0, t] = weigh(masks[t], segments, powers)
        links[0] = -1
        gains[0], links[0, SPLIT] = best_split(
            counts_at[0, 0], weights[0], position, set_var, candidate, known_of, allowed, min_leaf,
            pseudo, logs,
        )  # fmt: skip
        size = 1
    for start in range(len(links)):
        if start >= size:
            break
        if links[start, YES] >= 0 or not gains[start] > threshold:
            continue
        visit_leaf(tree, start, data, target, path, rows_at[0, 0], counts_at[0, 0], masks)
        stack[0, 0], stack[0, 1], stack[0, 2] = start, 0, 0
        top = 1
        while top > 0:
            top -= 1
            node, depth, side = stack[top, 0], stack[top, 1], stack[top, 2]
            if size + 2 > len(links):
                return size
            if depth >= max_depth:
                continue  # found again as a leaf, further on in the loop over starts
            split, here, weight = links[node, SPLIT], counts_at[depth, side], weights[node]
            var, below = set_var[split], rows_at[depth + 1]
            missing_to = larger_branch(weight[0], here, split, known_of[var, 0], known_of[var, 1])
            links[node, MISSING_TO] = missing_to
            split_rows(
                rows_at[depth, side], sets[split], known[var], missing_to, below[0], below[1]
            )
            # The smaller child is counted; the other is the difference.
            smaller = 0 if 2 * weigh(below[0], segments, powers) <= weight[0] else 1
            counted = counts_at[depth + 1, smaller]
            masks_of(below[smaller], state_sets, masks)
            count_bits(sets, masks, segments, powers, counted)
            subtract(here, counted, counts_at[depth + 1, 1 - smaller])
            for t in range(len(total)):
                total[t] = weigh(masks[t], segments, powers)
            links[node, YES], links[node, NO] = size, size + 1
            for way in range(2):
                child = size + way
                links[child] = -1
                links[child, PARENT] = node
                for t in range(len(total)):
                    weights[child, t] = total[t] if way == smaller else weight[t] - total[t]
                gains[child], links[child, SPLIT] = best_split(
                    counts_at[depth + 1, way], weights[child], position, set_var, candidate,
                    known_of, allowed, min_leaf, pseudo, logs,
                )  # fmt: skip
            for way in range(1, -1, -1):
                if gains[size + way] > threshold:
                    stack[top, 0], stack[top, 1], stack[top, 2] = size + way, depth + 1, way
                    top += 1
            size += 2
    return size


@inner
def masks_of(rows, state_sets, masks):
    """Set the first mask to the rows, and each other one to those where the target has a state."""
    copy_into(masks[0], rows)
    for t in range(state_sets.shape[0]):
        for k in range(len(rows)):
            masks[t + 1, k] = rows[k] & state_sets[t, k]
