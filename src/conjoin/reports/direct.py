"""Direct links: what remains of an association if the rest of the row stays as it is.

In complete rows, the one column is set to a value and then to another one, and nothing else is changed.
Columns without a direct link make no difference to each other then: what they have in common is known
from the rest of the row.
"""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.reports.statements import Contrast, Statement, fifths
from conjoin.reports.subject import Subject

ROWS = 100
"""Number of rows in which a column is changed."""

MOSTLY, PARTLY = 0.5, 0.1
"""Shares of the whole association from which a link is said to be mostly or partly direct."""


def direct_effect(subject: Subject, said: Statement, rows: MixedTable) -> Contrast:
    """Return what a statement says, with the rest of each row as it is.

    Parameters
    ----------
    subject : Subject
        The model.
    said : Statement
        The statement.
    rows : MixedTable
        Complete rows. NaN is returned if the model holds all changed rows for impossible.
    """
    given, about = subject.names[said.given], subject.names[said.about]
    if said.condition is None:
        low, high = fifths(subject, given)
        changed = [_with_number(rows, given, value) for value in (high, low)]
    else:
        i = subject.domain.categories.index(given)
        others = subject.joints.single(subject.joints.domain.index(given)).copy()
        others[said.condition] = 0.0
        codes = np.full(len(rows), said.condition)
        changed = [_with_states(rows, i, codes), _with_states(rows, i, _spread(others, len(rows)))]
    if said.outcome is None:
        found = [subject.means(about, part) for part in changed]
    else:
        found = [subject.states(about, part)[:, said.outcome] for part in changed]
    return Contrast(*(_mean(values) for values in found))


def _spread(weights: FloatArray, count: int) -> FloatArray:
    """Return states in proportion to weights, mixed evenly over the rows."""
    ends = np.cumsum(weights)
    if not ends[-1] > 0:
        return np.zeros(count, np.int64)
    at = (np.random.default_rng(0).permutation(count) + 0.5) / count * ends[-1]
    return np.searchsorted(ends, at)


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _with_states(rows: MixedTable, i: int, states: FloatArray) -> MixedTable:
    codes = rows.categories.codes.copy()
    codes[:, i] = states
    return MixedTable(rows.domain, Table(rows.categories.domain, codes), rows.numbers)


def _with_number(rows: MixedTable, name: str, value: float) -> MixedTable:
    numbers = rows.numbers.copy()
    numbers[:, rows.domain.numeric.index(name)] = value
    return MixedTable(rows.domain, rows.categories, numbers)


def verdict(overall: Contrast, direct: Contrast, *, shares: bool) -> str:
    """Say how much of an association is direct.

    Examples
    --------
    >>> verdict(Contrast(0.6, 0.2), Contrast(0.5, 0.2), shares=True)
    'mostly direct'
    >>> verdict(Contrast(0.6, 0.2), Contrast(0.4, 0.4), shares=True)
    'through other columns'
    """
    if np.isnan(direct.difference):
        return "not known"
    whole, part = (_effect(found, shares) for found in (overall, direct))
    if abs(part) < PARTLY * abs(whole) or abs(part) < 1e-3 * (1 if shares else abs(whole)):
        return "through other columns"
    if part * whole < 0:
        return "reversed by the other columns"
    return (
        "mostly direct" if part >= MOSTLY * whole or part <= MOSTLY * whole < 0 else "partly direct"
    )


def _effect(found: Contrast, shares: bool) -> float:
    """Return the difference of log-odds of probabilities, or of means."""
    if not shares:
        return found.difference
    p, q = np.clip([found.held, found.otherwise], 1e-9, 1 - 1e-9)
    return float(np.log(p / (1 - p)) - np.log(q / (1 - q)))
