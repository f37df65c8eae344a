"""The section "How good are the predictions?"."""

from __future__ import annotations

from conjoin.models.mixed import MixedNetwork
from conjoin.reports import svg
from conjoin.reports.boosting import Rival, chosen_columns, rival
from conjoin.reports.calibration import Calibration, VariableScore, calibration
from conjoin.reports.markup import bar, count, percent, short, table
from conjoin.reports.mixed_calibration import mixed_calibration
from conjoin.reports.subject import Subject

MAX_LISTED = 60
"""Columns beyond this number are folded away."""


def section(subject: Subject) -> str:
    """Return the section; empty if there is no table."""
    if subject.rows is None:
        return ""
    found = _calibration(subject)
    other = None
    if subject.test is not None and subject.train is not None:
        names = [v.name for v in found.variables]
        other = rival(subject.train, subject.test, chosen_columns(names))
    which, warning = f"{count(found.rows, 'row')} that the model has not seen", ""
    if subject.test is None:
        which = f"{count(found.rows, 'row')} of the table"
        warning = " The model may have learned from these rows; expect a little less for new ones."
    return (
        f"<h2>How good are the predictions?</h2>\n<p>Each value of {which} was hidden in turn and "
        "predicted from the rest of its row. For columns of states, the figures say how often the most "
        "probable state was right; the simplest guess is always the most frequent state."
        f"{_numbers(subject)}{_about(other)}{warning}</p>\n{_columns(subject, found, other)}\n"
        f"<h3>Do probabilities mean what they say?</h3>\n{_reliability(found)}"
    )


def _calibration(subject: Subject) -> Calibration:
    rows = subject.rows if subject.test is None else subject.test
    assert rows is not None
    if isinstance(subject.model, MixedNetwork):
        return mixed_calibration(subject.model, rows, subject.train)
    known = None if subject.train is None else subject.train.categories.marginals()
    return calibration(subject.model, rows.categories, known)


def explained(v: VariableScore) -> float:
    """Return the share of the uncertainty about a column that the other columns remove.

    For numbers, it is the share of the variance.
    """
    if v.error is not None and v.error_of_mean:
        return 1 - (v.error / v.error_of_mean) ** 2
    return 1 - v.log_loss / v.baseline if v.baseline > 0 else 0.0


def _numbers(subject: Subject) -> str:
    if not subject.domain.scales:
        return ""
    return (
        " For numbers, they say how far off the predicted mean typically was (root mean square); the "
        "simplest guess is always the overall mean."
    )


def _about(other: Rival | None) -> str:
    if other is None or not other.scores:
        return ""
    return (
        f" For {count(len(other.scores), 'column')}, gradient boosting ({other.name}, default settings) "
        "was trained on the same rows for comparison: one special-purpose model for each column."
    )


def _columns(subject: Subject, found: Calibration, other: Rival | None) -> str:
    columns = ["column", "#predicted", "#simplest guess", "others explain"]
    rivals = other.scores if other is not None else {}
    if rivals:
        columns.insert(3, "#boosting")
    lines = []
    for v in sorted(found.variables, key=explained, reverse=True):
        ours, simplest, theirs = _figures(subject, v, rivals.get(v.name))
        line = [
            short(v.name),
            ours,
            simplest,
            f"{bar(explained(v))} {percent(max(0, explained(v)))}",
        ]
        if rivals:
            line.insert(3, theirs)
        lines.append(line)
    first = table(columns, lines[:MAX_LISTED])
    if len(lines) <= MAX_LISTED:
        return first
    rest = table(columns, lines[MAX_LISTED:])
    return f"{first}<details><summary>{len(lines) - MAX_LISTED:,} more columns</summary>{rest}</details>"


def _figures(subject: Subject, v: VariableScore, theirs: float | None) -> tuple[str, str, str]:
    if v.error is None or v.error_of_mean is None:
        other = "" if theirs is None else f"{percent(theirs)} right"
        return f"{percent(v.accuracy)} right", f"{percent(v.most_frequent)} right", other
    unit = {"number": "", "date": " days", "datetime": " s"}[subject.domain.scale(v.name).kind]

    def off(error: float) -> str:
        return f"off by {f'{error:,.0f}' if error >= 999.5 else f'{error:.3g}'}{unit}"

    return off(v.error), off(v.error_of_mean), "" if theirs is None else off(theirs)


def _reliability(found: Calibration) -> str:
    return (
        f'<div class="beside"><div>{svg.reliability(found)}</div><div><p>If the points lie on the dashed '
        "line, a state that is predicted with a probability of 70% occurs 70% of the time. Larger points "
        "stand for more predictions; vertical lines show two standard errors.</p><p>On average, "
        "predicted probabilities differ from what happened by "
        f"<b>{100 * found.gap:.1f} percentage points</b>.</p></div></div>"
    )
