"""Gibbs chains for 128 rows of evidence side by side.

The log-odds of a state, relative to the first state of its variable, are a sum of conjunctions of tests
of other variables. In short conjunctions, tests that hold for the first state are replaced by their
complements, ``[x=0] = 1 - [x=1]``, so that units over the same variables share their terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, IntArray, UIntArray
from conjoin.data.row_hashing import code_numbers, group_equal, row_keys
from conjoin.inference.projection import ROWS, Projection, RowWeights
from conjoin.kernels.layouts import SlotArrays, StateArrays, packed
from conjoin.models.features import Features, segment_index
from conjoin.models.loglinear import LogLinearForm

EXPANDED = 2
"""Maximum number of other tests in a conjunction that is expanded."""

TINY = 1e-12
"""Weights of smaller absolute value are rounding errors of weights that cancel."""

DENSE = 0.25
"""Pairs of states with one weight for all rows form a matrix if at least this fraction of all pairs
has one; otherwise they are slots like all others."""

MAX_ENTRIES = 1 << 22
"""Maximum number of entries of the expanded conjunctions."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of log-odds: coefficient times unit weight times a conjunction of tests.

    Attributes
    ----------
    line : array of int
        The state whose log-odds each term belongs to, counted without the first of each variable.
    unit : array of int
        The unit whose weight it has.
    coefficient : array of float
        1 or -1.
    first, test : arrays of int
        The tests of the conjunction of each term (see `StateTests`).
    """

    line: IntArray
    unit: IntArray
    coefficient: FloatArray
    first: IntArray
    test: IntArray

    def select(self, rows: IntArray) -> Terms:
        """Return some of the terms."""
        count = np.diff(self.first)[rows]
        test = self.test[segment_index(self.first[rows], count)]
        first = np.concatenate([[0], np.cumsum(count)])
        return Terms(self.line[rows], self.unit[rows], self.coefficient[rows], first, test)


@dataclass(frozen=True, eq=False)
class StateTests:
    """The states of some variables, and the tests of them.

    The tests that are not single states are *sets*; they are numbered after the states.

    Attributes
    ----------
    arrays : StateArrays
        The states and the sets.
    as_test : array of int, shape (tests of the features,)
        The number of each test; -1 for tests of other variables.
    as_complement : array of int, shape (tests of the features,)
        The same for the complement, if the test holds for the first state.
    holds_first : array of bool, shape (tests of the features,)
        Whether a test holds for the first state of its variable.
    sign : array of int8, shape (tests of the features, states)
        What a test adds to the log-odds of each state of its variable: 1, 0 or -1.
    variable : array of int
        The variable of each test, counted within the given ones.
    """

    arrays: StateArrays
    as_test: IntArray
    as_complement: IntArray
    holds_first: BoolArray
    sign: npt.NDArray[np.int8]
    variable: IntArray

    @classmethod
    def of(cls, features: Features, cards: IntArray, members: IntArray) -> StateTests:
        """Number the states of some variables and the tests of them."""
        local = np.full(len(cards), -1, np.int64)
        local[members] = np.arange(len(members))
        first = np.concatenate([[0], np.cumsum(cards[members])])
        var = local[features.tests.var]
        used = np.flatnonzero(var >= 0)
        width = int(cards[members].max())
        exists = np.arange(width) < cards[features.tests.var][:, None]
        holds = features.tests.members()[:, :width] & exists
        complement = np.where(holds[:, :1], exists & ~holds, holds)
        # One row per distinct set of states; sets of one state are that state.
        rows = np.concatenate([holds[used], complement[used]])
        single = rows.sum(axis=1) == 1
        number = first[np.tile(var[used], 2)] + rows.argmax(axis=1)
        keyed = np.column_stack([np.tile(var[used], 2), rows])[~single]
        sets, which = np.unique(keyed, axis=0, return_inverse=True)
        number[~single] = first[-1] + which.ravel()
        as_test, as_complement = np.full((2, len(var)), -1, np.int64)
        as_test[used], as_complement[used] = number[: len(used)], number[len(used) :]
        owner, state = np.nonzero(sets[:, 1:])
        arrays = StateArrays(
            first=packed(first, np.int64),
            set_first=packed(np.searchsorted(sets[:, 0], np.arange(len(members) + 1)), np.int64),
            member_first=packed(np.searchsorted(owner, np.arange(len(sets) + 1)), np.int64),
            member=packed(first[sets[owner, 0]] + state, np.int64),
        )
        variable = np.append(np.repeat(np.arange(len(members)), cards[members]), sets[:, 0])
        sign = np.where(holds[:, :1], -1, 1) * complement
        return cls(arrays, as_test, as_complement, holds[:, 0], sign.astype(np.int8), variable)


def fits(projection: Projection, units: IntArray) -> bool:
    """Return whether units can be sampled side by side.

    They cannot if a weight stands for -inf, which single precision has no room for, if they have off
    values, or if there are too many to fit into memory.
    """
    form, known = projection.units, projection.known
    features = form.features.select(units)
    lengths = features.lengths
    lines = form.domain.cards[features.entry_var] - 1
    entries = np.where(form.own_entry[units] < 0, lengths * lengths, lengths)
    entries *= lines.max(initial=1)
    in_units = np.repeat(np.isin(np.arange(len(form.features)), units), np.diff(known.unit_first))
    return bool(
        entries.sum() <= MAX_ENTRIES
        and (lines > 0).all()
        and not features.soft_rows().any()
        and known.plain[in_units].all()
        and (known.weight[in_units] > projection.hard_weight / 2).all()
    )


class BitpackedChains:
    """Chains over some variables that do not depend on other free ones.

    Parameters
    ----------
    projection : Projection
        The network.
    members : array of int
        The variables, ascending.
    units : array of int
        The units that test them.
    order : array of int
        The order of a sweep, within the members.
    """

    def __init__(
        self, projection: Projection, members: IntArray, units: IntArray, order: IntArray
    ) -> None:
        units_in_all = len(projection.units.features)
        tests = StateTests.of(projection.units.features, projection.units.domain.cards, members)
        self.states = tests.arrays
        first, n_tests = self.states.first, len(tests.variable)
        self.n_states, self.lines = int(first[-1]), int(first[-1]) - len(members)
        terms = _terms(projection.units, tests, units)
        empty = np.diff(terms.first) == 0
        self.bias = ByUnit.of(terms.select(np.flatnonzero(empty)), units_in_all)
        terms = terms.select(np.flatnonzero(~empty))
        groups = _grouped(terms, projection)
        is_pair = groups.kept & groups.constant & (np.diff(terms.first)[groups.head] == 1)
        is_pair &= terms.test[terms.first[groups.head]] < self.n_states
        self.pairs = _pair_matrix(terms, groups, is_pair, tests, self.lines)
        kept = groups.kept & ~is_pair if len(self.pairs) else groups.kept
        # Slots are sorted by line, those with one weight first.
        place = np.lexsort((~groups.one_weight, terms.line[groups.head]))
        place = place[kept[place]]
        by_row = np.flatnonzero(~groups.one_weight[groups.of_term])
        self.terms = ByUnit.of(terms.select(by_row), units_in_all)
        slot_of = np.full(len(groups.head), -1, np.int64)
        slot_of[place] = np.arange(len(place))
        self.terms_slot = packed(slot_of[groups.of_term[by_row]][self.terms.order], np.int64)
        conjunctions = terms.select(groups.head[place])
        self.slots = _slot_arrays(
            conjunctions, groups.weight[place], groups.one_weight[place], self.lines, n_tests
        )
        line_variable = np.repeat(np.arange(len(members)), np.diff(first) - 1)
        used = np.full(len(members), len(self.pairs) > 0)
        used[line_variable[conjunctions.line]] = True
        used[tests.variable[conjunctions.test]] = True
        self.order = packed(order[used[order]], np.int64)  # the other variables influence nothing

    def marginals(
        self,
        weights: RowWeights,
        counters: UIntArray,
        burn_in: int,
        samples: int,
        batches: int,
    ) -> tuple[FloatArray, Any, BoolArray]:
        """Run the chains.

        Returns
        -------
        mean : array of float, shape (states of the members, ROWS)
            The marginals of the variables that depend on no other, where `exact`.
        sums : array of float32, shape (batches, states of the members, ROWS)
            Sums of conditional probabilities.
        exact : array of bool, shape (members, ROWS)
            Which variables depend on no other.
        """
        from conjoin.kernels.gibbs_bitpacked import live_slots, row_weights, sweep_rows

        kernel: Any = row_weights
        bias = np.zeros((self.lines, ROWS))
        units = weights.alive(self.bias.units)
        kernel(units, weights.of_units(units), self.bias.first, self.bias.line,
               self.bias.coefficient, np.arange(self.lines), bias)  # fmt: skip
        units = weights.alive(self.terms.units)
        index = segment_index(self.terms.first[units], np.diff(self.terms.first)[units])
        place = np.full(len(self.slots.node), -1, np.int64)
        place[self.terms_slot[index]] = 0
        touched = np.flatnonzero(place == 0)
        place[touched] = np.arange(len(touched))
        rows = np.zeros((len(touched), ROWS))
        kernel(units, weights.of_units(units), self.terms.first, self.terms_slot,
               self.terms.coefficient, place, rows)  # fmt: skip
        slots = SlotArrays._make(np.empty_like(array) for array in self.slots)
        words = np.zeros((len(self.slots.node), 2), np.uint64)
        linked = np.zeros((self.lines, 2), np.uint64)
        kernel = live_slots
        kernel(self.slots, weights.words, place, rows, slots, words, linked)
        linked[np.flatnonzero((self.pairs != 0).any(axis=1))] = ~np.uint64(0)
        first = self.states.first[:-1]
        linked = np.bitwise_or.reduceat(linked, first - np.arange(len(first)), axis=0)
        lanes = np.arange(ROWS)
        exact = linked[:, lanes >> 6] >> (lanes & 63).astype(np.uint64) & np.uint64(1) == 0
        logs = np.zeros((self.n_states, ROWS))
        logs[np.setdiff1d(np.arange(self.n_states), first)] = bias
        logs -= np.repeat(np.logaddexp.reduceat(logs, first), np.diff(self.states.first), axis=0)
        sums = np.zeros((batches, self.n_states * ROWS), np.float32)
        if not exact.all():
            kernel = sweep_rows
            kernel(
                self.order, self.states, self.pairs, slots, words, rows.astype(np.float32),
                bias.astype(np.float32), burn_in, samples, counters, sums,
            )  # fmt: skip
        return np.exp(logs), sums.reshape(batches, -1, ROWS), exact


@dataclass(frozen=True, eq=False)
class ByUnit:
    """Terms sorted by unit: those of unit u from `first[u]` on; `order` is where they were."""

    units: IntArray
    first: IntArray
    line: IntArray
    coefficient: FloatArray
    order: IntArray

    @classmethod
    def of(cls, terms: Terms, count: int) -> ByUnit:
        """Sort terms of at most `count` units."""
        order = np.argsort(terms.unit, kind="stable")
        first = np.searchsorted(terms.unit[order], np.arange(count + 1))
        return cls(
            np.unique(terms.unit),
            packed(first, np.int64),
            packed(terms.line[order], np.int64),
            packed(terms.coefficient[order], np.float64),
            order,
        )


def _terms(form: LogLinearForm, tests: StateTests, units: IntArray) -> Terms:
    """Write units as terms of the log-odds of the states of the variables they test."""
    features, first = form.features, tests.arrays.first
    lengths = features.lengths[units]
    lines, owners, coefficients, conjunctions = [], [], [], []
    for length in np.unique(lengths).tolist():
        rows = units[lengths == length]
        entry = features.indptr[rows][:, None] + np.arange(length)
        test = features.indices[entry]
        negative = tests.holds_first[test]
        own = form.own_entry[rows]
        for j in range(length):
            variable = tests.variable[tests.as_test[test[:, j]]]
            mine = (own < 0) | (own == entry[:, j])
            others = [i for i in range(length) if i != j]
            for listed, factor in _expanded(negative, others):
                codes = (tests.as_complement if factor is not None else tests.as_test)[test]
                for state in range(1, tests.sign.shape[1]):
                    sign = tests.sign[test[:, j], state] * mine
                    found = np.flatnonzero(sign if factor is None else sign * factor)
                    lines.append(first[variable[found]] - variable[found] + state - 1)
                    owners.append(rows[found])
                    coefficients.append((sign if factor is None else sign * factor)[found])
                    conjunctions.append(codes[found][:, listed])
    if not lines:
        nothing = np.zeros(0, np.int64)
        return Terms(nothing, nothing, np.zeros(0), np.zeros(1, np.int64), nothing)
    count = np.concatenate([np.full(len(part), part.shape[1]) for part in conjunctions])
    return Terms(
        np.concatenate(lines),
        np.concatenate(owners),
        np.concatenate(coefficients).astype(np.float64),
        np.concatenate([[0], np.cumsum(count)]),
        np.concatenate([part.ravel() for part in conjunctions]),
    )


def _expanded(
    negative: BoolArray, others: list[int]
) -> Iterator[tuple[list[int], IntArray | None]]:
    """Yield the products of which a conjunction of other tests is the sum.

    Each is a list of columns, whose complements are meant if tests are `negative`, and the factor of
    every row: 1, 0 or -1. A long conjunction is left as it is; the factor is None then.
    """
    if len(others) > EXPANDED:
        yield others, None
        return
    for taken in product((True, False), repeat=len(others)):
        factor = np.ones(len(negative), np.int64)
        for i, take in zip(others, taken, strict=True):
            factor *= np.where(negative[:, i], -1, 1) if take else negative[:, i]
        yield [i for i, take in zip(others, taken, strict=True) if take], factor


@dataclass(frozen=True, eq=False)
class Groups:
    """Terms of one line with the same conjunction.

    Attributes
    ----------
    of_term : array of int
        The group of each term.
    head : array of int
        One term of each group.
    weight : array of float
        The weight of each group if all its units are alive.
    one_weight : array of bool
        Whether a group has this weight in all rows in which it has any.
    constant : array of bool
        Whether it has this weight in all rows.
    """

    of_term: IntArray
    head: IntArray
    weight: FloatArray
    one_weight: BoolArray
    constant: BoolArray

    @property
    def kept(self) -> BoolArray:
        """Which groups have terms that do not always cancel."""
        return ~self.one_weight | (np.abs(self.weight) > TINY)


def _grouped(terms: Terms, projection: Projection) -> Groups:
    """Group the terms of each line that have the same conjunction."""
    numbers = code_numbers(int(terms.test.max(initial=0)) + 1)
    keys = row_keys(terms.first, terms.test.astype(np.int32), numbers)
    salt = code_numbers(int(terms.line.max(initial=0)) + 1)[0][terms.line]
    order, starts, _ = group_equal(keys[0] + salt, keys[1] ^ salt)
    count = np.diff(np.append(starts, len(order)))
    of_term = np.empty(len(order), np.int64)
    of_term[order] = np.repeat(np.arange(len(starts)), count)
    weight = terms.coefficient * projection.units.features.weights[terms.unit]
    changes = ~projection.is_constant[terms.unit]
    constant = np.bincount(of_term, weights=changes, minlength=len(starts)) == 0
    head = order[starts].astype(np.int64)
    single = (count == 1) & projection.has_one_weight[terms.unit[head]]
    return Groups(
        of_term,
        head,
        np.bincount(of_term, weights=weight, minlength=len(starts)).astype(np.float64),
        np.asarray(single | constant, bool),
        np.asarray(constant, bool),
    )


def _pair_matrix(
    terms: Terms, groups: Groups, is_pair: BoolArray, tests: StateTests, lines: int
) -> Float32Array:
    """Return the weights of pairs of states as a matrix, without rows if they are few."""
    if is_pair.sum() < DENSE * lines * (lines - 1):
        return np.zeros((0, 0), np.float32)
    head = groups.head[is_pair]
    state = terms.test[terms.first[head]]
    pairs = np.zeros((lines, -(-lines // 4) * 4), np.float32)
    pairs[terms.line[head], state - tests.variable[state] - 1] = groups.weight[is_pair]
    return pairs


def _slot_arrays(
    conjunctions: Terms, weight: FloatArray, shared: BoolArray, n_lines: int, tests: int
) -> SlotArrays:
    """Lay out slots that are sorted by line, those with a shared weight first."""
    node_first, parent, test, node = _prefix_trees(conjunctions, n_lines, tests)
    line, lines = conjunctions.line, np.arange(n_lines)
    ends = [
        np.searchsorted(line, lines),
        np.searchsorted(line + 0.5 * ~shared, lines + 0.5),
        np.searchsorted(line, lines + 1),
    ]
    return SlotArrays(
        node_first=packed(node_first, np.int64),
        parent=packed(parent, np.uint32),
        test=packed(test, np.uint32),
        part=packed(np.stack(ends, axis=1), np.int64, 2),
        node=packed(node, np.uint32),
        source=packed(np.where(shared, conjunctions.unit, np.arange(len(line))), np.int64),
        weight=packed(weight, np.float32),
    )


def _prefix_trees(
    conjunctions: Terms, lines: int, tests: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Write the conjunctions of each line as a tree: a node is its parent and one more test.

    Frequent tests come first, so that many conjunctions share them. Returns where the nodes of each
    line start, their parents (counted from 1 within a line; 0 is the root), their tests, and the node
    of each conjunction.
    """
    count = np.diff(conjunctions.first)
    slot = np.repeat(np.arange(len(count)), count)
    frequency = np.bincount(conjunctions.test, minlength=tests)
    rank = np.empty(tests, np.int64)
    rank[np.argsort(-frequency, kind="stable")] = np.arange(tests)
    test = conjunctions.test[np.lexsort((rank[conjunctions.test], slot))]
    # Level by level: `at` is the node that each conjunction has reached, at first the root of its line.
    at = conjunctions.line.copy()
    root, parents, labels, total = np.arange(lines), [], [], lines
    for level in range(int(count.max(initial=0))):
        here = np.flatnonzero(count > level)
        key = at[here] * tests + test[conjunctions.first[here] + level]
        distinct, where = np.unique(key, return_inverse=True)
        parents.append(distinct // tests)
        labels.append(distinct % tests)
        root = np.append(root, root[distinct // tests])
        at[here] = total + where
        total += len(distinct)
    nothing = [np.zeros(0, np.int64)]
    parent, label = np.concatenate(nothing + parents), np.concatenate(nothing + labels)
    order = np.argsort(root[lines:], kind="stable")
    node_first = np.searchsorted(root[lines:][order], np.arange(lines + 1))
    number = np.zeros(total, np.int64)
    number[lines + order] = np.arange(len(order)) - node_first[root[lines:][order]] + 1
    return node_first, number[parent[order]], label[order], number[at]
