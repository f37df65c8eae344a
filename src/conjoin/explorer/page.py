"""The explorer's page: a model, and the scripts that answer questions about it, in one HTML file."""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from conjoin import __version__
from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Variable
from conjoin.data.label_values import is_number
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.explorer.mixed import MixedPage
from conjoin.explorer.tables import MAX_CELLS, BrowserTree, browser_tree
from conjoin.formats.storage import write_bytes
from conjoin.inference.plan import TooLarge
from conjoin.inference.terms import as_markov_network
from conjoin.models.mixed import MixedNetwork
from conjoin.models.network import Network
from conjoin.reports.associations import Associations, associations, counted, graph
from conjoin.reports.stylesheets import stylesheet

SCRIPTS = (
    "inference.js",
    "mixed.js",
    "state.js",
    "text.js",
    "conditions.js",
    "cards.js",
    "target.js",
    "graph.js",
    "rows.js",
    "main.js",
)
"""The scripts, in the order in which they are joined."""

MANY_NUMBERS = 6
"""Columns with at least this number of states, all of them numbers, are drawn as a histogram."""

NOTEBOOK_HEIGHT = 720
"""Height of the page within a notebook, in pixels."""


_DATES = re.compile(r"(\d{4}-\d\d-\d\d\b.*?)( to .*)?")
"""The label of a bin of dates, and where it begins."""


@dataclass(frozen=True)
class Explorer:
    """The explorer's page of a model; a notebook shows it.

    Attributes
    ----------
    html : str
        The page.
    columns : int
        The number of columns that it shows.
    too_large : str
        Why the model cannot be explored; empty if it can.
    """

    html: str
    columns: int
    too_large: str = ""

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        write_bytes(Path(path), self.html.encode())

    def open(self) -> Path:
        """Show the page in a browser; return the temporary file that holds it."""
        import webbrowser

        path = Path(tempfile.mkdtemp(prefix="conjoin-")) / "explorer.html"
        self.save(path)
        webbrowser.open(path.as_uri())
        return path

    def __repr__(self) -> str:
        return f"<Explorer: a page of {len(self.html.encode()) / 1e6:.2f} MB; .save(path) or .open() it>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="Conjoin explorer" '
            'sandbox="allow-scripts allow-downloads allow-popups" allow="clipboard-write" '
            f'style="width:100%;height:{NOTEBOOK_HEIGHT}px;border:1px solid #8886;border-radius:8px">'
            "</iframe>"
        )


EXACT = "All answers are exact for this model."
NEARLY_EXACT = (
    "Answers are exact for this model as long as none of the numbers is known; with a range of one, "
    "those about states are, too. All others are approximate."
)


def explore(
    model: Any,
    table: Any = None,
    *,
    title: str | None = None,
    file: str = "model.conjoin",
) -> Explorer:
    """Return a page on which a model can be explored: choose states and see what else changes.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork, MixedNetwork or JointModel
        The model. If exact inference is too expensive for a browser, the page says so.
    table : Table or MixedTable, or, with a JointModel, an array or frame, optional
        Rows to compare the model with: their frequencies are marked beside its probabilities. The rows
        themselves are not part of the page.
    title : str, optional
        The heading.
    file : str
        The name of the model's file, for the commands that the page offers to copy.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})]))
    >>> page = explore(mn)
    >>> "Content-Security-Policy" in page.html, page.too_large
    (True, '')
    """
    if hasattr(model, "model_"):
        table = None if table is None else model.coded(table)
        model = model.model_
    content: dict[str, Any] = {"file": file, "version": __version__}
    try:
        if isinstance(model, MixedNetwork):
            names = model.names
            numbers = _fill_mixed(content, model, table)
        else:
            names = as_markov_network(model).domain.observed.names
            numbers = _fill_states(content, model, table)
    except TooLarge as error:
        content["tooLarge"], numbers = str(error), []
        content.setdefault("columns", [{"name": name} for name in names])
    content["title"] = title or f"A {model.kind} of {len(names):,} columns"
    flat = np.concatenate([*numbers, np.zeros(0)]).astype("<f8")
    html = _page(content, zlib.compress(flat.tobytes(), 9))
    return Explorer(html, len(names), content.get("tooLarge", ""))


def _fill_states(
    content: dict[str, Any], model: Network, table: Table | MixedTable | None
) -> list[FloatArray]:
    """Describe a network of states; return its numbers."""
    tree, network = browser_tree(model), as_markov_network(model)
    shown = network.domain.observed
    content |= {"note": EXACT, "tree": _tree(tree), "columns": [_column(v) for v in shown]}
    blankets = [tuple(v for v in b if v < len(shown)) for b in network.blankets()]
    rows = None if table is None else _states_of(table).over(shown)
    _fill_pairs(content, associations(model), blankets, rows)
    return [*(t.values.ravel() for t in tree.tables), tree.basis.ravel()]


def _fill_mixed(
    content: dict[str, Any], model: MixedNetwork, table: Table | MixedTable | None
) -> list[FloatArray]:
    """Describe a model of categories and numbers; return its numbers."""
    mixed = MixedPage(model, MAX_CELLS)
    parts, numbers = mixed.parts(_tree)
    columns = [
        mixed.bins[name].column() if name in mixed.bins else _column(model.domain.categories[name])
        for name in model.names
    ]
    content |= {"note": NEARLY_EXACT, "parts": parts, "columns": columns}
    if isinstance(table, Table):
        raise ModelError("a model with numbers needs a MixedTable to be compared with")
    rows = None if table is None else mixed.binned(table)
    everything = tuple(range(len(columns)))
    _fill_pairs(content, mixed.associations(), [everything] * len(columns), rows)
    return numbers


def _states_of(table: Table | MixedTable) -> Table:
    """Return a table without numbers as one of states."""
    if isinstance(table, Table):
        return table
    if table.scales:
        raise ModelError("the model has no numbers, but the table has")
    return table.categories


def _fill_pairs(
    content: dict[str, Any],
    found: Associations,
    linked: list[tuple[int, ...]],
    rows: Table | None,
) -> None:
    """Describe which columns go together and, given rows of the same columns, their frequencies."""
    names = tuple(column["name"] for column in content["columns"])
    content |= {
        "pairs": _pairs(found, None if rows is None else counted(rows)),
        "exactPairs": found.exact,
        "graph": graph(found, names, linked),
    }
    if rows is not None:
        content["rows"] = len(rows)
        for v, column in enumerate(content["columns"]):
            column["table"] = _frequencies(rows, v)


def _column(variable: Variable) -> dict[str, Any]:
    """Return a column as the page shows it, and its states as Python writes them."""
    states = list(variable.states)
    numeric = all(is_number(s) for s in states) and all(a < b for a, b in pairwise(states))
    column: dict[str, Any] = {
        "name": variable.name,
        "kind": "category",
        "states": [_label(s) for s in states],
        "python": [repr(s) for s in states],
    }
    if variable.cuts is not None:
        column |= {"kind": "number", "cuts": [float(c) for c in variable.cuts]}
        dates = [_DATES.fullmatch(str(s)) for s in states]
        if all(dates):
            column["dates"] = [found[1] for found in dates if found]
    elif numeric and len(states) >= MANY_NUMBERS:
        column |= {"kind": "number", "values": [float(s) for s in states]}
    return column


def _label(state: Any) -> str:
    """Return a state as it is shown: whole numbers without a fraction."""
    return str(int(state)) if isinstance(state, float) and state.is_integer() else str(state)


def _frequencies(table: Table, v: int) -> list[float]:
    """Return the share of each state among the known values of a column."""
    size = len(table.domain.variables[v])
    counts = np.bincount(table.codes[:, v], table.weights, minlength=table.missing + 1)[:size]
    return [round(float(p), 6) for p in counts / max(counts.sum(), 1e-300)]


def _tree(tree: BrowserTree) -> dict[str, Any]:
    return {
        "sizes": tree.sizes,
        "places": tree.places,
        "cliques": tree.cliques,
        "shared": tree.shared,
        "parents": tree.parents,
        "lanes": tree.lanes,
        "rank": len(tree.basis),
        "tables": [
            {
                "clique": t.clique,
                "variables": list(t.variables),
                "kind": "rank" if t.low_rank else "lanes" if t.has_lanes else "plain",
            }
            for t in tree.tables
        ],
    }


def _pairs(found: Associations, seen: Any) -> list[dict[str, Any]]:
    """Return the strongest pairs: their bits, and those of the table."""
    listed = []
    for a, b in found.strongest().tolist():
        bits, least = float(found.bits[a, b]), float(min(found.bits[a, a], found.bits[b, b]))
        share = min(1.0, bits / least) if least > 0 else 0.0
        pair: dict[str, Any] = {"ends": [a, b], "bits": round(bits, 6), "share": round(share, 4)}
        if seen is not None:
            pair["table"] = round(float(seen[a, b]), 6)
        listed.append(pair)
    return listed


def _page(content: dict[str, Any], packed: bytes) -> str:
    """Join the template, the style, the scripts and the model."""
    here = files("conjoin.explorer")
    script = "\n".join((here / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = stylesheet("conjoin.explorer", "page.css")
    template = Template((here / "page.html").read_text(encoding="utf-8"))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return template.substitute(
        policy=policy,
        title=escape(content["title"]),
        style=style,
        script=script,
        model=_json(content),
        numbers=b64encode(packed).decode(),
    )


def _digest(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _json(content: Any) -> str:
    """Return JSON that can stand in a script element: no < that could end it, no lone surrogates."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")
