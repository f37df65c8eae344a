"""Answers as HTML, for notebooks: a title, a table whose cells may hold bars, and a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from conjoin.data.labels import shown

STYLE = (
    "border-collapse:collapse;font:13px/1.5 system-ui,sans-serif;text-align:left;width:auto",
    "padding:2px 12px 2px 0;text-align:left;border:0;vertical-align:middle",
    "display:inline-block;width:8em;height:9px;margin-right:6px;border-radius:3px;background:#8883",
)
"""The styles of tables, cells and bars; they suit light and dark notebooks."""


class Bar(NamedTuple):
    """A cell with a bar: its length as a share of the whole, and what stands beside it."""

    share: float
    words: str


Cell = str | Bar


def answer_html(
    title: str, rows: Sequence[Sequence[Cell]], note: str = "", columns: Sequence[str] = ()
) -> str:
    """Return an answer as HTML; text is escaped.

    Examples
    --------
    >>> shown = answer_html("rain & sun", [["yes", Bar(0.5, "0.5")]])
    >>> "width:50%" in shown, "rain &amp; sun" in shown
    (True, True)
    """
    head = "".join(f'<th style="{STYLE[1]};font-weight:600">{escape(c)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{STYLE[1]}">{_cell(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    parts = [
        f"<caption style='text-align:left;font-weight:600'>{escape(title)}</caption>"
        if title
        else "",
        f"<tr>{head}</tr>" if head else "",
        body,
    ]
    table = f'<table style="{STYLE[0]}">{"".join(parts)}</table>'
    foot = f'<div style="opacity:.7;font:12px system-ui,sans-serif">{escape(note)}</div>'
    return f"<div>{table}{foot}</div>" if note else table


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return escape(cell)
    width = 100 * max(0.0, min(1.0, cell.share))
    style = f"display:block;width:{width:.0f}%;height:100%;border-radius:3px;background:#5b76d8"
    fill = f'<span style="{style}"></span>'
    return f'<span style="{STYLE[2]}">{fill}</span>{escape(cell.words)}'


def state_rows(name: str, distribution: Mapping[Any, float], most: int) -> list[list[Cell]]:
    """Return the most probable states of a column as rows."""
    ranked = sorted(distribution.items(), key=lambda item: -item[1])
    rows: list[list[Cell]] = [["", shown(s), Bar(p, f"{p:.4g}")] for s, p in ranked[:most]]
    if len(ranked) > most:
        rest = sum(p for _, p in ranked[most:])
        rows.append(["", f"+{len(ranked) - most} more", Bar(rest, f"{rest:.4g}")])
    if rows:
        rows[0][0] = shown(name)
    return rows
