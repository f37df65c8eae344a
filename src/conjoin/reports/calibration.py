"""How far the conditionals of a network can be trusted on rows that it has not seen.

Each cell of the table is predicted from the rest of its row, P(x_i | x_-i), and the predicted
probabilities of all its states are compared with what the cell holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Codes, Table, codes_of
from conjoin.errors import DataError
from conjoin.jobs import one_thread
from conjoin.kernels.layouts import ROWS_PER_BLOCK
from conjoin.models.cpd import log_normalized
from conjoin.models.network import Network
from conjoin.scoring.conditionals import ConditionalScorer, RowBlock

BINS = 10
MAX_ROWS = 5000
"""Of longer tables so many rows are looked at, evenly spread."""


@dataclass(frozen=True)
class Bin:
    """The predictions with a probability in one range.

    Attributes
    ----------
    weight : float
        How many there are.
    predicted : float
        Their mean probability.
    observed : float
        The share of them that came true.
    stderr : float
        The standard error of that share, if the prediction is right.
    """

    weight: float
    predicted: float
    observed: float
    stderr: float


@dataclass(frozen=True)
class VariableScore:
    """How well one variable is predicted from the others.

    Attributes
    ----------
    name : str
        The variable.
    log_loss : float
        The mean of -log P(x_i | x_-i), in nats: the variable's part of -PLL.
    baseline : float
        The same for its marginal distribution, which knows nothing of the others.
    accuracy : float
        The share of cells that hold their most probable state.
    most_frequent : float
        The same for the state that is most probable without the others.
    gap : float
        The mean distance of predicted and observed over the bins, for this variable alone.
    """

    name: str
    log_loss: float
    baseline: float
    accuracy: float
    most_frequent: float
    gap: float


@dataclass(frozen=True)
class Calibration:
    """Predicted against observed.

    Attributes
    ----------
    rows : int
        The rows that were looked at.
    bins : list of Bin
        All predictions by their probability, empty bins left out.
    gap : float
        The mean distance of predicted and observed over the bins, by weight.
    variables : list of VariableScore
        In the order of the domain, without variables that are missing everywhere.
    """

    rows: int
    bins: list[Bin]
    gap: float
    variables: list[VariableScore]

    @property
    def pll(self) -> float:
        """The mean pseudo-log-likelihood of a row in which nothing is missing."""
        return -sum(v.log_loss for v in self.variables)


def calibration(
    model: Network, table: Table, marginals: list[FloatArray] | None = None
) -> Calibration:
    """Compare the conditional predictions of a network with the rows of a table.

    Parameters
    ----------
    model : Network
        A Markov, dependency or Bayesian network.
    table : Table
        Rows that it was not learned from. Missing values are not predicted; where the rest of a row
        has some, the log-potential is averaged over them.
    marginals : list of array, optional
        The distribution of each variable that missing values are averaged over and predictions are
        held against, such as that of the training rows; by default the table's own.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})]))
    >>> table = Table.from_rows(domain, [("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")])
    >>> [(round(b.predicted, 2), b.observed) for b in calibration(mn, table).bins]
    [(0.12, 0.333...), (0.5, 0.5), (0.88, 0.666...)]
    """
    codes = codes_of(model.domain, table, complete=False)
    weights = np.ones(len(codes)) if table.weights is None else table.weights
    if not len(codes) or not weights.sum() > 0:
        raise DataError("the table has no rows to hold predictions against")
    if len(codes) > MAX_ROWS:
        chosen = np.linspace(0, len(codes) - 1, MAX_ROWS).astype(np.int64)
        codes, weights = codes[chosen], weights[chosen]
    given = table.marginals() if marginals is None else marginals
    cards = model.domain.cards
    sums = np.zeros((len(cards), 3, BINS))  # weight, predicted, observed
    loss, known, right, frequent, baseline = np.zeros((5, len(cards)))
    scorer = ConditionalScorer.of(model.form)
    for low in range(0, len(codes), ROWS_PER_BLOCK):
        part, weight = codes[low : low + ROWS_PER_BLOCK], weights[low : low + ROWS_PER_BLOCK]
        for i, log_p in enumerate(all_conditionals(scorer, part, given)):
            there = (part[:, i] != table.missing) & np.isfinite(log_p.max(axis=1))
            if not there.any():
                continue
            truth, w = part[there, i].astype(np.int64), weight[there]
            mine = log_p[there]
            p = np.exp(mine)
            held = np.arange(cards[i]) == truth[:, None]
            where = np.minimum((p * BINS).astype(np.int64), BINS - 1).ravel()
            spread = np.repeat(w, cards[i])
            for k, value in enumerate((1.0, p.ravel(), held.ravel())):
                sums[i, k] += np.bincount(where, spread * value, BINS)
            known[i] += w.sum()
            loss[i] -= w @ mine[np.arange(len(truth)), truth]
            with np.errstate(divide="ignore"):
                baseline[i] -= w @ np.log(given[i][truth])
            right[i] += w @ (p.argmax(axis=1) == truth)
            frequent[i] += w @ (given[i].argmax() == truth)
    variables = [
        VariableScore(
            name,
            float(loss[i] / known[i]),
            float(baseline[i] / known[i]),
            float(right[i] / known[i]),
            float(frequent[i] / known[i]),
            _gap(sums[i]),
        )
        for i, name in enumerate(model.domain.names)
        if known[i]
    ]
    total = sums.sum(axis=0)
    bins = []
    for weight, predicted, observed in total.T.tolist():
        if weight:
            p = predicted / weight
            bins.append(Bin(weight, p, observed / weight, float(np.sqrt(p * (1 - p) / weight))))
    return Calibration(len(codes), bins, _gap(total), variables)


def _gap(sums: FloatArray) -> float:
    return float(np.abs(sums[1] - sums[2]).sum() / max(sums[0].sum(), 1e-300))


def all_conditionals(
    scorer: ConditionalScorer, codes: Codes, marginals: list[FloatArray]
) -> list[FloatArray]:
    """Return log P(X = state | the rest of the row) of each variable, rows by states.

    Parameters
    ----------
    scorer : ConditionalScorer
        The scorer of the network.
    codes : array of int, shape (rows, variables)
        At most `ROWS_PER_BLOCK` rows.
    marginals : list of array
        What missing values are averaged over.
    """
    tests, test_first = scorer.form.features.tests, scorer.arrays.test_first
    lacking = (codes == np.iinfo(codes.dtype).max).any()
    block = RowBlock(scorer.form, codes, marginals if lacking else None)
    with one_thread():
        gains = scorer.gains(block)[:, : len(codes)]
    members = tests.members()
    result = []
    for i, card in enumerate(tests.cards.tolist()):
        own = slice(test_first[i], test_first[i + 1])
        member, mine = members[own, :card], gains[own]
        logits = np.zeros((len(codes), card))
        for test, states in enumerate(member):
            logits[:, states] += mine[test][:, None]
        result.append(log_normalized(logits))
    return result
