"""What a notebook shows of a model: a card, and the graph of a network for networkx or matplotlib."""

from __future__ import annotations

from html import escape
from typing import Any

from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.joint.pair_links import interactions
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network, takes_estimators
from conjoin.views.reports import svg
from conjoin.views.reports.associations import WIDE, graph, joints_of
from conjoin.views.reports.layout import HEIGHT, Shape, draw, line_width, shade
from conjoin.views.reports.learned import rows_of
from conjoin.views.reports.markup import count
from conjoin.views.reports.statements import sentence, statements
from conjoin.views.reports.subject import Subject

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

FONT_SIZE = 9.0
"""The font size of a new figure, in points."""


def html_card(model: Network, rows: int | None = None) -> str:
    """Return a short piece of HTML on a model: rows, columns, quality, graph and strongest pairs.

    Parameters
    ----------
    model : Network or fitted JointModel
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
    facts = [] if rows is None else [count(rows, "row")]
    facts.append(count(len(subject.names), "column"))
    strongest, _ = statements(subject, STATEMENTS)
    listed = "".join(f"<li>{sentence(subject, said)}</li>" for said in strongest)
    everything = [tuple(range(len(subject.names)))] * len(subject.names)
    picture = svg.graph(graph(subject.joints, subject.names, everything, WIDE), subject.names)
    return (
        f'<div class="conjoin-card" style="{COLOURS};border:1px solid var(--line);border-radius:10px;'
        f'padding:.8em 1em;max-width:56em;font:14px/1.5 {svg.FONT}"><style>{STYLE}</style>'
        f'<div style="font-weight:600">{escape(model.kind[0].upper() + model.kind[1:])}</div>'
        f'<div style="color:var(--quiet);margin-bottom:.5em">{" · ".join(facts)}</div>{picture}'
        f'<ul style="margin:.5em 0 0;padding-left:1.2em">{listed}</ul></div>'
    )


@takes_estimators
def to_networkx(model: Network, table: Table | None = None) -> Any:
    """Return the graph of a network as a networkx graph.

    Needs networkx (``pip install "conjoin[graphs]"``).

    `model`: the edges of a Markov network join variables that share a feature or a factor; those of
    a dependency or Bayesian network point to each variable from those that its CPD depends on.
    `table`: a table whose marginals are the distribution under which strengths are measured.
    Returns nodes are names, with the attribute ``states``; edges have the attribute ``strength``,
    in nats. It is 0 if two variables interact only together with others. Hidden columns are left
    out; any two variables may also depend on each other through them.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"], "wind": ["no", "yes"]})
    >>> terms = [(2.0, {"rain": "yes", "wet": "yes"})]
    >>> graph = to_networkx(MarkovNetwork(domain, Features.from_terms(domain, terms)))
    >>> list(graph), list(graph.edges(data="strength"))
    (['rain', 'wet', 'wind'], [('rain', 'wet', 0.5)])
    """
    try:
        import networkx as nx
    except ImportError:
        raise ModelError('graphs need networkx: pip install "conjoin[graphs]"') from None
    if isinstance(model, DependencyNetwork | BayesianNetwork):
        graph = nx.DiGraph()
        pairs = [(parent, cpd.target) for cpd in model.cpds for parent in cpd.blanket]
    else:
        graph = nx.Graph()
        seen = len(model.domain.observed)
        pairs = [
            (i, j) for i, others in enumerate(model.blankets()) for j in others if i < j < seen
        ]
    for variable in model.domain.observed:
        graph.add_node(variable.name, states=list(variable.states))
    strengths = interactions(model, table).between(pairs)
    names = model.domain.names
    for (i, j), strength in zip(pairs, strengths.tolist(), strict=True):
        graph.add_edge(names[i], names[j], strength=strength)
    return graph


@takes_estimators
def plot(
    model: Network, *, max_links: int | None = None, random_state: int = 0, ax: Any = None
) -> Any:
    """Draw the graph of a model, as its card, its report and its explorer do.

    Lines join columns that go together; the thicker a line, the more they share. Needs matplotlib
    (``pip install "conjoin[plots]"``).

    `max_links`: maximum number of links to show; by default 1.5 times the number of variables. Each
    variable's strongest link is among the first. `ax`: the axes to draw in; by default the axes of
    a new figure of a suitable size.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})]))
    >>> axes = plot(mn)
    >>> sorted(text.get_text() for text in axes.texts)
    ['rain', 'wet']
    """
    try:
        from matplotlib import pyplot as plt
        from matplotlib.collections import LineCollection
        from matplotlib.patches import FancyBboxPatch
    except ImportError:
        raise ModelError(
            'pictures need matplotlib: pip install "conjoin[plots]" (write_report works without it)'
        ) from None
    shared, names = joints_of(model), model.domain.observed.names
    pairs = shared.strongest(len(names) * (len(names) - 1) // 2)
    drawing = draw(names, pairs, shared.bits[tuple(pairs.T)], Shape(), max_links, random_state)
    wide, high = (max(1.0, x) + 1.0 for x in drawing.size)
    if ax is None:
        figure = plt.figure(figsize=(wide * FONT_SIZE / 72, high * FONT_SIZE / 72))
        ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(-0.5, wide - 0.5)
    ax.set_ylim(high - 0.5, -0.5)
    ax.set_aspect("equal")
    ax.set_axis_off()
    box = ax.get_window_extent()
    em = min(box.width / wide, box.height / high) * 72 / ax.figure.dpi  # in points
    ax.add_collection(
        LineCollection(
            list(drawing.centre[drawing.pairs]),
            linewidths=em * line_width(drawing.strength),
            colors=[shade(s) for s in drawing.strength],
            capstyle="round",
            zorder=1,
        )
    )
    for label, (x, y), width in zip(drawing.labels, drawing.centre, drawing.width, strict=True):
        corner = (x - width / 2, y - HEIGHT / 2)
        ax.add_patch(
            FancyBboxPatch(
                corner, width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.5", fc="white",
                ec="#8a94a3", lw=em * 0.08, zorder=2,
            )
        )  # fmt: skip
        ax.text(x, y, label, ha="center", va="center_baseline", fontsize=em * 0.95, zorder=3,
                color="#1c2530", parse_math=False)  # fmt: skip
    return ax
