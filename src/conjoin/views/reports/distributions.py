"""The section "What is in the table": every column with its distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.views.reports.markup import bar, count, histogram, percent, short, table, text
from conjoin.views.reports.subject import Subject, missing_patterns, value_text

MAX_STATES = 8
"""Maximum number of states of a column that are listed; those that are most frequent."""

MAX_CARDS = 60
"""Columns beyond this number are folded away."""

BARS = 24
"""Number of bars of a histogram."""

FIRST_ROWS, MAX_NAMED = 5, 8
"""Number of rows that are shown, and the maximum number of columns that are named in a list."""

MANY_ZEROS = 0.1
"""A share of zeros that is worth mentioning."""

OUTSIDE = 0.005
"""Share of the numbers on each side that belong to the outermost bars."""


@dataclass(frozen=True, eq=False)
class ColumnShares:
    """A column: its states or bars of numbers, and their shares."""

    name: str
    labels: Sequence[object]  # its states; those of a number are texts such as "1.5 to 2"
    model: FloatArray  # the shares of the states in the model
    table: FloatArray | None  # and among the known values of the table
    missing: float  # the share of missing values in the table
    note: str  # a few words on the column
    ends: tuple[str, str] | None = None  # of a number: its lowest and highest bar


def column_shares(subject: Subject) -> list[ColumnShares]:
    """Return the distribution of each column."""
    return [
        _number(subject, name) if name in subject.numeric else _states(subject, name)
        for name in subject.names
    ]


def _states(subject: Subject, name: str) -> ColumnShares:
    i, variable, shares, missing = subject.domain.index(name), subject.domain[name], None, 0.0
    if subject.rows is not None:
        codes = np.where(subject.rows.holes[:, i], -1, subject.rows.codes[:, i].astype(np.int64))
        shares, missing = _shares(subject.rows, codes, len(variable))
    note = count(len(variable), "state")
    return ColumnShares(name, variable.states, subject.joints.single(i), shares, missing, note)


def _number(subject: Subject, name: str) -> ColumnShares:
    distribution, scale = subject.number(name), subject.domain.scale(name)
    cuts, half = _cuts(subject, name), (scale.step or 0.0) / 2
    below = np.array([distribution.cdf(last) for last in (cuts[1:-1] - half).tolist()])
    model = np.diff(np.concatenate([[0.0], below, [1.0]]))
    shares, missing, mean = None, 0.0, distribution.mean()
    if subject.rows is not None:
        values = subject.rows.column(name)
        known = ~np.isnan(values)
        place = np.where(known, np.searchsorted(cuts[1:-1], values, side="right"), -1)
        shares, missing = _shares(subject.rows, place, len(cuts) - 1)
        if shares.any():
            weights = None if subject.rows.weights is None else subject.rows.weights[known]
            mean = float(np.average(values[known], weights=weights))
    width = float(cuts[1] - cuts[0])
    texts = [scale.short(cut, 10 * width) for cut in cuts.tolist()]
    labels = [f"{a} to {b}" for a, b in pairwise(texts)]
    note = f"{scale.short(scale.low)} to {scale.short(scale.high)}"
    note += f", mean {scale.short(mean)}" if scale.kind == "number" else ""
    if subject.rows is not None and shares is not None and shares.any():
        first, middle, last = np.nanquantile(values, [0.25, 0.5, 0.75], method="nearest").tolist()
        note += (
            f", median {scale.short(middle)}, half from {scale.short(first)} to {scale.short(last)}"
        )
        zeros = float((values == 0).sum() / known.sum())
        note += f", {zeros:.0%} zeros" if scale.kind == "number" and zeros >= MANY_ZEROS else ""
    ends = (cuts[0] + half, cuts[-1] - half)
    low, high = (scale.short(x, 10 * width) for x in ends)
    if scale.kind == "number":  # the outermost bars also hold what is beyond them
        low += " or less" if scale.low < ends[0] - 1e-9 * abs(ends[0]) else ""
        high += " or more" if scale.high > ends[1] + 1e-9 * abs(ends[1]) else ""
    return ColumnShares(name, labels, model, shares, missing, note, (low, high))


def _shares(rows: Table, place: IntArray, count: int) -> tuple[FloatArray, float]:
    """Return the shares of the places of values in a column, and the share of missing ones, -1."""
    known = place >= 0
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    counts = np.bincount(place[known], weights[known], count)
    total = max(float(counts.sum()), 1e-300)
    return counts / total, 1 - float(counts.sum()) / max(float(weights.sum()), 1e-300)


def _cuts(subject: Subject, name: str) -> FloatArray:
    """Return the ends of the bars of a number; the outermost also hold what is beyond them."""
    scale, values = subject.domain.scale(name), np.zeros(0)
    if subject.rows is not None:
        values = subject.rows.column(name)
        values = values[~np.isnan(values)]
    if not len(values):
        values = subject.drawn.column(name)
    low, high = np.quantile(values, [OUTSIDE, 1 - OUTSIDE]).tolist()
    step = scale.step or 0.0
    width = max((high - low) / BARS, step, 1e-12)
    if step:  # bars hold the same number of possible values
        width = np.ceil(width / step - 1e-9) * step
        low = np.floor(low / step + 1e-9) * step - step / 2
    return np.asarray(
        low + width * np.arange(max(1, int(np.ceil((high - low) / width - 1e-9))) + 1)
    )


def section(subject: Subject) -> str:
    """Return the section."""
    cards = [_card(column) for column in column_shares(subject)]
    shown = f'<div class="cards">{"".join(cards[:MAX_CARDS])}</div>'
    if len(cards) > MAX_CARDS:
        shown += (
            f"<details><summary>{len(cards) - MAX_CARDS:,} more columns</summary>"
            f'<div class="cards">{"".join(cards[MAX_CARDS:])}</div></details>'
        )
    if subject.rows is None:
        said = "No table was given: the bars show how the model distributes each column."
    else:
        said = (
            f"Bars show how the {count(len(subject.rows), 'row')} of the table are distributed. The dark "
            "marks show what the model says: at the end of a bar, it agrees with the table."
        )
    more = _missing(subject) + _first_rows(subject)
    return f"<h2>What is in the table</h2>\n<p>{said}</p>\n{shown}{more}"


def _missing(subject: Subject) -> str:
    """Return which columns are missing together."""
    if subject.rows is None or not subject.rows.holes.any():
        return ""
    patterns = [
        [f"{number:,}", ", ".join(map(short, names[:MAX_NAMED])) + ", …" * (len(names) > MAX_NAMED)]
        for number, names in missing_patterns(subject.rows)
    ]
    whole = int((~subject.rows.holes.any(axis=1)).sum())
    return (
        f"<h3>What is missing together</h3><p>{count(whole, 'row')} of {len(subject.rows):,} are "
        f"complete. The others, by what they lack:</p>{table(['#rows', 'lack'], patterns)}"
    )


def _first_rows(subject: Subject) -> str:
    """Return the first rows of the table."""
    rows = subject.rows
    if rows is None or not len(rows):
        return ""
    places = range(len(subject.names))
    cells = [
        "".join(f"<td>{short(value_text(rows, r, v), 18)}</td>" for v in places)
        for r in range(min(FIRST_ROWS, len(rows)))
    ]
    head = "".join(f'<th scope="col">{short(name, 18)}</th>' for name in subject.names)
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    return (
        f"<details><summary>The first {count(len(cells), 'row')}</summary>"
        f'<div class="scroll"><table class="rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div></details>"
    )


def _card(column: ColumnShares) -> str:
    missing = f" · {percent(column.missing)} missing" if column.missing > 1e-9 else ""
    body = _list(column) if column.ends is None else _histogram(column)
    return (
        f'<article class="card"><h3>{short(column.name)}</h3>'
        f'<p class="quiet">{text(column.note)}{missing}</p>{body}</article>\n'
    )


def _list(column: ColumnShares) -> str:
    shares = column.model if column.table is None else column.table
    order = list(range(len(shares)))
    if len(order) > MAX_STATES:
        order = np.argsort(-shares, kind="stable")[: MAX_STATES - 1].tolist()
    lines = []
    for k in order:
        mark = ""
        if column.table is not None:
            mark = f'<u style="left:{100 * min(1.0, float(column.model[k])):.1f}%"></u>'
        tip = f"model {percent(float(column.model[k]))}"
        lines.append(
            f'<li><span class="label">{short(column.labels[k], 22)}</span>'
            f"{bar(float(shares[k]), tip).replace('</span>', mark + '</span>')}"
            f'<span class="value">{percent(float(shares[k]))}</span></li>'
        )
    if len(order) < len(shares):
        rest = 1 - float(shares[order].sum())
        lines.append(
            f'<li class="quiet"><span class="label">{len(shares) - len(order):,} others</span>'
            f'{bar(rest)}<span class="value">{percent(rest)}</span></li>'
        )
    return f'<ul class="states">{"".join(lines)}</ul>'


def _histogram(column: ColumnShares) -> str:
    assert column.ends is not None
    tips = [f"{text(label)}: " for label in column.labels]
    if column.table is None:
        tips = [f"{tip}{percent(p)}" for tip, p in zip(tips, column.model.tolist(), strict=True)]
        return histogram(column.model, None, tips, column.ends)
    both = zip(tips, column.table.tolist(), column.model.tolist(), strict=True)
    tips = [f"{tip}{percent(p)}, model {percent(q)}" for tip, p, q in both]
    return histogram(column.table, column.model, tips, column.ends)
