"""Answers for the rows of a table, in the same words for networks of states and for mixed networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray
from conjoin.data.mixed_table import MixedTable
from conjoin.data.number_scale import NumberScale
from conjoin.data.table import Table
from conjoin.errors import DataError, ModelError
from conjoin.estimator.encoding import Bins, Encoding, Fills, values_of
from conjoin.estimator.impute import imputed_codes
from conjoin.estimator.predict import probabilities
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.mixed_mode import jointly
from conjoin.inference.number_distribution import NumberDistributions
from conjoin.models.mixed import MixedNetwork
from conjoin.models.network import Network

STATISTICS = ("mean", "median", "mode")


class Numbers(Protocol):
    """Distributions of one column of numbers, one per row."""

    def mean(self) -> FloatArray:
        """Return the means."""

    def mode(self) -> FloatArray:
        """Return the most probable values."""

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Return the smallest values whose cumulative probability is at least p."""

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the central intervals of about this probability."""

    def cdf(self, x: npt.ArrayLike, *, strict: bool = False) -> FloatArray:
        """Return the probability of values that are at most x, or less than x if `strict`."""

    def density(self, x: npt.ArrayLike) -> FloatArray:
        """Return the probability density at x."""

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return a draw for each row."""


@dataclass(frozen=True, eq=False)
class BinnedNumbers:
    """Distributions of a number whose bins have probabilities, one per row.

    Within a bin, the remembered numbers of the training rows have equal probabilities.

    Attributes
    ----------
    scale : NumberScale
        The column.
    values, weights : arrays, shape (values,) and (rows, values)
        Numbers, ascending, and their probabilities.
    bins : Bins
        The bins.
    p : array, shape (rows, bins)
        Their probabilities.
    """

    scale: NumberScale
    values: FloatArray
    weights: FloatArray
    bins: Bins
    p: FloatArray

    @classmethod
    def of(cls, scale: NumberScale, bins: Bins, p: FloatArray) -> BinnedNumbers:
        """Return the distributions of bins with probabilities p, rows by bins."""
        cuts = bins.variable.cuts
        assert cuts is not None
        inside = [
            v or ((a + b) / 2,) for v, a, b in zip(bins.values, cuts[:-1], cuts[1:], strict=True)
        ]
        sizes = np.array([len(v) for v in inside])
        owner = np.repeat(np.arange(len(inside)), sizes)
        return cls(scale, np.concatenate(inside), p[:, owner] / sizes[owner], bins, p)

    def mean(self) -> FloatArray:
        """Return the means."""
        return np.asarray(self.weights @ self.values)

    def mode(self) -> FloatArray:
        """Return the median of the most probable bin."""
        middles = [v[len(v) // 2] if v else np.nan for v in self.bins.values]
        return np.array(middles)[self.p.argmax(axis=1)]

    def quantile(self, p: npt.ArrayLike) -> FloatArray:
        """Return the smallest values whose cumulative probability is at least p."""
        reached = np.cumsum(self.weights, axis=1) >= np.asarray(p)[..., None] - 1e-9
        reached[:, -1] = True
        return self.values[reached.argmax(axis=1)]

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the central intervals of at least this probability: quantiles."""
        if not 0 < level < 1:
            raise DataError(f"the level of an interval must be between 0 and 1, not {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def cdf(self, x: npt.ArrayLike, *, strict: bool = False) -> FloatArray:
        """Return the probability of values that are at most x, or less than x if `strict`."""
        at = np.broadcast_to(np.asarray(x, np.float64), (len(self.p),))[:, None]
        below = self.values < at if strict else self.values <= at
        return np.clip((self.weights * below).sum(axis=1), 0.0, 1.0)

    def density(self, x: npt.ArrayLike) -> FloatArray:
        """Return the probability of the bin of x per unit of its width; 0 beyond the outermost bins."""
        cuts = np.array(self.bins.variable.cuts)
        at = np.broadcast_to(np.asarray(x, np.float64), (len(self.p),))
        own = np.clip(np.searchsorted(cuts, at, side="right") - 1, 0, len(cuts) - 2)
        width = np.maximum(np.diff(cuts), self.scale.step or 1e-12)[own]
        inside = (at >= cuts[0]) & (at <= cuts[-1])
        return np.where(inside, self.p[np.arange(len(own)), own] / width, 0.0)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return a draw for each row."""
        return self.quantile(rng.random(len(self.p)))


class Answers:
    """Answers for the rows of a table from a model.

    Parameters
    ----------
    model : MarkovNetwork or MixedNetwork
        The model.
    encoding : Encoding
        The columns.
    rows : MixedTable
        The rows.
    seed : int
        The source of randomness, for draws and for rows on which exact inference is too expensive.
    """

    def __init__(
        self, model: Network | MixedNetwork, encoding: Encoding, rows: MixedTable, seed: int = 0
    ) -> None:
        self.model, self.encoding, self.rows, self.seed = model, encoding, rows, seed

    @property
    def _mixed(self) -> MixedAnswers:
        assert isinstance(self.model, MixedNetwork)
        return MixedAnswers(self.model, self.rows, self.seed)

    def states(self, name: str) -> FloatArray:
        """Return the distribution of a column of states given the rest of each row."""
        if isinstance(self.model, MixedNetwork):
            return self._mixed.category(name)
        table = self.rows.categories
        return probabilities(self.model, table, table.domain.index(name), self.seed)

    def numbers(self, name: str) -> Numbers:
        """Return the distributions of a column of numbers given the rest of each row."""
        if name in self.rows.domain.numeric:
            return self._mixed.number(name)
        scale = self.encoding.scale(name)
        return BinnedNumbers.of(scale, self.encoding.bins[name], self.states(name))

    def probabilities(self, name: str, bins: Sequence[Any] | None = None) -> FloatArray:
        """Return the distribution of a column: of its states, or of bins of a number.

        Parameters
        ----------
        name : str
            The column.
        bins : sequence of numbers or dates, optional
            The cut points between bins of a number, by default those of the encoding.
        """
        if bins is None and name not in self.rows.domain.numeric:
            return self.states(name)
        scale = self.encoding.scale(name)
        if bins is None:
            inner = list(self.encoding.bins[name].variable.cuts or ())[1:-1]
        else:
            inner = scale.numbers(list(bins)).tolist()
            if any(a >= b for a, b in pairwise(inner)):
                raise ModelError(f"bins must be cut points that increase, not {list(bins)}")
        return bin_probabilities(self.numbers(name), inner)

    def predicted(self, name: str, statistic: str | None) -> Any:
        """Return one value per row: the most probable state, or a statistic of a number."""
        number = self.encoding.is_number(name)
        statistic = checked_statistic(statistic, number)
        if number or (name in self.encoding.scales and statistic != "mode"):
            found, scale = self.numbers(name), self.encoding.scale(name)
            return as_array(summary(found, statistic), scale, exact=statistic != "mean")
        p, states = self.states(name), list(self.encoding.domain[name].states)
        if statistic == "mode":
            return states_array(states)[p.argmax(axis=1)]
        return _state_statistic(name, p, states, statistic)

    def fills(self, by: str, statistic: str) -> Fills:
        """Return a value for each missing one."""
        checked_statistic(statistic, True)
        holes = _holes(self.rows)
        if isinstance(self.model, MixedNetwork):
            full = self._filled(by, statistic)
            return {name: (hole, values_of(full, name, hole)) for name, hole in holes.items()}
        codes = imputed_codes(self.model, self.rows.categories, None, by, self.seed)
        found: Fills = {}
        for name, hole in holes.items():
            if self.encoding.is_number(name):
                part = Answers(self.model, self.encoding, self.rows.select(hole), self.seed)
                scale = self.encoding.scale(name)
                numbers = summary(part.numbers(name), statistic).tolist()
                found[name] = hole, [scale.own(x) for x in numbers]
            else:
                own = codes[hole, self.encoding.domain.index(name)]
                found[name] = hole, self.encoding.fills(name, own)
        return found

    def _filled(self, by: str, statistic: str) -> MixedTable:
        """Return the rows of a table with numbers without missing values."""
        assert isinstance(self.model, MixedNetwork)
        if by not in ("row", "cell"):
            raise ModelError(f"by must be 'row' or 'cell', not {by!r}")
        full = self._mixed.likely(statistic)
        return full if by == "cell" else jointly(self.model, self.rows, full, statistic == "mode")

    def completed(self, by: str, statistic: str) -> Table | MixedTable:
        """Return the rows without missing values; bins and states stay what they are."""
        if isinstance(self.model, MixedNetwork):
            return self._filled(by, checked_statistic(statistic, True))
        table = self.rows.categories
        codes = imputed_codes(self.model, table, None, by, self.seed)
        return Table.adopt(table.domain, codes, table.weights)

    def completions(self, count: int, random_state: Any) -> list[Table | MixedTable]:
        """Return several draws of the rows without missing values."""
        if count < 1:
            raise ModelError(f"draws must be 1 or more, not {count}")
        if isinstance(self.model, MixedNetwork):
            return list(self._mixed.draws(count))
        table = self.rows.categories
        many = imputed_codes(self.model, table, count, "row", random_state)
        return [Table.adopt(table.domain, codes, table.weights) for codes in many]

    def drawn(self, count: int, random_state: Any) -> list[Fills]:
        """Return several draws of the missing values."""
        holes = _holes(self.rows)
        rng = np.random.default_rng([self.seed, 2])
        return [
            {name: (hole, self._cells(table, name, hole, rng)) for name, hole in holes.items()}
            for table in self.completions(count, random_state)
        ]

    def _cells(self, table: Table | MixedTable, name: str, rows: Any, rng: Any) -> list[Any]:
        if isinstance(table, MixedTable):
            return values_of(table, name, rows)
        return self.encoding.drawn(name, table.codes[rows, table.domain.index(name)], rng)

    def new_rows(self, rng: np.random.Generator) -> dict[str, list[Any]]:
        """Return the values of rows without missing values, by column."""
        table: Table | MixedTable = self.rows if self.rows.scales else self.rows.categories
        every = np.ones(len(self.rows), bool)
        return {name: self._cells(table, name, every, rng) for name in self.rows.names}


def _holes(rows: MixedTable) -> dict[str, Any]:
    listed = zip(rows.names, rows.holes.T, strict=True)
    return {name: hole for name, hole in listed if hole.any()}


def checked_statistic(statistic: str | None, number: bool) -> str:
    """Return a statistic, by default the mean of a number and the most probable state."""
    if statistic is None:
        return "mean" if number else "mode"
    if statistic not in STATISTICS:
        raise ModelError(f"statistic must be 'mean', 'median' or 'mode', not {statistic!r}")
    return statistic


def summary(numbers: Numbers, statistic: str) -> FloatArray:
    """Return the means, medians or modes of distributions."""
    return numbers.quantile(0.5) if statistic == "median" else getattr(numbers, statistic)()


def _state_statistic(name: str, p: FloatArray, states: Sequence[Any], statistic: str) -> FloatArray:
    """Return the mean or median of states that are numbers."""
    if not all(isinstance(s, int | float) for s in states):
        raise DataError(f"the states of {name!r} are not numbers, so they have no {statistic}")
    values = np.array(states, np.float64)
    if statistic == "mean":
        return np.asarray(p @ values)
    order = np.argsort(values)
    reached = np.cumsum(p[:, order], axis=1) >= 0.5
    return np.asarray(np.array(states)[order][reached.argmax(axis=1)])


def as_array(numbers: FloatArray, scale: NumberScale, *, exact: bool = True) -> Any:
    """Return numbers as an array of a column's type: rounded to its grid if `exact`; dates as dates."""
    if scale.kind == "number":
        if not exact:
            return numbers
        rounded = np.asarray(scale.rounded(numbers))
        whole = scale.integer and np.isfinite(rounded).all() and (np.abs(rounded) < 2**62).all()
        return rounded.astype(np.int64) if whole else rounded
    flat = [scale.value(x) for x in np.ravel(numbers).tolist()]
    if scale.utc:
        flat = [None if v is None else v.replace(tzinfo=None) for v in flat]
    kind = "datetime64[D]" if scale.kind == "date" else "datetime64[us]"
    return np.array(flat, kind).reshape(np.shape(numbers))


def states_array(states: Sequence[Any]) -> Any:
    """Return states as an array: of their own type if they are numbers or booleans, or of objects."""
    kinds = set(map(type, states))
    if kinds <= {int, float} or kinds == {bool}:
        return np.array(states)
    result = np.empty(len(states), object)
    result[:] = states
    return result


def bin_probabilities(numbers: Numbers, cuts: Sequence[float]) -> FloatArray:
    """Return the probabilities of bins between inner cut points; a value at one belongs above it."""
    below = [numbers.cdf(cut, strict=True) for cut in cuts]
    rows = len(below[0]) if below else len(numbers.mean())
    ends = np.stack([np.zeros(rows), *below, np.ones(rows)], axis=1)
    return np.maximum(np.diff(ends, axis=1), 0.0)


def distributions(numbers: Numbers, row: int) -> Any:
    """Return the distribution of one row, if the model has one."""
    if isinstance(numbers, NumberDistributions):
        return numbers[row]
    raise ModelError("a column that was cut into bins has no density; fit without `discretize`")
