"""Writing Bayesian networks for other programs: BIF, XDSL (GeNIe) and NET (Hugin).

These formats restrict names to letters, digits and underscores. Other names and states are replaced by
similar words; the file beside (FILE.names.json) keeps the originals. XDSL and NET hold names as labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.errors import FormatError
from conjoin.formats.names_files import write_named
from conjoin.formats.storage import errors_naming
from conjoin.models.bayes import BayesianNetwork, cpd_as_factor
from conjoin.models.cpd import MAX_AXES, MAX_TABLE
from conjoin.models.markov import TableFactor

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = frozenset((
    "network", "variable", "probability", "property", "type", "discrete", "table", "default", "node",
    "potential", "states", "data", "net", "label",
))  # fmt: skip
"""Words that the formats use themselves."""


class _Node(NamedTuple):
    """A variable as a file holds it: words, the positions of its parents, rows of probabilities."""

    position: int
    name: str
    states: list[str]
    parents: list[int]
    rows: FloatArray


def safe_words(labels: Iterable[Any]) -> list[str]:
    """Return different words for different labels: the labels themselves wherever that is possible."""
    texts = [str(label) for label in labels]
    taken = {text for text in texts if WORD.fullmatch(text) and text not in RESERVED}
    result: list[str] = []
    left = set(taken)
    for text in texts:
        if text in left:
            left.remove(text)
            result.append(text)
            continue
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "s"
        plain = plain if plain[0].isalpha() else f"s{plain}"
        word, number = plain, 1
        while word in taken or word in RESERVED:
            number += 1
            word = f"{plain}_{number}"
        taken.add(word)
        result.append(word)
    return result


def safe_domain(domain: Domain) -> Domain:
    """Return a domain with words for names and states, as a reader of the file sees it."""
    names = safe_words(domain.names)
    return Domain({n: safe_words(v.states) for n, v in zip(names, domain, strict=True)})


def _nodes(model: BayesianNetwork, words: Domain, path: Path) -> Iterator[_Node]:
    """Yield the variables, parents before children; in the rows, the last parent varies fastest."""
    for v in TopologicalSorter({cpd.target: cpd.blanket for cpd in model.cpds}).static_order():
        parents = list(model.cpds[v].blanket)
        rows = np.exp(_table(model, (*parents, v), path)).reshape(-1, int(words.cards[v]))
        yield _Node(v, words.names[v], list(words.variables[v].states), parents, rows)


def _table(model: BayesianNetwork, scope: tuple[int, ...], path: Path) -> FloatArray:
    """Return the CPD of the last variable of a scope as a table of log-probabilities over the scope."""
    position, cards = scope[-1], model.domain.cards
    size = np.prod(cards[list(scope)], dtype=float)
    if size > MAX_TABLE or len(scope) > MAX_AXES:
        raise FormatError(
            f"{model.domain.names[position]!r} has {len(scope) - 1} parents, too many for a table; "
            "use .conjoin or .bn",
            str(path),
        )
    with errors_naming(path):
        factor = cpd_as_factor(model.cpds[position])
    assert factor is not None, "the table is small"
    return TableFactor.tabulated(scope, cards, factor.evaluate).table


def _numbers(values: FloatArray, separator: str) -> str:
    return separator.join(map(repr, values.tolist()))


def write_bif(model: BayesianNetwork, path: Path) -> None:
    """Write a .bif file."""
    words = safe_domain(model.domain)
    lines = ["network unknown {", "}"]
    for variable in words:
        states = ", ".join(variable.states)
        lines += [
            f"variable {variable.name} {{",
            f"  type discrete [ {len(variable)} ] {{ {states} }};",
            "}",
        ]
    for node in _nodes(model, words, path):
        given = [words.variables[p] for p in node.parents]
        head = f"{node.name} | {', '.join(v.name for v in given)}" if given else node.name
        lines.append(f"probability ( {head} ) {{")
        if given:
            chosen = product(*(v.states for v in given))
            for known, row in zip(chosen, node.rows, strict=True):
                lines.append(f"  ({', '.join(known)}) {_numbers(row, ', ')};")
        else:
            lines.append(f"  table {_numbers(node.rows[0], ', ')};")
        lines.append("}")
    write_named(path, _text(lines), model.domain, words)


def write_net(model: BayesianNetwork, path: Path) -> None:
    """Write a Hugin .net file."""
    words = safe_domain(model.domain)
    lines = ["net", "{", "}"]
    for variable, original in zip(words, model.domain, strict=True):
        states = " ".join(f'"{state}"' for state in variable.states)
        label = re.sub(r'["\\\n\r]', " ", original.name)
        lines += [
            f"node {variable.name}",
            "{",
            f"  states = ( {states} );",
            f'  label = "{label}";',
            "}",
        ]
    for node in _nodes(model, words, path):
        given = [words.names[p] for p in node.parents]
        head = f"{node.name} | {' '.join(given)}" if given else node.name
        shape = [len(words.variables[p]) for p in node.parents]
        data = _nested(node.rows.reshape(*shape, -1))
        lines += [f"potential ( {head} )", "{", f"  data = {data};", "}"]
    write_named(path, _text(lines), model.domain, words)


def _nested(table: FloatArray) -> str:
    """Return a table as nested parentheses, one level per axis."""
    if table.ndim == 1:
        return f"( {_numbers(table, ' ')} )"
    return f"( {' '.join(_nested(part) for part in table)} )"


def write_xdsl(model: BayesianNetwork, path: Path) -> None:
    """Write a GeNIe .xdsl file."""
    words = safe_domain(model.domain)
    root = Element("smile", version="1.0", id="network")
    nodes = SubElement(root, "nodes")
    for node in _nodes(model, words, path):
        cpt = SubElement(nodes, "cpt", id=node.name)
        for state in node.states:
            SubElement(cpt, "state", id=state)
        if node.parents:
            SubElement(cpt, "parents").text = " ".join(words.names[p] for p in node.parents)
        SubElement(cpt, "probabilities").text = _numbers(node.rows.ravel(), " ")
    extensions = SubElement(root, "extensions")
    genie = SubElement(extensions, "genie", version="1.0", app="Conjoin", name="network")
    across = int(np.ceil(np.sqrt(len(words))))
    for place, (word, name) in enumerate(zip(words.names, model.domain.names, strict=True)):
        x, y = 40 + 160 * (place % across), 40 + 90 * (place // across)
        drawn = SubElement(genie, "node", id=word)
        SubElement(drawn, "name").text = name
        SubElement(drawn, "position").text = f"{x} {y} {x + 120} {y + 50}"
    indent(root)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', tostring(root, "unicode")]
    write_named(path, _text(lines), model.domain, words)


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
