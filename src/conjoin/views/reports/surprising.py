"""The section "What looks odd": cells that are improbable given the rest of their rows."""

from __future__ import annotations

from dataclasses import dataclass

from conjoin.errors import ModelError
from conjoin.inference.surprise import surprises
from conjoin.views.reports.markup import not_measured, percent, short, state, table
from conjoin.views.reports.subject import Subject, answering, evenly

HEADING = "What looks odd"

MAX_LISTED = 12
"""Maximum number of cells that are listed."""

MAX_PER_ROW = 2
"""Maximum number of cells of one row: an odd value makes the rest of its row look odd, too."""

LEAST_BITS = 5.0
"""Minimum surprise of a cell that is listed."""

MAX_ROWS = 5_000
"""Maximum number of rows that are looked at."""


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
    at = evenly(len(subject.rows), MAX_ROWS)
    rows = subject.rows.select(at)
    ranked = surprises(answering(subject.model, rows), rows)
    listed: list[Oddity] = []
    by_row: dict[int, int] = {}
    for k, cell in enumerate(ranked[: 20 * MAX_LISTED]):
        if not cell.surprise >= LEAST_BITS or len(listed) == MAX_LISTED:
            break
        by_row[cell.row] = by_row.get(cell.row, 0) + 1
        if by_row[cell.row] <= MAX_PER_ROW:
            expected, p = ranked.expected(k)
            said = f"{short(expected)} ({percent(p)})"
            listed.append(
                Oddity(int(at[cell.row]), state(cell.column, cell.value), cell.tail, said)
            )
    return listed, len(at)


def section(subject: Subject) -> str:
    """Return the section; empty if there is no table."""
    if subject.rows is None:
        return ""
    try:
        odd_cells, rows = oddities(subject)
    except ModelError as error:
        return not_measured(HEADING, error)
    whole = len(subject.rows)
    looked = f"all {rows:,} rows" if rows == whole else f"{rows:,} of the {whole:,} rows"
    said = (
        f"<p>These cells of {looked} fit the rest of their rows least: errors, exceptions, or the "
        "most interesting rows of the table. In any large table some cells are rare by chance. Rows are "
        "counted from 1.</p>"
    )
    if not odd_cells:
        said = (
            f"<p>Nothing: in {looked}, no value is very improbable given the rest of its row.</p>"
        )
        return f"<h2>{HEADING}</h2>\n{said}"
    lines = [
        [f"{odd.row + 1:,}", odd.cell, percent(max(odd.probability, 1e-9)), odd.expected]
        for odd in odd_cells
    ]
    note = "The probability is that of all values as improbable as this one, or more so"
    note += ": of a number, those at least as extreme." if subject.numeric else "."
    note = f'<p class="quiet">{note}</p>'
    columns = ["#row", "value", "#probability", "expected instead"]
    return f"<h2>{HEADING}</h2>\n{said}\n{table(columns, lines)}{note}"
