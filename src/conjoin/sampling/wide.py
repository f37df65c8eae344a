"""Marginals of many variables given all others, for blocks of rows (see `kernels.wide`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.table import Codes
from conjoin.models.features import segment_index
from conjoin.sampling.engine import BLOCK, Marginals, Settings, filled
from conjoin.sampling.residual import equal_projections, relevant
from conjoin.sampling.rules import Rules

MANY = 4
"""From how many on features with the same free tests are joined, with one weight for each row."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The features that enter the log-odds of free variables, their known and free tests apart.

    Features that are alike but for known tests stand side by side. The tests of the free variables
    come first, by variable.

    Attributes
    ----------
    cards : array of int
        The number of states of each free variable.
    weights : array of float
        The weights of the features.
    projection : array of int
        A number for each, the same for those whose free tests are the same.
    own : array of int
        Which of its free tests is that of the owner; -1 if a feature enters the log-odds of all.
    known_ptr, known_test, free_ptr, free_test : arrays of int
        The known and the free tests of each feature.
    test_ptr : array of int
        Where the tests of each free variable start.
    test_var : array of int
        The variable of each test: within the free ones or, if it is known, among all.
    member : array of bool, shape (tests, states)
        The states that satisfy each test.
    mask : array of uint64
        The same as bits.
    """

    cards: IntArray
    weights: FloatArray
    projection: IntArray
    own: IntArray
    known_ptr: IntArray
    known_test: IntArray
    free_ptr: IntArray
    free_test: IntArray
    test_ptr: IntArray
    test_var: IntArray
    member: BoolArray
    mask: UIntArray

    @classmethod
    def of(cls, rules: Rules, free: Sequence[int]) -> Layout:
        """Lay out the features of a network without off values."""
        cards = rules.domain.cards
        local = np.full(len(cards), -1, np.int64)
        local[list(free)] = np.arange(len(free))
        features, owner = relevant(rules, local)
        number = equal_projections(features, owner, np.zeros(len(features), bool), local)
        place = np.argsort(number, kind="stable")
        features, number = features.select(place), number[place]
        var = features.tests.var.astype(np.int64)
        inside = local[var] >= 0
        chosen = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
        where = np.empty(len(var), np.int64)
        where[chosen] = np.arange(len(chosen))
        here = inside[features.indices]
        free_ptr = np.concatenate([[0], np.cumsum(here)])[features.indptr]
        own = np.full(len(features), -1, np.int64)
        if owner is not None:
            entry = np.flatnonzero(here)
            feature = features.entry_feature[entry]
            mine = np.flatnonzero(features.entry_var[entry] == owner[place][feature])
            own[feature[mine]] = mine - free_ptr[feature[mine]]
        return cls(
            np.ascontiguousarray(cards[list(free)]),
            features.weights,
            number,
            own,
            np.concatenate([[0], np.cumsum(~here)])[features.indptr],
            where[features.indices[~here]],
            free_ptr,
            where[features.indices[here]],
            np.searchsorted(local[var[inside]], np.arange(len(free) + 1)).astype(np.int64),
            np.concatenate([local[var[inside]], var[~inside]]),
            features.tests.members()[chosen],
            np.ascontiguousarray(features.tests.mask[chosen]),
        )

    @property
    def lengths(self) -> IntArray:
        """How many free tests each feature has."""
        return np.diff(self.free_ptr)

    def work(self) -> int:
        """Return how many tests a sweep of `BitEngine` looks at."""
        first = np.diff(self.projection, prepend=-1) != 0
        lengths = self.lengths[first]
        return int(np.where(self.own[first] < 0, lengths * (lengths - 1), lengths - 1).sum())

    def living(self, codes: Codes) -> tuple[UIntArray, UIntArray]:
        """Return where the known tests hold, and where all of a feature do, a bit a row."""
        from conjoin.kernels.wide import living

        bits = np.zeros((len(self.test_var), BLOCK // 64), np.uint64)
        live = np.zeros((len(self.weights), BLOCK // 64), np.uint64)
        kernel: Any = living
        kernel(
            np.ascontiguousarray(codes, np.uint16), int(self.test_ptr[-1]), self.test_var, self.mask,
            self.known_ptr, self.known_test, bits, live,
        )  # fmt: skip
        return bits, live


class BitEngine:
    """Rows side by side: binary variables, in a network whose features have few free tests.

    Parameters
    ----------
    layout : Layout
        The features.
    order : array of int
        The order of a sweep, within the free variables.
    settings : Settings
        How chains are run.
    """

    def __init__(self, layout: Layout, order: IntArray, settings: Settings) -> None:
        self.layout, self.settings = layout, settings
        n, lengths = len(layout.cards), layout.lengths
        member = layout.member[: layout.test_ptr[-1], :2]
        gain = member[:, 1].astype(np.float64) - member[:, 0]  # what a test adds to the log-odds
        self.on_zero, self.on_one = (
            np.where(member[:, s], ~np.uint64(0), np.uint64(0)) for s in (0, 1)
        )
        feature = np.repeat(np.arange(len(lengths)), lengths)
        entry = np.arange(len(feature))
        line = layout.test_var[layout.free_test]
        weight = layout.weights[feature] * gain[layout.free_test]
        mine = layout.own[feature]
        asked = (mine < 0) | (entry == layout.free_ptr[feature] + mine)
        alone = np.flatnonzero(asked & (lengths[feature] == 1))
        self.single = feature[alone], line[alone], weight[alone]
        slots = np.flatnonzero(asked & (lengths[feature] > 1))
        slots, unit, self.unit_first, self.unit_end = self._units(slots, feature, line)
        several = self.unit_end[unit] - self.unit_first[unit] > 1
        place = np.lexsort((unit, several, line[slots]))
        slots, unit, several = slots[place], unit[place], several[place]
        nodes = self._nodes(slots, feature, line)
        used = np.zeros(n, bool)
        used[line[slots]] = True
        used[layout.test_var[nodes[2]]] = True
        self.order = order[used[order]]  # no one asks for the states of the rest
        own_weight = np.where(several, gain[layout.free_test[slots]], weight[slots])
        starts = np.searchsorted(line[slots], np.arange(n + 1)).astype(np.int64)
        self.slots = (*nodes[:3], starts, nodes[3], unit, own_weight.astype(np.float32))

    def _units(
        self, slots: IntArray, feature: IntArray, line: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Join features whose free tests are the same, if they are many.

        Returns, of the entries given, those of the first feature of each unit; the units; and where
        the features of each unit start and end.
        """
        number = self.layout.projection
        new = np.diff(number, prepend=-1) != 0
        group = np.cumsum(new) - 1
        new |= np.bincount(group)[group] < MANY
        slots = slots[new[feature[slots]]]
        # Units are numbered as the lines have them, so that those of a line lie together.
        slots = slots[np.argsort(line[slots], kind="stable")]
        start, first, unit = np.unique(feature[slots], return_index=True, return_inverse=True)
        come = np.argsort(first)
        ends = np.append(np.flatnonzero(new), len(number))
        end = ends[np.searchsorted(ends, start) + 1]
        return slots, np.argsort(come)[unit], start[come], end[come]

    def _nodes(
        self, slots: IntArray, feature: IntArray, line: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Write the other tests of all slots of a line as one tree: a node is its parent and a test.

        Frequent tests come first, so that many share them. Returns where the nodes of each line
        start, their parents (counted from 1 in a line; 0 is the root), their tests, and the nodes of
        the slots.
        """
        layout = self.layout
        count = layout.lengths[feature[slots]]
        entry = segment_index(layout.free_ptr[feature[slots]], count)
        mine = entry != np.repeat(slots, count)
        slot, test = np.repeat(np.arange(len(slots)), count)[mine], layout.free_test[entry[mine]]
        tests = int(layout.test_ptr[-1])
        rank = np.empty(tests, np.int64)
        rank[np.argsort(-np.bincount(test, minlength=tests), kind="stable")] = np.arange(tests)
        place = np.lexsort((rank[test], slot))
        test, first = test[place], np.cumsum(count - 1) - (count - 1)
        # Level by level: `at` is the node that each slot has come to, at first the root of its line.
        roots = len(layout.cards)
        at = line[slots].copy()
        parents, labels, total = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], roots
        for level in range(int(count.max(initial=1)) - 1):
            here = np.flatnonzero(count - 1 > level)
            key, where = np.unique(
                at[here] * tests + test[first[here] + level], return_inverse=True
            )
            parents.append(key // tests)
            labels.append(key % tests)
            at[here] = total + where
            total += len(key)
        parent, label = np.concatenate(parents), np.concatenate(labels)
        root = np.arange(total)
        low = roots
        for part in parents[1:]:
            root[low : low + len(part)] = root[part]
            low += len(part)
        order = np.argsort(root[roots:], kind="stable")
        node_ptr = np.searchsorted(root[roots:][order], np.arange(roots + 1)).astype(np.int64)
        local = np.zeros(total, np.int64)
        local[roots + order] = np.arange(len(order)) - node_ptr[root[roots:][order]] + 1
        return node_ptr, local[parent[order]], label[order], local[at]

    def marginals(self, codes: Codes, counters: UIntArray) -> Marginals:
        """Return marginals given each row (see `Engine`)."""
        from conjoin.kernels.bits import biases, living_slots, living_units, sweep_bits

        layout, settings = self.layout, self.settings
        n, rows, units = len(layout.cards), len(codes), len(self.unit_first)
        bits, live = layout.living(codes)
        bias = np.zeros((n, BLOCK))
        kernel: Any = biases
        kernel(live, *self.single, bias)
        alive, place = np.zeros((units, BLOCK // 64), np.uint64), np.zeros(units, np.int64)
        several = int((self.unit_end - self.unit_first > 1).sum())
        weights = np.zeros((several, BLOCK), np.float32)
        kernel = living_units
        kernel(live, layout.weights, self.unit_first, self.unit_end, alive, place, weights)
        nodes, count = len(self.slots[1]), len(self.slots[4])
        linked = np.zeros((n, BLOCK // 64), np.uint64)
        slots = (
            np.zeros(n + 1, np.int64), np.zeros(nodes, np.uint32), np.zeros(nodes, np.uint32),
            np.zeros((n, 3), np.int64), np.zeros(count, np.uint32), np.zeros(count, np.uint32),
            np.zeros(count, np.float32),
        )  # fmt: skip
        kernel = living_slots
        kernel(alive, place, *self.slots, *slots, linked)
        at = np.arange(rows)
        exact = linked[:, at >> 6].T >> (at & 63).astype(np.uint64)[:, None] & np.uint64(1) == 0
        mean = np.empty((rows, n, 2))
        for state, sign in ((0, 1.0), (1, -1.0)):
            mean[:, :, state] = np.exp(-np.logaddexp(0.0, sign * bias[:, :rows].T))
        sums = np.zeros((settings.batches, n, 2 * BLOCK), np.float32)
        if not exact.all():
            starts = np.zeros(BLOCK, np.uint64)
            starts[:rows] = counters
            kernel = sweep_bits
            kernel(
                self.order, alive, weights, *slots, layout.test_ptr, self.on_zero, self.on_one, bits,
                bias.astype(np.float32), settings.burn_in, settings.samples, starts, sums,
            )  # fmt: skip
        batch = sums.reshape(settings.batches, 2 * n, BLOCK)
        return filled(mean.reshape(rows, 2 * n), batch, exact, layout.cards, settings)


class LiveEngine:
    """Rows one by one, each with the features that are alive in it: no off values, no hard rules.

    Parameters
    ----------
    layout : Layout
        The features.
    order : array of int
        The order of a sweep, within the free variables.
    settings : Settings
        How chains are run.
    """

    def __init__(self, layout: Layout, order: IntArray, settings: Settings) -> None:
        self.layout, self.order, self.settings = layout, order, settings
        cards, tests = layout.cards, int(layout.test_ptr[-1])
        first = np.cumsum(cards) - cards
        var = layout.test_var[:tests]
        inside = layout.member[:tests].copy()
        inside &= np.arange(inside.shape[1]) < cards[var][:, None]
        which, state = np.nonzero(inside)
        state_ptr = np.searchsorted(which, np.arange(tests + 1)).astype(np.int64)
        self._arrays = (
            order, cards, first, layout.test_ptr, var, np.ascontiguousarray(layout.mask[:tests]),
            state_ptr, first[var[which]] + state,
        )  # fmt: skip

    def marginals(self, codes: Codes, counters: UIntArray) -> Marginals:
        """Return marginals given each row (see `Engine`)."""
        from conjoin.kernels.wide import chains

        layout, settings = self.layout, self.settings
        rows, n, width = len(codes), len(layout.cards), int(layout.cards.sum())
        _, live = layout.living(codes)
        mean, exact = np.zeros((rows, width)), np.zeros((rows, n), bool)
        sums = np.zeros((rows, settings.batches, width))
        kernel: Any = chains
        kernel(
            rows, counters, live, layout.weights, layout.projection, layout.free_ptr,
            layout.free_test, layout.own, *self._arrays, settings.burn_in, settings.samples, mean,
            sums, exact,
        )  # fmt: skip
        batch = np.ascontiguousarray(sums.transpose(1, 2, 0), np.float32)
        return filled(mean, batch, exact, layout.cards, settings)
