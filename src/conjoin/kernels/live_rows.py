"""Log conditionals and their derivatives by weights, over lists of the rows where features are live.

A feature is *live*, for one of its tests, on the rows where all its other tests hold: there the test
decides whether the feature holds. The live rows do not depend on the weights, so they are listed once:
as whole words of 64 rows where many rows are live, otherwise row by row. The lists are sorted by test,
so that one array of numbers by row serves all the features of a test.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.conditionals import (
    add_to_states,
    count_failing,
    normalize,
    score_table,
    sign_of_test,
)
from conjoin.kernels.functions import LOWEST_64, exp64, sum_of
from conjoin.kernels.kernel import (
    add_lanes,
    compiled,
    inner,
    inner_fused,
    inner_sums,
    popcount,
    sum_lanes,
)
from conjoin.kernels.layouts import (
    WORDS,
    Codes2,
    FeatureArrays,
    Float1,
    Float2,
    Half1,
    Int1,
    LiveRows,
    Word1,
    Word2,
)

MAX_LISTED = 12
"""The largest number of live rows of a word that are listed one by one."""

FACTORS_PER_LOGARITHM = 500
"""Number of factors of at most 2 that are multiplied before the logarithm is taken."""


@compiled
def list_live(
    bits: Word2,
    features: FeatureArrays,
    chosen: Int1,
    first_word: int,
    next_row: Int1,
    next_word: Int1,
    row: Half1,
    word: Half1,
    mask: Word1,
) -> None:
    """List the rows and the words of a block where each entry of the chosen features is live.

    `next_row` and `next_word` say, for each entry, where its next row and word go, and are moved on.
    If `row` and `word` are empty, nothing is written: the rows and words are only counted.
    """
    one = np.empty(WORDS, np.uint64)
    two = np.empty(WORDS, np.uint64)
    fill = len(row) + len(word) > 0
    for f in chosen:
        low, high = features.first[f], features.first[f + 1]
        count_failing(bits, features.test[low:high], one, two)
        for e in range(low, high):
            holds = bits[features.test[e]]
            for k in range(WORDS):
                live = ~two[k] & (~one[k] | ~holds[k])
                count = popcount(live)
                if count > MAX_LISTED:
                    if fill:
                        word[next_word[e]] = first_word + k
                        mask[next_word[e]] = live
                    next_word[e] += 1
                    continue
                if fill:
                    at = next_row[e]
                    while live != np.uint64(0):
                        below = popcount(~live & (live - np.uint64(1)))
                        row[at] = (first_word + k) * 64 + below
                        at += 1
                        live &= live - np.uint64(1)
                next_row[e] += count


@inner
def add_live(t, live, weights, sign, line):
    """Add the weights of the features of a test, times a sign, to the rows where they are live."""
    for j in range(live.test_first[t], live.test_first[t + 1]):
        weight = sign * weights[live.feature[j]]
        for row in live.row[live.row_first[j] : live.row_first[j + 1]]:
            line[row] += weight
        for q in range(live.word_first[j], live.word_first[j + 1]):
            k = np.int64(live.word[q]) * 64
            add_lanes(line[k : k + 64], live.mask[q], weight)


@inner_sums
def sum_rows(rows, line):
    """Add up some of the numbers of a line."""
    total = 0.0
    for row in rows:
        total += line[row]
    return total


@inner
def sum_live(t, live, sign, line, out):
    """Add to each feature of a test the numbers of the rows where it is live, times a sign."""
    for j in range(live.test_first[t], live.test_first[t + 1]):
        total = sum_rows(live.row[live.row_first[j] : live.row_first[j + 1]], line)
        for q in range(live.word_first[j], live.word_first[j + 1]):
            k = np.int64(live.word[q]) * 64
            total += sum_lanes(line[k : k + 64], live.mask[q])
        out[live.feature[j]] += sign * total


@compiled
def sum_all_live(live: LiveRows, line: Float1, out: Float1) -> None:
    """Add to each feature the numbers of the rows where it is live, for each of its tests."""
    for t in range(len(live.test_first) - 1):
        sum_live(t, live, 1.0, line, out)


@inner
def add_times(factor, values, out):
    """Add some values, times a factor."""
    for r in range(len(out)):
        out[r] += factor * values[r]


@inner_fused
def binary_errors(column, row_weights, line, loss, factor):
    """Turn the log-odds of a variable with two states into the errors of state 1.

    The loss -log P(x) is max(against, 0) + log(1 + e^-|z|). The first term is added to `loss`; the
    argument of the logarithm is multiplied into `factor`, so that one logarithm serves many variables.
    """
    for r in range(len(line)):
        x, z = column[r], line[r]
        e = exp64(max(-abs(z), LOWEST_64))
        q = 1 / (1 + e)
        p = q if z >= 0 else e * q
        against = -z if x == 1 else z  # the log-odds of the other state
        known = x < 2
        loss[r] += max(against, 0.0) if known else 0.0
        factor[r] *= 1 + e if known else 1.0
        line[r] = row_weights[r] * (x - p) if known else 0.0


@inner
def take_logarithms(factor, loss):
    """Move the logarithms of the factors to the losses."""
    for r in range(len(loss)):
        loss[r] += np.log(factor[r])
        factor[r] = 1.0


@inner
def state_errors(column, row_weights, features, t, probability, out):
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


@inner
def gather_scores(i, features, live, shared, lines, line, score):
    """Set the log-odds of state 1 of a binary variable, or the scores of the states of any other."""
    binary = features.cards[i] == 2
    if binary:
        line[:] = 0.0
    else:
        score[: features.cards[i]] = 0.0
    for t in range(features.test_first[i], features.test_first[i + 1]):
        sign = 1.0
        if binary:
            sign = sign_of_test(features, t)
        else:
            line[:] = 0.0
        if len(lines):
            add_times(sign, lines[t], line)
        else:
            line += sign * shared[t]
        add_live(t, live, features.weight, sign, line)
        if not binary:
            add_to_states(features, t, line, score)


@compiled
def score_rows(
    columns: Codes2,
    row_weights: Float1,
    features: FeatureArrays,
    live: LiveRows,
    shared: Float1,
    lines: Float2,
    sums: Float1,
    slopes: Float1,
) -> float:
    """Return the weighted sum of log P(x_i | the rest of the row) over known values x_i.

    The gains of test t are the weights of its live features, plus `lines[t]`, or plus `shared[t]` on
    all rows if there are no lines. If `sums` is not empty, the derivatives are set too: `sums` by
    `shared`, `slopes` by the weights of live features, and `lines` by the values they held.
    """
    rows = columns.shape[1]
    score = score_table(features, rows)
    line, log_p = np.empty(rows), np.empty(rows)
    loss, factor, factors = np.zeros(rows), np.ones(rows), 0
    for i in range(len(features.cards)):
        column, card = columns[i], features.cards[i]
        gather_scores(i, features, live, shared, lines, line, score)
        if card == 2:
            binary_errors(column, row_weights, line, loss, factor)
            factors += 1
            if factors == FACTORS_PER_LOGARITHM:
                take_logarithms(factor, loss)
                factors = 0
        else:
            normalize(column, card, score, log_p)
            loss -= log_p
        if not len(sums):
            continue
        total = sum_of(line)
        for t in range(features.test_first[i], features.test_first[i + 1]):
            sign = 1.0
            if card == 2:
                sign = sign_of_test(features, t)
            else:
                state_errors(column, row_weights, features, t, score, line)
                total = sum_of(line)
            sum_live(t, live, sign, line, slopes)
            sums[t] += sign * total
            if len(lines):
                lines[t] = 0.0
                add_times(sign, line, lines[t])
    take_logarithms(factor, loss)
    value = 0.0
    for r in range(rows):
        value -= row_weights[r] * loss[r]
    return value
