"""The distribution of a number: atoms, and a mixture of (cut) Gaussians of its normal score.

The map from scores to values is a line between any two knots, so probabilities, means and standard
deviations are sums of closed forms over the knots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray
from conjoin.data.number_scale import NumberScale
from conjoin.errors import DataError
from conjoin.kernels.layouts import packed
from conjoin.models.gaussians import log_cell
from conjoin.models.hidden_states import log_sum
from conjoin.models.number_map import NumberMap
from conjoin.progress import progress

FAR = 7.0
"""Quantiles are looked for up to this distance from the outermost knots, in scores."""

NEGLIGIBLE_PEAK = 1e-12
"""Parts whose highest density is this share of the highest of all cannot have the mode."""

CELLS_AT_ONCE = 1 << 20
"""Number of densities of parts that are computed at the same time."""

LARGEST_PARTS = 3
"""Number of parts of a mixture whose means are candidates for its mode."""

BISECTIONS = 40
"""Steps of the search for a quantile; scores are then exact to 10 decimals."""

TIE = 1e-9
"""Probabilities that differ by less, relative to themselves, are equal."""

ROWS_AT_ONCE = 1 << 12
"""Number of rows after which means show their progress."""


@dataclass(frozen=True, eq=False)
class NumberDistributions:
    """Distributions of one column, one per row.

    Attributes
    ----------
    scale : NumberScale
        The column.
    map : NumberMap
        Its map between values and normal scores.
    atoms : array, shape (rows, atoms)
        The probabilities of the atoms.
    weights, means, sds : arrays, shape (rows, parts)
        The rest, a mixture of Gaussians of the normal score.
    low, high : arrays, shape (parts,)
        The scores between which each Gaussian is cut; infinite if it is whole.
    """

    scale: NumberScale
    map: NumberMap
    atoms: FloatArray
    weights: FloatArray
    means: FloatArray
    sds: FloatArray
    low: FloatArray
    high: FloatArray

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, row: int) -> NumberDistribution:
        rows = slice(row, row + 1) if row >= 0 else slice(row, row + 1 or None)
        return NumberDistribution(self.select(rows))

    def select(self, rows: Any) -> NumberDistributions:
        """Return the distributions of some rows."""
        return NumberDistributions(
            self.scale, self.map, self.atoms[rows], self.weights[rows], self.means[rows],
            self.sds[rows], self.low, self.high,
        )  # fmt: skip

    @cached_property
    def _at_cuts(self) -> tuple[FloatArray, FloatArray]:
        """The cumulative probability of each Gaussian at its lower and at its upper cut.

        Gaussians of which only the upper tail is left are reflected.
        """
        from scipy.special import ndtr

        lower, upper = (
            ndtr(self._side * (cut - self.means) / self.sds) for cut in (self.low, self.high)
        )
        return lower, upper

    @cached_property
    def _inside(self) -> FloatArray:
        """The probability of each Gaussian between its cuts."""
        lower, upper = self._at_cuts
        return np.maximum(np.abs(upper - lower), 1e-300)

    @cached_property
    def _side(self) -> FloatArray:
        return np.where(self.low > self.means, -1.0, 1.0)

    def _score_cdf(self, score: FloatArray, above: bool = False) -> FloatArray:
        """Return the probability of lower scores, or of those above; atoms not counted."""
        from scipy.special import ndtr

        whole, sign = self._whole, -1.0 if above else 1.0
        z = (score[:, None] - self.means[:, :whole]) / self.sds[:, :whole]
        total = np.einsum("rk,rk->r", self.weights[:, :whole], ndtr(sign * z))
        if whole < len(self.low):
            at = np.clip(score[:, None], self.low[whole:], self.high[whole:])
            z = self._side[:, whole:] * (at - self.means[:, whole:]) / self.sds[:, whole:]
            end = self._at_cuts[int(above)][:, whole:]
            share = np.abs(ndtr(z) - end) / self._inside[:, whole:]
            total = total + (self.weights[:, whole:] * share).sum(axis=1)
        return np.asarray(total)

    @cached_property
    def _whole(self) -> int:
        """The number of parts, from the first on, that are not cut."""
        cut = np.isfinite(self.low) | np.isfinite(self.high)
        return int(cut.argmax()) if cut.any() else len(cut)

    def _edge(self, x: npt.ArrayLike, strict: bool) -> FloatArray:
        """Return the upper end of the cell of the last value that is at most x, or less than x."""
        at = np.broadcast_to(np.asarray(x, np.float64), (len(self),))
        step = self.scale.step
        if step is None:
            return at - self.map.step / 2 if strict else at + self.map.step / 2
        number = np.ceil(at / step - 1e-6) - 1 if strict else np.floor(at / step + 1e-6)
        return (number + 0.5) * step

    def cdf(self, x: npt.ArrayLike, *, strict: bool = False) -> FloatArray:
        """Return the probability of values that are at most x, or less than x if `strict`."""
        edge = self._edge(x, strict)
        rest = self._score_cdf(self.map.to_scores(edge))
        below = self.map.atoms[None] < edge[:, None]
        return np.clip(rest + (self.atoms * below).sum(axis=1), 0.0, 1.0)

    def probability(self, low: npt.ArrayLike = -np.inf, high: npt.ArrayLike = np.inf) -> FloatArray:
        """Return the probability of values from `low` to `high`, both included."""
        shape = (len(self),)
        first, last = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        upper = np.where(np.isposinf(last), 1.0, self.cdf(np.where(np.isposinf(last), 0.0, last)))
        start = np.where(np.isneginf(first), 0.0, first)
        lower = np.where(np.isneginf(first), 0.0, self.cdf(start, strict=True))
        return np.maximum(upper - lower, 0.0)

    def tails(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of values that are as improbable as given ones, or more so.

        How improbable a value is: an atom has its probability; any other value has twice the probability
        of values at least as low, or at least as high, whichever is less, atoms not counted. The
        probability of all values that are no more probable than the given one in this sense follows.

        Parameters
        ----------
        values : array of float
            A recorded value per row.

        Returns
        -------
        tails : array
            The probabilities, one per row.
        best : array
            The probability of the most probable atom or, if that is more, of all that is no atom.
        """
        rest = self.weights.sum(axis=1)
        lower = self._score_cdf(self.map.to_scores(self._edge(values, strict=False)))
        upper = self._score_cdf(self.map.to_scores(self._edge(values, strict=True)), above=True)
        level = np.minimum(2 * np.minimum(lower, upper), rest)
        atom, atoms = self.map.atom_of(values), len(self.map.atoms)
        if not atoms:
            return level, rest
        own = self.atoms[np.arange(len(self)), np.clip(atom, 0, atoms - 1)]
        level = np.where(atom < atoms, own, level)
        rarer = self.atoms <= level[:, None] * (1 + TIE)
        tails = np.minimum(level, rest) + (self.atoms * rarer).sum(axis=1)
        return np.minimum(tails, 1.0), np.maximum(self.atoms.max(axis=1), rest)

    def log_mass(self, values: FloatArray) -> FloatArray:
        """Return the log-probability of recorded values, one per row."""
        from scipy.special import ndtr

        atom, atoms = self.map.atom_of(values), len(self.map.atoms)
        low, high = self.map.cell(values)
        ends = [np.clip(end[:, None], self.low, self.high) for end in (low, high)]
        first, last = ((end - self.means) / self.sds for end in ends)
        sign = np.where(first > 0, -1.0, 1.0)  # differences of small numbers are more exact
        part = np.abs(ndtr(sign * last) - ndtr(sign * first)) / self._inside
        mass = (self.weights * part).sum(axis=1)
        if atoms:
            own = self.atoms[np.arange(len(self)), np.clip(atom, 0, atoms - 1)]
            mass = np.where(atom < atoms, own, mass)
        with np.errstate(divide="ignore"):
            logs = np.log(mass)
        far = np.flatnonzero((mass < 1e-200) & (atom >= atoms))
        if len(far) and self._whole:
            whole = slice(self._whole)  # far out in the tails, only logarithms tell a difference
            width = ((high - low)[far, None]) / self.sds[far, whole]
            middle = ((low + high)[far, None] / 2 - self.means[far, whole]) / self.sds[far, whole]
            with np.errstate(divide="ignore"):
                parts = np.log(self.weights[far, whole]) + log_cell(middle, width)
            logs[far] = np.maximum(logs[far], log_sum(parts))
        return logs

    def density(self, x: npt.ArrayLike) -> FloatArray:
        """Return the probability density at x, per unit of the column; that of an atom is per step."""
        at = np.broadcast_to(np.asarray(x, np.float64), (len(self),))
        return np.exp(self.log_likelihood(at)) / self.map.step

    def log_likelihood(self, values: FloatArray) -> FloatArray:
        """Return the log-density of values, one per row, per step of the column."""
        atom, atoms = self.map.atom_of(values), len(self.map.atoms)
        middle = self.map.to_scores(values)[:, None]
        z = (middle - self.means) / self.sds
        whole = self._whole
        with np.errstate(divide="ignore"):
            parts = np.log(self.weights / self.sds) - 0.5 * z * z
            own = np.log(np.append(self.atoms, np.ones((len(self), 1)), axis=1))
        if whole < len(self.low):
            inside = (middle >= self.low[whole:]) & (middle < self.high[whole:])
            cut = parts[:, whole:] - np.log(self._inside[:, whole:])
            parts[:, whole:] = np.where(inside, cut, -np.inf)
        width = self.map.slopes_at(values) * self.map.step
        logs = log_sum(parts) + np.log(width) - 0.5 * np.log(2 * np.pi)
        return np.where(atom < atoms, own[np.arange(len(self)), atom], logs)

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """The means of the values and of their squares."""
        from conjoin.kernels.number_moments import Knots, mixture_moments, normal_series

        mixture = [packed(x, np.float64, 2) for x in (self.weights, self.means, self.sds)]
        low, high = (packed(cut, np.float64) for cut in (self.low, self.high))
        lines = (self.map.scores, self.map.values, self.map.slopes)
        knots = Knots(*(packed(x, np.float64) for x in lines))
        found = np.empty((len(self), 2))
        starts = range(0, len(self), ROWS_AT_ONCE)
        for start in progress(starts, "means") if len(starts) > 1 else starts:
            part = slice(start, start + ROWS_AT_ONCE)
            rows = (x[part] for x in mixture)
            mixture_moments(*rows, low, high, knots, normal_series(), found[part])
        first, second = (
            self.atoms @ self.map.atoms**power + own
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
        return np.asarray(self.scale.rounded(self.map.to_values(self._quantile_scores(p))))

    def _quantile_scores(self, p: npt.ArrayLike) -> FloatArray:
        """Return the smallest scores whose cumulative probability is at least p."""
        wanted = np.broadcast_to(np.asarray(p, np.float64), (len(self),))
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise DataError("the probability of a quantile must be between 0 and 1")
        atom_scores = self.map.to_scores(self.map.atoms)
        reach = float(np.abs(self.map.scores).max()) + FAR
        low, high = np.full(len(self), -reach), np.full(len(self), reach)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            at_most = atom_scores <= middle[:, None]
            reached = self._score_cdf(middle) + (self.atoms * at_most).sum(axis=1)
            short = reached < wanted
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        for score in atom_scores:
            high = np.where(np.abs(high - score) < 1e-9, score, high)
        return high

    def median(self) -> FloatArray:
        """Return the medians."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the central interval of about this probability.

        Recorded values whose middle is between the two quantiles belong to it.
        """
        if not 0 < level < 1:
            raise DataError(f"the level of an interval must be between 0 and 1, not {level}")
        low, high = (self._quantile_scores(p) for p in ((1 - level) / 2, (1 + level) / 2))
        middle = self.scale.rounded(self.map.to_values((low + high) / 2))
        first, last = self.map.to_values(low), self.map.to_values(high)
        if self.scale.step is not None:
            step = self.scale.step
            first = np.ceil(first / step - 1e-9) * step
            last = np.floor(last / step + 1e-9) * step
        none = first > last
        first, last = np.where(none, middle, first), np.where(none, middle, last)
        return np.asarray(self.scale.rounded(first)), np.asarray(self.scale.rounded(last))

    def mode(
        self,
        log_weight: Callable[[FloatArray], FloatArray] | None = None,
        start: FloatArray | None = None,
    ) -> FloatArray:
        """Return the most probable recorded value of each row: atoms, and densities per step.

        Parameters
        ----------
        log_weight : callable, optional
            The log-likelihood of values, which is added; minus infinity excludes a value.
        start : array of float, optional
            A value of each row that the result is at least as probable as.
        """
        if not len(self):
            return np.zeros(0)

        likely = self._with_high_parts()

        def logs(values: FloatArray) -> FloatArray:
            found = likely.log_likelihood(values)
            return found if log_weight is None else found + log_weight(values)

        best = np.full(len(self), np.nan) if start is None else start
        top = np.full(len(self), -np.inf) if start is None else logs(start)
        fixed = self._fixed_candidates()
        found = likely._log_likelihoods(fixed) + (0.0 if log_weight is None else log_weight(fixed))
        highest = found.argmax(axis=1)
        mass = found[np.arange(len(self)), highest]
        better = (mass > top) | np.isnan(best)
        best, top = np.where(better, fixed[highest], best), np.where(better, mass, top)
        for values in self._candidates():
            mass = logs(values)
            better = mass > top
            best, top = np.where(better, values, best), np.where(better, mass, top)
        for distance in self._distances():
            values = np.asarray(self.scale.rounded(best + distance))
            mass = logs(values)
            better = mass > top
            best, top = np.where(better, values, best), np.where(better, mass, top)
        return best

    def _with_high_parts(self) -> NumberDistributions:
        """Return the distributions without parts whose density is nowhere near the highest one."""
        whole = self._whole
        peaks = self.weights[:, :whole] / self.sds[:, :whole]
        high = peaks > NEGLIGIBLE_PEAK * peaks.max(axis=1, keepdims=True, initial=0.0)
        at = np.argsort(-peaks, axis=1, kind="stable")[:, : int(high.sum(axis=1).max(initial=0))]

        def kept(x: FloatArray) -> FloatArray:
            return np.concatenate([np.take_along_axis(x, at, axis=1), x[:, whole:]], axis=1)

        first = whole - at.shape[1]
        return NumberDistributions(
            self.scale, self.map, self.atoms, kept(self.weights), kept(self.means), kept(self.sds),
            self.low[first:], self.high[first:],
        )  # fmt: skip

    def _log_likelihoods(self, values: FloatArray) -> FloatArray:
        """Return the log-density of each of the values in each row, per step of the column."""
        result = np.empty((len(self), len(values)))
        size = max(1, CELLS_AT_ONCE // max(1, self.weights.shape[1] * len(values)))
        for start in range(0, len(self), size):
            part = np.arange(start, min(start + size, len(self)))
            repeated = self.select(np.repeat(part, len(values)))
            found = repeated.log_likelihood(np.tile(values, len(part)))
            result[part] = found.reshape(len(part), -1)
        return result

    def _fixed_candidates(self) -> FloatArray:
        """Return values to try in all rows: between the knots, and atoms."""
        inner = self.map.values[1:-1]
        between = self.scale.rounded((inner[:-1] + inner[1:]) / 2)
        middle = self.scale.rounded(self.map.to_values(np.zeros(1)))
        return np.unique(np.concatenate([between, self.map.atoms, middle]))

    def _candidates(self) -> Iterator[FloatArray]:
        """Yield values of each row: means and ends of the largest parts."""
        rows, half = np.arange(len(self)), self.map.step / 2
        for k in np.argsort(-self.weights, axis=1, kind="stable")[:, :LARGEST_PARTS].T:
            means = self.map.to_values(self.means[rows, k])
            low, high = (
                np.where(
                    np.isfinite(ends),
                    self.map.to_values(np.nan_to_num(ends, posinf=0.0, neginf=0.0)) + side,
                    means,
                )
                for ends, side in ((self.low[k], half), (self.high[k], -half))
            )
            for values in (means, low, high):
                yield np.asarray(self.scale.rounded(values))

    def _distances(self) -> Iterator[float]:
        """Yield distances to try on both sides of the best value so far, smaller and smaller."""
        size = float(self.map.values[-1] - self.map.values[0]) / 16
        for _ in range(14):
            size = max(size / 2, self.scale.step or 0.0)
            yield from (size, -size)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return a draw from each distribution."""
        return self.quantile(rng.random(len(self)))


class NumberDistribution:
    """The distribution of a number.

    Values have the column's own type and resolution.

    Examples
    --------
    >>> from conjoin.data.number_scale import NumberScale
    >>> scale = NumberScale.of("age", range(18, 99))
    >>> line = NumberMap(np.array([0.0, 100.0]), np.array([-5.0, 5.0]), 1.0, np.zeros(0))
    >>> one, zero = np.ones((1, 1)), np.zeros((1, 1))
    >>> cut = np.array([np.inf])
    >>> age = NumberDistributions(scale, line, one[:, :0], one, zero, one, -cut, cut)[0]
    >>> age
    age: mean 50, 90% interval 34 to 66
    >>> round(age.probability(45, 55), 4), age.quantile(0.9), round(age.cdf(50), 4)
    (0.4177, 63, 0.5199)
    """

    def __init__(self, rows: NumberDistributions) -> None:
        self._rows = rows
        self.scale = rows.scale

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

    def sample(self, n: int, random_state: int | np.random.Generator = 0) -> list[Any]:
        """Return n draws."""
        rng = np.random.default_rng(random_state)
        many = self._rows.select(np.zeros(n, np.int64))
        return [self.scale.value(x) for x in many.sample(rng).tolist()]

    def __repr__(self) -> str:
        low, high = (float(end[0]) for end in self._rows.interval())
        mean, *ends = (self.scale.short(x, high - low) for x in (self.mean(), low, high))
        return f"{self.scale.name}: mean {mean}, 90% interval {ends[0]} to {ends[1]}"
