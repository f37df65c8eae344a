"""Gibbs chains of 128 rows of evidence side by side, for binary variables: one bit per row.

The rows in which a test holds are two words; those in which a conjunction holds are the AND of such
words, and its weight is added to the log-odds of these rows at once. The conjunctions in the log-odds of
a variable share their prefixes. Numbers are of single precision, and there are no branches per row.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import (
    add_lanes,
    add_row,
    compiled,
    inner,
    inner_fused,
    lanes_set,
    power_of_two,
)
from conjoin.kernels.layouts import (
    Float1,
    Float2,
    Int1,
    Int2,
    Single2,
    Single3,
    SlotArrays,
    Word1,
    Word2,
)
from conjoin.kernels.random_numbers import STEP, scatter
from conjoin.kernels.row_projection import ROWS

F = np.float32
ONE = np.uint64(1)
NONE = np.uint64(0)
ALL = ~NONE

TINY = 1e-12
"""Weights of smaller absolute value are rounding errors of weights that cancel."""


@compiled
def row_weights(
    units: Int1,
    weights: Float2,
    first: Int1,
    slot: Int1,
    coefficient: Float1,
    place: Int1,
    out: Float2,
) -> None:
    """Add the weights of units to those of the slots that they contribute to.

    Parameters
    ----------
    units : int64 array
        The units that are alive in some row.
    weights : float64, (units, 128)
        Their weights in each row.
    first, slot, coefficient
        The slots that each unit contributes to, and the factors.
    place : int64, (slots,)
        The index of each slot in `out`.
    out : float64, (slots that are used, 128)
        The weights of the slots in each row.
    """
    for i in range(len(units)):
        row = weights[i]
        for k in range(first[units[i]], first[units[i] + 1]):
            line, factor = out[place[slot[k]]], coefficient[k]
            for lane in range(ROWS):
                line[lane] += factor * row[lane]


@inner
def nonzero_lanes(row, start):
    """Return which of 64 weights are not 0, as bits."""
    word = NONE
    for lane in range(64):
        if abs(row[start + lane]) > TINY:
            word |= ONE << np.uint64(lane)
    return word


@compiled
def live_slots(
    slots: SlotArrays,
    unit_words: Word2,
    place: Int1,
    weights: Float2,
    out: SlotArrays,
    words: Word2,
    linked: Word2,
) -> None:
    """Keep the slots that are alive in some row, and their nodes.

    Parameters
    ----------
    slots : SlotArrays
        All slots.
    unit_words : uint64, (units, 2)
        The rows in which each unit is alive.
    place : int64
        The index of each slot with one weight per row in `weights`; -1 if it has none.
    weights : float64, (any, 128)
        Their weights.
    out : SlotArrays
        Arrays of the same sizes; set to the slots that are kept.
    words : uint64, (slots, 2)
        Set to the rows in which each kept slot is alive.
    linked : uint64, (lines, 2)
        Set to the rows in which the log-odds of each variable have any slot.
    """
    number = np.empty(len(slots.test) + 1, np.int64)  # of the kept nodes of a line
    linked[:] = NONE
    nodes, n = 0, 0
    for v in range(len(slots.part)):
        low, count = slots.node_first[v], slots.node_first[v + 1] - slots.node_first[v]
        number[: count + 1] = -1
        number[0] = 0
        out.part[v, 0] = n
        out.part[v, 1] = n
        for s in range(slots.part[v, 0], slots.part[v, 2]):
            source = slots.source[s]
            shared = s < slots.part[v, 1]
            if shared:
                a, b = unit_words[source, 0], unit_words[source, 1]
            else:
                source = place[source]
                if source < 0:
                    continue
                a, b = nonzero_lanes(weights[source], 0), nonzero_lanes(weights[source], 64)
            if a | b == NONE:
                continue
            linked[v, 0] |= a
            linked[v, 1] |= b
            words[n, 0], words[n, 1] = a, b
            out.node[n], out.source[n], out.weight[n] = slots.node[s], source, slots.weight[s]
            n += 1
            if shared:
                out.part[v, 1] = n
            above = np.int64(slots.node[s])
            while number[above] < 0:
                number[above] = 1
                above = np.int64(slots.parent[low + above - 1])
        out.part[v, 2] = n
        out.node_first[v] = nodes
        for k in range(1, count + 1):
            if number[k] > 0:
                out.parent[nodes] = number[slots.parent[low + k - 1]]
                out.test[nodes] = slots.test[low + k - 1]
                nodes += 1
                number[k] = nodes - out.node_first[v]
        for s in range(out.part[v, 0], n):
            out.node[s] = number[out.node[s]]
    out.node_first[len(slots.part)] = nodes


@inner
def seed_rows(counters, random):
    """Start the generators of all rows (xoshiro128+)."""
    for lane in range(ROWS):
        for k in range(2):
            word = scatter(counters[lane] + STEP * np.uint64(k + 1))
            random[2 * k * ROWS + lane] = np.uint32(word & np.uint64(0xFFFFFFFF))
            random[(2 * k + 1) * ROWS + lane] = np.uint32(word >> np.uint64(32))
        random[lane] |= np.uint32(1)


@inner_fused
def draw_rows(odds, random, ones, sums):
    """Draw a variable in all rows, given its log-odds; add its probabilities to the sums."""
    for lane in range(ROWS):
        x = odds[lane]
        t = max(abs(x) * F(-1.4426950408889634), F(-126.0))
        shifted = t + F(12582912.0)  # rounds to the nearest integer
        whole = shifted - F(12582912.0)
        r = t - whole
        e = F(1.3333558e-3)
        e = e * r + F(9.618129e-3)
        e = e * r + F(5.550411e-2)
        e = e * r + F(2.402265e-1)
        e = e * r + F(6.931472e-1)
        e = e * r + F(1.0)
        e *= power_of_two(whole)
        more = F(1.0) / (F(1.0) + e)
        less = e * more
        p = more if x >= F(0.0) else less
        q = less if x >= F(0.0) else more
        sums[lane] += q
        sums[ROWS + lane] += p
        a, b = random[lane], random[ROWS + lane]
        c, d = random[2 * ROWS + lane], random[3 * ROWS + lane]
        result = np.uint32(a + d)
        c2, d2 = np.uint32(c ^ a), np.uint32(d ^ b)
        random[lane] = np.uint32(a ^ d2)
        random[ROWS + lane] = np.uint32(b ^ c2)
        random[2 * ROWS + lane] = np.uint32(c2 ^ np.uint32(b << np.uint32(9)))
        random[3 * ROWS + lane] = np.uint32(
            np.uint32(d2 << np.uint32(11)) | np.uint32(d2 >> np.uint32(21))
        )
        u = F(np.int32(result >> np.uint32(8))) * F(1.0 / 16777216.0)
        ones[lane] = F(1.0) if u < p else F(0.0)


@inner
def node_words(start, end, parent, test, bits, low, high):
    """Find the rows in which the conjunctions of a line hold: those of the parent and a test."""
    low[0], high[0] = ALL, ALL
    parents, tests = parent[start:end], test[start:end]
    for k in range(len(parents)):
        p, t = parents[k], tests[k]
        low[k + 1] = low[p] & bits[t, 0]
        high[k + 1] = high[p] & bits[t, 1]


@inner
def true_slots(part, node, source, weight, alive, low, high, words, weights, which):
    """List the slots of a line that hold in some row, and the rows.

    Returns the end of the slots with a shared weight, padded to a multiple of four, and the end of all,
    padded to a multiple of two.
    """
    n = np.uint64(0)
    nodes, masks = node[part[0] : part[1]], alive[part[0] : part[1]]
    values = weight[part[0] : part[1]]
    for s in range(len(nodes)):
        k = nodes[s]
        a, b = low[k] & masks[s, 0], high[k] & masks[s, 1]
        words[0, n], words[1, n] = a, b
        weights[n] = values[s]
        n += np.uint64(a | b != NONE)
    while n % np.uint64(4) != NONE:
        words[0, n], words[1, n] = NONE, NONE
        weights[n] = F(0.0)
        n += ONE
    shared = n
    nodes, masks = node[part[1] : part[2]], alive[part[1] : part[2]]
    sources = source[part[1] : part[2]]
    for s in range(len(nodes)):
        k = nodes[s]
        a, b = low[k] & masks[s, 0], high[k] & masks[s, 1]
        words[0, n], words[1, n] = a, b
        which[n] = sources[s]
        n += np.uint64(a | b != NONE)
    while n % np.uint64(2) != NONE:
        words[0, n], words[1, n] = NONE, NONE
        which[n] = 0
        n += ONE
    return np.int64(shared), np.int64(n)


@inner
def add_slots(shared, end, words, weights, which, rows, odds):
    """Add the weights of listed slots to the log-odds of the rows in which they hold."""
    for half in range(2):
        part, word = odds[half * 64 : half * 64 + 64], words[half]
        for i in range(0, shared, 4):
            add_lanes(part, word[i], weights[i])
            add_lanes(part, word[i + 1], weights[i + 1])
            add_lanes(part, word[i + 2], weights[i + 2])
            add_lanes(part, word[i + 3], weights[i + 3])
        for i in range(shared, end, 2):
            one, two = rows[which[i]], rows[which[i + 1]]
            add_row(part, word[i], one[half * 64 : half * 64 + 64], F(1.0))
            add_row(part, word[i + 1], two[half * 64 : half * 64 + 64], F(1.0))


@inner_fused
def add_pairs(weight, ones, odds):
    """Add the weights that the states 1 of the other variables have in all rows.

    The variables come in fours, padded with weights of 0.
    """
    for j in range(0, len(weight), 4):
        w0, w1, w2, w3 = weight[j], weight[j + 1], weight[j + 2], weight[j + 3]
        four = ones[j * ROWS : (j + 4) * ROWS]
        for lane in range(ROWS):
            t = odds[lane] + w0 * four[lane]
            u = w1 * four[ROWS + lane]
            t += w2 * four[2 * ROWS + lane]
            u += w3 * four[3 * ROWS + lane]
            odds[lane] = t + u


@inner
def set_tests(v, ones, bits):
    """Set the rows in which a variable has state 1 and 0."""
    low, high = lanes_set(ones[:64]), lanes_set(ones[64:])
    bits[2 * v, 0], bits[2 * v, 1] = ~low, ~high
    bits[2 * v + 1, 0], bits[2 * v + 1, 1] = low, high


@compiled
def sweep_rows(
    order: Int1,
    pairs: Single2,
    slots: SlotArrays,
    alive: Word2,
    rows: Single2,
    bias: Single2,
    burn_in: int,
    samples: int,
    counters: Word1,
    sums: Single3,
) -> None:
    """Run one chain per row; set the sums of p(x=0), p(x=1) by batch and variable.

    Parameters
    ----------
    order : int64 array
        The order of a sweep.
    pairs : float32, (variables, variables or more)
        Weights of pairs of states 1 that all rows share, in addition to the slots; or without rows.
    slots : SlotArrays
        The other log-odds; `source` is an index into `rows`.
    alive : uint64, (slots, 2)
        The rows in which each slot is alive.
    rows : float32, (any, 128)
        The weights of the other slots.
    bias : float32, (variables, 128)
        The constant part of the log-odds.
    burn_in, samples : int
        The number of sweeps that are discarded and the number of those that count.
    counters : uint64, (128,)
        The random numbers of each row.
    sums : float32, (batches, variables, 256)
        The result.
    """
    n, batches, node_first = len(bias), len(sums), slots.node_first
    random = np.empty(4 * ROWS, np.uint32)
    odds = np.empty(ROWS, np.float32)
    ones = np.zeros(4 * ((n + 3) // 4) * ROWS, np.float32)
    now = np.zeros((n, 2 * ROWS), np.float32)
    bits = np.zeros((2 * n, 2), np.uint64)
    longest, deepest = 0, 0
    for v in range(n):
        longest = max(longest, slots.part[v, 2] - slots.part[v, 0])
        deepest = max(deepest, slots.node_first[v + 1] - slots.node_first[v])
    low, high = np.empty(deepest + 1, np.uint64), np.empty(deepest + 1, np.uint64)
    words = np.empty((2, longest + 8), np.uint64)
    weights = np.empty(longest + 8, np.float32)
    which = np.empty(longest + 8, np.int64)
    seed_rows(counters, random)
    for v in range(n):
        for lane in range(ROWS):
            word = scatter(counters[lane] - STEP * np.uint64(v // 64))
            ones[v * ROWS + lane] = F(np.int64(word >> np.uint64(v % 64)) & 1)
        set_tests(v, ones[v * ROWS : (v + 1) * ROWS], bits)
    batch = 0
    for sweep in range(burn_in + samples):
        for i in range(len(order)):
            v = order[i]
            odds[:] = bias[v]
            if len(pairs):
                add_pairs(pairs[v], ones, odds)
            if slots.part[v, 0] < slots.part[v, 2]:
                node_words(
                    node_first[v], node_first[v + 1], slots.parent, slots.test, bits, low, high
                )
                shared, end = true_slots(
                    slots.part[v], slots.node, slots.source, slots.weight, alive, low, high, words,
                    weights, which,
                )  # fmt: skip
                add_slots(shared, end, words, weights, which, rows, odds)
            own = ones[v * ROWS : (v + 1) * ROWS]
            draw_rows(odds, random, own, now[v])
            if longest:
                set_tests(v, own, bits)
        done = sweep + 1 - burn_in
        if done <= 0:
            now[:] = F(0.0)
        elif done * batches // samples > batch:
            sums[batch] = now
            now[:] = F(0.0)
            batch += 1


@compiled
def weighted_batches(batch: Single3, state: Int2, owner: Int1, scale: Float2, out: Float2) -> None:
    """Add, for each batch and row of evidence, the scaled sums of the states that its rows have."""
    for b in range(batch.shape[0]):
        for r in range(len(owner)):
            total = 0.0
            for k in range(state.shape[1]):
                total += scale[r, k] * batch[b, state[r, k], owner[r]]
            out[b, owner[r]] += total
