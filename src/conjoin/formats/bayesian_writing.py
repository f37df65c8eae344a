"""Writing Bayesian networks for other programs: BIF, XDSL (GeNIe) and NET (Hugin).

These formats restrict names to letters, digits and underscores. Other names and states are replaced by
similar words, and the file beside (FILE.names.json) keeps the originals; XDSL and NET also hold the names
as labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.errors import FormatError, ModelError
from conjoin.formats.names_files import write_named
from conjoin.models.bayes import BayesianNetwork, cpd_as_factor
from conjoin.models.markov import TableFactor

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = frozenset(
    [
        "network",
        "variable",
        "probability",
        "property",
        "type",
        "discrete",
        "table",
        "default",
        "node",
        "potential",
        "states",
        "data",
        "net",
        "label",
    ]
)
"""Words that the formats use themselves."""


class _Node(NamedTuple):
    """A variable as a file holds it: words, the positions of its parents, rows of probabilities."""

    position: int
    name: str
    states: list[str]
    parents: list[int]
    rows: FloatArray


def safe_words(labels: Iterable[Any]) -> list[str]:
    """Return different words for different labels: the labels themselves wherever that is possible.

    Examples
    --------
    >>> safe_words(["rain", "wet grass", "wet-grass", 3, "table"])
    ['rain', 'wet_grass', 'wet_grass_2', 's3', 'table_2']
    """
    texts = [str(label) for label in labels]
    taken = {text for text in texts if WORD.fullmatch(text) and text not in RESERVED}
    result = []
    for text in texts:
        if text in taken and text not in result:
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
    waiting = list(range(len(words)))
    done: set[int] = set()
    while waiting:
        ready = [v for v in waiting if done.issuperset(model.cpds[v].blanket)]
        for v in ready:
            try:
                factor = cpd_as_factor(model.cpds[v])
            except ModelError as error:
                raise FormatError(str(error), str(path)) from None
            if not isinstance(factor, TableFactor):
                factor = _tabulated(model, v, path)
            parents = [u for u in factor.variables if u != v]
            axes = [factor.variables.index(u) for u in (*parents, v)]
            rows = np.exp(factor.table.transpose(axes)).reshape(-1, int(words.cards[v]))
            yield _Node(v, words.names[v], list(words.variables[v].states), parents, rows)
        done.update(ready)
        waiting = [v for v in waiting if v not in done]


def _tabulated(model: BayesianNetwork, position: int, path: Path) -> TableFactor:
    """Return a CPD that is a tree, or whose table is large, as a table."""
    from conjoin.models.cpd import MAX_AXES, MAX_TABLE

    cpd = model.cpds[position]
    scope = (*cpd.blanket, position)
    size = np.prod(model.domain.cards[list(scope)], dtype=float)
    if size > MAX_TABLE or len(scope) > MAX_AXES:
        raise FormatError(
            f"{model.domain.names[position]!r} has {len(cpd.blanket)} parents, too many for a table; "
            "use .conjoin or .bn",
            str(path),
        )

    def chosen(codes: Any) -> FloatArray:
        return cpd.log_probabilities(codes)[np.arange(len(codes)), codes[:, position]]

    return TableFactor.tabulated(scope, cpd.cards, chosen)


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
    _write(lines, model, words, path)


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
    _write(lines, model, words, path)


def _nested(table: FloatArray) -> str:
    """Return a table as nested parentheses, one level per axis."""
    if table.ndim == 1:
        return f"( {_numbers(table, ' ')} )"
    return f"( {' '.join(_nested(part) for part in table)} )"


def write_xdsl(model: BayesianNetwork, path: Path) -> None:
    """Write a GeNIe .xdsl file."""
    words = safe_domain(model.domain)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<smile version="1.0" id="network">',
        "  <nodes>",
    ]
    for node in _nodes(model, words, path):
        lines.append(f"    <cpt id={quoteattr(node.name)}>")
        lines += [f"      <state id={quoteattr(state)} />" for state in node.states]
        if node.parents:
            lines.append(
                f"      <parents>{' '.join(words.names[p] for p in node.parents)}</parents>"
            )
        lines += [
            f"      <probabilities>{_numbers(node.rows.ravel(), ' ')}</probabilities>",
            "    </cpt>",
        ]
    lines += [
        "  </nodes>",
        "  <extensions>",
        '    <genie version="1.0" app="Conjoin" name="network">',
    ]
    across = int(np.ceil(np.sqrt(len(words))))
    for place, (word, name) in enumerate(zip(words.names, model.domain.names, strict=True)):
        x, y = 40 + 160 * (place % across), 40 + 90 * (place // across)
        lines += [
            f"      <node id={quoteattr(word)}>",
            f"        <name>{escape(name)}</name>",
            f"        <position>{x} {y} {x + 120} {y + 50}</position>",
            "      </node>",
        ]
    lines += ["    </genie>", "  </extensions>", "</smile>"]
    _write(lines, model, words, path)


def _write(lines: list[str], model: BayesianNetwork, words: Domain, path: Path) -> None:
    write_named(path, ("\n".join(lines) + "\n").encode(), model.domain, words)
