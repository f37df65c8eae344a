"""The features of logistic regression: indicators of states, and conjunctions on a tree's paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, IntArray
from conjoin.data.table import Codes

BATCH_CELLS = 1 << 24
"""Rows times columns that a batch may hold."""


def indicator_states(cards: IntArray) -> tuple[IntArray, IntArray]:
    """Return the variable and the state of each indicator: one a state, of two states the second.

    Examples
    --------
    >>> [part.tolist() for part in indicator_states(np.array([2, 3]))]
    [[0, 1, 1, 1], [1, 0, 1, 2]]
    """
    var = np.repeat(np.arange(len(cards)), np.where(cards == 2, 1, cards))
    first = np.searchsorted(var, np.arange(len(cards)))
    return var, np.arange(len(var)) - first[var] + (cards[var] == 2)


@dataclass(frozen=True, eq=False)
class Design:
    """Indicator features of a table: one a state, of a binary variable state 1 only.

    A missing value has no indicator: it contributes nothing.
    """

    cards: IntArray
    codes: Codes
    weights: Float32Array
    x: Float32Array
    var: IntArray
    state: IntArray
    missing: int

    @classmethod
    def of(
        cls,
        cards: IntArray,
        codes: Codes,
        weights: FloatArray,
        left_out: Sequence[int] = (),
    ) -> Design:
        """Build from rows of codes; some variables may be left out as features."""
        var, state = indicator_states(cards)
        kept = ~np.isin(var, left_out)
        var, state = var[kept], state[kept]
        x = np.empty((len(codes), len(var)), np.float32)
        for f in range(len(var)):
            x[:, f] = codes[:, var[f]] == state[f]
        missing = int(np.iinfo(codes.dtype).max)
        return cls(cards, codes, weights.astype(np.float32), x, var, state, missing)

    @cached_property
    def correlations(self) -> tuple[Float32Array, FloatArray, FloatArray]:
        """The correlations, means and deviations of the features; worked out once."""
        total = float(self.weights.sum(dtype=np.float64))
        weighted = self.x * self.weights[:, None]
        mean = weighted.sum(axis=0, dtype=np.float64) / total
        second = (self.x.T @ weighted) / np.float32(total)
        deviation = np.sqrt(np.maximum(mean * (1 - mean), 0))
        return correlation(second, mean, deviation, mean, deviation), mean, deviation


def correlation(
    second: npt.NDArray[Any], m1: FloatArray, d1: FloatArray, m2: FloatArray, d2: FloatArray
) -> Float32Array:
    """Turn second moments into correlations, 0 where a deviation is 0."""
    scale = np.outer(d1, d2)
    covariance = second - np.outer(m1, m2)
    return np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0).astype(
        np.float32
    )


@dataclass(frozen=True, eq=False)
class PathFeatures:
    """Conjunctions on the paths of a target's tree, as features of its own.

    Attributes
    ----------
    leaf : array of int
        The node that each training row ends in.
    parent : array of int
        The parent of each node; node 0 is the root, children come after their parents.
    depth : array of int
        The depth of each node.
    valid_leaf : array of int
        The node that each validation row ends in.
    """

    leaf: IntArray
    parent: IntArray
    depth: IntArray
    valid_leaf: IntArray

    @cached_property
    def members(self) -> BoolArray:
        """Return which nodes lie on the path to each node, the node itself included."""
        result = np.eye(len(self.parent), dtype=bool)
        for node in range(1, len(self.parent)):
            result[node] |= result[self.parent[node]]
        return result


def joint_counts(design: Design, path: PathFeatures) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how often nodes occur with features and with each other, and alone, as fractions."""
    from conjoin.kernels.logistic import rows_by_leaf

    total = float(design.weights.sum(dtype=np.float64))
    size = len(path.parent)
    cross, alone = np.zeros((size, design.x.shape[1])), np.zeros(size)
    rows_by_leaf(path.leaf, design.weights, design.x, cross, alone)
    cross /= total
    alone /= total
    for node in range(size - 1, 0, -1):
        cross[path.parent[node]] += cross[node]
        alone[path.parent[node]] += alone[node]
    inner = np.zeros((size, size))
    for node in range(size):
        above = node
        while above >= 0:
            inner[node, above] = inner[above, node] = alone[node]
            above = int(path.parent[above])
    return cross, inner, alone


def batches(design: Design, targets: Sequence[int]) -> list[list[int]]:
    """Cut the targets into batches of bounded size, the same ones for any number of jobs."""
    room = max(4, min(64, BATCH_CELLS // max(1, len(design.codes))))
    result: list[list[int]] = [[]]
    used = 0
    for t in targets:
        width = 1 if design.cards[t] == 2 else int(design.cards[t])
        if result[-1] and used + width > room:
            result.append([])
            used = 0
        result[-1].append(int(t))
        used += width
    return [batch for batch in result if batch]
