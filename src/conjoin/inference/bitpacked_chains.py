"""Gibbs chains for 128 rows of evidence side by side, over binary variables.

The log-odds of a variable are a sum of conjunctions of tests of other variables. Short conjunctions are
expanded, ``[x=0] = 1 - [x=1]``, so that units over the same variables share their terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.keys import code_numbers, group_equal, row_keys
from conjoin.inference.projection import ROWS, Projection, RowWeights
from conjoin.kernels.layouts import SlotArrays, packed
from conjoin.models.features import segment_index

EXPANDED = 2
"""Maximum number of other tests in a conjunction that is expanded."""

TINY = 1e-12
"""Weights of smaller absolute value are rounding errors of weights that cancel."""

DENSE = 0.25
"""Pairs of variables with one weight for all rows form a matrix if at least this fraction of all pairs
has one; otherwise they are slots like all others."""

MAX_ENTRIES = 1 << 22
"""Maximum number of entries of the expanded conjunctions."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of log-odds: coefficient times unit weight times a conjunction of tests.

    Attributes
    ----------
    line : array of int
        The variable whose log-odds each term belongs to, counted within the free ones.
    unit : array of int
        The unit whose weight it has.
    coefficient : array of float
        1 or -1.
    first, test : arrays of int
        The tests of the conjunction of each term: 2v + s for "v has state s".
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


def fits(projection: Projection, units: IntArray) -> bool:
    """Return whether units over binary variables can be sampled side by side.

    They cannot if a weight stands for -inf, which single precision has no room for, if they have off
    values, or if there are so many that they would fill the memory.
    """
    form, known = projection.units, projection.known
    features = form.features.select(units)
    lengths = features.lengths
    entries = np.where(form.own_entry[units] < 0, lengths * lengths, lengths).sum()
    sizes = form.domain.cards[features.entry_var]
    members = features.tests.members()[:, :2].sum(axis=1)[features.indices]
    in_units = np.repeat(np.isin(np.arange(len(form.features)), units), np.diff(known.unit_first))
    return bool(
        entries <= MAX_ENTRIES
        and (sizes == 2).all()
        and (members == 1).all()
        and not features.soft_rows().any()
        and known.plain[in_units].all()
        and (known.weight[in_units] > projection.hard_weight / 2).all()
    )


class BitpackedChains:
    """Chains over some binary variables that do not depend on other free ones.

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
        self.n = len(members)
        terms = _terms(projection, members, units)
        empty = np.diff(terms.first) == 0
        self.bias = _by_unit(terms.select(np.flatnonzero(empty)), len(projection.units.features))
        terms = terms.select(np.flatnonzero(~empty))
        slot, heads, static, one_weight, constant = _slots(terms, projection)
        # Slots sorted by line, those with one weight first; slots whose weights cancel go.
        keep = ~(one_weight & (np.abs(static) < TINY))
        self.pairs = np.zeros((0, 0), np.float32)
        pair = keep & constant & (np.diff(terms.first)[heads] == 1)
        if pair.sum() >= DENSE * self.n * (self.n - 1):
            keep &= ~pair
            head = heads[pair]
            self.pairs = np.zeros((self.n, -(-self.n // 4) * 4), np.float32)
            self.pairs[terms.line[head], terms.test[terms.first[head]] // 2] = static[pair]
        place = np.lexsort((~one_weight, terms.line[heads]))
        place = place[keep[place]]
        rank = np.full(len(heads), -1, np.int64)
        rank[place] = np.arange(len(place))
        line, shared = terms.line[heads[place]], one_weight[place]
        by_row = np.flatnonzero(~one_weight[slot])
        self.terms = _by_unit(terms.select(by_row), len(projection.units.features))
        self.terms_slot = packed(rank[slot[by_row]][self.terms.order], np.int64)
        conjunctions = terms.select(heads[place])
        node_first, parent, test, node = _prefix_trees(conjunctions, self.n)
        lines = np.arange(self.n)
        part = np.stack(
            [
                np.searchsorted(line, lines),
                np.searchsorted(line + 0.5 * ~shared, lines + 0.5),
                np.searchsorted(line, lines + 1),
            ],
            axis=1,
        )
        self.slots = SlotArrays(
            node_first=packed(node_first, np.int64),
            parent=packed(parent, np.uint32),
            test=packed(test, np.uint32),
            part=packed(part, np.int64, 2),
            node=packed(node, np.uint32),
            source=packed(
                np.where(shared, conjunctions.unit, np.arange(len(place))), np.int64
            ),
            weight=packed(static[place], np.float32),
        )
        used = np.zeros(self.n, bool)
        used[line] = True
        used[test // 2] = True
        if len(self.pairs):
            used[:] = True
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
        mean : array of float, shape (2 * members, ROWS)
            The marginals of the variables that depend on no other, where `exact`.
        sums : array of float32, shape (batches, 2 * members, ROWS)
            Sums of conditional probabilities.
        exact : array of bool, shape (members, ROWS)
            Which variables depend on no other.
        """
        from conjoin.kernels.gibbs_bitpacked import live_slots, row_weights, sweep_rows

        kernel: Any = row_weights
        bias = np.zeros((self.n, ROWS))
        units = weights.alive(self.bias.units)
        kernel(units, weights.of_units(units), self.bias.first, self.bias.line,
               self.bias.coefficient, np.arange(self.n), bias)  # fmt: skip
        units = weights.alive(self.terms.units)
        index = segment_index(self.terms.first[units], np.diff(self.terms.first)[units])
        place = np.full(len(self.slots.node), -1, np.int64)
        place[self.terms_slot[index]] = 0
        touched = np.flatnonzero(place == 0)
        place[touched] = np.arange(len(touched))
        rows = np.zeros((len(touched), ROWS))
        kernel(units, weights.of_units(units), self.terms.first, self.terms_slot,
               self.terms.coefficient, place, rows)  # fmt: skip
        slots = SlotArrays(*(np.empty_like(array) for array in self.slots))
        words = np.zeros((len(self.slots.node), 2), np.uint64)
        linked = np.zeros((self.n, 2), np.uint64)
        kernel = live_slots
        kernel(self.slots, weights.words, place, rows, slots, words, linked)
        linked[self.pairs.any(axis=1).nonzero()] = ~np.uint64(0)
        lanes = np.arange(ROWS)
        exact = linked[:, lanes >> 6] >> (lanes & 63).astype(np.uint64) & np.uint64(1) == 0
        both = np.stack([-np.logaddexp(0.0, bias), -np.logaddexp(0.0, -bias)], axis=1)
        sums = np.zeros((batches, self.n, 2 * ROWS), np.float32)
        if not exact.all():
            kernel = sweep_rows
            kernel(
                self.order, self.pairs, slots, words, rows.astype(np.float32),
                bias.astype(np.float32), burn_in, samples, counters, sums,
            )  # fmt: skip
        return np.exp(both).reshape(2 * self.n, ROWS), sums.reshape(batches, -1, ROWS), exact


@dataclass(frozen=True, eq=False)
class ByUnit:
    """Terms sorted by unit: those of unit u from `first[u]` on."""

    units: IntArray
    first: IntArray
    line: IntArray
    coefficient: FloatArray
    order: IntArray


def _by_unit(terms: Terms, count: int) -> ByUnit:
    order = np.argsort(terms.unit, kind="stable")
    first = np.searchsorted(terms.unit[order], np.arange(count + 1))
    return ByUnit(
        np.unique(terms.unit),
        packed(first, np.int64),
        packed(terms.line[order], np.int64),
        packed(terms.coefficient[order], np.float64),
        order,
    )


def _terms(projection: Projection, members: IntArray, units: IntArray) -> Terms:
    """Write units as terms of the log-odds of the variables they test."""
    form = projection.units
    features = form.features
    local = np.full(len(form.domain), -1, np.int64)
    local[members] = np.arange(len(members))
    is_one = features.tests.members()[:, :2].argmax(axis=1)
    code = 2 * local[features.entry_var] + is_one[features.indices]
    lengths = features.lengths[units]
    lines, owners, coefficients, tests = [], [], [], []
    for length in np.unique(lengths).tolist():
        rows = units[lengths == length]
        entry = features.indptr[rows][:, None] + np.arange(length)
        codes = code[entry]
        negative = codes % 2 == 0
        for j in range(length):
            own = form.own_entry[rows]
            mine = (own < 0) | (own == entry[:, j])
            others = [i for i in range(length) if i != j]
            expand = len(others) <= EXPANDED
            for taken in product((True, False), repeat=len(others)) if expand else [None]:
                sign = np.where(negative[:, j], -1.0, 1.0)
                chosen = mine.copy()
                listed = others
                if taken is not None:
                    listed = [i for i, take in zip(others, taken, strict=True) if take]
                    for i, take in zip(others, taken, strict=True):
                        if take:
                            sign *= np.where(negative[:, i], -1.0, 1.0)
                        else:
                            chosen &= negative[:, i]
                found = np.flatnonzero(chosen)
                conjunction = codes[np.ix_(found, listed)]
                lines.append(codes[found, j] // 2)
                owners.append(rows[found])
                coefficients.append(sign[found])
                tests.append(conjunction | 1 if expand else conjunction)
    if not lines:
        nothing = np.zeros(0, np.int64)
        return Terms(nothing, nothing, np.zeros(0), np.zeros(1, np.int64), nothing)
    count = np.concatenate([np.full(len(part), part.shape[1]) for part in tests])
    return Terms(
        np.concatenate(lines),
        np.concatenate(owners),
        np.concatenate(coefficients),
        np.concatenate([[0], np.cumsum(count)]),
        np.concatenate([part.ravel() for part in tests]),
    )


def _slots(
    terms: Terms, projection: Projection
) -> tuple[IntArray, IntArray, FloatArray, BoolArray, BoolArray]:
    """Group terms of one line with the same conjunction.

    Returns the slot of each term, the first term of each slot, the weight of each slot if all its units
    are alive, whether it has this weight in all rows in which it has any, and whether in all rows.
    """
    keys = row_keys(terms.first, terms.test, code_numbers(int(terms.test.max(initial=0)) + 1))
    salt = code_numbers(int(terms.line.max(initial=0)) + 1)[0][terms.line]
    order, starts, _ = group_equal(keys[0] + salt, keys[1] ^ salt)
    count = np.diff(np.append(starts, len(order)))
    slot = np.empty(len(order), np.int64)
    slot[order] = np.repeat(np.arange(len(starts)), count)
    static = np.bincount(
        slot,
        weights=terms.coefficient * projection.units.features.weights[terms.unit],
        minlength=len(starts),
    )
    changing = np.bincount(slot, weights=~projection.is_constant[terms.unit], minlength=len(starts))
    constant = changing == 0
    heads = order[starts]
    single = (count == 1) & projection.has_one_weight[terms.unit[heads]]
    return slot, heads, static, single | constant, constant


def _prefix_trees(
    conjunctions: Terms, lines: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Write the conjunctions of each line as a tree: a node is its parent and one more test.

    Frequent tests come first, so that many conjunctions share them. Returns where the nodes of each
    line start, their parents (counted from 1 within a line; 0 is the root), their tests, and the node
    of each conjunction.
    """
    count = np.diff(conjunctions.first)
    slot = np.repeat(np.arange(len(count)), count)
    tests = 2 * lines
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
