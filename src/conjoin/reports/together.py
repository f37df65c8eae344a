"""The section "What goes with what"."""

from __future__ import annotations

import numpy as np

from conjoin.models.mixed import MixedNetwork
from conjoin.progress import progress
from conjoin.reports import svg
from conjoin.reports.associations import WIDE, graph
from conjoin.reports.direct import ROWS, direct_effect, verdict
from conjoin.reports.markup import bar, count, percent, table
from conjoin.reports.statements import figures, rows_for, sentence, statements
from conjoin.reports.subject import Subject

MAX_LISTED = 20
"""Maximum number of pairs that are listed."""


def section(subject: Subject) -> str:
    """Return the section: the graph, and the strongest pairs in words."""
    found, unclear = statements(subject, MAX_LISTED)
    if not found:
        return "<h2>What goes with what</h2>\n<p>No two columns clearly go together.</p>"
    whole = rows_for(subject, ROWS)
    lines = []
    for said in progress(found, "pairs of columns"):
        direct = direct_effect(subject, said, whole)
        verdict_words = verdict(said.model, direct, shares=said.outcome is not None)
        overall = f"{sentence(subject, said)}: {figures(subject, said, said.model)}."
        strength = f'<span class="figures">{bar(said.strength)} {percent(said.strength)}</span>'
        if said.table is not None:
            own = figures(subject, said, said.table)
            overall += f'<br><span class="quiet">In the table: {own}.</span>'
            own = percent(said.table_strength or 0.0)
            strength += f'<br><span class="quiet">table {own}</span>'
        alone = f'{figures(subject, said, direct)}<br><span class="quiet">{verdict_words}</span>'
        lines.append([overall, strength, alone])
    columns = ["overall", "strength", "all else equal"]
    return (
        f"<h2>What goes with what</h2>\n{_picture(subject)}\n<h3>The strongest pairs in words</h3>\n"
        f"{_explanation(subject, unclear)}\n{table(columns, lines, stacked=True)}"
    )


def _explanation(subject: Subject, unclear: int) -> str:
    said = (
        "<p>Each sentence is about two columns alone, as in a table of counts of the two: how the second "
        "one differs between rows where the condition holds and all other rows"
    )
    if len(subject.domain.scales) > 1:
        said += " (for two numbers: between the highest and the lowest fifth of the first)"
    said += ". "
    if subject.rows is not None:
        said += (
            "The figures of the model stand beside those of the table itself; what may be chance in the "
            "table is left out. "
        )
    said += (
        "<b>Strength</b> is 0% for columns that are independent, and 100% if each determines the "
        "other.</p>\n<p><b>All else equal</b> says what remains if only the first column is changed and "
        "every other value of a row stays as it is. If much remains, the two are linked directly; if "
        "little does, they go together because both go with other columns. Even a direct link need not "
        "be cause and effect.</p>"
    )
    if not subject.associations.exact:
        rows = "rows drawn from the model"
        said += f'<p class="quiet">The figures of the model are counted in {rows}.</p>'
    if unclear:
        said += (
            f'<p class="quiet">Left out: {count(unclear, "pair")} without a clear direction, or with '
            "different ones in the model and in the table.</p>"
        )
    return said


def _picture(subject: Subject) -> str:
    names, model = subject.names, subject.model
    everything = tuple(range(len(names)))
    linked = [everything] * len(names)
    direct = not isinstance(model, MixedNetwork) and not subject.hidden_states
    if direct and not isinstance(model, MixedNetwork):
        linked = model.blankets()
    drawing = graph(subject.associations, names, linked, WIDE)
    dashed = any(not link["direct"] for link in drawing["links"])
    order = np.argsort([link["strength"] for link in drawing["links"]], kind="stable").tolist()
    drawing["links"] = [drawing["links"][k] for k in order]
    said = "Columns that go together are joined; thicker lines join those that share more. "
    if dashed:
        said += "Dashed lines join columns that go together only through others. "
    if len(drawing["nodes"]) < len(names):
        shown = f"{len(drawing['nodes']):,}"
        said += f"Of {len(names):,} columns, the {shown} with the strongest links are shown. "
    return f'<p>{said}</p>\n<div class="scroll picture">{svg.graph(drawing, names)}</div>'
