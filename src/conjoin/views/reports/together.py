"""The section "What goes with what", and how much of it is direct.

A direct link is what remains of an association if the rest of the row stays as it is: in complete rows,
the one column is set to a value and then to another one, and nothing else is changed. Columns without a
direct link make no difference to each other then: what they have in common is known from the rest.
"""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.joint_rows import JointRows
from conjoin.progress import progress
from conjoin.views.reports import svg
from conjoin.views.reports.associations import WIDE, graph
from conjoin.views.reports.markup import bar, count, percent, table
from conjoin.views.reports.statements import (
    Contrast,
    Statement,
    fifths,
    figures,
    rows_for,
    sentence,
    statements,
)
from conjoin.views.reports.subject import Subject

ROWS = 100
"""Number of rows in which a column is changed."""

MOSTLY, PARTLY = 0.5, 0.1
"""Shares of the whole association from which a link is said to be mostly or partly direct."""

MAX_MATRIX = 40
"""Maximum number of columns of the matrix of all strengths."""

MAX_LISTED = 20
"""Maximum number of pairs that are listed."""


def direct_effect(subject: Subject, said: Statement, rows: Table) -> Contrast:
    """Return what a statement says, with the rest of each complete row as it is.

    NaN is returned if changed rows are impossible for the model.
    """
    given, about = subject.names[said.given], subject.names[said.about]
    if said.condition is None:
        low, high = fifths(subject, given)
        changed = [_with_number(rows, given, value) for value in (high, low)]
    else:
        others = subject.joints.single(said.given).copy()
        others[said.condition] = 0.0
        states = np.full(len(rows), said.condition), _spread(others, len(rows))
        changed = [_with_states(rows, said.given, codes) for codes in states]
    try:
        answers = [JointRows(subject.model, part) for part in changed]
        if said.outcome is None:
            means = [float(part.number(about).mean().mean()) for part in answers]
        else:
            means = [float(part.states(about)[:, said.outcome].mean()) for part in answers]
    except ModelError:
        return Contrast(np.nan, np.nan)
    return Contrast(*means)


def _spread(weights: FloatArray, count: int) -> IntArray:
    """Return states in proportion to weights, mixed evenly over the rows."""
    ends = np.cumsum(weights)
    if not ends[-1] > 0:
        return np.zeros(count, np.int64)
    at = (np.random.default_rng(0).permutation(count) + 0.5) / count * ends[-1]
    return np.searchsorted(ends, at)


def _with_states(rows: Table, i: int, states: IntArray) -> Table:
    codes = rows.codes.copy()
    codes[:, i] = states
    return Table.adopt(rows.domain, codes, rows.weights, rows.numbers)


def _with_number(rows: Table, name: str, value: float) -> Table:
    assert rows.numbers is not None
    numbers = rows.numbers.copy()
    numbers[:, rows.domain.numeric.index(name)] = value
    return Table.of_values(rows.domain, rows.codes, numbers, rows.weights)


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
    whole, part = (_effect(contrast, shares) for contrast in (overall, direct))
    if abs(part) < PARTLY * abs(whole) or abs(part) < 1e-3 * (1 if shares else abs(whole)):
        return "through other columns"
    if part * whole < 0:
        return "reversed by the other columns"
    return (
        "mostly direct" if part >= MOSTLY * whole or part <= MOSTLY * whole < 0 else "partly direct"
    )


def _effect(contrast: Contrast, shares: bool) -> float:
    """Return the difference of log-odds of probabilities, or of means."""
    if not shares:
        return contrast.difference
    p, q = np.clip([contrast.held, contrast.otherwise], 1e-9, 1 - 1e-9)
    return float(np.log(p / (1 - p)) - np.log(q / (1 - q)))


def section(subject: Subject, target: str | None = None) -> str:
    """Return the section: the graph, and the strongest pairs in words, of one column or of all."""
    strongest, unclear = statements(subject, MAX_LISTED, target)
    if not strongest:
        return "<h2>What goes with what</h2>\n<p>No two columns clearly go together.</p>"
    whole = rows_for(subject, ROWS)
    lines = []
    for said in progress(strongest, "pairs of columns"):
        direct = direct_effect(subject, said, whole)
        verdict_words = verdict(said.model, direct, shares=said.outcome is not None)
        overall = f"{sentence(subject, said)}: {figures(subject, said, said.model)}."
        strength = f'<span class="figures">{bar(said.strength)} {percent(said.strength)}</span>'
        if said.table is not None:
            in_table = figures(subject, said, said.table)
            overall += f'<br><span class="quiet">In the table: {in_table}.</span>'
            in_table = percent(said.table_strength or 0.0)
            strength += f'<br><span class="quiet">table {in_table}</span>'
        alone = f'{figures(subject, said, direct)}<br><span class="quiet">{verdict_words}</span>'
        lines.append([overall, strength, alone])
    columns = ["overall", "strength", "all else equal"]
    return (
        f"<h2>What goes with what</h2>\n{_picture(subject)}\n<h3>The strongest pairs in words</h3>\n"
        f"{_explanation(subject, unclear)}\n{table(columns, lines, stacked=True)}"
        f"{_matrix(subject)}"
    )


def _matrix(subject: Subject) -> str:
    """Return the strengths of all pairs of columns, if they are few enough to be read."""
    if not 2 < len(subject.names) <= MAX_MATRIX:
        return ""
    shares = (subject.table_joints or subject.joints).shares
    return (
        f"<details><summary>The strengths of all pairs</summary>{svg.matrix(shares, subject.names)}"
        "</details>"
    )


def _explanation(subject: Subject, unclear: int) -> str:
    said = (
        "<p>Each sentence is about two columns alone, as in a table of counts of the two: how the second "
        "one differs between rows where the condition holds and all other rows"
    )
    if len(subject.numeric) > 1:
        said += " (for two numbers: between the highest and the lowest fifth of the first)"
    said += ". "
    if subject.rows is not None:
        said += (
            "The figures of the model stand beside those of the table itself; what may be chance in the "
            "table is left out, and strengths are corrected for it. "
        )
    said += (
        "<b>Strength</b> is 0% for columns that are independent, and 100% if each determines the "
        "other.</p>\n<p><b>All else equal</b> says what remains if only the first column is changed and "
        "every other value of a row stays as it is. If much remains, the two are linked directly; if "
        "little does, they go together because both go with other columns. Even a direct link need not "
        "be cause and effect.</p>"
    )
    if subject.numeric or not subject.joints.exact:
        figures = "The figures" if not subject.joints.exact else "The means of numbers"
        said += f'<p class="quiet">{figures} of the model are those of rows drawn from it.</p>'
    if unclear:
        said += (
            f'<p class="quiet">Left out: {count(unclear, "pair")} without a clear direction, or with '
            "different ones in the model and in the table.</p>"
        )
    return said


def _picture(subject: Subject) -> str:
    names = subject.names
    linked = [tuple(range(len(names)))] * len(names)
    if not subject.hidden_states:
        linked = subject.model.blankets()
    drawing = graph(subject.joints, names, linked, WIDE)
    dashed = any(not link["direct"] for link in drawing["links"])
    order = np.argsort([link["strength"] for link in drawing["links"]], kind="stable").tolist()
    drawing["links"] = [drawing["links"][k] for k in order]
    said = "Columns that go together are joined; thicker lines join those that share more. "
    if dashed:
        only = "only" if getattr(subject.model, "fine", None) is None else "mostly"
        said += f"Dashed lines join columns that go together {only} through others. "
    if len(drawing["nodes"]) < len(names):
        shown = f"{len(drawing['nodes']):,}"
        said += f"Of {len(names):,} columns, the {shown} with the strongest links are shown. "
    return f'<p>{said}</p>\n<div class="scroll picture">{svg.graph(drawing, names)}</div>'
