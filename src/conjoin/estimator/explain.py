"""Explanations of predictions: the contribution of each column to the log-odds of two states.

The log-odds of two states of a variable are a sum of weighted conjunctions of the other columns. The
baseline is a row whose columns are drawn independently from the training rows. Under it a conjunction is
a product of independent factors, and the Shapley value of a column (its contribution averaged over all
orders in which the columns become known) is the integral of a polynomial, which a Gauss-Legendre rule
computes exactly.

In a network with hidden columns the log-odds are no such sum. There the value of a set of known columns
is the log-odds given these columns, with all others summed out, and the baseline is that of the empty
set. Shapley values are exact for few columns; otherwise they are means over some orders of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.labels import shown
from conjoin.data.table import Codes
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.completion import Completion
from conjoin.inference.terms import as_markov_network
from conjoin.models.network import Network

ALL_SETS_UP_TO = 8
"""With hidden columns, all sets of known columns are compared for at most this number of columns."""

ORDERS = 16
"""Number of orders of more columns than that, with hidden columns."""


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
        The mean of the log-odds before anything is known about the row.
    contributions : dict
        The contribution of each known column, the largest first.
    unknown : float
        The contribution of summing over missing values.
    row : dict
        The known values of the row.

    `base` + the contributions + `unknown` = `log_odds`.
    """

    target: str
    state: Any
    against: Any
    probability: float
    log_odds: float
    base: float
    contributions: dict[str, float]
    unknown: float
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
        if self.unknown:
            lines.append(f"{self.unknown:+9.4f}  missing values")
        return "\n".join(lines)


def explain(
    model: Network,
    row: Codes,
    target: int,
    marginals: list[FloatArray],
    state: int | None = None,
    against: int | None = None,
    random_state: Any = 0,
) -> Explanation:
    """Explain a prediction for one row of codes, whose value of the target is ignored.

    `row` is over the visible columns. `marginals` are the distributions when nothing is known. By default
    the two most probable states are compared.
    """
    domain, seed = model.domain.observed, integer_seed(random_state)
    codes = np.array(row, np.int64).reshape(1, -1)
    codes[0, target] = np.iinfo(np.uint16).max
    p = Completion(model, codes.astype(np.uint16), seed).marginals(target)[0][0]
    order = np.argsort(-p, kind="stable")
    if state is None:
        state = int(order[0])
    if against is None:
        against = int(next(s for s in order if s != state)) if len(p) > 1 else state
    log_odds = _log_odds(p[None], (state, against))[0]
    known = (codes[0] < domain.cards) & (domain.cards > 1)
    known[target] = False
    if model.domain.hidden.any():
        base, shares = _summed_shares(model, codes[0], known, target, (state, against), seed)
    else:
        base, shares = _shares(model, codes[0], target, marginals, state, against)
    at = np.flatnonzero(known)
    at = at[np.argsort(-np.abs(shares[at]), kind="stable")]
    contributions = {domain.names[v]: float(shares[v]) for v in at.tolist() if shares[v] != 0}
    complete = bool((known | (domain.cards == 1) | (np.arange(len(domain)) == target)).all())
    complete |= bool(model.domain.hidden.any())  # other columns are summed over in any case
    unknown = log_odds - base - sum(contributions.values())
    if complete:
        log_odds, unknown = base + sum(contributions.values()), 0.0
    return Explanation(
        domain.names[target],
        domain.variables[target].states[state],
        domain.variables[target].states[against],
        float(p[state]),
        log_odds,
        base,
        contributions,
        unknown,
        {domain.names[v]: domain.variables[v].states[codes[0, v]] for v in at.tolist()},
    )


def _shares(
    model: Network,
    row: Any,
    target: int,
    marginals: list[FloatArray],
    state: int,
    against: int,
) -> tuple[float, FloatArray]:
    """Return the mean of the log-odds over independent columns, and each column's Shapley value."""
    features = as_markov_network(model).to_features().features
    features = features.select(np.unique(features.entry_feature[features.entry_var == target]))
    tests, cards = features.tests, model.domain.cards
    member = tests.members()
    off = features.off_values()
    var, entry = features.entry_var.astype(np.int64), features.indices
    expected = np.array(
        [float(member[t, : cards[v]] @ marginals[v]) for t, v in enumerate(tests.var)]
    )
    hole = row[var] >= cards[var]
    inside = member[entry, np.where(hole, 0, row[var])]
    mean = expected[entry] + off * (1 - expected[entry])
    value = np.where(hole, mean, np.where(inside, 1.0, off))
    base, shares = 0.0, np.zeros(len(cards))
    for f in range(len(features)):
        part = slice(features.indptr[f], features.indptr[f + 1])
        own = np.flatnonzero(var[part] == target)[0]
        test, soft = entry[part][own], off[part][own]
        sides = [1.0 if member[test, s] else soft for s in (state, against)]
        weight = features.weights[f] * (sides[0] - sides[1]) if sides[0] != sides[1] else 0.0
        if weight == 0.0:
            continue
        others = np.delete(np.arange(part.start, part.stop), own)
        x, q = value[others], mean[others]
        base += weight * float(np.prod(q))
        nodes, scale = np.polynomial.legendre.leggauss(len(others) // 2 + 1)
        z = (nodes + 1) / 2
        mixed = z[:, None] * x + (1 - z[:, None]) * q
        for k, e in enumerate(others):
            if x[k] != q[k]:
                rest = np.delete(mixed, k, axis=1).prod(axis=1)
                shares[var[e]] += weight * (x[k] - q[k]) * float(scale @ rest) / 2
    return base, shares


def _log_odds(p: FloatArray, states: tuple[int, int]) -> FloatArray:
    """Return the log-odds of two states, from probabilities in rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(p[:, states[0]]) - np.log(p[:, states[1]]))


def _summed_shares(
    model: Network,
    row: Any,
    known: BoolArray,
    target: int,
    states: tuple[int, int],
    seed: int,
) -> tuple[float, FloatArray]:
    """Return the log-odds before anything is known, and each column's Shapley value.

    The value of a set of columns is the log-odds given these columns, all others summed out.
    """
    columns = np.flatnonzero(known)
    sets, before, after, weights = _coalitions(len(columns), seed)
    rows = np.full((len(sets), len(row)), np.iinfo(np.uint16).max, np.uint16)
    rows[:, columns] = np.where(sets, row[columns], rows[:, columns])
    p = Completion(model, rows, seed).marginals(target)[0]
    values = _log_odds(np.maximum(p, np.finfo(float).tiny), states)
    shares = np.zeros(len(row))
    for k, v in enumerate(columns.tolist()):
        shares[v] = weights[k] @ (values[after[k]] - values[before[k]])
    return float(values[0]), shares


def _coalitions(
    size: int, seed: int
) -> tuple[BoolArray, list[IntArray], list[IntArray], list[FloatArray]]:
    """Return sets of columns, and for each column pairs of sets without and with it, and their weights.

    For few columns these are all sets, otherwise the beginnings of some orders and of their reverses.
    The first set is empty.
    """
    if size <= ALL_SETS_UP_TO:
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
