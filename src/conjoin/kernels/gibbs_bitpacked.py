"""Gibbs chains of 128 rows of evidence side by side: one bit per row and state.

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
    copy_into,
    inlined_fused,
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
    StateArrays,
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
        Set to the rows in which each line has any slot.
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


@inlined_fused
def exponential(x):
    """Return exp(x) of a number that is not positive."""
    t = max(x * F(1.4426950408889634), F(-126.0))
    shifted = t + F(12582912.0)  # rounds to the nearest integer
    whole = shifted - F(12582912.0)
    r = t - whole
    e = F(1.3333558e-3)
    e = e * r + F(9.618129e-3)
    e = e * r + F(5.550411e-2)
    e = e * r + F(2.402265e-1)
    e = e * r + F(6.931472e-1)
    e = e * r + F(1.0)
    return e * power_of_two(whole)


@inlined_fused
def next_uniform(random, lane):
    """Return the next random number of a row, from 0 to 1."""
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
    return F(np.int32(result >> np.uint32(8))) * F(1.0 / 16777216.0)


@inner_fused
def draw_binary(odds, random, ones, sums):
    """Draw a variable of two states in all rows; add its probabilities to the sums."""
    for lane in range(ROWS):
        x = odds[lane]
        e = exponential(-abs(x))
        more = F(1.0) / (F(1.0) + e)
        less = e * more
        p = more if x >= F(0.0) else less
        q = less if x >= F(0.0) else more
        sums[lane] += q
        sums[ROWS + lane] += p
        ones[lane] = F(1.0) if next_uniform(random, lane) < p else F(0.0)


@inner_fused
def draw_states(count, odds, random, ones, sums, top, total):
    """Draw a variable in all rows, given the log-odds of all states but the first.

    `odds`, `ones` and `sums` hold the numbers of one state after another; `odds` is overwritten.
    """
    top[:] = F(0.0)
    for s in range(count):
        x = odds[s * ROWS : (s + 1) * ROWS]
        for lane in range(ROWS):
            top[lane] = max(top[lane], x[lane])
    for lane in range(ROWS):
        total[lane] = exponential(-top[lane])
    for s in range(count):
        x = odds[s * ROWS : (s + 1) * ROWS]
        for lane in range(ROWS):
            x[lane] = exponential(x[lane] - top[lane])
            total[lane] += x[lane]
    for lane in range(ROWS):
        scale = F(1.0) / total[lane]
        sums[lane] += exponential(-top[lane]) * scale
        total[lane] = scale
        top[lane] = next_uniform(random, lane)  # from here on what is left of it
    for s in range(count):
        x, one = odds[s * ROWS : (s + 1) * ROWS], ones[s * ROWS : (s + 1) * ROWS]
        sums_of_state = sums[(s + 1) * ROWS : (s + 2) * ROWS]
        for lane in range(ROWS):
            p, left = x[lane] * total[lane], top[lane]
            sums_of_state[lane] += p
            one[lane] = F(1.0) if left >= F(0.0) and left < p else F(0.0)
            top[lane] = left - p


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
    """Add the weights that the states of the other variables, except the first, have in all rows.

    The states come in fours, padded with weights of 0.
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
def set_tests(v, first, set_first, member_first, member, ones, bits):
    """Find the rows in which the tests of a variable hold, given those in which it has each state.

    `ones` are the rows in which it has each state but the first.
    """
    low, high = NONE, NONE
    start = first[v]
    for s in range(1, first[v + 1] - start):
        at = (s - 1) * ROWS
        a, b = lanes_set(ones[at : at + 64]), lanes_set(ones[at + 64 : at + ROWS])
        bits[start + s, 0], bits[start + s, 1] = a, b
        low |= a
        high |= b
    bits[start, 0], bits[start, 1] = ~low, ~high
    n_states = first[len(first) - 1]
    for k in range(set_first[v], set_first[v + 1]):
        low, high = NONE, NONE
        for i in range(member_first[k], member_first[k + 1]):
            low |= bits[member[i], 0]
            high |= bits[member[i], 1]
        bits[n_states + k, 0], bits[n_states + k, 1] = low, high


@compiled
def sweep_rows(
    order: Int1,
    states: StateArrays,
    pairs: Single2,
    slots: SlotArrays,
    alive: Word2,
    rows: Single2,
    bias: Single2,
    burn_in: int,
    samples: int,
    counters: Word1,
    sums: Single2,
) -> None:
    """Run one chain per row; set the sums of the conditional probabilities by batch and state.

    Parameters
    ----------
    order : int64 array
        The order of a sweep.
    states : StateArrays
        The states of the variables, and the tests of them.
    pairs : float32, (lines, lines or more)
        Weights of pairs of states that all rows share, in addition to the slots; or without rows.
    slots : SlotArrays
        The other log-odds; `source` is an index into `rows`.
    alive : uint64, (slots, 2)
        The rows in which each slot is alive.
    rows : float32, (any, 128)
        The weights of the other slots.
    bias : float32, (lines, 128)
        The constant part of the log-odds.
    burn_in, samples : int
        The number of sweeps that are discarded and the number of those that count.
    counters : uint64, (128,)
        The random numbers of each row.
    sums : float32, (batches, states * 128)
        The result.
    """
    # Reading the members of tuples in a loop costs time: references to them are counted.
    part, node, source, weight = slots.part, slots.node, slots.source, slots.weight
    node_first, parent, test = slots.node_first, slots.parent, slots.test
    first, set_first, member_first, member = (
        states.first, states.set_first, states.member_first, states.member,
    )  # fmt: skip
    n, lines, batches = len(first) - 1, len(bias), len(sums)
    widest, longest, deepest = 1, 0, 0
    for v in range(n):
        widest = max(widest, first[v + 1] - first[v] - 1)
    for line in range(lines):
        longest = max(longest, part[line, 2] - part[line, 0])
        deepest = max(deepest, node_first[line + 1] - node_first[line])
    random = np.empty(4 * ROWS, np.uint32)
    odds = np.empty(widest * ROWS, np.float32)
    top, total = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32)
    ones = np.zeros(4 * ((lines + 3) // 4) * ROWS, np.float32)
    now = np.zeros(first[n] * ROWS, np.float32)
    bits = np.zeros((first[n] + set_first[n], 2), np.uint64)
    low, high = np.empty(deepest + 1, np.uint64), np.empty(deepest + 1, np.uint64)
    words = np.empty((2, longest + 8), np.uint64)
    weights = np.empty(longest + 8, np.float32)
    which = np.empty(longest + 8, np.int64)
    seed_rows(counters, random)
    for v in range(n):
        start = first[v] - v
        for lane in range(ROWS):
            drawn = scatter(counters[lane] - STEP * np.uint64(v)) >> np.uint64(16)
            s = np.int64(drawn % np.uint64(first[v + 1] - first[v]))
            if s > 0:
                ones[(start + s - 1) * ROWS + lane] = F(1.0)
        set_tests(v, first, set_first, member_first, member, ones[start * ROWS :], bits)
    batch = 0
    for sweep in range(burn_in + samples):
        for i in range(len(order)):
            v = order[i]
            start, count = first[v] - v, first[v + 1] - first[v] - 1
            for k in range(count):
                line, mine = start + k, odds[k * ROWS : (k + 1) * ROWS]
                copy_into(mine, bias[line])
                if len(pairs):
                    add_pairs(pairs[line], ones, mine)
                if part[line, 0] < part[line, 2]:
                    node_words(
                        node_first[line], node_first[line + 1], parent, test, bits, low, high
                    )
                    shared, end = true_slots(
                        part[line], node, source, weight, alive, low, high, words, weights, which
                    )
                    add_slots(shared, end, words, weights, which, rows, mine)
            own = ones[start * ROWS : (start + count) * ROWS]
            sums_of_own = now[first[v] * ROWS : first[v + 1] * ROWS]
            if count == 1:
                draw_binary(odds, random, own, sums_of_own)
            else:
                draw_states(count, odds, random, own, sums_of_own, top, total)
            if longest:
                set_tests(v, first, set_first, member_first, member, own, bits)
        done = sweep + 1 - burn_in
        if done <= 0:
            now[:] = F(0.0)
        elif done * batches // samples > batch:
            copy_into(sums[batch], now)
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
