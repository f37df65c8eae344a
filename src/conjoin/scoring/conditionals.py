"""All conditional distributions of a network on the rows of a table, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network

WORDS = 8
"""Words of 64 rows that the kernels take at a time: what they need stays in the cache."""
BLOCK = 64 * WORDS
DENSE = 0.3
"""Features of two tests are a matrix if at least this share of all pairs of tests has one."""


class Block:
    """Some rows, at most `BLOCK`, in the forms that the sums need.

    Parameters
    ----------
    features : Features
        Whose tests are looked at.
    codes : array, shape (rows, variables)
        The rows.
    marginals : list of array, optional
        The distribution of each variable, where its value is missing.
    """

    def __init__(
        self, features: Features, codes: Codes, marginals: list[FloatArray] | None = None
    ) -> None:
        from conjoin.kernels.conditionals import truth_bits

        self.tests, self.size, self.marginals = features.tests, len(codes), marginals
        missing = np.iinfo(codes.dtype).max
        self.columns = np.full((codes.shape[1], BLOCK), missing, codes.dtype)
        self.columns[:, : len(codes)] = codes.T
        self.bits: UIntArray = np.empty((len(self.tests), WORDS), np.uint64)
        truth_bits(codes, self.tests.var, self.tests.mask, self.bits)

    def truth(self) -> FloatArray:
        """Return how far each test holds on each row, tests by rows."""
        held = np.unpackbits(self.bits.view(np.uint8), axis=1, bitorder="little")
        partly = held.astype(np.float64)
        if self.marginals is not None:
            missing = self.columns[self.tests.var] == np.iinfo(self.columns.dtype).max
            partly = np.where(missing, self.tests.probability(self.marginals)[:, None], partly)
        return partly


@dataclass(frozen=True, eq=False)
class Layout:
    """The features of a network, sorted by how they are summed.

    Attributes
    ----------
    features : Features
        All of them.
    only : array of int
        The place of the one test that counts in each, or -1 if all do.
    """

    features: Features
    only: IntArray

    @classmethod
    def of(cls, model: Network) -> Layout:
        """Read a network's features."""
        features, owner = features_of(model)
        only = np.full(len(features), -1, np.int64)
        if owner is not None:
            row = features.entry_feature
            mine = features.entry_var == owner[row]
            only[row[mine]] = np.flatnonzero(mine) - features.indptr[row[mine]]
            features, only = features.select(np.flatnonzero(only >= 0)), only[only >= 0]
        return cls(features, only)

    @cached_property
    def parts(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """The features of one test, of two, the longer or impossible ones, and those with off values."""
        lengths, soft = self.features.lengths, self.features.soft_rows()
        finite = np.isfinite(self.features.weights)
        single = (lengths == 1) & finite
        pair = (lengths == 2) & finite & ~soft
        if 2 * pair.sum() < DENSE * len(self.features.tests) ** 2:
            pair[:] = False
        rest = ~single & ~pair & (lengths > 0)
        return (
            np.flatnonzero(single),
            np.flatnonzero(pair),
            np.flatnonzero(rest & ~soft),
            np.flatnonzero(rest & soft),
        )

    @cached_property
    def long(self) -> tuple[Features, Features]:
        """The third and the fourth of these parts, as features."""
        return self.features.select(self.parts[2]), self.features.select(self.parts[3])

    @cached_property
    def test_first(self) -> IntArray:
        """The first test of each variable."""
        tests = self.features.tests
        return np.searchsorted(tests.var, np.arange(len(tests.cards) + 1))

    @cached_property
    def members(self) -> BoolArray:
        """Which states hold in each test."""
        return self.features.tests.members()

    @cached_property
    def single_tests(self) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """The test of each feature of one, and what is left of its weight beside the off value."""
        # A test with an off value adds the same to all states, and its rest where it holds.
        entry = self.features.indptr[:-1][self.parts[0]]
        return self.features.indices[entry], 1 - self.features.off_values()[entry]

    @cached_property
    def pair_tests(
        self,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], FloatArray, FloatArray]:
        """The two tests of each feature of the matrix, and which of them count, 0 or 1."""
        entry = self.features.indptr[:-1][self.parts[1]]
        only = self.only[self.parts[1]]
        first, second = (only != 1).astype(np.float64), (only != 0).astype(np.float64)
        return self.features.indices[entry], self.features.indices[entry + 1], first, second

    def needs_truth(self, block: Block) -> bool:
        """Return whether its sums need to know how far each test holds, beside the bits."""
        return bool(len(self.parts[1]) or len(self.parts[3]) or block.marginals is not None)

    def start_slopes(self, sums: FloatArray) -> FloatArray:
        """Return the slopes of features of one test, given the summed errors of each test."""
        out = np.zeros(len(self.features))
        test, share = self.single_tests
        out[self.parts[0]] = sums[test] * share
        return out

    def slopes(self, block: Block, truth: FloatArray, errors: FloatArray) -> FloatArray:
        """Return the slopes of the features that `Weighted.sums` adds up, but for those of one test.

        Parameters
        ----------
        block : Block
            The rows.
        truth : array of float
            What `block.truth` returns.
        errors : array of float, shape (tests, rows)
            The slope of what is summed by what each row gains if each test holds.
        """
        from conjoin.kernels.conditionals import pass_products

        _, pairs, hard_rows, soft_rows = self.parts
        out = np.zeros(len(self.features))
        if len(pairs):
            a, b, first, second = self.pair_tests
            matrix = errors @ truth.T
            out[pairs] = first * matrix[a, b] + second * matrix[b, a]
        for part, rows in zip(self.long, (hard_rows, soft_rows), strict=True):
            if len(part) and (rows is soft_rows or block.marginals is not None):
                sums = np.zeros(len(rows))
                pass_products(
                    truth, part.indptr, part.indices, part.off_values(), self.only[rows],
                    np.zeros(0), np.zeros((0, 0)), errors, sums,
                )  # fmt: skip
                out[rows] = sums
        return out


@dataclass(frozen=True, eq=False)
class Weighted:
    """Weights for the features of a layout, in the forms that the sums need.

    Attributes
    ----------
    layout : Layout
        The features.
    weights : array of float
        The weight of each.
    """

    layout: Layout
    weights: FloatArray

    @cached_property
    def start(self) -> FloatArray:
        """What all rows gain alike if each test holds: the features of one test."""
        test, share = self.layout.single_tests
        weights = self.weights[self.layout.parts[0]]
        size = len(self.layout.features.tests)
        return np.bincount(test, weights * share, size).astype(np.float64, copy=False)

    @cached_property
    def matrix(self) -> FloatArray:
        """The features of two tests, if they are a matrix: what a test gains where another holds."""
        size = len(self.layout.features.tests)
        weights = self.weights[self.layout.parts[1]]
        a, b, first, second = self.layout.pair_tests
        matrix = np.zeros((size, size))
        np.add.at(matrix, (a, b), first * weights)
        np.add.at(matrix, (b, a), second * weights)
        return matrix

    @cached_property
    def long(self) -> tuple[FloatArray, FloatArray]:
        """The weights of the layout's `long` features."""
        return self.weights[self.layout.parts[2]], self.weights[self.layout.parts[3]]

    def sums(self, block: Block, truth: FloatArray) -> FloatArray:
        """Return what `gains` does, without the conjunctions that are summed on bits.

        Parameters
        ----------
        block : Block
            The rows.
        truth : array of float
            What `block.truth` returns, if the layout needs it.
        """
        from conjoin.kernels.conditionals import pass_products

        layout = self.layout
        _, pairs, hard_rows, soft_rows = layout.parts
        out = np.zeros((len(self.start), BLOCK))
        if len(pairs):
            np.matmul(self.matrix, truth, out=out)
        out += self.start[:, None]
        parts = zip(layout.long, self.long, (hard_rows, soft_rows), strict=True)
        for part, weights, rows in parts:
            if len(part) and (rows is soft_rows or block.marginals is not None):
                pass_products(
                    truth, part.indptr, part.indices, part.off_values(), layout.only[rows],
                    weights, out, np.zeros((0, 0)), np.zeros(0),
                )  # fmt: skip
        return out

    def gains(self, block: Block) -> FloatArray:
        """Return what each row would gain if each test held, tests by rows.

        A test on a missing value holds to the part that the block's marginals give.
        """
        from conjoin.kernels.conditionals import add_conjunctions

        layout, hard = self.layout, self.layout.long[0]
        truth = block.truth() if layout.needs_truth(block) else np.zeros((0, 0))
        out = self.sums(block, truth)
        if len(hard) and block.marginals is None:
            only = layout.only[layout.parts[2]]
            add_conjunctions(block.bits, hard.indptr, hard.indices, self.long[0], only, out)
        return out

    def log_probabilities(self, block: Block) -> FloatArray:
        """Return log P(x_i | the rest of the row), variables by rows; 0 where x_i is missing."""
        from conjoin.kernels.conditionals import conditionals

        layout, cards = self.layout, self.layout.features.tests.cards
        out = np.zeros((len(cards), BLOCK))
        gains = self.gains(block)
        conditionals(block.columns, cards, layout.test_first, layout.members, gains, out)
        return out[:, : block.size]


def features_of(model: Network) -> tuple[Features, IntArray | None]:
    """Return a network's features, and the target of each if it is a dependency network."""
    if isinstance(model, DependencyNetwork):
        return model.features()
    if isinstance(model, BayesianNetwork):
        model = model.to_markov_network()
    if not isinstance(model, MarkovNetwork):
        raise ModelError(f"a {model.kind} cannot be scored")
    return model.to_features().features, None
