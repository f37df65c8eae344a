"""What a report is about: a model of any kind and, perhaps, tables, seen in one way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.discretizer import Discretizer
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.table import Table
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.number_distribution import NumberDistribution, NumberDistributions
from conjoin.inference.sampling import sample
from conjoin.models.mixed import MixedNetwork
from conjoin.models.network import Network
from conjoin.reports.associations import Associations, PairJoints, counted_joints, joints_of

DRAWS = 5_000
"""Number of rows that are drawn from a model with numbers to measure what goes together."""

BINS = "quantile:5"
"""How numbers are cut into bins to measure what they share with other columns."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and the tables that it is compared with.

    Attributes
    ----------
    model : Network or MixedNetwork
        The model.
    train, test : MixedTable, optional
        Rows that it was learned from, and rows that it has not seen.
    """

    model: Network | MixedNetwork
    train: MixedTable | None
    test: MixedTable | None

    @classmethod
    def of(cls, model: Any, train: Any, test: Any) -> Subject:
        """Return the subject of a report on a model, or on a fitted `JointModel`, which takes frames.

        Tables of a network of states may be of either kind.
        """
        tables = [train, test]
        if hasattr(model, "model_"):
            tables = [None if t is None else model.coded(t) for t in tables]
            model = model.model_
        return cls(model, *(None if t is None else _rows(model, t) for t in tables))

    @cached_property
    def domain(self) -> MixedDomain:
        """The visible columns."""
        return columns_of_model(self.model)

    @property
    def names(self) -> tuple[str, ...]:
        """The visible columns, in the order of the table."""
        return self.domain.names

    @cached_property
    def drawn(self) -> MixedTable:
        """Rows that are drawn from the model."""
        if isinstance(self.model, MixedNetwork):
            return MixedAnswers(self.model, _unknown(self.domain, DRAWS)).draws(1)[0]
        return _rows(self.model, sample(self.model, DRAWS))

    @cached_property
    def joints(self) -> PairJoints:
        """The model's joint distributions of all pairs of columns; numbers are cut into bins."""
        if not isinstance(self.model, MixedNetwork):
            return joints_of(self.model)
        return counted_joints(self.drawn.binned(dict.fromkeys(self.domain.numeric, BINS)))

    @cached_property
    def table_joints(self) -> PairJoints | None:
        """The same of the training table (or of the test table, if it is the only one)."""
        rows = self.rows
        if rows is None:
            return None
        if not rows.scales:
            return counted_joints(rows.categories)
        cut = Discretizer.of(self.joints.domain).apply(rows.as_states())
        return counted_joints(cut.over(self.joints.domain))

    @property
    def rows(self) -> MixedTable | None:
        """The table to describe: the training rows, or those of the test if these are all there are."""
        return self.test if self.train is None else self.train

    @property
    def associations(self) -> Associations:
        """What any two columns share in the model."""
        return self.joints.associations

    def number(self, name: str) -> NumberDistribution:
        """Return the model's distribution of a number."""
        return self.number_rows(name)[0]

    def number_rows(self, name: str) -> NumberDistributions:
        """Return the same as distributions of a single row."""
        assert isinstance(self.model, MixedNetwork)
        return MixedAnswers(self.model, _unknown(self.domain, 1)).number(name)

    def states(self, name: str, rows: MixedTable) -> FloatArray:
        """Return the distribution of a column of states given the rest of complete rows."""
        if isinstance(self.model, MixedNetwork):
            return MixedAnswers(self.model, rows).category(name)
        return self.model.conditional(name, rows.categories)

    def means(self, name: str, rows: MixedTable) -> FloatArray:
        """Return the mean of a number given the rest of each row."""
        assert isinstance(self.model, MixedNetwork)
        return MixedAnswers(self.model, rows).number(name).mean()

    @property
    def hidden_states(self) -> list[int]:
        """The numbers of states of the hidden columns of a network."""
        if isinstance(self.model, MixedNetwork):
            return []
        return self.model.domain.cards[self.model.domain.hidden].tolist()


def columns_of_model(model: Network | MixedNetwork) -> MixedDomain:
    """Return the visible columns of a model."""
    if isinstance(model, MixedNetwork):
        return model.domain
    shown = model.domain.observed
    return MixedDomain(shown, (), shown.names)


def _rows(model: Network | MixedNetwork, table: Table | MixedTable) -> MixedTable:
    """Return a table over the columns of a model."""
    domain = columns_of_model(model)
    if isinstance(table, MixedTable):
        if isinstance(model, MixedNetwork):
            model.check(table)
            numbers = [table.column(name) for name in domain.numeric]
            return MixedTable(
                domain, table.categories.over(domain.categories), np.stack(numbers, axis=1)
            )
        table = table.categories
    return MixedTable(domain, table.over(domain.categories), np.empty((len(table), 0)))


def _unknown(domain: MixedDomain, count: int) -> MixedTable:
    """Return rows that know nothing."""
    none = np.full((count, len(domain.categories)), -1, np.int64)
    return MixedTable(
        domain, Table(domain.categories, none), np.full((count, len(domain.scales)), np.nan)
    )


def evenly(count: int, most: int) -> IntArray:
    """Return evenly spaced positions of at most a number of rows."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)
