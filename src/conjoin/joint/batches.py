"""Descent on batches of the rows of a large table: Adam (Kingma and Ba, 2015).

A table of many rows repeats itself: a few thousand of them tell the gradient well enough for a step. Many
steps on different rows lead further than few steps on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray

MEAN_DECAY, SQUARE_DECAY = 0.9, 0.99
"""The share of the means of gradients, and of their squares, that remains after each step."""

WARM_UP = 20
"""Number of steps until the rate is reached."""


def batches(weights: FloatArray, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield the numbers of the rows of each batch, without end.

    Each pass draws as many rows as there are, in proportion to their weights: rows of equal weight once
    each, in random order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> drawn = batches(np.ones(6), 3, rng)
    >>> sorted(np.concatenate([next(drawn), next(drawn)]).tolist())
    [0, 1, 2, 3, 4, 5]
    >>> drawn = batches(np.array([1.0, 3.0, 0.0]), 1000, rng)
    >>> (np.bincount(next(drawn), minlength=3) / 1000).round(1)
    array([0.2, 0.8, 0. ])
    """
    ends = np.cumsum(weights)
    left = np.zeros(0, np.int64)
    while True:
        while len(left) < size:
            place = (rng.permutation(len(weights)) + rng.random()) * (ends[-1] / len(weights))
            row = np.searchsorted(ends, place, side="right")
            left = np.concatenate([left, np.minimum(row, len(weights) - 1)])
        yield left[:size]
        left = left[size:]


def adam(
    gradient: Callable[[FloatArray], FloatArray], start: FloatArray, steps: int, rate: float
) -> FloatArray:
    """Minimise a function whose gradient is known but for noise, and return the last point.

    `gradient`: returns an estimate of the gradient at a point. `rate`: about how far each
    coordinate moves in one of the first steps; later steps are shorter, the last ones 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> adam(lambda x: x - 3 + rng.normal(size=2), np.zeros(2), 500, 0.1).round(0)
    array([3., 3.])
    """
    x = start
    mean, square = np.zeros_like(x), np.zeros_like(x)
    for number in range(1, steps + 1):
        slope = gradient(x)
        mean += (1 - MEAN_DECAY) * (slope - mean)
        square += (1 - SQUARE_DECAY) * (slope**2 - square)
        unbiased = mean / (1 - MEAN_DECAY**number)
        spread = np.sqrt(square / (1 - SQUARE_DECAY**number)) + 1e-8
        now = rate * min(1.0, number / WARM_UP) * 0.5 * (1 + np.cos(np.pi * (number - 1) / steps))
        x = x - now * unbiased / spread
    return x
