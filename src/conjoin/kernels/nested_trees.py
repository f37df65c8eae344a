"""Reading nested trees: a threshold on the gains of splits selects one tree of a node table."""

# Plain branches are what the compiler wants.
# ruff: noqa: SIM114

from __future__ import annotations

import numpy as np

from conjoin.kernels.counts import weigh
from conjoin.kernels.kernel import compiled, copy_into
from conjoin.kernels.layouts import Codes2, Float2, Int1, Word1, Word2
from conjoin.kernels.trees import (
    MISSING_TO,
    NO,
    PARENT,
    SPLIT,
    YES,
    NodeTable,
    TrainingRows,
    masks_of,
    split_rows,
)


@compiled
def count_leaves(
    threshold: float,
    data: TrainingRows,
    rows: Word1,
    state_sets: Word2,
    tree: NodeTable,
    counts: Float2,
) -> None:
    """Weigh the rows that end in each leaf of the tree of a threshold, in all and by state.

    `rows` are those on which the target is known, `state_sets` those of its states but the first.
    `counts` gets a row per node, like the node table's; those of inner nodes stay as they are.
    """
    links, gains, segments, powers = tree.links, tree.gains, data.segments, data.powers
    sets, known, set_var = data.sets, data.known, data.set_var
    depth_of = np.zeros(len(counts), np.int64)
    deepest = 0
    for node in range(1, len(counts)):
        depth_of[node] = depth_of[links[node, PARENT]] + 1
        deepest = max(deepest, depth_of[node])
    width = len(rows)
    rows_at = np.empty((deepest + 1, 2, width), np.uint64)
    masks = np.empty((counts.shape[1], width), np.uint64)
    stack = np.empty((deepest + 2, 2), np.int64)
    copy_into(rows_at[0, 0], rows)
    stack[0] = 0
    top = 1
    while top > 0:
        top -= 1
        node, side = stack[top, 0], stack[top, 1]
        here = rows_at[depth_of[node], side]
        if links[node, YES] < 0 or not gains[node] > threshold:
            masks_of(here, state_sets, masks)
            for t in range(counts.shape[1]):
                counts[node, t] = weigh(masks[t], segments, powers)
            continue
        below = rows_at[depth_of[node] + 1]
        split, missing_to = links[node, SPLIT], links[node, MISSING_TO]
        split_rows(here, sets[split], known[set_var[split]], missing_to, below[0], below[1])
        stack[top, 0], stack[top, 1] = links[node, NO], 1
        stack[top + 1, 0], stack[top + 1, 1] = links[node, YES], 0
        top += 2


@compiled
def visible_nodes(tree: NodeTable, threshold: float, order: Int1, number: Int1) -> int:
    """List the nodes of the tree of a threshold, level by level; return how many there are.

    `number` gets the place of each node in that list.
    """
    order[0] = number[0] = 0
    size = 1
    at = 0
    while at < size:
        node = order[at]
        at += 1
        if tree.links[node, YES] >= 0 and tree.gains[node] > threshold:
            for child in (tree.links[node, YES], tree.links[node, NO]):
                order[size] = child
                number[child] = size
                size += 1
    return size


@compiled
def walk(
    codes: Codes2,
    tree: NodeTable,
    threshold: float,
    set_var: Int1,
    set_state: Int1,
    set_last: Int1,
    out: Int1,
) -> None:
    """Find the leaf that each row reaches in the tree that stops at a threshold.

    `codes` has one row per variable, so that neighbouring rows of the table are read together. A row
    without a value goes where the training rows without one went.
    """
    nodes, gains = tree.links, tree.gains
    for r in range(codes.shape[1]):
        node = 0
        while nodes[node, YES] >= 0 and gains[node] > threshold:
            split = nodes[node, SPLIT]
            state = np.int64(codes[set_var[split], r])
            if set_state[split] <= state <= set_last[split]:
                node = nodes[node, YES]
            elif state == np.iinfo(codes.dtype).max and nodes[node, MISSING_TO] == 1:
                node = nodes[node, YES]
            else:
                node = nodes[node, NO]
        out[r] = node
