"""Marginals of some variables given the others, row by row, in the fastest way that a network allows.

An engine is made once for a set of free variables, and then asked for block after block of rows. All
have the same shape: `marginals(codes, counters)` returns the marginals, their batch means and what is
exact. Which one is used does not depend on the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import Float32Array, FloatArray, IntArray, UIntArray
from conjoin.data.table import Codes
from conjoin.sampling.chain import Sampler
from conjoin.sampling.engine import BLOCK, Engine, Marginals, Settings, filled
from conjoin.sampling.residual import Residual, fits, project
from conjoin.sampling.rules import Rules
from conjoin.sampling.wide import BitEngine, Layout, LiveEngine

MAX_LANES_VARIABLES = 32
"""The bits of a lane's word. Up to here lanes are faster than `BitEngine`, and enumerate."""

MAX_BIT_WORK = 1 << 22
"""Up to how many tests rows are sampled side by side, as bits: they should not fill the memory."""


def engine_for(rules: Rules, free: Sequence[int], order: IntArray, settings: Settings) -> Engine:
    """Return the fastest engine for a network and free variables.

    Parameters
    ----------
    rules : Rules
        The network.
    free : sequence of int
        Positions of the free variables, ascending.
    order : array of int
        The order of a sweep, over all variables.
    settings : Settings
        How chains are run.
    """
    place = {int(v): k for k, v in enumerate(free)}
    local = np.array([place[v] for v in order.tolist() if v in place], np.int64)
    binary = bool((rules.domain.cards[list(free)] == 2).all())
    wild = bool((rules.features.weights < rules.breaking).any())  # too wild for single precision
    narrow = binary and not wild and len(free) <= MAX_LANES_VARIABLES
    if narrow and rules.features.off is None and rules.features.lengths.max(initial=0) <= 2:
        return PairEngine(rules, np.array(free, np.int64), local, settings)
    if fits(rules, free):
        return ResidualEngine(project(rules, free), local, rules.joint, narrow, settings)
    if not wild and rules.features.off is None:
        layout = Layout.of(rules, free)
        if binary and layout.work() <= MAX_BIT_WORK:
            return BitEngine(layout, local, settings)
        return LiveEngine(layout, local, settings)
    return ChainEngine(rules, np.array(free, np.int64), order, settings)


def _lanes(
    shape: tuple[Any, ...],
    pairs: Float32Array,
    bias: Float32Array,
    order: IntArray,
    counters: UIntArray,
    settings: Settings,
) -> Float32Array:
    """Run binary chains side by side; return sums, batches by states by lanes."""
    from conjoin.kernels.lanes import LANES, sweep_lanes

    sums = np.zeros((settings.batches, len(bias), 2 * LANES), np.float32)
    starts = np.zeros(LANES, np.uint64)
    starts[: len(counters)] = counters
    kernel: Any = sweep_lanes
    kernel(order, *shape, pairs, bias, settings.burn_in, settings.samples, starts, sums)
    return sums.reshape(settings.batches, 2 * len(bias), LANES)


NO_SLOTS = (
    np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.uint32),
    np.zeros((0, BLOCK), np.float32),
)  # fmt: skip
NO_PAIRS: Float32Array = np.zeros((0, 4), np.float32)


class PairEngine:
    """Networks of biases and pairs: what is known of a row only shifts the biases.

    Parameters
    ----------
    rules : Rules
        Features of at most two tests.
    free : array of int
        Binary variables.
    order : array of int
        The order of a sweep, within the free variables.
    settings : Settings
        How chains are run.
    """

    def __init__(self, rules: Rules, free: IntArray, order: IntArray, settings: Settings) -> None:
        self.settings, self.order, self.joint = settings, order, rules.joint
        features, n = rules.features, len(free)
        self.tests = features.tests
        local = np.full(len(rules.domain), -1, np.int64)
        local[free] = np.arange(n)
        place = local[self.tests.var]
        on = self.tests.members(card=2)[:, 1]
        self.bias = np.zeros(n)
        self.pairs = np.zeros((n, n))
        shift = np.zeros((len(self.tests), n))
        for length in (1, 2):
            rows = np.flatnonzero(features.lengths == length)
            index = features.indices[features.indptr[rows][:, None] + np.arange(length)]
            for j in range(length):
                own = index[:, j]
                mine = place[own] >= 0
                if rules.owner is not None:
                    mine &= self.tests.var[own] == rules.owner[rows]
                target = place[own[mine]]
                weight = np.where(on[own[mine]], 1.0, -1.0) * features.weights[rows[mine]]
                if length == 1:
                    np.add.at(self.bias, target, weight)
                    continue
                other = index[mine, 1 - j]
                inside = place[other] >= 0
                np.add.at(shift, (other[~inside], target[~inside]), weight[~inside])
                other, target, weight = other[inside], target[inside], weight[inside]
                off = ~on[other]
                np.add.at(self.bias, target[off], weight[off])
                signed = np.where(off, -weight, weight)
                np.add.at(self.pairs, (target, place[other]), signed)
        self.used = np.flatnonzero(shift.any(axis=1))
        self.shift = shift[self.used]

    @cached_property
    def components(self) -> list[IntArray]:
        """The free variables, those that depend on each other together."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        _, label = connected_components(csr_array(self.pairs != 0), directed=False)
        return [np.flatnonzero(label == k) for k in range(label.max(initial=-1) + 1)]

    def marginals(self, codes: Codes, counters: UIntArray) -> Marginals:
        """Return marginals given each row (see `Engine`)."""
        tests, n = self.tests, len(self.bias)
        truth = _truth(tests.mask[self.used], tests.var[self.used], codes)
        bias = self.bias + truth @ self.shift
        mean = np.zeros((len(codes), 2 * n))
        batch = np.zeros((self.settings.batches, 2 * n, BLOCK), np.float32)
        exact = np.zeros((len(codes), n), bool)
        for members in self.components:
            states = (2 * members[:, None] + np.arange(2)).ravel()
            small = self.joint and 1 << len(members) <= self.settings.limit(len(members))
            if small or len(members) == 1:
                exact[:, members] = True
                mean[:, states] = self._enumerated(members, bias[:, members])
                continue
            place = np.full(n, -1, np.int64)
            place[members] = np.arange(len(members))
            order = place[self.order]
            wide = np.zeros((len(members), BLOCK), np.float32)
            wide[:, : len(codes)] = bias[:, members].T
            four = -(-len(members) // 4) * 4
            pairs = np.zeros((len(members), four), np.float32)
            pairs[:, : len(members)] = self.pairs[np.ix_(members, members)]
            sums = _lanes(NO_SLOTS, pairs, wide, order[order >= 0], counters, self.settings)
            if len(members) == n:
                batch = sums
            else:
                batch[:, states] = sums
        return filled(mean, batch, exact, np.full(n, 2), self.settings)

    def _enumerated(self, members: IntArray, bias: FloatArray) -> FloatArray:
        size = len(members)
        states = (np.arange(1 << size)[:, None] >> np.arange(size) & 1).astype(np.float64)
        own = self.pairs[np.ix_(members, members)]
        logs = bias @ states.T + 0.5 * ((states @ own) * states).sum(axis=1)
        p = np.exp(logs - logs.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        both = np.stack([p @ (1.0 - states), p @ states], axis=2)
        return both.reshape(len(bias), 2 * size)


def _truth(mask: UIntArray, var: npt.NDArray[np.int32], codes: Codes) -> FloatArray:
    """Return which tests hold, rows by tests, as numbers."""
    column = codes[:, var]
    word = mask[np.arange(len(var)), column >> 6] if mask.shape[1] > 1 else mask[:, 0]
    return (word >> (column & 63).astype(np.uint64) & np.uint64(1)).astype(np.float64)


class ResidualEngine:
    """Any features, over so few free variables that a word holds their states.

    Parameters
    ----------
    residual : Residual
        The projected features.
    order : array of int
        The order of a sweep, within the free variables.
    joint : bool
        Whether the conditionals have a joint distribution, so that states can be enumerated.
    narrow : bool
        Whether rows can be sampled side by side.
    settings : Settings
        How chains are run.
    """

    def __init__(
        self, residual: Residual, order: IntArray, joint: bool, narrow: bool, settings: Settings
    ) -> None:
        self.residual, self.order, self.joint = residual, order, joint
        self.settings, self.narrow = settings, narrow
        self.place: IntArray = np.zeros(0, np.int64)
        if narrow:
            mask = residual.slot_mask
            v = np.arange(len(residual.cards), dtype=np.uint64)
            zero = (mask[:, None] >> (2 * v) & np.uint64(1)).astype(bool)  # forbids x = 0
            one = (mask[:, None] >> (2 * v + np.uint64(1)) & np.uint64(1)).astype(bool)
            bits = np.uint32(1) << v.astype(np.uint32)
            self.value = np.bitwise_or.reduce(np.where(zero, bits, np.uint32(0)), axis=1)
            self.mask = np.bitwise_or.reduce(np.where(zero | one, bits, np.uint32(0)), axis=1)
            self.place = np.where(mask == 0, -1, np.arange(len(mask)))

    def marginals(self, codes: Codes, counters: UIntArray) -> Marginals:
        """Return marginals given each row (see `Engine`)."""
        from conjoin.kernels.residual import marginals

        residual, settings = self.residual, self.settings
        rows, n, width = len(codes), len(residual.cards), int(residual.cards.sum())
        mean = np.zeros((rows, width))
        exact = np.zeros((rows, n), bool)
        sums = np.zeros((rows, 0 if self.narrow else settings.batches, width))
        weight = np.zeros((max(1, len(self.place)) if self.narrow else 0, BLOCK), np.float32)
        bias = np.zeros((n, BLOCK), np.float32)
        kernel: Any = marginals
        unsure = kernel(
            np.ascontiguousarray(codes, np.uint16), counters, *residual.arrays, self.order,
            residual.cards, residual.bit, residual.first_line, self.joint, settings.limit(n),
            settings.burn_in, settings.samples, mean, sums, exact, self.place, weight, bias,
        )  # fmt: skip
        batch = np.ascontiguousarray(sums.transpose(1, 2, 0), np.float32)
        if unsure and self.narrow:
            shape = self._shape(weight)
            batch = _lanes(shape, NO_PAIRS, bias, self.order, counters, settings)
        return filled(mean, batch, exact, residual.cards, settings)

    def _shape(self, weight: Float32Array) -> tuple[Any, ...]:
        from conjoin.kernels.lanes import compacted

        room = len(self.mask) + 4 * len(self.residual.slot_ptr)
        ptr = np.zeros(len(self.residual.slot_ptr), np.int64)
        mask, value = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
        packed = np.zeros((room, BLOCK), np.float32)
        compacted(self.residual.slot_ptr, self.mask, self.value, weight, ptr, mask, value, packed)
        return ptr, mask, value, packed


class ChainEngine:
    """Any network at all: a chain set up for each row, which looks for a possible state first.

    Parameters
    ----------
    rules : Rules
        The network.
    free : array of int
        The free variables.
    order : array of int
        The order of a sweep, over all variables.
    settings : Settings
        How chains are run.
    """

    def __init__(self, rules: Rules, free: IntArray, order: IntArray, settings: Settings) -> None:
        self.rules, self.free, self.order, self.settings = rules, free, order, settings

    def marginals(self, codes: Codes, counters: UIntArray) -> Marginals:
        """Return marginals given each row (see `Engine`)."""
        settings, cards = self.settings, self.rules.domain.cards
        known = np.setdiff1d(np.arange(len(cards)), self.free)
        first = np.cumsum(cards) - cards
        states = np.concatenate([first[v] + np.arange(cards[v]) for v in self.free])
        batch = np.zeros((settings.batches, len(states), len(codes)), np.float32)
        mean = np.zeros((len(codes), len(states)))
        for r, row in enumerate(codes):
            given = dict(zip(known.tolist(), row[known].tolist(), strict=True))
            chain = Sampler(self.rules, given, self.order).chain(
                np.random.SeedSequence(int(counters[r]))
            )
            chain.burn_in(settings.burn_in)
            sums = chain.run(settings.samples, batches=settings.batches)[1][:, states]
            batch[:, :, r] = sums
            mean[r] = sums.sum(axis=0) / settings.samples
        return mean, batch, np.zeros((len(codes), len(self.free)), bool)
