"""Conditional distributions of all variables at once, on blocks of rows.

The *gain* of test t on row r is the sum of the weights of the features with test t whose other tests
hold on row r: the amount by which the log-potential of the row grows if test t holds. All conditional
log-odds are sums of gains.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import LOWEST_64, add_lanes, exp64, log1p64, sum_lanes
from conjoin.kernels.kernel import compiled, inner, inner_fused
from conjoin.kernels.layouts import WORDS, Codes2, FeatureArrays, Float1, Float2, Int1, Word2


@compiled
def truth_bits(codes: Codes2, features: FeatureArrays, bits: Word2) -> None:
    """Pack the truth of each test on each row into bits, tests by words of 64 rows.

    A test on a missing value does not hold.
    """
    rows = codes.shape[0]
    mask = features.test_mask
    for t in range(len(features.test_var)):
        v = features.test_var[t]
        line = bits[t]
        for k in range(len(line)):
            word = np.uint64(0)
            for r in range(k * 64, min(rows, k * 64 + 64)):
                state = np.int64(codes[r, v])
                if state >> 6 < mask.shape[1]:  # otherwise the value is missing
                    held = mask[t, state >> 6] >> np.uint64(state & 63) & np.uint64(1)
                    word |= held << np.uint64(r & 63)
            line[k] = word


@inner
def count_failing(bits, tests, failing, failing_twice):
    """Mark the rows on which at least one of some tests fails, and those on which at least two do."""
    for k in range(WORDS):
        failing[k] = failing_twice[k] = np.uint64(0)
    for e in range(len(tests)):
        holds = bits[tests[e]]
        for k in range(WORDS):
            failing_twice[k] |= failing[k] & ~holds[k]
            failing[k] |= ~holds[k]


@compiled
def add_conjunctions(
    bits: Word2, features: FeatureArrays, chosen: Int1, lines: Float2, slopes: Float1
) -> None:
    """Add the weights of the chosen features, without off values, to the gains of their tests, `lines`.

    If there are `slopes`, do the transpose: `lines` are derivatives by the gains, and sums of those by
    the weights go to the slopes. A feature with an owner counts for the owner's test alone.
    """
    failing = np.empty(WORDS, np.uint64)
    failing_twice = np.empty(WORDS, np.uint64)
    for f in chosen:
        low, high = features.first[f], features.first[f + 1]
        weight = features.weight[f]
        count_failing(bits, features.test[low:high], failing, failing_twice)
        if features.own[f] >= 0:
            low, high = features.own[f], features.own[f] + 1
        for e in range(low, high):
            t = features.test[e]
            holds, line = bits[t], lines[t]
            for k in range(WORDS):
                word = ~failing_twice[k] & (~failing[k] | ~holds[k])
                if word != np.uint64(0):
                    if len(slopes):
                        slopes[f] += sum_lanes(line[k * 64 : k * 64 + 64], word)
                    else:
                        add_lanes(line[k * 64 : k * 64 + 64], word, weight)


@inner
def products_of_others(truth, features, f, factor, others):
    """Set, for each test of a feature and each row, the product of the factors of its other tests.

    A test that holds with probability u has the factor u + (1 - u) * off. `factor` is working memory.
    """
    low, high = features.first[f], features.first[f + 1]
    factor[:] = 1.0
    for e in range(low, high):
        line, off = truth[features.test[e]], features.off[e]
        for r in range(len(line)):
            others[e - low, r] = factor[r]
            factor[r] *= line[r] + (1 - line[r]) * off
    factor[:] = 1.0
    for e in range(high - 1, low - 1, -1):
        line, off = truth[features.test[e]], features.off[e]
        for r in range(len(line)):
            others[e - low, r] *= factor[r]
            factor[r] *= line[r] + (1 - line[r]) * off


@compiled
def add_products(
    truth: Float2, features: FeatureArrays, chosen: Int1, lines: Float2, slopes: Float1
) -> None:
    """Do as `add_conjunctions` does for features with off values or with tests that hold in part.

    `truth` is the probability that each test holds on each row.
    """
    longest = 1
    for f in chosen:
        longest = max(longest, features.first[f + 1] - features.first[f])
    factor, others = np.empty(truth.shape[1]), np.empty((longest, truth.shape[1]))
    for f in chosen:
        products_of_others(truth, features, f, factor, others)
        weight = features.weight[f]
        for e in range(features.first[f], features.first[f + 1]):
            if features.own[f] >= 0 and features.own[f] != e:
                continue
            share = 1 - features.off[e]
            line, rest = lines[features.test[e]], others[e - features.first[f]]
            total = 0.0
            for r in range(len(rest)):
                if len(slopes):
                    total += line[r] * rest[r]
                elif rest[r] != 0.0:  # 0 times -inf counts as 0
                    line[r] += weight * rest[r] * share
            if len(slopes):
                slopes[f] += total * share


@inner_fused
def normalize_binary(column, score, out):
    """Turn the log-odds of state 1, in line 0, into the probabilities of both states; set log P(x)."""
    no, yes = score[0], score[1]
    for r in range(len(column)):
        z = no[r]
        e = exp64(max(-abs(z), LOWEST_64))
        against = -z if column[r] == 1 else z  # the log-odds of the other state
        out[r] = -log1p64(e) - max(against, 0.0)
        q = 1 / (1 + e)
        yes[r], no[r] = (q, e * q) if z >= 0 else (e * q, q)


@inner
def sign_of_test(features, t):
    """Return 1 if a test of a binary variable holds in state 1, otherwise -1."""
    return 1.0 if features.test_mask[t, 0] & np.uint64(2) else -1.0


@inner
def add_to_states(features, t, gains, score):
    """Add the gains of a test to the scores of the states in which it holds, states by rows."""
    first = features.state_first[features.test_var[t]]
    for k in range(features.member_first[t], features.member_first[t + 1]):
        line = score[features.member[k] - first]
        for r in range(len(gains)):
            line[r] += gains[r]


@inner
def normalize(column, card, score, out):
    """Turn scores of states into probabilities, and set log P(x), or 0 where x is missing."""
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


@inner
def score_table(features, rows):
    """Return an empty table for the scores of the states of any variable, states by rows."""
    widest = 1
    for card in features.cards:
        widest = max(widest, card)
    return np.empty((widest, rows))


@inner
def set_conditional(i, column, features, gains, score, out):
    """Set log P(x_i | the rest of a row), 0 where x_i is missing, and the probabilities of its states."""
    card = features.cards[i]
    missing = np.iinfo(column.dtype).max
    score[:card] = 0.0
    tests = range(features.test_first[i], features.test_first[i + 1])
    if card == 2:
        odds = score[0]
        for t in tests:
            sign = sign_of_test(features, t)
            for r in range(len(odds)):
                odds[r] += sign * gains[t, r]
        normalize_binary(column, score, out)
    else:
        for t in tests:
            add_to_states(features, t, gains[t], score)
        normalize(column, card, score, out)
    for r in range(len(out)):
        if column[r] == missing:
            out[r] = 0.0


@compiled
def conditionals(columns: Codes2, features: FeatureArrays, gains: Float2, out: Float2) -> None:
    """Set log P(x_i | the rest of the row), variables by rows, or 0 where x_i is missing."""
    score = score_table(features, columns.shape[1])
    for i in range(len(features.cards)):
        set_conditional(i, columns[i], features, gains, score, out[i])


@inner
def set_errors(column, row_weights, features, t, probability, out):
    """Set the weight of each row times the truth of a test less its probability."""
    v = features.test_var[t]
    card, first = features.cards[v], features.state_first[v]
    out[:] = 0.0
    for k in range(features.member_first[t], features.member_first[t + 1]):
        s = features.member[k] - first
        for r in range(len(out)):
            out[r] += (1.0 if column[r] == s else 0.0) - probability[s, r]
    for r in range(len(out)):
        out[r] = out[r] * row_weights[r] if column[r] < card else 0.0


@compiled
def errors_of_gains(
    columns: Codes2, row_weights: Float1, features: FeatureArrays, gains: Float2
) -> float:
    """Return the weighted sum of all `conditionals`, and turn the gains into its derivatives by them."""
    score = score_table(features, columns.shape[1])
    log_p, value = np.empty(columns.shape[1]), 0.0
    for i in range(len(features.cards)):
        column = columns[i]
        set_conditional(i, column, features, gains, score, log_p)
        for r in range(len(log_p)):
            value += row_weights[r] * log_p[r]
        for t in range(features.test_first[i], features.test_first[i + 1]):
            set_errors(column, row_weights, features, t, score, gains[t])
    return value
