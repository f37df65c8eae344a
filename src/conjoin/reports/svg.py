"""Pictures for pages, as SVG text."""

from __future__ import annotations

from html import escape

from conjoin.conversion.interactions import Interactions
from conjoin.reports.calibration import Calibration
from conjoin.reports.layout import HEIGHT, Drawing
from conjoin.reports.picture import shade

EM = 12.0
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def graph(drawing: Drawing, found: Interactions) -> str:
    """Return the graph of a network; names and strengths show under the pointer."""
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
        told = f"{names[i]} – {names[j]}: {share * strongest:.3f} nats"
        lines.append(
            f'<line x1="{x[i]:.1f}" y1="{y[i]:.1f}" x2="{x[j]:.1f}" y2="{y[j]:.1f}" '
            f'stroke="{shade(share)}" stroke-width="{EM * (0.06 + 0.5 * share):.2f}">'
            f"<title>{escape(told)}</title></line>"
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


def reliability(found: Calibration) -> str:
    """Return predicted against observed: on the diagonal, a prediction means what it says."""
    side, left, top = 240, 44, 12

    def at(predicted: float, observed: float) -> tuple[float, float]:
        return left + predicted * side, top + (1 - observed) * side

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + 60} {side + 60}" '
        f'width="{side + 60}" role="img" aria-label="Predicted against observed" '
        f'style="max-width:100%;height:auto;font:11px {FONT}">',
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="#f6f8fb" stroke="#c9d1dc"/>',
    ]
    for k in range(6):
        (x, _), (_, y) = at(k / 5, 0), at(0, k / 5)
        label = f"{20 * k}%"
        lines.append(
            f'<text x="{x:.1f}" y="{top + side + 16}" text-anchor="middle" fill="#4a5565">{label}</text>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#4a5565">{label}</text>'
        )
    (x1, y1), (x2, y2) = at(0, 0), at(1, 1)
    lines.append(
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#9aa5b4" stroke-dasharray="4 4"/>'
    )
    heaviest = max(b.weight for b in found.bins)
    for b in found.bins:
        x, y = at(b.predicted, b.observed)
        (_, high), (_, low) = (
            at(0, max(0.0, min(1.0, b.observed + k * 2 * b.stderr))) for k in (1, -1)
        )
        told = f"predicted {b.predicted:.1%}, observed {b.observed:.1%} of {b.weight:,.0f}"
        lines.append(
            f'<line x1="{x:.1f}" y1="{high:.1f}" x2="{x:.1f}" y2="{low:.1f}" stroke="#1f4e8c"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.5 + 4.5 * (b.weight / heaviest) ** 0.5:.1f}" '
            f'fill="#1f4e8c" fill-opacity="0.85"><title>{told}</title></circle>'
        )
    lines.append(
        f'<text x="{left + side / 2}" y="{top + side + 36}" text-anchor="middle" fill="#1c2530">'
        "predicted probability</text>"
        f'<text x="{left + 8}" y="{top + 18}" fill="#1c2530">how often it came true</text></svg>'
    )
    return "\n".join(lines)
