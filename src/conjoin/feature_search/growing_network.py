"""A network that grows by features, and its likelihood and pseudo-likelihood as functions of weights.

The weights of some features may be fixed, such as those of a network with a hidden column: then the new
features tilt its distribution, P(x) = P0(x) exp(sum of weights) / Z.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.joint.lbfgs import descend
from conjoin.joint.likelihood import MIN_VARIANCE, Expectations
from conjoin.joint.pseudo_likelihood import PseudoLikelihood
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.markov import MarkovNetwork

MAX_ITERATIONS, TOLERANCE = 100, 1e-5
"""Maximum number of iterations of a fit, and the relative gain of an iteration at which it ends."""


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


def _weights(table: Table) -> FloatArray:
    return np.ones(len(table)) if table.weights is None else table.weights
