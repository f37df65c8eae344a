"""What goes with what, in words: one statement for each of the strongest pairs of columns.

A statement is about two columns alone, whatever the others are: this is the association that a table of
counts of the two columns would show. Its direction is the same in the model and in the table; a pair
about which they disagree gets no statement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.number_scale import NumberScale, number_text
from conjoin.data.table import Table
from conjoin.views.reports.markup import percent, short, state
from conjoin.views.reports.subject import Subject, evenly

NEARLY_SAME = 0.95
"""Columns of at least this strength say nearly the same."""


@dataclass(frozen=True)
class Contrast:
    """The probability of a state, or the mean of a number, where a condition holds and where not."""

    held: float
    otherwise: float

    @property
    def difference(self) -> float:
        """The difference, positive if the condition makes the quantity larger."""
        return self.held - self.otherwise


@dataclass(frozen=True)
class Statement:
    """What two columns have to do with each other."""

    given: int  # the positions of the two columns
    about: int
    condition: int | None  # their states that the statement is about; None for numbers
    outcome: int | None
    # The probability of the outcome (or the mean of the number) with and without the condition. For
    # two numbers: the mean of the second in the highest and in the lowest fifth of the first.
    model: Contrast
    table: Contrast | None  # the same in the table
    strength: float  # 0 if the columns are independent, 1 if each determines the other
    table_strength: float | None  # the same in the table


def statements(
    subject: Subject, most: int, about: str | None = None
) -> tuple[list[Statement], int]:
    """Return statements on the strongest pairs, and the number of pairs without a clear direction.

    Pairs that may be due to chance are left out, without being counted. A column that says nearly the
    same as an earlier one only has a statement with that one. `about`: a column of all pairs.
    """
    copies = near_copies(subject)
    shares = subject.joints.shares
    seen = None if subject.table_joints is None else subject.table_joints.shares
    left, right = np.triu_indices(len(shares), 1)
    order = np.argsort(-shares[left, right], kind="stable")
    both = subject.joints, subject.table_joints
    listed: list[Statement] = []
    unclear = 0
    for i, j in zip(left[order].tolist(), right[order].tolist(), strict=True):
        if len(listed) == most or shares[i, j] < 1e-3:
            break
        if any(joints is not None and joints.may_be_chance(i, j) for joints in both):
            continue
        if any(copies.get(a, b) != b for a, b in ((i, j), (j, i))):
            continue
        if about is not None and about not in (subject.names[i], subject.names[j]):
            continue
        if about == subject.names[i]:
            i, j = j, i
        numeric = [subject.names[k] in subject.numeric for k in (i, j)]
        if any(numeric):
            if numeric[0] and not numeric[1]:  # the state is the condition
                i, j = j, i
            condition, model, table = _about_number(subject, i, j)
            outcome = None
        else:
            condition, outcome, model, table = _about_states(subject, i, j)
        if condition == -1:
            unclear += 1
            continue
        table_share = None if seen is None else float(seen[i, j])
        listed.append(
            Statement(i, j, condition, outcome, model, table, float(shares[i, j]), table_share)
        )
    return listed, unclear


def near_copies(subject: Subject) -> dict[int, int]:
    """Return the columns that say nearly the same as an earlier one: {position: that of the first}."""
    shares = (subject.table_joints or subject.joints).shares
    copies: dict[int, int] = {}
    for j in range(len(shares)):
        same = [i for i in range(j) if i not in copies and shares[i, j] >= NEARLY_SAME]
        if same:
            copies[j] = same[0]
    return copies


def contrast(p: FloatArray, s: int, t: int) -> Contrast:
    """Return the probability of column t where row s holds, and where it does not."""
    held, rest = p[s].sum(), p.sum() - p[s].sum()
    other = p[:, t].sum() - p[s, t]
    return Contrast(float(p[s, t] / max(held, 1e-300)), float(other / max(rest, 1e-300)))


def _about_states(subject: Subject, i: int, j: int) -> tuple[int, int, Contrast, Contrast | None]:
    """Return the two states that go together, or avoid each other, most; -1 if there are none."""
    p = subject.joints.pair(i, j)
    weight = _correlations(p)
    q = None
    if subject.table_joints is not None:
        q = subject.table_joints.pair(i, j)
        other = _correlations(q)
        weight = np.where(np.sign(other) == np.sign(weight), weight, 0.0)
    size = np.abs(weight)
    if not size.max(initial=0.0) > 1e-6:
        return -1, -1, Contrast(0.0, 0.0), None
    near = np.argwhere(size >= size.max() * (1 - 1e-9))
    row, column = p.sum(axis=1), p.sum(axis=0)
    # Of equals, states that go together rather than those that do not; then the rarest, then the last.
    s, t = min(
        near.tolist(),
        key=lambda c: (weight[*c] < 0, round(row[c[0]] * column[c[1]], 12), -c[0], -c[1]),
    )
    return s, t, contrast(p, s, t), None if q is None else contrast(q, s, t)


def _correlations(p: FloatArray) -> FloatArray:
    """Return the correlation of any two states, as columns of zeros and ones."""
    row, column = p.sum(axis=1), p.sum(axis=0)
    scale = np.sqrt(np.outer(row * (1 - row), column * (1 - column)))
    return np.divide(p - np.outer(row, column), scale, out=np.zeros_like(p), where=scale > 1e-12)


def _about_number(subject: Subject, i: int, j: int) -> tuple[int | None, Contrast, Contrast | None]:
    """Return the state (None for a number) that moves the mean of a number most; -1 if unclear."""
    condition: int | None = None
    if subject.names[i] not in subject.numeric:
        condition = _state_that_moves(subject, i, j)
    model = _means(subject, subject.drawn, i, j, condition)
    table = None if subject.rows is None else _means(subject, subject.rows, i, j, condition)
    if table is not None and not table.difference * model.difference > 0:
        return -1, model, table
    return condition, model, table


def _state_that_moves(subject: Subject, i: int, j: int) -> int:
    rows = subject.drawn
    codes, y = rows.codes[:, i].astype(np.int64), rows.column(subject.names[j])
    codes, y = codes[~np.isnan(y)], y[~np.isnan(y)]
    card = int(subject.domain.cards[i])
    size, total = np.bincount(codes, minlength=card), np.bincount(codes, y, card)
    rest = len(y) - size
    gap = total / np.maximum(size, 1) - (y.sum() - total) / np.maximum(rest, 1)
    return int(np.argmax(np.abs(gap) * np.sqrt(size * rest)))


def _means(subject: Subject, rows: Table, i: int, j: int, condition: int | None) -> Contrast:
    y = rows.column(subject.names[j])
    known = ~rows.holes[:, i] & ~np.isnan(y)
    if condition is None:
        x = rows.column(subject.names[i])
        low, high = fifths(subject, subject.names[i])
        held, otherwise = known & (x >= high), known & (x <= low)
    else:
        held = known & (rows.codes[:, i] == condition)
        otherwise = known & ~held
    weights = np.ones(len(y)) if rows.weights is None else rows.weights
    ends = [
        float(weights[w] @ y[w] / weights[w].sum()) if weights[w].sum() > 0 else np.nan
        for w in (held, otherwise)
    ]
    return Contrast(*ends)


def fifths(subject: Subject, name: str) -> tuple[float, float]:
    """Return where the lowest fifth of a number ends and the highest begins, as recorded values.

    The highest is above the lowest, even if most values are the same.
    """
    for rows in (subject.rows, subject.drawn):
        x = np.zeros(0) if rows is None else rows.column(name)
        x = x[~np.isnan(x)]
        if len(x):
            break
    low, high = np.quantile(x, [0.2, 0.8], method="nearest")
    if low == high:
        high = x[x > low].min(initial=np.inf) if (x > low).any() else high
    return float(low), float(high)


def sentence(subject: Subject, said: Statement) -> str:
    """Return a statement as a sentence, in HTML."""
    given, about = subject.domain.variables[said.given], subject.domain.variables[said.about]
    if said.outcome is not None:
        condition = state(given.name, given.states[said.condition or 0])
        other = state(about.name, about.states[said.outcome])
        return f"Where {condition}, {other} is {times(said.model)}"
    number = subject.domain.scale(about.name).kind == "number"
    up, down = ("higher", "lower") if number else ("later", "earlier")
    moves = f"<b>{short(about.name)}</b> is {up if said.model.difference > 0 else down}"
    if said.condition is not None:
        return f"Where {state(given.name, given.states[said.condition])}, {moves} on average"
    scale = subject.domain.scale(given.name)
    most, least = (short(words) for words in _ends_in_words(scale, *fifths(subject, given.name)))
    return (
        f"Where <b>{short(given.name)}</b> is {most}, {moves} on average than where it is {least}"
    )


def _ends_in_words(scale: NumberScale, low: float, high: float) -> tuple[str, str]:
    """Return the ranges from `high` on and up to `low`; at the extremes of the column, single values."""
    most, least = scale.text(high), scale.text(low)
    return (
        most if high >= scale.high else f"{most} or more",
        least if low <= scale.low else f"up to {least}",
    )


def times(contrast: Contrast) -> str:
    """Say by what factor a probability is larger or smaller.

    Examples
    --------
    >>> times(Contrast(0.6, 0.2)), times(Contrast(0.1, 0.4)), times(Contrast(0.3, 0.0))
    ('3.0 times as likely', 'only 25% as likely', 'found, and almost nowhere else')
    """
    high, low = max(contrast.held, contrast.otherwise), min(contrast.held, contrast.otherwise)
    is_up = contrast.held >= contrast.otherwise
    if low < 1e-6:
        return "found, and almost nowhere else" if is_up else "almost never found"
    ratio = high / low
    if ratio < 1.05:
        return f"slightly {'more' if is_up else 'less'} likely"
    if is_up:
        return f"{f'{ratio:.1f}' if ratio < 9.95 else f'{ratio:,.0f}'} times as likely"
    return f"only {percent(1 / ratio)} as likely"


def figures(subject: Subject, said: Statement, contrast: Contrast | None) -> str:
    """Return the two figures of a contrast as HTML: "62% rather than 19%"."""
    if contrast is None:
        return ""
    if np.isnan(contrast.held) or np.isnan(contrast.otherwise):
        return '<span class="quiet">unknown</span>'
    if said.outcome is None:
        scale, distance = subject.domain.scale(subject.names[said.about]), abs(contrast.difference)
        held, otherwise = (
            number_text(x, distance / 20, 3) if scale.kind == "number" else scale.short(x)
            for x in (contrast.held, contrast.otherwise)
        )
    else:
        held, otherwise = percent(contrast.held), percent(contrast.otherwise)
    if held == otherwise:
        return f'<span class="figures">{held} <i>in both cases</i></span>'
    return f'<span class="figures">{held} <i>rather than</i> {otherwise}</span>'


def rows_for(subject: Subject, most: int) -> Table:
    """Return complete rows: of the table, or drawn from the model if it has too few of them."""
    rows = subject.rows
    if rows is None or (~rows.holes.any(axis=1)).sum() < most:
        rows = subject.drawn
    whole: IntArray = np.flatnonzero(~rows.holes.any(axis=1))
    return rows.select(whole[evenly(len(whole), most)])
