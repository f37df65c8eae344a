"""Matrices of indicators, rows by features: dense, or sparse if few elements are 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from conjoin.learning.options import LIMITS

SCREENED_SHARE = 0.4
"""If columns consider a smaller share of the features, the others are left out of dense products."""


class Indicators(Protocol):
    """Features that are 0 or 1 for each row."""

    @property
    def width(self) -> int:
        """The number of features."""

    @property
    def cells(self) -> int:
        """The number of elements that products visit."""

    def select(self, features: IntArray) -> Indicators:
        """Return the matrix of some of the features."""

    def screened(self, considered: BoolArray) -> Indicators:
        """Return the matrix for columns that consider some of the features, columns by features.

        Weights of all other features are 0, and their slopes need not be computed.
        """

    def logits(self, weights: FloatArray) -> Float32Array:
        """Return the sums of the weights of each row's features, for each row of weights."""

    def slopes(self, values: Float32Array, columns: IntArray) -> FloatArray:
        """Return the sums of some rows of values over the rows that have each feature."""

    def second_moments(self, weights: Float32Array, features: IntArray | None = None) -> FloatArray:
        """Return the summed weights of the rows that have both of two features, of all or of some."""

    def by_leaf(self, leaf: Int32Array, weights: Float32Array, out: FloatArray) -> None:
        """Add the weights of the rows that end in each leaf and have each feature."""


@dataclass(frozen=True, eq=False)
class Dense:
    """The whole matrix, for the products of linear algebra libraries."""

    x: Float32Array

    @property
    def width(self) -> int:
        """The number of features."""
        return self.x.shape[1]

    @property
    def cells(self) -> int:
        """The number of elements."""
        return self.x.size

    @cached_property
    def by_feature(self) -> npt.NDArray[np.uint8]:
        """The transposed matrix."""
        return np.ascontiguousarray(self.x.astype(np.uint8).T)

    def select(self, features: IntArray) -> Dense:
        """Return the matrix of some of the features."""
        chosen = Dense(np.take(self.x, features, axis=1))
        chosen.__dict__["by_feature"] = self.by_feature[features]
        return chosen

    def screened(self, considered: BoolArray) -> Dense:
        """Return the matrix for columns that consider some of the features."""
        if np.count_nonzero(considered) > SCREENED_SHARE * considered.size:
            return self
        return Screened(self.x, self.by_feature, considered)

    def logits(self, weights: FloatArray) -> Float32Array:
        """Return the sums of the weights of each row's features."""
        by_row = self.x @ weights.T.astype(np.float32)  # faster than the transpose of this product
        return np.ascontiguousarray(by_row.T)

    def slopes(self, values: Float32Array, columns: IntArray) -> FloatArray:
        """Return the sums of some rows of values over the rows that have each feature."""
        part = values if len(columns) == len(values) else values[columns]
        return (part @ self.x).astype(np.float64)

    def second_moments(self, weights: Float32Array, features: IntArray | None = None) -> FloatArray:
        """Return the summed weights of the rows that have both of two features, of all or of some."""
        rows = np.flatnonzero(weights)
        x, w = self.x, weights[rows]
        x = x if len(rows) == len(x) else x[rows]
        x = x if features is None else x[:, features]
        return (x.T @ (x * w[:, None])).astype(np.float64)

    def by_leaf(self, leaf: Int32Array, weights: Float32Array, out: FloatArray) -> None:
        """Add the weights of the rows that end in each leaf and have each feature."""
        from conjoin.kernels.indicators import dense_by_leaf

        dense_by_leaf(leaf.astype(np.int64), weights, self.x, out)


@dataclass(frozen=True, eq=False)
class Screened(Dense):
    """The same for columns that consider few of the features each: other products are left out."""

    transposed: npt.NDArray[np.uint8]
    considered: BoolArray

    def logits(self, weights: FloatArray) -> Float32Array:
        """Return the sums of the weights of each row's features."""
        from conjoin.kernels.indicators import screened_logits

        out = np.zeros((len(weights), len(self.x)), np.float32)
        screened_logits(self.transposed, weights, out)
        return out

    def slopes(self, values: Float32Array, columns: IntArray) -> FloatArray:
        """Return the sums of some rows of values over the rows that have each considered feature."""
        from conjoin.kernels.indicators import screened_slopes

        out = np.zeros((len(columns), self.width))
        screened_slopes(self.transposed, self.considered, values, columns, out)
        return out


@dataclass(frozen=True, eq=False)
class Sparse:
    """The rows that have each feature: those of feature j are `row[first[j] : first[j + 1]]`."""

    rows: int
    first: IntArray
    row: Int32Array

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.first) - 1

    @property
    def cells(self) -> int:
        """The number of ones."""
        return len(self.row)

    def select(self, features: IntArray) -> Sparse:
        """Return the matrix of some of the features."""
        parts = [self.row[self.first[j] : self.first[j + 1]] for j in features]
        first = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return Sparse(self.rows, first, np.concatenate([self.row[:0], *parts]))

    def screened(self, considered: BoolArray) -> Sparse:
        """Return the matrix itself: its products visit few elements anyway."""
        del considered
        return self

    def logits(self, weights: FloatArray) -> Float32Array:
        """Return the sums of the weights of each row's features."""
        from conjoin.kernels.indicators import sparse_logits

        out = np.zeros((len(weights), self.rows), np.float32)
        sparse_logits(self.first, self.row, weights, out)
        return out

    def slopes(self, values: Float32Array, columns: IntArray) -> FloatArray:
        """Return the sums of some rows of values over the rows that have each feature."""
        from conjoin.kernels.indicators import sparse_slopes

        out = np.empty((len(columns), self.width))
        sparse_slopes(self.first, self.row, values, columns, out)
        return out

    def second_moments(self, weights: Float32Array, features: IntArray | None = None) -> FloatArray:
        """Return the summed weights of the rows that have both of two features, of all or of some."""
        from conjoin.kernels.indicators import sparse_second

        chosen = np.arange(self.width) if features is None else features
        out = np.zeros((len(chosen), len(chosen)))
        sparse_second(self.first, self.row, chosen, weights, out)
        return out

    def by_leaf(self, leaf: Int32Array, weights: Float32Array, out: FloatArray) -> None:
        """Add the weights of the rows that end in each leaf and have each feature."""
        from conjoin.kernels.indicators import sparse_by_leaf

        turned = np.zeros(out.shape[::-1])
        sparse_by_leaf(self.first, self.row, leaf, weights, turned)
        out += turned.T


def indicators(
    columns: list[BoolArray], rows: int, sparse_share: float = LIMITS.sparse_share
) -> Indicators:
    """Return the matrix with these columns, sparse if the fraction of ones is below `sparse_share`."""
    ones = sum(int(np.count_nonzero(column)) for column in columns)
    if ones < sparse_share * rows * len(columns):
        places = [np.flatnonzero(column) for column in columns]
        first = np.cumsum([0, *map(len, places)], dtype=np.int64)
        return Sparse(rows, first, np.concatenate(places).astype(np.int32))
    x = np.empty((rows, len(columns)), np.float32)
    for j, column in enumerate(columns):
        x[:, j] = column
    return Dense(x)
