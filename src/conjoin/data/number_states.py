"""`NumberStates`: the states of a column of numbers, which is how networks see it.

A state is an interval, or a single value that occurs often: all values of a column with few different
ones, or atoms such as the 0 of a column of amounts. Within an interval, values have normal scores
(see `NumberMap`). The last state of a column may be that there is no value (see `absent_values`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, read_only
from conjoin.data.label_values import ABSENT
from conjoin.data.number_map import NumberMap, choose_map, find_atoms, learn_map, normal_mass
from conjoin.data.number_scale import SMALLEST_STEP, NumberScale
from conjoin.data.row_hashing import content_order
from conjoin.errors import DataError

STATES_FACTOR, STATES_POWER, MIN_STATES, MAX_STATES = 0.25, 0.45, 4, 64
"""A column has about this multiple of this power of the number of rows as intervals."""

MAX_SINGLES = 120
"""A column with at most this number of different values has only states of a single value, if it has many
rows."""

TAIL_SHARE, TAIL_ROWS = 0.2, 6
"""The outermost intervals are divided if this share of them has at least this number of rows."""

BEYOND = 0.5
"""Scores, and their means, count up to this distance beyond the recorded ones."""

MOST_SDS = 30.0
"""The mean of a Gaussian is at most this number of standard deviations outside its interval."""


@dataclass(frozen=True, eq=False)
class NumberStates:
    """The states of a column of numbers, in ascending order."""

    scale: NumberScale  # the column
    map: NumberMap  # normal scores of the values in intervals; its atoms are the single values
    edges: FloatArray  # the values between neighbouring states, ascending; one fewer than these
    absent: bool = False  # whether one more state, the last one, is that there is no value

    def __post_init__(self) -> None:
        edges = np.array(self.edges, np.float64)
        if not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
            raise DataError(f"column {self.scale.name!r}: the edges of its states do not rise")
        object.__setattr__(self, "edges", read_only(edges))

    @classmethod
    def learn(
        cls,
        scale: NumberScale,
        values: FloatArray,
        weights: FloatArray | None = None,
        count: int | None = None,
        edges: FloatArray | None = None,
    ) -> NumberStates:
        """Choose the states of a column from its values; NaN is missing.

        `count`: the number of intervals with about the same number of rows, by default as suits the
        number of rows. `edges`: the values between neighbouring states, if they are chosen already.
        """
        known = ~np.isnan(values)
        own = np.ones(len(values)) if weights is None else weights
        x, w = values[known], own[known]
        if count is None:
            count = states_for(len(values))
        distinct, inverse = np.unique(x, return_inverse=True)
        rows = np.bincount(inverse, w, minlength=len(distinct)).astype(np.float64)
        extent = max(float(distinct[-1] - distinct[0]), abs(float(distinct[0])), 1.0)
        step = scale.step or SMALLEST_STEP * extent
        if edges is None and len(distinct) <= max(count, min(MAX_SINGLES, count**2 // 8)):
            edges = (distinct[:-1] + distinct[1:]) / 2
            ends = float(distinct[0]) - step, float(distinct[-1]) + step
            line = NumberMap(np.array(ends), np.array([-1.0, 1.0]), step, distinct)
            return cls(scale, line, edges)
        if edges is None:
            edges = _edges(distinct, rows, find_atoms(x, w), step, count)
        state = np.searchsorted(edges, distinct, side="right")
        alone = np.flatnonzero(np.bincount(state, minlength=len(edges) + 1) == 1)
        single = distinct[np.isin(state, alone)]
        order = content_order(x[:, None], w)  # not the order of the rows
        half, held = order[::2], order[1::2]
        choice = choose_map(x[half], w[half], scale.step, single, x[held])
        mapped = learn_map(x, w, scale.step, single, choice, signed=scale.kind == "number")
        return cls(scale, mapped, edges)

    def __len__(self) -> int:
        return len(self.edges) + 1 + self.absent

    @cached_property
    def present(self) -> NumberStates:
        """The states that are values."""
        if not self.absent:
            return self
        twin = replace(self, absent=False)
        twin.__dict__["ends"] = self.ends[:, :-1]  # which may be those of a range
        return twin

    @cached_property
    def single(self) -> FloatArray:
        """The value of each state that has only one; NaN for intervals."""
        found = np.full(len(self), np.nan)
        found[np.searchsorted(self.edges, self.map.atoms, side="right")] = self.map.atoms
        return found

    @cached_property
    def intervals(self) -> BoolArray:
        """Which states are intervals."""
        found = np.isnan(self.single)
        found[len(self.edges) + 1 :] = False
        return found

    def codes(self, values: FloatArray) -> IntArray:
        """Return the state of each value, -1 where it is missing."""
        found = np.searchsorted(self.edges, values, side="right")
        return np.where(np.isnan(values), -1, found).astype(np.int64)

    def scores(self, values: FloatArray) -> FloatArray:
        """Return the normal scores of values in intervals; NaN for others, and far outside.

        Values are also far outside if their scores are: 0.01 in a column of prices from 100 to 90,000.
        """
        state, (low, high) = self.codes(values), self.reach
        inside = (state >= 0) & self.intervals[state] & ~self.scale.is_far(values)
        found = np.full(len(values), np.nan)
        found[inside] = self.map.to_scores(values[inside])
        return np.where((found >= low) & (found <= high), found, np.nan)

    @cached_property
    def ends(self) -> FloatArray:
        """The scores between which the intervals lie, infinite at the outermost; shape (2, states)."""
        inner = self.map.to_scores(self.edges) if self.intervals.any() else self.edges
        ends = np.stack([np.append(-np.inf, inner), np.append(inner, np.inf)])
        return np.append(ends, np.zeros((2, int(self.absent))), axis=1)

    @cached_property
    def ends_inside(self) -> FloatArray:
        """The same, but single values have no score that could lie outside."""
        return np.where(self.intervals, self.ends, [[-np.inf], [np.inf]])

    def within(self, low: float, high: float) -> NumberStates:
        """Return the same states, whose intervals end where a range of the values ends."""
        first, last = self.scores_of_ends(low, high)
        ends = np.clip(self.ends, first, last)
        outside = ends[0] >= ends[1]
        ends[:, outside] = self.ends[:, outside]
        twin = replace(self)
        twin.__dict__["ends"] = ends
        return twin

    def scores_of_ends(self, low: float, high: float) -> tuple[float, float]:
        """Return the scores of the ends of a range, which may be infinite."""
        ends = np.array([low, high])
        finite = np.where(np.isinf(ends), 0.0, ends)
        first, last = np.where(np.isinf(ends), ends, self.map.to_scores(finite)).tolist()
        return first, last

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The lowest and the highest score that the mean of a value may have."""
        low, high = self.map.to_scores(np.array([self.scale.low, self.scale.high])).tolist()
        return low - BEYOND, high + BEYOND

    def bounded(self, means: FloatArray, sds: FloatArray) -> FloatArray:
        """Return means of scores in each interval that are at most as far out as a mean may be.

        Far outside its interval, a Gaussian has no probability inside it that could be told from 0: the
        mean is then moved closer. Shape (rows, intervals, parts).
        """
        low, high = self.ends[:, self.intervals, None]
        inside = np.clip(means, *self.reach)
        return np.clip(inside, low - MOST_SDS * sds, high + MOST_SDS * sds)

    def masses(self, low: float, high: float) -> FloatArray:
        """Return the share of each state's values between two numbers that are no recorded values."""
        held = ((self.single > low) & (self.single < high)).astype(np.float64)
        if self.intervals.any():
            first, last = self.scores_of_ends(low, high)
            below, above = self.ends[:, self.intervals]
            start, stop = np.clip(first, below, above), np.clip(last, below, above)
            whole = np.maximum(normal_mass(below, above), 1e-300)
            held[self.intervals] = np.clip(normal_mass(start, stop) / whole, 0.0, 1.0)
        return held

    def log_densities(self, values: FloatArray) -> FloatArray:
        """Return the log-density of scores within their intervals, if all else is unknown."""
        scores = self.map.to_scores(values)
        low, high = self.ends[:, self.codes(values)]
        whole = np.maximum(normal_mass(low, high), 1e-300)
        return np.asarray(-0.5 * (scores**2 + np.log(2 * np.pi)) - np.log(whole))

    def labels(self) -> list[str]:
        """Return the states as text: values, or the first and the last number of intervals."""
        scale, edges = self.scale, self.edges
        lows = np.append(min(scale.low, edges[0]) if len(edges) else scale.low, edges)
        highs = np.append(edges, max(scale.high, edges[-1]) if len(edges) else scale.high)
        found = []
        for k, value in enumerate(self.present.single.tolist()):
            if not np.isnan(value):
                found.append(scale.text(value))
                continue
            low, high = float(lows[k]), float(highs[k])
            if scale.step is not None:
                low = np.ceil(low / scale.step - 1e-9) * scale.step
                last = np.floor(high / scale.step + 1e-9) * scale.step
                high = last - scale.step if k < len(edges) and last >= high else last
            spread = float(np.min(np.diff(edges))) if len(edges) > 1 else high - low
            ends = [scale.short(x, spread) for x in (low, max(low, high))]
            found.append(ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}")
        if len(set(found)) < len(found):
            found = [f"{text} ({k})" for k, text in enumerate(found)]
        return [*found, ABSENT] if self.absent else found


def states_for(rows: int) -> int:
    """Return the number of intervals that suits a number of rows: a power of 2."""
    wanted = STATES_FACTOR * max(rows, 1) ** STATES_POWER
    return int(np.clip(2 ** round(np.log2(wanted)), MIN_STATES, MAX_STATES))


def _edges(
    distinct: FloatArray, rows: FloatArray, atoms: FloatArray, step: float, count: int
) -> FloatArray:
    """Return edges around atoms, and between others so that intervals have equal numbers of rows."""
    rest = ~np.isin(distinct, atoms)
    others, below = distinct[rest], np.cumsum(rows[rest])
    inner = np.zeros(0)
    if len(others) > 1:
        wanted = np.arange(1, count) * (below[-1] / count)
        tail = below[-1] / count * TAIL_SHARE
        if tail >= TAIL_ROWS:
            wanted = np.concatenate([[tail], wanted, [below[-1] - tail]])
        k = np.unique(np.searchsorted(below, wanted))
        k = k[k < len(others) - 1]
        inner = (others[k] + others[k + 1]) / 2
    for atom in atoms.tolist():
        place = int(np.searchsorted(distinct, atom))
        low = max((distinct[place - 1] + atom) / 2, atom - step / 2) if place else -np.inf
        after = distinct[place + 1] if place + 1 < len(distinct) else np.inf
        high = min((atom + after) / 2, atom + step / 2)
        inner = inner[(inner < low - step / 4) | (inner > high + step / 4)]
        inner = np.append(inner, [end for end in (low, high) if np.isfinite(end)])
    inner = np.unique(inner)
    # Intervals without a value, between neighbouring atoms, are part of one of these.
    state = np.searchsorted(inner, distinct, side="right")
    empty = np.setdiff1d(np.arange(len(inner) + 1), state)
    return np.delete(inner, np.minimum(empty, len(inner) - 1)) if len(empty) else inner
