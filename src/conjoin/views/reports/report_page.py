"""The report: one self-contained HTML page about a model, without scripts, fonts or other files."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from conjoin import __version__
from conjoin.errors import ModelError
from conjoin.formats.storage import write_bytes
from conjoin.models.dependency import DependencyNetwork
from conjoin.progress import progress
from conjoin.views.reports import (
    disagreements,
    distributions,
    findings,
    held_out,
    learned,
    predictions,
    relations,
    surprising,
    together,
)
from conjoin.views.reports.markup import percent, stylesheet, text
from conjoin.views.reports.subject import Subject


def write_report(
    model: Any,
    path: str | Path,
    table: Any = None,
    valid: Any = None,
    *,
    conditionals: DependencyNetwork | None = None,
    title: str | None = None,
    explorer: str | None = None,
    target: str | None = None,
) -> None:
    """Write one self-contained HTML page about a model, for readers who know the table.

    It shows every column with its distribution, what goes with what, how good predictions are compared
    with the simplest guess and with gradient boosting, what looks odd, and how the model was learned.

    Parameters
    ----------
    model : Network or fitted JointModel
        The model.
    path : str or Path
        The file to write.
    table : Table, or, with a JointModel, an array or frame, optional
        The rows that it was learned from: they are described, compared with the model, and searched for
        odd values.
    valid : as `table`, optional
        Rows that the model has not seen, to check its predictions on; by default `table`.
    conditionals : DependencyNetwork, optional
        The dependency network that a Markov network was converted from, to show where its conditionals
        disagree.
    title : str, optional
        The heading.
    explorer : str, optional
        An explorer of the model: the page itself, which is shown at the end, or the address of its
        file, to which the findings link.
    target : str, optional
        The column that matters most: the findings are about it.

    Examples
    --------
    >>> import tempfile
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(mn, f"{folder}/report.html")
    ...     "times as likely" in Path(f"{folder}/report.html").read_text("utf-8")
    True
    """
    subject = Subject.of(model, table, valid)
    if target is not None:
        subject.domain.index(target)
    write_bytes(Path(path), page(subject, conditionals, title, explorer, target).encode())


def page(
    subject: Subject,
    conditionals: DependencyNetwork | None = None,
    title: str | None = None,
    explorer: str | None = None,
    target: str | None = None,
) -> str:
    """Return the text of the page."""
    if conditionals is None and isinstance(subject.model, DependencyNetwork):
        conditionals = subject.model
    if conditionals is not None and conditionals.domain != subject.domain:
        raise ModelError("the conditionals and the model have different variables")
    made = _if_possible(lambda: held_out.check_held_out(subject))
    odd = _if_possible(lambda: surprising.odd_rows(subject) if subject.rows is not None else None)
    check = made if isinstance(made, held_out.Check) else None
    rows = odd[0] if isinstance(odd, tuple) else []
    address = None if explorer is None or _is_page(explorer) else explorer
    parts: dict[str, Callable[[], str]] = {
        "short": lambda: findings.section(subject, check, rows, target, address),
        "table": lambda: distributions.section(subject),
        "together": lambda: together.section(subject, target),
        "rules": lambda: relations.section(subject),
        "predictions": lambda: predictions.section(subject, made),
        "odd": lambda: surprising.section(subject, odd),
        "learned": lambda: learned.section(subject),
    }
    sections = {key: part() for key, part in progress(parts.items(), "sections")}
    if conditionals is not None:
        sections["conditionals"] = disagreements.section(conditionals, subject.rows)
    if explorer is not None:
        sections["explorer"] = _explorer(explorer)
    sections = {key: content for key, content in sections.items() if content}
    heading = text(title or f"A {subject.model.kind} of {len(subject.names):,} columns")
    body = "\n".join(
        f'<section id="{k}">\n{content}\n</section>' for k, content in sections.items()
    )
    links = "".join(f'<a href="#{k}">{_heading(content)}</a>' for k, content in sections.items())
    style, facts = stylesheet("conjoin.views.reports", "report.css"), _facts(subject, check, target)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(explorer)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{heading}</h1>\n{facts}\n<nav>{links}</nav></header>\n{body}\n"
        f"<footer>Written by Conjoin {__version__} on {date.today():%d %B %Y}, from one model of all "
        "columns together.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def _heading(section: str) -> str:
    match = re.search(r"<h2>(.*?)</h2>", section)
    return match[1] if match else ""


_T = TypeVar("_T")


def _if_possible(measure: Callable[[], _T]) -> _T | ModelError:
    """Return a measurement, or why it is impossible."""
    try:
        return measure()
    except ModelError as error:
        return error


def _facts(subject: Subject, check: held_out.Check | None, target: str | None) -> str:
    """Return the size and the quality of the model in a few figures."""
    rows = learned.rows_of(subject.model.provenance)
    if subject.train is not None:
        rows = len(subject.train)
    facts = [] if rows is None else [(f"{rows:,}", "rows to learn from")]
    facts.append((f"{len(subject.names):,}", "columns" if len(subject.names) > 1 else "column"))
    if check is not None:
        shown = [v for v in check.scores.variables if v.error is None]
        best = max(shown, key=predictions.explained, default=None)
        best = best if target is None else check.score(target)
        if best is not None:
            ours, simplest = predictions.in_words(subject, best)
            words = f"{text(best.name)}, predicted from the others (simplest guess: {simplest})"
            facts.append((ours, words))
    if subject.rows is not None:
        holes = float(subject.rows.holes.mean()) if len(subject.rows) else 0.0
        facts.append((percent(holes) if holes else "none", "of the values are missing"))
    listed = "".join(f"<div><b>{value}</b><span>{words}</span></div>" for value, words in facts)
    return f'<div class="facts">{listed}</div>'


def _explorer(explorer: str) -> str:
    heading = "<h2>Explore it</h2>\n<p>Choose states, and see how everything else changes."
    if not _is_page(explorer):
        return f'{heading}</p>\n<p><a href="{escape(explorer)}">Open the explorer</a></p>'
    return (
        f'{heading} The explorer runs in this page.</p>\n<iframe srcdoc="{escape(explorer)}" '
        'title="Explorer" sandbox="allow-scripts allow-downloads allow-popups"></iframe>'
    )


def _is_page(explorer: str) -> bool:
    return explorer.lstrip().lower().startswith("<!doctype")


def _policy(explorer: str | None) -> str:
    """Return a policy that allows nothing from outside, and no script but that of the explorer."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    match = re.search(r"script-src ('sha256-[A-Za-z0-9+/=]+')", explorer or "")
    return f"{policy}; script-src {match[1]}" if match and _is_page(explorer or "") else policy
