"""Weighted counts of rows in sets, on bits: popcounts, or row by row if there are few."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled, inner, popcount
from conjoin.kernels.layouts import Byte1, Byte2, Float1, Float2, Int1, Word2


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


@compiled
def count_rows(
    masks: Word2, members: Byte2, segments: Int1, powers: Float1, sums: Byte1, out: Float2
) -> None:
    """Do the same by adding up the rows one by one, as bytes: cheaper if they are few.

    The first mask holds all rows; the others, which do not overlap, those of the target's states but
    the first. `sums` has room for a row of `members`.
    """
    states = masks.shape[0]
    out[:] = 0.0
    for t in range(states):
        for s in range(len(powers)):
            power = powers[s]
            added = 0
            sums[:] = 0
            for k in range(segments[s], segments[s + 1]):
                word = masks[t, k]
                if t == 0:
                    for u in range(1, states):
                        word &= ~masks[u, k]
                while word != np.uint64(0):
                    low = word & (~word + np.uint64(1))
                    row = k * 64 + np.int64(popcount(low - np.uint64(1)))
                    word ^= low
                    line = members[row]
                    for j in range(len(sums)):
                        sums[j] += line[j]
                    added += 1
                    if added == 255:  # the maximum of a byte
                        for i in range(out.shape[0]):
                            out[i, t] += power * sums[i]
                        sums[:] = 0
                        added = 0
            if added:
                for i in range(out.shape[0]):
                    out[i, t] += power * sums[i]
    for i in range(out.shape[0]):
        for t in range(1, states):
            out[i, 0] += out[i, t]


@inner
def count_node(rows, masks, sets, members, segments, powers, sums, out):
    """Count the rows of a node, all of which are in the first mask, in the cheaper of the two ways."""
    n_rows = np.int64(0)
    for k in range(len(rows)):
        n_rows += np.int64(popcount(rows[k]))
    # A row takes about as long as 8 words for every byte of it, and 100 bytes more.
    if n_rows * (100 + len(sums)) < 8 * sets.shape[0] * masks.shape[0] * len(rows):
        count_rows(masks, members, segments, powers, sums, out)
    else:
        count_bits(sets, masks, segments, powers, out)


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
