"""`FineNumbers`: where numbers lie within their states, given the states of all columns.

The normal scores y of the numbers are Gaussian in each of a few classes z, with means that add up over
the states s of all columns:

    p(y | s) = sum over z of share_z N(y; mean_z(s), covariance_z)
    mean_z(s) = intercept_z + sum over columns j of effect_z,j[s_j]

Given the states, a number that is not known drops out, so a known score is a likelihood of the states
that its mean depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, read_only
from conjoin.data.domain import Domain
from conjoin.data.row_hashing import distinct_rows
from conjoin.errors import ModelError
from conjoin.kernels.layouts import packed

ROWS_AT_ONCE = 1 << 12
"""Number of rows whose means are computed together."""


@dataclass(frozen=True, eq=False)
class FineNumbers:
    """The distribution of normal scores given states."""

    domain: Domain  # the columns, without hidden ones
    names: tuple[str, ...]  # the columns that have scores
    log_shares: FloatArray  # the log-probabilities of the classes; shape (classes,)
    intercepts: FloatArray  # shape (classes, numbers)
    # effects: of all states of all columns, side by side; shape (classes, states, numbers)
    effects: FloatArray
    covariances: FloatArray  # shape (classes, numbers, numbers)
    # Which numbers are evidence for the states of other columns; of the others, only the state is
    evidence: BoolArray
    # The log of the mean probability that a number lies inside each interval that is its state, of all
    # states of all columns, side by side: states are as probable as the network says. By default 0
    log_inside: FloatArray | None = None

    def __post_init__(self) -> None:
        states = int(self.domain.cards.sum())
        classes, numbers = len(self.log_shares), len(self.names)
        shapes = {
            "log_shares": (classes,),
            "intercepts": (classes, numbers),
            "effects": (classes, states, numbers),
            "covariances": (classes, numbers, numbers),
            "evidence": (numbers,),
            "log_inside": (states,),
        }
        if self.log_inside is None:
            object.__setattr__(self, "log_inside", np.zeros(states))
        for name, shape in shapes.items():
            array = np.asarray(getattr(self, name))
            if array.shape != shape:
                raise ModelError(f"the {name} of numbers have the shape {array.shape}, not {shape}")
            object.__setattr__(self, name, read_only(array))

    @cached_property
    def first(self) -> IntArray:
        """The place of the first state of each column among the effects."""
        return np.asarray(np.cumsum(self.domain.cards) - self.domain.cards)

    @cached_property
    def matters(self) -> BoolArray:
        """Whether the mean of each number depends on each column; shape (columns, numbers)."""
        return np.logical_or.reduceat((self.effects != 0).any(axis=0), self.first, axis=0)

    def scores(self, numbers: FloatArray) -> FloatArray:
        """Return the normal scores of the values of all columns of numbers."""
        columns = [
            self.domain.numbers(name).scores(numbers[:, self.domain.numeric.index(name)])
            for name in self.names
        ]
        return np.stack(columns, axis=1)

    def means(self, codes: IntArray) -> FloatArray:
        """Return the mean of each score in each row: classes by rows by numbers; -1 adds nothing."""
        from conjoin.kernels.effect_sums import add_effects

        result = np.repeat(self.intercepts[:, None], len(codes), axis=1)
        columns = np.flatnonzero(self.matters.any(axis=1))
        effects = packed(self.effects, np.float64, 3)
        add_effects(packed(codes, np.int64, 2), columns, self.first, effects, result)
        return result

    def of_states(self, v: int) -> FloatArray:
        """Return the effects of the states of a column: classes by states by numbers."""
        return self.effects[:, self.first[v] : self.first[v] + self.domain.cards[v]]

    def log_densities(self, codes: IntArray, scores: FloatArray) -> FloatArray:
        """Return the log-density of the known scores of complete rows and each class."""
        logs = np.tile(self.log_shares, (len(codes), 1))
        for known, rows in patterns(scores):
            if not len(known):
                continue
            given = self.known(known)
            for low in range(0, len(rows), ROWS_AT_ONCE):
                block = rows[low : low + ROWS_AT_ONCE]
                residuals = scores[np.ix_(block, known)] - self.means(codes[block])[:, :, known]
                logs[block] += given.log_densities(residuals).T
        return logs

    def places(self, columns: IntArray) -> list[int]:
        """Return the places among the numbers of those columns that have scores."""
        names = [self.domain.names[v] for v in columns.tolist()]
        return [self.names.index(name) for name in names if name in self.names]

    def usual(self, name: str) -> FloatArray:
        """Return the log of the mean probability of each state of a number (see `log_inside`)."""
        assert self.log_inside is not None
        v = self.domain.index(name)
        return self.log_inside[self.first[v] : self.first[v] + self.domain.cards[v]]

    def known(self, columns: IntArray) -> KnownScores:
        """Return what follows from known scores."""
        return KnownScores.of(self.covariances, columns)

    def reordered(self, domain: Domain) -> FineNumbers:
        """Return the same for the same columns in another order."""
        at = [self.domain.index(name) for name in domain.names]
        places = [self.first[v] + np.arange(self.domain.cards[v]) for v in at]
        effects = self.effects[:, np.concatenate(places)]
        assert self.log_inside is not None
        inside = self.log_inside[np.concatenate(places)]
        return replace(self, domain=domain, effects=effects, log_inside=inside)


@dataclass(frozen=True, eq=False)
class KnownScores:
    """What follows from the known scores of a row in each class."""

    columns: IntArray  # the numbers that are known
    precisions: FloatArray  # the inverses of their covariances; shape (classes, known, known)
    log_constants: FloatArray  # the log-densities at the means; shape (classes,)
    gains: FloatArray  # how means of numbers follow residuals; shape (classes, known, numbers)
    variances: FloatArray  # of all numbers given the known ones; shape (classes, numbers)

    @classmethod
    def of(cls, covariances: FloatArray, columns: IntArray) -> KnownScores:
        """Return what follows from known scores of Gaussians."""
        across = covariances[:, columns]
        within = across[:, :, columns]
        precisions = np.asarray(np.linalg.inv(within), np.float64)
        log_determinants = np.linalg.slogdet(within)[1]
        constants = -0.5 * (log_determinants + len(columns) * np.log(2 * np.pi))
        gains = precisions @ across
        explained = (gains * across).sum(axis=1)
        left = np.diagonal(covariances, axis1=1, axis2=2) - explained
        return cls(columns, precisions, constants, gains, np.maximum(left, 1e-12))

    def log_densities(self, residuals: FloatArray) -> FloatArray:
        """Return the log-densities, classes by rows, of residuals: classes by rows by known scores."""
        squares = ((residuals @ self.precisions) * residuals).sum(axis=2)
        return np.asarray(self.log_constants[:, None] - 0.5 * squares)


def patterns(scores: FloatArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the numbers that rows know, and the rows that know just these."""
    if not len(scores):
        return
    known = ~np.isnan(scores)
    first, number = distinct_rows(known.view(np.uint8))
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number))
    for row, rows in zip(known[first], np.split(order, ends[:-1]), strict=True):
        yield np.flatnonzero(row), rows


def scored_columns(domain: Domain) -> Sequence[str]:
    """Return the columns of numbers with intervals among their states."""
    return [name for name in domain.numeric if domain.numbers(name).intervals.any()]
