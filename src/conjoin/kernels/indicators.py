"""Products with matrices of indicators, if few of the features count for each target."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import sum_where
from conjoin.kernels.kernel import compiled
from conjoin.kernels.layouts import Bool2, Byte2, Float2, Int1, Single1, Single2

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
def add_by_leaf(leaf: Int1, weights: Single1, x: Single2, out: Float2) -> None:
    """Add the weights of the rows that end in each leaf and have each feature, leaves by features."""
    for r in range(len(leaf)):
        weight = np.float64(weights[r])
        line, total = x[r], out[leaf[r]]
        for j in range(len(line)):
            total[j] += weight * line[j]
