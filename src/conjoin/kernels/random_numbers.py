"""Random numbers inside kernels: a counter that the caller keeps, scrambled by SplitMix64."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import inner

STEP = np.uint64(0x9E3779B97F4A7C15)
"""The increment of a counter per draw."""


@inner
def scatter(counter):
    """Return 64 random bits for a counter."""
    z = (counter ^ (counter >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def uniform(counter):
    """Return a number in [0, 1) for a counter."""
    return np.float64(np.int64(scatter(counter) >> np.uint64(11))) * (1.0 / 9007199254740992.0)


@inner
def draw_uniforms(counter, out):
    """Fill an array of two axes with numbers in [0, 1)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            counter += STEP
            out[i, j] = uniform(counter)
