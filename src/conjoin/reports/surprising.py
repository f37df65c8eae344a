"""The section "What looks odd": cells that are improbable given the rest of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.conversion.convert import convert
from conjoin.data.frames import columns_of
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.surprise import column_surprises
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.mixed import MixedNetwork
from conjoin.reports.markup import percent, short, state, table
from conjoin.reports.subject import Subject, evenly

MAX_LISTED = 12
"""Maximum number of cells that are listed."""

MAX_PER_ROW = 2
"""Maximum number of cells of one row: an odd value makes the rest of its row look odd, too."""

LEAST_BITS = 5.0
"""A suggestion must be at least 2 to this power times as probable as the value."""

MAX_ROWS, MAX_MIXED_ROWS = 10_000, 1_000
"""Maximum number of rows that are looked at, without and with numbers."""

LEVEL = 0.8
"""The probability of the interval that is suggested for a number."""


@dataclass(frozen=True)
class Oddity:
    """A cell, its probability and what was expected instead, as HTML."""

    row: int  # counted from 0
    cell: str
    probability: float
    expected: str
    bits: float


def oddities(subject: Subject) -> tuple[list[Oddity], int]:
    """Return the most surprising cells, and the number of rows that were looked at."""
    assert subject.rows is not None
    most = MAX_MIXED_ROWS if isinstance(subject.model, MixedNetwork) else MAX_ROWS
    at = evenly(len(subject.rows), most)
    rows = subject.rows.select(at)
    if isinstance(subject.model, MixedNetwork):
        found = _among_numbers(subject.model, rows)
    else:
        found = _among_states(subject, rows.categories)
    listed: list[Oddity] = []
    by_row: dict[int, int] = {}
    for odd in found:
        by_row[odd.row] = by_row.get(odd.row, 0) + 1
        if by_row[odd.row] <= MAX_PER_ROW and len(listed) < MAX_LISTED:
            listed.append(
                Oddity(int(at[odd.row]), odd.cell, odd.probability, odd.expected, odd.bits)
            )
    return listed, len(at)


def _among_states(subject: Subject, rows: Table) -> list[Oddity]:
    model = subject.model
    assert not isinstance(model, MixedNetwork)
    if isinstance(model, DependencyNetwork) and not rows.complete:
        model = convert(model, rows)  # missing values are summed out of a joint distribution
    ranked, found = column_surprises(model, columns_of(rows), 0), []
    for k in range(min(len(ranked), 20 * MAX_LISTED)):
        cell = ranked[k]
        if not cell.surprise >= LEAST_BITS:
            break
        expected = f"{short(cell.suggestion)} ({percent(cell.suggested_probability)})"
        said = state(cell.column, cell.value)
        found.append(Oddity(cell.row, said, cell.probability, expected, cell.surprise))
    return found


def _among_numbers(model: MixedNetwork, rows: MixedTable) -> list[Oddity]:
    answers, found = MixedAnswers(model, rows), []
    for name, hole in zip(rows.names, rows.holes.T, strict=True):
        if name in rows.domain.numeric:
            found += _odd_numbers(answers, rows, name)
            continue
        p, states = answers.category(name), rows.domain.categories[name].states
        codes = rows.categories.codes[:, rows.categories.domain.index(name)]
        for row in np.flatnonzero(~hole).tolist():
            own, best = float(p[row, codes[row]]), int(p[row].argmax())
            bits = float(np.log2(max(p[row, best], 1e-300) / max(own, 1e-300)))
            if bits >= LEAST_BITS:
                expected = f"{short(states[best])} ({percent(float(p[row, best]))})"
                found.append(Oddity(row, state(name, states[codes[row]]), own, expected, bits))
    return sorted(found, key=lambda odd: (-odd.bits, odd.row, odd.cell))


def _odd_numbers(answers: MixedAnswers, rows: MixedTable, name: str) -> list[Oddity]:
    """Return numbers beyond which little probability lies, on either side."""
    values, scale, found = rows.column(name), rows.domain.scale(name), []
    known = np.flatnonzero(~np.isnan(values))
    answer = answers.number(name).select(known)
    x = values[known]
    tail = 2 * np.minimum(answer.cdf(x), 1 - answer.cdf(x, strict=True))
    odd = np.flatnonzero(tail < 2.0**-LEAST_BITS)
    ends = [answer.select(odd).quantile((1 + sign * LEVEL) / 2) for sign in (-1, 1)]
    for k, low, high in zip(odd.tolist(), *(end.tolist() for end in ends), strict=True):
        p = float(min(1.0, tail[k]))
        expected = f"{scale.short(low)} to {scale.short(high)} ({percent(LEVEL)})"
        said = state(name, scale.text(float(x[k])))
        found.append(Oddity(int(known[k]), said, p, expected, float(-np.log2(max(p, 1e-300)))))
    return found


def section(subject: Subject) -> str:
    """Return the section; empty if there is no table."""
    if subject.rows is None:
        return ""
    found, rows = oddities(subject)
    whole = len(subject.rows)
    looked = f"all {rows:,} rows" if rows == whole else f"{rows:,} of the {whole:,} rows"
    said = (
        f"<p>These cells of {looked} fit the rest of their rows least: errors, exceptions, or the "
        "most interesting rows of the table. In any large table some cells are rare by chance. Rows are "
        "counted from 1.</p>"
    )
    if not found:
        said = (
            f"<p>Nothing: in {looked}, no value is very improbable given the rest of its row.</p>"
        )
        return f"<h2>What looks odd</h2>\n{said}"
    lines = [
        [f"{odd.row + 1:,}", odd.cell, percent(odd.probability), odd.expected] for odd in found
    ]
    note = ""
    if subject.domain.scales:
        note = "For a number, the probability is that of a value at least as extreme."
        note = f'<p class="quiet">{note}</p>'
    columns = ["#row", "value", "#probability", "expected instead"]
    return f"<h2>What looks odd</h2>\n{said}\n{table(columns, lines)}{note}"
