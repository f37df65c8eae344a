"""Log conditionals and their slopes by weights, over lists of the rows where features are live.

A feature is live, for one of its tests, on the rows where all its other tests hold: there the test
decides whether the feature holds. Which rows those are does not depend on the weights, so they are
listed once: whole words of 64 rows where many are live, else row by row. The lists stand test by test,
so that one line of numbers by row serves all the features of a test.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.conditionals import WORDS, add_scores, count_failing, normalize
from conjoin.kernels.functions import LOWEST_64, exp64
from conjoin.kernels.jit import (
    add_lanes,
    compiled,
    inner,
    inner_fused,
    inner_sums,
    popcount,
    sum_lanes,
)

FEW = 12
"""Up to so many live rows of a word are listed one by one."""

FACTORS = 500
"""So many factors of at most 2 are multiplied before the logarithm is taken."""


@compiled
def list_live(bits, indptr, indices, first_word, single, whole, rows, words, masks):
    """List, for each entry of the features, the rows and the words where it is live.

    `single` and `whole` say where the next ones of each entry go, and are moved on. If there is no room
    in `rows` and `words`, nothing is listed: then they only count.
    """
    one = np.empty(WORDS, np.uint64)
    two = np.empty(WORDS, np.uint64)
    fill = len(rows) + len(words) > 0
    for f in range(len(indptr) - 1):
        low, high = indptr[f], indptr[f + 1]
        count_failing(bits, indices[low:high], one, two)
        for e in range(low, high):
            holds = bits[indices[e]]
            for k in range(WORDS):
                live = ~two[k] & (~one[k] | ~holds[k])
                count = popcount(live)
                if count > FEW:
                    if fill:
                        words[whole[e]] = first_word + k
                        masks[whole[e]] = live
                    whole[e] += 1
                    continue
                if fill:
                    at = single[e]
                    while live != np.uint64(0):
                        below = popcount(~live & (live - np.uint64(1)))
                        rows[at] = (first_word + k) * 64 + below
                        at += 1
                        live &= live - np.uint64(1)
                single[e] += count


@inner
def add_live(low, high, lists, weights, sign, line):
    """Add the weights of some listed features, times a sign, to the rows where they are live."""
    feature, single, whole, rows, words, masks = lists
    for j in range(low, high):
        weight = sign * weights[feature[j]]
        for row in rows[single[j] : single[j + 1]]:
            line[row] += weight
        for q in range(whole[j], whole[j + 1]):
            k = np.int64(words[q]) * 64
            add_lanes(line[k : k + 64], masks[q], weight)


@inner_sums
def sum_rows(rows, line):
    """Add up some of the numbers of a line."""
    total = 0.0
    for row in rows:
        total += line[row]
    return total


@inner
def sum_live(low, high, lists, sign, line, out):
    """Add to some listed features the numbers of the rows where they are live, times a sign."""
    feature, single, whole, rows, words, masks = lists
    for j in range(low, high):
        total = sum_rows(rows[single[j] : single[j + 1]], line)
        for q in range(whole[j], whole[j + 1]):
            k = np.int64(words[q]) * 64
            total += sum_lanes(line[k : k + 64], masks[q])
        out[feature[j]] += sign * total


@compiled
def sum_all_live(test_first, lists, line, out):
    """Add to every listed feature the numbers of the rows where it is live, for each of its tests."""
    for t in range(len(test_first) - 1):
        sum_live(test_first[t], test_first[t + 1], lists, 1.0, line, out)


@inner
def add_times(factor, values, out):
    """Add some values, times a factor."""
    for r in range(len(out)):
        out[r] += factor * values[r]


@inner_sums
def sum_line(line):
    """Add up the numbers of a line."""
    total = 0.0
    for r in range(len(line)):
        total += line[r]
    return total


@inner_fused
def binary_errors(column, row_weights, line, loss, factor):
    """Turn the log-odds of a variable of two states into the errors of state 1.

    What is lost, -log P(x), is added to `loss` but for log(1 + e^-|z|): `factor` is multiplied with
    1 + e^-|z|, as one logarithm serves many variables.
    """
    for r in range(len(line)):
        x, z = column[r], line[r]
        e = exp64(max(-abs(z), LOWEST_64))
        q = 1 / (1 + e)
        p = q if z >= 0 else e * q
        against = -z if x == 1 else z  # how much speaks for the other state
        known = x < 2
        loss[r] += max(against, 0.0) if known else 0.0
        factor[r] *= 1 + e if known else 1.0
        line[r] = row_weights[r] * (x - p) if known else 0.0


@inner
def take_logarithms(factor, loss):
    """Move the logarithms of factors to the losses."""
    for r in range(len(loss)):
        loss[r] += np.log(factor[r])
        factor[r] = 1.0


@inner
def state_errors(column, row_weights, card, member, probability, out):
    """Set the weight of each row times whether a test holds, less its probability."""
    out[:] = 0.0
    for s in range(card):
        if member[s]:
            for r in range(len(out)):
                out[r] += (1.0 if column[r] == s else 0.0) - probability[s, r]
    for r in range(len(out)):
        out[r] = out[r] * row_weights[r] if column[r] < card else 0.0


@compiled
def score_rows(
    columns, row_weights, cards, var_first, members, start, lines, test_first, lists, weights,
    sums, slopes,
):  # fmt: skip
    """Return the weighted sum of log P(x_i | the rest of the row); 0 where x_i is missing.

    Tests `var_first[i]` to `var_first[i + 1]` are those of variable i; their listed features are
    `test_first[t]` to `test_first[t + 1]`. What else row r gains if test t holds is `lines[t, r]`, or
    `start[t]` on all rows if there are no lines. If there are sums, `sums`, `slopes` and `lines` get
    the derivatives by `start`, by the weights and by what they held.
    """
    rows = columns.shape[1]
    score = np.empty((members.shape[1], rows))
    line, log_p = np.empty(rows), np.empty(rows)
    loss, factor, factors = np.zeros(rows), np.ones(rows), 0
    for i in range(len(cards)):
        column, card = columns[i], cards[i]
        if card == 2:
            line[:] = 0.0  # the log-odds of state 1
        else:
            score[:card] = 0.0
        for t in range(var_first[i], var_first[i + 1]):
            sign = 1.0
            if card == 2:
                sign = 1.0 if members[t, 1] else -1.0
            else:
                line[:] = 0.0
            if len(lines):
                add_times(sign, lines[t], line)
            else:
                line += sign * start[t]
            add_live(test_first[t], test_first[t + 1], lists, weights, sign, line)
            if card != 2:
                add_scores(card, members[t], line, score)
        if card == 2:
            binary_errors(column, row_weights, line, loss, factor)
            factors += 1
            if factors == FACTORS:
                take_logarithms(factor, loss)
                factors = 0
        else:
            normalize(column, card, score, log_p)
            loss -= log_p
        if not len(sums):
            continue
        total = sum_line(line)
        for t in range(var_first[i], var_first[i + 1]):
            sign = 1.0
            if card == 2:
                sign = 1.0 if members[t, 1] else -1.0
            else:
                state_errors(column, row_weights, card, members[t], score, line)
                total = sum_line(line)
            sum_live(test_first[t], test_first[t + 1], lists, sign, line, slopes)
            sums[t] += sign * total
            if len(lines):
                lines[t] = 0.0
                add_times(sign, line, lines[t])
    take_logarithms(factor, loss)
    value = 0.0
    for r in range(rows):
        value -= row_weights[r] * loss[r]
    return value
