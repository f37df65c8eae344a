"""The section "What always holds": the rules that the model keeps."""

from __future__ import annotations

from conjoin.views.reports.markup import text
from conjoin.views.reports.subject import Subject


def section(subject: Subject) -> str:
    """Return the section, or nothing if there are no rules."""
    listed = "".join(f"<li>{text(rule.words())}</li>" for rule in subject.model.rules)
    if not listed:
        return ""
    return (
        "<h2>What always holds</h2>\n<p>These relations between columns hold in the table. Rows that the "
        f'model draws, and values that it fills in, keep them.</p>\n<ul class="plain">{listed}</ul>'
    )
