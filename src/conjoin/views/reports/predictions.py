"""The section "How good are the predictions?"."""

from __future__ import annotations

import numpy as np

from conjoin.errors import ModelError
from conjoin.views.reports import svg
from conjoin.views.reports.boosting_comparison import Rival, chosen_columns, rival
from conjoin.views.reports.calibration import RANKS, Calibration, VariableScore
from conjoin.views.reports.held_out import Check
from conjoin.views.reports.markup import bar, count, histogram, not_measured, percent, short, table
from conjoin.views.reports.subject import Subject

HEADING = "How good are the predictions?"

MAX_LISTED = 60
"""Columns beyond this number are folded away."""


def section(subject: Subject, made: Check | ModelError | None) -> str:
    """Return the section; empty if there is no table."""
    if isinstance(made, ModelError):
        return not_measured(HEADING, made)
    if made is None:
        if subject.rows is None:
            return ""
        said = "The model was learned from these rows, which would flatter it. Rows that it has not seen"
        return f"<h2>{HEADING}</h2>\n<p>This was not measured. {said} (--test) would tell.</p>"
    scores, other = made.scores, None
    if subject.test is not None and subject.train is not None:
        names = [v.name for v in scores.variables]
        other = rival(subject.train, subject.test, chosen_columns(names))
    source = made.how.partition(" by ")
    by = f" {source[1].strip()} {source[2]}" if source[2] else ""
    return (
        f"<h2>{HEADING}</h2>\n<p>Each value of {source[0]} was hidden in turn and "
        f"predicted from the rest of its row{by}. For categories, the figures say how often the most "
        "probable value was right; the simplest guess is always the most frequent value."
        f"{_numbers(subject)}{_about(other)}</p>\n{_columns(subject, scores, other)}\n"
        "<h3>Do probabilities mean what they say?</h3>\n"
        f"{_reliability(scores) if scores.bins else ''}{_ranks(scores) if scores.ranks.any() else ''}"
    )


def in_words(subject: Subject, v: VariableScore) -> tuple[str, str]:
    """Return how good the predictions of a column are, and the simplest guess, as HTML."""
    return _figures(subject, v, None)[:2]


def explained(v: VariableScore) -> float:
    """Return the share of the uncertainty (of numbers, the variance) that the other columns remove."""
    if v.error is not None and v.error_of_mean:
        return 1 - (v.error / v.error_of_mean) ** 2
    return 1 - v.log_loss / v.baseline if v.baseline > 0 else 0.0


def _numbers(subject: Subject) -> str:
    if not subject.numeric:
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


def _columns(subject: Subject, scores: Calibration, other: Rival | None) -> str:
    columns = ["column", "#predicted", "#simplest guess", "others explain"]
    rivals = other.scores if other is not None else {}
    if rivals:
        columns.insert(3, "#boosting")
    lines = []
    for v in sorted(scores.variables, key=explained, reverse=True):
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


def _reliability(scores: Calibration) -> str:
    return (
        f'<div class="beside"><div>{svg.reliability(scores)}</div><div><p>If the points lie on the '
        "dashed line, a state that is predicted with a probability of 70% occurs 70% of the time. Larger "
        "points stand for more predictions; vertical lines show two standard errors.</p><p>On average, "
        "predicted probabilities differ from what happened by "
        f"<b>{100 * scores.gap:.1f} percentage points</b>.</p></div></div>"
    )


def _ranks(scores: Calibration) -> str:
    shares = scores.ranks / scores.ranks.sum()
    starts = range(0, 100, 100 // RANKS)
    said = [f"{low} to {low + 100 // RANKS}%" for low in starts]
    tips = [f"{at}: {percent(p)}" for at, p in zip(said, shares.tolist(), strict=True)]
    bars = histogram(shares, np.full(RANKS, 1 / RANKS), tips, ("0%", "100%"))
    half, most = (f"<b>{percent(scores.coverage(level))}</b>" for level in (0.5, 0.9))
    return (
        f'<div class="beside"><div class="ranks">{bars}</div><div><p>For numbers, the bars count by how '
        "much of its predicted distribution lies below a number. If distributions are right, all bars "
        "reach the dark marks: high bars at both ends show distributions that are too narrow, and high "
        f"bars in the middle those that are too wide.</p><p>{half} of the numbers lie in the central "
        f"50% of their distribution, and {most} in the central 90%.</p></div></div>"
    )
