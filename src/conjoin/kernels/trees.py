"""Growing decision trees on bit-packed columns.

A *set* is the set of rows on which a variable has a state, as bits. All counts that a node needs come
from intersecting its rows with every set; one child of a split is counted, the other is the difference.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.
# ruff: noqa: SIM108, SIM114

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.kernels.counts import count_bits, count_node, weigh
from conjoin.kernels.kernel import compiled, copy_into, inner
from conjoin.kernels.layouts import (
    Bool1,
    Byte2,
    Codes2,
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
def best_split(counts, node, target, set_var, candidate, known_of, allowed, min_leaf, pseudo, logs):
    """Return the gain of the best split of a node and its set; ties go to the lowest set.

    A variable that is required comes before all others: while it can be split on, the best such split
    has an infinite gain.
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
        if not candidate[i] or var == target or not allowed[var]:
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
def split_rows(rows, sets, known, split, var, missing_to, yes, no):
    """Send the rows of a node to its children; those without a value follow `missing_to`."""
    for k in range(len(rows)):
        r = rows[k]
        y = r & sets[split, k]
        if known.shape[1]:
            unknown = r & ~known[var, k]
        else:
            unknown = np.uint64(0)
        n = r & ~y & ~unknown
        if missing_to == 1:
            y |= unknown
        else:
            n |= unknown
        yes[k] = y
        no[k] = n


@compiled
def grow(
    threshold: float,
    min_leaf: float,
    pseudo: float,
    logs: Float2,
    target: int,
    root_rows: Word1,
    target_sets: Word2,
    sets: Word2,
    known: Word2,
    members: Byte2,
    set_var: Int1,
    candidate: Bool1,
    known_of: Int2,
    allowed: SignedByte1,
    segments: Int1,
    powers: Float1,
    nodes: Short2,
    gains: Float1,
    counts: Float2,
    n_nodes: int,
    max_depth: int,
) -> Any:
    """Split every leaf whose best gain exceeds the threshold; return the number of nodes.

    Stops early when the node table is full; call it again with a larger one.
    """
    width, n_sets, states = sets.shape[1], sets.shape[0], counts.shape[1]
    rows_at = np.empty((max_depth + 1, 2, width), np.uint64)
    counts_at = np.empty((max_depth + 1, 2, n_sets, states))
    masks = np.empty((states, width), np.uint64)
    stack = np.empty((2 * max_depth + 4, 3), np.int64)
    path = np.empty(len(nodes) + 1, np.int64)
    total = np.empty(states)
    sums = np.empty(members.shape[1], np.uint8)

    if n_nodes == 0:
        copy_into(rows_at[0, 0], root_rows)
        masks_of(root_rows, target_sets, masks)
        count_bits(sets, masks, segments, powers, counts_at[0, 0])
        for t in range(states):
            counts[0, t] = weigh(masks[t], segments, powers)
        nodes[0] = -1
        gains[0], nodes[0, SPLIT] = best_split(
            counts_at[0, 0],
            counts[0],
            target,
            set_var,
            candidate,
            known_of,
            allowed,
            min_leaf,
            pseudo,
            logs,
        )
        n_nodes = 1

    for start in range(len(nodes)):
        if start >= n_nodes:
            break
        if nodes[start, YES] >= 0 or not gains[start] > threshold:
            continue
        # Find the rows of this leaf by following its path from the root.
        length, node = 0, start
        while node >= 0:
            path[length] = node
            length += 1
            node = nodes[node, PARENT]
        copy_into(rows_at[0, 0], root_rows)
        for step in range(length - 2, -1, -1):
            above, below = path[step + 1], path[step]
            split = nodes[above, SPLIT]
            split_rows(
                rows_at[0, 0],
                sets,
                known,
                split,
                set_var[split],
                nodes[above, MISSING_TO],
                masks[0],
                masks[1],
            )
            copy_into(rows_at[0, 0], masks[0 if nodes[above, YES] == below else 1])
        masks_of(rows_at[0, 0], target_sets, masks)
        count_node(rows_at[0, 0], masks, sets, members, segments, powers, sums, counts_at[0, 0])
        stack[0, 0], stack[0, 1], stack[0, 2] = start, 0, 0
        top = 1
        while top > 0:
            top -= 1
            node, depth, side = stack[top, 0], stack[top, 1], stack[top, 2]
            if n_nodes + 2 > len(nodes):
                return n_nodes
            if depth >= max_depth:
                continue  # found again as a leaf, further on in the loop over starts
            split = nodes[node, SPLIT]
            var = set_var[split]
            rows, here = rows_at[depth, side], counts_at[depth, side]
            # Rows without a value go with the larger branch.
            inside = here[split, 0]
            low, high = known_of[var, 0], known_of[var, 1]
            full = counts[node, 0]
            if high > low:
                full = 0.0
                for k in range(low, high):
                    full += here[k, 0]
            nodes[node, MISSING_TO] = 1 if 2 * inside > full else 0
            yes_rows, no_rows = rows_at[depth + 1, 0], rows_at[depth + 1, 1]
            split_rows(rows, sets, known, split, var, nodes[node, MISSING_TO], yes_rows, no_rows)
            # Count the smaller child; the other is the difference.
            yes_weight = weigh(yes_rows, segments, powers)
            smaller = 0 if 2 * yes_weight <= counts[node, 0] else 1
            few = rows_at[depth + 1, smaller]
            counted = counts_at[depth + 1, smaller]
            masks_of(few, target_sets, masks)
            count_node(few, masks, sets, members, segments, powers, sums, counted)
            other = counts_at[depth + 1, 1 - smaller]
            for i in range(n_sets):
                for t in range(states):
                    other[i, t] = here[i, t] - counted[i, t]
            for t in range(states):
                total[t] = weigh(masks[t], segments, powers)
            for way in range(2):
                child = n_nodes
                n_nodes += 1
                nodes[child] = -1
                nodes[child, PARENT] = node
                if way == 0:
                    nodes[node, YES] = child
                else:
                    nodes[node, NO] = child
                for t in range(states):
                    if way == smaller:
                        counts[child, t] = total[t]
                    else:
                        counts[child, t] = counts[node, t] - total[t]
                gains[child], nodes[child, SPLIT] = best_split(
                    counts_at[depth + 1, way],
                    counts[child],
                    target,
                    set_var,
                    candidate,
                    known_of,
                    allowed,
                    min_leaf,
                    pseudo,
                    logs,
                )
            for way in range(1, -1, -1):
                child = nodes[node, YES] if way == 0 else nodes[node, NO]
                if gains[child] > threshold:
                    stack[top, 0], stack[top, 1], stack[top, 2] = child, depth + 1, way
                    top += 1
    return n_nodes


@compiled
def masks_of(rows: Word1, target_sets: Word2, masks: Word2) -> None:
    """Set the first mask to the rows, and each other one to those where the target has a state."""
    copy_into(masks[0], rows)
    for t in range(target_sets.shape[0]):
        for k in range(len(rows)):
            masks[t + 1, k] = rows[k] & target_sets[t, k]


@compiled
def count_leaves(
    threshold: float,
    root_rows: Word1,
    target_sets: Word2,
    sets: Word2,
    known: Word2,
    set_var: Int1,
    segments: Int1,
    powers: Float1,
    nodes: Short2,
    gains: Float1,
    counts: Float2,
) -> None:
    """Weigh the rows that end in each leaf of the tree of a threshold, in all and by state.

    `counts` gets a row for each node, like the node table's; those of inner nodes stay as they are.
    """
    depth_of = np.zeros(len(nodes), np.int64)
    deepest = 0
    for node in range(1, len(nodes)):
        depth_of[node] = depth_of[nodes[node, PARENT]] + 1
        deepest = max(deepest, depth_of[node])
    width = len(root_rows)
    rows_at = np.empty((deepest + 1, 2, width), np.uint64)
    masks = np.empty((counts.shape[1], width), np.uint64)
    stack = np.empty((deepest + 2, 2), np.int64)
    copy_into(rows_at[0, 0], root_rows)
    stack[0] = 0
    top = 1
    while top > 0:
        top -= 1
        node, side = stack[top, 0], stack[top, 1]
        rows = rows_at[depth_of[node], side]
        if nodes[node, YES] < 0 or not gains[node] > threshold:
            masks_of(rows, target_sets, masks)
            for t in range(counts.shape[1]):
                counts[node, t] = weigh(masks[t], segments, powers)
            continue
        split = nodes[node, SPLIT]
        below = rows_at[depth_of[node] + 1]
        var = set_var[split]
        split_rows(rows, sets, known, split, var, nodes[node, MISSING_TO], below[0], below[1])
        stack[top, 0], stack[top, 1] = nodes[node, NO], 1
        stack[top + 1, 0], stack[top + 1, 1] = nodes[node, YES], 0
        top += 2


@compiled
def visible_nodes(nodes: Short2, gains: Float1, threshold: float, order: Int1, number: Int1) -> Any:
    """List the nodes of the tree of a threshold, level by level; return how many there are.

    `number` gets the place of each node in that list.
    """
    order[0] = number[0] = 0
    size = 1
    at = 0
    while at < size:
        node = order[at]
        at += 1
        if nodes[node, YES] >= 0 and gains[node] > threshold:
            for child in (nodes[node, YES], nodes[node, NO]):
                order[size] = child
                number[child] = size
                size += 1
    return size


@compiled
def walk(
    codes: Codes2,
    nodes: Short2,
    gains: Float1,
    threshold: float,
    split_var: Int1,
    split_state: Int1,
    out: Int1,
) -> None:
    """Find the leaf that each row reaches in the tree that stops at a threshold.

    `codes` has one row a variable, so that neighbouring rows of the table are read together. A row
    without a value goes where the training rows without one went.
    """
    for r in range(codes.shape[1]):
        node = 0
        while nodes[node, YES] >= 0 and gains[node] > threshold:
            split = nodes[node, SPLIT]
            state = np.int64(codes[split_var[split], r])
            if state == split_state[split]:
                node = nodes[node, YES]
            elif state == np.iinfo(codes.dtype).max and nodes[node, MISSING_TO] == 1:
                node = nodes[node, YES]
            else:
                node = nodes[node, NO]
        out[r] = node
