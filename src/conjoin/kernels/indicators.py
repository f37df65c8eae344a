"""Products with matrices of indicators: sparse, or dense with few features for each target."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import sum_where
from conjoin.kernels.kernel import SIDE_BY_SIDE, compiled, sum_rows
from conjoin.kernels.layouts import Bool2, Byte2, Float2, Int1, Short1, Single1, Single2

TRANSPOSED_ROWS = 64
"""The number of rows that are transposed at a time."""
ROWS_AT_ONCE = 1 << 11
"""The number of rows whose values stay in the cache while features are added or summed."""


@compiled
def screened_logits(x: Byte2, weights: Float2, out: Single2) -> None:
    """Add each weight that is not 0 to the rows that have its feature; `x` is features by rows."""
    for c in range(len(weights)):
        line, weight = out[c], weights[c]
        for low in range(0, len(line), ROWS_AT_ONCE):
            part = line[low : low + ROWS_AT_ONCE]
            for j in range(len(weight)):
                w = np.float32(weight[j])
                if w != np.float32(0.0):
                    column = x[j]
                    have = column[low : low + ROWS_AT_ONCE]
                    for r in range(len(part)):
                        part[r] += w * np.float32(have[r])


@compiled
def screened_slopes(
    x: Byte2, considered: Bool2, values: Single2, columns: Int1, out: Float2
) -> None:
    """Add up rows of values over the rows that have each feature that their column considers."""
    for k in range(len(columns)):
        line, wanted, total = values[columns[k]], considered[columns[k]], out[k]
        for low in range(0, len(line), ROWS_AT_ONCE):
            part = line[low : low + ROWS_AT_ONCE]
            for j in range(len(wanted)):
                if wanted[j]:
                    column = x[j]
                    total[j] += np.float64(sum_where(part, column[low : low + ROWS_AT_ONCE]))


@compiled
def sparse_logits(first: Int1, row: Short1, weights: Float2, out: Single2) -> None:
    """Add each weight to the rows that have its feature."""
    for c in range(len(weights)):
        line = out[c]
        for j in range(len(first) - 1):
            weight = np.float32(weights[c, j])
            if weight != np.float32(0.0):
                for i in range(first[j], first[j + 1]):
                    line[row[i]] += weight


@compiled
def sparse_slopes(first: Int1, row: Short1, values: Single2, columns: Int1, out: Float2) -> None:
    """Sum rows of values over the rows that have each feature, several side by side."""
    n = values.shape[1]
    block = np.zeros(n * SIDE_BY_SIDE, np.float32)
    total = np.empty(SIDE_BY_SIDE, np.float32)
    for low in range(0, len(columns), SIDE_BY_SIDE):
        width = min(SIDE_BY_SIDE, len(columns) - low)
        for start in range(0, n, TRANSPOSED_ROWS):
            for k in range(width):
                line = values[columns[low + k]]
                for r in range(start, min(n, start + TRANSPOSED_ROWS)):
                    block[r * SIDE_BY_SIDE + k] = line[r]
        for j in range(len(first) - 1):
            sum_rows(block, row, first[j], first[j + 1], total)
            for k in range(width):
                out[low + k, j] = total[k]


@compiled
def sparse_by_leaf(first: Int1, row: Short1, leaf: Short1, weights: Single1, out: Float2) -> None:
    """Add the weights of the rows that end in each leaf and have each feature, features by leaves."""
    for j in range(len(first) - 1):
        line = out[j]
        for i in range(first[j], first[j + 1]):
            r = row[i]
            line[leaf[r]] += np.float64(weights[r])


@compiled
def sparse_second(first: Int1, row: Short1, features: Int1, weights: Single1, out: Float2) -> None:
    """Add the weights of the rows that have both of two of some features."""
    starts = np.zeros(len(weights) + 1, np.int64)
    for j in features:
        for i in range(first[j], first[j + 1]):
            starts[row[i] + 1] += 1
    for r in range(len(weights)):
        starts[r + 1] += starts[r]
    have = np.empty(starts[-1], np.int64)  # by row, in ascending order
    filled = starts[:-1].copy()
    for k in range(len(features)):
        for i in range(first[features[k]], first[features[k] + 1]):
            have[filled[row[i]]] = k
            filled[row[i]] += 1
    for r in range(len(weights)):
        weight = np.float64(weights[r])
        for a in range(starts[r], starts[r + 1]):
            line = out[have[a]]
            for b in range(starts[r], a + 1):
                line[have[b]] += weight
    for a in range(len(out)):
        for b in range(a):
            out[b, a] = out[a, b]


@compiled
def dense_by_leaf(leaf: Int1, weights: Single1, x: Single2, out: Float2) -> None:
    """Do the same as `sparse_by_leaf` with a dense matrix, leaves by features."""
    for r in range(len(leaf)):
        weight = np.float64(weights[r])
        line, total = x[r], out[leaf[r]]
        for j in range(len(line)):
            total[j] += weight * line[j]
