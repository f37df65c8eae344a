"""The section on where the conditionals of a dependency network disagree."""

from __future__ import annotations

from conjoin.conversion.inconsistency import Inconsistency, inconsistency
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.models.dependency import DependencyNetwork
from conjoin.views.reports.markup import bar, not_measured, short, table

HEADING = "Where the conditionals disagree"

ROWS = 256
"""Number of random rows on which disagreement is estimated if it cannot be computed exactly."""

MAX_LISTED = 10
"""Maximum number of disagreements that are listed."""


def section(dn: DependencyNetwork, rows: Table | None) -> str:
    """Return the section."""
    try:
        measured = inconsistency(dn, rows, rows=ROWS)
    except ModelError as error:
        return not_measured(HEADING, error)
    return (
        f"<h2>{HEADING}</h2>\n<p>Each column has a prediction of its own, and two of them may differ on "
        "the link between their columns; the joint distribution takes the mean. On average (root mean "
        f"square), a prediction differs from it by {measured.total:.3f} in log-odds; 0 is perfect "
        "agreement.</p>\n"
        f"<details><summary>The largest differences</summary>{_contested(measured)}</details>"
    )


def _contested(measured: Inconsistency) -> str:
    if not measured.interactions:
        return "<p>No disagreement was found.</p>"
    most = max(measured.interactions[0].disagreement, 1e-300)
    lines = []
    for item in measured.interactions[:MAX_LISTED]:
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
