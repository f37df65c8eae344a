"""Top-down search: features are induced one batch after another (Della Pietra et al., 1997).

A feature that holds in a share p of the rows, and with probability q under the network, increases the
log-likelihood per row by at most p log(p/q) + (1-p) log((1-p)/(1-q)) if all other weights stay as they
are: the divergence between the two. Its weight is then log[p (1-q) / (q (1-p))]. The search adds the
features that gain most, learns all weights again, and ends when rows that are held out gain nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.joint.expectations import CompleteLikelihood, Expectations
from conjoin.models import MarkovNetwork
from conjoin.progress import progress
from conjoin.research.feature_search.conjunctions import total_weight
from conjoin.research.feature_search.feature_candidates import CandidateSearch
from conjoin.research.feature_search.feature_task import FeatureTask
from conjoin.research.feature_search.growing_network import GrowingNetwork, Room

MIN_EVIDENCE = 2.0
"""A feature must increase the log-likelihood of all training rows by this, in nats."""

MIN_GAIN = 1e-4
"""A round must increase the mean held-out score by this, relative to it, to count as a success."""


def gain(share: FloatArray, expected: FloatArray) -> FloatArray:
    """Return by how much a feature can increase the log-likelihood per row.

    Given are its share of the rows, and its probability under the network.
    """

    def part(p: FloatArray, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(p > 0, p * np.log(p / q), 0.0)

    return part(share, expected) + part(1 - share, 1 - expected)


def top_down(
    task: FeatureTask,
    *,
    max_cells: int | None = None,  # of all tables of exact inference; by default 32,768 or more
    max_rounds: int = 50,
    batch: int | None = None,  # features per round; by default half the columns, at least 32
    max_tests: int = 4,  # per feature
    prior_sd: float = 2.0,  # standard deviation of the prior around the weights at the start
    patience: int = 2,  # number of rounds without a better held-out score after which it ends
    draws: int = 1 << 13,  # rows that are drawn from the network to rank candidates, at first
) -> tuple[MarkovNetwork, dict[str, Any]]:
    """Return the network of the best round, and a record of the search."""
    grown = GrowingNetwork.of(task.start)
    room = Room(grown.domain.cards, max_cells, dependence_tree(task.train))
    search = CandidateSearch(grown, room, task.train, max_tests, draws, task.rng)
    rows = total_weight(task.train)

    def score(share: FloatArray, expected: FloatArray) -> FloatArray:
        # As if the table had one more row, distributed as the network expects.
        return gain((rows * share + expected) / (rows + 1), expected)

    def fitted(grown: GrowingNetwork) -> tuple[GrowingNetwork, dict[str, Any]]:
        expect = Expectations(grown.features)
        on_train, on_held = (
            CompleteLikelihood(grown.features, table, expect) for table in (task.train, task.held)
        )
        grown = grown.fitted(on_train, prior_sd)
        scores = {"train": grown.mean_score(on_train), "held_out": grown.mean_score(on_held)}
        return grown, {"features": len(grown.features), **scores}

    grown, record = fitted(grown)
    best, rounds, top, since = grown, [record], record["held_out"], 0
    for _ in progress(range(max_rounds), "features", max_rounds):
        extended = search.extended(grown, score, batch, MIN_EVIDENCE / rows)
        if extended is None:
            break
        grown, record = fitted(extended)
        rounds.append(record)
        since = 0 if record["held_out"] > top + MIN_GAIN * abs(top) else since + 1
        if record["held_out"] > top:
            best, top = grown, record["held_out"]
        if since >= patience:
            break
    if task.everything is not None:
        best = best.fitted(CompleteLikelihood(best.features, task.everything), prior_sd)
    return best.network(), {"objective": "likelihood", "rounds": rounds}
