"""The distribution of a number: the probabilities of its states, and Gaussians within the intervals.

Within an interval, the normal score of a value is a mixture of Gaussians that are cut at its ends. The
map from scores to values is a line between any two knots, so probabilities, means and standard
deviations are sums of closed forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.number_map import NumberMap, normal_mass
from conjoin.data.number_scale import NumberScale
from conjoin.data.number_states import NumberStates
from conjoin.errors import DataError
from conjoin.kernels.layouts import packed

FAR = 7.0
"""Quantiles are looked for up to this distance from the outermost knots, in scores."""

BISECTIONS = 45
"""Steps of the search for a quantile within an interval."""

TIE = 1e-9
"""Probabilities that differ by less, relative to themselves, are equal."""

LEAST = 1e-300
"""The probability of a Gaussian between its cuts is at least this."""


Parts = tuple[FloatArray, FloatArray, FloatArray]
"""Shares, means and standard deviations of Gaussians, each of shape (rows, states, parts)."""


@dataclass(frozen=True, eq=False)
class NumberDistributions:
    """Distributions of one column, one per row."""

    states: NumberStates  # the column
    p: FloatArray  # the probability of each state; shape (rows, states)
    # shares, means, sds: the Gaussians in each interval; shape (rows, intervals, parts)
    shares: FloatArray
    means: FloatArray
    sds: FloatArray
    absent: FloatArray | None = None  # the probability that there is no value, if that is a state

    def __post_init__(self) -> None:
        """Take the state that there is no value apart: the distribution is that of values."""
        if not self.states.absent:
            return
        present = self.p[:, :-1].sum(axis=1, keepdims=True)
        even = np.full((1, len(self.states) - 1), 1 / (len(self.states) - 1))
        p = np.where(present > LEAST, self.p[:, :-1] / np.maximum(present, LEAST), even)
        object.__setattr__(self, "absent", self.p[:, -1] / self.p.sum(axis=1))
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "states", self.states.present)

    @classmethod
    def of_states(
        cls, states: NumberStates, p: FloatArray, parts: Parts | None = None
    ) -> NumberDistributions:
        """Return distributions from the probabilities of states.

        `parts`: the Gaussians in all states, not only in intervals; None if nothing tells where within
        its interval a number lies.
        """
        if parts is None:
            shape = len(p), int(states.intervals.sum()), 1
            return cls(
                states,
                p,
                np.ones(shape),
                states.bounded(np.zeros(shape), np.ones(shape)),
                np.ones(shape),
            )
        shares, means, sds = (part[:, states.intervals] for part in parts)
        return cls(states, p, shares, states.bounded(means, sds), sds)

    @property
    def scale(self) -> NumberScale:
        """The scale of the column."""
        return self.states.scale

    @property
    def map(self) -> NumberMap:
        """The map between values and normal scores."""
        return self.states.map

    def __len__(self) -> int:
        return len(self.p)

    def __getitem__(self, row: int) -> NumberDistribution:
        rows = slice(row, row + 1) if row >= 0 else slice(row, row + 1 or None)
        return NumberDistribution(self.select(rows))

    def select(self, rows: Any) -> NumberDistributions:
        """Return the distributions of some rows."""
        parts = self.shares[rows], self.means[rows], self.sds[rows]
        absent = None if self.absent is None else self.absent[rows]
        return NumberDistributions(self.states, self.p[rows], *parts, absent)

    @cached_property
    def _place(self) -> IntArray:
        """The place of each state among the intervals, -1 for single values."""
        return np.where(self.states.intervals, np.cumsum(self.states.intervals) - 1, -1)

    def _inside(self, state: IntArray, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of lower and of higher scores in a state of each row."""
        from scipy.special import ndtr

        at = np.arange(len(self)), self._place[state]
        share, mean, sd = self.shares[at], self.means[at], self.sds[at]
        low, high = (end[:, None] for end in self.states.ends[:, state])
        y = np.clip(score[:, None], low, high)
        side = np.where(low > mean, -1.0, 1.0)  # differences of small numbers are more exact
        below, own, above = (ndtr(side * (x - mean) / sd) for x in (low, y, high))
        whole = np.maximum(np.abs(above - below), LEAST)
        lower = (share * np.abs(own - below) / whole).sum(axis=1)
        upper = (share * np.abs(above - own) / whole).sum(axis=1)
        return lower, upper

    def _split(self, values: FloatArray, strict: bool) -> tuple[FloatArray, FloatArray]:
        """Return the probability of values that are lower, and of the others.

        A value itself belongs to the others if `strict`, and otherwise to the lower ones; so do all
        numbers within half a step of it.
        """
        edge = values + (-0.5 if strict else 0.5) * self.map.step
        single = self.states.single
        state = np.clip(self.states.codes(edge), 0, len(self.states) - 1)
        rows = np.arange(len(self))
        total = np.concatenate([np.zeros((len(self), 1)), self.p.cumsum(axis=1)], axis=1)
        lower, upper = total[rows, state], total[:, -1] - total[rows, state + 1]
        own = self.p[rows, state]
        alone = ~self.states.intervals[state]
        below = np.where(single[state] < edge, own, 0.0)
        inner = np.flatnonzero(~alone)
        if len(inner):
            part = self.select(inner)._inside(state[inner], self.map.to_scores(edge[inner]))
            below[inner] = own[inner] * part[0]
        above = np.where(alone, own - below, 0.0)
        if len(inner):
            above[inner] = own[inner] * part[1]
        return lower + below, upper + above

    def cdf(self, x: npt.ArrayLike, *, strict: bool = False) -> FloatArray:
        """Return the probability of values that are at most x, or less than x if `strict`."""
        values = np.broadcast_to(np.asarray(x, np.float64), (len(self),))
        finite = np.where(np.isinf(values), 0.0, values)
        found = np.clip(self._split(finite, strict)[0], 0.0, 1.0)
        return np.where(np.isinf(values), (values > 0).astype(np.float64), found)

    def probability(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        """Return the probability of values from low to high, both included."""
        return np.maximum(self.cdf(high) - self.cdf(low, strict=True), 0.0)

    def tails(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of values that are as extreme as given ones, or as rare.

        A single value is as rare as all states of single values that are no more probable, and as all
        more extreme values. Also returns the probability of the most probable state of that kind, or of
        all intervals together.
        """
        rest = (self.p * self.states.intervals).sum(axis=1)
        lower = self._split(values, strict=False)[0]
        upper = self._split(values, strict=True)[1]
        extreme = np.minimum(2 * np.minimum(lower, upper), 1.0)
        if self.states.intervals.all():
            return extreme, np.ones(len(self))
        state = np.clip(self.states.codes(values), 0, len(self.states) - 1)
        single = ~self.states.intervals
        own = self.p[np.arange(len(self)), state]
        level = np.where(single[state], own, np.minimum(extreme, rest))
        rarer = (self.p[:, single] <= level[:, None] * (1 + TIE)) * self.p[:, single]
        tails = np.minimum(rarer.sum(axis=1) + np.minimum(level, rest), 1.0)
        return tails, np.maximum(self.p[:, single].max(axis=1), rest)

    def log_mass(self, values: FloatArray) -> FloatArray:
        """Return the log-probability of recorded values, one per row."""
        state = np.clip(self.states.codes(values), 0, len(self.states) - 1)
        alone = ~self.states.intervals[state]
        mass = np.where(alone, self.p[np.arange(len(self)), state], 0.0)
        inner = np.flatnonzero(~alone)
        if len(inner):
            part, half = self.select(inner), self.map.step / 2
            ends = [part._split(values[inner] + side, strict=False) for side in (0.0, -2 * half)]
            lower = ends[0][0] - ends[1][0]
            upper = ends[1][1] - ends[0][1]
            mass[inner] = np.where(ends[0][0] < 0.5, lower, upper)
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(mass, 0.0))
        tiny = np.flatnonzero((mass < 1e-14) & ~alone)
        if len(tiny):
            logs[tiny] = self.select(tiny).log_likelihood(values[tiny])
        return logs

    def density(self, x: npt.ArrayLike) -> FloatArray:
        """Return the density at x, per unit of the column; that of a single value is per step."""
        at = np.broadcast_to(np.asarray(x, np.float64), (len(self),))
        return np.exp(self.log_likelihood(at)) / self.map.step

    def log_likelihood(self, values: FloatArray) -> FloatArray:
        """Return the log-density of values, one per row, per step of the column."""
        rows = np.arange(len(self))
        state = np.clip(self.states.codes(values), 0, len(self.states) - 1)
        single = self.states.single[state]
        elsewhere = np.abs(values - single) > (0.5 + TIE) * self.map.step  # never for intervals
        with np.errstate(divide="ignore"):
            logs = np.where(elsewhere, -np.inf, np.log(self.p[rows, state]))
        inner = np.flatnonzero(self.states.intervals[state])
        if not len(inner):
            return logs
        at = inner, self._place[state[inner]]
        share, mean, sd = self.shares[at], self.means[at], self.sds[at]
        score = self.map.to_scores(values[inner])[:, None]
        cut = log_masses(mean, sd, self.states.ends[:, state[inner], None])
        with np.errstate(divide="ignore"):
            parts = np.log(share) - 0.5 * ((score - mean) / sd) ** 2 - np.log(sd) - cut
        width = self.map.slopes_at(values[inner]) * self.map.step
        logs[inner] += np.logaddexp.reduce(parts, axis=1) + np.log(width) - 0.5 * np.log(2 * np.pi)
        return logs

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """The means of the values and of their squares."""
        from conjoin.kernels.number_moments import Knots, mixture_moments

        rows, intervals, parts = self.shares.shape
        weights = (self.shares * self.p[:, self.states.intervals, None]).reshape(rows, -1)
        mixture = [
            packed(x, np.float64, 2)
            for x in (weights, self.means.reshape(rows, -1), self.sds.reshape(rows, -1))
        ]
        cuts = self.states.ends[:, self.states.intervals]
        low, high = (packed(np.repeat(cut, parts), np.float64) for cut in cuts)
        lines = (self.map.scores, self.map.values, self.map.slopes)
        found = np.zeros((rows, 2))
        if intervals:
            knots = Knots(*(packed(x, np.float64) for x in lines))
            mixture_moments(*mixture, low, high, knots, found)
        single = ~self.states.intervals
        first, second = (
            self.p[:, single] @ self.states.single[single] ** power + own
            for power, own in zip((1, 2), found.T, strict=True)
        )
        return first, second

    def mean(self) -> FloatArray:
        """Return the means."""
        return self._moments[0]

    def sd(self) -> FloatArray:
        """Return the standard deviations."""
        first, second = self._moments
        return np.sqrt(np.maximum(second - first**2, 0.0))

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Return the smallest recorded value whose cumulative probability is at least p."""
        return np.asarray(self.scale.rounded(self._quantiles(p)))

    def _quantiles(self, p: npt.ArrayLike) -> FloatArray:
        """Return the smallest values whose cumulative probability is at least p."""
        wanted = np.broadcast_to(np.asarray(p, np.float64), (len(self),))
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise DataError("the probability of a quantile must be between 0 and 1")
        total = self.p.cumsum(axis=1)
        reached = total >= wanted[:, None] - 1e-12
        reached[:, -1] = True
        state = reached.argmax(axis=1)
        rows = np.arange(len(self))
        values = self.states.single[state]
        inner = np.flatnonzero(self.states.intervals[state])
        if len(inner):
            own = self.p[inner, state[inner]]
            before = total[inner, state[inner]] - own
            left = np.clip((wanted[inner] - before) / np.maximum(own, LEAST), 0.0, 1.0)
            part = self.select(inner)
            reach = float(np.abs(self.map.scores).max()) + FAR
            low, high = (np.clip(end, -reach, reach) for end in self.states.ends[:, state[inner]])
            for _ in range(BISECTIONS):
                middle = (low + high) / 2
                short = part._inside(state[inner], middle)[0] < left
                low, high = np.where(short, middle, low), np.where(short, high, middle)
            values[inner] = self.map.to_values(high)
        return np.asarray(values[rows])

    def median(self) -> FloatArray:
        """Return the medians."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the central interval of about this probability.

        Recorded values whose middle is between the two quantiles belong to it.
        """
        if not 0 < level < 1:
            raise DataError(f"the level of an interval must be between 0 and 1, not {level}")
        low, high = (self._quantiles(p) for p in ((1 - level) / 2, (1 + level) / 2))
        middle = self.scale.rounded((low + high) / 2)
        first, last = low, high
        if self.scale.step is not None:
            step = self.scale.step
            first = np.ceil(low / step - 1e-9) * step
            last = np.floor(high / step + 1e-9) * step
        none = first > last
        first, last = np.where(none, middle, first), np.where(none, middle, last)
        return np.asarray(self.scale.rounded(first)), np.asarray(self.scale.rounded(last))

    def mode(self) -> FloatArray:
        """Return the most probable recorded value of each row, by mass and by density per step.

        Tried are single values, and in each interval the center of its largest part.
        """
        rows = np.arange(len(self))
        best, top = np.zeros(len(self)), np.full(len(self), -np.inf)
        for state in range(len(self.states)):
            value = np.full(len(self), self.states.single[state])
            if self.states.intervals[state]:
                place = int(self._place[state])
                largest = (self.shares[:, place] / self.sds[:, place]).argmax(axis=1)
                low, high = self.states.ends[:, state]
                low, high = (
                    max(low, float(self.map.scores[0])),
                    min(high, float(self.map.scores[-1])),
                )
                center = np.clip(self.means[rows, place, largest], low, max(low, high))
                value = np.asarray(self.scale.rounded(self.map.to_values(center)))
            logs = self.log_likelihood(value)
            better = logs > top
            best, top = np.where(better, value, best), np.where(better, logs, top)
        return best

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return a draw from each distribution."""
        return self.quantile(rng.random(len(self)))


def log_masses(means: FloatArray, sds: FloatArray | float, ends: FloatArray) -> FloatArray:
    """Return the log-probability of Gaussians between two ends."""
    from scipy.special import log_ndtr

    low, high = ((end - means) / sds for end in ends)
    whole = normal_mass(low, high)
    nearest = np.where(low > 0, -low, high)  # to the mean, of the two ends
    with np.errstate(divide="ignore"):
        return np.where(whole > LEAST, np.log(whole), log_ndtr(nearest))


class NumberDistribution:
    """The distribution of a number, if it has a value; `absent` is the probability that it has none.

    Values have the column's own type and resolution.

    Examples
    --------
    >>> scale = NumberScale.of("age", range(18, 99))
    >>> states = NumberStates.learn(scale, np.arange(18.0, 99.0))
    >>> p = np.zeros((1, len(states)))
    >>> p[0, states.codes(np.array([50.0]))] = 1.0
    >>> age = NumberDistributions.of_states(states, p)[0]
    >>> age.quantile(0.0) <= 50 <= age.quantile(1.0), age.cdf(18), age.cdf(98)
    (True, 0.0, 1.0)
    """

    def __init__(self, rows: NumberDistributions) -> None:
        self._rows = rows
        self.scale = rows.scale
        self.absent = 0.0 if rows.absent is None else float(rows.absent[0])

    def mean(self) -> float:
        """Return the mean."""
        return float(self._rows.mean()[0])

    def sd(self) -> float:
        """Return the standard deviation."""
        return float(self._rows.sd()[0])

    def median(self) -> Any:
        """Return the median."""
        return self.quantile(0.5)

    def mode(self) -> Any:
        """Return the most probable value."""
        return self.scale.value(float(self._rows.mode()[0]))

    def quantile(self, p: float) -> Any:
        """Return the smallest value whose cumulative probability is at least p."""
        return self.scale.value(float(self._rows.quantile(p)[0]))

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Return the ends of the central interval of about this probability."""
        low, high = self._rows.interval(level)
        return self.scale.value(float(low[0])), self.scale.value(float(high[0]))

    def cdf(self, x: Any, *, strict: bool = False) -> float:
        """Return the probability of values that are at most x, or less than x if `strict`."""
        return float(self._rows.cdf(self.scale.number(x), strict=strict)[0])

    def density(self, x: Any) -> float:
        """Return the probability density at x."""
        return float(self._rows.density(self.scale.number(x))[0])

    def probability(self, low: Any = None, high: Any = None) -> float:
        """Return the probability of values from `low` to `high`, both included."""
        first = -np.inf if low is None else self.scale.number(low)
        last = np.inf if high is None else self.scale.number(high)
        return float(self._rows.probability(first, last)[0])

    def states(self) -> dict[str, float]:
        """Return the probability of each state of the column: of intervals and of single values."""
        own = self._rows
        return dict(zip(own.states.labels(), own.p[0].tolist(), strict=True))

    def sample(self, n: int, random_state: int | np.random.Generator = 0) -> list[Any]:
        """Return n draws."""
        rng = np.random.default_rng(random_state)
        many = self._rows.select(np.zeros(n, np.int64))
        return [self.scale.value(x) for x in many.sample(rng).tolist()]

    def __repr__(self) -> str:
        low, high = (float(end[0]) for end in self._rows.interval())
        mean, *ends = (self.scale.short(x, high - low) for x in (self.mean(), low, high))
        absent = f"absent {self.absent:.2g}, otherwise " if self.absent else ""
        return f"{self.scale.name}: {absent}mean {mean}, 90% interval {ends[0]} to {ends[1]}"
