"""Bottom-up search: features start as whole rows and are generalised (BLM; Davis and Domingos, 2010).

A row is a conjunction of its states, without the most frequent state of each column. It is generalised
to match a neighbour that it does not cover yet, by dropping the tests that fail there, as long as that
increases what the conjunction adds to the pseudo-likelihood. The best results of many rows enter the
network, all weights are learned again, and the batch stays if held-out rows are predicted better.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data import Table
from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.holdout import sample_rows
from conjoin.joint.pseudo_likelihood_learning import PseudoLikelihood
from conjoin.models import Features, MarkovNetwork
from conjoin.progress import progress
from conjoin.research.feature_search.conjunctions import States, new_conjunctions
from conjoin.research.feature_search.feature_task import FeatureTask
from conjoin.research.feature_search.growing_network import GrowingNetwork

RANKS = (0, 3, 15, 63, 255)
"""The neighbours that a conjunction is generalised to, by rank: the nearest, and some further away."""

MIN_EVIDENCE = 2.0
"""A feature must increase the pseudo-log-likelihood of the training rows by this, in nats."""


def bottom_up(
    task: FeatureTask,
    *,
    max_rounds: int = 10,
    pool: int = 256,  # rows that are generalised per round
    max_steps: int = 8,  # maximum number of times that a row is generalised
    rows: int = 4096,  # maximum number of rows that are neighbours, and that score conjunctions
    prior_sd: float = 1.0,  # standard deviation of the prior around the weights at the start
    max_iterations: int = 30,  # in which weights are learned after each round
) -> tuple[MarkovNetwork, dict[str, Any]]:
    """Return the network and a record of the rounds."""

    def fitted(grown: GrowingNetwork, rows: Table) -> tuple[GrowingNetwork, float]:
        form = grown.network().form
        on_rows, on_held = (PseudoLikelihood(form, t, task.n_jobs) for t in (rows, task.held))
        grown = grown.fitted(on_rows, prior_sd, max_iterations)
        return grown, grown.mean_score(on_held)

    best, score = fitted(GrowingNetwork.of(task.start), task.train)
    rounds = [{"features": len(best.features), "held_out": score}]
    for _ in progress(range(max_rounds), "features", max_rounds):
        search = Generalisation(best, sample_rows(task.train, rows, task.rng), task.n_jobs)
        new = search.run(pool, max_steps, task.rng)
        if not len(new):
            break
        grown, score = fitted(best.extended(new), task.train)
        rounds.append({"features": len(grown.features), "held_out": score})
        if score <= rounds[-2]["held_out"]:
            break
        best = grown
    if task.everything is not None:
        best, _ = fitted(best, task.everything)
    return best.network(), {"objective": "pseudo-likelihood", "rounds": rounds}


class Generalisation:
    """Generalises rows, with the weights of a network held."""

    def __init__(self, grown: GrowingNetwork, table: Table, n_jobs: int | None = None) -> None:
        self.grown, self.table, self.n_jobs = grown, table, n_jobs
        self.states = States.of(grown.domain, table)
        self.singles = self.states.features()
        self.tested = self.states.matrix(table.codes)

    def run(self, pool: int, max_steps: int, rng: np.random.Generator) -> Features:
        """Return the distinct generalisations of some rows that gain enough."""
        long = np.flatnonzero(self.tested.sum(axis=1) >= 2)
        chosen = np.sort(rng.permutation(long)[:pool])
        now = self.tested[chosen]
        gains = self.gains(now)
        active = np.ones(len(now), bool)
        for _ in range(max_steps):
            which = np.flatnonzero(active)
            if not len(which):
                break
            options = self.generalised(now[which])  # ranks by conjunctions by states
            gain = self.gains(options.reshape(-1, options.shape[2])).reshape(options.shape[:2])
            best = gain.argmax(axis=0)
            top = gain[best, np.arange(len(which))]
            better = top > gains[which]
            moved = which[better]
            now[moved], gains[moved] = options[best[better], np.flatnonzero(better)], top[better]
            active[which[~better]] = False
        order = np.argsort(-gains, kind="stable")
        candidates = self.features(now[order[gains[order] >= MIN_EVIDENCE]])
        return candidates.select(new_conjunctions(self.grown.features, candidates))

    def generalised(self, conjunctions: BoolArray) -> BoolArray:
        """Return each conjunction without the tests that fail in neighbours that it does not cover."""
        held = conjunctions.astype(np.float32) @ self.tested.T.astype(np.float32)
        length = conjunctions.sum(axis=1)
        held[held == length[:, None]] = -1.0  # covered rows come last
        order = np.argsort(-held, axis=1, kind="stable")
        ranks = [min(rank, order.shape[1] - 1) for rank in RANKS]
        return np.stack([conjunctions & self.tested[order[:, rank]] for rank in ranks])

    def gains(self, conjunctions: BoolArray) -> FloatArray:
        """Return a lower bound of what each conjunction adds to the pseudo-log-likelihood.

        The slope of the score by its weight is known exactly, and the curvature is at most a quarter of
        the rows where it is live: so the increase is at least slope^2 / (2 curvature). Conjunctions of
        fewer than two tests gain nothing.
        """
        gains = np.zeros(len(conjunctions))
        long = np.flatnonzero(conjunctions.sum(axis=1) >= 2)
        if not len(long):
            return gains
        distinct, inverse = np.unique(conjunctions[long], axis=0, return_inverse=True)
        candidates = self.features(distinct)
        longer, old = self.grown.extended(candidates), len(self.grown.features)
        objective = PseudoLikelihood(longer.network().form, self.table, self.n_jobs)
        slope = objective.value_and_gradient(longer.features.weights)[1][old:]
        bound = slope**2 / (2 * np.maximum(objective.curvature()[old:], 1.0))
        gains[long] = bound[inverse.ravel()]
        return gains

    def features(self, conjunctions: BoolArray) -> Features:
        """Return conjunctions of states as features of weight 0."""
        row, number = np.nonzero(conjunctions)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(conjunctions)))])
        return Features(
            self.singles.tests, indptr, self.singles.indices[number], np.zeros(len(conjunctions))
        )
