"""Conditional distributions of all variables at once, 64 rows a word.

D[t, r] is the sum of the weights of the features with test t whose other tests hold on row r: what
row r would gain if test t held. All conditional log-odds are sums of it.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import add_lanes, compiled, popcount

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
                state = np.uint64(codes[r, v])
                held = mask[t, state >> np.uint64(6)] >> (state & np.uint64(63)) & np.uint64(1)
                word |= held << np.uint64(r & 63)
            line[k] = word


@compiled
def add_where(word, weight, line):
    """Add a weight to those of 64 numbers whose bit is set: one by one if they are few."""
    if popcount(word) > np.uint64(2):
        add_lanes(line, word, weight)
        return
    while word != np.uint64(0):
        lowest = word & (~word + np.uint64(1))
        word ^= lowest
        line[np.int64(popcount(lowest - np.uint64(1)))] += weight


@compiled
def add_conjunctions(bits, indptr, indices, weights, only, out):
    """Add the weights of conjunctions to D of their tests, where all other tests hold.

    `only` is the one test of each conjunction that counts, by its place in it, or -1 for all.
    """
    # Rows on which a test fails, and on which two do.
    one = np.empty(WORDS, np.uint64)
    two = np.empty(WORDS, np.uint64)
    for f in range(len(weights)):
        low, high = indptr[f], indptr[f + 1]
        weight = weights[f]
        for k in range(WORDS):
            one[k] = two[k] = np.uint64(0)
        for e in range(low, high):
            holds = bits[indices[e]]
            for k in range(WORDS):
                two[k] |= one[k] & ~holds[k]
                one[k] |= ~holds[k]
        first, last = low, high
        if only[f] >= 0:
            first = low + only[f]
            last = first + 1
        for e in range(first, last):
            holds, line = bits[indices[e]], out[indices[e]]
            for k in range(WORDS):
                word = ~two[k] & (~one[k] | ~holds[k])
                if word != np.uint64(0):
                    add_where(word, weight, line[k * 64 : k * 64 + 64])


@compiled
def add_products(truth, indptr, indices, off, weights, only, out):
    """Do the same where tests hold in part, or have off values.

    `truth` says how far each test holds on each row; a test that holds to the part u counts as u +
    (1 - u) * off in the product.
    """
    rows = truth.shape[1]
    longest = 1
    for f in range(len(weights)):
        longest = max(longest, indptr[f + 1] - indptr[f])
    value = np.empty((longest, rows))
    before = np.empty((longest + 1, rows))
    after = np.empty(rows)
    for f in range(len(weights)):
        low, high = indptr[f], indptr[f + 1]
        before[0] = 1.0
        for j in range(high - low):
            line, rest = truth[indices[low + j]], off[low + j]
            for r in range(rows):
                value[j, r] = line[r] + (1 - line[r]) * rest
                before[j + 1, r] = before[j, r] * value[j, r]
        after[:] = 1.0
        for j in range(high - low - 1, -1, -1):
            if only[f] < 0 or only[f] == j:
                share = 1 - off[low + j]
                line = out[indices[low + j]]
                for r in range(rows):
                    others = before[j, r] * after[r]
                    if others != 0.0:  # nothing times minus infinity is nothing
                        line[r] += weights[f] * others * share
            for r in range(rows):
                after[r] *= value[j, r]


@compiled
def log_conditionals(codes, cards, test_first, members, gains, out):
    """Set log P(x_i | the rest of the row), rows by variables; 0 where x_i is missing.

    `gains` is D; the tests of variable i are test_first[i] to test_first[i + 1], and `members` says
    which states hold in each.
    """
    missing = np.iinfo(codes.dtype).max
    score = np.empty(members.shape[1])
    for i in range(codes.shape[1]):
        card = cards[i]
        for r in range(codes.shape[0]):
            x = codes[r, i]
            if x == missing:
                out[r, i] = 0.0
                continue
            for s in range(card):
                score[s] = 0.0
            for t in range(test_first[i], test_first[i + 1]):
                gain = gains[t, r]
                for s in range(card):
                    if members[t, s]:
                        score[s] += gain
            top = -np.inf
            for s in range(card):
                top = max(top, score[s])
            total = 0.0
            for s in range(card):
                total += np.exp(score[s] - top)
            out[r, i] = score[x] - top - np.log(total)
