"""What regressions share: the features, indicators of states and paths of trees, and solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from conjoin.data.packed_table import state_ranges
from conjoin.data.table import Codes
from conjoin.kernels.indicators import add_by_leaf
from conjoin.learning.options import LIMITS

TOLERANCE = 1e-7
"""A target has converged when a step would gain less than this fraction of its objective."""
ROUGH = 1e-4
"""The same while penalties are only compared by their scores."""
MAX_STEPS = 100
REQUIRED_SHARE = 1e-3
"""The fraction of the penalty on the terms of required parents: enough to keep them finite."""
MAX_BATCH = 64
"""The maximum number of targets in a batch."""
SCREENED_BATCH = 16
"""The number of targets in a batch if each considers columns of its own."""
MIN_BATCHES = 4
"""The minimum number of batches, so that several cores have work even if all targets fit into one."""
ONE_BATCH_PRODUCTS = 1 << 21
"""The number of products, targets times features times rows, below which one batch is faster."""


@dataclass(frozen=True, eq=False)
class Indicators:
    """Features that are 0 or 1, as numbers for the products of linear algebra libraries."""

    x: Float32Array

    @property
    def width(self) -> int:
        """The number of features."""
        return self.x.shape[1]

    def select(self, features: IntArray) -> Indicators:
        """Return the matrix of some of the features."""
        return Indicators(np.take(self.x, features, axis=1))

    def logits(self, weights: FloatArray) -> Float32Array:
        """Return the sums of the weights of each row's features, for each row of weights."""
        by_row = self.x @ weights.T.astype(np.float32)  # faster than the transpose of this product
        return np.ascontiguousarray(by_row.T)

    def slopes(self, values: Float32Array, columns: IntArray) -> FloatArray:
        """Return the sums of some rows of values over the rows that have each feature."""
        part = values if len(columns) == len(values) else values[columns]
        return (part @ self.x).astype(np.float64)

    def second_moments(self, weights: Float32Array) -> FloatArray:
        """Return the summed weights of the rows that have both of two features."""
        return (self.x.T @ (self.x * weights[:, None])).astype(np.float64)

    def by_leaf(self, leaf: Int32Array, weights: Float32Array, out: FloatArray) -> None:
        """Add the weights of the rows that end in each leaf and have each feature."""
        add_by_leaf(leaf.astype(np.int64), weights, self.x, out)


@dataclass(frozen=True, eq=False)
class Design:
    """Indicator features of a table: one per state, of a binary variable state 1 only.

    Ordered variables also have indicators of all states up to one. Missing values have none.
    """

    cards: IntArray
    codes: Codes
    weights: Float32Array
    x: Indicators
    var: IntArray
    state: IntArray
    last: IntArray
    missing: int

    @classmethod
    def of(
        cls,
        cards: IntArray,
        codes: Codes,
        weights: FloatArray,
        left_out: Sequence[int] = (),
        ordered: BoolArray | None = None,
    ) -> Design:
        """Build from rows of codes; some variables may be left out as features."""
        var, state, last = state_ranges(cards, ordered)
        kept = ~np.isin(var, left_out)
        var, state, last = var[kept], state[kept], last[kept]
        x = np.empty((len(codes), len(var)), np.float32)
        for j, (v, low, high) in enumerate(zip(var, state, last, strict=True)):
            x[:, j] = _within(codes[:, v], low, high)
        missing, narrow = int(np.iinfo(codes.dtype).max), weights.astype(np.float32)
        return cls(cards, codes, narrow, Indicators(x), var, state, last, missing)

    def select(self, features: IntArray) -> Design:
        """Return the same rows with some of the features."""
        if len(features) == self.x.width:
            return self
        result = replace(
            self,
            x=self.x.select(features),
            var=self.var[features],
            state=self.state[features],
            last=self.last[features],
        )
        if "correlations" in self.__dict__:
            rho, mean, deviation = self.correlations
            some = rho[np.ix_(features, features)], mean[features], deviation[features]
            result.__dict__["correlations"] = some
        return result

    @cached_property
    def ids(self) -> Int32Array:
        """The indicators of each row, -1 where there is none.

        A column per variable for its states, then one for each indicator of several states.
        """
        several = np.flatnonzero(self.state != self.last)
        rows, variables = self.codes.shape
        result = np.full((rows, variables + len(several)), -1, np.int32)
        for j in np.flatnonzero(self.state == self.last):
            v = self.var[j]
            result[self.codes[:, v] == self.state[j], v] = j
        for k, j in enumerate(several):
            inside = _within(self.codes[:, self.var[j]], self.state[j], self.last[j])
            result[inside, variables + k] = j
        return result

    @cached_property
    def correlations(self) -> tuple[Float32Array, FloatArray, FloatArray]:
        """The correlations, means and deviations of the features; computed once."""
        total = float(self.weights.sum(dtype=np.float64))
        second = self.x.second_moments(self.weights) / total
        mean = np.diag(second).copy()
        deviation = np.sqrt(np.maximum(mean * (1 - mean), 0))
        return correlation(second, mean, deviation, mean, deviation), mean, deviation


def _within(column: Codes, first: int, last: int) -> BoolArray:
    """Return which rows have one of some neighbouring states."""
    return column == first if first == last else (column >= first) & (column <= last)


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
    """Conjunctions on the paths of a target's tree, which are features of this target only."""

    leaf: Int32Array  # the node that each training row ends in
    # The parent of each node; node 0 is the root, children come after their parents
    parent: IntArray
    depth: IntArray  # the depth of each node
    valid_leaf: Int32Array  # the node that each validation row ends in


def joint_counts(
    x: Indicators, path: PathFeatures, weights: Float32Array
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the rows in which nodes occur with features, and alone."""
    size = len(path.parent)
    cross = np.zeros((size, x.width))
    x.by_leaf(path.leaf, weights, cross)
    alone = np.bincount(path.leaf, weights, size).astype(np.float64)
    for node in range(size - 1, 0, -1):
        cross[path.parent[node]] += cross[node]
        alone[path.parent[node]] += alone[node]
    return cross, alone


def batches(
    design: Design,
    targets: Sequence[int],
    most: int = MAX_BATCH,
    cells: int = LIMITS.batch_cells,
) -> list[list[int]]:
    """Split the targets into batches of bounded size, the same ones for any number of jobs."""
    small = len(targets) * design.x.width * len(design.codes) < ONE_BATCH_PRODUCTS
    share = len(targets) if small else -(-len(targets) // MIN_BATCHES)
    room = max(4, min(most, share, cells // max(1, len(design.codes))))
    return [list(targets[low : low + room]) for low in range(0, len(targets), room)]


@dataclass(eq=False)
class Solution:
    """Weights of some targets at one penalty: columns by features, and those of path features.

    The solution for the next penalty starts from here.
    """

    tolerance: float
    weights: FloatArray
    bias: FloatArray
    own: FloatArray
    score: FloatArray
