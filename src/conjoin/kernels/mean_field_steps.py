"""Mean field: the distribution of each variable given the expected features of all others.

Under independent variables the expected value of a feature is the product over its tests of
``off + (1 - off) P(test)``. These factors are kept for each entry and updated after each variable.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.gibbs_chain import softmax
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import FeatureArrays, Float1, Int1


@inner
def expect_test(t, features, q, expected):
    """Set the expected factor of all entries of a test."""
    mass = 0.0
    for k in range(features.member_first[t], features.member_first[t + 1]):
        mass += q[features.member[k]]
    for k in range(features.column_first[t], features.column_first[t + 1]):
        e = features.column_entry[k]
        expected[e] = features.off[e] + (1.0 - features.off[e]) * mass


@inner
def expected_logits(v, features, expected, logits):
    """Write the expected log-odds of a variable's states."""
    b = features.state_first[v]
    for s in range(features.cards[v]):
        logits[s] = 0.0
    for t in range(features.test_first[v], features.test_first[v + 1]):
        for k in range(features.column_first[t], features.column_first[t + 1]):
            entry = features.column_entry[k]
            f = features.entry_feature[entry]
            if features.own[f] >= 0 and features.own[f] != entry:
                continue
            value = features.weight[f] * (1.0 - features.off[entry])
            for e in range(features.first[f], features.first[f + 1]):
                if e != entry:
                    value *= expected[e]
            for m in range(features.member_first[t], features.member_first[t + 1]):
                logits[features.member[m] - b] += value


@compiled
def mean_field(
    free: Int1, features: FeatureArrays, q: Float1, max_sweeps: int, tolerance: float
) -> tuple[int, float]:
    """Set each variable's distribution to exp(expected features), in turn, until they converge."""
    expected = np.empty(len(features.test))
    for t in range(len(features.test_var)):
        expect_test(t, features, q, expected)
    widest = features.cards.max() if len(features.cards) else 1
    logits, p = np.empty(widest), np.empty(widest)
    change = 0.0
    for sweep in range(max_sweeps):
        change = 0.0
        for i in range(len(free)):
            v = free[i]
            b, card = features.state_first[v], features.cards[v]
            expected_logits(v, features, expected, logits)
            softmax(logits, card, 1.0, p)
            moved = 0.0
            for s in range(card):
                moved = max(moved, abs(p[s] - q[b + s]))
                q[b + s] = p[s]
            change = max(change, moved)
            if moved > 0:
                for t in range(features.test_first[v], features.test_first[v + 1]):
                    expect_test(t, features, q, expected)
        if change < tolerance:
            return sweep + 1, change
    return max_sweeps + 1, change


@compiled
def expected_potential(features: FeatureArrays, q: Float1) -> float:
    """Return the expected sum of all features under independent variables."""
    expected = np.empty(len(features.test))
    for t in range(len(features.test_var)):
        expect_test(t, features, q, expected)
    result = 0.0
    for f in range(len(features.weight)):
        value = features.weight[f]
        for e in range(features.first[f], features.first[f + 1]):
            value *= expected[e]
        result += value
    return result
