"""Explanations of predictions: the contribution of each column to log-odds, or to the mean of a number.

The value of a set of known columns is the log-odds of the two states, or the mean of the number, given
these columns, with all others summed out. It starts at the value before anything is known, and ends at
that given the whole row. A column contributes its Shapley value: what it adds, averaged over all orders
in which the columns become known. Columns whose value is missing contribute nothing. Shapley values are
exact for few columns; otherwise they are means over some orders of the columns, and still add up exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.bin_labels import statement
from conjoin.data.labels import shown
from conjoin.data.number_scale import NumberScale
from conjoin.data.table import Table
from conjoin.estimator.encoding import values_of
from conjoin.inference.joint_rows import JointRows
from conjoin.models.network import Network

ALL_SETS_UP_TO = 8
"""All sets of known columns are compared for at most this number of columns."""

ORDERS = 16
"""Number of orders of more columns than that."""

SHOWN = 15
"""Maximum number of columns that are printed one by one."""


@dataclass(frozen=True)
class Explanation:
    """The contributions of the columns to the log-odds of one state of a variable against another.

    Attributes
    ----------
    target : str
        The variable.
    state, against : object
        The two states.
    probability : float
        The probability of `state` given the row.
    log_odds : float
        log P(state) / P(against), given the row.
    base : float
        The log-odds before anything is known about the row.
    contributions : dict
        The contribution of each known column, the largest first.
    row : dict
        The known values of the row.
    words : dict
        The same in words.

    `base` + the contributions = `log_odds`.
    """

    target: str
    state: Any
    against: Any
    probability: float
    log_odds: float
    base: float
    contributions: dict[str, float]
    row: dict[str, Any]
    words: dict[str, str]

    def __repr__(self) -> str:
        lines = [
            f"{shown(self.target)}={shown(self.state)} (probability {self.probability:.4g}) against "
            f"{shown(self.against)}: log-odds {self.log_odds:+.4f}",
            f"{self.base:+9.4f}  before the row is known",
        ]
        return "\n".join([*lines, *_bars(self.contributions, self.words, "+9.4f")])


@dataclass(frozen=True)
class NumberExplanation:
    """The contributions of the columns to the mean of a number.

    Attributes
    ----------
    target : str
        The column.
    mean : float
        Its mean given the row; of dates, in days or seconds since 1970.
    base : float
        Its mean before anything is known about the row.
    contributions : dict
        The contribution of each known column, the largest first; of dates, in days.
    row : dict
        The known values of the row.
    words : dict
        The same in words.
    scale : NumberScale
        The scale of the column.

    `base` + the contributions = `mean`.
    """

    target: str
    mean: float
    base: float
    contributions: dict[str, float]
    row: dict[str, Any]
    words: dict[str, str]
    scale: NumberScale

    def __repr__(self) -> str:
        base, mean = self.scale.short(self.base), self.scale.short(self.mean)
        unit = {"number": "", "date": " days", "datetime": " seconds"}[self.scale.kind]
        lines = [
            f"{shown(self.target)}: mean {mean}",
            f"{base:>10}  before the row is known",
        ]
        return "\n".join([*lines, *_bars(self.contributions, self.words, "+10.4g", unit)])


def _bars(
    contributions: dict[str, float], words: dict[str, str], form: str, unit: str = ""
) -> list[str]:
    """Return a line for each of the largest contributions, and one for the rest."""
    listed = list(contributions.items())
    lines = [f"{c:{form}}{unit}  {words[name]}" for name, c in listed[:SHOWN]]
    if len(listed) > SHOWN:
        rest = sum(c for _, c in listed[SHOWN:])
        lines.append(f"{rest:{form}}{unit}  {len(listed) - SHOWN} other columns")
    return lines


def explain(
    distribution: Callable[[Table], FloatArray],
    row: Table,
    name: str,
    state: int | None = None,
    against: int | None = None,
    seed: int = 0,
    all_sets_up_to: int = ALL_SETS_UP_TO,
) -> Explanation:
    """Explain a prediction of a column for a table of one row, whose value of that column is ignored.

    `distribution` returns the distribution of the column given the known values of rows. By default the
    two most probable states are compared. All sets of known columns are compared if there are few.
    """
    variable = row.domain[name]
    sets = _Sets.of(row, name, seed, all_sets_up_to)
    p = distribution(sets.rows)
    found = p[sets.known.all(axis=1).argmax()]
    order = np.argsort(-found, kind="stable")
    if state is None:
        state = int(order[0])
    if against is None:
        against = int(next(s for s in order if s != state)) if len(found) > 1 else state
    values = _log_odds(np.maximum(p, np.finfo(float).tiny), (state, against))
    contributions = sets.contributions(values)
    return Explanation(
        name,
        variable.states[state],
        variable.states[against],
        float(found[state]),
        float(values[0]) + sum(contributions.values()),
        float(values[0]),
        contributions,
        sets.values,
        sets.words,
    )


def explain_number(
    means: Callable[[Table], FloatArray],
    row: Table,
    name: str,
    seed: int = 0,
    all_sets_up_to: int = ALL_SETS_UP_TO,
) -> NumberExplanation:
    """Explain the mean of a number for a table of one row, whose value of that column is ignored.

    `means` returns the mean of the column given the known values of rows.
    """
    sets = _Sets.of(row, name, seed, all_sets_up_to)
    values = means(sets.rows)
    contributions = sets.contributions(values)
    base = float(values[0])
    return NumberExplanation(
        name, base + sum(contributions.values()), base, contributions, sets.values, sets.words,
        row.domain.scale(name),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Sets:
    """Copies of a row in which some columns are known, and how they add up to contributions."""

    names: list[str]
    known: BoolArray
    rows: Table
    before: list[IntArray]
    after: list[IntArray]
    weights: list[FloatArray]
    values: dict[str, Any]
    words: dict[str, str]

    @classmethod
    def of(cls, row: Table, name: str, seed: int, all_sets_up_to: int) -> _Sets:
        """Return the sets of known columns of a row other than one column."""
        known = ~row.holes[0] & np.array([column != name for column in row.names])
        names = [column for column, is_known in zip(row.names, known, strict=True) if is_known]
        sets, before, after, weights = _coalitions(len(names), seed, all_sets_up_to)
        values = {column: values_of(row, column)[0] for column in names}
        words = {column: _words(row, column) for column in names}
        return cls(names, sets, _with_only(row, names, sets), before, after, weights, values, words)

    def contributions(self, values: FloatArray) -> dict[str, float]:
        """Return the contribution of each column that has one, the largest first."""
        pairs = zip(self.names, self.weights, self.before, self.after, strict=True)
        shares = {n: float(w @ (values[a] - values[b])) for n, w, b, a in pairs}
        ranked = sorted(self.names, key=lambda column: -abs(shares[column]))
        return {column: shares[column] for column in ranked if shares[column] != 0}


def _words(row: Table, name: str) -> str:
    """Return a known value in words; a bin as a range."""
    if name in row.domain.numeric and not row.absent[0, row.domain.index(name)]:
        text = row.domain.scale(name).text(float(row.column(name)[0]))
        return f"{shown(name)}={shown(text)}"
    return statement(row.domain[name], int(row.codes[0, row.domain.index(name)]))


def explain_row(
    model: Network,
    row: Table,
    name: str,
    state: int | None = None,
    against: int | None = None,
    seed: int = 0,
) -> Explanation:
    """Explain a prediction of a network of states for a table of one row (see `explain`)."""
    return explain(
        lambda rows: JointRows(model, rows, seed).states(name), row, name, state, against, seed
    )


def _with_only(row: Table, names: list[str], sets: BoolArray) -> Table:
    """Return copies of a row in which only the columns of a set are known, one copy per set."""
    codes = np.full((len(sets), len(row.domain)), row.missing, row.codes.dtype)
    numbers = None if row.numbers is None else np.full((len(sets), row.numbers.shape[1]), np.nan)
    for k, column in enumerate(names):
        v = row.domain.index(column)
        codes[sets[:, k], v] = row.codes[0, v]
        if numbers is not None and column in row.domain.numeric:
            j = row.domain.numeric.index(column)
            numbers[sets[:, k], j] = row.column(column)[0]
    return Table.adopt(row.domain, codes, None, numbers, row.domain.names)


def _log_odds(p: FloatArray, states: tuple[int, int]) -> FloatArray:
    """Return the log-odds of two states, from probabilities in rows."""
    return np.asarray(np.log(p[:, states[0]]) - np.log(p[:, states[1]]))


def _coalitions(
    size: int, seed: int, all_sets_up_to: int
) -> tuple[BoolArray, list[IntArray], list[IntArray], list[FloatArray]]:
    """Return sets of columns, and for each column pairs of sets without and with it, and their weights.

    For few columns these are all sets, otherwise the beginnings of some orders and of their reverses.
    The first set is empty.
    """
    if size <= all_sets_up_to:
        number = np.arange(1 << size)
        sets = (number[:, None] >> np.arange(size) & 1).astype(bool)
        count = sets.sum(axis=1)
        share = np.array([1 / (size * comb(size - 1, m)) for m in range(size)])
        before = [np.flatnonzero(~sets[:, k]) for k in range(size)]
        after = [b + (1 << k) for k, b in enumerate(before)]
        return sets, before, after, [share[count[b]] for b in before]
    rng = np.random.default_rng(seed)
    half = [rng.permutation(size) for _ in range(ORDERS // 2)]
    orders = [order for one in half for order in (one, one[::-1])]
    rank = np.argsort(orders, axis=1)  # the place of each column in each order
    # Set number order * (size + 1) + m holds the first m columns of an order.
    sets = (rank[:, None, :] < np.arange(size + 1)[:, None]).reshape(-1, size)
    first = np.arange(len(orders)) * (size + 1)
    before = [first + rank[:, k] for k in range(size)]
    weights = [np.full(len(orders), 1 / len(orders))] * size
    return sets, before, [b + 1 for b in before], weights
