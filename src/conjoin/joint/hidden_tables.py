"""The tables of a thin network with a hidden column, and the rows that it is learned from.

Given each state of the hidden column, the other columns follow a thin network with weights of their own.
`HiddenTables` gives the expectations of all features for all hidden states in one pass of exact
inference. `HiddenRows` says which features hold in which rows, as matrices that are quick to multiply.
Mixtures over the same tables become one network with one hidden column (`stacked`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, Int32Array, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Codes
from conjoin.inference.plan import MAX_MEMORY, Plan, find_order
from conjoin.inference.terms import terms_of
from conjoin.joint.expectations import Expectations
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor

SMALLEST_SHARE = 1e-250
"""Hidden states below this probability are rescaled before their expectations are read off."""

ROWS_AT_ONCE = 1 << 10
"""Number of rows whose scores (rows by hidden states) are computed at a time: they stay in the cache."""

SMOOTH, REACH = 0.9, 0.25
"""The share of the variance of effects that states of a number have in common with nearby ones, and the
distance at which this falls to 1/e, as a share of its states."""

KEPT_VALUES = 1 << 24
"""The matrices of more values than this (rows times columns) are made for some rows at a time."""

DENSE_SHARE = 0.2
"""Products of a matrix with a larger share of nonzero elements are faster if it is dense."""


class HiddenTables:
    """A thin network with a hidden column, as tables over its columns and the hidden one.

    `network`: the thin network, over features; every state of every column has a feature of its
    own.
    """

    def __init__(self, network: MarkovNetwork, states: int) -> None:
        self.network, self.states = network, states
        features = network.features
        self.features = features.select(np.flatnonzero(features.lengths > 0))
        self.base = Expectations(self.features, max_table=MAX_MEMORY)
        self.tables = self.base.tables
        self.matrix = self.tables.matrix
        self.transposed = self.matrix.T.tocsr()
        hidden = len(network.domain)
        cards = np.append(network.domain.cards, states)
        axes = zip(self.tables.scopes, self.tables.shapes, strict=True)
        empty = [TableFactor((*scope, hidden), np.zeros((*shape, states))) for scope, shape in axes]
        empty.append(TableFactor((hidden,), np.zeros(states)))
        terms = terms_of(empty, Features.empty(cards))
        fixed = np.flatnonzero(cards == 1)
        self.plan = Plan(terms, find_order(cards, terms.first, terms.var, fixed, MAX_MEMORY))
        self._evidence = np.zeros(len(fixed), np.int64)
        self._offset = np.zeros(states)

    def over(self, network: MarkovNetwork) -> HiddenTables:
        """Return the tables of a network with the same features and other weights; the plan is shared."""
        same = copy.copy(self)
        same.network = network
        features = network.features
        same.features = features.select(np.flatnonzero(features.lengths > 0))
        same._offset = np.zeros(self.states)
        return same

    @property
    def cells(self) -> int:
        """The number of cells of the tables, per hidden state."""
        return int(self.tables.first[-1])

    @cached_property
    def single(self) -> IntArray:
        """The features that test a single state; of columns with two states, one of both."""
        tests, cards = self.features.tests, self.network.domain.cards
        alone = np.flatnonzero(self.features.lengths == 1)
        test = self.features.indices[self.features.indptr[alone]]
        sizes = np.bitwise_count(tests.mask[test]).sum(axis=1)
        first = (tests.mask[test, 0] & np.uint64(1)).astype(bool)
        return alone[(sizes == 1) & ~((cards[tests.var[test]] == 2) & first)]

    @cached_property
    def longer(self) -> IntArray:
        """The features of several tests."""
        return np.flatnonzero(self.features.lengths > 1)

    @cached_property
    def single_states(self) -> tuple[IntArray, IntArray]:
        """The column and the state that each of the `single` features tests."""
        tests = self.features.tests
        test = self.features.indices[self.features.indptr[self.single]]
        state = tests.members(test).argmax(axis=1)
        return tests.var[test].astype(np.int64), state.astype(np.int64)

    @cached_property
    def along_order(self) -> FloatArray:
        """What turns independent effects of single states into ones that are similar for similar numbers.

        A matrix whose product with its transpose is the correlation of the effects.
        """
        column, state = self.single_states
        near = np.eye(len(column))
        for v, variable in enumerate(self.network.domain):
            at = np.flatnonzero((column == v) & (state < len(variable.values)))
            if variable.ordered and len(at) > 2:
                distance = np.abs(state[at][:, None] - state[at]) / len(at)
                near[np.ix_(at, at)] = SMOOTH * np.exp(-distance / REACH) + (1 - SMOOTH) * np.eye(
                    len(at)
                )
        return np.asarray(np.linalg.cholesky(near), np.float64)

    def expectations(self, weights: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return log Z and the means of the features for each hidden state.

        Returns none instead of both if the weights are so extreme that floats cannot hold log Z.
        """
        count = self.cells * self.states
        values = np.empty(count + self.states)
        values[:count] = (self.matrix @ weights.T).ravel()
        # The hidden states are weighed so that all have about the same probability: then none of them
        # underflows. The weights of the last call are nearly right for this one.
        values[count:] = -self._offset
        log_z, cell_shares, _ = self.plan.expect(self._evidence, values, np.zeros(0))
        shares = cell_shares[count:]
        if (shares > SMALLEST_SHARE).all():
            found = np.log(shares) + log_z + self._offset
            given_state = cell_shares[:count].reshape(-1, self.states) / shares
            means = (self.transposed @ given_state).T
        else:  # one after another
            each = [self.base(row) for row in weights]
            found, means = np.array([z for z, _ in each]), np.stack([mean for _, mean in each])
        if not np.isfinite(found).all():
            return None
        self._offset = found
        return found, means

    def part(self, network: MarkovNetwork) -> Part:
        """Return the thin network itself, possibly with other weights, as a mixture of one state."""
        features = network.features
        weights = features.weights[features.lengths > 0]
        return Part(self.matrix @ weights[:, None], np.array([-self.base(weights)[0]]))

    @cached_property
    def longer_matrix(self) -> Any:
        """The matrix of cells by longer features."""
        return self.matrix[:, self.longer].astype(np.float32).tocsr()

    def rows(self, codes: Codes | IntArray, weights: FloatArray) -> HiddenRows:
        """Return distinct rows and how often each occurs, as the fit needs them."""
        return HiddenRows(self, codes, weights)


class Part(NamedTuple):
    """A mixture of networks over the same tables, as part of a larger mixture."""

    values: FloatArray  # the log-values of all cells; shape (cells, states)
    # The log-probabilities of the hidden states, less the log Z of their networks; shape (states,)
    log_shares: FloatArray


class Chunk(NamedTuple):
    """Some of the rows."""

    rows: slice  # their positions
    weights: FloatArray  # how often each occurs
    single: Any  # which of these features hold, and a column of ones; sparse if most do not hold
    # The cells of the tables that each row is in, without the most common cell of each table
    cells: Any


class HiddenRows:
    """Rows of a table, distinct ones only; what is computed from them is computed when it is needed.

    `tables`: the tables of the thin network, for any number of hidden states.
    """

    def __init__(self, tables: HiddenTables, codes: Codes | IntArray, weights: FloatArray) -> None:
        self.codes, self.weights = codes, weights
        self._tables = tables

    def drawn(self, some: IntArray) -> HiddenRows:
        """Return some of the rows, each as if it occurred once."""
        rows = HiddenRows(self._tables, self.codes[some], np.ones(len(some)))
        if self.codes.size <= KEPT_VALUES:
            rows.common = self.common
            rows.chunks = rows._chunks(lambda part: [m[some[part]] for m in self.matrices])
            rows.counts = np.sum([c.cells.sum(axis=0) for c in rows.chunks], axis=0, dtype=float)
            rows.complete(rows.counts, len(some))
        return rows

    @cached_property
    def count(self) -> float:
        """The number of rows, with repetitions."""
        return float(self.weights.sum())

    @cached_property
    def counts(self) -> FloatArray:
        """The number of rows in each cell."""
        return self._tables.tables.counts(self.codes, self.weights)

    @cached_property
    def sums(self) -> FloatArray:
        """The sum of each feature over the rows."""
        sums: FloatArray = self._tables.transposed @ self.counts
        return sums

    def total(self, weights: FloatArray) -> float:
        """Return the sum of the weights of the features that hold, over the rows."""
        return float(self.sums @ np.where(self.sums > 0, weights, 0.0))  # weights may be -inf

    @cached_property
    def cells(self) -> Any:
        """Rows by cells, 1 for the cell of each table that a row is in."""
        cell = np.ascontiguousarray(self._tables.tables.cells_of(self.codes).T)
        return self._by_cell(cell, np.ones(cell.shape, bool))

    @cached_property
    def by_cell(self) -> Any:
        """Cells by rows."""
        return self.cells.T.tocsr()

    def _by_cell(self, cell: Int32Array, kept: BoolArray) -> Any:
        from scipy import sparse

        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        cell = cell[kept]
        shape = (len(kept), self._tables.cells)
        return sparse.csr_array((np.ones(len(cell), np.float32), cell, starts), shape=shape)

    @cached_property
    def common(self) -> IntArray:
        """The most common cell of each table."""
        first = self._tables.tables.first
        return np.array(
            [low + self.counts[low:high].argmax() for low, high in pairwise(first.tolist())], int
        )

    @cached_property
    def matrices(self) -> tuple[Any, Any]:
        """The matrices of all rows, as those of a `Chunk`."""
        from scipy import sparse

        column, state = self._tables.single_states
        single = np.ones((len(self.codes), len(column) + 1), bool)
        np.equal(self.codes[:, column], state, out=single[:, :-1])
        few = np.count_nonzero(single) < DENSE_SHARE * single.size
        cell = np.ascontiguousarray(self._tables.tables.cells_of(self.codes).T)
        return (
            sparse.csr_array(single, dtype=np.float32) if few else single.astype(np.float32),
            self._by_cell(cell, cell != self.common),
        )

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The rows, some at a time."""
        return self._chunks(lambda some: [matrix[some] for matrix in self.matrices])

    def _chunks(self, matrices: Callable[[slice], list[Any]]) -> list[Chunk]:
        bounds = [*range(0, len(self.codes), ROWS_AT_ONCE), len(self.codes)]
        slices = [slice(low, high) for low, high in pairwise(bounds)]
        return [Chunk(some, self.weights[some], *matrices(some)) for some in slices]

    def relative(self, values: Any) -> tuple[Any, Any]:
        """Return the values of cells relative to the most common cell of their table.

        `values`: the values of cells, to be added up over the cells that a row is in. Returns
        `differences`, they are added up over the cells of a chunk; `usual`, to be added for every
        row.
        """
        most = values[self.common]
        return values - np.repeat(most, np.diff(self._tables.tables.first), axis=0), most.sum(
            axis=0
        )

    def complete(self, sums: Any, total: Any) -> None:
        """Fill in the sums of the most common cells.

        `sums`: the sums of some values over the rows in each cell, 0 for the most common cells.
        """
        sums[self.common] = total - np.add.reduceat(sums, self._tables.tables.first[:-1], axis=0)


def stacking_weights(
    log_densities: Sequence[FloatArray], weights: FloatArray, steps: int = 300
) -> FloatArray:
    """Return the weights of a mixture of models that maximise the likelihood of held-out rows.

    Examples
    --------
    >>> better, worse = np.log([0.5, 0.5, 0.1]), np.log([0.1, 0.1, 0.6])
    >>> stacking_weights([better, worse], np.ones(3)).round(3)  # 2 (.4) / (.1 + .4 q) = .5 / (.6 - .5 q)
    array([0.717, 0.283])
    """
    scores = np.stack(log_densities, axis=1)
    density = np.exp(scores - scores.max(axis=1, keepdims=True))
    share = np.full(scores.shape[1], 1 / scores.shape[1])
    for _ in range(steps):
        posterior = density * share
        posterior /= posterior.sum(axis=1, keepdims=True)
        share = weights @ posterior / weights.sum()
    return share


def tree_part(tables: HiddenTables, tree: MarkovNetwork) -> Part:
    """Return the maximum-likelihood tree, whose pairs all lie within tables of the thin network."""
    values = np.zeros(tables.cells)
    layout = tables.tables
    around: dict[int, list[int]] = {}
    for i, scope in enumerate(layout.scopes):
        for v in scope:
            around.setdefault(v, []).append(i)
    for factor in tree.factors:
        assert isinstance(factor, TableFactor)
        pair = [v for v, n in zip(factor.variables, factor.table.shape, strict=True) if n > 1]
        if not pair:
            continue  # columns of one state, which have probability 1
        hosts = (i for i in around.get(pair[0], []) if set(pair).issubset(layout.scopes[i]))
        host = next(hosts, None)
        assert host is not None, "the thin network has all pairs of the tree"
        scope = layout.scopes[host]
        table = factor.table.squeeze().transpose([pair.index(v) for v in scope if v in pair])
        shape = [n if v in pair else 1 for v, n in zip(scope, layout.shapes[host], strict=True)]
        some = slice(layout.first[host], layout.first[host + 1])
        values[some] += np.broadcast_to(table.reshape(shape), layout.shapes[host]).ravel()
    return Part(values[:, None], np.zeros(1))  # its log Z is 0


def stacked(
    tables: HiddenTables, parts: Sequence[Part], shares: FloatArray, name: str
) -> MarkovNetwork:
    """Return one Markov network whose hidden column has the states of several mixtures.

    `parts`: the mixtures; those with share 0 are left out.
    """
    used = [(part, share) for part, share in zip(parts, shares, strict=True) if share > 0]
    table = np.concatenate([part.values for part, _ in used], axis=1)
    prior = np.concatenate([np.log(share) + part.log_shares for part, share in used])
    states = table.shape[1]
    network = tables.network
    hidden = Variable(name, range(states), hidden=True)
    domain = Domain([*network.domain.variables, hidden])
    first = tables.tables.first
    factors = [
        TableFactor((*scope, len(network.domain)), table[low:high].reshape(*shape, states))
        for scope, shape, low, high in zip(
            tables.tables.scopes, tables.tables.shapes, first[:-1], first[1:], strict=True
        )
    ]
    factors.append(TableFactor((len(network.domain),), prior))
    return MarkovNetwork(domain, factors=factors, provenance=network.provenance)
