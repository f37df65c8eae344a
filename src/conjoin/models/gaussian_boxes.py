"""Gaussians of numbers of which points and intervals are known, by numerical integration.

The known columns of each Gaussian are made independent, one after another. The probability of an
interval given the columns before it is exact. All intervals but the last are integrated over
Gauss-Legendre points, which lie where the Gaussian has its mass in the interval: they differ between
hidden states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.models.gaussians import NOT_POSITIVE, Gaussians, log_cell

MAX_POINTS = 1024
"""Maximum number of points per hidden state, and..."""

MAX_PER_COLUMN = 64
"""... per column."""

REACH = 8.0
"""Standard deviations up to which an interval has points; what lies beyond counts for less than 1e-13."""

PARTS_PER_SD = 4
"""Points within this fraction of the standard deviation of another number become one part of it."""

MAX_PARTS = 256
"""Maximum number of parts of a number per hidden state."""

NEGLIGIBLE = 1e-13
"""Parts with less probability are left out."""


class Box(NamedTuple):
    """What is known of a column's score: that it is from `low` to `high`.

    A point has low = high, and the width by which its density is multiplied.
    """

    low: float
    high: float
    width: float = 0.0

    @property
    def is_point(self) -> bool:
        """Whether the score is known."""
        return self.low == self.high


@dataclass(frozen=True, eq=False)
class BoxPoints:
    """Scores that stand for all scores in a box.

    Attributes
    ----------
    columns : array of int
        The known columns.
    scores : array, shape (states, points, columns)
        The points.
    log_weights : array, shape (states, points)
        The log-probability of what each point stands for, given the hidden state.
    """

    columns: IntArray
    scores: FloatArray
    log_weights: FloatArray


@cache
def _rule(count: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre points between 0 and 1, and the logarithms of their weights."""
    from numpy.polynomial.legendre import leggauss

    x, weight = leggauss(count)
    return (x + 1) / 2, np.log(weight)


def _reached(low: FloatArray, high: FloatArray, reach: float) -> tuple[FloatArray, FloatArray]:
    """Cut intervals, in standard deviations, to where the density is not negligible in them."""
    nearest = np.clip(0.0, low, high)
    end = np.sqrt(nearest**2 + reach**2)
    return np.maximum(low, -end), np.minimum(high, end)


def _log_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    low, high = _reached(low, high, REACH)
    return log_cell((low + high) / 2, high - low)


def _ordered(known: Mapping[int, Box]) -> list[int]:
    """Return known columns, points first."""
    return sorted(known, key=lambda column: (not known[column].is_point, column))


def _roots(gaussians: Gaussians, columns: list[int]) -> FloatArray:
    try:
        return np.asarray(np.linalg.cholesky(gaussians.covariances[:, columns][:, :, columns]))
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError(NOT_POSITIVE) from None


def _points(gaussians: Gaussians, known: Mapping[int, Box], whole: bool) -> BoxPoints:
    """Return the points of a box; the last interval has none unless they are wanted, too."""
    columns = _ordered(known)
    roots, states = _roots(gaussians, columns), len(gaussians.means)
    intervals = sum(not box.is_point for box in known.values()) - (not whole)
    count = int(min(MAX_PER_COLUMN, max(2, MAX_POINTS ** (1 / max(1, intervals)) + 1e-9)))
    reach = min(REACH, 1.5 * count**0.5)
    x, log_rule = _rule(count)
    log = np.zeros((states, 1))
    z, scores = np.zeros((states, 1, 0)), np.zeros((states, 1, 0))
    for d, column in enumerate(columns):
        box, sd = known[column], roots[:, d, d, None]
        shift = gaussians.means[:, column, None] + np.einsum("spi,si->sp", z, roots[:, d, :d])
        low, high = (box.low - shift) / sd, (box.high - shift) / sd
        if box.is_point:
            own = low[..., None]
            log = log - 0.5 * low**2 - np.log(sd * (2 * np.pi) ** 0.5 / box.width)
        elif d == len(columns) - 1 and not whole:
            return BoxPoints(np.array(columns[:-1]), scores, log + _log_mass(low, high))
        else:
            mass = _log_mass(low, high)
            first, last = _reached(low, high, reach)
            own = first[..., None] + (last - first)[..., None] * x
            logs = log_rule - 0.5 * own**2
            share = np.exp(logs - logs.max(axis=2, keepdims=True))
            with np.errstate(divide="ignore"):
                logs = np.log(share / share.sum(axis=2, keepdims=True))
            log = ((log + mass)[..., None] + logs).reshape(states, -1)
        z, scores = (np.repeat(old, own.shape[2], axis=1) for old in (z, scores))
        shift = np.repeat(shift, own.shape[2], axis=1)
        own = own.reshape(states, -1)
        z = np.concatenate([z, own[..., None]], axis=2)
        scores = np.concatenate([scores, (shift + sd * own)[..., None]], axis=2)
    return BoxPoints(np.array(columns, np.int64), scores, log)


def log_box(gaussians: Gaussians, known: Mapping[int, Box]) -> FloatArray:
    """Return the log-probability of a box given each hidden state; of points, density times width."""
    log = _points(gaussians, known, whole=False).log_weights
    top = log.max(axis=1)
    return np.asarray(top + np.log(np.exp(log - top[:, None]).sum(axis=1)))


def box_points(gaussians: Gaussians, known: Mapping[int, Box]) -> BoxPoints:
    """Return points of all columns of a box."""
    return _points(gaussians, known, whole=True)


def conditional_parts(
    gaussians: Gaussians, box: BoxPoints, column: int, posterior: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distribution of another column given a box, a mixture: weights, means and deviations.

    Parts of the same hidden state whose means are close to each other are merged, which keeps the mean
    and the variance.

    Parameters
    ----------
    gaussians : Gaussians
        The Gaussians.
    box : BoxPoints
        Points of all known columns.
    column : int
        A column that is not known.
    posterior : array of float
        The probability of each hidden state given the box.
    """
    known, used = box.columns, np.flatnonzero(posterior > NEGLIGIBLE)
    covariances, centers = gaussians.covariances[used], gaussians.means[used]
    cross = covariances[:, column, known]
    slope = np.linalg.solve(covariances[:, known[:, None], known], cross[..., None])[..., 0]
    variance = covariances[:, column, column] - (slope * cross).sum(axis=1)
    start = centers[:, column] - (slope * centers[:, known]).sum(axis=1)
    means = np.einsum("spc,sc->sp", box.scores[used], slope) + start[:, None]
    log = box.log_weights[used]
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    weights *= (posterior[used] / weights.sum(axis=1))[:, None]
    low = means.min(axis=1)
    size = np.maximum(np.sqrt(variance) / PARTS_PER_SD, np.ptp(means, axis=1) / MAX_PARTS)
    part = ((means - low[:, None]) / size[:, None]).astype(np.int64)
    cells = int(part.max(initial=0)) + 1
    at = (part + cells * np.arange(len(used))[:, None]).ravel()
    off = (means - low[:, None] - size[:, None] * (part + 0.5)).ravel()
    mass = weights.ravel()
    total, first, second = (
        np.bincount(at, moment, cells * len(used)).reshape(len(used), cells).astype(np.float64)
        for moment in (mass, mass * off, mass * off * off)
    )
    state, cell = np.nonzero(total > NEGLIGIBLE)
    kept = total[state, cell]
    mean = first[state, cell] / kept
    spread = np.maximum(second[state, cell] / kept - mean**2, 0.0)
    mean += low[state] + size[state] * (cell + 0.5)
    return kept, mean, np.sqrt(variance[state] + spread)


def drawn_scores(
    gaussians: Gaussians,
    known: Mapping[int, Box],
    state: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return a draw of the scores in a box for each hidden state in `state`; other columns are NaN.

    A point is drawn, and one column after another is drawn again given the others.
    """
    from scipy.special import ndtr, ndtri

    middle = np.full((len(state), gaussians.means.shape[1]), np.nan)
    if not known:
        return middle
    box = box_points(gaussians, known)
    chosen, pick = np.zeros(len(state), np.int64), rng.random(len(state))
    for s in np.unique(state).tolist():
        rows = np.flatnonzero(state == s)
        cumulative = np.exp(box.log_weights[s] - box.log_weights[s].max()).cumsum()
        chosen[rows] = np.searchsorted(cumulative, pick[rows] * cumulative[-1])
    columns, x = box.columns, box.scores[state, chosen]
    inverse = np.linalg.inv(gaussians.covariances[:, columns[:, None], columns])[state]
    for d, column in enumerate(columns.tolist()):
        if known[column].is_point:
            continue
        off = np.einsum("ri,ri->r", inverse[:, d], x - gaussians.means[state][:, columns])
        sd = inverse[:, d, d] ** -0.5
        center = x[:, d] - off * sd**2
        low, high = _reached(
            (known[column].low - center) / sd, (known[column].high - center) / sd, REACH
        )
        side = np.where(low > 0, -1.0, 1.0)  # upper tails are reflected
        first, last = ndtr(side * low), ndtr(side * high)
        z = side * ndtri(first + (last - first) * rng.random(len(state)))
        x[:, d] = center + sd * np.clip(z, low, high)
    middle[:, columns] = x
    return middle
