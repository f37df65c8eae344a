"""A network that grows by features: its likelihood and pseudo-likelihood, and where new features fit.

The weights of some features may be fixed, such as those of a network with a hidden column: then the new
features tilt its distribution, P(x) = P0(x) exp(sum of weights) / Z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from typing import Protocol

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.sampling import sample
from conjoin.joint.conjunctions import scopes
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.joint.feature_task import FeatureTask
from conjoin.joint.lbfgs import descend
from conjoin.joint.likelihood import MIN_VARIANCE, Expectations
from conjoin.joint.pseudo_likelihood import PseudoLikelihood
from conjoin.joint.thinning import ThinGraph
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import no_hidden_variables

MAX_ITERATIONS, TOLERANCE = 100, 1e-5
"""Maximum number of iterations of a fit, and the relative gain of an iteration at which it ends."""

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


@dataclass(frozen=True, eq=False)
class GrowingNetwork:
    """Features with weights to learn, besides features whose weights are fixed.

    Attributes
    ----------
    domain : Domain
        The variables.
    fixed : Features
        Features that keep their weights.
    features : Features
        Features whose weights are learned.
    centre : array of float
        The weights that a prior prefers.
    """

    domain: Domain
    fixed: Features
    features: Features
    centre: FloatArray

    @classmethod
    def of(cls, start: MarkovNetwork) -> GrowingNetwork:
        """Return a network to grow; with a hidden column, all of its present weights are fixed."""
        features = start.form.features.merged()
        if start.domain.hidden.any():
            return cls(start.domain, features, Features.empty(start.domain.cards), np.zeros(0))
        learned = np.isfinite(features.weights)
        free = features.select(np.flatnonzero(learned))
        fixed = features.select(np.flatnonzero(~learned))
        return cls(start.domain, fixed, free, free.weights)

    def extended(self, new: Features) -> GrowingNetwork:
        """Return the network with more features."""
        features = Features.concatenate([self.features, new])
        centre = np.concatenate([self.centre, np.zeros(len(new))])
        return replace(self, features=features, centre=centre)

    def reweighted(self, weights: FloatArray) -> GrowingNetwork:
        """Return the network with other weights."""
        return replace(self, features=self.features.reweighted(weights))

    def selected(self, which: IntArray) -> GrowingNetwork:
        """Return the network with some of the learned features."""
        return replace(self, features=self.features.select(which), centre=self.centre[which])

    def network(self) -> MarkovNetwork:
        """Return the Markov network."""
        return MarkovNetwork(self.domain, Features.concatenate([self.fixed, self.features]))

    def fixed_potential(self, table: Table) -> float:
        """Return the summed log-potentials of rows by the fixed features."""
        if not len(self.fixed):
            return 0.0
        potential = MarkovNetwork(self.domain, self.fixed).log_potential(table)
        total = float(potential @ _weights(table))
        if not np.isfinite(total):
            raise ModelError("a row of the table is impossible under the network to start from")
        return total


class Objective(Protocol):
    """A function of the learned weights, to be maximised."""

    total: float

    def value(self, weights: FloatArray) -> float:
        """Return the value, the sum over the rows."""

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its gradient."""

    def curvature(self) -> FloatArray:
        """Return a rough second derivative by each weight, with the opposite sign."""


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


def maximised(
    objective: Objective,
    start: FloatArray,
    centre: FloatArray,
    *,
    prior_sd: float = np.inf,
    l1: float | FloatArray = 0.0,
    max_iterations: int = MAX_ITERATIONS,
    tolerance: float = TOLERANCE,
) -> FloatArray:
    """Return the weights that maximise an objective minus the penalties of their changes.

    Parameters
    ----------
    objective : Objective
        The function of the weights.
    start : array of float
        The weights to start from; the result is never worse.
    centre : array of float
        The weights that are not penalised.
    prior_sd : float
        The standard deviation of a Gaussian prior around the centre.
    l1 : float or array of float
        The penalty on absolute differences from the centre, for all weights or for each.
    max_iterations, tolerance
        When to stop.
    """
    precision = 1 / prior_sd**2

    def function(change: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective.value_and_gradient(centre + change)
        return precision / 2 * float(change @ change) - value, precision * change - gradient

    now = start - centre
    if not len(now):
        return start
    steps = descend(function, now, scale=objective.curvature() + precision, l1=l1)
    for number, step in enumerate(steps, 1):
        now = step.point
        if number >= max_iterations or step.change < tolerance * abs(step.value):
            break
    return centre + now


class TiltedLikelihood:
    """The log-likelihood of a table as a function of the learned weights, by exact inference."""

    def __init__(self, grown: GrowingNetwork, table: Table, expect: Expectations) -> None:
        weights = _weights(table)
        self.total, self.expect = float(weights.sum()), expect
        self.sums = grown.features.sums(table.codes, weights)
        self.fixed, self.offset = grown.fixed.weights, grown.fixed_potential(table)

    def value(self, weights: FloatArray) -> float:
        """Return the log-likelihood."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its gradient."""
        log_z, means = self.expect(np.concatenate([self.fixed, weights]))
        value = self.offset + float(self.sums @ weights) - self.total * log_z
        return value, self.sums - self.total * means[len(self.fixed) :]

    def curvature(self) -> FloatArray:
        """Return the variance of each feature in the rows."""
        share = self.sums / self.total
        return self.total * np.maximum(share * (1 - share), MIN_VARIANCE)


class TiltedPseudoLikelihood:
    """The pseudo-log-likelihood of a table as a function of the learned weights."""

    def __init__(self, grown: GrowingNetwork, table: Table, n_jobs: int | None) -> None:
        features = Features.concatenate([grown.fixed, grown.features])
        form = LogLinearForm.of_features(grown.domain, features)
        self.parts, self.fixed = PseudoLikelihood(form, table, n_jobs), grown.fixed.weights
        self.total = float(_weights(table).sum())

    def value(self, weights: FloatArray) -> float:
        """Return the pseudo-log-likelihood."""
        return self.parts.value(np.concatenate([self.fixed, weights]))

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the pseudo-log-likelihood and its gradient."""
        value, slopes = self.parts.value_and_gradient(np.concatenate([self.fixed, weights]))
        return value, slopes[len(self.fixed) :]

    def curvature(self) -> FloatArray:
        """Return a quarter of the rows in which each feature is live."""
        return self.parts.curvature()[len(self.fixed) :]


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


def _weights(table: Table) -> FloatArray:
    return np.ones(len(table)) if table.weights is None else table.weights
