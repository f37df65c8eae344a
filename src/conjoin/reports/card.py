"""A small piece of HTML about a model, for notebooks."""

from __future__ import annotations

from html import escape

from conjoin.models.mixed import MixedNetwork
from conjoin.models.network import Network
from conjoin.reports import svg
from conjoin.reports.associations import WIDE, graph
from conjoin.reports.learned import rows_of
from conjoin.reports.markup import count
from conjoin.reports.quality import share_explained
from conjoin.reports.statements import sentence, statements
from conjoin.reports.subject import Subject

STATEMENTS = 3
"""Number of pairs of columns that are described."""

COLOURS = (
    "--card:#fff;--ink:#1a2130;--quiet:#5b6577;--line:#e1e4ec;--accent:#3156c8;"
    "color-scheme:light;background:#fff;color:#1a2130"
)
STYLE = (
    ".conjoin-card svg text{fill:var(--ink)}.conjoin-card .link{stroke:var(--accent);"
    "stroke-linecap:round}.conjoin-card .node{fill:var(--card);stroke:var(--quiet)}"
    ".conjoin-card .graph{display:block;width:100%;height:auto}"
)


def html_card(model: Network | MixedNetwork, rows: int | None = None) -> str:
    """Return a short piece of HTML on a model: rows, columns, quality, graph and strongest pairs.

    Parameters
    ----------
    model : Network, MixedNetwork or fitted JointModel
        The model.
    rows : int, optional
        The number of rows that it was learned from; by default what the model says.

    Examples
    --------
    >>> from conjoin import Domain, MarkovNetwork
    >>> "1 column" in html_card(MarkovNetwork(Domain({"rain": ["no", "yes"]})))
    True
    """
    subject = Subject.of(model, None, None)
    model = subject.model
    rows = rows_of(model.provenance) if rows is None else rows
    facts = [count(len(subject.names), "column"), *quality_words(subject)]
    if rows is not None:
        facts.insert(0, count(rows, "row"))
    found, _ = statements(subject, STATEMENTS)
    listed = "".join(f"<li>{sentence(subject, said)}</li>" for said in found)
    everything = [tuple(range(len(subject.names)))] * len(subject.names)
    picture = svg.graph(graph(subject.associations, subject.names, everything, WIDE), subject.names)
    return (
        f'<div class="conjoin-card" style="{COLOURS};border:1px solid var(--line);border-radius:10px;'
        f'padding:.8em 1em;max-width:56em;font:14px/1.5 {svg.FONT}"><style>{STYLE}</style>'
        f'<div style="font-weight:600">{escape(model.kind[0].upper() + model.kind[1:])}</div>'
        f'<div style="color:var(--quiet);margin-bottom:.5em">{" · ".join(facts)}</div>{picture}'
        f'<ul style="margin:.5em 0 0;padding-left:1.2em">{listed}</ul></div>'
    )


def quality_words(subject: Subject) -> list[str]:
    """Say how much of the uncertainty about a row the links explain; nothing if it was not measured."""
    share = share_explained(subject)
    if share is None:
        return []
    return [
        f"links between columns explain {max(0.0, share):.0%} of what is uncertain about a new row"
    ]
