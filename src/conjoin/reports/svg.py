"""The pictures of the HTML page, as SVG text."""

from __future__ import annotations

from html import escape

from conjoin.conversion.interactions import Interactions
from conjoin.reports.calibration import Bin, Calibration
from conjoin.reports.layout import HEIGHT, Drawing, line_width, shade

EM = 12.0
"""The font size, in pixels."""
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def graph(drawing: Drawing, found: Interactions) -> str:
    """Return the graph of a network; tooltips show full names and strengths."""
    wide, high = ((max(1.0, x) + 1.0) * EM for x in drawing.size)
    x, y = ((drawing.centre[:, k] + 0.5) * EM for k in (0, 1))
    names = [found.domain.names[v] for v in drawing.variables]
    strongest = float(found.strength[0]) if len(found) else 1.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" role="img" aria-label="The graph of the network" '
        f'style="max-width:100%;height:auto;font:{EM:.0f}px {FONT}">',
        '<g stroke-linecap="round">',
    ]
    for (i, j), share in zip(drawing.pairs.tolist(), drawing.strength.tolist(), strict=True):
        tooltip = f"{names[i]} – {names[j]}: {share * strongest:.3f} nats"
        lines.append(
            f'<line x1="{x[i]:.1f}" y1="{y[i]:.1f}" x2="{x[j]:.1f}" y2="{y[j]:.1f}" '
            f'stroke="{shade(share)}" stroke-width="{EM * line_width(share):.2f}">'
            f"<title>{escape(tooltip)}</title></line>"
        )
    lines.append('</g><g text-anchor="middle" fill="#1c2530">')
    for k, (label, width) in enumerate(zip(drawing.labels, drawing.width.tolist(), strict=True)):
        left, top = x[k] - width * EM / 2, y[k] - HEIGHT * EM / 2
        lines.append(
            f'<g><rect x="{left:.1f}" y="{top:.1f}" width="{width * EM:.1f}" '
            f'height="{HEIGHT * EM:.1f}" rx="6" fill="#fff" stroke="#8a94a3"/>'
            f'<text x="{x[k]:.1f}" y="{y[k] + EM * 0.35:.1f}">{escape(label)}</text>'
            f"<title>{escape(names[k])}</title></g>"
        )
    lines.append("</g></svg>")
    return "\n".join(lines)


SIDE, LEFT, TOP = 240, 44, 12
"""The reliability diagram: the side of its square, and the margins, in pixels."""


def reliability(found: Calibration) -> str:
    """Return the reliability diagram; on the diagonal, predictions mean what they say."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE + 60} {SIDE + 60}" '
        f'width="{SIDE + 60}" role="img" aria-label="Predicted probability and observed frequency" '
        f'style="max-width:100%;height:auto;font:11px {FONT}">',
        f'<rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="#f6f8fb" stroke="#c9d1dc"/>',
    ]
    for percent in range(0, 101, 20):
        x, y = _point(percent / 100, percent / 100)
        lines.append(
            '<g fill="#4a5565">'
            f'<text x="{x:.1f}" y="{TOP + SIDE + 16}" text-anchor="middle">{percent}%</text>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent}%</text></g>'
        )
    (x1, y1), (x2, y2) = _point(0, 0), _point(1, 1)
    lines.append(
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#9aa5b4" stroke-dasharray="4 4"/>'
    )
    heaviest = max(b.weight for b in found.bins)
    lines += [_bin(b, heaviest) for b in found.bins]
    lines.append(
        f'<text x="{LEFT + SIDE / 2}" y="{TOP + SIDE + 36}" text-anchor="middle" fill="#1c2530">'
        "predicted probability</text>"
        f'<text x="{LEFT + 8}" y="{TOP + 18}" fill="#1c2530">observed frequency</text></svg>'
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
        f'<line x1="{x:.1f}" y1="{high:.1f}" x2="{x:.1f}" y2="{low:.1f}" stroke="#1f4e8c"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.5 + 4.5 * (b.weight / heaviest) ** 0.5:.1f}" '
        f'fill="#1f4e8c" fill-opacity="0.85"><title>{tooltip}</title></circle>'
    )
