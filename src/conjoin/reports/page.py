"""A self-contained HTML page about a network: no scripts, fonts or other files."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from conjoin.conversion.inconsistency import Inconsistency, inconsistency
from conjoin.conversion.interactions import Interactions
from conjoin.data.arrays import FloatArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.formats.storage import write_bytes
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network, takes_estimators
from conjoin.reports import svg
from conjoin.reports.calibration import Calibration, VariableScore, calibration
from conjoin.reports.layout import draw
from conjoin.reports.links import interactions

ROWS = 256
"""Number of random rows on which disagreement is estimated if it cannot be computed exactly."""
MAX_LISTED = 20
"""Maximum number of links, and of states of a variable, that are listed."""
MAX_DISAGREEMENTS = 10
"""Maximum number of disagreements that are listed."""

STYLE = f"""
body {{ margin: 0; background: #eef1f5; color: #1c2530; font: 16px/1.5 {svg.FONT}; }}
main {{ max-width: 62rem; margin: 0 auto; padding: 2rem 1rem 4rem; }}
section {{ background: #fff; border: 1px solid #dde3ea; border-radius: 10px;
  padding: 1.1rem 1.5rem 1.4rem; margin: 1.2rem 0; overflow-x: auto; }}
h1 {{ font-size: 1.7rem; margin: 0 0 .2rem; }} h2 {{ font-size: 1.2rem; margin: 0 0 .4rem; }}
p {{ margin: .4rem 0 .9rem; max-width: 48rem; }} .quiet {{ color: #566273; }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; }}
th {{ text-align: left; font-weight: 600; color: #566273; border-bottom: 2px solid #dde3ea; }}
th, td {{ padding: .3rem .9rem .3rem 0; vertical-align: top; }}
td {{ border-bottom: 1px solid #eef1f5; }} .number {{ text-align: right; white-space: nowrap; }}
td.number {{ font-variant-numeric: tabular-nums; }}
.bar {{ background: #e4eaf2; height: .55rem; border-radius: 3px; width: 7rem; margin-top: .5rem; }}
.bar i {{ display: block; height: 100%; background: #1f4e8c; border-radius: 3px; }}
.beside {{ display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; }}
.beside > div:last-child {{ flex: 1 1 18rem; padding-top: 1rem; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: 0; }}
dt {{ color: #566273; }} dd {{ margin: 0; overflow-wrap: anywhere; }}
details summary {{ cursor: pointer; color: #1f4e8c; margin-top: .8rem; }}
"""


@takes_estimators(picture=True)
def write_report(
    model: Network,
    path: str | Path,
    table: Table | None = None,
    valid: Table | None = None,
    *,
    conditionals: DependencyNetwork | None = None,
    title: str | None = None,
) -> None:
    """Write one self-contained HTML page about a network.

    It shows the graph, the strongest links in words, where the conditionals disagree and, with a table,
    how reliable the predicted probabilities are.

    Parameters
    ----------
    model : Network
        A Markov, dependency or Bayesian network.
    path : str or Path
        The file to write.
    table : Table, optional
        The training rows; their marginals are the distribution under which strengths and disagreements
        are measured.
    valid : Table, optional
        Rows that the model has not seen, to check its predictions on; by default `table`.
    conditionals : DependencyNetwork, optional
        The dependency network that a Markov network was converted from, to show where its conditionals
        disagree.
    title : str, optional
        The heading.

    Examples
    --------
    >>> import tempfile
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(mn, f"{folder}/report.html")
    ...     "rain=yes and wet=yes go together" in Path(f"{folder}/report.html").read_text("utf-8")
    True
    """
    write_bytes(Path(path), page(model, table, valid, conditionals, title).encode())


def page(
    model: Network,
    table: Table | None,
    valid: Table | None,
    conditionals: DependencyNetwork | None,
    title: str | None,
) -> str:
    """Return the text of the page."""
    if conditionals is None and isinstance(model, DependencyNetwork):
        conditionals = model
    if conditionals is not None and conditionals.domain != model.domain.observed:
        raise ModelError("the conditionals and the model have different variables")
    table = None if table is None else table.over(model.domain.observed)
    found = interactions(model, table)
    sections = [_summary(model), _graph(found), _links(found, table is not None)]
    if conditionals is not None:
        sections.append(_disagreements(conditionals, table))
    rows = table if valid is None else valid
    if rows is not None:
        marginals = None if table is None else table.marginals()
        sections.append(_predictions(model, rows, marginals, held_out=valid is not None))
    heading = escape(title or f"A {model.kind} of {len(model.domain.observed):,} variables")
    body = "\n".join(f"<section>\n{section}\n</section>" for section in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{heading}</h1>\n<p class="quiet">One probability distribution over all variables, '
        f"written by Conjoin.</p>\n{body}\n</main>\n</body>\n</html>\n"
    )


@takes_estimators(picture=True)
def html_card(model: Network, table: Table | None = None) -> str:
    """Return a short piece of HTML with the graph of a network, for notebooks.

    Examples
    --------
    >>> from conjoin import Domain, MarkovNetwork
    >>> "Markov network" in html_card(MarkovNetwork(Domain({"rain": ["no", "yes"]})))
    True
    """
    found = interactions(model, table)
    facts = "".join(
        f'<span style="margin-right:1.2em"><span style="color:#566273">{escape(name)}</span> '
        f"{escape(value)}</span>"
        for name, value in _facts(model)
    )
    strongest = "".join(f"<li>{escape(str(link))}</li>" for link in found.strongest(3))
    listed = f'<ul style="margin:.4em 0 0;padding-left:1.2em">{strongest}</ul>' if strongest else ""
    return (
        '<div style="border:1px solid #dde3ea;border-radius:8px;padding:.8em 1em;max-width:56em;'
        f'background:#fff;color:#1c2530;font:14px/1.5 {svg.FONT}">'
        f'<div style="font-weight:600">{escape(model.kind[0].upper() + model.kind[1:])}</div>'
        f'<div style="margin-bottom:.6em">{facts}</div>{svg.graph(draw(found), found)}{listed}</div>'
    )


def _facts(model: Network) -> list[tuple[str, str]]:
    """Return the size and the kinds of parts of a network."""
    cards = model.domain.observed.cards.tolist()
    states = f"{min(cards, default=0)}"
    if cards and max(cards) != min(cards):
        states += f" to {max(cards)}"
    facts = [("variables", f"{len(cards):,}"), ("states of each", states)]
    for variable in model.domain.variables[len(cards) :]:
        facts.append(("hidden column", f"{len(variable):,} states"))
    if isinstance(model, MarkovNetwork):
        facts.append(("features", f"{len(model.features):,}"))
        if model.factors:
            facts.append(("factors", f"{len(model.factors):,}"))
    cpds: Iterable[Any] = getattr(model, "cpds", ())
    kinds = [type(cpd).__name__ for cpd in cpds]
    for kind in dict.fromkeys(kinds):
        facts.append(("conditionals", f"{kinds.count(kind):,} {kind}"))
    return facts


def _summary(model: Network) -> str:
    facts = [("kind", model.kind), *_facts(model)]
    for key, value in model.provenance.items():
        if isinstance(value, dict):
            value = ", ".join(
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                for k, v in value.items()
                if not isinstance(v, list | dict)
            )
        facts.append((key.replace("_", " "), str(value)))
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts)
    rows = []
    for variable in model.domain.observed:
        shown = ", ".join(str(s) for s in variable.states[:MAX_LISTED])
        more = len(variable) - MAX_LISTED
        rows.append(
            [escape(variable.name), escape(shown) + (f" and {more:,} more" if more > 0 else "")]
        )
    states = _table(["variable", "states"], rows)
    return (
        f"<h2>What it is</h2>\n<dl>{listed}</dl>\n"
        f"<details><summary>All variables and their states</summary>{states}</details>"
    )


def _graph(found: Interactions) -> str:
    drawing = draw(found)
    shown = f"{len(drawing.pairs):,} of {len(found):,} links are shown"
    if len(drawing.variables) < len(found.domain):
        shown += f", between {len(drawing.variables):,} of {len(found.domain):,} variables"
    if not len(found):
        shown = "No two variables interact"
    elif len(drawing.pairs) == len(found):
        shown = f"All {len(found):,} links are shown"
    return (
        f"<h2>The graph</h2>\n<p>Lines join variables that interact; the thicker the line, the stronger "
        f"the link. {shown}.</p>\n{svg.graph(drawing, found)}"
    )


def _links(found: Interactions, has_table: bool) -> str:
    base = "weighted as in the table" if has_table else "all states weighted equally"
    strongest = found.strength[0] if len(found) else 1.0
    rows = [
        [
            escape(link.meeting),
            escape(link.factor),
            f"{link.strength:.3f}",
            _bar(link.strength / strongest),
        ]
        for link in found.strongest(MAX_LISTED)
    ]
    return (
        "<h2>The strongest links</h2>\n<p>Each sentence is about two variables, averaged over all "
        f"others ({base}). Odds × 3 means that either state multiplies the odds of the other by 3: a "
        "probability of 50% becomes 75%. The strength is the spread of the logarithms of such factors "
        "over all states, in nats.</p>"
        + (_table(["link", "#odds", "#strength", ""], rows) if rows else "<p>There are none.</p>")
    )


def _disagreements(dn: DependencyNetwork, table: Table | None) -> str:
    heading = "<h2>Where the conditionals disagree</h2>\n"
    try:
        found = inconsistency(dn, table, rows=ROWS)
    except ModelError as error:
        return f"{heading}<p>This was not measured: {escape(str(error))}.</p>"
    return (
        f"{heading}<p>Each variable has its own conditional distribution, and two of them may differ "
        "about the link between their variables; the joint distribution takes the mean. Over all "
        f"variables, the root mean square distance of a conditional from it is {found.total:.3f} nats of "
        f"log-odds (0 is perfect agreement).</p>\n{_contested(found)}"
    )


def _contested(found: Inconsistency) -> str:
    if not found.interactions:
        return "<p>No disagreement was found.</p>"
    most = found.interactions[0].disagreement
    rows = []
    for item in found.interactions[:MAX_DISAGREEMENTS]:
        said = ", ".join(f"{name} says {value:+.2f}" for name, value in item.opinions.items())
        rows.append(
            [
                escape(" × ".join(item.variables)),
                escape(said),
                f"{item.disagreement:.3f}",
                _bar(item.disagreement / most),
            ]
        )
    return _table(["between", "strength and direction", "#difference", ""], rows)


def _predictions(
    model: Network, rows: Table, marginals: list[FloatArray] | None, held_out: bool
) -> str:
    found = calibration(model, rows, marginals)
    which = "rows that were held out" if held_out else "rows that may be its training rows"
    baseline = -sum(v.baseline for v in found.variables)
    return (
        f"<h2>Are its predictions reliable?</h2>\n<p>Each value of {found.rows:,} {which} is predicted "
        "from the rest of its row. If the points lie on the dashed line, a state that is predicted with "
        "a probability of 70% occurs 70% of the time. Larger points stand for more predictions; vertical "
        "lines show two standard errors.</p>\n"
        f'<div class="beside"><div>{svg.reliability(found)}</div><div><dl>'
        f"<dt>mean distance from the line</dt><dd>{found.gap:.2%}</dd>"
        f"<dt>pseudo-log-likelihood per row</dt><dd>{found.pll:.3f} nats</dd>"
        f"<dt>the same for the marginals alone</dt><dd>{baseline:.3f} nats</dd>"
        f"</dl></div></div>\n{_variables(found)}"
    )


def _variables(found: Calibration) -> str:
    def explained(v: VariableScore) -> float:
        return 1 - v.log_loss / v.baseline if v.baseline > 0 else 0.0

    rows = [
        [
            escape(v.name),
            f"{-v.log_loss:.3f}",
            f"{-v.baseline:.3f}",
            f"{v.accuracy:.1%}",
            f"{v.most_frequent:.1%}",
            f"{v.gap:.1%}",
            _bar(explained(v)),
        ]
        for v in sorted(found.variables, key=explained, reverse=True)
    ]
    columns = [
        "variable", "#log P", "#log P, marginal", "#accuracy", "#most frequent", "#gap", "explained",
    ]  # fmt: skip
    return (
        "<p>For each variable: the mean log-probability of its true state, given the others and by its "
        "marginal distribution; how often the most probable state is right, and how often the most "
        "frequent state would be; and the fraction of the uncertainty that the others explain.</p>"
        + _table(columns, rows)
    )


def _bar(share: float) -> str:
    return f'<div class="bar"><i style="width:{100 * max(0.0, min(1.0, share)):.0f}%"></i></div>'


def _table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a table of HTML cells; a column named '#...' holds numbers."""
    kind = [' class="number"' if c.startswith("#") else "" for c in columns]
    head = "".join(f"<th{k}>{c.lstrip('#')}</th>" for k, c in zip(kind, columns, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{k}>{c}</td>" for k, c in zip(kind, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
