"""Bottom-up search: features start as whole rows and are generalised (BLM; Davis and Domingos, 2010).

A row is a conjunction of its states, without the most frequent state of each column. It is generalised
to match a neighbour that it does not cover yet, by dropping the tests that fail there, as long as that
increases what the conjunction adds to the pseudo-likelihood. The best results of many rows enter the
network, all weights are learned again, and the batch stays if held-out rows are predicted better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.holdout import sample_rows
from conjoin.data.table import Table
from conjoin.feature_search.conjunctions import States, new_conjunctions
from conjoin.feature_search.growing_network import GrowingNetwork, maximised
from conjoin.feature_search.task import FeatureTask
from conjoin.feature_search.weight_methods import ByPseudoLikelihood
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import no_hidden_variables
from conjoin.progress import progress

RANKS = (0, 3, 15, 63, 255)
"""The neighbours that a conjunction is generalised to, by rank: the nearest, and some further away."""

MIN_EVIDENCE = 2.0
"""A feature must increase the pseudo-log-likelihood of the training rows by this, in nats."""


@dataclass(frozen=True)
class BottomUp:
    """Settings of the bottom-up search.

    Attributes
    ----------
    max_rounds : int
        Maximum number of batches.
    pool : int
        Number of rows that are generalised per round.
    max_steps : int
        Maximum number of times that a row is generalised.
    rows : int
        Maximum number of rows that are neighbours, and by which conjunctions are scored.
    prior_sd : float
        The standard deviation of the prior around the weights at the start.
    max_iterations : int
        Maximum number of iterations in which weights are learned after each round.
    """

    max_rounds: int = 10
    pool: int = 256
    max_steps: int = 8
    rows: int = 4096
    prior_sd: float = 1.0
    max_iterations: int = 30

    def learn(self, task: FeatureTask) -> tuple[MarkovNetwork, dict[str, Any]]:
        """Return the network and a record of the rounds."""
        no_hidden_variables(task.start, "extended by pseudo-likelihood")
        method, best = ByPseudoLikelihood(task.n_jobs), GrowingNetwork.of(task.start)
        best, score = self._fitted(best, method, task.train, task.held)
        rounds = [{"features": len(best.features), "held_out": score}]
        for _ in progress(range(self.max_rounds), "features", self.max_rounds):
            search = Generalisation(best, method, sample_rows(task.train, self.rows, task.rng))
            found = search.run(self.pool, self.max_steps, task.rng)
            if not len(found):
                break
            grown, score = self._fitted(best.extended(found), method, task.train, task.held)
            rounds.append({"features": len(grown.features), "held_out": score})
            if score <= rounds[-2]["held_out"]:
                break
            best = grown
        if task.everything is not None:
            best, _ = self._fitted(best, method, task.everything, task.held)
        return best.network(), {"objective": "pseudo-likelihood", "rounds": rounds}

    def _fitted(
        self, grown: GrowingNetwork, method: ByPseudoLikelihood, train: Table, held: Table
    ) -> tuple[GrowingNetwork, float]:
        """Return the network with its weights learned again, and its mean held-out score."""
        on_train, on_held = method.objectives(grown, [train, held])
        weights = maximised(
            on_train, grown.features.weights, grown.centre, prior_sd=self.prior_sd,
            max_iterations=self.max_iterations,
        )  # fmt: skip
        return grown.reweighted(weights), on_held.value(weights) / on_held.total


class Generalisation:
    """Generalises rows, with the weights of a network held.

    Parameters
    ----------
    grown : GrowingNetwork
        The network.
    method : ByPseudoLikelihood
        How its score is computed.
    table : Table
        The rows.
    """

    def __init__(self, grown: GrowingNetwork, method: ByPseudoLikelihood, table: Table) -> None:
        self.grown, self.method, self.table = grown, method, table
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
        found = self.features(now[order[gains[order] >= MIN_EVIDENCE]])
        return found.select(new_conjunctions(self.grown.features, found))

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
        (objective,) = self.method.objectives(self.grown.extended(candidates), [self.table])
        old = len(self.grown.features)
        weights = np.concatenate([self.grown.features.weights, np.zeros(len(candidates))])
        slope = objective.value_and_gradient(weights)[1][old:]
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
