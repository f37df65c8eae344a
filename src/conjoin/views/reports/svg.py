"""The pictures of the report and of `conjoin query --picture`, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from conjoin.data.arrays import FloatArray
from conjoin.data.labels import shown, statement
from conjoin.errors import ModelError
from conjoin.inference.results import JointProbabilities
from conjoin.views.reports.calibration import Bin, Calibration
from conjoin.views.reports.layout import HEIGHT, line_width, shade, shortened

EM = 13.0
"""The font size, in pixels."""
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"

SIDE, LEFT, TOP = 240, 44, 12
"""The reliability diagram: the side of its square, and the margins, in pixels."""

CELL = (56.0, 24.0)
"""Least width, and height, of a cell, in pixels."""

MAX_LABEL = 24
"""Maximum number of characters of a label."""


def matrix(shares: FloatArray, names: Sequence[str]) -> str:
    """Return the strengths of all pairs of columns as shaded cells."""
    cell, left, n = 22.0, 170.0, len(names)
    parts = []
    for i, name in enumerate(names):
        y = cell * i
        label = escape(shortened(shown(name), MAX_LABEL))
        parts.append(f'<text x="{left - 8:.0f}" y="{y + 15:.0f}" text-anchor="end">{label}</text>')
        for j in range(n):
            if i == j:
                continue
            tip = escape(f"{shown(name)} – {shown(names[j])}: {shares[i, j]:.0%}")
            parts.append(
                f'<rect x="{left + cell * j:.0f}" y="{y:.0f}" width="21" height="21" '
                f'class="cell" fill-opacity="{shares[i, j] ** 0.5:.2f}"><title>{tip}</title></rect>'
            )
    wide, high = left + cell * n, cell * n
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" class="matrix" '
        f'style="max-width:{wide:.0f}px;font:12px {FONT}">{"".join(parts)}</svg>'
    )


def graph(drawing: dict[str, Any], names: Sequence[str]) -> str:
    """Return the graph of columns; tooltips show full names."""
    wide, high = ((max(1.0, x) + 1.0) * EM for x in drawing["size"])
    nodes = drawing["nodes"]
    x, y = ([(node[k] + 0.5) * EM for node in nodes] for k in ("x", "y"))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" class="graph" '
        f'role="img" aria-label="Which columns go together" '
        f'style="min-width:{min(wide, 640):.0f}px;max-width:{1.5 * wide:.0f}px;font:{EM:.0f}px {FONT}">',
        "<g>",
    ]
    for link in drawing["links"]:
        (i, j), share = link["ends"], link["strength"]
        tooltip = f"{names[nodes[i]['column']]} – {names[nodes[j]['column']]}"
        dashes = "" if link["direct"] else ' stroke-dasharray="2 6"'
        lines.append(
            f'<line x1="{x[i]:.1f}" y1="{y[i]:.1f}" x2="{x[j]:.1f}" y2="{y[j]:.1f}" class="link" '
            f'opacity="{0.3 + 0.7 * share:.2f}" stroke-width="{EM * line_width(share):.2f}"{dashes}>'
            f"<title>{escape(shown(tooltip))}</title></line>"
        )
    lines.append('</g><g text-anchor="middle">')
    for k, node in enumerate(nodes):
        left, top = x[k] - node["width"] * EM / 2, y[k] - HEIGHT * EM / 2
        lines.append(
            f'<g><rect x="{left:.1f}" y="{top:.1f}" width="{node["width"] * EM:.1f}" '
            f'height="{HEIGHT * EM:.1f}" rx="7" class="node"/>'
            f'<text x="{x[k]:.1f}" y="{y[k] + EM * 0.35:.1f}">{escape(shown(node["label"]))}</text>'
            f"<title>{escape(shown(names[node['column']]))}</title></g>"
        )
    lines.append("</g></svg>")
    return "\n".join(lines)


def reliability(scores: Calibration) -> str:
    """Return the reliability diagram; on the diagonal, predictions mean what they say."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE + 60} {SIDE + 60}" '
        f'width="{SIDE + 60}" role="img" aria-label="Predicted probability and observed frequency" '
        f'style="max-width:100%;height:auto;font:11px {FONT}">',
        f'<rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}" class="field"/>',
    ]
    for percent in range(0, 101, 20):
        x, y = _point(percent / 100, percent / 100)
        lines.append(
            '<g class="quiet">'
            f'<text x="{x:.1f}" y="{TOP + SIDE + 16}" text-anchor="middle">{percent}%</text>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent}%</text></g>'
        )
    (x1, y1), (x2, y2) = _point(0, 0), _point(1, 1)
    lines.append(
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="diagonal" stroke-dasharray="4 4"/>'
    )
    heaviest = max((b.weight for b in scores.bins), default=1.0)
    lines += [_bin(b, heaviest) for b in scores.bins]
    lines.append(
        f'<text x="{LEFT + SIDE / 2}" y="{TOP + SIDE + 36}" text-anchor="middle">'
        "predicted probability</text>"
        f'<text x="{LEFT + 8}" y="{TOP + 18}">observed frequency</text></svg>'
    )
    return "\n".join(lines)


def _point(predicted: float, observed: float) -> tuple[float, float]:
    return LEFT + predicted * SIDE, TOP + (1 - observed) * SIDE


def _bin(b: Bin, heaviest: float) -> str:
    """Return one bin: a circle whose area is its weight, and two standard errors up and down."""
    x, y = _point(b.predicted, b.observed)
    ends = (max(0.0, min(1.0, b.observed + 2 * sign * b.stderr)) for sign in (1, -1))
    high, low = (_point(0, end)[1] for end in ends)
    tooltip = f"predicted {b.predicted:.1%}, observed {b.observed:.1%} of {b.weight:,.0f}"
    return (
        f'<line x1="{x:.1f}" y1="{high:.1f}" x2="{x:.1f}" y2="{low:.1f}" class="error"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.5 + 4.5 * (b.weight / heaviest) ** 0.5:.1f}" '
        f'class="bin"><title>{tooltip}</title></circle>'
    )


def heat_map(joint: JointProbabilities) -> str:
    """Return the joint distribution of two columns as SVG: rows and columns of shaded cells.

    The darkest cell is the most probable one; each shows its probability, in percent, and its tooltip
    both states.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import Domain
    >>> from conjoin.inference.results import Run
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> table = np.array([[0.7, 0.1], [0, 0.2]])
    >>> picture = heat_map(JointProbabilities(domain, table, Run("exact", exact=True)))
    >>> picture.count("<rect"), "rain=yes, wet=yes: 0.2" in picture
    (4, True)
    """
    if len(joint.domain) != 2:
        raise ModelError(f"a heat map shows two columns, not {len(joint.domain)}")
    rows, columns = joint.domain.variables
    names = [[_label(state) for state in variable.states] for variable in (rows, columns)]
    left = EM * (2 + 0.6 * max(map(len, [*names[0], _label(rows.name)])))
    top = EM * 4.5
    cell = max(
        CELL[0], 0.6 * EM * (1 + max(map(len, names[1])))
    )  # columns are as wide as their names
    wide, high = left + cell * len(columns) + EM, top + CELL[1] * len(rows) + EM
    top_p = max(float(joint.table.max()), 1e-300)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" role="img" aria-label="Joint distribution of {escape(shown(rows.name))} '
        f'and {escape(shown(columns.name))}" style="max-width:100%;height:auto;font:{EM:.0f}px {FONT}">',
        f'<g fill="#1c2530"><text x="{left - 8:.1f}" y="{top - 10:.1f}" text-anchor="end" '
        f'font-weight="600">{escape(_label(rows.name))}</text>'
        f'<text x="{left:.1f}" y="{EM * 1.5:.1f}" font-weight="600">'
        f"{escape(_label(columns.name))}</text>",
    ]
    for k, name in enumerate(names[1]):
        x = left + cell * (k + 0.5)
        lines.append(
            f'<text x="{x:.1f}" y="{top - 10:.1f}" text-anchor="middle">{escape(name)}</text>'
        )
    for k, name in enumerate(names[0]):
        y = top + CELL[1] * (k + 0.5) + EM * 0.35
        lines.append(
            f'<text x="{left - 8:.1f}" y="{y:.1f}" text-anchor="end">{escape(name)}</text>'
        )
    lines.append('</g><g text-anchor="middle">')
    for i in range(len(rows)):
        for j in range(len(columns)):
            p = float(joint.table[i, j])
            x, y = left + cell * j, top + CELL[1] * i
            tooltip = f"{statement(rows, i)}, {statement(columns, j)}: {p:.4g}"
            fill, ink = _colours(p / top_p)
            lines.append(
                f'<g><rect x="{x:.1f}" y="{y:.1f}" width="{cell:.0f}" height="{CELL[1]:.0f}" '
                f'fill="{fill}" stroke="#fff"/><text x="{x + cell / 2:.1f}" '
                f'y="{y + CELL[1] / 2 + EM * 0.35:.1f}" fill="{ink}">{100 * p:.3g}%</text>'
                f"<title>{escape(tooltip)}</title></g>"
            )
    return "\n".join([*lines, "</g></svg>"])


def _label(label: object) -> str:
    text = shown(label)
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def _colours(share: float) -> tuple[str, str]:
    """Return the colour of a cell and of the text on it."""
    return ("#f6f8fb" if share == 0 else shade(share)), ("#fff" if share > 0.4 else "#1c2530")
