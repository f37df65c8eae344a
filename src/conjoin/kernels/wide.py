"""What a network says of many variables once all others are known, for a block of rows.

A test is a bit a row, 128 of them in two words: those of known variables are read off the rows, and the
AND of a feature's known tests says in which rows it is alive. Rows are then sampled side by side
(`kernels.bits`) or one by one, by the general chain over the features that are alive (`chains`).
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.gibbs import holds, refresh, sweeps
from conjoin.kernels.jit import compiled, inner
from conjoin.kernels.random import STEP, uniform

ONE = np.uint64(1)
NONE = np.uint64(0)
ALL = ~NONE


@compiled
def living(codes, first_known, test_var, mask, known_ptr, known_test, bits, live):
    """Set in which rows each feature's known tests all hold, as bits.

    The tests from `first_known` on are those of known variables; their `bits` are set along the way.
    """
    rows = codes.shape[0]
    bits[:] = NONE
    for t in range(first_known, len(test_var)):
        v = test_var[t]
        for r in range(rows):
            if holds(t, np.int64(codes[r, v]), mask):
                bits[t, r >> 6] |= ONE << np.uint64(r & 63)
    low = ALL if rows >= 64 else (ONE << np.uint64(rows)) - ONE
    high = ALL if rows == 128 else (NONE if rows <= 64 else (ONE << np.uint64(rows - 64)) - ONE)
    for f in range(len(live)):
        a, b = low, high
        for k in range(known_ptr[f], known_ptr[f + 1]):
            a &= bits[known_test[k], 0]
            b &= bits[known_test[k], 1]
        live[f, 0], live[f, 1] = a, b


@inner
def living_features(r, live, feature_weight, projection, free_ptr, free_test, own, out):
    """Write the features that are alive in a row, equal projections as one; return their number.

    `out` is (ptr, test, weight, own entry, feature of each entry).
    """
    ptr, test, weight, own_entry, entry_feature = out
    half, bit = r >> 6, np.uint64(r & 63)
    n, m, f = 0, 0, 0
    while f < len(live):
        if (live[f, half] >> bit) & ONE == NONE:
            f += 1
            continue
        this, total, first = projection[f], 0.0, f
        while f < len(live) and projection[f] == this:
            if (live[f, half] >> bit) & ONE != NONE:
                total += feature_weight[f]
            f += 1
        if total == 0.0:
            continue
        ptr[n] = m
        weight[n] = total
        own_entry[n] = -1 if own[first] < 0 else m + own[first]
        for k in range(free_ptr[first], free_ptr[first + 1]):
            test[m] = free_test[k]
            entry_feature[m] = n
            m += 1
        n += 1
    ptr[n] = m
    return n


@inner
def columns(test, column_ptr, column_entry):
    """Sort entries by their tests."""
    column_ptr[:] = 0
    for e in range(len(test)):
        column_ptr[test[e] + 1] += 1
    for t in range(len(column_ptr) - 1):
        column_ptr[t + 1] += column_ptr[t]
    for e in range(len(test)):
        column_entry[column_ptr[test[e]]] = e
        column_ptr[test[e]] += 1
    for t in range(len(column_ptr) - 1, 0, -1):
        column_ptr[t] = column_ptr[t - 1]
    column_ptr[0] = 0


@inner
def ties(ptr, test, own, test_var, tied, drawn):
    """Set which variables depend on another, and which must be drawn for themselves or others."""
    tied[:] = False
    drawn[:] = False
    for f in range(len(own)):
        if ptr[f + 1] - ptr[f] > 1:
            for e in range(ptr[f], ptr[f + 1]):
                v = test_var[test[e]]
                drawn[v] = True
                if own[f] < 0 or own[f] == e:
                    tied[v] = True


@compiled
def chains(
    codes_rows, counters, live, feature_weight, projection, free_ptr, free_test, own, order, cards,
    first, test_ptr, test_var, mask, state_ptr, state_slot, burn_in, samples, mean, sums, exact,
):  # fmt: skip
    """Run the general chain of each row; set what is exact, and the sums of the rest by batch."""
    n, width = len(cards), mean.shape[1]
    room = len(free_test)
    lists = (
        np.empty(len(live) + 1, np.int64), np.empty(room, np.int64), np.empty(len(live)),
        np.empty(len(live), np.int64), np.empty(room, np.int64),
    )  # fmt: skip
    column_ptr = np.empty(len(test_var) + 1, np.int64)
    column_entry = np.empty(room, np.int64)
    failing = np.empty(len(live), np.int64)
    which = np.empty(len(live), np.int64)
    field, p = np.empty(width), np.empty(width)
    stale = np.empty(n, np.uint8)
    state = np.empty(n, np.int64)
    tied, drawn = np.empty(n, np.bool_), np.empty(n, np.bool_)
    own_order = np.empty(n, np.int64)
    counter = np.empty(1, np.uint64)
    nothing, no_floats = np.zeros(n + 1, np.int64), np.zeros(0)
    no_rows, no_sums = np.zeros((0, n), np.uint16), np.zeros((0, width))
    for r in range(codes_rows):
        count = living_features(
            r, live, feature_weight, projection, free_ptr, free_test, own, lists
        )
        ptr = lists[0][: count + 1]
        entries = ptr[count]
        test, weight, own_entry = lists[1][:entries], lists[2][:count], lists[3][:count]
        entry_feature = lists[4][:entries]
        columns(test, column_ptr, column_entry)
        ties(ptr, test, own_entry, test_var, tied, drawn)
        counter[0] = counters[r]
        for v in range(n):
            counter[0] += STEP
            state[v] = np.int64(uniform(counter[0]) * cards[v])
        refresh(
            state, ptr, test, weight, own_entry, test_var, mask, state_ptr, state_slot,
            failing[:count], which[:count], field, stale,
        )  # fmt: skip
        size = 0
        for i in range(len(order)):
            v = order[i]
            exact[r, v] = not tied[v]
            if drawn[v]:
                own_order[size] = v
                size += 1
            if tied[v]:
                continue
            b, top, total = first[v], field[first[v]], 0.0
            for s in range(1, cards[v]):
                top = max(top, field[b + s])
            for s in range(cards[v]):
                mean[r, b + s] = np.exp(field[b + s] - top)
                total += mean[r, b + s]
            for s in range(cards[v]):
                mean[r, b + s] /= total
        if size == 0:
            continue
        for part in range(2):
            n_sweeps, into = burn_in, no_sums
            if part == 1:
                n_sweeps, into = samples, sums[r]
            sweeps(
                own_order[:size], cards, first, test_ptr, ptr, test, weight, own_entry, test_var,
                mask, state_ptr, state_slot, column_ptr, column_entry, entry_feature, nothing[:1],
                nothing[:0], no_floats, no_floats, nothing, nothing[:0], nothing[:0], state, counter,
                failing[:count], which[:count], field, stale, p, n_sweeps, 1, no_rows, into, no_sums,
            )  # fmt: skip
