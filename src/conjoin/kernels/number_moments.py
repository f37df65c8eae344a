"""Means of powers of a number whose normal score is a mixture of (cut) Gaussians.

Between two knots the value is a + b s, with a score s that has a Gaussian distribution, and the moments
of s between two scores are closed-form. Only knots near a Gaussian count. Gaussians that are not cut take
the normal distribution from a table of Taylor series, exact to rounding; cut ones may be far out in their
tails, where only `erfc` is exact relative to what is left.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conjoin.kernels.kernel import compiled, inlined_fused, inner, inner_fused
from conjoin.kernels.layouts import Float1, Float2
from conjoin.kernels.signatures import layout

FAR = 7.0
"""Beyond this number of standard deviations, a Gaussian has no probability."""

NEGLIGIBLE = 1e-12
"""Parts of a mixture with less probability are left out of means."""

EMPTY = 1e-200
"""A part that is cut so far out in its tail that less probability is left is a point."""

SMALLEST_SD = 1e-100
"""A Gaussian with a smaller standard deviation is a point."""

SERIES_PER_UNIT, TERMS = 32, 8
"""Number of Taylor series of the normal distribution per standard deviation, and their length."""

ROOT_HALF, ROOT_TAU = math.sqrt(0.5), math.sqrt(2 * math.pi)


@layout
class Knots(NamedTuple):
    """The knots of a map from scores to values.

    Attributes
    ----------
    scores, values : array, shape (knots,)
        The knots, both ascending.
    slopes : array, shape (knots - 1,)
        The rise of the values per unit of the score between two knots each.
    """

    scores: Float1
    values: Float1
    slopes: Float1


@cache
def normal_series() -> npt.NDArray[np.float64]:
    """Return the Taylor series of the normal distribution, one per row, from -FAR to FAR.

    The derivatives of the density are Hermite polynomials times the density.
    """
    z = np.arange(round(2 * FAR * SERIES_PER_UNIT) + 1) / SERIES_PER_UNIT - FAR
    series = np.empty((len(z), TERMS))
    series[:, 0] = [0.5 * math.erfc(-x * ROOT_HALF) for x in z.tolist()]
    before, derivative = np.zeros(len(z)), np.exp(-0.5 * z * z) / ROOT_TAU
    for n in range(1, TERMS):
        series[:, n] = derivative / math.factorial(n)
        before, derivative = derivative, -z * derivative - (n - 1) * before
    return series


@inlined_fused
def _from_series(z, series):
    """Return z, the probability below it, and the density."""
    at = (z + FAR) * SERIES_PER_UNIT + 0.5
    k = int(at) if 0 <= at < len(series) else 0
    d = z - (k / SERIES_PER_UNIT - FAR)
    c = series[k]
    below = c[6] + d * c[7]
    density = 6 * c[6] + d * 7 * c[7]
    below = c[5] + d * below
    density = 5 * c[5] + d * density
    below = c[4] + d * below
    density = 4 * c[4] + d * density
    below = c[3] + d * below
    density = 3 * c[3] + d * density
    below = c[2] + d * below
    density = 2 * c[2] + d * density
    below = c[1] + d * below
    density = c[1] + d * density
    return z, c[0] + d * below, density


@inner
def _segment(score, scores):
    """Return the segment of the map that a score is in; the outermost ones go on without end."""
    low, high = 0, len(scores) - 2
    while low < high:
        middle = (low + high + 1) // 2
        if scores[middle] <= score:
            low = middle
        else:
            high = middle - 1
    return low


@inlined_fused
def _piece(mean, sd, k, knots, before, after):
    """Return the probability between two scores of a segment, and the sums of values and of squares.

    `before` and `after` are z, the probability below it and the density at the two scores.
    """
    p, e1 = after[1] - before[1], before[2] - after[2]
    e2 = p + before[0] * before[2] - after[0] * after[2]
    slope = knots.slopes[k]
    a, b = knots.values[k] + slope * (mean - knots.scores[k]), slope * sd
    first = a * p + b * e1
    return p, first, a * (first + b * e1) + b * b * e2


@inner_fused
def _whole_moments(mean, sd, knots, series):
    """Return the mean and the mean square of the value of a Gaussian that is not cut."""
    scores, inverse = knots.scores, 1 / sd
    start, stop = mean - FAR * sd, mean + FAR * sd
    k = _segment(start, scores)
    total, first, second = 0.0, 0.0, 0.0
    before = _from_series(-FAR, series)
    while k < len(scores) - 2 and scores[k + 1] < stop:
        z = (scores[k + 1] - mean) * inverse
        after = _from_series(z, series)
        p, one, two = _piece(mean, sd, k, knots, before, after)
        total += p
        first += one
        second += two
        before = after
        k += 1
    after = _from_series(FAR, series)
    p, one, two = _piece(mean, sd, k, knots, before, after)
    total += p
    return (first + one) / total, (second + two) / total


@inner
def _in_tail(z, sign):
    """Return z, the probability below it (if `sign` is -1, minus that above it), and the density."""
    return z, sign * 0.5 * math.erfc(-sign * z * ROOT_HALF), math.exp(-0.5 * z * z) / ROOT_TAU


@inner_fused
def _cut_moments(mean, sd, low, high, knots):
    """Return the mean and the mean square of the value of a cut Gaussian."""
    scores = knots.scores
    sign = -1.0 if low > mean else 1.0  # differences of small numbers are more exact
    start = max(min(mean, high) - FAR * sd, low)
    stop = min(max(mean, low) + FAR * sd, high)
    k = _segment(start, scores)
    total, first, second = 0.0, 0.0, 0.0
    before = _in_tail((start - mean) / sd, sign)
    more = True
    while more:
        more = k < len(scores) - 2 and scores[k + 1] < stop
        after = _in_tail(((scores[k + 1] if more else stop) - mean) / sd, sign)
        p, one, two = _piece(mean, sd, k, knots, before, after)
        total += p
        first += one
        second += two
        before = after
        k += 1
    if total > EMPTY:
        return first / total, second / total
    return _point(min(max(mean, low), high), knots)


@inner
def _point(score, knots):
    """Return the value of a score, and its square."""
    k = _segment(score, knots.scores)
    value = knots.values[k] + knots.slopes[k] * (score - knots.scores[k])
    return value, value * value


@inner
def _part_moments(mean, sd, low, high, knots, series):
    """Return the mean and the mean square of the value of one part of a mixture."""
    if not sd > SMALLEST_SD:
        return _point(min(max(mean, low), high), knots)
    if low == -np.inf and high == np.inf:
        return _whole_moments(mean, sd, knots, series)
    return _cut_moments(mean, sd, low, high, knots)


@compiled
def mixture_moments(
    weights: Float2,
    means: Float2,
    sds: Float2,
    low: Float1,
    high: Float1,
    knots: Knots,
    series: Float2,
    out: Float2,
) -> None:
    """Write the means of the values and of their squares, atoms not counted.

    Parameters
    ----------
    weights, means, sds : arrays, shape (rows, parts)
        A mixture of Gaussians of the score per row.
    low, high : arrays, shape (parts,)
        The scores between which each Gaussian is cut; infinite if it is whole.
    knots : Knots
        The map.
    series : array
        Those of `normal_series`.
    out : array, shape (rows, 2)
    """
    for r in range(len(weights)):
        first, second = 0.0, 0.0
        for k in range(len(low)):
            if weights[r, k] > NEGLIGIBLE:
                one, two = _part_moments(means[r, k], sds[r, k], low[k], high[k], knots, series)
                first += weights[r, k] * one
                second += weights[r, k] * two
        out[r, 0] = first
        out[r, 1] = second
