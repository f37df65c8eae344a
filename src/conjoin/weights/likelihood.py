"""The log-likelihood of a table as a function of a network's weights, by exact inference."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.operands import Operands
from conjoin.inference.plan import MAX_MEMORY, Plan, TooLarge, find_order
from conjoin.models.features import Features

LEAST = 1e-3
"""The least curvature a row, for features that hardly vary."""


class Likelihood:
    """Value and gradient of the log-likelihood of a table; what `Objective` is for pseudo-likelihood.

    The gradient is what the table's rows hold of each feature less what the network expects (the
    paper's Section 2.2).

    Parameters
    ----------
    features : Features
        Their weights are what is sought; those that are -inf stay as they are.
    table : Table
        The rows, without missing values.
    """

    def __init__(self, features: Features, table: Table) -> None:
        self.features = features
        if (table.codes == table.missing).any():
            raise ModelError(
                "the likelihood of rows with missing values is not known; fill them in"
            )
        self.weight = len(table) if table.weights is None else float(table.weights.sum())
        self.sums = features.sums(table.codes, table.weights)
        if (self.sums[~self.free] > 0).any():
            raise ModelError(
                "a row of the table is impossible under the network's hard constraints; "
                "weights cannot be learned from it"
            )
        self.plan = expectation_plan(features)

    def value(self, weights: FloatArray) -> float:
        """Return the log-likelihood."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the same with its gradient; of fixed weights it is 0."""
        log_z, means = expectations(self.plan, weights)
        free = self.free
        value = float(self.sums[free] @ weights[free]) - self.weight * log_z
        gradient = np.where(free, self.sums - self.weight * means, 0.0)
        return value, gradient

    @property
    def free(self) -> BoolArray:
        """Which weights may change."""
        return np.isfinite(self.features.weights)

    def curvature(self) -> FloatArray:
        """Return a rough second derivative by each weight: the variance of its feature in the rows."""
        share = self.sums / self.weight
        return self.weight * np.maximum(share * (1 - share), LEAST)


def expectation_plan(features: Features) -> Plan:
    """Return a plan of exact inference that keeps every feature apart."""
    cards = features.tests.cards
    operands = Operands.of(cards, [], features)
    single = np.flatnonzero(cards == 1)
    order = find_order(cards, operands.indptr, operands.var, single, MAX_MEMORY)
    if order.total * 8 > MAX_MEMORY:
        raise TooLarge(
            "the likelihood takes exact inference, and the network is too dense for it; make it thin "
            "first (conjoin.thin), or learn by pseudo-likelihood"
        )
    return Plan(operands, order, np.ones(len(operands.indptr) - 1, bool))


def expectations(plan: Plan, weights: FloatArray) -> tuple[float, FloatArray]:
    """Return log Z and the mean of each feature for other weights."""
    plan.operands.weights[:] = weights
    return plan.expect(np.zeros(len(plan.place) - len(plan.size), np.int64))
