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
        from conjoin.kernels.scoring import truth_bits

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
    def _single(self) -> tuple[npt.NDArray[np.int32], FloatArray]:
        # A test with an off value adds the same to all states, and its rest where it holds.
        entry = self.features.indptr[:-1][self.parts[0]]
        return self.features.indices[entry], 1 - self.features.off_values()[entry]

    @cached_property
    def _pair(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], FloatArray, FloatArray]:
        entry = self.features.indptr[:-1][self.parts[1]]
        only = self.only[self.parts[1]]
        first, second = (only != 1).astype(np.float64), (only != 0).astype(np.float64)
        return self.features.indices[entry], self.features.indices[entry + 1], first, second

    def gains(self, block: Block, weights: FloatArray) -> FloatArray:
        """Return what each row would gain if each test held, tests by rows.

        A test on a missing value holds to the part that the block's marginals give.
        """
        from conjoin.kernels.scoring import add_conjunctions, add_products

        singles, pairs, hard_rows, soft_rows = self.parts
        size = len(self.features.tests)
        hard, soft = self.long
        truth = block.truth() if self._needs_truth(block) else np.zeros((0, 0))
        out = np.zeros((size, BLOCK))
        if len(pairs):
            a, b, first, second = self._pair
            matrix = np.zeros((size, size))
            np.add.at(matrix, (a, b), first * weights[pairs])
            np.add.at(matrix, (b, a), second * weights[pairs])
            np.matmul(matrix, truth, out=out)
        test, share = self._single
        out += np.bincount(test, weights[singles] * share, size)[:, None]
        if len(hard) and block.marginals is None:
            add_conjunctions(
                block.bits, hard.indptr, hard.indices, weights[hard_rows], self.only[hard_rows], out
            )
        for part, rows in ((hard, hard_rows), (soft, soft_rows)):
            if len(part) and (part is soft or block.marginals is not None):
                add_products(
                    truth, part.indptr, part.indices, part.off_values(), weights[rows],
                    self.only[rows], out,
                )  # fmt: skip
        return out

    def slopes(self, block: Block, errors: FloatArray) -> FloatArray:
        """Return the derivatives of the summed log conditionals by the weights."""
        from conjoin.kernels.scoring import sum_conjunctions, sum_products

        singles, pairs, hard_rows, soft_rows = self.parts
        hard, soft = self.long
        truth = block.truth() if self._needs_truth(block) else np.zeros((0, 0))
        out = np.zeros(len(self.features))
        test, share = self._single
        out[singles] = errors.sum(axis=1)[test] * share
        if len(pairs):
            a, b, first, second = self._pair
            matrix = errors @ truth.T
            out[pairs] = first * matrix[a, b] + second * matrix[b, a]
        for part, rows in ((hard, hard_rows), (soft, soft_rows)):
            sums = np.zeros(len(rows))
            if len(part) and part is hard and block.marginals is None:
                sum_conjunctions(
                    block.bits, part.indptr, part.indices, self.only[rows], errors, sums
                )
            elif len(part):
                off = part.off_values()
                sum_products(truth, part.indptr, part.indices, off, self.only[rows], errors, sums)
            out[rows] = sums
        return out

    def _needs_truth(self, block: Block) -> bool:
        return bool(len(self.parts[1]) or len(self.parts[3]) or block.marginals is not None)

    def log_probabilities(
        self,
        block: Block,
        weights: FloatArray,
        row_weights: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return log P(x_i | the rest of the row), variables by rows; 0 where x_i is missing.

        With weights of rows, also the errors: the weight of a row times whether each test holds on it,
        less its probability; else what `gains` returns.
        """
        from conjoin.kernels.scoring import conditionals

        gains = self.gains(block, weights)
        out = np.zeros((len(self.features.tests.cards), BLOCK))
        padded = np.zeros(0)
        if row_weights is not None:
            padded = np.zeros(BLOCK)
            padded[: block.size] = row_weights
        cards = self.features.tests.cards
        conditionals(block.columns, cards, self.test_first, self.members, padded, gains, out)
        return out[:, : block.size], gains


def features_of(model: Network) -> tuple[Features, IntArray | None]:
    """Return a network's features, and the target of each if it is a dependency network."""
    if isinstance(model, DependencyNetwork):
        return model.features()
    if isinstance(model, BayesianNetwork):
        model = model.to_markov_network()
    if not isinstance(model, MarkovNetwork):
        raise ModelError(f"a {model.kind} cannot be scored")
    return model.to_features().features, None
