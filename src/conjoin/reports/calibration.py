"""How reliable the predictions of a network are on rows that it has not seen.

Each cell of the table is predicted from the rest of its row, P(x_i | x_-i), and the predicted
probabilities of all its states are compared with the state that the cell holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes, Table
from conjoin.errors import DataError
from conjoin.inference.terms import as_markov_network
from conjoin.jobs import one_thread
from conjoin.kernels.layouts import ROWS_PER_BLOCK
from conjoin.models.cpd import log_normalized
from conjoin.models.hidden_states import HiddenStates
from conjoin.models.network import Network
from conjoin.scoring.conditionals import ConditionalScorer, RowBlock

BINS = 10
MAX_ROWS = 5000
"""Maximum number of rows used; of longer tables, evenly spaced rows are taken."""


@dataclass(frozen=True)
class Bin:
    """The predictions whose probability lies in one range."""

    weight: float  # the number of predictions, or their total weight
    predicted: float  # their mean probability
    observed: float  # the fraction that came true
    stderr: float  # the standard error of that fraction if the predictions are right


@dataclass(frozen=True)
class VariableScore:
    """How well one variable is predicted from the others."""

    name: str
    log_loss: float  # the mean of -log P(x_i | x_-i), in nats: the variable's part of -PLL
    baseline: float  # the same for its marginal distribution, which ignores the other variables
    accuracy: float  # the fraction of cells that hold the most probable state
    most_frequent: float  # the same for the most probable state of the marginal distribution
    gap: (
        float  # the mean difference between predicted and observed over the bins, for this variable
    )
    error: float | None = (
        None  # of a number: the root mean square error of its mean given the others
    )
    error_of_mean: float | None = None  # the same for its overall mean


@dataclass(frozen=True)
class Calibration:
    """Predicted probabilities compared with observed frequencies.

    Attributes
    ----------
    rows : int
        The number of rows used.
    bins : list of Bin
        All predictions by their probability, without empty bins.
    gap : float
        The weighted mean difference between predicted and observed over the bins.
    variables : list of VariableScore
        In the order of the domain, without variables whose values are all missing.
    """

    rows: int
    bins: list[Bin]
    gap: float
    variables: list[VariableScore]

    @property
    def pll(self) -> float:
        """The mean pseudo-log-likelihood of a row without missing values."""
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
        Rows that the network was not learned from. Missing values are not predicted; if the rest of
        a row has missing values, the log-potential is averaged over them.
    marginals : list of array, optional
        The distribution of each variable, for example in the training rows: missing values are
        averaged over it, and it is the baseline of predictions. By default, its distribution in `table`.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})]))
    >>> table = Table.from_rows(domain, [("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")])
    >>> [(round(b.predicted, 2), b.observed) for b in calibration(mn, table).bins]
    [(0.12, 0.333...), (0.5, 0.5), (0.88, 0.666...)]
    """
    domain = model.domain.observed
    codes, weights = _chosen_rows(domain, table)
    given = table.over(domain).marginals() if marginals is None else marginals
    totals = [Totals(card) for card in domain.cards.tolist()]
    scorer: ConditionalScorer | HiddenStates
    if model.domain.hidden.any():
        scorer = as_markov_network(model).hidden_states
    else:
        scorer = ConditionalScorer.of(model.form)
    for low in range(0, len(codes), ROWS_PER_BLOCK):
        part, weight = codes[low : low + ROWS_PER_BLOCK], weights[low : low + ROWS_PER_BLOCK]
        for i, log_p in enumerate(all_conditionals(scorer, part, given)):
            known = (part[:, i] < domain.cards[i]) & np.isfinite(log_p.max(axis=1))
            truth = part[known, i].astype(np.int64)
            totals[i].add(truth, log_p[known], weight[known], given[i])
    scores = zip(domain.names, totals, strict=True)
    return summed(len(codes), totals, [t.score(name) for name, t in scores if t.weight])


def summed(rows: int, totals: Sequence[Totals], variables: list[VariableScore]) -> Calibration:
    """Put the bins of all variables together."""
    by_bin = sum((t.by_bin for t in totals), np.zeros((3, BINS)))
    bins = []
    for weight_sum, predicted, observed in by_bin.T.tolist():
        if weight_sum:
            p = predicted / weight_sum
            stderr = float(np.sqrt(p * (1 - p) / weight_sum))
            bins.append(Bin(weight_sum, p, observed / weight_sum, stderr))
    return Calibration(rows, bins, _gap(by_bin), variables)


def _chosen_rows(domain: Domain, table: Table) -> tuple[Codes, FloatArray]:
    """Return the codes and weights of the rows to use."""
    codes = table.over(domain).codes
    weights = np.ones(len(codes)) if table.weights is None else table.weights
    if not len(codes) or not weights.sum() > 0:
        raise DataError("the table has no rows to compare predictions with")
    if len(codes) > MAX_ROWS:
        chosen = np.linspace(0, len(codes) - 1, MAX_ROWS).astype(np.int64)
        codes, weights = codes[chosen], weights[chosen]
    return codes, weights


class Totals:
    """Sums over the cells of one variable."""

    def __init__(self, card: int) -> None:
        self.states = np.arange(card)
        self.by_bin = np.zeros((3, BINS))  # weight, predicted and observed
        self.weight = 0.0
        self.sums = np.zeros(4)  # log loss, baseline, accuracy and most_frequent

    def add(
        self, truth: IntArray, log_p: FloatArray, weight: FloatArray, marginal: FloatArray
    ) -> None:
        """Add cells: their states, predicted log-probabilities and weights."""
        p = np.exp(log_p)
        bin_of = np.minimum((p * BINS).astype(np.int64), BINS - 1).ravel()
        repeated = np.repeat(weight, len(self.states))
        observed = (self.states == truth[:, None]).ravel()
        for k, value in enumerate((1.0, p.ravel(), observed)):
            self.by_bin[k] += np.bincount(bin_of, repeated * value, BINS)
        self.weight += float(weight.sum())
        with np.errstate(divide="ignore"):
            baseline = -np.log(marginal[truth])
        loss = -log_p[np.arange(len(truth)), truth]
        right, frequent = p.argmax(axis=1) == truth, marginal.argmax() == truth
        self.sums += [weight @ x for x in (loss, baseline, right, frequent)]

    def score(self, name: str, errors: Sequence[float | None] = (None, None)) -> VariableScore:
        """Return the means over all cells added."""
        loss, baseline, accuracy, most_frequent = (self.sums / self.weight).tolist()
        gap = _gap(self.by_bin)
        return VariableScore(name, loss, baseline, accuracy, most_frequent, gap, *errors)


def _gap(by_bin: FloatArray) -> float:
    return float(np.abs(by_bin[1] - by_bin[2]).sum() / max(by_bin[0].sum(), 1e-300))


def all_conditionals(
    scorer: ConditionalScorer | HiddenStates, codes: Codes, marginals: list[FloatArray]
) -> list[FloatArray]:
    """Return log P(X = state | the rest of the row) of each variable, rows by states.

    There are at most `ROWS_PER_BLOCK` rows; missing values are averaged over the marginals.
    """
    lacking = (codes == np.iinfo(codes.dtype).max).any()
    if isinstance(scorer, HiddenStates):
        return scorer.log_conditionals(codes, marginals if lacking else None)
    tests, test_first = scorer.form.features.tests, scorer.arrays.test_first
    block = RowBlock(scorer.form, codes, marginals if lacking else None)
    with one_thread():
        gains = scorer.gains(block)[:, : len(codes)]
    members = tests.members()
    result = []
    for i, card in enumerate(tests.cards.tolist()):
        own = slice(test_first[i], test_first[i + 1])
        logits = np.zeros((len(codes), card))
        for states, gain in zip(members[own, :card], gains[own], strict=True):
            logits[:, states] += gain[:, None]
        result.append(log_normalized(logits))
    return result
