"""The map between the values of a column of numbers and normal scores.

The normal score of a value is the quantile of the standard normal distribution at the value's rank, so
that the scores of a column are normally distributed, whatever its values are. The map is continuous,
rises from knot to knot in straight lines, and continues as a line beyond the outermost knots. (Where the
values end at 0, the outermost knots are so far out that this line has no probability.) Means,
quantiles and probabilities of ranges are therefore closed-form.

The distribution of a column is learned in two parts. Values that occur more often than their neighbours,
such as multiples of ten in a column of estimates, have a probability of their own: their count less a
discount that allows for values not seen yet. The rest is a histogram whose bins have about the same
number of rows. Values that were held out choose the number of bins, and whether there are such values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, read_only
from conjoin.data.number_scale import ROOM, SMALLEST_STEP


@dataclass(frozen=True, eq=False)
class NumberMap:
    """The map between the values of a column and normal scores."""

    # values, scores: the knots, both ascending
    values: FloatArray
    scores: FloatArray
    # The distance of neighbouring values that can be recorded; a value stands for all numbers
    # within half a step of it
    step: float
    atoms: FloatArray  # values that have a probability of their own and no score

    def __post_init__(self) -> None:
        for name in ("values", "scores", "atoms"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.float64)))

    @property
    def slopes(self) -> FloatArray:
        """The rise of the values per unit of the score between two knots each."""
        return np.diff(self.values) / np.diff(self.scores)

    def to_scores(self, values: FloatArray) -> FloatArray:
        """Return the normal score of each value."""
        return _lines(self.values, self.scores, values)

    def to_values(self, scores: FloatArray) -> FloatArray:
        """Return the value of each normal score."""
        return _lines(self.scores, self.values, scores)

    def cell(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the lower and upper ends of what each value stands for."""
        half = self.step / 2
        return self.to_scores(values - half), self.to_scores(values + half)

    def slopes_at(self, values: FloatArray) -> FloatArray:
        """Return the rise of the score per unit at each value; at a knot, the mean of both sides."""
        rises = np.diff(self.scores) / np.diff(self.values)
        last = len(rises) - 1
        sides = (np.searchsorted(self.values, values, side=side) - 1 for side in ("left", "right"))
        left, right = (rises[np.clip(k, 0, last)] for k in sides)
        return np.asarray((left + right) / 2)


def normal_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the probability of standard normal numbers between two ends."""
    from scipy.special import ndtr

    side = np.where(low > 0, -1.0, 1.0)  # differences of small numbers are more exact
    return np.asarray(np.abs(ndtr(side * high) - ndtr(side * low)))


def _lines(x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    """Interpolate between knots, and extrapolate beyond the outermost ones."""
    k = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
    share = (at - x[k]) / (x[k + 1] - x[k])
    return y[k] + share * (y[k + 1] - y[k])


ATOM_SHARE, INNER_SHARE, ATOM_ROWS = 0.04, 0.2, 10
"""An atom has at least this share of the rows (the least or greatest value, or any other value), and this
number of rows."""

ATOM_RATIO, ATOM_NEIGHBOURS = 4.0, 4
"""An atom has this multiple of the mean count of the values next to it, of which this number count."""

BINS = (4, 8, 16, 32, 64, 128, 256)
"""Numbers of bins to choose from; a bin has at least two rows."""

MAX_RECORDED = 200
"""Maximum number of values with a probability of their own."""

TAIL_ROWS = 2
"""The outermost bins have this number of rows, the next ones twice as many, and so on."""

TAIL_SHARE = 0.1
"""The slope of the map beyond the values seen is that of this share of the rows at either end."""

REACH = 6.0
"""Draws are expected to reach scores down to minus this number: a line that would cross 0 before ends
there."""

LAST_SCORE, TAIL_SHARES = 8.0, np.array([1 / 256, 1 / 64, 1 / 16, 1 / 4])
"""The score at which such a tail ends, and shares of its probability at which it has knots."""


class MapChoice(NamedTuple):
    """How the distribution of a column is estimated."""

    bins: int  # the number of bins
    recorded: bool  # whether values that occur often have a probability of their own


def find_atoms(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the values that are far more frequent than those around them.

    Values within the range are atoms only if they are very frequent: others are heaps, which have
    neighbours, and what they say about other columns should be that of their neighbours.
    """
    distinct, count = _counted(values, weights)
    last = len(distinct) - 1
    atoms = []
    for k in np.flatnonzero(count >= ATOM_SHARE * count.sum()).tolist():
        share = ATOM_SHARE if k in (0, last) else INNER_SHARE
        near = np.arange(max(0, k - ATOM_NEIGHBOURS // 2), k + ATOM_NEIGHBOURS // 2 + 1)
        near = near[(near <= last) & (near != k)]
        if not len(near):
            return distinct  # a constant
        enough = count[k] >= max(ATOM_ROWS, share * count.sum())
        if enough and count[k] > ATOM_RATIO * count[near].mean():
            atoms.append(distinct[k])
    return np.array(atoms)


def learn_map(
    values: FloatArray,
    weights: FloatArray,
    step: float | None,
    atoms: FloatArray,
    choice: MapChoice,
    *,
    signed: bool = True,
) -> NumberMap:
    """Learn the map of a column.

    If no value is negative, or none is positive, and the line beyond the values seen would soon cross 0,
    it ends at 0 instead: boiling points in kelvin, counts and prices are never negative.
    """
    from scipy.special import ndtri

    distinct, count = _counted(values, weights)
    extent = (distinct[-1] - distinct[0]) if len(distinct) > 1 else max(1.0, abs(distinct[0]))
    unit = SMALLEST_STEP * extent if step is None else step
    ends = _ends(distinct[0], distinct[-1], unit, step is not None) if signed else (-np.inf, np.inf)
    rest = ~(np.abs(distinct[:, None] - atoms) < unit / 2).any(axis=1)
    if rest.any():
        distinct, count = distinct[rest], count[rest]
    own = np.zeros(len(count))
    if choice.recorded and step is not None:
        once, twice = count[count <= 1].sum(), 2 * (count[(count > 1) & (count <= 2)] > 0).sum()
        discount = once / (once + twice) if once else 0.0
        own = np.maximum(count - discount, 0.0)
        if len(own) > MAX_RECORDED:
            own[np.argsort(-own, kind="stable")[MAX_RECORDED:]] = 0.0
    edges, mass = _histogram(distinct, count - own, count, unit, choice.bins)
    knots, share = _with_values(edges, mass, distinct, own, unit)
    cumulative = (0.5 + np.concatenate([[0.0], np.cumsum(share)])) / (share.sum() + 1)
    return _with_tails(knots, np.asarray(ndtri(cumulative)), unit, atoms, ends)


def choose_map(
    values: FloatArray, weights: FloatArray, step: float | None, atoms: FloatArray, held: FloatArray
) -> MapChoice:
    """Return the choice under which values that were held out are most probable."""
    best, found = -np.inf, MapChoice(BINS[0], False)
    if not len(held):
        return found
    for recorded in (False, True) if step is not None else (False,):
        for bins in BINS:
            if bins > BINS[0] and 2 * bins > len(values):
                break
            choice = MapChoice(bins, recorded)
            score = log_mass(learn_map(values, weights, step, atoms, choice), held)
            if score > best + 1e-3:
                best, found = score, choice
    return found


def log_mass(mapped: NumberMap, values: FloatArray) -> float:
    """Return the mean log-probability of values that are not atoms, in a column of its own."""
    is_atom = (np.abs(values[:, None] - mapped.atoms) < mapped.step / 2).any(axis=1)
    rest = values[~is_atom & ~np.isnan(values)]
    mass = normal_mass(*mapped.cell(rest))
    return float(np.log(np.maximum(mass, 1e-300)).mean()) if len(rest) else 0.0


def _counted(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    distinct, inverse = np.unique(values, return_inverse=True)
    count = np.bincount(inverse, weights, minlength=len(distinct))
    return distinct, count.astype(np.float64)


def _histogram(
    distinct: FloatArray, count: FloatArray, rows: FloatArray, step: float, bins: int
) -> tuple[FloatArray, FloatArray]:
    """Return the edges of bins of about the same number of rows, and the counts in them."""
    between = np.minimum(distinct[:-1] + step / 2, distinct[1:] - step / 2)
    middle = np.maximum((distinct[:-1] + distinct[1:]) / 2, between)
    snapped = distinct[0] + step * (np.floor((middle - distinct[0]) / step) + 0.5)
    snapped = np.clip(snapped, distinct[:-1] + step / 4, distinct[1:] - step / 4)
    ranks = np.cumsum(rows)
    size = ranks[-1] / bins
    tail = TAIL_ROWS * 2.0 ** np.arange(max(0, int(np.ceil(np.log2(size / TAIL_ROWS)))))
    wanted = np.concatenate([np.arange(1, bins) * size, tail, ranks[-1] - tail])
    cut = np.unique(np.searchsorted(ranks[:-1], wanted))
    cut = cut[cut < len(snapped)]
    edges = np.concatenate([[distinct[0] - step / 2], snapped[cut], [distinct[-1] + step / 2]])
    mass = np.diff(np.concatenate([[0.0], np.cumsum(count)[cut], [count.sum()]]))
    return edges, mass


def _with_values(
    edges: FloatArray, mass: FloatArray, distinct: FloatArray, own: FloatArray, step: float
) -> tuple[FloatArray, FloatArray]:
    """Split bins around the values that have a probability of their own."""
    kept = np.flatnonzero(own > 0)
    ends = np.concatenate([distinct[kept] - step / 2, distinct[kept] + step / 2])
    knots = np.unique(np.concatenate([edges, ends]))
    knots = knots[np.concatenate([[True], np.diff(knots) > step * 1e-3])]
    middle = (knots[:-1] + knots[1:]) / 2
    k = np.clip(np.searchsorted(edges, middle) - 1, 0, len(mass) - 1)
    share = mass[k] * np.diff(knots) / np.diff(edges)[k]
    place = np.clip(np.searchsorted(knots, distinct[kept]) - 1, 0, len(share) - 1)
    np.add.at(share, place, own[kept])
    return knots, np.maximum(share, 1e-3)


def _ends(least: float, greatest: float, unit: float, grid: bool) -> tuple[float, float]:
    """Return the ends of the possible values: around 0, if there are no values on the other side."""
    margin = (0.5 + ROOM / 2) * unit  # 0 itself stands for all numbers within half a step
    low, high = -np.inf, np.inf
    if least >= 0:
        low = -margin if grid or least == 0 else 0.0
    elif greatest <= 0:
        high = margin if grid or greatest == 0 else 0.0
    return low, high


def _with_tails(
    knots: FloatArray,
    scores: FloatArray,
    step: float,
    atoms: FloatArray,
    ends: tuple[float, float],
) -> NumberMap:
    """Add knots at either end, so that the map continues with the mean slope of the values there."""
    from scipy.special import ndtri

    far = abs(float(ndtri(TAIL_SHARE)))
    low = int(np.clip(np.searchsorted(scores, -far), 1, len(scores) - 1))
    high = int(np.clip(np.searchsorted(scores, far), 0, len(scores) - 2))
    below = (knots[low] - knots[0]) / (scores[low] - scores[0])
    above = (knots[-1] - knots[high]) / (scores[-1] - scores[high])
    lower, lower_scores = _tail(knots[0], scores[0], below, ends[0])
    upper, upper_scores = _tail(-knots[-1], -scores[-1], above, -ends[1])
    values = np.concatenate([lower, knots[1:-1], -upper[::-1]])
    around = np.concatenate([lower_scores, scores[1:-1], -upper_scores[::-1]])
    return NumberMap(values, around, step, atoms)


def _tail(value: float, score: float, slope: float, end: float) -> tuple[FloatArray, FloatArray]:
    """Return the values and scores of the lowest knot and of those below it.

    A tail that is a line has one more knot. If the line would cross the end of the possible values
    within reach, the tail is nearly a line first, and finally values are spread evenly down to the end.
    Numbers that are not possible follow only beyond the last score, which hardly any draw reaches.
    """
    from scipy.special import ndtr, ndtri

    if value - slope * (score + REACH) >= end:
        return np.array([value - slope, value]), np.array([score - 1, score])
    scores = np.append(ndtri(TAIL_SHARES * ndtr(score)), score)
    line = value - slope * (score - scores)
    values = np.maximum(line, end + np.append(TAIL_SHARES, 1.0) * (value - end))
    last = min(-LAST_SCORE, scores[0] - 1)
    return np.append([end - slope, end], values), np.append([last - 1, last], scores)
