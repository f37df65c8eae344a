"""The likelihood of rows with missing values, which are summed out by exact inference.

The log-likelihood of such a row is the log-sum of the potentials of all its completions, less log Z. Its
gradient is the expectation of the features given the known values, less their expectation without
them. Rows that lack the same columns share one plan of exact inference, in which the known columns are
evidence, so a row with few missing values costs little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Table
from conjoin.inference.plan import MAX_MEMORY, Plan, find_order
from conjoin.joint.expectations import (
    MIN_VARIANCE,
    CompleteLikelihood,
    Expectations,
    impossible_row,
)
from conjoin.joint.hidden_column import HiddenModel, Parameters
from conjoin.joint.hidden_tables import HiddenRows
from conjoin.kernels.elimination_layouts import Terms
from conjoin.models.features import Features


def incomplete(table: Table) -> BoolArray:
    """Return which rows lack a value."""
    return (table.codes == table.missing).any(axis=1)


class IncompleteRows:
    """Rows with missing values, by the columns that they lack.

    Parameters
    ----------
    terms : Terms
        The terms of the network; columns after those of the rows are hidden.
    cards : array of int
        The number of states of each column, hidden ones included.
    table : Table
        The rows; complete ones are ignored.
    """

    def __init__(self, terms: Terms, cards: IntArray, table: Table) -> None:
        some = incomplete(table)
        weights = np.ones(len(table)) if table.weights is None else table.weights
        self.codes, self.weights = merge_rows(table.codes[some], weights[some])
        self.weight = float(self.weights.sum())
        lacking = self.codes == table.missing
        patterns, group = np.unique(lacking, axis=0, return_inverse=True)
        self.groups: list[_Group] = []
        self._shares = np.zeros(len(terms.values))
        for number, pattern in enumerate(patterns):
            known = np.flatnonzero(np.append(~pattern, np.zeros(len(cards) - len(pattern), bool)))
            given = np.union1d(known, np.flatnonzero(cards == 1))
            plan = Plan(terms, find_order(cards, terms.first, terms.var, given, MAX_MEMORY))
            rows = np.flatnonzero(group.ravel() == number)
            states = np.zeros((len(rows), len(cards)), np.int64)
            states[:, known] = self.codes[rows][:, known]
            free = np.isin(np.arange(len(cards)), given, invert=True)
            base, size, offset = _agreeing_cells(terms, cards, free, states)
            self.groups.append(
                _Group(plan, rows, np.ascontiguousarray(states[:, given]), base, size, offset)
            )

    def expect(
        self, values: FloatArray, weights: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the sum of the log-sums of all rows, and the expected counts of cells and features.

        Parameters
        ----------
        values, weights : arrays of float
            The log-values of all tables, and the weights of the features that are in no table.
        """
        total, shares, means = 0.0, np.zeros(len(values)), np.zeros(len(weights))
        own = self._shares  # zeros, apart from the cells that agree with one row at a time
        for group in self.groups:
            for row, given, base in zip(group.rows, group.given, group.base, strict=True):
                weight = float(self.weights[row])
                log_sum, _, own_means = group.plan.expect(given, values, weights, own)
                total += weight * log_sum
                cells = np.repeat(base, group.size) + group.offset
                shares[cells] += weight * own[cells]
                own[cells] = 0.0
                means += weight * own_means
        return total, shares, means


class _Group(NamedTuple):
    """Rows that lack the same columns.

    Attributes
    ----------
    plan : Plan
        Exact inference in which the other columns are evidence.
    rows : array of int
        The rows.
    given : array of int, shape (rows, slots)
        Their evidence.
    base : array of int, shape (rows, tables)
        The first cell of each table that agrees with a row.
    size : array of int, shape (tables,)
        The number of cells of each table that agree with a row.
    offset : array of int
        Where these are, relative to the first one; those of all tables one after another.
    """

    plan: Plan
    rows: IntArray
    given: IntArray
    base: IntArray
    size: IntArray
    offset: IntArray


def _agreeing_cells(
    terms: Terms, cards: IntArray, free: BoolArray, states: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the cells of all tables that agree with rows that lack the same columns (see `_Group`)."""
    base = np.tile(terms.bases, (len(states), 1))
    offsets = []
    for table in range(len(terms.bases)):
        some = slice(terms.first[table], terms.first[table + 1])
        columns, strides = terms.var[some], terms.arg[some]
        fixed = ~free[columns]
        base[:, table] += states[:, columns[fixed]] @ strides[fixed]
        offset = np.zeros(1, np.int64)
        for column, stride in zip(columns[~fixed], strides[~fixed], strict=True):
            offset = (offset[:, None] + stride * np.arange(cards[column])).ravel()
        offsets.append(offset)
    size = np.array([len(offset) for offset in offsets], np.int64)
    return base, size, np.concatenate([np.zeros(0, np.int64), *offsets])


class MarginalLikelihood:
    """Value and gradient of the log-likelihood of a table, missing values summed out.

    It has the methods of `CompleteLikelihood`, which it is for complete rows.

    Parameters
    ----------
    features : Features
        The features whose weights are learned; weights of -inf stay fixed.
    table : Table
        The rows.
    expect : Expectations, optional
        The expectations of the same features, to be reused.
    """

    def __init__(
        self, features: Features, table: Table, expect: Expectations | None = None
    ) -> None:
        whole = ~incomplete(table)
        weights = None if table.weights is None else table.weights[whole]
        complete = Table.adopt(table.domain, table.codes[whole], weights)
        self.complete = CompleteLikelihood(features, complete, expect)
        self.expect, self.free = self.complete.expect, self.complete.free
        self.rows = IncompleteRows(self.expect.plan.terms, table.domain.cards, table)
        self.weight = self.complete.weight + self.rows.weight
        self.start = features.weights
        if not self.free.all() and not np.isfinite(self._known(self.start)[0]):
            raise impossible_row()

    def value(self, weights: FloatArray) -> float:
        """Return the log-likelihood."""
        return self.value_and_gradient(weights)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its gradient, which is 0 for fixed weights."""
        value, gradient = self.complete.value_and_gradient(weights)
        log_z, means = self.expect(weights)
        log_sum, sums = self._known(weights)
        value += log_sum - self.rows.weight * log_z
        return value, gradient + np.where(self.free, sums - self.rows.weight * means, 0.0)

    def _known(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-sums of the incomplete rows, and the expected sum of each feature."""
        matrix, outside = self.expect.tables.matrix, self.expect.outside
        log_sum, shares, means = self.rows.expect(matrix @ weights, weights[outside])
        sums = matrix.T @ shares
        sums[outside] = means
        return log_sum, sums

    def curvature(self) -> FloatArray:
        """Return an approximate Hessian diagonal: the variance of each feature in the rows."""
        share = (self.complete.sums + self._known(self.start)[1]) / self.weight
        return self.weight * np.maximum(share * (1 - share), MIN_VARIANCE)


class MarginalModel(HiddenModel):
    """A hidden column over rows that lack values, which are summed out like the column.

    `model`: the hidden column for complete rows. `table`: rows, those that lack values among them.
    """

    def __init__(self, model: HiddenModel, table: Table) -> None:
        super().__init__(model.tables, model.priors)
        cards = np.append(model.tables.network.domain.cards, model.tables.states)
        self.lacking = IncompleteRows(model.tables.plan.terms, cards, table)

    def _known(self, p: Parameters, log_z: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the log-likelihood of the rows that lack values, and their expected counts.

        The counts are those of the features, by hidden state, and of the hidden states.
        """
        tables = self.tables
        values = (tables.matrix @ self.weights(p).T).ravel()
        prior = p.log_probabilities - log_z
        total, shares, _ = self.lacking.expect(np.append(values, prior), np.zeros(0))
        counts = shares[: len(values)].reshape(-1, tables.states)
        return total, (tables.transposed @ counts).T, shares[len(values) :]

    def value_and_gradient(
        self, rows: HiddenRows, p: Parameters, log_z: FloatArray, means: FloatArray
    ) -> tuple[float, Parameters]:
        """Return the log-likelihood of complete rows and of those that lack values, and its gradient."""
        value, complete = super().value_and_gradient(rows, p, log_z, means)
        total, held, count = self._known(p, log_z)
        excess = held - count[:, None] * means
        own = excess[:, self.tables.single] @ self.tables.along_order
        shares = count - count.sum() * np.exp(p.log_probabilities)
        lacking = Parameters(
            excess.sum(axis=0), excess @ self._mapping(p).T, p.points.T @ own,
            p.points.T @ excess[:, self.longer], own, shares,
        )  # fmt: skip
        return value + total, p.like(complete.flat() + lacking.flat())

    def curvature(self, p: Parameters, log_z: FloatArray, rows: HiddenRows) -> Parameters:
        """Return an approximate Hessian diagonal, from the expected counts of all rows."""
        expected = self._known(p, log_z)[1].sum(axis=0)
        return self._curvature(p, rows.count + self.lacking.weight, rows.sums + expected)
