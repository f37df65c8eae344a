"""The base instance x', or the distribution over which it is averaged (the paper's Section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, Int32Array
from conjoin.data.domain import Domain
from conjoin.data.frames import as_table
from conjoin.data.table import Codes, Table, codes_of
from conjoin.errors import ModelError
from conjoin.models.cpd import SUM_TOLERANCE
from conjoin.models.vocabulary import Vocabulary

BITS_AT_ONCE = 1 << 26
"""About how many pairs of a test and a row are in memory at a time."""


class Product:
    """Independent variables with given marginals: one instance and "uniform" are special cases."""

    def __init__(self, marginals: Sequence[npt.ArrayLike]) -> None:
        self.marginals = [np.asarray(m, np.float64) for m in marginals]

    @classmethod
    def of_instance(cls, domain: Domain, codes: Sequence[int]) -> Product:
        """Return the distribution of a single instance."""
        return cls([np.eye(card)[code] for card, code in zip(domain.cards, codes, strict=True)])

    @classmethod
    def of(cls, domain: Domain, marginals: Mapping[str, Mapping[Any, float]]) -> Product:
        """Build from {variable: {state: probability}}; all variables must be given."""
        normalized = []
        for name in marginals:
            domain.index(name)  # raises an error if there is no such variable
        for variable in domain:
            if variable.name not in marginals:
                raise ModelError(f"the base has no marginal for {variable.name!r}; add it")
            p = np.zeros(len(variable))
            for state, value in marginals[variable.name].items():
                p[variable.index(state)] = value
            if not ((p >= 0).all() and abs(p.sum() - 1) <= SUM_TOLERANCE):
                raise ModelError(f"the base's marginal of {variable.name!r} must sum to 1: {p}")
            normalized.append(p / p.sum())
        return cls(normalized)

    def bind(self, tests: Vocabulary) -> BoundProduct:
        """Prepare for the tests of a vocabulary."""
        return BoundProduct(tests.probability(self.marginals))


class BoundProduct:
    """`Product` over the tests of one vocabulary."""

    def __init__(self, q: FloatArray) -> None:
        self.q = q  # the probability of each test

    def joint(self, tests: Int32Array) -> FloatArray:
        """Return the probability that all tests of each row hold."""
        return self.q[tests].prod(axis=1)

    def tails(self, tests: Int32Array) -> tuple[FloatArray, FloatArray]:
        """Return the probability of the tests that are removed when each prefix of a row is kept.

        Line j of the first matrix (tests by rows) is for the tests after the first j + 1; in the
        second matrix the first test, the target's, is removed too.
        """
        q = self.q[tests.T]
        after = np.ones(q.shape)
        for j in range(len(q) - 1, 0, -1):
            np.multiply(after[j], q[j], out=after[j - 1])
        return after, after * q[0]


class Instances:
    """The rows of a table, each as probable as its weight."""

    def __init__(self, codes: Codes, weights: FloatArray | None = None) -> None:
        if not len(codes):
            raise ModelError("the set of base instances is empty")
        if weights is not None and not weights.sum() > 0:
            raise ModelError("the weights of all base instances are 0")
        self.codes, self.weights = codes, weights

    def bind(self, tests: Vocabulary) -> BoundInstances:
        """Prepare for the tests of a vocabulary."""
        step = max(8, BITS_AT_ONCE // max(1, len(tests)) // 64 * 8)
        packed = [
            np.packbits(tests.truth(self.codes[low : low + step]), axis=1)
            for low in range(0, len(self.codes), step)
        ]
        return BoundInstances(np.concatenate(packed, axis=1), len(self.codes), self.weights)


class BoundInstances:
    """`Instances` over the tests of one vocabulary: the rows that satisfy each test, as bits."""

    def __init__(self, bits: npt.NDArray[np.uint8], rows: int, weights: FloatArray | None) -> None:
        self.bits, self.rows, self.weights = bits, rows, weights
        # Weighted rows are unpacked, to a byte and then a number of 8 bytes per bit.
        self.at_once = BITS_AT_ONCE if weights is None else BITS_AT_ONCE // 64

    def _mean(self, bits: npt.NDArray[np.uint8]) -> FloatArray:
        if self.weights is None:
            return np.bitwise_count(bits).sum(axis=1, dtype=np.int64) / self.rows
        hits = np.unpackbits(bits, axis=1, count=self.rows)
        return hits @ (self.weights / self.weights.sum())

    def joint(self, tests: Int32Array) -> FloatArray:
        """Return the probability that all tests of each row hold."""
        result = np.ones(len(tests))
        step = max(1, self.at_once // (self.bits.shape[1] * max(1, tests.shape[1])))
        if tests.shape[1]:
            for low in range(0, len(tests), step):
                part = slice(low, low + step)
                result[part] = self._mean(np.bitwise_and.reduce(self.bits[tests[part]], axis=1))
        return result

    def tails(self, tests: Int32Array) -> tuple[FloatArray, FloatArray]:
        """Do as `BoundProduct.tails` does."""
        width = tests.shape[1]
        after, with_target = np.ones((2, width, len(tests)))
        step = max(1, self.at_once // self.bits.shape[1])
        for low in range(0, len(tests), step):
            part = slice(low, low + step)
            target = self.bits[tests[part, 0]]
            removed = np.full_like(target, 255)
            for j in range(width - 1, -1, -1):
                if j < width - 1:
                    removed &= self.bits[tests[part, j + 1]]
                    after[j, part] = self._mean(removed)
                with_target[j, part] = self._mean(removed & target)
        return after, with_target


Base = Product | Instances
BoundBase = BoundProduct | BoundInstances


def resolve_base(domain: Domain, base: Any, data: Any) -> tuple[Base, str]:
    """Return the base distribution for the options of `convert`, and its name for the provenance."""
    table = None if data is None else as_table(data, domain)
    if table is not None and table.domain != domain:
        codes_of(domain, table, complete=False)  # says what is wrong
    if base is None:
        base = "uniform" if table is None else "marginals"
    if isinstance(base, str):
        if base == "uniform":
            return Product([np.full(card, 1 / card) for card in domain.cards]), base
        if base not in ("marginals", "data"):
            raise ModelError(
                f"unknown base {base!r}; use 'marginals', 'data' or 'uniform', an instance, "
                "instances, or marginals"
            )
        if table is None:
            raise ModelError(f"base {base!r} needs a table: give one, or use base='uniform'")
        if not len(table):
            raise ModelError(f"base {base!r} needs a table with rows; this one is empty")
        if base == "marginals":
            return Product(table.marginals()), base
        return Instances(codes_of(domain, table), table.weights), base
    if isinstance(base, Product):
        sizes = [len(m) for m in base.marginals]
        if sizes != domain.cards.tolist() or not all(np.isfinite(m).all() for m in base.marginals):
            raise ModelError("the base must have a distribution over the states of each variable")
        return base, "given marginals"
    if isinstance(base, Instances):
        return Instances(codes_of(domain, np.asarray(base.codes)), base.weights), "instances"
    if isinstance(base, Mapping):
        if base and all(isinstance(value, Mapping) for value in base.values()):
            return Product.of(domain, base), "given marginals"
        return Product.of_instance(domain, domain.encode(base)), "instance"
    if not isinstance(base, Table | np.ndarray | list | tuple):
        raise ModelError(
            f"{base!r} is not a base; the documentation of `convert` lists the options"
        )
    weights = base.weights if isinstance(base, Table) else None
    return Instances(codes_of(domain, base), weights), "instances"
