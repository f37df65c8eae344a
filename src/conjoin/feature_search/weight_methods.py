"""How a feature search learns weights and computes expectations, and which features find room.

With the likelihood as the objective everything is exact, and the network stays thin: a budget of cells
bounds the tables of exact inference. With the pseudo-likelihood it may become dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations
from typing import Protocol

import numpy as np

from conjoin.bayesian.dependence_tree import dependence_tree
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.feature_search.conjunctions import scopes
from conjoin.feature_search.growing_network import (
    GrowingNetwork,
    Objective,
    TiltedLikelihood,
    TiltedPseudoLikelihood,
)
from conjoin.feature_search.task import FeatureTask
from conjoin.inference.sampling import sample
from conjoin.joint.likelihood import Expectations
from conjoin.joint.thinning import ThinGraph
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import no_hidden_variables

MAX_CELLS = 1 << 15
"""Default of the maximum number of cells of all tables of exact inference."""

CELLS_PER_STATE = 16
"""In wide tables there are at least this many cells per state."""

FIRST_ROOM = 2
"""The room of the first round, in multiples of the cells that are used already."""

WORK_PER_ROUND = 1 << 29
"""Maximum number of 64-bit words to read in the search for elimination orders, per round."""

FITS, REFUSED, NOT_TRIED = 1, 0, -1
"""Whether a candidate fits into the network."""

BURN_IN, CHAINS = 50, 16
"""Sweeps of each Gibbs chain before its first row, and the number of chains."""


class Method(Protocol):
    """How weights are learned, and expectations are computed."""

    def objectives(self, grown: GrowingNetwork, tables: Sequence[Table]) -> list[Objective]:
        """Return the objective on each of some tables."""

    def admitted(self, candidates: Features) -> IntArray:
        """Return which candidates would fit into the network, earlier ones first: FITS or not."""

    def accept(self, candidates: Features) -> Features:
        """Reserve room for candidates, and return those that fit."""

    def widen(self) -> bool:
        """Allow more room, and return whether there is more."""

    def draws(self, grown: GrowingNetwork, count: int, seed: int) -> Table:
        """Return rows drawn from the network."""

    def expected(self, grown: GrowingNetwork, candidates: Features, draws: Table) -> FloatArray:
        """Return the probability of each candidate under the network."""


class ByLikelihood:
    """Weights by maximum likelihood: everything is exact, and the network stays thin.

    There is little room for features at first, and twice as much after each round. Otherwise the many
    features of a few columns that gain most in the first round, but much less once some of them are in,
    would use it up.

    Parameters
    ----------
    grown : GrowingNetwork
        The network at the start.
    max_cells : float, optional
        The cells of all tables of exact inference.
    pairs : pair of arrays, optional
        Pairs of variables for which there is always room, those of a tree.
    """

    def __init__(
        self,
        grown: GrowingNetwork,
        max_cells: float | None = None,
        pairs: tuple[IntArray, IntArray] | None = None,
    ) -> None:
        self.graph, self.max_cells = graph_of(grown, max_cells)
        if pairs is not None:
            self.graph.link(*pairs)
        self.graph.max_cells = min(self.max_cells, FIRST_ROOM * self.graph.cells)

    def objectives(self, grown: GrowingNetwork, tables: Sequence[Table]) -> list[Objective]:
        """Return the log-likelihoods of tables; they share their expectations."""
        expect = Expectations(Features.concatenate([grown.fixed, grown.features]))
        return [TiltedLikelihood(grown, table, expect) for table in tables]

    def admitted(self, candidates: Features) -> IntArray:
        """Return which candidates fit into the room; those beyond the work of a round are not tried."""
        trial = self.graph.copy()
        trial.max_work = trial.work + WORK_PER_ROUND
        fits = link_scopes(trial, scopes(candidates))
        self.graph.work = trial.work
        return fits

    def accept(self, candidates: Features) -> Features:
        """Link the variables of candidates, as far as there is room."""
        self.graph.max_work = np.inf
        return candidates.select(
            np.flatnonzero(link_scopes(self.graph, scopes(candidates)) == FITS)
        )

    def widen(self) -> bool:
        """Double the room, to the maximum number of cells."""
        if self.graph.max_cells >= self.max_cells:
            return False
        self.graph.max_cells = min(self.max_cells, 2 * self.graph.max_cells)
        return True

    def draws(self, grown: GrowingNetwork, count: int, seed: int) -> Table:
        """Return independent rows, drawn exactly."""
        return sample(grown.network(), count, method="exact", random_state=seed)

    def expected(
        self,
        grown: GrowingNetwork,
        candidates: Features,
        draws: Table,  # noqa: ARG002
    ) -> FloatArray:
        """Return the exact probability of each candidate."""
        both = Features.concatenate([grown.fixed, grown.features, candidates])
        return Expectations(both)(both.weights)[1][len(both) - len(candidates) :]


class ByPseudoLikelihood:
    """Weights by maximum pseudo-likelihood; the network may be dense, and rows come from Gibbs chains."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def objectives(self, grown: GrowingNetwork, tables: Sequence[Table]) -> list[Objective]:
        """Return the pseudo-log-likelihoods of tables."""
        return [TiltedPseudoLikelihood(grown, table, self.n_jobs) for table in tables]

    def admitted(self, candidates: Features) -> IntArray:
        """Admit all candidates."""
        return np.full(len(candidates), FITS)

    def accept(self, candidates: Features) -> Features:
        """Return all candidates."""
        return candidates

    def widen(self) -> bool:
        """Return False: there is no limit."""
        return False

    def draws(self, grown: GrowingNetwork, count: int, seed: int) -> Table:
        """Return rows of Gibbs chains."""
        return sample(
            grown.network(), count, method="gibbs", burn_in=BURN_IN, chains=CHAINS,
            random_state=seed, n_jobs=self.n_jobs,
        )  # fmt: skip

    def expected(
        self,
        grown: GrowingNetwork,  # noqa: ARG002
        candidates: Features,
        draws: Table,
    ) -> FloatArray:
        """Return the share of each candidate in the drawn rows."""
        return candidates.sums(draws.codes) / len(draws)


def learning_method(
    objective: str, grown: GrowingNetwork, max_cells: float | None, task: FeatureTask
) -> Method:
    """Return how weights are learned for an objective, by its name."""
    if objective == "likelihood":
        return ByLikelihood(grown, max_cells, None if task.given else dependence_tree(task.train))
    if objective != "pseudo-likelihood":
        raise ModelError(
            f"unknown objective {objective!r}; use 'likelihood' or 'pseudo-likelihood'"
        )
    no_hidden_variables(MarkovNetwork(grown.domain), "extended by pseudo-likelihood")
    return ByPseudoLikelihood(task.n_jobs)


def link_scopes(graph: ThinGraph, wanted: list[tuple[int, ...]]) -> IntArray:
    """Link the variables of each scope that fits into a graph, earlier ones first.

    Returns
    -------
    fits : array of int
        For each scope FITS, REFUSED, or NOT_TRIED if the graph has reached its maximum of work.
    """
    left, right, bounds = _pairs(wanted)
    fits = np.full(len(wanted), NOT_TRIED)

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


def _pairs(wanted: list[tuple[int, ...]]) -> tuple[IntArray, IntArray, list[int]]:
    """Return the pairs of variables of all scopes, and where those of each scope start."""
    pairs = [list(combinations(scope, 2)) for scope in wanted]
    flat = np.array([pair for some in pairs for pair in some], np.int64).reshape(-1, 2)
    return flat[:, 0], flat[:, 1], [0, *accumulate(len(some) for some in pairs)]


def graph_of(grown: GrowingNetwork, max_cells: float | None) -> tuple[ThinGraph, float]:
    """Return the graph of a network, and the maximum number of cells."""
    graph = ThinGraph(grown.domain.cards, np.inf, np.inf)
    both = Features.concatenate([grown.fixed, grown.features])
    link_scopes(graph, sorted({scope for scope in scopes(both) if len(scope) > 1}))
    if max_cells is None:
        max_cells = max(MAX_CELLS, CELLS_PER_STATE * graph.smallest, 2 * graph.cells)
    graph.max_cells = max_cells
    if graph.cells > max_cells:
        raise ModelError(
            f"the network to start from needs tables of {graph.cells:,.0f} cells; give a larger "
            "max_cells, or make it thin first (`thin`)"
        )
    return graph, max_cells
