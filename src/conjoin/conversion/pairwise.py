"""The direct formula for logistic CPDs over binary variables.

With logit P(X_i = 1 | rest) = b_i + sum_j w_ij x_j and orders in which i precedes j with frequency
p_ij, the Markov network has the pair weights p_ij w_ij + p_ji w_ji, and the weight of X_i alone is
b_i + sum_j (w_ij - pair_ij) q_j, where q_j is the probability that x_j = 1 under the base.
"""

from __future__ import annotations

import numpy as np

from conjoin.conversion.orders import Orders
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.models.features import Features
from conjoin.models.vocabulary import Vocabulary


def rounded_sums(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return sums by index; a result within rounding error of 0 becomes 0."""
    total = np.bincount(index, values, minlength=size)
    return np.where(np.abs(total) <= 1e-15 * np.bincount(index, np.abs(values), size), 0.0, total)


def distinct_numbers(numbers: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct ones of numbers below `size`, ascending, and the place of each number.

    Examples
    --------
    >>> [part.tolist() for part in distinct_numbers(np.array([7, 2, 7]), 9)]
    [[2, 7], [1, 0, 1]]
    """
    if size > 16 * len(numbers):
        distinct, place = np.unique(numbers, return_inverse=True)
        return distinct, place
    seen = np.zeros(size, bool)
    seen[numbers] = True
    place = np.cumsum(seen) - 1
    return np.flatnonzero(seen), place[numbers]


def is_pairwise(features: Features) -> bool:
    """Return whether all features are over one or two binary variables."""
    return (
        len(features) > 0
        and features.off is None
        and int(features.lengths.max()) <= 2
        and bool((features.tests.cards[features.tests.var] == 2).all())
    )


def convert_pairwise(
    features: Features, owner: IntArray, probability: FloatArray, orders: Orders
) -> Features:
    """Convert features of length 1 and 2 over binary variables, given the probability of each test."""
    tests = features.tests
    size = len(tests.cards)
    # A test is constant + slope * x: x itself, or 1 - x.
    upright = (tests.mask[:, 0] == 2).astype(np.float64)
    constant, slope = 1 - upright, 2 * upright - 1
    q = np.full(size, 0.5)
    q[tests.var] = np.where(upright == 1, probability, 1 - probability)

    alone = np.flatnonzero(features.lengths == 1)
    test = features.indices[features.indptr[alone]]
    pairs = np.flatnonzero(features.lengths == 2)
    both = features.indices[features.indptr[pairs][:, None] + np.arange(2)]
    target = owner[pairs]
    first_is_target = tests.var[both[:, 0]] == target
    mine = np.where(first_is_target, both[:, 0], both[:, 1])
    theirs = np.where(first_is_target, both[:, 1], both[:, 0])
    other = tests.var[theirs].astype(np.int64)
    weight = features.weights[pairs] * slope[mine]
    w = weight * slope[theirs]

    pair_weight = orders.first_of_pair(target, other) * w
    low, high = np.minimum(target, other), np.maximum(target, other)
    pair, which = distinct_numbers(low * size + high, size * size)
    total = rounded_sums(which, pair_weight, len(pair))
    left, right = np.divmod(pair, size)
    bias = rounded_sums(
        np.concatenate([owner[alone], target, target, left, right]),
        np.concatenate([
            features.weights[alone] * slope[test], weight * constant[theirs], w * q[other],
            -total * q[right], -total * q[left],
        ]),
        size,
    )  # fmt: skip

    single = np.flatnonzero(bias)
    keep = np.flatnonzero(total)
    ends = np.stack([left[keep], right[keep]], axis=1).ravel()
    used, number = distinct_numbers(np.concatenate([single, ends]), size)
    vocabulary = Vocabulary(
        tests.cards, used.astype(np.int32), np.full((len(used), tests.mask.shape[1]), 2, np.uint64)
    )
    vocabulary.mask[:, 1:] = 0
    indptr = np.concatenate([np.arange(len(single)), len(single) + 2 * np.arange(len(keep) + 1)])
    weights = np.concatenate([bias[single], total[keep]])
    return Features(vocabulary, indptr, number.astype(np.int32), weights)
