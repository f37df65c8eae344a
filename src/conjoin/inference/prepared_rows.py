"""A network prepared for the rows of tables: plans for all rows, and features that each row reduces."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.inference.compilation import compiled
from conjoin.inference.plan import MAX_VARIABLES, Order, Plan, find_order
from conjoin.inference.terms import as_markov_network, terms_of
from conjoin.kernels.elimination_layouts import Terms
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.network import Network

MAX_NETWORK_CELLS, MAX_TABLE_CELLS = 1 << 19, 1 << 24
"""Rows are answered on the network's own junction tree if it has at most this number of cells; the second
number is for networks of tables, which would be many features."""

CELLS_PER_VALUE = 4
"""It may also have this number of cells for each value in the tables of the network itself."""

MAX_PLANS = 64
"""Maximum number of plans kept per network."""


class PreparedRows:
    """A network prepared for rows with missing values."""

    def __init__(self, model: Network) -> None:
        self.model = copy(as_markov_network(model))  # `_prepared` must not keep the network alive
        self.compiled = compiled(model)
        self.plans: dict[bytes, Plan] = {}

    @cached_property
    def form(self) -> LogLinearForm:
        """All terms as features."""
        return self.model.form

    @cached_property
    def n_values(self) -> int:
        """The number of values in the tables of the network."""
        return sum(table.table.size for table in self.compiled.parts[0])

    @property
    def max_cells(self) -> int:
        """Maximum number of cells of the junction tree."""
        fixed = MAX_TABLE_CELLS if self.has_large_tables else MAX_NETWORK_CELLS
        return max(fixed, CELLS_PER_VALUE * self.n_values)

    @cached_property
    def order(self) -> Order | None:
        """An elimination order of the network without evidence, if its tables are small."""
        if len(self.model.domain) > MAX_VARIABLES:
            return None
        order = self._find_order(self.compiled.single)
        return order if order.total <= self.max_cells else None

    def _find_order(self, given: IntArray) -> Order:
        terms = self.compiled.terms
        return find_order(
            self.model.domain.cards, terms.first, terms.var, given, 8.0 * self.max_cells
        )

    @cached_property
    def has_large_tables(self) -> bool:
        """Whether the network has more values in tables than features."""
        return self.n_values > len(self.compiled.parts[1])

    def plan(self, hidden: BoolArray | None = None, everything: bool = True) -> Plan:
        """Return a plan for rows in which at most some variables are missing, by default all.

        `everything`: whether terms of the other variables count; hard constraints always do.
        """
        assert self.order is not None
        if hidden is None:
            hidden = np.ones(len(self.model.domain), bool)
        key = np.append(hidden, everything).tobytes()
        plan = self.plans.get(key)
        if plan is None:
            given = np.flatnonzero(~hidden | (self.model.domain.cards == 1))
            order = self.order if hidden.all() else self._find_order(given)
            terms = self.compiled.terms
            if len(self.plans) >= MAX_PLANS:
                self.plans.clear()
            used = None if everything else _about(terms, hidden)
            plan = self.plans[key] = Plan(terms, order, used)
        return plan

    def about(self, variables: BoolArray) -> Terms:
        """Return the features that test some of these variables, or are hard constraints."""
        features = self.form.features
        touched = self.form.hard.copy()
        touched[features.entry_feature[variables[features.entry_var]]] = True
        return terms_of((), features.select(np.flatnonzero(touched)))


_prepared: WeakKeyDictionary[Network, PreparedRows] = WeakKeyDictionary()


def prepared(model: Network) -> PreparedRows:
    """Return a network prepared for rows; it is prepared once."""
    ready = _prepared.get(model)
    if ready is None:
        ready = _prepared[model] = PreparedRows(model)
    return ready


def _about(terms: Terms, hidden: BoolArray) -> BoolArray:
    """Return which terms have some of these variables, or are hard constraints."""
    count, n_tables = len(terms.first) - 1, len(terms.bases)
    term = np.repeat(np.arange(count), np.diff(terms.first))
    used = np.zeros(count, bool)
    used[term[hidden[terms.var]]] = True
    if n_tables:
        used[:n_tables] |= np.minimum.reduceat(terms.values, terms.bases) == -np.inf
    used[n_tables:] |= terms.weights == -np.inf
    return used
