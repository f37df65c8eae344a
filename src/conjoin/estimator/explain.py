"""Explanations of predictions: the contribution of each column to the log-odds of two states.

The log-odds of two states of a variable are a sum of weighted conjunctions of the other columns. The
baseline is a row whose columns are drawn independently from the training rows. Under it a conjunction is
a product of independent factors, and the Shapley value of a column (its contribution averaged over all
orders in which the columns become known) is the integral of a polynomial, which a Gauss-Legendre rule
computes exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Codes
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.completion import Completion
from conjoin.inference.terms import as_markov_network
from conjoin.models.network import Network


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
            f"{self.target}={self.state} (probability {self.probability:.4g}) against "
            f"{self.against}: log-odds {self.log_odds:+.4f}",
            f"{self.base:+9.4f}  before the row is known",
        ]
        shown = list(self.contributions.items())[:15]
        lines += [f"{c:+9.4f}  {name}={self.row[name]}" for name, c in shown]
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

    `marginals` are the distributions when nothing is known. By default the two most probable states are
    compared.
    """
    domain, seed = model.domain, integer_seed(random_state)
    codes = np.array(row, np.int64).reshape(1, -1)
    codes[0, target] = np.iinfo(np.uint16).max
    p = Completion(model, codes.astype(np.uint16), seed).marginals(target)[0][0]
    order = np.argsort(-p, kind="stable")
    if state is None:
        state = int(order[0])
    if against is None:
        against = int(next(s for s in order if s != state)) if len(p) > 1 else state
    with np.errstate(divide="ignore"):
        log_odds = float(np.log(p[state]) - np.log(p[against]))
    base, shares = _shares(model, codes[0], target, marginals, state, against)
    known = (codes[0] < domain.cards) & (domain.cards > 1)
    known[target] = False
    at = np.flatnonzero(known)
    at = at[np.argsort(-np.abs(shares[at]), kind="stable")]
    contributions = {domain.names[v]: float(shares[v]) for v in at.tolist() if shares[v] != 0}
    complete = bool((known | (domain.cards == 1) | (np.arange(len(domain)) == target)).all())
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
