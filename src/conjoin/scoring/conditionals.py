"""All conditional distributions of a network on the rows of a table, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
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
MOST_TESTS = 2048
"""Up to so many tests, features of two tests are a matrix."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some features, with the place of the one test that counts in each, or -1 if all do."""

    features: Features
    only: IntArray


@dataclass(frozen=True, eq=False)
class Conditionals:
    """The features of a network, sorted by how they are summed.

    Attributes
    ----------
    cards : array of int
        The number of states of each variable.
    features : Features
        All of them; the parts below share their tests.
    test_first : array of int
        The first test of each variable.
    single : array of float, shape (tests,)
        The weights of the features of one test.
    pairs : array of float, shape (tests, tests), or none
        Those of two tests: a matrix product is their sum on many rows.
    hard : Part
        Longer conjunctions, or impossible ones.
    soft : Part
        Features with off values.
    """

    cards: IntArray
    features: Features
    test_first: IntArray
    single: FloatArray
    pairs: FloatArray | None
    hard: Part
    soft: Part

    @classmethod
    def of(cls, model: Network) -> Conditionals:
        """Read a network's features."""
        features, owner = features_of(model)
        owned = np.full(len(features), -1, np.int64)
        if owner is not None:
            mine = features.entry_var == owner[features.entry_feature]
            owned[features.entry_feature[mine]] = (
                np.flatnonzero(mine) - features.indptr[features.entry_feature[mine]]
            )
            features, owned = features.select(np.flatnonzero(owned >= 0)), owned[owned >= 0]
        return cls.sorted(features, owned)

    @classmethod
    def sorted(cls, features: Features, only: IntArray) -> Conditionals:
        """Sort features into parts."""
        tests, lengths = features.tests, features.lengths
        soft, finite = features.soft_rows(), np.isfinite(features.weights)
        is_single = (lengths == 1) & finite
        is_pair = (lengths == 2) & finite & ~soft & (len(tests) <= MOST_TESTS)
        single = np.zeros(len(tests))
        # A single test with an off value adds the same to all states, and its rest where it holds.
        one = features.indptr[:-1][is_single]
        share = 1 - features.off_values()[one]
        np.add.at(single, features.indices[one], features.weights[is_single] * share)
        pairs = None
        if is_pair.any():
            pairs = np.zeros((len(tests), len(tests)))
            a = features.indices[features.indptr[:-1][is_pair]]
            b = features.indices[features.indptr[:-1][is_pair] + 1]
            weight, place = features.weights[is_pair], only[is_pair]
            np.add.at(pairs, (a, b), np.where(place != 1, weight, 0.0))
            np.add.at(pairs, (b, a), np.where(place != 0, weight, 0.0))
        rest = ~is_single & ~is_pair & (lengths > 0)
        hard_rows, soft_rows = np.flatnonzero(rest & ~soft), np.flatnonzero(rest & soft)
        first = np.searchsorted(tests.var, np.arange(len(tests.cards) + 1))
        return cls(
            tests.cards,
            features,
            first,
            single,
            pairs,
            Part(features.select(hard_rows), only[hard_rows]),
            Part(features.select(soft_rows), only[soft_rows]),
        )

    def members(self) -> BoolArray:
        """Return which states hold in each test."""
        return self.features.tests.members()

    def gains(self, codes: Codes, marginals: list[FloatArray] | None = None) -> FloatArray:
        """Return what each row would gain if each test held, tests by rows.

        A test on a missing value holds to the part that `marginals` give.
        """
        from conjoin.kernels.scoring import add_conjunctions, add_products, truth_bits

        tests = self.features.tests
        bits = np.empty((len(tests), WORDS), np.uint64)
        out = np.zeros((len(tests), BLOCK))
        truth_bits(codes, tests.var, tests.mask, bits)
        partly = self._truth(codes, bits, marginals)
        if self.pairs is not None:
            np.matmul(self.pairs, partly, out=out[:, : len(codes)])
        out += self.single[:, None]
        hard, soft = self.hard.features, self.soft.features
        if len(hard):
            if marginals is None:
                add_conjunctions(bits, hard.indptr, hard.indices, hard.weights, self.hard.only, out)
            else:
                off = hard.off_values()
                add_products(
                    partly, hard.indptr, hard.indices, off, hard.weights, self.hard.only, out
                )
        if len(soft):
            off = soft.off_values()
            add_products(partly, soft.indptr, soft.indices, off, soft.weights, self.soft.only, out)
        return out

    def _truth(
        self, codes: Codes, bits: npt.NDArray[np.uint64], marginals: list[FloatArray] | None
    ) -> FloatArray:
        """Return how far each test holds on each row."""
        if self.pairs is None and not len(self.soft.features) and marginals is None:
            return np.zeros((0, 0))
        truth = np.unpackbits(bits.view(np.uint8), axis=1, count=len(codes), bitorder="little")
        partly = truth.astype(np.float64)
        if marginals is not None:
            tests = self.features.tests
            missing = codes.T[tests.var] == np.iinfo(codes.dtype).max
            partly = np.where(missing, tests.probability(marginals)[:, None], partly)
        return partly

    def log_probabilities(
        self, codes: Codes, marginals: list[FloatArray] | None = None
    ) -> FloatArray:
        """Return log P(x_i | the rest of the row), rows by variables; 0 where x_i is missing."""
        from conjoin.kernels.scoring import log_conditionals

        out = np.empty(codes.shape)
        gains = self.gains(codes, marginals)
        log_conditionals(codes, self.cards, self.test_first, self.members(), gains, out)
        return out


def features_of(model: Network) -> tuple[Features, IntArray | None]:
    """Return a network's features, and the target of each if it is a dependency network."""
    if isinstance(model, DependencyNetwork):
        return model.features()
    if isinstance(model, BayesianNetwork):
        model = model.to_markov_network()
    if not isinstance(model, MarkovNetwork):
        raise ModelError(f"a {model.kind} cannot be scored")
    return model.to_features().features, None
