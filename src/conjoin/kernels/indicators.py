"""Sums over matrices of indicators."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled
from conjoin.kernels.layouts import Float2, Int1, Single1, Single2


@compiled
def add_by_leaf(leaf: Int1, weights: Single1, x: Single2, out: Float2) -> None:
    """Add the weights of the rows that end in each leaf and have each feature, leaves by features."""
    for r in range(len(leaf)):
        weight = np.float64(weights[r])
        line, total = x[r], out[leaf[r]]
        for j in range(len(line)):
            total[j] += weight * line[j]
