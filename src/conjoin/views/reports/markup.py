"""Pieces of HTML that the sections of the report share. Everything that comes from a table is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from conjoin.data.arrays import FloatArray
from conjoin.data.labels import shown
from conjoin.views.reports.layout import shortened

MAX_LABEL = 34
"""Longer names and states are shortened; their full text is in a tooltip."""


def text(label: Any) -> str:
    """Return a name or a state as HTML, in full."""
    return escape(_plain(label))


def short(label: Any, letters: int = MAX_LABEL) -> str:
    """Return a name or a state as HTML, shortened if it is long."""
    full = _plain(label)
    if len(full) <= letters:
        return escape(full)
    return f'<span title="{escape(full)}">{escape(shortened(full, letters))}</span>'


def _plain(label: Any) -> str:
    """Return a label as text; whole numbers have no fraction."""
    return shown(int(label) if isinstance(label, float) and label.is_integer() else label)


def state(name: Any, label: Any) -> str:
    """Return a column and its state as HTML."""
    return f"<b>{short(name)} = {short(label)}</b>"


def percent(share: float) -> str:
    """Return a share in percent, with more digits near 0 and 1, as HTML.

    Examples
    --------
    >>> percent(0.5), percent(0.034), percent(0.0004), percent(0.9996), percent(1.0)
    ('50%', '3.4%', '0.04%', '99.96%', '100%')
    >>> percent(0.99999)
    '&gt;99.99%'
    """
    near = min(share, 1 - share)
    digits = 0 if near >= 0.095 or near < 1e-9 else 1 if near >= 0.0095 else 2
    if 1e-9 <= near < 5e-5:
        return "&lt;0.01%" if share < 0.5 else "&gt;99.99%"
    return f"{100 * share:.{digits}f}%"


def bar(share: float, title: str = "") -> str:
    """Return a horizontal bar for a share of 1."""
    width = 100 * max(0.0, min(1.0, share))
    tip = f' title="{escape(title)}"' if title else ""
    return f'<span class="bar"{tip}><i style="width:{width:.1f}%"></i></span>'


def histogram(
    shares: FloatArray, marks: FloatArray | None, tips: Sequence[str], ends: tuple[str, str]
) -> str:
    """Return vertical bars, marks to compare them with, and the ends of the axis; tips are HTML."""
    top = max(float(shares.max()), 0.0 if marks is None else float(marks.max()), 1e-300)
    parts = []
    for k, share in enumerate(shares.tolist()):
        mark = ""
        if marks is not None:
            mark = f'<u style="bottom:{100 * float(marks[k]) / top:.1f}%"></u>'
        bar_of = f'<i style="height:{100 * share / top:.1f}%"></i>'
        parts.append(f'<span title="{tips[k]}">{bar_of}{mark}</span>')
    low, high = map(text, ends)
    return (
        f'<div class="histogram">{"".join(parts)}</div>'
        f'<div class="axis"><span>{low}</span><span>{high}</span></div>'
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, stacked: bool = False) -> str:
    """Return a table of HTML cells; a column named '#...' holds numbers.

    On a narrow screen, the cells of a row are put below each other if `stacked`.
    """
    kind = [' class="number"' if c.startswith("#") else "" for c in columns]
    head = "".join(
        f'<th scope="col"{k}>{c.lstrip("#")}</th>' for k, c in zip(kind, columns, strict=True)
    )
    cells = [f'{k} data-name="{c.lstrip("#")}"' for k, c in zip(kind, columns, strict=True)]
    body = "\n".join(
        "<tr>" + "".join(f"<td{k}>{c}</td>" for k, c in zip(cells, row, strict=True)) + "</tr>"
        for row in rows
    )
    style = ' class="stacked"' if stacked else ""
    whole = f"<table{style}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return f'<div class="scroll">{whole}</div>'


def not_measured(heading: str, error: Exception) -> str:
    """Return a section that says why it has no content; the error is about rows that were chosen."""
    said = re.sub(r"^row [\d,]+ ", "a row ", str(error))
    return f"<h2>{heading}</h2>\n<p>This was not measured: {escape(said)}.</p>"


def count(number: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"


def stylesheet(package: str, name: str) -> str:
    """Return the colours of all pages, and then the rules of a page from a file of its package."""
    colours = (files("conjoin.views.reports") / "colours.css").read_text(encoding="utf-8")
    return colours + (files(package) / name).read_text(encoding="utf-8")
