"""One fit of a hidden column that numbers and categories share.

Given its state, the normal scores of the numbers have a Gaussian distribution, and the categories follow
a thin network whose single states are shifted:

    log p(x, s | z) = (w + c + e_z) . f(x) - log Z_z + log N(s; mean_z + b(x), covariance_z).

EM starts with categories that are independent given z; then the weights are learned for the posterior
of the hidden states, in turn with the Gaussians. Some fits have offsets b (see `category_offsets`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.inference.plan import MAX_MEMORY
from conjoin.joint.category_base import softened
from conjoin.joint.category_offsets import Offsets, Parent
from conjoin.joint.gaussian_mixture import GaussianPrior, GaussianRows
from conjoin.joint.hidden_tables import HiddenRows, HiddenTables
from conjoin.joint.lbfgs import descend
from conjoin.joint.likelihood import Expectations
from conjoin.models.gaussians import Gaussians, Scores
from conjoin.models.hidden_states import log_sum
from conjoin.models.markov import MarkovNetwork


class FitSettings(NamedTuple):
    """The shape of a fit.

    Attributes
    ----------
    states : int
        The number of hidden states.
    prior : GaussianPrior
        The prior of the Gaussians.
    shift_sd : float
        The standard deviation of the prior of e_z.
    base_share : float
        The share of the thin network's interactions that is kept: what the hidden column explains must
        not be counted twice.
    parents : tuple of Parent
        The categories that move the numbers directly.
    emphasis : float
        How often each category counts as long as categories are independent: a larger emphasis makes
        hidden states differ in their categories, rather than in their numbers alone.
    """

    states: int
    prior: GaussianPrior
    shift_sd: float = 0.8
    base_share: float = 1.0
    parents: tuple[Parent, ...] = ()
    emphasis: float = 1.0

    @property
    def hidden_states(self) -> int:
        """The number of hidden states of the network: one for each combination of groups of parents."""
        return self.states * math.prod(parent.groups for parent in self.parents)


COMMON_SD = 0.05
"""The standard deviation of the prior of c."""

CATEGORY_ROWS = 2.0
"""The weight, in rows, of a category's marginal distribution, as long as categories are independent."""

SCALES = (0.25, 1.5)
"""The covariances of the two halves of a hidden state that is split, relative to its own."""

STEPS, CHECK_EVERY, PATIENCE, MIN_GAIN = 60, 4, 2, 1e-3
"""Maximum number of steps of EM, steps between checks on held-out rows, checks without a gain before EM
stops, and the least gain that counts, in nats per row."""

MANY_NUMBERS = 20
"""With more columns of numbers than this, the least gain counts per column, and EM stops after the first
check without it."""

ALTERNATIONS, WEIGHT_STEPS, STEPS_BETWEEN = 2, 8, 4
"""How often weights are learned, steps of L-BFGS each time, and steps of EM afterwards."""


SPARSE_STATES = 50
"""With more states per category than this, the matrix of the states of rows is sparse."""


class MixedRows:
    """Rows of numbers and categories.

    Parameters
    ----------
    scores : Scores
        The normal scores of the numbers.
    codes : array of int, shape (rows, categories)
        The states of the categories, none missing.
    cards : array of int
        Their numbers of states.
    weights : array, shape (rows,)
    """

    def __init__(
        self, scores: Scores, codes: IntArray, cards: IntArray, weights: FloatArray
    ) -> None:
        self.scores, self.codes, self.cards, self.weights = scores, codes, cards, weights
        self.numbers = GaussianRows(scores, weights)
        self.indicators: Any = _indicators(codes, cards)
        self.column = np.repeat(np.arange(len(cards)), cards)

    def __len__(self) -> int:
        return len(self.codes)

    def without(self, offsets: Offsets | None) -> MixedRows:
        """Return the rows without the offsets of their scores."""
        if offsets is None:
            return self
        scores = offsets.residuals(self.scores, self.codes)
        return MixedRows(scores, self.codes, self.cards, self.weights)


def _indicators(codes: IntArray, cards: IntArray) -> Any:
    """Return rows by states of all categories, 1 where a row has a state; sparse if few have."""
    state, size = np.cumsum(cards) - cards + codes, int(cards.sum())
    if size > SPARSE_STATES * len(cards):
        from scipy import sparse

        starts = np.arange(len(codes) + 1) * len(cards)
        return sparse.csr_array((np.ones(state.size), state.ravel(), starts), (len(codes), size))
    indicators = np.zeros((len(codes), size))
    indicators[np.arange(len(codes))[:, None], state] = 1.0
    return indicators


@dataclass(frozen=True, eq=False)
class CategoryWeights:
    """The network of the categories, with the weights of each hidden state.

    Attributes
    ----------
    tables : HiddenTables
        The thin network.
    common : array, shape (features,)
        c.
    shift : array, shape (states, features that test a single state)
        e.
    log_z : array, shape (states,)
        The log Z of each hidden state.
    """

    tables: HiddenTables
    common: FloatArray
    shift: FloatArray
    log_z: FloatArray

    @classmethod
    def of(cls, tables: HiddenTables, common: FloatArray, shift: FloatArray) -> CategoryWeights:
        """Return weights, normalised."""
        found = tables.expectations(cls(tables, common, shift, np.zeros(len(shift))).weights)
        assert found is not None, "the weights of a thin network are finite"
        return cls(tables, common, shift, found[0])

    @property
    def weights(self) -> FloatArray:
        """The weights of all features given each hidden state."""
        weights = np.tile(self.tables.features.weights + self.common, (len(self.shift), 1))
        weights[:, self.tables.single] += self.shift
        return weights

    def log_probabilities(self, rows: HiddenRows) -> FloatArray:
        """Return the log-probability of rows given each hidden state."""
        return rows.cells @ (self.tables.matrix @ self.weights.T) - self.log_z

    def learned(
        self, rows: HiddenRows, posterior: FloatArray, shift_sd: float, steps: int
    ) -> CategoryWeights:
        """Return the weights that fit the posterior of the hidden states better."""
        tables, states = self.tables, len(self.shift)
        features, single = len(tables.features), tables.single
        sums = (tables.transposed @ (rows.by_cell @ posterior)).T
        count = posterior.sum(axis=0)
        precision = np.concatenate(
            [np.full(features, COMMON_SD**-2), np.full(self.shift.size, shift_sd**-2)]
        )
        log_z = self.log_z

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            nonlocal log_z
            shift = flat[features:].reshape(states, -1)
            weights = np.tile(tables.features.weights + flat[:features], (states, 1))
            weights[:, single] += shift
            found = tables.expectations(weights)
            if found is None:
                return np.inf, np.zeros_like(flat)
            log_z, means = found
            value = float((weights * sums).sum() - count @ log_z)
            gradient = sums - count[:, None] * means
            flat_gradient = np.concatenate([gradient.sum(axis=0), gradient[:, single].ravel()])
            pull = flat * precision
            return 0.5 * float(pull @ flat) - value, pull - flat_gradient

        mean = sums.sum(axis=0) / count.sum()
        variance = np.maximum(mean * (1 - mean), 1e-3)
        curvature = np.concatenate(
            [count.sum() * variance, (count[:, None] * variance[single]).ravel()]
        )
        point = np.concatenate([self.common, self.shift.ravel()])
        best = self
        for step in islice(descend(objective, point, scale=curvature + precision), steps):
            shift = step.point[features:].reshape(states, -1)
            best = CategoryWeights(tables, step.point[:features], shift, log_z)
        return best


class Bases:
    """A thin network as fits of different size use it; the tables of equal fits are made once."""

    def __init__(self, network: MarkovNetwork) -> None:
        self.network = network
        self._made: dict[tuple[float, int], HiddenTables] = {}

    @cached_property
    def cells(self) -> int:
        """The number of cells of the tables, per hidden state."""
        features = self.network.features
        features = features.select(np.flatnonzero(features.lengths > 0))
        return int(Expectations(features, max_table=MAX_MEMORY).tables.first[-1])

    def tables(self, settings: FitSettings) -> HiddenTables:
        """Return the tables of a fit."""
        key = settings.base_share, settings.states
        if key not in self._made:
            network = softened(self.network, settings.base_share)
            self._made[key] = HiddenTables(network, settings.states)
        return self._made[key]


class MixtureFit:
    """A hidden column for numbers and categories.

    Parameters
    ----------
    settings : FitSettings
        The shape of the fit.
    base : Bases, optional
        The thin network of the categories; None if there are none.
    rng : Generator
        Where the fit starts.
    """

    gaussians: Gaussians
    log_shares: FloatArray
    given: FloatArray
    categories: CategoryWeights | None

    def __init__(self, settings: FitSettings, base: Bases | None, rng: np.random.Generator) -> None:
        self.settings, self.rng = settings, rng
        self.tables = None if base is None else base.tables(settings)
        self.categories = None
        self.offsets: Offsets | None = None
        self.steps = STEPS  # of EM until the best score of held-out rows

    def fit(self, rows: MixedRows, held: MixedRows | None = None) -> MixtureFit:
        """Learn everything; the Gaussians are those that predict held-out rows best."""
        return self.fit_mixture(rows, held).fit_network(rows)

    def fit_mixture(self, rows: MixedRows, held: MixedRows | None = None) -> MixtureFit:
        """Learn all but the network of the categories, which are independent given the hidden state."""
        states, parents = self.settings.states, self.settings.parents
        first = states // 2 if states % 2 == 0 else states
        if parents:
            self.offsets = Offsets.start(parents, rows.scores, rows.codes, rows.weights)
        rest = rows.without(self.offsets)
        self.gaussians = rest.numbers.start(first, self.settings.prior, self.rng)
        self.log_shares = np.full(first, -np.log(first))
        self.given = np.tile(self._marginal(rows), (first, 1))
        self._learn_mixture(rest, held)
        if first < states:
            self._split()
            self._learn_mixture(rows.without(self.offsets), held)
        return self

    def fit_network(self, rows: MixedRows) -> MixtureFit:
        """Learn the network of the categories, if there are any."""
        if self.tables is not None:
            self._learn_network(rows.without(self.offsets))
        return self

    def _learn_mixture(self, rest: MixedRows, held: MixedRows | None) -> None:
        """Learn Gaussians, then offsets, with categories that are independent given the hidden state.

        `rest` are the rows without the present offsets.
        """
        self._learn_gaussians(rest, held)
        if self.offsets is not None:
            self._improve_offsets(rest, self._posterior(rest, self._independent(rest)))

    def _improve_offsets(self, rest: MixedRows, posterior: FloatArray) -> None:
        if self.offsets is not None:
            self.offsets = self.offsets.improved(
                rest.numbers, rest.codes, self.gaussians, posterior
            )

    def _learn_gaussians(self, rows: MixedRows, held: MixedRows | None) -> None:
        columns = rows.numbers.columns
        many = columns > MANY_NUMBERS
        least, patience = (MIN_GAIN * columns, 1) if many else (MIN_GAIN, PATIENCE)
        best, kept = -np.inf, (self.gaussians, self.log_shares, self.given, self.steps)
        for step in range(1, STEPS + 1):
            self._em_step(rows, self.settings.emphasis * self._independent(rows))
            if held is not None and step % CHECK_EVERY == 0:
                score = self.score(held)
                if score > best + least:
                    best = score
                    kept = (self.gaussians, self.log_shares, self.given, step)
                elif step >= kept[3] + patience * CHECK_EVERY:
                    break
        if held is not None:
            self.gaussians, self.log_shares, self.given, self.steps = kept

    def _split(self) -> None:
        """Split each hidden state into a narrow one and a wide one: tails are heavier than Gaussian."""
        old = self.gaussians
        covariances = [scale * old.covariances for scale in SCALES]
        self.gaussians = Gaussians(np.concatenate([old.means] * 2), np.concatenate(covariances))
        self.log_shares = np.concatenate([self.log_shares - np.log(2)] * 2)
        self.given = np.concatenate([self.given] * 2)

    def fit_all(self, rows: MixedRows, base: Bases | None) -> None:
        """Continue on all rows, for a quarter of the steps that were taken on most of them."""
        scores, rest = self._category_scores(rows), rows.without(self.offsets)
        for _ in range(-(-self.steps // 4)):
            posterior = self._em_step(rest, scores)
        self._improve_offsets(rest, posterior)
        if base is not None and self.categories is not None:
            self.tables = base.tables(self.settings)
            self._learn_network(rows.without(self.offsets), self.categories, 1)

    def _learn_network(
        self,
        rows: MixedRows,
        start: CategoryWeights | None = None,
        alternations: int = ALTERNATIONS,
    ) -> None:
        tables, states = self.tables, self.settings.states
        assert tables is not None
        data = tables.rows(rows.codes, rows.weights)
        if start is None:
            common, shift = np.zeros(len(tables.features)), np.zeros((states, len(tables.single)))
            posterior = self._posterior(rows, self._independent(rows))
        else:
            common, shift = start.common, start.shift
            posterior = self._posterior(rows, start.log_probabilities(data))
        categories = CategoryWeights.of(tables, common, shift)
        for _ in range(alternations):
            categories = categories.learned(data, posterior, self.settings.shift_sd, WEIGHT_STEPS)
            scores = categories.log_probabilities(data)
            for _ in range(STEPS_BETWEEN):
                posterior = self._em_step(rows, scores)
        self.categories = categories

    def _marginal(self, rows: MixedRows) -> FloatArray:
        count = rows.weights @ rows.indicators + 0.5
        return count / np.bincount(rows.column, count)[rows.column]

    def _independent(self, rows: MixedRows) -> FloatArray:
        return rows.indicators @ np.log(self.given).T

    def _posterior(self, rows: MixedRows, categories: FloatArray) -> FloatArray:
        from conjoin.kernels.gaussian_states import posteriors

        numbers = rows.numbers.log_densities(self.gaussians, self.settings.prior.cells)
        numbers += categories
        numbers += self.log_shares
        posteriors(numbers, rows.weights)
        return numbers

    def _em_step(self, rows: MixedRows, categories: FloatArray) -> FloatArray:
        posterior = self._posterior(rows, categories)
        rows.numbers.fill(self.gaussians, posterior, self.rng)
        self.gaussians = rows.numbers.update(self.gaussians, posterior, self.settings.prior)
        count = posterior.sum(axis=0)
        self.log_shares = np.log((count + 0.1) / (count + 0.1).sum())
        held = posterior.T @ rows.indicators + CATEGORY_ROWS * self._marginal(rows)
        self.given = held / (count + CATEGORY_ROWS)[:, None]
        return posterior

    def by_state(self, rows: MixedRows) -> FloatArray:
        """Return the log-probability of rows together with each hidden state."""
        scores = rows.scores
        if self.offsets is not None:
            scores = self.offsets.residuals(scores, rows.codes)
        numbers = self.gaussians.log_masses(scores)
        return numbers + self._category_scores(rows) + self.log_shares

    def _category_scores(self, rows: MixedRows) -> FloatArray:
        """Return the log-probability of the categories given each hidden state."""
        if self.categories is None or self.tables is None:
            return self._independent(rows)
        return self.categories.log_probabilities(self.tables.rows(rows.codes, rows.weights))

    def log_mass(self, rows: MixedRows) -> FloatArray:
        """Return the log-probability of rows."""
        return log_sum(self.by_state(rows))

    def score(self, rows: MixedRows) -> float:
        """Return the mean log-probability of rows."""
        return float(np.average(self.log_mass(rows), weights=rows.weights))
