"""The section "What looks odd": rows with cells that are improbable given the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.surprise import surprises
from conjoin.views.reports.markup import not_measured, percent, short, state
from conjoin.views.reports.subject import Subject, answering, evenly, value_text

HEADING = "What looks odd"

MAX_LISTED = 6
"""Maximum number of rows that are listed."""

MAX_PER_ROW = 3
"""Maximum number of reasons per row: an odd value makes the rest of its row look odd, too."""

LEAST_BITS = 5.0
"""Minimum surprise of a cell that is a reason."""

MAX_ROWS = 5_000
"""Of longer tables, at most this number of evenly spaced rows is looked at, and rows with rare values."""

RARE_ROWS = 20
"""Of each column, this number of rows with the least, the greatest or the rarest values is looked at."""


@dataclass(frozen=True)
class Reason:
    """A cell, its probability and what was expected instead, as HTML."""

    column: str
    cell: str
    probability: float
    expected: str


@dataclass(frozen=True)
class OddRow:
    """A row, the oddest first, and why it is odd."""

    row: int  # counted from 0
    reasons: tuple[Reason, ...]


def odd_rows(subject: Subject) -> tuple[list[OddRow], int]:
    """Return the oddest rows, and the number of rows that were looked at."""
    assert subject.rows is not None
    at = _looked_at(subject.rows)
    rows = subject.rows.select(at)
    ranked = surprises(answering(subject.model, rows), rows)
    found: dict[int, list[Reason]] = {}
    for k, cell in enumerate(ranked[: 20 * MAX_LISTED]):
        if not cell.surprise >= LEAST_BITS:
            break
        row = int(at[cell.row])
        if row not in found and len(found) == MAX_LISTED:
            continue
        if len(found.setdefault(row, [])) < MAX_PER_ROW:
            expected, p = ranked.expected(k)
            said = f"{short(expected)} ({percent(p)})"
            shown = state(cell.column, cell.value)
            found[row].append(Reason(cell.column, shown, cell.tail, said))
    return [OddRow(row, tuple(reasons)) for row, reasons in found.items()], len(at)


def _looked_at(rows: Table) -> IntArray:
    """Return evenly spaced rows, and those with the least, the greatest or the rarest values."""
    found = [evenly(len(rows), MAX_ROWS)]
    if len(rows) > MAX_ROWS:
        for v, name in enumerate(rows.domain.names):
            if rows.numbers is not None and name in rows.domain.numeric:
                order = np.argsort(rows.column(name), kind="stable")  # missing values are last
                known = order[: int((~np.isnan(rows.column(name))).sum())]
                found += [known[:RARE_ROWS], known[len(known) - RARE_ROWS :]]
            else:
                frequent = np.append(rows.counts(v), np.inf)[rows.codes[:, v]]
                frequent = np.where(rows.holes[:, v], np.inf, frequent)
                found.append(np.argsort(frequent, kind="stable")[:RARE_ROWS])
    return np.unique(np.concatenate(found)).astype(np.int64)


def section(subject: Subject, odd: tuple[list[OddRow], int] | ModelError | None) -> str:
    """Return the section; empty if there is no table."""
    if odd is None or subject.rows is None:
        return ""
    if isinstance(odd, ModelError):
        return not_measured(HEADING, odd)
    found, rows = odd
    whole = len(subject.rows)
    looked = f"all {rows:,} rows" if rows == whole else f"{rows:,} of the {whole:,} rows"
    if not found:
        said = (
            f"<p>Nothing: in {looked}, no value is very improbable given the rest of its row.</p>"
        )
        return f"<h2>{HEADING}</h2>\n{said}"
    also = "" if rows == whole else ", among them those with the least, greatest and rarest values"
    said = (
        f"<p>Of {looked}{also}, these contain the values that fit the rest of their rows least: errors, "
        "exceptions, or the most interesting rows of the table. In any large table a few are rare by "
        "chance. Rows are counted from 1; the probability is that of a value as improbable"
        f"{', or for numbers as extreme,' if subject.numeric else ''} as the one in the table.</p>"
    )
    return f"<h2>{HEADING}</h2>\n{said}\n" + "\n".join(_row(subject.rows, row) for row in found)


def _row(rows: Table, odd: OddRow) -> str:
    """Return a row in full, with the reasons why it is odd."""
    reasons = "".join(
        f"<li>{reason.cell} <span class='quiet'>({percent(max(reason.probability, 1e-9))})</span>; "
        f"expected {reason.expected}</li>"
        for reason in odd.reasons
    )
    names, mark = {reason.column for reason in odd.reasons}, ' class="odd"'
    cells = "".join(
        f"<span{mark if name in names else ''}><i>{short(name, 24)}</i> "
        f"{short(value_text(rows, odd.row, v), 24)}</span>"
        for v, name in enumerate(rows.domain.names)
    )
    return f'<h3>Row {odd.row + 1:,}</h3><ul>{reasons}</ul><p class="whole">{cells}</p>'
