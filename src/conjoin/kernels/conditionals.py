"""Conditional distributions of all variables at once, 64 rows a word.

D[t, r] is the sum of the weights of the features with test t whose other tests hold on row r: what
row r would gain if test t held. All conditional log-odds are sums of it.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import LOWEST_64, exp64, log1p64
from conjoin.kernels.jit import add_lanes, compiled, inner, inner_fused

WORDS = 8
"""Words of 64 rows that are scored together: a fixed number, so that loops over them unroll."""


@compiled
def truth_bits(codes, var, mask, bits):
    """Pack which tests hold on each row, tests by words of 64 rows."""
    rows = codes.shape[0]
    for t in range(len(var)):
        v = var[t]
        line = bits[t]
        for k in range(len(line)):
            word = np.uint64(0)
            for r in range(k * 64, min(rows, k * 64 + 64)):
                state = np.int64(codes[r, v])
                if state >> 6 < mask.shape[1]:  # else it is missing
                    held = mask[t, state >> 6] >> np.uint64(state & 63) & np.uint64(1)
                    word |= held << np.uint64(r & 63)
            line[k] = word


@inner
def count_failing(bits, tests, one, two):
    """Set the rows on which at least one of some tests fails, and on which at least two do."""
    for k in range(WORDS):
        one[k] = two[k] = np.uint64(0)
    for e in range(len(tests)):
        holds = bits[tests[e]]
        for k in range(WORDS):
            two[k] |= one[k] & ~holds[k]
            one[k] |= ~holds[k]


@compiled
def add_conjunctions(bits, indptr, indices, weights, only, out):
    """Add the weights of conjunctions to D of their tests, where all other tests hold.

    `only` is the one test of each conjunction that counts, by its place in it, or -1 for all.
    """
    one = np.empty(WORDS, np.uint64)
    two = np.empty(WORDS, np.uint64)
    for f in range(len(weights)):
        low, high = indptr[f], indptr[f + 1]
        weight = weights[f]
        count_failing(bits, indices[low:high], one, two)
        first, last = low, high
        if only[f] >= 0:
            first = low + only[f]
            last = first + 1
        for e in range(first, last):
            holds, line = bits[indices[e]], out[indices[e]]
            for k in range(WORDS):
                word = ~two[k] & (~one[k] | ~holds[k])
                if word != np.uint64(0):
                    add_lanes(line[k * 64 : k * 64 + 64], word, weight)


@compiled
def pass_products(truth, indptr, indices, off, only, weights, gains, errors, slopes):
    """Do the same where tests hold in part, or have off values, or sum errors of tests by feature.

    `truth` says how far each test holds on each row; a test that holds to the part u counts as u +
    (1 - u) * off in the product. If there are weights, they are added to `gains`, which is D; if there
    are errors, tests by rows, they are added to `slopes`: the transpose of that.
    """
    rows = truth.shape[1]
    longest = 1
    for f in range(len(indptr) - 1):
        longest = max(longest, indptr[f + 1] - indptr[f])
    value = np.empty((longest, rows))
    before = np.empty((longest + 1, rows))
    after = np.empty(rows)
    for f in range(len(indptr) - 1):
        low, high = indptr[f], indptr[f + 1]
        before[0] = 1.0
        for j in range(high - low):
            line, rest = truth[indices[low + j]], off[low + j]
            for r in range(rows):
                value[j, r] = line[r] + (1 - line[r]) * rest
                before[j + 1, r] = before[j, r] * value[j, r]
        after[:] = 1.0
        for j in range(high - low - 1, -1, -1):
            share = 1 - off[low + j]
            if only[f] < 0 or only[f] == j:
                if len(weights):
                    line = gains[indices[low + j]]
                    for r in range(rows):
                        others = before[j, r] * after[r]
                        if others != 0.0:  # nothing times minus infinity is nothing
                            line[r] += weights[f] * others * share
                if len(errors):
                    line = errors[indices[low + j]]
                    total = 0.0
                    for r in range(rows):
                        total += line[r] * before[j, r] * after[r] * share
                    slopes[f] += total
            for r in range(rows):
                after[r] *= value[j, r]


@inner_fused
def binary_conditionals(column, odds, out, probability):
    """Set log P(x) and P(1) of a variable of two states from its log-odds."""
    for r in range(len(odds)):
        z = odds[r]
        e = exp64(max(-abs(z), LOWEST_64))
        q = 1 / (1 + e)
        against = -z if column[r] == 1 else z  # how much speaks for the other state
        out[r] = -log1p64(e) - max(against, 0.0)
        probability[r] = q if z >= 0 else e * q


@inner
def add_scores(card, member, gains, score):
    """Add what a test gains to the scores of the states that hold in it, states by rows."""
    for s in range(card):
        if member[s]:
            line = score[s]
            for r in range(len(gains)):
                line[r] += gains[r]


@inner
def normalize(column, card, score, out):
    """Turn scores of states into probabilities, and set log P(x); a missing x gives 0."""
    for r in range(len(column)):
        top = -np.inf
        for s in range(card):
            top = max(top, score[s, r])
        total = 0.0
        for s in range(card):
            score[s, r] = np.exp(score[s, r] - top)
            total += score[s, r]
        for s in range(card):
            score[s, r] /= total
        x = column[r]
        out[r] = np.log(score[x, r]) if x < card else 0.0


@compiled
def conditionals(columns, cards, test_first, members, gains, out):
    """Set log P(x_i | the rest of the row), variables by rows; 0 where x_i is missing.

    `columns` are the codes, variables by rows; `gains` is D; the tests of variable i are test_first[i]
    to test_first[i + 1], and `members` says which states hold in each.
    """
    rows = columns.shape[1]
    missing = np.iinfo(columns.dtype).max
    score = np.empty((members.shape[1], rows))
    chance = np.empty(rows)
    for i in range(len(cards)):
        column, low, high, card = columns[i], test_first[i], test_first[i + 1], cards[i]
        line = out[i]
        score[:card] = 0.0
        if card == 2:
            odds = score[0]
            for t in range(low, high):
                sign = 1.0 if members[t, 1] else -1.0
                for r in range(rows):
                    odds[r] += sign * gains[t, r]
            binary_conditionals(column, odds, line, chance)
        else:
            for t in range(low, high):
                add_scores(card, members[t], gains[t], score)
            normalize(column, card, score, line)
        for r in range(rows):
            if column[r] == missing:
                line[r] = 0.0
