"""What known numbers tell about a column, and where an unknown number lies within its states.

A number that is not known lies somewhere inside the interval that is its state, which has a probability,
too. That of several such numbers is the product of theirs, each given the known numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.inference.number_distribution import Parts
from conjoin.models.fine_numbers import FineNumbers

USUAL_ROWS = 5.0
"""The number of rows that the mean of all intervals counts for in the mean of one."""

MAX_STATES = 1 << 9
"""Maximum number of joint states of unknown columns that known numbers tell about."""


SMALLEST_PART = 1e-13
"""Parts of the distribution of a number with a smaller probability are left out."""


@dataclass(frozen=True, eq=False)
class FineTerms:
    """What known scores say of a column, if all other columns that they depend on are known."""

    # Of each state of the column, in each row: of the known scores, and of unknown ones being inside
    log_likelihood: FloatArray
    # Of the classes that count in a row, given the state; shape (rows, states, entries)
    shares: FloatArray
    # The scores of the column itself, if it is a number, given state and class: their means, of shape
    # (rows, states, entries), and standard deviations, of shape (rows, entries)
    means: FloatArray
    sds: FloatArray


def fine_terms(
    fine: FineNumbers, codes: IntArray, scores: FloatArray, v: int, inside: Sequence[int] = ()
) -> FineTerms:
    """Return what known scores, NaN where they are not known, say of a column in each row.

    What the rows say of the column itself does not count; a column of code -1 has no effect. `inside`:
    further numbers that are not known, by their place in `fine.names`; the rows have their states.
    """
    from conjoin.kernels.class_terms import shares_of_entries

    entries = fine.entries(codes, scores, v, inside)
    logs, total = entries.logs, np.empty(entries.logs.shape[:2])
    shares_of_entries(logs, total)
    means, sds = np.zeros(logs.shape), np.ones(entries.classes.shape)
    if fine.domain.names[v] in fine.names:
        means, sds = entries.means[0], entries.sds[0]
        total -= fine.usual(fine.domain.names[v])
    return FineTerms(total - _usual(fine, codes, inside)[:, None], logs, means, sds)


def parts_of(terms: FineTerms, weights: FloatArray, p: FloatArray) -> Parts:
    """Return the parts of a number: of classes, and of combinations of missing states.

    `weights`: the share of each combination given the state; shape (rows, combinations, states).
    `p`: the probability of each state in each row; parts that are improbable in all states are left out.
    """
    rows, count, states = weights.shape
    entries = terms.shares.shape[2]

    def by_row(array: FloatArray) -> FloatArray:
        laid_out = array.reshape(rows, count, states, entries).transpose(0, 2, 1, 3)
        return laid_out.reshape(rows, states, count * entries)

    shares = by_row(terms.shares * weights.reshape(rows * count, states)[:, :, None])
    probable = (shares * p[:, :, None]).max(axis=1) > SMALLEST_PART
    kept = np.argsort(~probable, axis=1, kind="stable")[:, : probable.sum(axis=1).max()]
    sds = np.broadcast_to(terms.sds[:, None], terms.means.shape)
    shares, means, sds = (
        np.take_along_axis(array, kept[:, None], axis=2)
        for array in (shares, by_row(terms.means), by_row(np.ascontiguousarray(sds)))
    )
    total = shares.sum(axis=2, keepdims=True)
    shares = np.where(total > 0, shares / np.where(total > 0, total, 1.0), 1.0 / shares.shape[2])
    return shares, means, sds


def _usual(fine: FineNumbers, codes: IntArray, numbers: Iterable[int]) -> FloatArray:
    """Return the log of the usual probability that numbers lie in the intervals of their rows."""
    total = np.zeros(len(codes))
    for name in (fine.names[j] for j in numbers):
        total += fine.usual(name)[codes[:, fine.domain.index(name)]]
    return total


def log_likelihoods(
    fine: FineNumbers, codes: IntArray, scores: FloatArray, inside: Sequence[int] = ()
) -> FloatArray:
    """Return the log-density of the known scores of complete rows.

    `inside`: numbers that are not known but for their states (see `fine_terms`).
    """
    logs = np.logaddexp.reduce(fine.entries(codes, scores, None, inside).logs[:, 0], axis=1)
    for j in range(len(fine.names)):
        counts = ~np.isnan(scores[:, j]) | (j in inside)
        logs -= np.where(counts, _usual(fine, codes, [j]), 0.0)
    return np.asarray(logs)


def with_usual_masses(
    fine: FineNumbers, codes: IntArray, scores: FloatArray, weights: FloatArray
) -> FineNumbers:
    """Return the same with the mean probability, over rows, that a number lies inside its interval.

    Intervals of few rows count as the mean of all, to a degree.
    """
    found = np.zeros(int(fine.domain.cards.sum()))
    for j, name in enumerate(fine.names):
        v, states = fine.domain.index(name), fine.domain.numbers(name)
        rows = np.flatnonzero(states.intervals[codes[:, v]])
        alone = scores[rows].copy()
        alone[:, j] = np.nan
        logs = [log_likelihoods(fine, codes[rows], alone, inside) for inside in ((j,), ())]
        held = np.exp(logs[0] - logs[1])
        size = np.bincount(codes[rows, v], weights[rows], len(states))
        total = np.bincount(codes[rows, v], weights[rows] * held, len(states))
        mean = total.sum() / max(size.sum(), 1e-300) if len(rows) else 1.0
        usual = np.log((total + USUAL_ROWS * mean) / (size + USUAL_ROWS))
        place = fine.first[v] + np.flatnonzero(states.intervals)
        found[place] = usual[states.intervals]
    return replace(fine, log_inside=found)
