"""Marginals of free variables given many rows of evidence on all other variables.

The evidence decides all tests of known variables, so of each feature only its tests of free variables
remain. Features that agree in these form a *unit*, and a row of evidence gives each unit a weight. Free
variables that depend on each other form a *component*: those of few states are enumerated, all others
are sampled by Gibbs chains, 64 rows side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.row_hashing import code_numbers, group_equal, row_keys
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.inference.chain import MAX_RESTARTS, NO_POSSIBLE_STATE
from conjoin.kernels.gibbs_rows import sample_rows, unit_weights
from conjoin.kernels.layouts import packed
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm

ROWS = 64
"""Maximum number of rows of evidence per block: the bits of a word."""

BATCHES = 25
"""Number of parts in which the sweeps of a chain are summed, for standard errors."""

MAX_CELLS = 1 << 21
"""Maximum number of units times states of a component that is enumerated."""


@dataclass(frozen=True)
class Settings:
    """How chains are run: `samples` sweeps count, in `batches` parts, after `burn_in` that do not.

    Components of few states are enumerated; tests switch this off.
    """

    burn_in: int
    samples: int
    batches: int
    enumerate_small: bool = True

    @classmethod
    def of(cls, burn_in: int, samples: int, *, enumerate_small: bool = True) -> Settings:
        """Round the sweeps up to whole batches."""
        if burn_in < 0 or samples < 2:
            raise ModelError("burn_in must not be negative, samples must be 2 or more")
        batches = min(BATCHES, samples)
        return cls(burn_in, -(-samples // batches) * batches, batches, enumerate_small)

    def max_states(self, variables: int) -> int:
        """Return the number of states up to which enumerating them is no slower than sampling."""
        return (self.burn_in + self.samples) * variables // 4


class BatchResult(NamedTuple):
    """Marginals for some rows of evidence; the states of all free variables are side by side."""

    mean: FloatArray  # rows by states
    batch: FloatArray  # batches by states by ROWS: sums of the conditional probabilities
    exact: BoolArray  # rows by free variables


class Component(NamedTuple):
    """Free variables that are enumerated: their places, those of their states, their units."""

    place: IntArray
    states: IntArray
    units: IntArray
    values: FloatArray  # units by joint states: the values of the units without their weights
    indicator: FloatArray  # states by joint states: 1 where a variable has a state


class BatchMarginals:
    """Marginals of free variables, ascending, given rows of all the others.

    `order` is the order of a sweep, over all variables.
    """

    def __init__(
        self, form: LogLinearForm, free: IntArray, order: IntArray, settings: Settings
    ) -> None:
        self.free, self.settings, self.domain = free, settings, form.domain
        self.cards = form.domain.cards[free]
        is_free = np.zeros(len(form.domain), bool)
        is_free[free] = True
        form = form.nonzero().about(is_free)
        # Chains leave states that a hard constraint forbids, and never come back.
        self.hard_weight = form.overwhelming_weight
        self.must_be_possible = form.is_joint and bool(form.hard.any())
        form = form.with_hard_weight(self.hard_weight)
        number = _unit_numbers(form.features, form.owner, is_free)
        place = np.argsort(number, kind="stable")
        self.form = replace(
            form,
            features=form.features.select(place),
            owner=None if form.owner is None else form.owner[place],
        )
        count = int(number.max(initial=-1)) + 1
        self.unit_first = packed(np.searchsorted(number[place], np.arange(count + 1)), np.int64)
        heads = self.unit_first[:-1]
        features = self.form.features.select(heads)
        self.units = replace(
            self.form,
            features=features.without_entries(~is_free[features.entry_var]),
            owner=None if self.form.owner is None else self.form.owner[heads],
        )
        self.components = list(self._enumerated()) if form.is_joint else []
        sampled = is_free.copy()
        for component in self.components:
            sampled[free[component.place]] = False
        self.order = packed(order[sampled[order]], np.int64)
        self.is_sampled = sampled[free]

    def _enumerated(self) -> list[Component]:
        """Return the components of few states."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        if not self.settings.enumerate_small:
            return []
        features, n = self.units.features, len(self.domain)
        entries = (np.ones(len(features.indices)), features.entry_var, features.indptr)
        graph = csr_array(entries, shape=(len(features), n))
        _, label = connected_components(graph.T @ graph, directed=False)
        unit_label = label[features.entry_var[features.indptr[:-1]]]
        first = np.cumsum(self.cards) - self.cards
        components = []
        for k in np.unique(label[self.free]):
            place, units = np.flatnonzero(label[self.free] == k), np.flatnonzero(unit_label == k)
            cards = self.cards[place]
            size = float(np.prod(cards.astype(np.float64)))
            if size > self.settings.max_states(len(place)) or size * len(units) > MAX_CELLS:
                continue
            states = np.stack(np.unravel_index(np.arange(int(size)), cards))
            codes = np.zeros((int(size), n), np.uint16)
            codes[:, self.free[place]] = states.T
            indicator = [states[i] == np.arange(card)[:, None] for i, card in enumerate(cards)]
            components.append(
                Component(
                    place,
                    np.concatenate([first[i] + np.arange(self.cards[i]) for i in place]),
                    units,
                    _values(features.select(units), codes),
                    np.concatenate(indicator).astype(np.float64),
                )
            )
        return components

    def by_similarity(self, codes: Codes) -> IntArray:
        """Return an order in which rows of similar evidence follow each other.

        Rows are sorted by the known variables that most features test. A block of similar rows is
        sampled faster, because fewer features are alive in any of them; the answers are the same.
        """
        tests = np.bincount(self.form.features.entry_var, minlength=codes.shape[1])
        tests[self.free] = 0
        used = np.flatnonzero(tests)
        columns = used[np.argsort(tests[used], kind="stable")]  # the last one is the first key
        return np.lexsort(codes[:, columns].T) if len(columns) else np.arange(len(codes))

    def marginals(self, codes: Codes, counters: UIntArray) -> BatchResult:
        """Return the marginals given each of at most `ROWS` rows, whatever they say of free variables.

        The answer for a row depends on the row and on its counter, its random numbers, only.
        """
        weights, alive, bits = self.unit_weights(codes)
        rows, width = len(codes), int(self.cards.sum())
        mean, exact = np.empty((width, rows)), np.ones((len(self.free), rows), bool)
        batch = np.zeros((self.settings.batches, width, ROWS))
        for component in self.components:
            logs = component.values.T @ weights[component.units, :rows]
            p = np.exp(logs - logs.max(axis=0))
            mean[component.states] = component.indicator @ (p / p.sum(axis=0))
        if len(self.order):
            states = np.repeat(self.is_sampled, self.cards)
            sums, linked = self._run_chains(weights, alive, bits, counters)
            batch[:, states] = sums
            mean[states] = sums.sum(axis=0)[:, :rows] / self.settings.samples
            exact[self.is_sampled] = ~linked[self.is_sampled, :rows]
        return BatchResult(np.ascontiguousarray(mean.T), batch, exact.T)

    def unit_weights(self, codes: Codes) -> tuple[FloatArray, UIntArray, UIntArray]:
        """Return the weights of the units in `ROWS` rows, and the rows in which each has any, as bits.

        The third result are the rows in which each test holds; tests of free variables hold in all.
        """
        rows, tests = len(codes), self.units.features.tests
        holds = np.zeros((len(tests), ROWS), bool)
        holds[:, :rows] = tests.truth(codes)
        holds[np.isin(tests.var, self.free)] = True
        bits, present = _words(holds), np.uint64((1 << rows) - 1)
        weights = np.empty((len(self.units.features), ROWS))
        alive = np.empty(len(weights), np.uint64)
        unit_weights(self.form.arrays, self.unit_first, bits, present, weights, alive)
        return weights, alive, bits

    def _run_chains(
        self, weights: FloatArray, alive: UIntArray, bits: UIntArray, counters: UIntArray
    ) -> tuple[FloatArray, BoolArray]:
        """Return sums by batch, state and row, and in which rows a variable depends on others."""
        settings = self.settings
        forbidden = np.zeros_like(alive)
        if self.must_be_possible:
            forbidden = _words(weights < self.hard_weight / 2) & alive
        starts = np.zeros(ROWS, np.uint64)
        starts[: len(counters)] = counters
        states = int(self.cards[self.is_sampled].sum())
        sums = np.empty((settings.batches, states, ROWS))
        linked = np.empty(len(self.domain), np.uint64)
        for _ in range(MAX_RESTARTS):
            stuck = sample_rows(
                self.order, self.units.arrays, weights, alive, forbidden, bits, starts.copy(),
                settings.burn_in, settings.samples, linked, sums,
            )  # fmt: skip
            if not stuck:
                return sums, _lanes(linked[self.free])
            starts += _lanes(np.array([stuck], np.uint64))[0]
        raise ModelError(NO_POSSIBLE_STATE)


def _words(holds: BoolArray) -> UIntArray:
    """Pack `ROWS` truth values per line into the bits of a word."""
    return np.packbits(holds, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64)


def _lanes(words: UIntArray) -> BoolArray:
    """Unpack the bits of words, words by `ROWS`."""
    return words[:, None] >> np.arange(ROWS, dtype=np.uint64) & np.uint64(1) != 0


def _values(features: Features, codes: Codes) -> FloatArray:
    """Return the value of each feature without its weight, features by rows."""
    holds = features.tests.truth(codes)[features.indices]
    factors = np.where(holds, 1.0, features.off_values()[:, None])
    if not len(features):
        return np.zeros((0, len(codes)))
    return np.multiply.reduceat(factors, features.indptr[:-1], axis=0)


def _unit_numbers(features: Features, owner: IntArray | None, is_free: BoolArray) -> IntArray:
    """Number the units of features: their tests of free variables, and their owner if they have one.

    Features with off values are never equal to others.
    """
    inside = is_free[features.entry_var]
    indptr = np.concatenate([[0], np.cumsum(inside)])[features.indptr]
    keys = row_keys(indptr, features.indices[inside], code_numbers(len(features.tests)))
    salt = np.zeros(len(features), np.uint64)
    if owner is not None:
        salt += code_numbers(len(is_free))[0][owner]
    soft = features.soft_rows()
    salt[soft] += code_numbers(len(features))[1][soft]
    order, starts, _ = group_equal(keys[0] + salt, keys[1] ^ salt)
    number = np.empty(len(features), np.int64)
    number[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    return number
