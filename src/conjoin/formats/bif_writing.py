"""Writing the Bayesian Interchange Format (.bif).

It restricts names to letters, digits and underscores. Other names and states are replaced by similar
words; the file beside (FILE.names.json) keeps the originals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from graphlib import TopologicalSorter
from itertools import product
from pathlib import Path
from typing import Any

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
    "network", "variable", "probability", "property", "type", "discrete", "table", "default",
))  # fmt: skip
"""Words that the format uses itself."""


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


def _numbers(values: FloatArray) -> str:
    return ", ".join(map(repr, values.tolist()))


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
    graph = {cpd.target: cpd.blanket for cpd in model.cpds}
    for v in TopologicalSorter(graph).static_order():  # parents before children
        variable, given = words.variables[v], [words.variables[p] for p in graph[v]]
        rows = np.exp(_table(model, (*graph[v], v), path)).reshape(-1, len(variable))
        head = f"{variable.name} | {', '.join(p.name for p in given)}" if given else variable.name
        lines.append(f"probability ( {head} ) {{")
        if given:
            chosen = product(*(p.states for p in given))
            for known, row in zip(chosen, rows, strict=True):
                lines.append(f"  ({', '.join(known)}) {_numbers(row)};")
        else:
            lines.append(f"  table {_numbers(rows[0])};")
        lines.append("}")
    write_named(path, ("\n".join(lines) + "\n").encode(), model.domain, words)
