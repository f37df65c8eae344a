"""Means of powers of a number whose normal score is a mixture of cut Gaussians.

Between two knots the value is a + b s, with a score s that has a Gaussian distribution, and the moments
of s between two scores are closed-form. Only knots near a Gaussian count. A Gaussian may be cut far out
in its tail, where only `erfc` is exact relative to what is left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from conjoin.kernels.kernel import compiled, inlined_fused, inner, inner_fused
from conjoin.kernels.layouts import Float1, Float2

FAR = 7.0
"""Beyond this number of standard deviations, a Gaussian has no probability."""

NEGLIGIBLE = 1e-12
"""Parts of a mixture with less probability are left out of means."""

EMPTY = 1e-200
"""A part that is cut so far out in its tail that less probability is left is a point."""

SMALLEST_SD = 1e-100
"""A Gaussian with a smaller standard deviation is a point."""

ROOT_HALF, ROOT_TAU = math.sqrt(0.5), math.sqrt(2 * math.pi)


class Knots(NamedTuple):
    """The knots of a map from scores to values."""

    # scores, values: the knots, both ascending; shape (knots,)
    scores: Float1
    values: Float1
    # The rise of the values per unit of the score between two knots each; shape (knots - 1,)
    slopes: Float1


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
    """Return the probability between two scores of a segment, and the sums of values and of squares."""
    p, e1 = after[1] - before[1], before[2] - after[2]
    e2 = p + before[0] * before[2] - after[0] * after[2]
    slope = knots.slopes[k]
    a, b = knots.values[k] + slope * (mean - knots.scores[k]), slope * sd
    first = a * p + b * e1
    return p, first, a * (first + b * e1) + b * b * e2


@inner
def _in_tail(z, sign):
    """Return z, the probability below it (if `sign` is -1, minus that above it), and the density."""
    return z, sign * 0.5 * math.erfc(-sign * z * ROOT_HALF), math.exp(-0.5 * z * z) / ROOT_TAU


@inner_fused
def _cut_moments(mean, sd, low, high, knots):
    """Return the mean and the mean square of the value of a cut Gaussian."""
    if not sd > SMALLEST_SD:
        return _point(min(max(mean, low), high), knots)
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


@compiled
def mixture_moments(
    weights: Float2,
    means: Float2,
    sds: Float2,
    low: Float1,
    high: Float1,
    knots: Knots,
    out: Float2,
) -> None:
    """Write the means of the values and of their squares."""
    for r in range(len(weights)):
        first, second = 0.0, 0.0
        for k in range(len(low)):
            if weights[r, k] > NEGLIGIBLE:
                one, two = _cut_moments(means[r, k], sds[r, k], low[k], high[k], knots)
                first += weights[r, k] * one
                second += weights[r, k] * two
        out[r, 0] = first
        out[r, 1] = second
