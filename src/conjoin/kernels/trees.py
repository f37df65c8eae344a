"""Growing decision trees on bit-packed columns.

A *set* is the rows on which a variable has a state, or one of several neighbouring states, as bits. All
counts that a node needs come from intersecting its rows with every set; one child of a split is counted,
the other is the difference. Each node has the gain of its best split, so that one table of nodes contains
the trees of all thresholds (see `conjoin.kernels.nested_trees`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conjoin.kernels.counts import count_bits, count_node, weigh
from conjoin.kernels.kernel import compiled, copy_into, inner
from conjoin.kernels.layouts import (
    Bool1,
    Byte2,
    Float1,
    Float2,
    Int1,
    Int2,
    Short2,
    SignedByte1,
    Word1,
    Word2,
)
from conjoin.kernels.signatures import layout

# Columns of the node table.
PARENT, YES, NO, SPLIT, MISSING_TO = 0, 1, 2, 3, 4


@layout
class TrainingRows(NamedTuple):
    """The rows that trees are grown on, as bits (see `conjoin.data.packed_table.PackedTable`).

    Attributes
    ----------
    sets : uint64, (sets, words)
        The rows of each set.
    known : uint64, (variables, words) or (variables, 0)
        The rows on which each variable is known; without words if no value is missing.
    members : uint8, (rows, sets and padding)
        Whether each row is in each set.
    set_var : int64, (sets,)
        The variable of each set.
    candidate : bool, (sets,)
        Whether trees may split on each set.
    known_of : int64, (variables, 2)
        The range of sets that add up to a variable's known rows; empty if it is always known.
    segments : int64
        The first word of each segment of rows of equal weight.
    powers : float64
        The weight of a row in each segment.
    """

    sets: Word2
    known: Word2
    members: Byte2
    set_var: Int1
    candidate: Bool1
    known_of: Int2
    segments: Int1
    powers: Float1


@layout
class Target(NamedTuple):
    """The variable that a tree predicts.

    Attributes
    ----------
    position : int
        Its position.
    rows : uint64, (words,)
        The rows on which it is known.
    state_sets : uint64, (states - 1, words)
        The rows of each of its states but the first.
    allowed : int8, (variables,)
        0 for variables that must not be split on, 2 for those that must, 1 for all others.
    """

    position: int
    rows: Word1
    state_sets: Word2
    allowed: SignedByte1


@layout
class SplitScore(NamedTuple):
    """What decides between splits.

    Attributes
    ----------
    min_leaf : float
        The minimum weight of the rows in each branch.
    pseudo : float
        The count added to each state.
    logs : float64, (2, counts) or (2, 0)
        c log(c + pseudo) and c log(c + pseudo * states) for whole numbers c, if all counts are whole.
    """

    min_leaf: float
    pseudo: float
    logs: Float2


@layout
class NodeTable(NamedTuple):
    """The nodes of a tree, in the order in which they were made.

    Attributes
    ----------
    links : int32, (nodes, 5)
        The parent, the two children, the set of the best split, and where rows without a value go.
    gains : float64, (nodes,)
        The gain of the best split.
    counts : float64, (nodes, states)
        The weight of the node's rows: in all, then of each state but the first.
    """

    links: Short2
    gains: Float1
    counts: Float2


class Workspace(NamedTuple):
    """The rows and the counts of the nodes on the current path, two per level, and scratch arrays."""

    rows: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.float64]
    masks: npt.NDArray[np.uint64]
    total: npt.NDArray[np.float64]
    sums: npt.NDArray[np.uint8]


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
def gains_of_two(counts, node, logs, gains):
    """Set the gain of every set for a target of two states and whole counts, nothing missing.

    One line of arithmetic without branches: the loop becomes vector instructions.
    """
    inner, outer = logs[0], logs[1]
    total, ones = np.int64(node[0]), np.int64(node[1])
    base = inner[ones] + inner[total - ones] - outer[total]
    for i in range(len(gains)):
        inside, with_one = np.int64(counts[i, 0]), np.int64(counts[i, 1])
        rest = total - inside
        gains[i] = (
            (inner[with_one] + inner[inside - with_one] - outer[inside])
            + (inner[ones - with_one] + inner[rest - ones + with_one] - outer[rest])
            - base
        )


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
    quick = len(node) == 2 and logs.shape[1] > 0
    ready = np.empty(len(counts))
    if quick:
        gains_of_two(counts, node, logs, ready)
    inside = np.empty(len(node))
    outside = np.empty(len(node))
    base = np.empty(len(node))
    last_var = -1
    copy_into(base, node)
    base_is_node = True
    node_value = log_likelihood(node, pseudo, logs)
    base_value = node_value
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
                base_is_node = False
            elif not base_is_node:
                copy_into(base, node)
                base_value = node_value
                base_is_node = True
        if counts[i, 0] < min_leaf or base[0] - counts[i, 0] < min_leaf:
            continue
        if quick and base_is_node:
            gain = ready[i]
        else:
            for t in range(len(node)):
                inside[t] = counts[i, t]
                outside[t] = base[t] - inside[t]
            gain = (
                log_likelihood(inside, pseudo, logs)
                + log_likelihood(outside, pseudo, logs)
                - base_value
            )
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
def visit_leaf(tree, leaf, data, target, path, work):
    """Find the rows of a leaf, by following its path from the root, and count them."""
    length, node = 0, leaf
    while node >= 0:
        path[length] = node
        length += 1
        node = tree.links[node, PARENT]
    rows = work.rows[0, 0]
    copy_into(rows, target.rows)
    for step in range(length - 2, -1, -1):
        above, below = path[step + 1], path[step]
        split = tree.links[above, SPLIT]
        split_rows(
            rows, data.sets[split], data.known[data.set_var[split]],
            tree.links[above, MISSING_TO], work.masks[0], work.masks[1],
        )  # fmt: skip
        copy_into(rows, work.masks[0 if tree.links[above, YES] == below else 1])
    masks_of(rows, target.state_sets, work.masks)
    count_node(
        rows, work.masks, data.sets, data.members, data.segments, data.powers, work.sums,
        work.counts[0, 0],
    )  # fmt: skip


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


@inner
def make_workspace(tree, data, max_depth):
    """Allocate the arrays for paths of a maximum depth."""
    n_sets, width = data.sets.shape
    states = tree.counts.shape[1]
    return Workspace(
        np.empty((max_depth + 1, 2, width), np.uint64),
        np.empty((max_depth + 1, 2, n_sets, states)),
        np.empty((states, width), np.uint64),
        np.empty(states),
        np.empty(data.members.shape[1], np.uint8),
    )


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
    work = make_workspace(tree, data, max_depth)
    stack = np.empty((2 * max_depth + 4, 3), np.int64)
    path = np.empty(len(tree.links) + 1, np.int64)
    # Reading the members of tuples in a loop costs time: references to them are counted.
    links, gains, weights = tree.links, tree.gains, tree.counts
    sets, known, set_var, known_of = data.sets, data.known, data.set_var, data.known_of
    members, segments, powers, candidate = data.members, data.segments, data.powers, data.candidate
    position, state_sets, allowed = target.position, target.state_sets, target.allowed
    min_leaf, pseudo, logs = score.min_leaf, score.pseudo, score.logs
    rows_at, counts_at, masks, total = work.rows, work.counts, work.masks, work.total
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
        visit_leaf(tree, start, data, target, path, work)
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
            count_node(below[smaller], masks, sets, members, segments, powers, work.sums, counted)
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


@compiled
def masks_of(rows: Word1, state_sets: Word2, masks: Word2) -> None:
    """Set the first mask to the rows, and each other one to those where the target has a state."""
    copy_into(masks[0], rows)
    for t in range(state_sets.shape[0]):
        for k in range(len(rows)):
            masks[t + 1, k] = rows[k] & state_sets[t, k]
