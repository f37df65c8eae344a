"""The explorer's page: a model, and the scripts that answer questions about it, in one HTML file."""

from __future__ import annotations

import json
import tempfile
import zlib
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from conjoin import __version__
from conjoin.data.arrays import FloatArray, UInt16Array
from conjoin.data.table import Table
from conjoin.formats.storage import write_bytes
from conjoin.inference.plan import TooLarge
from conjoin.inference.terms import as_markov_network
from conjoin.models.fine_numbers import FineNumbers
from conjoin.models.network import Network
from conjoin.views.explorer.browser_tables import BrowserTree, browser_tree
from conjoin.views.explorer.page_chain import page_chain
from conjoin.views.explorer.page_columns import number_arrays, page_column
from conjoin.views.reports.associations import PairJoints, counted_joints, graph, joints_of
from conjoin.views.reports.learned import rows_of
from conjoin.views.reports.markup import stylesheet

SCRIPTS = (
    "inference.js",
    "numbers.js",
    "fine.js",
    "chain.js",
    "state.js",
    "text.js",
    "conditions.js",
    "cards.js",
    "target.js",
    "graph.js",
    "rows.js",
    "saving.js",
    "main.js",
)
"""The scripts, in the order in which they are joined."""

RESOLUTION = 2.0**-38
"""Log-values are rounded to multiples of this."""

NOTEBOOK_HEIGHT = 720
"""Height of the page within a notebook, in pixels."""


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
    model : MarkovNetwork, BayesianNetwork or JointModel
        The model. If exact inference is too expensive for a browser, the page says so.
    table : Table, or, with a JointModel, an array or frame, optional
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
        table = None if table is None else model.encoding_.table(table)
        model = model.model_
    network = as_markov_network(model)
    shown = network.domain.observed
    content: dict[str, Any] = {
        "title": title or f"A {model.kind} of {len(shown):,} columns",
        "file": file,
        "version": __version__,
        "learnedRows": len(table) if table is not None else rows_of(model.provenance),
        "columns": [page_column(v) for v in shown],
    }
    values: list[FloatArray] = []
    trees = np.zeros(0, np.uint16)
    try:
        tree = browser_tree(model)
        content["tree"] = _tree(tree)
        values = [_rounded(a) for a in (*(t.values for t in tree.tables), tree.basis)]
        values += [array for v in shown for array in number_arrays(v)]
        if getattr(model, "fine", None) is not None:
            content["fine"], arrays = _fine(model.fine)
            values += arrays
        if getattr(model, "chain", None) is not None:
            content["chain"], trees = page_chain(model.chain)
        _fill_pairs(content, model, None if table is None else table.over(shown))
    except TooLarge as error:
        content["tooLarge"] = str(error)
        content["columns"] = [{"name": name} for name in shown.names]
    html = _page(content, np.concatenate([*values, np.zeros(0)]), trees)
    return Explorer(html, len(shown), content.get("tooLarge", ""))


def _fill_pairs(content: dict[str, Any], model: Network, rows: Table | None) -> None:
    """Describe which columns go together and, given rows of the same columns, their frequencies."""
    network = as_markov_network(model)
    shared, names = joints_of(model), network.domain.observed.names
    linked = [tuple(v for v in b if v < len(names)) for b in network.blankets()]
    content |= {
        "pairs": _pairs(shared, None if rows is None else counted_joints(rows).bits),
        "exactPairs": shared.exact,
        "graph": graph(shared, names, linked),
    }
    if rows is not None:
        content["rows"] = len(rows)
        for v, column in enumerate(content["columns"]):
            column["table"] = _frequencies(rows, v)


def _frequencies(table: Table, v: int) -> list[float]:
    """Return the share of each state among the known values of a column."""
    counts = table.counts(v)
    return [round(float(p), 6) for p in counts / max(counts.sum(), 1e-300)]


def _fine(fine: FineNumbers) -> tuple[dict[str, Any], list[FloatArray]]:
    """Return which columns have fine numbers, and all that the page needs to know of them."""
    places = [fine.domain.index(name) for name in fine.names]
    arrays = (fine.log_shares, fine.gates, fine.intercepts, fine.effects, fine.covariances)
    assert fine.log_inside is not None
    flat = [array.ravel() for array in (*arrays, fine.log_inside)]
    return {"numbers": places, "classes": len(fine.log_shares)}, flat


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


def _pairs(shared: PairJoints, seen: Any) -> list[dict[str, Any]]:
    """Return the strongest pairs: their bits, and those of the table."""
    listed = []
    for a, b in shared.strongest().tolist():
        bits, least = float(shared.bits[a, b]), float(min(shared.bits[a, a], shared.bits[b, b]))
        share = min(1.0, bits / least) if least > 0 else 0.0
        pair: dict[str, Any] = {"ends": [a, b], "bits": round(bits, 6), "share": round(share, 4)}
        if seen is not None:
            pair["table"] = round(float(seen[a, b]), 6)
        listed.append(pair)
    return listed


def _page(content: dict[str, Any], numbers: FloatArray, trees: UInt16Array) -> str:
    """Join the template, the style, the scripts and the model."""
    here = files("conjoin.views.explorer")
    script = "\n".join((here / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = stylesheet("conjoin.views.explorer", "page.css")
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
        model=_packed(json.dumps(content, separators=(",", ":"), allow_nan=False).encode()),
        numbers=_packed(_planes(numbers.astype("<f8"))),
        trees=_packed(_planes(trees.astype("<u2"))),
    )


def _digest(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _packed(content: bytes) -> str:
    """Return compressed bytes as text."""
    return b64encode(zlib.compress(content, 9)).decode()


def _rounded(logs: FloatArray) -> FloatArray:
    """Return log-values that compress well."""
    return np.asarray(np.round(logs.ravel() / RESOLUTION) * RESOLUTION)


def _planes(numbers: FloatArray | UInt16Array) -> bytes:
    """Return the bytes of numbers, the first ones of all numbers first, which compress well."""
    return numbers.view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()
