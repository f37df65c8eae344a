"""Reading nested trees: a threshold on the gains of splits selects one tree of a node table."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled
from conjoin.kernels.layouts import Codes2, Int1
from conjoin.kernels.trees import MISSING_TO, NO, SPLIT, YES, NodeTable


@compiled
def visible_nodes(tree: NodeTable, threshold: float, order: Int1, number: Int1) -> int:
    """List the nodes of the tree of a threshold, level by level; return how many there are."""
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
            if set_state[split] <= state <= set_last[split] or (
                state == np.iinfo(codes.dtype).max and nodes[node, MISSING_TO] == 1
            ):
                node = nodes[node, YES]
            else:
                node = nodes[node, NO]
        out[r] = node
