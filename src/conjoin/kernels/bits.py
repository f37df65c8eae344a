"""Gibbs chains of 128 rows side by side, for any number of binary variables: one bit a row.

Where a test holds is two words; where a conjunction does is their AND, and its weight is added to the
log-odds of those rows at once. Conjunctions that a variable's log-odds ask for share their prefixes.
Units are features that are alike but for tests of known variables: they have one weight, or, if they
are several joined, one for each row.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import add_lanes, add_row, compiled, inner, lanes_set
from conjoin.kernels.lanes import LANES, draw, end_sweep, seed
from conjoin.kernels.random import STEP, scatter

F = np.float32
ONE = np.uint64(1)
NONE = np.uint64(0)
ALL = ~NONE


@compiled
def biases(live, single, single_var, single_weight, out):
    """Add up, for each row, what the features with one free test say."""
    out[:] = 0.0
    for k in range(len(single)):
        line = out[single_var[k]]
        for half in range(2):
            word = live[single[k], half]
            if word != NONE:
                add_lanes(line[half * 64 : half * 64 + 64], word, single_weight[k])


@compiled
def living_units(live, weight, unit_first, unit_end, alive, place, rows):
    """Join the features of each unit, which are alike but for known tests.

    Sets in which rows any is alive, as bits, and where there are several the sum of their weights in
    each row, at a `place` among `rows`.
    """
    total = np.empty(LANES)
    place[:] = -1
    n = 0
    for u in range(len(unit_first)):
        a, b = NONE, NONE
        for f in range(unit_first[u], unit_end[u]):
            a |= live[f, 0]
            b |= live[f, 1]
        alive[u, 0], alive[u, 1] = a, b
        if unit_end[u] - unit_first[u] > 1 and a | b != NONE:
            total[:] = 0.0
            for f in range(unit_first[u], unit_end[u]):
                add_lanes(total[:64], live[f, 0], weight[f])
                add_lanes(total[64:], live[f, 1], weight[f])
            for lane in range(LANES):
                rows[n, lane] = F(total[lane])
            place[u] = n
            n += 1


@compiled
def living_slots(
    alive, place, node_ptr, node_parent, node_test, line_ptr, slot_node, slot_unit, slot_weight,
    new_node_ptr, parent, test, parts, node, unit, weight, linked,
):  # fmt: skip
    """Keep the slots that are alive in any row, and their nodes.

    Slots with one weight come before those with one for each row in a line; `parts` says where they
    start, where these start, and where they end. `linked` is set to the rows, as bits, in which a
    variable has any slot.
    """
    number = np.empty(len(node_test) + 1, np.int64)  # of the nodes of a line
    linked[:] = NONE
    nodes, n = 0, 0
    for v in range(len(line_ptr) - 1):
        first, count = node_ptr[v], node_ptr[v + 1] - node_ptr[v]
        number[: count + 1] = -1
        number[0] = 0
        for s in range(line_ptr[v], line_ptr[v + 1]):
            u, k = slot_unit[s], slot_node[s]
            if alive[u, 0] | alive[u, 1] != NONE:
                while number[k] < 0:
                    number[k] = 1
                    k = node_parent[first + k - 1]
        new_node_ptr[v] = nodes
        for k in range(1, count + 1):
            if number[k] > 0:
                parent[nodes] = number[node_parent[first + k - 1]]
                test[nodes] = node_test[first + k - 1]
                nodes += 1
                number[k] = nodes - new_node_ptr[v]
        parts[v, 0] = n
        parts[v, 1] = n
        for s in range(line_ptr[v], line_ptr[v + 1]):
            u = slot_unit[s]
            if alive[u, 0] | alive[u, 1] != NONE:
                linked[v, 0] |= alive[u, 0]
                linked[v, 1] |= alive[u, 1]
                node[n] = number[slot_node[s]]
                weight[n] = slot_weight[s]
                unit[n] = u if place[u] < 0 else place[u]
                n += 1
                if place[u] < 0:
                    parts[v, 1] = n
        parts[v, 2] = n
    new_node_ptr[len(line_ptr) - 1] = nodes


@inner
def hold_nodes(start, end, parent, test, bits, low, high):
    """Find where the conjunctions of a line hold: each is one that came before, and a test."""
    low[0], high[0] = ALL, ALL
    parents, tests = parent[start:end], test[start:end]
    for k in range(len(parents)):
        p, t = parents[k], tests[k]
        low[k + 1] = low[p] & bits[t, 0]
        high[k + 1] = high[p] & bits[t, 1]


@inner
def true_slots(parts, node, unit, weight, alive, low, high, words, weights, which):
    """List the slots of a line that hold in any row, and where.

    Returns the length of the list up to those with one weight, filled up to fours, and in all, filled
    up to twos.
    """
    n = np.uint64(0)
    nodes, units = node[parts[0] : parts[1]], unit[parts[0] : parts[1]]
    values = weight[parts[0] : parts[1]]
    for s in range(len(nodes)):
        u, k = units[s], nodes[s]
        a, b = low[k] & alive[u, 0], high[k] & alive[u, 1]
        words[0, n], words[1, n] = a, b
        weights[n] = values[s]
        n += np.uint64(a | b != NONE)
    while n % np.uint64(4) != NONE:
        words[0, n], words[1, n] = NONE, NONE
        weights[n] = F(0.0)
        n += ONE
    single = n
    nodes, units = node[parts[1] : parts[2]], unit[parts[1] : parts[2]]
    values = weight[parts[1] : parts[2]]
    for s in range(len(nodes)):  # where nothing of the unit is alive its weight is 0
        k = nodes[s]
        words[0, n], words[1, n] = low[k], high[k]
        weights[n] = values[s]
        which[n] = units[s]
        n += np.uint64(low[k] | high[k] != NONE)
    while n % np.uint64(2) != NONE:
        words[0, n], words[1, n] = NONE, NONE
        weights[n] = F(0.0)
        which[n] = 0
        n += ONE
    return np.int64(single), np.int64(n)


@inner
def add_slots(single, end, words, weights, which, rows, odds):
    """Add the weights of listed slots to the log-odds of the rows where they hold."""
    for half in range(2):
        part, word = odds[half * 64 : half * 64 + 64], words[half]
        for i in range(0, single, 4):
            add_lanes(part, word[i], weights[i])
            add_lanes(part, word[i + 1], weights[i + 1])
            add_lanes(part, word[i + 2], weights[i + 2])
            add_lanes(part, word[i + 3], weights[i + 3])
        for i in range(single, end, 2):
            one, two = rows[which[i]], rows[which[i + 1]]
            add_row(part, word[i], one[half * 64 : half * 64 + 64], weights[i])
            add_row(part, word[i + 1], two[half * 64 : half * 64 + 64], weights[i + 1])


@inner
def set_tests(v, low, high, test_ptr, on_zero, on_one, bits):
    """Say where the tests of a variable hold, given where it is 1."""
    for t in range(test_ptr[v], test_ptr[v + 1]):
        bits[t, 0] = (low & on_one[t]) | (~low & on_zero[t])
        bits[t, 1] = (high & on_one[t]) | (~high & on_zero[t])


@compiled
def sweep_bits(
    order, alive, rows, node_ptr, parent, test, parts, node, unit, weight, test_ptr, on_zero, on_one,
    bits, bias, burn_in, samples, counters, sums,
):  # fmt: skip
    """Run one chain a row; set the sums of p(x=0), p(x=1) by batch and variable.

    `sums` is batches by variables by twice the lanes.
    """
    n = len(bias)
    random = np.empty(4 * LANES, np.uint32)
    unused = np.zeros(LANES, np.uint32)
    odds = np.empty(LANES, np.float32)
    ones = np.zeros(LANES, np.float32)
    now = np.zeros((n, 2 * LANES), np.float32)
    longest, deepest = 0, 0
    for v in range(n):
        longest = max(longest, parts[v, 2] - parts[v, 0])
        deepest = max(deepest, node_ptr[v + 1] - node_ptr[v])
    low, high = np.empty(deepest + 1, np.uint64), np.empty(deepest + 1, np.uint64)
    words = np.empty((2, longest + 8), np.uint64)
    weights = np.empty(longest + 8, np.float32)
    which = np.empty(longest + 8, np.uint32)
    seed(counters, random)
    for v in range(n):
        for lane in range(LANES):
            word = scatter(counters[lane] - STEP * np.uint64(v // 64))
            ones[lane] = F(np.int64(word >> np.uint64(v % 64)) & 1)
        set_tests(v, lanes_set(ones[:64]), lanes_set(ones[64:]), test_ptr, on_zero, on_one, bits)
    batch = 0
    for sweep in range(burn_in + samples):
        for i in range(len(order)):
            v = order[i]
            odds[:] = bias[v]
            hold_nodes(node_ptr[v], node_ptr[v + 1], parent, test, bits, low, high)
            single, end = true_slots(
                parts[v], node, unit, weight, alive, low, high, words, weights, which
            )
            add_slots(single, end, words, weights, which, rows, odds)
            draw(np.uint32(0), odds, random, unused, ones, now[v])
            set_tests(
                v, lanes_set(ones[:64]), lanes_set(ones[64:]), test_ptr, on_zero, on_one, bits
            )
        batch = end_sweep(sweep + 1 - burn_in, samples, batch, now, sums)
