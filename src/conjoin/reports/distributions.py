"""The section "What is in the table": every column with its distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.reports.markup import bar, count, percent, short, text
from conjoin.reports.subject import Subject

MAX_STATES = 8
"""Maximum number of states of a column that are listed; those that are most frequent."""

MAX_CARDS = 60
"""Columns beyond this number are folded away."""

BARS = 24
"""Number of bars of a histogram."""

OUTSIDE = 0.005
"""Share of the numbers on each side that belong to the outermost bars."""


@dataclass(frozen=True, eq=False)
class ColumnShares:
    """A column: its states or bars of numbers, and their shares.

    Attributes
    ----------
    name : str
        The column.
    labels : sequence
        Its states; those of a number are texts such as "1.5 to 2".
    model, table : array of float
        The shares of the states in the model and among the known values of the table (None without one).
    missing : float
        The share of missing values in the table.
    ends : tuple of str, optional
        Of a number: its lowest and highest bar.
    note : str
        A few words on the column.
    """

    name: str
    labels: Sequence[object]
    model: FloatArray
    table: FloatArray | None
    missing: float
    note: str
    ends: tuple[str, str] | None = None


def column_shares(subject: Subject) -> list[ColumnShares]:
    """Return the distribution of each column."""
    return [
        _number(subject, name) if name in subject.domain.numeric else _states(subject, name)
        for name in subject.names
    ]


def _states(subject: Subject, name: str) -> ColumnShares:
    variable = subject.domain.categories[name]
    model = subject.joints.single(subject.names.index(name))
    table, missing = None, 0.0
    if subject.rows is not None:
        rows = subject.rows.categories
        counts = rows.counts(rows.domain.index(name))
        whole = float(len(rows) if rows.weights is None else rows.weights.sum())
        missing = 1 - float(counts.sum()) / max(whole, 1e-300)
        table = counts / max(float(counts.sum()), 1e-300)
    return ColumnShares(name, variable.states, model, table, missing, count(len(variable), "state"))


def _number(subject: Subject, name: str) -> ColumnShares:
    found, scale = subject.number(name), subject.domain.scale(name)
    values = None
    if subject.rows is not None:
        column = subject.rows.column(name)
        weights = np.ones(len(column)) if subject.rows.weights is None else subject.rows.weights
        known = ~np.isnan(column)
        values, own = column[known], weights[known]
    if values is not None and len(values):
        low, high = np.quantile(values, [OUTSIDE, 1 - OUTSIDE])
    else:
        low, high = (scale.number(found.quantile(p)) for p in (OUTSIDE, 1 - OUTSIDE))
    step = scale.step or 0.0
    width = max((high - low) / BARS, step, 1e-12)
    if step:  # bars hold the same number of possible values
        width = np.ceil(width / step - 1e-9) * step
        low = np.floor(low / step + 1e-9) * step - step / 2
    cuts = low + width * np.arange(max(1, int(np.ceil((high - low) / width - 1e-9))) + 1)
    below = np.array([found.cdf(cut) for cut in cuts[1:-1].tolist()])
    model = np.diff(np.concatenate([[0.0], below, [1.0]]))
    table, missing, mean = None, 0.0, float(found.mean() if scale.kind == "number" else np.nan)
    if values is not None:
        place = np.clip(np.searchsorted(cuts, values, side="right") - 1, 0, len(cuts) - 2)
        counts = np.bincount(place, own, len(cuts) - 1)
        missing = 1 - float(own.sum()) / max(float(weights.sum()), 1e-300)
        table = counts / max(float(counts.sum()), 1e-300)
        mean = float(own @ values / own.sum()) if own.sum() > 0 else mean
    texts = [scale.short(cut, 10 * width) for cut in cuts.tolist()]
    labels = [f"{a} to {b}" for a, b in pairwise(texts)]
    spread = f"{scale.short(scale.low)} to {scale.short(scale.high)}"
    note = spread if np.isnan(mean) else f"{spread}, mean {scale.short(mean)}"
    outer = float(cuts[0] + step / 2), float(cuts[-1] - step / 2)
    ends = scale.short(outer[0], 10 * width), scale.short(outer[1], 10 * width)
    return ColumnShares(name, labels, model, table, missing, note, ends)


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
    return f"<h2>What is in the table</h2>\n<p>{said}</p>\n{shown}"


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
    shares = column.model if column.table is None else column.table
    top = max(float(shares.max()), float(column.model.max()), 1e-300)
    parts = []
    for k, share in enumerate(shares.tolist()):
        mark = ""
        if column.table is not None:
            mark = f'<u style="bottom:{100 * float(column.model[k]) / top:.1f}%"></u>'
        tip = f"{text(column.labels[k])}: {percent(share)}, model {percent(float(column.model[k]))}"
        parts.append(
            f'<span title="{tip}"><i style="height:{100 * share / top:.1f}%"></i>{mark}</span>'
        )
    assert column.ends is not None
    low, high = map(text, column.ends)
    return (
        f'<div class="histogram">{"".join(parts)}</div>'
        f'<div class="axis"><span>{low}</span><span>{high}</span></div>'
    )
