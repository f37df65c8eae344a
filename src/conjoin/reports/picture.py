"""The graph of a network, drawn with matplotlib."""

from __future__ import annotations

from typing import Any

from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.models.network import Network, takes_estimators
from conjoin.reports.layout import HEIGHT, draw, line_width, shade
from conjoin.reports.links import interactions

FONT_SIZE = 9.0
"""The font size of a new figure, in points."""


@takes_estimators(picture=True)
def plot(
    model: Network,
    table: Table | None = None,
    *,
    base: Any = None,
    max_links: int | None = None,
    random_state: int = 0,
    ax: Any = None,
) -> Any:
    """Draw the graph of a network; stronger links have thicker lines.

    Needs matplotlib (``pip install "conjoin[plots]"``).

    Parameters
    ----------
    model : Network
        A Markov, dependency or Bayesian network.
    table : Table, optional
        A table whose marginals are the distribution under which strengths are measured.
    base : optional
        That distribution itself; see `conjoin.reports.interactions`.
    max_links : int, optional
        Maximum number of links to show; by default 1.5 times the number of variables. Each variable's
        strongest link is among the first.
    random_state : int
        The seed of the layout.
    ax : matplotlib Axes, optional
        The axes to draw in; by default the axes of a new figure of a suitable size.

    Returns
    -------
    matplotlib Axes

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
    drawing = draw(interactions(model, table, base=base), max_links, random_state)
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
