"""The weights that rows of evidence give to features projected on the free variables.

A test is one bit per row, 128 rows in two words: the AND of the known tests of a feature says in which
rows it is alive.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.gibbs_chain import holds
from conjoin.kernels.kernel import add_lanes, compiled
from conjoin.kernels.layouts import Float2, Half2, Int1, KnownTests, Word2

ROWS = 128
"""Number of rows of evidence per block."""

ONE = np.uint64(1)
NONE = np.uint64(0)
ALL = ~NONE


@compiled
def live_features(codes: Half2, known: KnownTests, bits: Word2, live: Word2) -> None:
    """Set in which rows all known tests of each plain feature hold, as bits.

    Parameters
    ----------
    codes : uint16, (rows, variables)
        The evidence; at most 128 rows.
    known : KnownTests
        The features.
    bits : uint64, (tests, 2)
        Set to the rows in which each test holds.
    live : uint64, (features, 2)
        Set to the rows in which each feature is alive; features with off values always are.
    """
    rows = codes.shape[0]
    bits[:] = NONE
    for t in range(len(known.test_var)):
        v = known.test_var[t]
        for r in range(rows):
            if holds(t, np.int64(codes[r, v]), known.test_mask):
                bits[t, r >> 6] |= ONE << np.uint64(r & 63)
    low = ALL if rows >= 64 else (ONE << np.uint64(rows)) - ONE
    high = ALL if rows == ROWS else (NONE if rows <= 64 else (ONE << np.uint64(rows - 64)) - ONE)
    for f in range(len(live)):
        a, b = low, high
        if known.plain[f]:
            for e in range(known.first[f], known.first[f + 1]):
                a &= bits[known.test[e], 0]
                b &= bits[known.test[e], 1]
        live[f, 0], live[f, 1] = a, b


@compiled
def unit_weights(units: Int1, known: KnownTests, bits: Word2, live: Word2, out: Float2) -> None:
    """Set the weight of some units in each row: the sum of their features that are alive.

    Parameters
    ----------
    units : int64 array
        The units.
    known, bits, live
        As `live_features` set them.
    out : float64, (units, 128)
        The weights.
    """
    scale = np.empty(ROWS)
    for i in range(len(units)):
        total = out[i]
        total[:] = 0.0
        for f in range(known.unit_first[units[i]], known.unit_first[units[i] + 1]):
            if known.plain[f]:
                if live[f, 0] != NONE:
                    add_lanes(total[:64], live[f, 0], known.weight[f])
                if live[f, 1] != NONE:
                    add_lanes(total[64:], live[f, 1], known.weight[f])
                continue
            scale[:] = known.weight[f]
            for e in range(known.first[f], known.first[f + 1]):
                for r in range(ROWS):
                    if (bits[known.test[e], r >> 6] >> np.uint64(r & 63)) & ONE == NONE:
                        scale[r] *= known.off[e]
            for r in range(ROWS):
                total[r] += scale[r]
