"""The section "In short": what a reader should not miss, with links to the explorer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Table
from conjoin.inference.conditions import label_text
from conjoin.views.reports.held_out import Check
from conjoin.views.reports.markup import count, percent, short, text
from conjoin.views.reports.predictions import explained, in_words
from conjoin.views.reports.statements import (
    Statement,
    fifths,
    figures,
    near_copies,
    sentence,
    statements,
)
from conjoin.views.reports.subject import Subject, missing_patterns, value_text
from conjoin.views.reports.surprising import OddRow

FINDINGS = 5
"""Number of findings that links between columns fill up."""

MAX_NAMED = 4
"""Maximum number of columns that are named in a sentence."""


class Finding(NamedTuple):
    """A sentence as HTML, and what to set in the explorer to see it, as the end of an address."""

    said: str
    address: str | None = None


def section(
    subject: Subject,
    made: Check | None,
    odd: Sequence[OddRow],
    target: str | None,
    explorer: str | None,
) -> str:
    """Return the section. `explorer`: the address of an explorer of the model."""
    lines = []
    for said, address in findings(subject, made, odd, target):
        link = ""
        if explorer is not None and address is not None:
            link = f' <a href="{text(explorer)}#{address}">See it in the explorer</a>'
        lines.append(f"<li>{said}{link}</li>")
    return f'<h2>In short</h2>\n<ol class="findings">{"".join(lines)}</ol>' if lines else ""


def findings(
    subject: Subject, made: Check | None, odd: Sequence[OddRow], target: str | None
) -> list[Finding]:
    """Return findings about links, predictions, rows and missing values, and warnings about columns."""
    others = [
        *_predicted(subject, made, target),
        *_odd(subject, odd),
        *_missing(subject),
        *_warnings(subject),
    ]
    return [*_links(subject, target, max(1, FINDINGS - len(others))), *others]


def _links(subject: Subject, target: str | None, most: int) -> Iterator[Finding]:
    copies = near_copies(subject)
    listed = statements(subject, most + len(copies), target)[0]
    listed = [said for said in listed if not {said.given, said.about} & copies.keys()]
    for k, said in enumerate(listed[:most]):
        words = f"{sentence(subject, said)}: {figures(subject, said, said.model)}."
        if k == 0 and target is None:
            words = f"The strongest link: {words[0].lower()}{words[1:]}"
        yield Finding(words, _shown(subject, said))


def _shown(subject: Subject, said: Statement) -> str:
    """Return the address at which the explorer shows a statement."""
    given, about = (subject.domain.variables[v] for v in (said.given, said.about))
    if said.condition is not None:
        known = f"{_quoted(given.name)}={_quoted(given.states[said.condition])}"
    else:
        high = subject.domain.scale(given.name).text(fifths(subject, given.name)[1])
        known = _words(given.name, f">= {high}")
    focus = "" if said.outcome is None else f":{_quoted(about.states[said.outcome])}"
    return text(f"{known}&/target={_quoted(about.name)}{focus}")


def _quoted(label: object) -> str:
    return quote(str(label), safe="!'()*~")


def _words(name: str, rest: str) -> str:
    """Return a condition as the explorer's address has it."""
    return f"{_quoted(name)}=words:{_quoted(f'{label_text(name)} {rest}')}"


def _predicted(subject: Subject, made: Check | None, target: str | None) -> Iterator[Finding]:
    if made is None:
        return
    copies = near_copies(subject)
    twins = {subject.names[v] for pair in copies.items() for v in pair}
    scores = [v for v in made.scores.variables if v.name not in twins or v.name == target]
    best = max(scores, key=explained, default=None) if target is None else made.score(target)
    if best is None or (target is None and explained(best) < 0.02):
        return
    ours, simplest = in_words(subject, best)
    start = "Best predicted from the others: " if target is None else "Predicted from the others, "
    yield Finding(
        f"{start}<b>{short(best.name)}</b>, {ours} (the simplest guess: {simplest}), on {made.how}.",
        text(f"/target={_quoted(best.name)}"),
    )


def _odd(subject: Subject, odd: Sequence[OddRow]) -> Iterator[Finding]:
    if not odd or subject.rows is None:
        return
    row, reason = odd[0].row, odd[0].reasons[0]
    rest = [
        _known(subject.rows, row, v)
        for v, name in enumerate(subject.names)
        if name not in {part.column for part in odd[0].reasons} and not subject.rows.holes[row, v]
    ]
    yield Finding(
        f"The oddest row is row {row + 1:,}: {reason.cell}, where {reason.expected} was to be expected.",
        text("&".join([*rest, f"/target={_quoted(reason.column)}"])),
    )


def _known(rows: Table, row: int, v: int) -> str:
    variable, shown = rows.domain.variables[v], value_text(rows, row, v)
    if variable.numbers is not None and rows.numbers is not None:
        return _words(variable.name, f"= {label_text(shown)}")
    return f"{_quoted(variable.name)}={_quoted(shown)}"


def _missing(subject: Subject) -> Iterator[Finding]:
    rows = subject.rows
    if rows is None or not len(rows) or not rows.holes.any():
        return
    shares = rows.holes.mean(axis=0)
    most = int(shares.argmax())
    said = (
        f"{percent(float(rows.holes.mean()))} of all values are missing, most of them in "
        f"<b>{short(subject.names[most])}</b> ({percent(float(shares[most]))})"
    )
    together = [(n, names) for n, names in missing_patterns(rows) if len(names) > 1 and n > 1]
    if together:
        said += f"; {count(together[0][0], 'row')} lack {_listed(together[0][1])} together"
    yield Finding(f"{said}.")


def _listed(names: Sequence[str]) -> str:
    shown = [f"<b>{short(name)}</b>" for name in names[:MAX_NAMED]]
    if len(names) > MAX_NAMED:
        return f"{', '.join(shown)} and {count(len(names) - MAX_NAMED, 'more column')}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _warnings(subject: Subject) -> Iterator[Finding]:
    """Say which columns or rows are copies, and which columns say nothing."""
    for j, i in near_copies(subject).items():
        share = (subject.table_joints or subject.joints).shares[i, j]
        same = "the same" if share > 1 - 1e-9 else f"nearly the same ({percent(float(share))})"
        option = f"<code>--exclude {short(subject.names[j])}</code>"
        yield Finding(
            f"{_listed([subject.names[i], subject.names[j]])} say {same}; {option} would leave one out."
        )
    if subject.rows is None:
        return
    constant = [
        name for v, name in enumerate(subject.names) if (subject.rows.counts(v) > 0).sum() == 1
    ]
    if constant:
        verb = "has" if len(constant) == 1 else "have"
        yield Finding(f"{_listed(constant)} {verb} the same value in all rows.")
    copies = len(subject.rows) - _distinct(subject.rows)
    if copies:
        verb = "is a copy" if copies == 1 else "are copies"
        yield Finding(f"{count(copies, 'row')} {verb} of earlier ones.")


def _distinct(rows: Table) -> int:
    codes = rows.signed_codes().astype(np.float64)
    values = codes if rows.numbers is None else np.column_stack([codes, rows.numbers])
    return len(distinct_rows(np.ascontiguousarray(values))[0])
