"""`FineNumbers`: where numbers lie within their states, given the states of all columns.

The normal scores y of the numbers are Gaussian in each of a few classes z. What the states s of all
columns say adds up, about the means and about the log-odds of the classes:

    p(y | s) = sum over z of share_z(s) N(y; mean_z(s), covariance_z)
    mean_z(s) = intercept_z + sum over columns j of effect_z,j[s_j]
    share_z(s) is proportional to exp(log_share_z + sum over columns j of gate_z,j[s_j])

A class whose share is much smaller than the largest one has none, so that few classes count for given
states; but the first class, which is a broad one for unusual numbers, always counts.

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

SMALLEST_SHARE = 1e-3
"""A class has no share if it would have less than this multiple of the largest share."""


@dataclass(frozen=True, eq=False)
class FineNumbers:
    """The distribution of normal scores given states."""

    domain: Domain  # the columns, without hidden ones
    names: tuple[str, ...]  # the columns of numbers; of all others, only the state counts
    log_shares: FloatArray  # the log-odds of the classes; shape (classes,)
    gates: FloatArray  # what states add to these, side by side as below; shape (classes, states)
    intercepts: FloatArray  # shape (classes, numbers)
    # effects: of all states of all columns, side by side; shape (classes, states, numbers)
    effects: FloatArray
    covariances: FloatArray  # shape (classes, numbers, numbers)
    # The log of the mean probability that a number lies inside each interval that is its state, of all
    # states of all columns, side by side: states are as probable as the network says. By default 0
    log_inside: FloatArray | None = None

    def __post_init__(self) -> None:
        states = int(self.domain.cards.sum())
        classes, numbers = len(self.log_shares), len(self.names)
        shapes = {
            "log_shares": (classes,),
            "gates": (classes, states),
            "intercepts": (classes, numbers),
            "effects": (classes, states, numbers),
            "covariances": (classes, numbers, numbers),
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
        """Whether the distribution of each number depends on each column; shape (columns, numbers)."""
        used = (self.effects != 0).any(axis=0) | (self.gates != 0).any(axis=0)[:, None]
        return np.logical_or.reduceat(used, self.first, axis=0)

    def scores(self, numbers: FloatArray) -> FloatArray:
        """Return the normal scores of the values of all columns of numbers."""
        columns = [
            self.domain.numbers(name).scores(numbers[:, self.domain.numeric.index(name)])
            for name in self.names
        ]
        return np.stack(columns, axis=1)

    def means(self, codes: IntArray) -> FloatArray:
        """Return the mean of each score in each row: classes by rows by numbers; -1 adds nothing."""
        return self._summed(self.intercepts, self.effects, codes)

    def log_odds(self, codes: IntArray) -> FloatArray:
        """Return the logarithms that shares of classes are proportional to: rows by classes."""
        return self._summed(self.log_shares[None], self.gates.T[None], codes)[0]

    def _summed(self, start: FloatArray, effects: FloatArray, codes: IntArray) -> FloatArray:
        from conjoin.kernels.class_terms import add_effects

        result = np.repeat(start[:, None], len(codes), axis=1)
        columns = np.flatnonzero(self.matters.any(axis=1))
        places = packed(codes, np.int64, 2), columns, self.first
        add_effects(*places, packed(effects, np.float64, 3), result)
        return result

    def of_states(self, v: int) -> slice:
        """Return the places of the states of a column among those of all columns."""
        return slice(self.first[v], self.first[v] + self.domain.cards[v])

    def log_densities(self, codes: IntArray, scores: FloatArray) -> FloatArray:
        """Return the log-density of the known scores of complete rows and each class; -inf for none."""
        found = self.entries(codes, scores, None)
        logs = np.full((len(codes), len(self.log_shares)), -np.inf)
        row, k = np.nonzero(found.classes >= 0)
        logs[row, found.classes[row, k]] = found.logs[row, 0, k]
        return logs

    def entries(
        self, codes: IntArray, scores: FloatArray, v: int | None, inside: Sequence[int] = ()
    ) -> ClassEntries:
        """Return what scores, NaN where they are not known, say of classes and of a column.

        `codes`: -1 has no effect. `v`: the column; None to ask about no column. `inside`: further
        numbers that are not known but for their states, which are among the codes.
        """
        from conjoin.kernels import class_terms

        own_gates = np.zeros((len(self.log_shares), 1))
        own, own_ends = np.zeros((*own_gates.shape, len(self.names))), np.zeros((2, 0))
        unknown = list(inside)
        if v is not None:
            here, name = self.of_states(v), self.domain.names[v]
            own_gates, own = self.gates[:, here], self.effects[:, here]
            codes = codes.copy()
            codes[:, v] = -1
            if name in self.names:
                unknown.insert(0, self.names.index(name))
                own_ends = self.domain.numbers(name).ends_inside
        scores = scores.copy()
        scores[:, unknown] = np.nan
        log_smallest = float(np.log(SMALLEST_SHARE))
        log_odds, own_gates = (
            packed(self.log_odds(codes), np.float64, 2),
            packed(own_gates, np.float64, 2),
        )
        classes = np.empty(log_odds.shape, np.int64)
        width = class_terms.counting_classes(log_odds, own_gates, log_smallest, classes)
        classes = np.ascontiguousarray(classes[:, :width])
        states = own_gates.shape[1]
        logs = np.empty((len(codes), states, width))
        class_terms.log_shares_of_entries(log_odds, own_gates, log_smallest, classes, logs)
        means = np.zeros((len(codes), states, len(unknown) * width))
        sds = np.ones((len(unknown), len(codes), width))
        ends = np.tile([-np.inf, np.inf], (len(codes), len(unknown), 1))
        for place in range(len(unknown) - len(inside), len(unknown)):
            column = self.names[unknown[place]]
            code = codes[:, self.domain.index(column)]
            ends[:, place] = self.domain.numbers(column).ends_inside[:, code].T
        columns, wanted = np.flatnonzero(self.matters.any(axis=1)), np.array(unknown, np.int64)
        rest = (
            classes, packed(codes, np.int64, 2), columns, self.first,
            packed(self.intercepts, np.float64, 2), packed(self.effects, np.float64, 3),
            packed(own, np.float64, 3), packed(scores, np.float64, 2),
        )  # fmt: skip
        for known, rows in patterns(scores):
            given = KnownScores.of(self.covariances, known)
            spread = np.sqrt(given.variances[:, wanted])
            class_terms.add_densities(
                rows, *rest, known, packed(given.precisions, np.float64, 3),
                packed(given.log_constants, np.float64), wanted,
                packed(given.gains[:, :, wanted], np.float64, 3), packed(spread, np.float64, 2),
                packed(own_ends, np.float64, 2), ends, logs, means,
            )  # fmt: skip
            sds[:, rows] = spread.T[:, classes[rows]]
        shape = len(codes), states, len(unknown), width
        return ClassEntries(classes, logs, means.reshape(shape).transpose(2, 0, 1, 3), sds)

    def places(self, columns: IntArray) -> list[int]:
        """Return the places among the numbers of those columns that have scores."""
        names = [self.domain.names[v] for v in columns.tolist()]
        return [self.names.index(name) for name in names if name in self.names]

    def usual(self, name: str) -> FloatArray:
        """Return the log of the mean probability of each state of a number (see `log_inside`)."""
        assert self.log_inside is not None
        return self.log_inside[self.of_states(self.domain.index(name))]

    def of_numbers(self, places: Sequence[int]) -> FineNumbers:
        """Return the distribution of some of the numbers."""
        at = np.array(places, np.int64)
        return replace(
            self, names=tuple(self.names[j] for j in places), intercepts=self.intercepts[:, at],
            effects=self.effects[:, :, at], covariances=self.covariances[:, at[:, None], at],
        )  # fmt: skip

    def in_single_precision(self) -> FineNumbers:
        """Return the same with rounded effects and gates, so that its file is smaller."""
        effects, gates = (
            array.astype(np.float32).astype(np.float64) for array in (self.effects, self.gates)
        )
        return replace(self, effects=effects, gates=gates)

    def reordered(self, domain: Domain) -> FineNumbers:
        """Return the same for the same columns in another order."""
        order = self.domain.state_order(domain)
        assert self.log_inside is not None
        return replace(
            self, domain=domain, gates=self.gates[:, order], effects=self.effects[:, order],
            log_inside=self.log_inside[order],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ClassEntries:
    """The classes that count in each row, one per entry, and what known scores say of them."""

    classes: IntArray  # -1 after the last one; shape (rows, entries)
    # The log-share of each entry given each state, the log-density of the known scores, and the
    # log-probabilities that unknown ones lie in their intervals; shape (rows, states, entries)
    logs: FloatArray
    means: FloatArray  # of unknown scores; shape (unknown, rows, states, entries)
    sds: FloatArray  # of these; shape (unknown, rows, entries)


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
