"""The chain of conditionals of a joint as the explorer's page reads it.

A tree is written node by node, each before all below it, the first child first, so that no places of
nodes have to be written. Numbers 0, -1, 1, -2, ... are written as 0, 1, 2, 3, ..., because bytes of
small numbers compress well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import IntArray, UInt16Array
from conjoin.models.conditional_chain import (
    LARGEST_RANK,
    VALUE_UNIT,
    BoostedConditional,
    ConditionalChain,
)


def page_chain(chain: ConditionalChain) -> tuple[dict[str, Any], UInt16Array]:
    """Return what the page needs to know of a chain, and the whole numbers of its trees."""
    conditionals, arrays = [], [np.zeros(0, np.int64)]
    for v, conditional in zip(chain.places.tolist(), chain.conditionals, strict=True):
        column, threshold, below = conditional.nodes[:, _from_the_top(conditional)]
        leaves = np.rint(conditional.values[below[column < 0]] / VALUE_UNIT)
        arrays += [
            conditional.ranks,
            column,
            np.minimum(threshold[column >= 0], LARGEST_RANK),
            leaves.ravel(),
        ]
        conditionals.append(
            {
                "column": v,
                "start": conditional.start.tolist(),
                "trees": len(conditional.roots),
                "nodes": len(column),
            }
        )
    numbers = np.concatenate(arrays).astype(np.int64)
    unsigned = np.where(numbers < 0, -2 * numbers - 1, 2 * numbers).astype(np.uint16)
    return {"share": chain.share, "conditionals": conditionals}, unsigned


def _from_the_top(conditional: BoostedConditional) -> IntArray:
    """Return the nodes of all trees, each before those below it."""
    column, _, below = conditional.nodes.tolist()
    order = []
    for root in conditional.roots.tolist():
        left = [root]
        while left:
            node = left.pop()
            order.append(node)
            if column[node] >= 0:
                left += [below[node] + 1, below[node]]
    return np.array(order, np.int64)
