"""The joint distribution of two columns as a small picture."""

from __future__ import annotations

from html import escape

from conjoin.data.bin_labels import statement
from conjoin.data.labels import shown
from conjoin.errors import ModelError
from conjoin.inference.results import Joint
from conjoin.reports.layout import shade
from conjoin.reports.svg import EM, FONT

CELL = (56.0, 24.0)
"""Width and height of a cell, in pixels."""

MAX_LABEL = 24
"""Maximum number of characters of a label."""


def heat_map(joint: Joint) -> str:
    """Return the joint distribution of two columns as SVG: rows and columns of shaded cells.

    The darkest cell is the most probable one; each shows its probability, in percent, and its tooltip
    both states.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import Domain
    >>> from conjoin.inference.results import Run
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> picture = heat_map(Joint(domain, np.array([[0.7, 0.1], [0, 0.2]]), Run("exact", exact=True)))
    >>> picture.count("<rect"), "rain=yes, wet=yes: 0.2" in picture
    (4, True)
    """
    if len(joint.domain) != 2:
        raise ModelError(f"a heat map shows two columns, not {len(joint.domain)}")
    rows, columns = joint.domain.variables
    names = [[_label(state) for state in variable.states] for variable in (rows, columns)]
    left = EM * (2 + 0.6 * max(map(len, [*names[0], _label(rows.name)])))
    top = EM * 4.5
    wide, high = left + CELL[0] * len(columns) + EM, top + CELL[1] * len(rows) + EM
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
        x = left + CELL[0] * (k + 0.5)
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
            x, y = left + CELL[0] * j, top + CELL[1] * i
            tooltip = f"{statement(rows, i)}, {statement(columns, j)}: {p:.4g}"
            fill, ink = _colours(p / top_p)
            lines.append(
                f'<g><rect x="{x:.1f}" y="{y:.1f}" width="{CELL[0]:.0f}" height="{CELL[1]:.0f}" '
                f'fill="{fill}" stroke="#fff"/><text x="{x + CELL[0] / 2:.1f}" '
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
