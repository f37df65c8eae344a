"""A network that grows by features, and the room for them in a thin network.

A budget of cells bounds the tables of exact inference. There is little room for features at first, and
twice as much after each round. Otherwise the many features of a few columns that gain most in the first
round, but much less once some of them are in, would use it up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, combinations

import numpy as np

from conjoin.data import Domain
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.joint.expectations import CompleteLikelihood
from conjoin.joint.lbfgs import descend
from conjoin.joint.pseudo_likelihood_learning import PseudoLikelihood
from conjoin.joint.thinning import ThinGraph
from conjoin.models import Features, MarkovNetwork
from conjoin.research.feature_search.conjunctions import scopes

MAX_ITERATIONS, TOLERANCE = 100, 1e-5
"""Maximum number of iterations of a fit, and the relative gain of an iteration at which it ends."""

MAX_CELLS = 1 << 15
"""Default of the maximum number of cells of all tables of exact inference."""

CELLS_PER_STATE = 16
"""In wide tables there are at least this many cells per state."""

FIRST_ROOM = 2
"""The room of the first round, in multiples of the cells that a tree needs."""

WORK_PER_ROUND = 1 << 29
"""Maximum number of 64-bit words to read in the search for elimination orders, per round."""

FITS, REFUSED, NOT_TRIED = 1, 0, -1
"""Whether a candidate fits into the network; those beyond the work of a round are not tried."""

Objective = CompleteLikelihood | PseudoLikelihood
"""A function of the weights, to be maximised: a sum over the rows of a table."""


@dataclass(frozen=True, eq=False)
class GrowingNetwork:
    """Features with weights to learn."""

    domain: Domain
    features: Features
    centre: FloatArray  # of the prior of the weights: those at the start, and 0 for new features

    @classmethod
    def of(cls, start: MarkovNetwork) -> GrowingNetwork:
        """Return a network to grow."""
        return cls(start.domain, start.features, start.features.weights)

    def extended(self, new: Features) -> GrowingNetwork:
        """Return the network with more features."""
        features = Features.concatenate([self.features, new])
        centre = np.concatenate([self.centre, np.zeros(len(new))])
        return replace(self, features=features, centre=centre)

    def network(self) -> MarkovNetwork:
        """Return the Markov network."""
        return MarkovNetwork(self.domain, self.features)

    def fitted(
        self, objective: Objective, prior_sd: float, max_iterations: int = MAX_ITERATIONS
    ) -> GrowingNetwork:
        """Return the network with the weights that maximise an objective times a prior around the centre.

        The present weights are the starting point, and the result is never worse.
        """
        precision = 1 / prior_sd**2

        def function(change: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = objective.value_and_gradient(self.centre + change)
            return precision / 2 * float(change @ change) - value, precision * change - gradient

        change = self.features.weights - self.centre
        if not len(change):
            return self
        steps = descend(function, change, scale=objective.curvature() + precision)
        for number, step in enumerate(steps, 1):
            change = step.point
            if number >= max_iterations or step.change < TOLERANCE * abs(step.value):
                break
        return replace(self, features=self.features.reweighted(self.centre + change))

    def mean_score(self, objective: Objective) -> float:
        """Return the mean of an objective over its rows."""
        return objective.value(self.features.weights) / objective.weight


class Room:
    """The room for features: an elimination order within a number of cells.

    `pairs`: pairs of columns for which there is always room, those of a tree.
    """

    def __init__(
        self, cards: IntArray, max_cells: float | None, pairs: tuple[IntArray, IntArray]
    ) -> None:
        self.graph = ThinGraph(cards, np.inf, np.inf)
        if max_cells is None:
            max_cells = max(MAX_CELLS, CELLS_PER_STATE * self.graph.smallest)
        self.max_cells = self.graph.max_cells = max_cells
        self.graph.link(*pairs)
        self.graph.max_cells = min(max_cells, FIRST_ROOM * self.graph.cells)

    def admitted(self, candidates: Features) -> IntArray:
        """Return which candidates would fit, earlier ones first."""
        trial = self.graph.copy()
        trial.max_work = trial.work + WORK_PER_ROUND
        fits = _link_scopes(trial, scopes(candidates))
        self.graph.work = trial.work
        return fits

    def accept(self, candidates: Features) -> Features:
        """Reserve room for candidates, and return those that fit."""
        self.graph.max_work = np.inf
        fits = _link_scopes(self.graph, scopes(candidates))
        return candidates.select(np.flatnonzero(fits == FITS))

    def widen(self) -> bool:
        """Double the room, to the maximum number of cells, and return whether there is more."""
        if self.graph.max_cells >= self.max_cells:
            return False
        self.graph.max_cells = min(self.max_cells, 2 * self.graph.max_cells)
        return True


def _link_scopes(graph: ThinGraph, wanted: list[tuple[int, ...]]) -> IntArray:
    """Link the variables of each scope that fits into a graph, earlier ones first.

    Returns FITS, REFUSED, or NOT_TRIED, if the graph has reached its maximum of work.
    """
    pairs_by_scope = [list(combinations(scope, 2)) for scope in wanted]
    bounds = [0, *accumulate(map(len, pairs_by_scope))]
    flat = [pair for pairs in pairs_by_scope for pair in pairs]
    left, right = np.array(flat, np.int64).reshape(-1, 2).T
    fits = np.full(len(wanted), NOT_TRIED)

    # If all scopes fit together, one attempt is enough; otherwise, either half is tried.
    def link(low: int, high: int) -> None:
        pairs = slice(bounds[low], bounds[high])
        if graph.link_all(left[pairs], right[pairs]):
            fits[low:high] = FITS
        elif graph.exhausted:
            return
        elif high - low == 1:
            fits[low] = REFUSED
        else:
            middle = (low + high) // 2
            link(low, middle)
            link(middle, high)

    if wanted:
        link(0, len(wanted))
    return fits
