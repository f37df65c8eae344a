"""All conditional distributions of a network on the rows of a table, block by block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, UIntArray
from conjoin.data.table import Codes
from conjoin.kernels.conditional_log_odds import (
    add_conjunctions,
    add_products,
    conditionals,
    errors_of_gains,
    truth_bits,
)
from conjoin.kernels.layouts import ROWS_PER_BLOCK, WORDS, FeatureArrays, packed
from conjoin.models.loglinear import LogLinearForm

FORWARD = np.empty(0)
"""No slopes: kernels add features to gains, not derivatives by the gains to those by the weights."""

DENSE_SHARE = 0.3
"""Features with two tests become a matrix if at least this share of all pairs of tests has one."""


class ConditionalBlock:
    """At most `ROWS_PER_BLOCK` rows in the form that kernels read, padded with missing values.

    `columns` are the codes, variables by rows, and `bits` the rows on which each test holds, tests by
    words. With `marginals`, missing values are averaged over these distributions of the variables.
    """

    def __init__(
        self, form: LogLinearForm, codes: Codes, marginals: list[FloatArray] | None = None
    ) -> None:
        self.form, self.size, self.marginals = form, len(codes), marginals
        missing = np.iinfo(codes.dtype).max
        self.columns = np.full((codes.shape[1], ROWS_PER_BLOCK), missing, codes.dtype)
        self.columns[:, : len(codes)] = codes.T
        self.bits: UIntArray = np.empty((len(form.features.tests), WORDS), np.uint64)
        truth_bits(codes, form.arrays, self.bits)

    def truth(self) -> FloatArray:
        """Return the probability that each test holds on each row, tests by rows."""
        held = np.unpackbits(self.bits.view(np.uint8), axis=1, bitorder="little")
        truth = held.astype(np.float64)
        if self.marginals is not None:
            tests = self.form.features.tests
            missing = self.columns[tests.var] == np.iinfo(self.columns.dtype).max
            truth = np.where(missing, tests.probability(self.marginals)[:, None], truth)
        return truth


@dataclass(frozen=True, eq=False)
class FeatureGroups:
    """The features of a form by number, grouped by how they are summed."""

    # Features with one test, which count alike on all rows; the test of each, and 1 minus its off
    # value (the off value adds the same to all states).
    single: IntArray
    single_test: IntArray
    single_share: FloatArray
    # Features with two tests, if most pairs of tests have one; the two tests of each, and whether the
    # feature counts for them, 0 or 1. They are summed by a product of matrices.
    pair: IntArray
    left: IntArray
    right: IntArray
    to_left: FloatArray
    to_right: FloatArray
    conjunction: IntArray  # others without off values, and hard constraints, summed on bits
    product: IntArray  # others with off values

    @classmethod
    def of(cls, form: LogLinearForm, dense_share: float = DENSE_SHARE) -> FeatureGroups:
        """Group the features of a form."""
        lengths, with_off = form.features.lengths, form.features.soft_rows()
        is_single = (lengths == 1) & ~form.hard
        is_pair = (lengths == 2) & ~form.hard & ~with_off
        if 2 * is_pair.sum() < dense_share * len(form.features.tests) ** 2:
            is_pair[:] = False
        rest = ~is_single & ~is_pair
        single, pair = np.flatnonzero(is_single), np.flatnonzero(is_pair)
        arrays = form.arrays
        entry, own = arrays.first[pair], arrays.own[pair]
        return cls(
            single,
            arrays.test[arrays.first[single]],
            1 - arrays.off[arrays.first[single]],
            pair,
            arrays.test[entry],
            arrays.test[entry + 1],
            (own != entry + 1).astype(np.float64),
            (own != entry).astype(np.float64),
            np.flatnonzero(rest & ~with_off),
            np.flatnonzero(rest & with_off),
        )

    def partial(self, block: ConditionalBlock) -> IntArray:
        """Return the features that are summed as products: all long ones where values are missing."""
        if block.marginals is None:
            return self.product
        return np.concatenate([self.conjunction, self.product])


@dataclass(frozen=True, eq=False)
class ConditionalScorer:
    """Sums the features of a log-linear form into the conditional distributions of blocks of rows.

    `arrays` are the features as kernels read them, with the weights to use.
    """

    form: LogLinearForm
    groups: FeatureGroups
    arrays: FeatureArrays

    @classmethod
    def of(cls, form: LogLinearForm, dense_share: float = DENSE_SHARE) -> ConditionalScorer:
        """Prepare the scorer of a form, with the form's own weights."""
        return cls(form, FeatureGroups.of(form, dense_share), form.arrays)

    def with_weights(self, weights: FloatArray) -> ConditionalScorer:
        """Return the scorer with other weights; hard constraints must stay hard."""
        return replace(self, arrays=self.arrays._replace(weight=packed(weights, np.float64)))

    @cached_property
    def shared_gains(self) -> FloatArray:
        """The part of each test's gain that is the same on all rows: the features with one test."""
        groups = self.groups
        weights = self.arrays.weight[groups.single] * groups.single_share
        size = len(self.form.features.tests)
        return np.bincount(groups.single_test, weights, size).astype(np.float64, copy=False)

    @cached_property
    def pair_matrix(self) -> FloatArray:
        """The gain of each test where each other test holds, by features summed as a matrix."""
        groups, size = self.groups, len(self.form.features.tests)
        weights = self.arrays.weight[groups.pair]
        matrix = np.zeros((size, size))
        np.add.at(matrix, (groups.left, groups.right), groups.to_left * weights)
        np.add.at(matrix, (groups.right, groups.left), groups.to_right * weights)
        return matrix

    def _truth(self, block: ConditionalBlock) -> FloatArray:
        """Return the probability that each test holds on each row, if bits are not enough."""
        groups = self.groups
        needed = len(groups.pair) or len(groups.product) or block.marginals is not None
        return block.truth() if needed else np.zeros((0, 0))

    def gains(self, block: ConditionalBlock, truth: FloatArray | None = None) -> FloatArray:
        """Return the gain of each test on each row: the growth of the log-potential if it holds."""
        truth = self._truth(block) if truth is None else truth
        gains = np.zeros((len(self.shared_gains), ROWS_PER_BLOCK))
        if len(self.groups.pair):
            np.matmul(self.pair_matrix, truth, out=gains)
        gains += self.shared_gains[:, None]
        chosen = self.groups.partial(block)
        if len(chosen):
            add_products(truth, self.arrays, chosen, gains, FORWARD)
        if len(self.groups.conjunction) and block.marginals is None:
            add_conjunctions(block.bits, self.arrays, self.groups.conjunction, gains, FORWARD)
        return gains

    def log_probabilities(self, block: ConditionalBlock) -> FloatArray:
        """Return log P(x_i | the rest of the row), variables by rows, or 0 where x_i is missing."""
        out = np.zeros((len(self.form.domain), ROWS_PER_BLOCK))
        conditionals(block.columns, self.arrays, self.gains(block), out)
        return out[:, : block.size]

    def value_and_slopes(
        self, block: ConditionalBlock, weights: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the weighted sum of all `log_probabilities`, and its derivatives by the weights."""
        truth = self._truth(block)
        gains = self.gains(block, truth)
        value = errors_of_gains(block.columns, weights, self.arrays, gains)
        return value, self._slopes(block, truth, gains)

    def weight_of_live_rows(self, block: ConditionalBlock, weights: FloatArray) -> FloatArray:
        """Return for each feature the weight of the rows where one of its tests decides about it."""
        errors = np.tile(weights, (len(self.shared_gains), 1))
        return self._slopes(block, self._truth(block), errors)

    def _slopes(self, block: ConditionalBlock, truth: FloatArray, errors: FloatArray) -> FloatArray:
        """Return the derivatives by all weights from those by the gains, tests by rows."""
        groups = self.groups
        slopes = np.zeros(len(self.form.features))
        sums = errors.sum(axis=1)
        slopes[groups.single] = sums[groups.single_test] * groups.single_share
        if len(groups.pair):
            matrix = errors @ truth.T
            left, right = groups.left, groups.right
            slopes[groups.pair] = (
                groups.to_left * matrix[left, right] + groups.to_right * matrix[right, left]
            )
        chosen = groups.partial(block)
        if len(chosen):
            add_products(truth, self.arrays, chosen, errors, slopes)
        if len(groups.conjunction) and block.marginals is None:
            add_conjunctions(block.bits, self.arrays, groups.conjunction, errors, slopes)
        return slopes
