"""What known numbers tell about a column, and where an unknown number lies within its states.

A number that is not known lies somewhere inside the interval that is its state, which has a probability,
too. That of several such numbers is the product of theirs, each given the known numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.inference.number_distribution import Parts, log_masses
from conjoin.models.fine_numbers import FineNumbers, patterns

USUAL_ROWS = 5.0
"""The number of rows that the mean of all intervals counts for in the mean of one."""

MAX_STATES = 1 << 9
"""Maximum number of joint states of unknown columns that known numbers tell about."""


@dataclass(frozen=True, eq=False)
class FineTerms:
    """What known scores say of a column, if all other columns that they depend on are known."""

    # Of each state of the column, in each row: of the known scores, and of unknown ones being inside
    log_likelihood: FloatArray
    shares: FloatArray  # of the classes, given the state; shape (rows, states, classes)
    # The scores of the column itself, if it is a number, given state and class: their means, of shape
    # (rows, states, classes), and standard deviations, of shape (rows, classes)
    means: FloatArray
    sds: FloatArray


def fine_terms(
    fine: FineNumbers, codes: IntArray, scores: FloatArray, v: int, inside: Sequence[int] = ()
) -> FineTerms:
    """Return what known scores, NaN where they are not known, say of a column in each row.

    What the rows say of the column itself does not count; a column of code -1 has no effect. `inside`:
    further numbers that are not known, by their place in `fine.names`; the rows have their states.
    """
    name = fine.domain.names[v]
    own = fine.names.index(name) if name in fine.names else -1
    unknown = [j for j in (own, *inside) if j >= 0]
    scores = scores.copy()
    scores[:, unknown] = np.nan
    effects = fine.of_states(v)
    classes, states, _ = effects.shape
    rest = codes.copy()
    rest[:, v] = -1
    logs = np.empty((len(codes), states, classes))
    means = {j: np.zeros((len(codes), states, classes)) for j in unknown}
    sds = {j: np.ones((len(codes), classes)) for j in unknown}
    base = fine.means(rest)
    for known, rows in patterns(scores):
        given = fine.known(known)
        residuals = scores[np.ix_(rows, known)] - base[:, rows][:, :, known]
        moved = effects[:, :, known]
        # The square of a residual less the effect of a state, for all states at once.
        turned = residuals @ given.precisions
        squares = (turned * residuals).sum(axis=2)[:, :, None] - 2 * turned @ moved.mT
        squares += ((moved @ given.precisions) * moved).sum(axis=2)[:, None]
        constants = fine.log_shares + given.log_constants
        logs[rows] = (constants[:, None, None] - 0.5 * squares).transpose(1, 2, 0)
        for j in unknown:
            gain = given.gains[:, :, j, None]
            level = base[:, rows, j] + (residuals @ gain)[:, :, 0]
            shift = effects[:, :, j] - (moved @ gain)[:, :, 0]
            means[j][rows] = level.T[:, None] + shift.T
            sds[j][rows] = np.sqrt(given.variances[:, j])
    for j in unknown:
        states_of = fine.domain.numbers(fine.names[j])
        code = codes[:, fine.domain.index(fine.names[j])]
        ends = states_of.ends[:, None] if j == own else states_of.ends[:, code, None]
        interval = states_of.intervals[None] if j == own else states_of.intervals[code, None]
        held = log_masses(means[j], sds[j][:, None], ends[..., None])
        usual = fine.usual(fine.names[j])
        held -= usual[None, :, None] if j == own else usual[code, None, None]
        logs += np.where(interval[..., None], held, 0.0)
    total = np.logaddexp.reduce(logs, axis=2)
    none = np.zeros((len(codes), states, classes)), np.ones((len(codes), classes))
    mean, sd = (means[own], sds[own]) if own >= 0 else none
    return FineTerms(total, np.exp(logs - total[:, :, None]), mean, sd)


def parts_of(terms: FineTerms, weights: FloatArray) -> Parts:
    """Return the parts of a number: of classes, and of combinations of missing states.

    `weights`: the share of each combination given the state; shape (rows, combinations, states).
    """
    rows, count, states = weights.shape
    classes = terms.shares.shape[2]

    def by_row(array: FloatArray) -> FloatArray:
        found = array.reshape(rows, count, states, classes).transpose(0, 2, 1, 3)
        return found.reshape(rows, states, count * classes)

    shares = terms.shares * weights.reshape(rows * count, states)[:, :, None]
    sds = np.broadcast_to(terms.sds[:, None], terms.means.shape)
    return by_row(shares), by_row(terms.means), by_row(np.ascontiguousarray(sds))


def class_logs(
    fine: FineNumbers, codes: IntArray, scores: FloatArray, inside: Sequence[int] = ()
) -> FloatArray:
    """Return the log-density of the known scores of complete rows and each class: rows by classes."""
    scores = scores.copy()
    scores[:, list(inside)] = np.nan
    logs = fine.log_densities(codes, scores)
    for j, name in enumerate(fine.names):
        counts = ~np.isnan(scores[:, j]) | (j in inside)
        logs -= np.where(counts, fine.usual(name)[codes[:, fine.domain.index(name)]], 0.0)[:, None]
    if not len(inside):
        return logs
    base = fine.means(codes)
    for known, rows in patterns(scores):
        given = fine.known(known)
        residuals = scores[np.ix_(rows, known)] - base[:, rows][:, :, known]
        for j in inside:
            states = fine.domain.numbers(fine.names[j])
            code = codes[rows, fine.domain.index(fine.names[j])]
            means = base[:, rows, j] + (residuals @ given.gains[:, :, j, None])[:, :, 0]
            held = log_masses(means, np.sqrt(given.variances[:, j, None]), states.ends[:, code])
            logs[rows] += np.where(states.intervals[code], held, 0.0).T
    return logs


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
        parts = [class_logs(fine, codes[rows], alone, inside) for inside in ((j,), ())]
        held = np.exp(np.subtract(*(np.logaddexp.reduce(logs, axis=1) for logs in parts)))
        size = np.bincount(codes[rows, v], weights[rows], len(states))
        total = np.bincount(codes[rows, v], weights[rows] * held, len(states))
        mean = total.sum() / max(size.sum(), 1e-300) if len(rows) else 1.0
        usual = np.log((total + USUAL_ROWS * mean) / (size + USUAL_ROWS))
        place = fine.first[v] + np.flatnonzero(states.intervals)
        found[place] = usual[states.intervals]
    return replace(fine, log_inside=found)
