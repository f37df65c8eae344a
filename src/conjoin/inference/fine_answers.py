"""What known numbers tell about a column, and where an unknown number lies within its states.

A number that is not known lies somewhere inside the interval that is its state, which has a probability,
too. That of several such numbers is the product of theirs, each given the known numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.models.fine_numbers import FineNumbers

USUAL_ROWS = 5.0
"""The number of rows that the mean of all intervals counts for in the mean of one."""

MAX_STATES = 1 << 9
"""Maximum number of joint states of unknown columns that known numbers tell about."""


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


def log_masses(means: FloatArray, sds: FloatArray | float, ends: FloatArray) -> FloatArray:
    """Return the log-probability of Gaussians between two ends."""
    from scipy.special import log_ndtr, ndtr

    low, high = ends
    side = np.where(low > means, -1.0, 1.0)  # differences of small numbers are more exact
    first, last = side * (low - means) / sds, side * (high - means) / sds
    whole = np.abs(ndtr(last) - ndtr(first))
    with np.errstate(divide="ignore"):
        return np.where(whole > 1e-300, np.log(whole), log_ndtr(np.maximum(first, last)))
