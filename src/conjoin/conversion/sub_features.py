"""Sub-features: the features of CPDs after some variables are fixed to the base instance.

Each feature of length k is a row of k tests, the target's first. A sub-feature is a slice of such a
row, so it is described by its start in a buffer of rows, its length, its weight and its key; it is
written out only after equal sub-features have been merged.

For every kept slice the numerator of the paper's Equation 4 contributes the slice with weight
w * fraction * q(removed), and the denominator the slice without the target's test with weight
-w * fraction * q(removed and target).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.conversion.base_distribution import BoundBase, BoundProduct
from conjoin.conversion.orders import Orders
from conjoin.data.arrays import FloatArray, Int32Array, IntArray, UIntArray
from conjoin.data.row_hashing import code_numbers, group_equal
from conjoin.errors import ModelError
from conjoin.models.features import Features, segment_index
from conjoin.models.vocabulary import Vocabulary

MAX_EXPANDED = 1 << 26
"""Maximum number of sub-features that averaging over all orders may write out."""

TESTS_AT_ONCE = 1 << 22
"""About how many tests are sorted at a time."""


@dataclass(eq=False)
class SubFeatures:
    """Slices of a growing buffer of numbers of tests, with weights and keys."""

    tests: Vocabulary
    codes: tuple[UIntArray, UIntArray] = field(init=False)
    alone: FloatArray = field(init=False)
    size: int = 0
    buffer: list[Int32Array] = field(default_factory=list)
    # The start, length, weight and two keys of each slice, in pieces.
    slices: list[tuple[npt.NDArray[Any], ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.codes = code_numbers(len(self.tests))
        self.alone = np.zeros(len(self.tests))  # the weight of each test on its own

    def add_prefixes(
        self, rows: Int32Array, numerator: FloatArray, denominator: FloatArray
    ) -> None:
        """Add the prefixes of each row; line j of the weights is for the first j + 1 tests."""
        count, width = rows.shape
        # The denominator of the shortest prefix is a constant, which only changes log Z.
        self.alone += np.bincount(rows[:, 0], numerator[0], minlength=len(self.tests))
        length = np.repeat(np.arange(2, width + 1, dtype=np.int32), count).reshape(-1, count)
        keys = []
        for code in self.codes:
            sums = code[rows.T]
            for j in range(1, width):  # faster than a cumulative sum for few long lines
                sums[j] += sums[j - 1]
            keys.append(sums[1:])
        self._add(rows, length, numerator[1:], denominator[1:], keys)

    def add_whole(self, rows: Int32Array, numerator: FloatArray, denominator: FloatArray) -> None:
        """Add each row as it is, with one weight per row."""
        length = np.full(len(rows), rows.shape[1], np.int32)
        keys = [code[rows].sum(axis=1, dtype=np.uint64) for code in self.codes]
        self._add(rows, length, numerator, denominator, keys)

    def _add(
        self,
        rows: Int32Array,
        length: Int32Array,
        numerator: FloatArray,
        denominator: FloatArray,
        keys: list[UIntArray],
    ) -> None:
        """Add the first tests of rows, and the same slices without the target's test."""
        count, width = rows.shape
        start = np.broadcast_to(self.size + np.arange(count) * width, length.shape)
        slices: list[tuple[npt.NDArray[Any], ...]] = [(start, length, numerator, *keys)]
        if width > 1:
            without = [key - code[rows[:, 0]] for key, code in zip(keys, self.codes, strict=True)]
            slices.append((start + 1, length - 1, denominator, *without))
        for values in slices:
            keep = values[2] != 0
            whole = keep.all()
            self.slices.append(tuple(v.ravel() if whole else v[keep] for v in values))
        self.buffer.append(rows.ravel())
        self.size += rows.size

    def collect(self) -> Features:
        """Return the sub-features, shortest first; equal ones are merged, those of weight 0 left out."""
        if not self.buffer:
            return Features.empty(self.tests.cards)
        every = np.arange(len(self.tests), dtype=np.int32)[:, None]
        self.add_whole(every, self.alone, self.alone)
        start, length, weight, *keys = map(np.concatenate, zip(*self.slices, strict=True))
        order, groups, first = group_equal(keys[0], keys[1])
        weight[first] = merged_weights(weight[order], groups)
        present = np.zeros(len(weight), bool)
        present[first] = weight[first] != 0
        kept = np.flatnonzero(present)  # in order of first appearance
        start, length, weight = start[kept], length[kept], weight[kept]

        buffer = np.concatenate(self.buffer)
        order = np.argsort(length, kind="stable")
        widths = np.bincount(length)
        indptr = np.concatenate([[0], np.cumsum(np.repeat(np.arange(len(widths)), widths))])
        indices = np.empty(indptr[-1], np.int32)
        start, end = start[order], np.cumsum(widths)
        for width in np.flatnonzero(widths).tolist():
            rows = slice(end[width] - widths[width], end[width])
            tests = buffer[start[rows] + np.arange(width)[:, None]]
            tests.sort(axis=0)  # test numbers ascend with the variable
            indices[indptr[rows.start] : indptr[rows.stop]] = tests.T.ravel()
        return Features(self.tests, indptr, indices, weight[order])


def merged_weights(weight: FloatArray, groups: npt.NDArray[np.intp]) -> FloatArray:
    """Add up groups of weights; a sum within rounding error of 0 becomes 0."""
    starts = np.zeros(len(weight), np.int8)
    starts[groups] = 1
    total: npt.NDArray[Any] = np.bincount(np.cumsum(starts, dtype=np.intp) - 1, weight)
    size = np.abs(total)
    suspects = np.flatnonzero(size < 1e-10 * np.abs(weight).max(initial=0.0))
    if len(suspects):
        ends = np.append(groups[1:], len(weight))
        sizes = ends[suspects] - groups[suspects]
        parts = np.abs(weight[segment_index(groups[suspects], sizes)])
        scale = np.add.reduceat(parts, np.cumsum(sizes) - sizes)
        total[suspects[size[suspects] <= 4e-16 * sizes * scale]] = 0.0
    return total


def seen_from_target(
    tests: Int32Array, owner: IntArray, var: npt.NDArray[np.int32], ranks: IntArray
) -> tuple[IntArray, Int32Array]:
    """Sort the tests of each row cyclically from its target, for each order: orders * rows by tests.

    Also returns the distance of each test's variable from the target.
    """
    size = ranks.shape[1]
    bits = len(var).bit_length()
    narrow: Any = np.int32 if size.bit_length() + bits < 32 else np.int64
    ranks = ranks.astype(narrow)
    place = np.take(ranks[:, var], tests, axis=1) - ranks[:, owner, None]
    place += (place < 0) * narrow(size)
    combined = (place << bits | tests).reshape(-1, tests.shape[1])
    combined.sort(axis=1)
    return combined >> bits, (combined & ((1 << bits) - 1)).astype(np.int32, copy=False)


def expand_orders(
    sub: SubFeatures, features: Features, owner: IntArray, base: BoundBase, orders: Orders
) -> None:
    """Add the sub-features of given orders, or of all rotations of them."""
    ranks = np.stack(orders.ranks)
    for chosen, entry in features.by_length():
        tests, targets, weights = features.indices[entry], owner[chosen], features.weights[chosen]
        at_once = max(1, TESTS_AT_ONCE // max(1, tests.size))
        for low in range(0, len(ranks), at_once):
            block = ranks[low : low + at_once]
            place, rows = seen_from_target(tests, targets, sub.tests.var, block)
            fraction = orders.prefix_fractions(block, targets, place)
            removed, with_target = base.tails(rows)
            scale = np.tile(weights / len(ranks), len(block)) * fraction
            sub.add_prefixes(rows, scale * removed, -scale * with_target)


def expand_all(sub: SubFeatures, features: Features, owner: IntArray, base: BoundBase) -> None:
    """Add every sub-feature, weighted with the fraction of all orders that keep it.

    A sub-feature of l out of k tests survives in (l-1)!(k-l)!/k! of the orders (Section 5.2).
    """
    natural = np.arange(len(sub.tests.cards))[None]
    size = float((2.0**features.lengths).sum())
    if size > MAX_EXPANDED:
        raise ModelError(
            f"averaging over all orders would give {size:.2g} sub-features; use a smaller max_length, "
            "so that longer features are averaged by integration"
        )
    for chosen, entry in features.by_length():
        weights, k = features.weights[chosen], entry.shape[1]
        _, rows = seen_from_target(features.indices[entry], owner[chosen], sub.tests.var, natural)
        for l in range(1, k + 1):  # noqa: E741 - the paper's letter
            fraction = factorial(l - 1) * factorial(k - l) / factorial(k)
            for others in combinations(range(1, k), l - 1):
                removed = [j for j in range(1, k) if j not in others]
                scale = fraction * weights
                sub.add_whole(
                    np.ascontiguousarray(rows[:, [0, *others]]),
                    scale * base.joint(rows[:, removed]),
                    -scale * base.joint(rows[:, [0, *removed]]),
                )


def integrate_all(features: Features, owner: IntArray, base: BoundBase) -> Features:
    """Average over all orders at polynomial cost, without expanding.

    Let z in [0, 1] be the place of the target in a random order: every other test then comes before
    it, and is fixed, with probability z independently. The average of a feature is

        w * ([target] - q_target) * integral of prod_j ((1 - z) [test j] + z q_j) dz,

    a polynomial of degree k - 1 in z, which ceil(k/2) Gauss-Legendre nodes integrate exactly.
    """
    if not isinstance(base, BoundProduct):
        raise ModelError(
            "averaging over all orders with a set of base instances would expand long features "
            "exponentially; use base='marginals', orders='rotations', or a larger max_length"
        )
    from numpy.polynomial.legendre import leggauss

    # The target's factor is 1 - q where its test holds and -q elsewhere. The larger one becomes the
    # "on" value, so that no off value exceeds 1; for that the test may have to be negated.
    tests = features.tests
    both, number = Vocabulary.unique(
        tests.cards,
        np.concatenate([tests.var, tests.var]),
        np.concatenate([tests.mask, tests.complement()]),
    )
    upright, negated = number[: len(tests)], number[len(tests) :]
    q = base.q
    indices, off, lengths, weight = [], [], [], []
    for chosen, entry in features.by_length():
        rows, w, k = features.indices[entry], features.weights[chosen], entry.shape[1]
        is_target = tests.var[rows] == owner[chosen][:, None]
        p = q[rows]
        p_target = p[is_target]
        flip = p_target > 0.5
        on = np.where(flip, -p_target, 1 - p_target)
        ratio = np.where(flip, 1 - p_target, -p_target) / on
        number_row = np.where(is_target & flip[:, None], negated[rows], upright[rows])
        nodes, mass = leggauss(-(-k // 2))
        for z, share in zip((nodes + 1) / 2, mass / 2, strict=True):
            hold = (1 - z) + z * p
            values = np.where(is_target, ratio[:, None], z * p / hold)
            hold[is_target] = on
            indices.append(number_row.ravel())
            off.append(values.ravel())
            lengths.append(np.full(len(rows), k))
            weight.append(w * share * hold.prod(axis=1))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    soft = Features(
        both,
        indptr,
        np.concatenate(indices).astype(np.int32),
        np.concatenate(weight),
        np.concatenate(off),
    )
    return soft.with_sorted_tests()  # negating a test may have changed its place
