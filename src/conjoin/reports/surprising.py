"""The section "What looks odd": cells that are improbable given the rest of their rows."""

from __future__ import annotations

from dataclasses import dataclass

from conjoin.conversion.convert import convert
from conjoin.data.frames import columns_of
from conjoin.data.mixed_table import MixedTable
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
"""Minimum surprise of a cell that is listed."""

MAX_ROWS, MAX_MIXED_ROWS = 10_000, 1_000
"""Maximum number of rows that are looked at, without and with numbers."""


@dataclass(frozen=True)
class Oddity:
    """A cell, its probability and what was expected instead, as HTML."""

    row: int  # counted from 0
    cell: str
    probability: float
    expected: str


def oddities(subject: Subject) -> tuple[list[Oddity], int]:
    """Return the most surprising cells, and the number of rows that were looked at."""
    assert subject.rows is not None
    most = MAX_MIXED_ROWS if isinstance(subject.model, MixedNetwork) else MAX_ROWS
    at = evenly(len(subject.rows), most)
    found = _ranked(subject, subject.rows.select(at))
    listed: list[Oddity] = []
    by_row: dict[int, int] = {}
    for odd in found:
        by_row[odd.row] = by_row.get(odd.row, 0) + 1
        if by_row[odd.row] <= MAX_PER_ROW and len(listed) < MAX_LISTED:
            listed.append(Oddity(int(at[odd.row]), odd.cell, odd.probability, odd.expected))
    return listed, len(at)


def _ranked(subject: Subject, rows: MixedTable) -> list[Oddity]:
    model = subject.model
    if isinstance(model, DependencyNetwork) and not rows.categories.complete:
        model = convert(model, rows.categories)  # missing values are summed out of a joint
    table = rows.as_states() if rows.scales else rows.categories
    ranked, found = column_surprises(model, columns_of(table), 0), []
    for at, cell in enumerate(ranked[: 20 * MAX_LISTED]):
        if not cell.surprise >= LEAST_BITS:
            break
        expected, p = ranked.expected(at)
        said = state(cell.column, cell.value)
        found.append(Oddity(cell.row, said, cell.tail, f"{short(expected)} ({percent(p)})"))
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
    note = "The probability is that of all values as improbable as this one, or more so"
    note += ": of a number, those at least as extreme." if subject.domain.scales else "."
    note = f'<p class="quiet">{note}</p>'
    columns = ["#row", "value", "#probability", "expected instead"]
    return f"<h2>What looks odd</h2>\n{said}\n{table(columns, lines)}{note}"
