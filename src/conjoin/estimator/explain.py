"""Explanations of predictions: the contribution of each column to the log-odds of two states.

The value of a set of known columns is the log-odds of the two states given these columns, with all others
summed out. It starts at the log-odds before anything is known, and ends at those given the whole row. A
column contributes its Shapley value: what it adds, averaged over all orders in which the columns become
known. Columns whose value is missing contribute nothing. Shapley values are exact for few columns;
otherwise they are means over some orders of the columns, and still add up exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.labels import shown
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.table import Table
from conjoin.estimator.encoding import values_of
from conjoin.estimator.predict import probabilities
from conjoin.models.network import Network

ALL_SETS_UP_TO = 8
"""All sets of known columns are compared for at most this number of columns."""

ORDERS = 16
"""Number of orders of more columns than that."""


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

    def __repr__(self) -> str:
        lines = [
            f"{shown(self.target)}={shown(self.state)} (probability {self.probability:.4g}) against "
            f"{shown(self.against)}: log-odds {self.log_odds:+.4f}",
            f"{self.base:+9.4f}  before the row is known",
        ]
        first = list(self.contributions.items())[:15]
        lines += [f"{c:+9.4f}  {shown(name)}={shown(self.row[name])}" for name, c in first]
        rest = sum(list(self.contributions.values())[15:])
        if len(self.contributions) > 15:
            lines.append(f"{rest:+9.4f}  {len(self.contributions) - 15} other columns")
        return "\n".join(lines)


def explain(
    distribution: Callable[[MixedTable], FloatArray],
    row: MixedTable,
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
    variable = row.domain.categories[name]
    known = ~row.holes[0] & np.array([column != name for column in row.names])
    names = [column for column, is_known in zip(row.names, known, strict=True) if is_known]
    sets, before, after, weights = _coalitions(len(names), seed, all_sets_up_to)
    p = distribution(_with_only(row, names, sets))
    found = p[sets.all(axis=1).argmax()]
    order = np.argsort(-found, kind="stable")
    if state is None:
        state = int(order[0])
    if against is None:
        against = int(next(s for s in order if s != state)) if len(found) > 1 else state
    values = _log_odds(np.maximum(p, np.finfo(float).tiny), (state, against))
    shares = [float(weights[k] @ (values[after[k]] - values[before[k]])) for k in range(len(names))]
    ranked = sorted(range(len(names)), key=lambda k: -abs(shares[k]))
    contributions = {names[k]: shares[k] for k in ranked if shares[k] != 0}
    return Explanation(
        name,
        variable.states[state],
        variable.states[against],
        float(found[state]),
        float(values[0]) + sum(contributions.values()),
        float(values[0]),
        contributions,
        {names[k]: values_of(row, names[k])[0] for k in ranked},
    )


def explain_row(
    model: Network,
    row: Table,
    name: str,
    state: int | None = None,
    against: int | None = None,
    seed: int = 0,
) -> Explanation:
    """Explain a prediction of a network of states for a table of one row (see `explain`)."""
    domain = MixedDomain(row.domain, (), row.domain.names)
    at = row.domain.index(name)
    return explain(
        lambda rows: probabilities(model, rows.categories, at, seed),
        MixedTable(domain, row, np.empty((1, 0))),
        name, state, against, seed,
    )  # fmt: skip


def _with_only(row: MixedTable, names: list[str], sets: BoolArray) -> MixedTable:
    """Return copies of a row in which only the columns of a set are known, one copy per set."""
    table = row.categories
    codes = np.full((len(sets), len(table.domain)), table.missing, table.codes.dtype)
    numbers = np.full((len(sets), len(row.scales)), np.nan)
    for k, column in enumerate(names):
        if column in row.domain.numeric:
            j = row.domain.numeric.index(column)
            numbers[sets[:, k], j] = row.numbers[0, j]
        else:
            v = table.domain.index(column)
            codes[sets[:, k], v] = table.codes[0, v]
    return MixedTable(row.domain, Table.adopt(table.domain, codes), numbers)


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
