"""Top-down search: features are induced one batch after another (Della Pietra et al., 1997).

A feature that holds in a share p of the rows, and with probability q under the network, increases the
log-likelihood per row by at most p log(p/q) + (1-p) log((1-p)/(1-q)) if all other weights stay as they
are: the divergence between the two. Its weight is then log[p (1-q) / (q (1-p))]. The search adds the
features that gain most, learns all weights again, and ends when rows that are held out gain nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Table
from conjoin.feature_search.candidates import CandidateSearch, total_weight
from conjoin.feature_search.growing_network import GrowingNetwork, Objective, maximised
from conjoin.feature_search.task import FeatureTask
from conjoin.feature_search.weight_methods import Method, learning_method
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress

MIN_EVIDENCE = 2.0
"""A feature must increase the log-likelihood of all training rows by this, in nats."""

MIN_GAIN = 1e-4
"""A round must increase the mean held-out score by this, relative to it, to count as a success."""


def gain(share: FloatArray, expected: FloatArray) -> FloatArray:
    """Return by how much a feature can increase the log-likelihood per row.

    Parameters
    ----------
    share : array of float
        The share of the rows in which the feature holds.
    expected : array of float
        Its probability under the network.

    Examples
    --------
    >>> gain(np.array([0.5, 0.2, 0.0]), np.array([0.25, 0.2, 0.5])).round(4).tolist()
    [0.1438, 0.0, 0.6931]
    """
    p, q = share, expected

    def part(p: FloatArray, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(p > 0, p * np.log(p / q), 0.0)

    return part(p, q) + part(1 - p, 1 - q)


def shrunk(share: FloatArray, expected: FloatArray, rows: float) -> FloatArray:
    """Return shares with one more row, distributed as the network expects."""
    return (rows * share + expected) / (rows + 1)


@dataclass(frozen=True)
class TopDown:
    """Settings of the top-down search.

    Attributes
    ----------
    objective : {'likelihood', 'pseudo-likelihood'}
        The score that weights maximise. With the likelihood the network stays thin, and probabilities are
        exact; with the pseudo-likelihood it may become dense, and they are estimated by Gibbs sampling.
    max_cells : int, optional
        The budget of exact inference: the number of cells of all its tables. By default 32,768, or twice
        the cells of the network to start from.
    max_rounds : int
        Maximum number of batches.
    batch : int, optional
        Maximum number of features per batch; by default half the number of columns, at least 32.
    max_tests : int
        Maximum number of tests of a feature.
    prior_sd : float
        The standard deviation of the prior around the weights at the start.
    patience : int
        The search ends after this number of rounds without a better held-out score.
    draws : int
        Number of rows that are drawn from the network to rank candidates, at first.
    """

    objective: str = "likelihood"
    max_cells: int | None = None
    max_rounds: int = 50
    batch: int | None = None
    max_tests: int = 4
    prior_sd: float = 2.0
    patience: int = 2
    draws: int = 1 << 13

    def learn(self, task: FeatureTask) -> tuple[MarkovNetwork, dict[str, Any]]:
        """Return the network and a record of the search."""
        grown = GrowingNetwork.of(task.start)
        method = learning_method(self.objective, grown, self.max_cells, task)
        grown, rounds = induce(grown, method, task.train, task.held, self, task.rng)
        if task.everything is not None:
            (objective,) = method.objectives(grown, [task.everything])
            grown = grown.reweighted(self.fit(grown, objective))
        return grown.network(), {"objective": self.objective, "rounds": rounds}

    def fit(self, grown: GrowingNetwork, objective: Objective) -> FloatArray:
        """Return the weights that maximise an objective with the prior."""
        now = grown.features.weights
        return maximised(objective, now, grown.centre, prior_sd=self.prior_sd)


def induce(
    grown: GrowingNetwork,
    method: Method,
    train: Table,
    held: Table,
    settings: TopDown,
    rng: np.random.Generator,
) -> tuple[GrowingNetwork, list[dict[str, Any]]]:
    """Add features to a network as long as they improve the held-out score.

    Returns
    -------
    network : GrowingNetwork
        The network of the best round.
    rounds : list of dict
        For each round the number of features, and the mean scores of training and held-out rows.
    """
    batch = max(32, len(train.domain) // 2) if settings.batch is None else settings.batch
    rows = total_weight(train)
    search = CandidateSearch(grown, train, settings.max_tests, settings.draws, rng)

    def score(share: FloatArray, expected: FloatArray) -> FloatArray:
        return gain(shrunk(share, expected, rows), expected)

    grown, record = _fitted(grown, method, train, held, settings)
    best, rounds, top, since = grown, [record], record["held_out"], 0
    for _ in progress(range(settings.max_rounds), "features", settings.max_rounds):
        found = search.find(grown, method, score, batch, MIN_EVIDENCE / rows)
        added = method.accept(found.features)
        if not len(added):
            break
        search.extend(added)
        grown, record = _fitted(grown.extended(added), method, train, held, settings)
        rounds.append(record)
        since = 0 if record["held_out"] > top + MIN_GAIN * abs(top) else since + 1
        if record["held_out"] > top:
            best, top = grown, record["held_out"]
        if since >= settings.patience:
            break
    return best, rounds


def _fitted(
    grown: GrowingNetwork, method: Method, train: Table, held: Table, settings: TopDown
) -> tuple[GrowingNetwork, dict[str, Any]]:
    """Return the network with its weights learned again, and a record of its scores."""
    on_train, on_held = method.objectives(grown, [train, held])
    weights = settings.fit(grown, on_train)
    record = {
        "features": len(grown.features),
        "train": on_train.value(weights) / on_train.total,
        "held_out": on_held.value(weights) / on_held.total,
    }
    return grown.reweighted(weights), record
