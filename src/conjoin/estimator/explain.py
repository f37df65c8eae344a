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

from conjoin.data.answer_html import Bar, Cell, answer_html
from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.labels import shown, statement
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


@dataclass(frozen=True, kw_only=True)
class _Contributions:
    """What both kinds of explanation have."""

    target: str
    base: float
    contributions: dict[str, float]
    row: dict[str, Any]
    words: dict[str, str]

    def _lines(self, form: str, unit: str = "") -> list[str]:
        """Return a line for each of the largest contributions, and one for the rest."""
        listed = list(self.contributions.items())
        lines = [f"{c:{form}}{unit}  {self.words[name]}" for name, c in listed[:SHOWN]]
        if len(listed) > SHOWN:
            rest = sum(c for _, c in listed[SHOWN:])
            lines.append(f"{rest:{form}}{unit}  {len(listed) - SHOWN} other columns")
        return lines

    def _repr_html_(self) -> str:
        title, *lines = repr(self).split("\n")
        sizes = [abs(c) for c in list(self.contributions.values())[:SHOWN]]
        most = max([*sizes, 1e-300])
        shares = [0.0, *(size / most for size in sizes)] + [0.0] * len(lines)
        parts = [line.strip().partition("  ") for line in lines]
        rows: list[list[Cell]] = [
            [Bar(share, c), said] for share, (c, _, said) in zip(shares, parts, strict=False)
        ]
        return answer_html(title, rows)


@dataclass(frozen=True, kw_only=True)
class Explanation(_Contributions):
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

    state: Any
    against: Any
    probability: float
    log_odds: float

    def __repr__(self) -> str:
        lines = [
            f"{shown(self.target)}={shown(self.state)} (probability {self.probability:.4g}) against "
            f"{shown(self.against)}: log-odds {self.log_odds:+.4f}",
            f"{self.base:+9.4f}  before the row is known",
        ]
        return "\n".join([*lines, *self._lines("+9.4f")])


@dataclass(frozen=True, kw_only=True)
class NumberExplanation(_Contributions):
    """The contributions of the columns to the mean of a number.

    Attributes
    ----------
    mean, base : float
        The mean given the row, and before anything is known about it; of dates, in days or seconds
        since 1970.
    contributions : dict
        The contribution of each known column, the largest first; of dates, in days.
    target, row, words
        As in `Explanation`.
    scale : NumberScale
        The scale of the column.

    `base` + the contributions = `mean`.
    """

    mean: float
    scale: NumberScale

    def __repr__(self) -> str:
        base, mean = self.scale.short(self.base), self.scale.short(self.mean)
        unit = {"number": "", "date": " days", "datetime": " seconds"}[self.scale.kind]
        lines = [f"{shown(self.target)}: mean {mean}", f"{base:>10}  before the row is known"]
        return "\n".join([*lines, *self._lines("+10.4g", unit)])


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
    logs = np.log(np.maximum(p, np.finfo(float).tiny))
    values = np.asarray(logs[:, state] - logs[:, against])
    base, contributions = float(values[0]), sets.contributions(values)
    return Explanation(
        base=base,
        contributions=contributions,
        state=variable.states[state],
        against=variable.states[against],
        probability=float(found[state]),
        log_odds=base + sum(contributions.values()),
        **_told(row, name),
    )


def explain_number(
    means: Callable[[Table], FloatArray],
    row: Table,
    name: str,
    seed: int = 0,
    all_sets_up_to: int = ALL_SETS_UP_TO,
) -> NumberExplanation:
    """Explain a mean that `means` returns; see `explain`."""
    sets = _Sets.of(row, name, seed, all_sets_up_to)
    values = means(sets.rows)
    base, contributions = float(values[0]), sets.contributions(values)
    return NumberExplanation(
        base=base,
        contributions=contributions,
        mean=base + sum(contributions.values()),
        scale=row.domain.scale(name),
        **_told(row, name),
    )


@dataclass(frozen=True, eq=False)
class _Sets:
    """Copies of a row in which some columns are known, and how they add up to contributions."""

    names: list[str]
    known: BoolArray  # sets by columns; the first set is empty
    rows: Table
    # For each column pairs of sets without and with it, and their weights; columns by pairs
    before: IntArray
    after: IntArray
    weights: FloatArray

    @classmethod
    def of(cls, row: Table, name: str, seed: int, all_sets_up_to: int) -> _Sets:
        """Return the sets of known columns of a row other than one column."""
        names = _known_columns(row, name)
        sets, before, after, weights = _coalitions(len(names), seed, all_sets_up_to)
        return cls(names, sets, _with_only(row, names, sets), before, after, weights)

    def contributions(self, values: FloatArray) -> dict[str, float]:
        """Return the contribution of each column that has one, the largest first."""
        shares = (self.weights * (values[self.after] - values[self.before])).sum(axis=1)
        ranked = np.argsort(-np.abs(shares), kind="stable").tolist()
        return {self.names[k]: float(shares[k]) for k in ranked if shares[k] != 0}


def _known_columns(row: Table, name: str) -> list[str]:
    """Return the columns other than one whose value is known."""
    known = zip(row.names, ~row.holes[0], strict=True)
    return [column for column, is_known in known if is_known and column != name]


def _told(row: Table, name: str) -> dict[str, Any]:
    """Return the parts of an explanation of a column that are the row itself."""
    names = _known_columns(row, name)
    values = {column: values_of(row, column)[0] for column in names}
    words = {column: _words(row, column) for column in names}
    return {"target": name, "row": values, "words": words}


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
    known = np.zeros((len(sets), len(row.domain)), bool)
    known[:, [row.domain.index(column) for column in names]] = sets
    codes, numbers = np.where(known, row.codes, row.missing), row.numbers
    if numbers is not None:
        places = [row.domain.index(column) for column in row.domain.numeric]
        numbers = np.where(known[:, places], numbers, np.nan)
    return Table.adopt(row.domain, codes.astype(row.codes.dtype), None, numbers, row.domain.names)


def _coalitions(
    size: int, seed: int, all_sets_up_to: int
) -> tuple[BoolArray, IntArray, IntArray, FloatArray]:
    """Return sets of columns, and pairs of sets for each column (see `_Sets`).

    For few columns these are all sets, otherwise the beginnings of some orders and of their reverses.
    """
    if size <= all_sets_up_to:
        bits = 1 << np.arange(size)
        sets = (np.arange(1 << size)[:, None] & bits) > 0
        without = [np.flatnonzero(~sets[:, k]) for k in range(size)]
        before = np.array(without, np.int64).reshape(size, len(sets) // 2)
        share = np.array([1 / (size * comb(size - 1, m)) for m in range(size)])
        return sets, before, before + bits[:, None], share[sets.sum(axis=1)[before]]
    rng = np.random.default_rng(seed)
    half = [rng.permutation(size) for _ in range(ORDERS // 2)]
    orders = [order for one in half for order in (one, one[::-1])]
    rank = np.argsort(orders, axis=1)  # the place of each column in each order
    # Set number order * (size + 1) + m holds the first m columns of an order.
    sets = (rank[:, None, :] < np.arange(size + 1)[:, None]).reshape(-1, size)
    first = np.arange(len(orders)) * (size + 1)
    before = first + rank.T
    return sets, before, before + 1, np.full(before.shape, 1 / len(orders))
