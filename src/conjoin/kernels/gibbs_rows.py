"""Gibbs chains for 64 rows of evidence side by side: the rows in which a test holds are bits of a word.

The rows in which a conjunction holds are the AND of such words, and its weight is added to the log-odds
of all these rows at once. Features with the same tests of free variables form a *unit*: the evidence
gives it a weight in each row.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import LOWEST_64, add_lanes, add_row, exp64
from conjoin.kernels.kernel import compiled, copy_into, inner, inner_fused
from conjoin.kernels.layouts import FeatureArrays, Float2, Float3, Int1, Word1
from conjoin.kernels.random_numbers import STEP, scatter, uniform

ROWS = 64
"""Number of rows of evidence side by side: the bits of a word."""

ONE = np.uint64(1)
NONE = np.uint64(0)


@inner
def multiply_by_off(values, word, off):
    """Multiply the numbers of the rows in which a test fails by its off value."""
    for r in range(ROWS):
        if word >> np.uint64(r) & ONE == NONE:
            values[r] *= off


@compiled
def unit_weights(
    features: FeatureArrays,
    unit_first: Int1,
    bits: Word1,
    rows: np.uint64,
    weights: Float2,
    alive: Word1,
) -> None:
    """Set the weight of each unit in each row, and the rows in which it has any.

    `bits` says in which rows a test holds; tests of free variables hold in all. Features are sorted by
    unit. `rows` are the bits of the rows that there are.
    """
    value = np.empty(ROWS)
    for u in range(len(alive)):
        weights[u] = 0.0
        alive[u] = NONE
        for f in range(unit_first[u], unit_first[u + 1]):
            word, has_off = rows, False
            for e in range(features.first[f], features.first[f + 1]):
                if features.off[e] == 0.0:
                    word &= bits[features.test[e]]
                else:
                    has_off = True
            if has_off:
                value[:] = features.weight[f]
                for e in range(features.first[f], features.first[f + 1]):
                    if features.off[e] != 0.0:
                        multiply_by_off(value, bits[features.test[e]], features.off[e])
                add_row(weights[u], word, value, 1.0)
            elif word != NONE:
                add_lanes(weights[u], word, features.weight[f])
            alive[u] |= word


@inner
def set_tests(units, v, states, bits):
    """Set the bits of the tests of a variable from its state in each row."""
    for t in range(units.test_first[v], units.test_first[v + 1]):
        mask, word = units.test_mask[t], NONE
        for r in range(ROWS):
            s = states[r]
            word |= (mask[s >> 6] >> np.uint64(s & 63) & ONE) << np.uint64(r)
        bits[t] = word


@inner_fused
def draw(odds, counters, p, states, top, left):
    """Draw a variable in all rows, given the log-odds of its states; set their probabilities."""
    copy_into(top, odds[0])
    for s in range(1, len(odds)):
        for r in range(ROWS):
            top[r] = max(top[r], odds[s, r])
    left[:] = 0.0
    for s in range(len(odds)):
        for r in range(ROWS):
            x = odds[s, r] - top[r]
            p[s, r] = exp64(max(x, LOWEST_64)) if x > LOWEST_64 else 0.0
            left[r] += p[s, r]
    for s in range(len(odds)):
        for r in range(ROWS):
            p[s, r] /= left[r]
    for r in range(ROWS):
        counters[r] += STEP
        left[r] = uniform(counters[r])  # from here on what is left of it
        states[r] = 0
    for s in range(len(odds) - 1):
        for r in range(ROWS):
            left[r] -= p[s, r]
            states[r] += np.int64(left[r] >= 0.0)


@compiled
def sample_rows(
    order: Int1,
    units: FeatureArrays,
    weights: Float2,
    alive: Word1,
    forbidden: Word1,
    bits: Word1,
    counters: Word1,
    burn_in: int,
    samples: int,
    linked: Word1,
    sums: Float3,
) -> np.uint64:
    """Run one chain per row; set the sums of the conditional probabilities by batch, state and row.

    Sweeps draw the variables in `order`; `sums` has the states of these, ascending. `weights` and
    `alive` are as `unit_weights` set them, `forbidden` are the rows in which a unit must not hold.
    `linked` is set to the rows in which each variable depends on others. The result are the rows in
    which a forbidden unit holds after the burn-in; if there are any, nothing is summed.
    """
    n_tests, n_units, batches = len(units.test_var), len(alive), len(sums)
    place = np.zeros(len(units.cards), np.int64)  # of the first state of a variable in `sums`
    count = 0
    for v in np.sort(order):
        place[v] = count
        count += units.cards[v]
    # Units with one test are a fixed part of the log-odds of this test.
    fixed = np.zeros((n_tests, ROWS))
    singles = np.empty((n_units, ROWS), np.float32)
    n_others = 0
    for u in range(n_units):
        e, length = units.first[u], units.first[u + 1] - units.first[u]
        n_others += length * length
        for r in range(ROWS):
            singles[u, r] = np.float32(weights[u, r])
            if length == 1:
                fixed[units.test[e], r] += weights[u, r] * (1.0 - units.off[e])
    # The others are items of each of their tests: a list of the other tests, from other_first[item] on.
    item_first = np.zeros(n_tests + 1, np.int64)
    unit, share = np.empty(len(units.test), np.int64), np.empty(len(units.test), np.float32)
    has_off = np.empty(len(units.test), np.bool_)
    other_first = np.zeros(len(units.test) + 1, np.int64)
    other, other_off = np.empty(n_others, np.int64), np.empty(n_others, np.float32)
    linked[:] = NONE
    any_linked = NONE
    n, m = 0, 0
    for t in range(n_tests):
        for k in range(units.column_first[t], units.column_first[t + 1]):
            e = units.column_entry[k]
            u = units.entry_feature[e]
            length = units.first[u + 1] - units.first[u]
            if alive[u] != NONE and length > 1 and (units.own[u] < 0 or units.own[u] == e):
                linked[units.test_var[t]] |= alive[u]
                any_linked |= alive[u]
                unit[n], share[n], has_off[n] = u, 1.0 - units.off[e], units.off[e] != 0.0
                for j in range(units.first[u], units.first[u + 1]):
                    if j != e:
                        other[m], other_off[m] = units.test[j], units.off[j]
                        has_off[n] |= units.off[j] != 0.0
                        m += 1
                n += 1
                other_first[n] = m
        item_first[t + 1] = n
    turns = 1.0
    if (
        any_linked == NONE
    ):  # all conditional distributions are constant: one sweep per batch says all
        burn_in, samples, turns = 0, batches, samples / batches

    widest = units.cards.max()
    odds, p = np.empty((widest, ROWS)), np.empty((widest, ROWS))
    top, left = np.empty(ROWS), np.empty(ROWS)
    gain, product = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32)
    states = np.empty(ROWS, np.int64)
    for v in order:
        for r in range(ROWS):
            number = scatter(counters[r] - STEP * np.uint64(v + 1)) >> np.uint64(16)
            states[r] = np.int64(number % np.uint64(units.cards[v]))
        set_tests(units, v, states, bits)
    sums[:] = 0.0
    for sweep in range(burn_in + samples):
        if sweep == burn_in:
            stuck = NONE
            for u in range(n_units):
                word = forbidden[u]
                for e in range(units.first[u], units.first[u + 1]):
                    word &= bits[units.test[e]]
                stuck |= word
            if stuck != NONE:
                return stuck
        for v in order:
            card, first = units.cards[v], units.state_first[v]
            odds[:card] = 0.0
            for t in range(units.test_first[v], units.test_first[v + 1]):
                gain[:] = np.float32(0)
                for i in range(item_first[t], item_first[t + 1]):
                    line, word = singles[unit[i]], alive[unit[i]]
                    if has_off[i]:
                        copy_into(product, line)
                        for j in range(other_first[i], other_first[i + 1]):
                            multiply_by_off(product, bits[other[j]], other_off[j])
                        add_row(gain, word, product, share[i])
                        continue
                    for j in range(other_first[i], other_first[i + 1]):
                        word &= bits[other[j]]
                    if word != NONE:
                        add_row(gain, word, line, np.float32(1))
                for k in range(units.member_first[t], units.member_first[t + 1]):
                    of_state = odds[units.member[k] - first]
                    for r in range(ROWS):
                        of_state[r] += fixed[t, r] + gain[r]
            draw(odds[:card], counters, p, states, top, left)
            set_tests(units, v, states, bits)
            if sweep >= burn_in:
                batch = sums[(sweep - burn_in) * batches // samples]
                for s in range(card):
                    of_batch = batch[place[v] + s]
                    for r in range(ROWS):
                        of_batch[r] += turns * p[s, r]
    return NONE
