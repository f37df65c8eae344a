"""Matrices of indicators, rows by features, and their products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from conjoin.kernels.indicators import add_by_leaf, screened_logits, screened_slopes

SCREENED_SHARE = 0.4
"""If columns consider a smaller share of the features, the others are left out of products."""


@dataclass(frozen=True, eq=False)
class Indicators:
    """Features that are 0 or 1, as numbers for the products of linear algebra libraries.

    `considered`: the features that each column of a regression considers, if they are few. Weights of
    all other features are 0, and their slopes need not be computed.
    """

    x: Float32Array
    considered: BoolArray | None = None

    @classmethod
    def of(cls, columns: list[BoolArray], rows: int) -> Indicators:
        """Return the matrix with these columns."""
        x = np.empty((rows, len(columns)), np.float32)
        for j, column in enumerate(columns):
            x[:, j] = column
        return cls(x)

    @property
    def width(self) -> int:
        """The number of features."""
        return self.x.shape[1]

    @cached_property
    def by_feature(self) -> npt.NDArray[np.uint8]:
        """The transposed matrix."""
        return np.ascontiguousarray(self.x.astype(np.uint8).T)

    def select(self, features: IntArray) -> Indicators:
        """Return the matrix of some of the features."""
        chosen = Indicators(np.take(self.x, features, axis=1))
        chosen.__dict__["by_feature"] = self.by_feature[features]
        return chosen

    def screened(self, considered: BoolArray) -> Indicators:
        """Return the matrix for columns that consider some of the features, columns by features."""
        if np.count_nonzero(considered) > SCREENED_SHARE * considered.size:
            return self
        result = replace(self, considered=considered)
        result.__dict__["by_feature"] = self.by_feature
        return result

    def logits(self, weights: FloatArray) -> Float32Array:
        """Return the sums of the weights of each row's features, for each row of weights."""
        if self.considered is not None:
            out = np.zeros((len(weights), len(self.x)), np.float32)
            screened_logits(self.by_feature, weights, out)
            return out
        by_row = self.x @ weights.T.astype(np.float32)  # faster than the transpose of this product
        return np.ascontiguousarray(by_row.T)

    def slopes(self, values: Float32Array, columns: IntArray) -> FloatArray:
        """Return the sums of some rows of values over the rows that have each feature."""
        if self.considered is not None:
            out = np.zeros((len(columns), self.width))
            screened_slopes(self.by_feature, self.considered, values, columns, out)
            return out
        part = values if len(columns) == len(values) else values[columns]
        return (part @ self.x).astype(np.float64)

    def second_moments(self, weights: Float32Array) -> FloatArray:
        """Return the summed weights of the rows that have both of two features."""
        return (self.x.T @ (self.x * weights[:, None])).astype(np.float64)

    def by_leaf(self, leaf: Int32Array, weights: Float32Array, out: FloatArray) -> None:
        """Add the weights of the rows that end in each leaf and have each feature."""
        add_by_leaf(leaf.astype(np.int64), weights, self.x, out)
