"""Tables with missing values: marginals, modes, draws and log-probabilities, row by row.

Most rows of a table have their own missing values, so a plan per set of missing variables would not pay
off. Instead, a kernel puts the known values of a row into the features and answers each component of the
free variables exactly if its tables are small; other components are sampled. Equal rows are answered
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, Table, code_dtype, with_hidden
from conjoin.errors import ModelError
from conjoin.inference.plan import MAX_VARIABLES, Order, find_order
from conjoin.inference.terms import as_markov_network
from conjoin.kernels.elimination_layouts import (
    MARGINALS,
    MAXIMUM,
    SUM,
    RowFeatures,
    SamplingSettings,
)
from conjoin.kernels.layouts import packed
from conjoin.models.feature_tables import literals
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.network import Network
from conjoin.progress import progress

MAX_CELLS = 1 << 17
"""Components of rows are answered exactly if their tables have at most this number of cells."""

MAX_NETWORK_CELLS = 1 << 19
"""All rows are answered exactly if the tables of the network have at most this number of cells."""

BLOCK_ROWS = 1 << 10
"""Number of rows that are passed to the kernel at a time."""

DRAWS = 3
"""The mode of the kernel for draws."""

MISSING = np.uint16(np.iinfo(np.uint16).max)


@dataclass(eq=False)
class Answers:
    """The answers for some rows.

    Attributes
    ----------
    rows : array of int
        The positions of the rows among the distinct rows.
    log_sum : array of float
        Log of the summed potentials of the instances that agree with a row; NaN if not known.
    marginals : array of float
        The probabilities of all states of all variables, side by side.
    filled : array of codes, shape (rows, draws, variables)
        Modes or draws.
    exact : array of bool
        Which rows were not sampled.
    """

    rows: IntArray
    log_sum: FloatArray
    marginals: FloatArray
    filled: Codes
    exact: BoolArray


class PreparedRows:
    """A network prepared for rows with missing values."""

    def __init__(self, model: Network) -> None:
        self.form: LogLinearForm = as_markov_network(model).form
        self.has_off_values = bool(self.form.features.soft_rows().any())

    @cached_property
    def order(self) -> Order | None:
        """An elimination order of the network without evidence, if its tables are small."""
        features, cards = self.form.features, self.form.domain.cards
        if len(cards) > MAX_VARIABLES:
            return None
        scopes = (packed(features.indptr, np.int64), packed(features.entry_var, np.int64))
        single = np.flatnonzero(cards == 1)
        found = find_order(cards, *scopes, single, 8.0 * MAX_NETWORK_CELLS)
        return found if found.total <= MAX_NETWORK_CELLS else None

    def about(self, variables: BoolArray) -> RowFeatures:
        """Return the features that test some of these variables, or are hard constraints."""
        features = self.form.features
        touched = self.form.hard.copy()
        touched[features.entry_feature[variables[features.entry_var]]] = True
        return row_features(features.select(np.flatnonzero(touched)))

    def finite(self, features: RowFeatures) -> RowFeatures:
        """Return the features with finite weights in place of -inf."""
        weight = np.maximum(features.weight, self.form.overwhelming_weight)
        return features._replace(weight=weight)


_prepared: WeakKeyDictionary[Network, PreparedRows] = WeakKeyDictionary()


def prepared(model: Network) -> PreparedRows:
    """Return a network prepared for rows; it is prepared once."""
    found = _prepared.get(model)
    if found is None:
        found = _prepared[model] = PreparedRows(model)
    return found


class Completion:
    """Answers for the rows of one table.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    codes : array of codes
        The rows; a code that is not a state is a missing value. Hidden variables may be left out, and
        are left out of completed rows.
    random_state : int
        The seed. The draws for a row depend on it and on the row, not on the row's position.
    max_cells : int
        Components whose tables have more cells are sampled.
    max_network_cells : int
        All rows are answered exactly if the tables of the network, without evidence, have at most this
        number of cells.
    settings : SamplingSettings, optional
        How components are sampled.
    """

    def __init__(
        self,
        model: Network,
        codes: Codes,
        random_state: int = 0,
        *,
        max_cells: int = MAX_CELLS,
        max_network_cells: int = MAX_NETWORK_CELLS,
        settings: SamplingSettings | None = None,
    ) -> None:
        self.model, self.domain = model, model.domain
        self.prepared = prepared(model)
        self.shown = slice(len(self.domain.observed))
        self.max_cells, self.max_network_cells = max_cells, max_network_cells
        self.settings = SamplingSettings() if settings is None else settings
        cards = self.domain.cards
        rows = np.where(cards == 1, 0, with_hidden(self.domain, codes)).astype(np.uint16)
        rows = np.where(rows >= cards, MISSING, rows)
        self.first, self.inverse = distinct_rows(rows)
        self.rows = np.ascontiguousarray(rows[self.first])
        self.free: BoolArray = self.rows >= cards
        self.counters = _hashes(self.rows, random_state)
        self.state_first = (np.cumsum(cards) - cards).astype(np.int64)

    def log_sums(self) -> tuple[FloatArray, BoolArray]:
        """Return the log of the summed potentials that agree with each row, and which are exact."""
        from conjoin.inference.engines import log_partition

        result, exact = np.empty(len(self.rows)), np.ones(len(self.rows), bool)
        for block in self._answers(SUM, np.arange(len(self.rows))):
            result[block.rows] = block.log_sum
            exact[block.rows] = block.exact
        for r in np.flatnonzero(~exact):
            known = np.flatnonzero(~self.free[r])
            given = {
                self.domain.names[v]: self.domain.variables[v].states[self.rows[r, v]]
                for v in known.tolist()
            }
            result[r] = log_partition(
                self.model, given, method="ais", random_state=int(self.counters[r])
            ).value
        return result[self.inverse], exact[self.inverse]

    def marginals(self, target: int) -> tuple[FloatArray, BoolArray]:
        """Return the distribution of a variable in each row, and which are exact."""
        card, low = int(self.domain.cards[target]), self.state_first[target]
        result = np.zeros((len(self.rows), card))
        exact = np.ones(len(self.rows), bool)
        wanted = np.zeros(len(self.domain), bool)
        wanted[target] = True
        hidden = self.free[:, target]
        known = np.flatnonzero(~hidden)
        result[known, self.rows[known, target]] = 1.0
        for block in self._answers(MARGINALS, np.flatnonzero(hidden), wanted=wanted):
            result[block.rows] = block.marginals[:, low : low + card]
            exact[block.rows] = block.exact
        return result[self.inverse], exact[self.inverse]

    def likely(self) -> tuple[Codes, BoolArray]:
        """Return the rows with each missing value replaced by its own most probable state."""
        result = self.rows.copy()
        exact = np.ones(len(self.rows), bool)
        for block in self._answers(MARGINALS, self._incomplete()):
            for v, card in enumerate(self.domain.cards.tolist()):
                low = self.state_first[v]
                best = block.marginals[:, low : low + card].argmax(axis=1)
                hole = self.free[block.rows, v]
                result[block.rows[hole], v] = best[hole]
            exact[block.rows] = block.exact
        return self._full(result)[self.inverse][:, self.shown], exact[self.inverse]

    def modes(self) -> tuple[Codes, BoolArray]:
        """Return the most probable completion of each row, and which are exact."""
        filled, exact = self._filled(MAXIMUM, np.arange(len(self.rows)), 1)
        return filled[:, 0][self.inverse][:, self.shown], exact[self.inverse]

    def draws(self, count: int) -> Codes:
        """Return completions drawn from the distribution given each row: draws by rows by variables.

        Equal rows have their own draws.
        """
        repeats = np.bincount(self.inverse, minlength=len(self.rows))
        order = np.argsort(self.inverse, kind="stable")
        rank = np.empty(len(order), np.int64)
        starts = np.cumsum(repeats) - repeats
        rank[order] = np.arange(len(order)) - starts[self.inverse[order]]
        incomplete = self._incomplete()
        result = self._full(self.rows)[self.inverse][None].repeat(count, axis=0)
        room = 1 << np.ceil(np.log2(repeats)).astype(np.int64)
        for size in np.unique(room[incomplete]).tolist():
            # Rows that occur about equally often are drawn for together.
            chosen = incomplete[room[incomplete] == size]
            filled, _ = self._filled(DRAWS, chosen, count * size)
            back = np.full(len(self.rows), -1, np.int64)
            back[chosen] = np.arange(len(chosen))
            at = np.flatnonzero(back[self.inverse] >= 0)
            for d in range(count):
                result[d, at] = filled[back[self.inverse[at]], d * size + rank[at]]
        return result[:, :, self.shown]

    def _incomplete(self) -> IntArray:
        return np.flatnonzero(self.free.any(axis=1))

    def _full(self, rows: Codes) -> Codes:
        return rows.astype(code_dtype(self.domain.cards))

    def _filled(self, mode: int, chosen: IntArray, count: int) -> tuple[Codes, BoolArray]:
        """Return some rows, each completed several times, and which are exact."""
        result = self._full(self.rows[chosen])[:, None].repeat(count, axis=1)
        exact = np.ones(len(chosen), bool)
        place = np.empty(len(self.rows), np.int64)
        place[chosen] = np.arange(len(chosen))
        todo = chosen[self.free[chosen].any(axis=1)]
        for block in self._answers(mode, todo, count):
            result[place[block.rows]] = block.filled
            exact[place[block.rows]] = block.exact
        return result, exact

    def _limits(self, mode: int) -> tuple[int, IntArray]:
        """Return the maximum number of cells, and an order for components that exceed it."""
        order = self.prepared.order
        if order is not None and order.total <= self.max_network_cells:
            return self.max_cells, order.ranks()
        limit = self.max_cells
        if mode == SUM or self.prepared.has_off_values:  # sampling is no alternative
            limit = max(limit, self.max_network_cells)
        return limit, np.zeros(0, np.int64)

    def _answers(
        self, mode: int, todo: IntArray, count: int = 1, wanted: BoolArray | None = None
    ) -> Iterator[Answers]:
        """Answer rows, block by block; in mode SUM, rows that are too large stay open."""
        if not len(todo):
            return
        everything = np.ones(len(self.domain), bool)
        # A sum needs all features; otherwise only those that test a free variable matter.
        variables: Any = everything if mode == SUM else self.free[todo].any(axis=0)
        features = self.prepared.about(variables)
        limits = self._limits(mode)
        asked = everything if wanted is None else wanted
        size = max(1, min(BLOCK_ROWS, (1 << 24) // max(1, count * len(self.domain))))
        for low in progress(range(0, len(todo), size), "completing rows"):
            block = self._room(todo[low : low + size], mode, count)
            left = self._eliminate(block, mode, asked, features, limits)
            block.exact[left.any(axis=1)] = False
            if mode != SUM and not block.exact.all():
                self._sample(block, mode, features, left)
            yield block

    def _room(self, rows: IntArray, mode: int, count: int) -> Answers:
        width = int(self.domain.cards.sum()) if mode == MARGINALS else 0
        draws = count if mode in (MAXIMUM, DRAWS) else 0
        return Answers(
            rows,
            np.full(len(rows), np.nan),
            np.zeros((len(rows), width)),
            np.repeat(self.rows[rows][:, None], draws, axis=1),
            np.ones(len(rows), bool),
        )

    def _eliminate(
        self,
        block: Answers,
        mode: int,
        wanted: BoolArray,
        features: RowFeatures,
        limits: tuple[int, IntArray],
    ) -> BoolArray:
        """Answer rows exactly; return the variables of components that are too large, by row."""
        from conjoin.kernels.row_elimination import IMPOSSIBLE, answer_rows

        status = np.zeros(len(block.rows), np.int8)
        left = np.zeros((len(block.rows), len(self.domain)), bool)
        answer_rows(
            mode, self.rows[block.rows], self.counters[block.rows], wanted, features, *limits,
            status, left, block.log_sum, block.marginals, block.filled,
        )  # fmt: skip
        block.log_sum += self.prepared.form.constant
        wrong = np.flatnonzero(status == IMPOSSIBLE)
        if len(wrong):
            number = int(self.first[block.rows[wrong]].min()) + 1
            raise ModelError(
                f"row {number} is impossible: the model gives its known values probability 0"
            )
        return left

    def _sample(self, block: Answers, mode: int, features: RowFeatures, left: BoolArray) -> None:
        """Sample the components that are too large."""
        from conjoin.kernels.row_sampling import sample_rows

        if self.prepared.has_off_values:
            raise ModelError(
                "rows with this many missing values cannot be completed with features that have "
                'off values; convert with orders="rotations", or give more values'
            )
        which = np.flatnonzero(~block.exact)
        rows, marginals, filled = block.rows[which], block.marginals[which], block.filled[which]
        sample_rows(
            mode, self.rows[rows], self.counters[rows], self.prepared.finite(features),
            left[which], self.settings, marginals, filled,
        )  # fmt: skip
        block.marginals[which], block.filled[which] = marginals, filled


def completed(model: Network, table: Table, random_state: int = 0) -> Table:
    """Return a table with its missing values drawn from a model, as in Monte Carlo EM."""
    table = table.over(model.domain.observed)
    if not (table.codes == table.missing).any():
        return table
    codes = Completion(model, table.codes, random_state).draws(1)[0]
    return Table.adopt(table.domain, codes, table.weights)


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


def _hashes(rows: Codes, random_state: int) -> Any:
    """Return 64 bits for each row, from its codes and the seed."""
    rng = np.random.default_rng(random_state)
    odd = rng.integers(0, 2**63, (2, rows.shape[1] + 1), dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    mixed = rows.astype(np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = mixed * odd[0, 1:]
        mixed = (mixed ^ (mixed >> np.uint64(29))) * odd[1, 1:]
        total = mixed.sum(axis=1, dtype=np.uint64) + odd[0, 0]
        return (total ^ (total >> np.uint64(32))) * odd[1, 0]
