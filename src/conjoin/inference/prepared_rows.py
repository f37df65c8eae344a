"""A network prepared for the rows of tables: plans for all rows, and features that each row reduces."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.inference.compilation import compiled
from conjoin.inference.plan import MAX_VARIABLES, Order, Plan, find_order
from conjoin.inference.terms import as_markov_network
from conjoin.kernels.elimination_layouts import RowFeatures, Terms
from conjoin.kernels.layouts import packed
from conjoin.models.feature_tables import literals
from conjoin.models.features import Features
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
        found = self._find_order(self.compiled.single)
        return found if found.total <= self.max_cells else None

    def _find_order(self, given: IntArray) -> Order:
        return find_order(
            self.model.domain.cards, *self.compiled.scopes, given, 8.0 * self.max_cells
        )

    @cached_property
    def has_large_tables(self) -> bool:
        """Whether the network has more values in tables than features."""
        return self.n_values > len(self.compiled.parts[1])

    def plan(self, hidden: BoolArray | None = None, everything: bool = True) -> Plan:
        """Return a plan for rows in which at most some variables are missing, by default all.

        Parameters
        ----------
        hidden : array of bool, optional
            The variables that are missing in some row.
        everything : bool
            Whether terms of the other variables count; hard constraints always do.
        """
        assert self.order is not None
        if hidden is None:
            hidden = np.ones(len(self.model.domain), bool)
        key = np.append(hidden, everything).tobytes()
        found = self.plans.get(key)
        if found is None:
            given = np.flatnonzero(~hidden | (self.model.domain.cards == 1))
            order = self.order if hidden.all() else self._find_order(given)
            terms = self.compiled.terms
            if len(self.plans) >= MAX_PLANS:
                self.plans.clear()
            used = None if everything else _about(terms, hidden)
            found = self.plans[key] = Plan(terms, order, used)
        return found

    def about(self, variables: BoolArray) -> RowFeatures:
        """Return the features that test some of these variables, or are hard constraints."""
        features = self.form.features
        touched = self.form.hard.copy()
        touched[features.entry_feature[variables[features.entry_var]]] = True
        return row_features(features.select(np.flatnonzero(touched)))


_prepared: WeakKeyDictionary[Network, PreparedRows] = WeakKeyDictionary()


def prepared(model: Network) -> PreparedRows:
    """Return a network prepared for rows; it is prepared once."""
    found = _prepared.get(model)
    if found is None:
        found = _prepared[model] = PreparedRows(model)
    return found


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


def row_features(features: Features) -> RowFeatures:
    """Sort features by their literals, so that those with a common prefix are skipped together."""
    cards = features.tests.cards
    numbers, starts, entry = literals(features)
    lengths, features_of = features.lengths, features.entry_feature
    column = np.arange(len(entry)) - features.indptr[:-1][features_of]
    padded = np.full((len(features), int(lengths.max(initial=1))), -1, np.int64)
    padded[features_of, column] = entry
    order = np.lexsort(padded.T[::-1])
    padded = padded[order]
    var = np.zeros(len(starts) - 1, np.int64)
    var[entry] = features.entry_var
    return RowFeatures(
        cards=packed(cards, np.int64),
        state_first=packed(np.cumsum(cards) - cards, np.int64),
        first=packed(np.concatenate([[0], np.cumsum(lengths[order])]), np.int64),
        literal=packed(padded[padded >= 0], np.int64),
        skip=packed(_skips(padded)[padded >= 0], np.int64),
        weight=packed(features.weights[order], np.float64),
        literal_var=packed(var, np.int64),
        literal_first=packed(starts[:-1], np.int64),
        numbers=packed(numbers, np.float64),
    )


def _skips(literal: IntArray) -> IntArray:
    """Return, for each literal of sorted features, the next feature without the same prefix."""
    skip = np.empty_like(literal)
    differs = np.ones(len(literal), bool)  # from the next feature, in the literals so far
    differs[:-1] = False
    numbers = np.arange(1, len(literal) + 1)
    for k in range(literal.shape[1]):
        differs[:-1] |= literal[1:, k] != literal[:-1, k]
        ends = np.where(differs, numbers, len(literal))
        skip[:, k] = np.minimum.accumulate(ends[::-1])[::-1]
    return skip
