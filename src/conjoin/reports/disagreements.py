"""The section on where the conditionals of a dependency network disagree."""

from __future__ import annotations

from html import escape

from conjoin.conversion.inconsistency import Inconsistency, inconsistency
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.models.dependency import DependencyNetwork
from conjoin.reports.markup import bar, short, table

ROWS = 256
"""Number of random rows on which disagreement is estimated if it cannot be computed exactly."""

MAX_LISTED = 10
"""Maximum number of disagreements that are listed."""


def section(dn: DependencyNetwork, rows: Table | None) -> str:
    """Return the section."""
    heading = "<h2>Where the conditionals disagree</h2>\n"
    try:
        found = inconsistency(dn, rows, rows=ROWS)
    except ModelError as error:
        return f"{heading}<p>This was not measured: {escape(str(error))}.</p>"
    return (
        f"{heading}<p>Each column has a prediction of its own, and two of them may differ on the link "
        "between their columns; the joint distribution takes the mean. On average (root mean square), a "
        f"prediction differs from it by {found.total:.3f} in log-odds; 0 is perfect agreement.</p>\n"
        f"<details><summary>The largest differences</summary>{_contested(found)}</details>"
    )


def _contested(found: Inconsistency) -> str:
    if not found.interactions:
        return "<p>No disagreement was found.</p>"
    most = max(found.interactions[0].disagreement, 1e-300)
    lines = []
    for item in found.interactions[:MAX_LISTED]:
        said = ", ".join(
            f"{short(name)} says {value:+.2f}" for name, value in item.opinions.items()
        )
        lines.append(
            [
                " × ".join(short(name) for name in item.variables),
                said,
                f"{item.disagreement:.3f} {bar(item.disagreement / most)}",
            ]
        )
    return table(["between", "strength and direction", "#difference"], lines)
