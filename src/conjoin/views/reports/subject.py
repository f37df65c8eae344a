"""What a report is about: a model and, perhaps, tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from conjoin.conversion.closed_form import convert
from conjoin.data.arrays import IntArray
from conjoin.data.domain import Domain
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Table
from conjoin.inference.engines import marginals
from conjoin.inference.number_distribution import NumberDistribution, NumberDistributions
from conjoin.inference.sampling import sample
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network
from conjoin.views.reports.associations import PairJoints, counted_joints, joints_of

MAX_PATTERNS = 6
"""Maximum number of patterns of missing values that are listed."""

DRAWS = 5_000
"""Number of rows that are drawn from a model with numbers for the means of these."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and the tables that it is compared with."""

    model: Network
    train: Table | None  # rows that it was learned from
    test: Table | None  # rows that it has not seen

    @classmethod
    def of(cls, model: Any, train: Any, test: Any) -> Subject:
        """Return the subject of a report on a model, or on a fitted `JointModel`, which takes frames."""
        tables = [train, test]
        if hasattr(model, "model_"):
            tables = [None if t is None else model.encoding_.table(t) for t in tables]
            model = model.model_
        given = [None if t is None else t.over(model.domain.observed) for t in tables]
        if any(t is not None and t.numbers is None for t in given):
            given = [None if t is None else Table(t.domain, t.codes, t.weights) for t in given]
        return cls(model, *given)

    @property
    def domain(self) -> Domain:
        """The visible columns."""
        return self.model.domain.observed

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in the order of the table."""
        return self.domain.names

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of numbers; those of which a table has only the states are like any others."""
        return self.domain.numeric if self.rows is None or self.rows.numbers is not None else ()

    @property
    def rows(self) -> Table | None:
        """The table to describe: the training rows, or those of the test if these are all there are."""
        return self.test if self.train is None else self.train

    @cached_property
    def drawn(self) -> Table:
        """Rows that are drawn from the model."""
        rows: Table = sample(self.model, DRAWS)
        return rows

    @cached_property
    def joints(self) -> PairJoints:
        """The model's joint distributions of the states of all pairs of columns."""
        return joints_of(self.model)

    @cached_property
    def table_joints(self) -> PairJoints | None:
        """The same of the table."""
        return None if self.rows is None else counted_joints(self.rows)

    def number(self, name: str) -> NumberDistribution:
        """Return the model's distribution of a number."""
        if self.joints.exact:
            found: NumberDistribution = marginals(self.model)[name]
            return found
        p = self.joints.single(self.domain.index(name))
        return NumberDistributions.of_states(self.domain.numbers(name), p[None])[0]

    @property
    def hidden_states(self) -> list[int]:
        """The numbers of states of the hidden columns."""
        return self.model.domain.cards[self.model.domain.hidden].tolist()


def answering(model: Network, rows: Table) -> Network:
    """Return the model; if it is conditionals, and values are missing, the joint that sums them out."""
    if isinstance(model, DependencyNetwork) and not rows.complete:
        return convert(model, rows)
    return model


def evenly(count: int, most: int) -> IntArray:
    """Return evenly spaced positions of at most a number of rows."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)


def value_text(rows: Table, row: int, v: int) -> str:
    """Return a value of a table as text."""
    variable = rows.domain.variables[v]
    if rows.holes[row, v]:
        return "missing"
    if rows.numbers is not None and variable.numbers is not None:
        x = float(rows.column(variable.name)[row])
        if not np.isnan(x):
            return variable.numbers.scale.text(x)
    return str(variable.states[rows.codes[row, v]])


def missing_patterns(rows: Table) -> list[tuple[int, list[str]]]:
    """Return how many rows lack just the same columns, and which, the most frequent patterns first."""
    some = np.flatnonzero(rows.holes.any(axis=1))
    first, number = distinct_rows(np.ascontiguousarray(rows.holes[some]).view(np.uint8))
    sizes: IntArray = np.bincount(number, minlength=len(first))
    order = np.argsort(-sizes, kind="stable")[:MAX_PATTERNS]
    names = np.array(rows.domain.names, dtype=object)
    return [(int(sizes[k]), list(names[rows.holes[some[first[k]]]])) for k in order.tolist()]
