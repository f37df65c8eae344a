"""Weighted counts of rows in sets, on bits."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled, inner, popcount
from conjoin.kernels.layouts import Float1, Float2, Int1, Word2


@compiled
def count_bits(sets: Word2, masks: Word2, segments: Int1, powers: Float1, out: Float2) -> None:
    """Weigh the rows that each set shares with each mask."""
    for i in range(sets.shape[0]):
        for t in range(masks.shape[0]):
            total = 0.0
            for s in range(len(powers)):
                row = sets[i, segments[s] : segments[s + 1]]
                mask = masks[t, segments[s] : segments[s + 1]]
                count = np.uint64(0)
                for k in range(len(row)):
                    count += popcount(row[k] & mask[k])
                total += powers[s] * np.float64(count)
            out[i, t] = total


@inner
def weigh(rows, segments, powers):
    """Return the weight of a set of rows."""
    total = 0.0
    for s in range(len(powers)):
        part = rows[segments[s] : segments[s + 1]]
        count = np.uint64(0)
        for k in range(len(part)):
            count += popcount(part[k])
        total += powers[s] * np.float64(count)
    return total
