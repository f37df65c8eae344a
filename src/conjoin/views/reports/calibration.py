"""How reliable the predictions of a model are on rows that it has not seen.

Each cell of the table is predicted from the rest of its row. For columns of states, the predicted
probabilities are compared with the state that the cell holds. For numbers, the predicted mean is compared
with the number, and it is counted how much of the predicted distribution lies below the number: if
distributions are right, all shares are equally frequent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.errors import DataError
from conjoin.inference.joint_rows import JointRows, numbers_of
from conjoin.inference.number_distribution import NumberDistributions
from conjoin.models.network import Network
from conjoin.progress import progress
from conjoin.views.reports.subject import answering, evenly

BINS = 10
"""Number of bins of predicted probabilities."""

RANKS = 20
"""Number of bins of the shares of distributions that lie below numbers."""

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
    """How well one variable is predicted from the others; numbers count as their states at first."""

    name: str
    log_loss: float  # the mean of -log P(x_i | x_-i), in nats: the variable's part of -PLL
    baseline: float  # the same for its marginal distribution, which ignores the other variables
    accuracy: float  # the fraction of cells that hold the most probable state
    most_frequent: float  # the same for the most probable state of the marginal distribution
    # Of a number: the root mean square error of its mean given the others, and of its overall mean.
    error: float | None = None
    error_of_mean: float | None = None


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictions compared with what happened."""

    rows: int  # the number of rows used
    bins: list[Bin]  # the probabilities of all columns of states, without empty bins
    gap: float  # the weighted mean difference between predicted and observed over the bins
    # The weight of numbers of which 0 to 5%, 5 to 10%, ... of the predicted distribution lies below
    ranks: FloatArray
    # In the order of the domain, without variables whose values are all missing.
    variables: list[VariableScore]

    def coverage(self, level: float) -> float:
        """Return the share of numbers that lie in the central interval of a probability."""
        outside = round((1 - level) / 2 * RANKS)
        return float(self.ranks[outside : RANKS - outside].sum() / self.ranks.sum())


def calibration(model: Network, table: Table, train: Table | None = None) -> Calibration:
    """Compare the conditional predictions of a model with the rows of a table.

    The rows should be ones that the model was not learned from. Missing values are not predicted, and
    are summed out where other columns are. The shares of states and the means in `train`, by default
    those of `table`, are the baseline of predictions.

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
    rows = table.over(domain).select(evenly(len(table), MAX_ROWS))
    source = rows if train is None else train.over(domain)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    if not weights.sum() > 0:
        raise DataError("the table has no rows to compare predictions with")
    answers = JointRows(answering(model, rows), rows)
    by_bin, ranks, scores = np.zeros((3, BINS)), np.zeros(RANKS), []
    for v, name in enumerate(progress(domain.names, "predicting columns")):
        known = np.flatnonzero(~rows.holes[:, v] & (weights > 0))
        if not len(known):
            continue
        part, weight = answers.select(known), weights[known]
        answer, truth = part.answer(name), part.codes[:, v]
        figures = _of_states(truth, answer.p, source.marginals()[v], weight)
        errors: tuple[float, ...] = ()
        if name in domain.numeric and rows.numbers is not None and source.numbers is not None:
            values, found = part.table.column(name), numbers_of(domain, name, answer)
            present = np.flatnonzero(~np.isnan(values))
            if len(present):
                values, found, weight = values[present], found.select(present), weight[present]
                guesses = found.mean(), _mean(source, name)
                errors = tuple(_error(guess, values, weight) for guess in guesses)
                ranks += _ranks(found, values, weight)
        else:
            by_bin += _by_probability(truth, answer.p, weight)
        scores.append(VariableScore(name, *figures, *errors))
    bins = []
    for total, predicted, observed in by_bin[:, by_bin[0] > 0].T.tolist():
        p = predicted / total
        bins.append(Bin(total, p, observed / total, float(np.sqrt(p * (1 - p) / total))))
    gap = float(np.abs(by_bin[1] - by_bin[2]).sum() / max(by_bin[0].sum(), 1e-300))
    return Calibration(len(rows), bins, gap, ranks, scores)


def _of_states(
    truth: IntArray, p: FloatArray, marginal: FloatArray, weight: FloatArray
) -> list[float]:
    """Return the log loss, the baseline, the accuracy and the share of the most frequent state."""
    with np.errstate(divide="ignore"):
        loss, baseline = -np.log(p[np.arange(len(truth)), truth]), -np.log(marginal[truth])
    right, frequent = p.argmax(axis=1) == truth, marginal.argmax() == truth
    return [float(np.average(x, weights=weight)) for x in (loss, baseline, right, frequent)]


def _by_probability(truth: IntArray, p: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the weights, the probabilities and what came true of predictions, summed by bin."""
    bin_of = np.minimum((p * BINS).astype(np.int64), BINS - 1).ravel()
    repeated = np.repeat(weight, p.shape[1])
    observed = (np.arange(p.shape[1]) == truth[:, None]).ravel()
    sums = [np.bincount(bin_of, repeated * x, BINS) for x in (1.0, p.ravel(), observed)]
    return np.stack(sums)


def _mean(table: Table, name: str) -> float:
    values = table.column(name)
    known = ~np.isnan(values)
    weights = None if table.weights is None else table.weights[known]
    return float(np.average(values[known], weights=weights)) if known.any() else np.nan


def _error(guess: FloatArray | float, values: FloatArray, weight: FloatArray) -> float:
    return float(np.sqrt(np.average((guess - values) ** 2, weights=weight)))


def _ranks(found: NumberDistributions, values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the weights of numbers by the share of their distribution that is below.

    The probability of the number itself is spread evenly over the bins that it reaches.
    """
    low, high = found.cdf(values, strict=True)[:, None], found.cdf(values)[:, None]
    edges = np.linspace(0.0, 1.0, RANKS + 1)
    below = np.clip((edges - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    below[:, -1] = 1.0
    return np.asarray(weight @ np.diff(below, axis=1))
