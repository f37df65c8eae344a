"""The log-probabilities of rows of cells, and the log-densities of points, given each hidden state.

The known numbers of a row are made independent, one after another; rows are handled in blocks, so that
loops over them become vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from conjoin.kernels.gaussian_states import LOG_TAU, inverse_root
from conjoin.kernels.kernel import compiled, inner, inner_fused
from conjoin.kernels.layouts import Float1, Float2, Int1, ReadFloat1, ReadFloat2, ReadFloat3

NARROW = 0.15
"""Narrower cells, in standard deviations, and times their distance, are computed by a series."""

FAR_OUT = 20.0
"""Beyond this number of standard deviations, the tail of a Gaussian is an asymptotic series."""

ROWS_AT_ONCE = 256
"""Number of rows of a block; their arrays fit into a cache."""

ROOT_HALF = math.sqrt(0.5)


@inner
def _log_tail(x):
    """Return the log-probability that a standard normal number is more than x, which is large."""
    t = 1 / (x * x)
    series = 1 - t * (1 - 3 * t * (1 - 5 * t * (1 - 7 * t * (1 - 9 * t * (1 - 11 * t)))))
    return -0.5 * x * x - math.log(x) - 0.5 * LOG_TAU + math.log(series)


@inner
def _log_wide(z, width):
    """Return the log-probability that a standard normal number is within half a width of z >= 0."""
    near, far = z - width / 2, z + width / 2
    if near < FAR_OUT:
        return math.log(0.5 * (math.erfc(near * ROOT_HALF) - math.erfc(far * ROOT_HALF)))
    tail = _log_tail(near)
    return tail + math.log1p(-math.exp(_log_tail(far) - tail))


@inner_fused
def _series(square, relative):
    """Return the probability of a narrow cell over the density in its middle times its width.

    The first terms of the Taylor series, exact to 1e-10; both arguments are squares.
    """
    fourth = square * square - 6 * square + 3
    return 1 + (square - 1) * relative / 24 + fourth * relative * relative / 1920


@compiled
def log_cells(z: ReadFloat1, width: ReadFloat1, out: Float1) -> None:
    """Write the log-probability that a standard normal number is within half a width of z."""
    for i in range(len(z)):
        distance, wide = abs(z[i]), width[i]
        if wide > NARROW or distance * wide > NARROW:
            out[i] = _log_wide(distance, wide)
        else:
            square = distance * distance
            out[i] = math.log(wide) - 0.5 * (square + LOG_TAU)
            out[i] += math.log(_series(square, wide * wide))


@inner_fused
def _independent(x, inverse, shift, c, z):
    """Write the score of a column given those before it, in standard deviations."""
    for i in range(len(z)):
        z[i] = -shift
    for j in range(c + 1):
        factor, own = inverse[c, j], x[j]
        for i in range(len(z)):
            z[i] += factor * own[i]


@inner_fused
def _add_points(z, logs):
    for i in range(len(z)):
        logs[i] -= 0.5 * z[i] * z[i]


@inner_fused
def _add_cells(z, width, log_width, sd, logs, factors):
    """Add the log-probabilities of cells; those of narrow ones lack the logarithm of a factor."""
    inverse, constant = 1 / sd, math.log(sd) + 0.5 * LOG_TAU
    for i in range(len(z)):
        distance, wide = abs(z[i]), width[i] * inverse
        if wide > NARROW or distance * wide > NARROW:
            logs[i] += _log_wide(distance, wide)
        else:
            square = distance * distance
            logs[i] += log_width[i] - 0.5 * square - constant
            factors[i] *= _series(square, wide * wide)


@compiled
def log_masses(
    middle: ReadFloat2,
    width: ReadFloat2,
    means: ReadFloat2,
    covariances: ReadFloat3,
    rows: Int1,
    known: Int1,
    points: int,
    out: Float2,
) -> bool:
    """Write the log-probabilities of rows that know the same numbers; whether covariances have a root.

    Parameters
    ----------
    middle, width : arrays, shape (all rows, columns)
        Normal scores and their cells.
    means, covariances : arrays, shape (states, columns), (states, columns, columns)
        The Gaussians.
    rows : array
        The rows.
    known : array
        The columns that they know, points first.
    points : int
        The number of points, whose densities are multiplied by their widths.
    out : array, shape (all rows, states)
    """
    size, states = len(known), len(means)
    roots, inverses = np.empty((states, size, size)), np.empty((states, size, size))
    for s in range(states):
        if not inverse_root(covariances[s], known, roots[s], inverses[s]):
            return False
    for low in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[low : low + ROWS_AT_ONCE]
        x, wide, log_wide = np.empty((3, size, len(part)))
        z, logs, factors = np.empty((3, len(part)))
        start = np.zeros(len(part))
        for c in range(size):
            for i in range(len(part)):
                x[c, i] = middle[part[i], known[c]]
                wide[c, i] = width[part[i], known[c]]
                log_wide[c, i] = math.log(wide[c, i])
                if c < points:
                    start[i] += log_wide[c, i] - 0.5 * LOG_TAU
        for s in range(states):
            logs[:] = start
            factors[:] = 1.0
            for c in range(size):
                shift = 0.0
                for j in range(c + 1):
                    shift += inverses[s, c, j] * means[s, known[j]]
                _independent(x, inverses[s], shift, c, z)
                if c < points:
                    _add_points(z, logs)
                    logs -= math.log(roots[s, c, c])
                else:
                    _add_cells(z, wide[c], log_wide[c], roots[s, c, c], logs, factors)
            for i in range(len(part)):
                out[part[i], s] = logs[i] + math.log(factors[i])
    return True
