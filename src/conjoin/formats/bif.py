"""Reading the Bayesian Interchange Format (.bif)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.domain import Domain, Variable
from conjoin.errors import ConjoinError, FormatError
from conjoin.formats.storage import errors_naming, line_of_token, read_text
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.cpd import MAX_AXES
from conjoin.models.table_cpd import TableCPD

COMMENT = re.compile(r'"[^"\n]*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
"""Comments, and strings, which may contain the marks of comments."""
TOKEN = r'"[^"\n]*"|[{}()\[\];,|]|[^\s{}()\[\];,|"]+'
SUM_TOLERANCE = 1e-2
MAX_TOTAL = 1 << 26
"""Maximum number of entries of all tables of a file together."""


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        # Comments become spaces, so that lines keep their numbers.
        self.text = COMMENT.sub(
            lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text
        )
        self.path, self.at, self.entries = path, 0, 0
        self.words: list[str] = re.findall(TOKEN, self.text)

    def error(self, message: str) -> FormatError:
        line = line_of_token(self.text, max(0, self.at - 1), TOKEN)
        return FormatError(message, self.path, line)

    def peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self, wanted: str | None = None) -> str:
        if self.at >= len(self.words):
            raise self.error(f"the file ends where {wanted or 'more'} is expected")
        self.at += 1
        word = self.words[self.at - 1]
        if wanted is not None and len(wanted) == 1 and word != wanted:
            raise self.error(f"expected {wanted!r}, not {word[:40]!r}")
        return word

    def label(self, wanted: str) -> str:
        word = self.take(wanted)
        if word[0] == '"':
            return word[1:-1]
        if word in "{}()[];,|":
            raise self.error(f"expected {wanted}, not {word!r}")
        return word

    def listed(self, close: str, wanted: str) -> list[str]:
        items = [self.label(wanted)]
        while self.peek() == ",":
            self.take(",")
            items.append(self.label(wanted))
        self.take(close)
        return items

    def number(self) -> float:
        word = self.label("a probability")
        try:
            value = float(word)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1 + SUM_TOLERANCE:
            raise self.error(f"expected a probability, not {word[:40]!r}")
        return value

    def numbers(self) -> list[float]:
        values = [self.number()]
        while self.peek() != ";":
            if self.peek() == ",":
                self.take(",")
            values.append(self.number())
        self.take(";")
        return values

    def skip_to_semicolon(self) -> None:
        while (word := self.take()) != ";":
            if word in "{}":
                raise self.error(f"expected ';' before {word!r}")


def read_bif(path: Path) -> BayesianNetwork:
    """Read a .bif file."""
    parser = _Parser(read_text(path), str(path))
    variables: list[Variable] = []
    tables: list[tuple[int, str, list[str]]] = []
    while parser.peek():
        word = parser.take()
        if word == "network":
            while parser.peek() not in ("{", ""):
                parser.take()
            parser.take("{")
            while parser.peek() != "}":
                parser.skip_to_semicolon()
            parser.take("}")
        elif word == "variable":
            variables.append(_variable(parser))
        elif word == "probability":
            parser.take("(")
            name = parser.label("a variable")
            parents: list[str] = []
            if parser.peek() in ("|", ","):
                parser.take()
                parents = parser.listed(")", "a parent")
            else:
                parser.take(")")
            parser.take("{")
            tables.append((parser.at, name, parents))
            while parser.peek() != "}":
                parser.skip_to_semicolon()
            parser.take("}")
        else:
            raise parser.error(
                f"expected 'network', 'variable' or 'probability', not {word[:40]!r}"
            )
    with errors_naming(path):
        domain = Domain(variables)
    cpds: dict[str, TableCPD] = {}
    for start, name, parents in tables:
        parser.at = start
        try:
            if name in cpds:
                raise parser.error(f"{name!r} already has a probability block")
            cpds[name] = _table(parser, domain, name, parents)
        except FormatError:
            raise
        except ConjoinError as error:
            raise parser.error(str(error)) from None
    absent = [v.name for v in domain if v.name not in cpds]
    if absent:
        raise FormatError(f"there is no probability block for {absent[0]!r}", str(path))
    with errors_naming(path):
        return BayesianNetwork(domain, cpds.values(), {"read_from": path.name})


def _variable(parser: _Parser) -> Variable:
    name = parser.label("a variable's name")
    parser.take("{")
    states: list[str] | None = None
    while parser.peek() != "}":
        if parser.peek() != "type":
            parser.skip_to_semicolon()  # a property
            continue
        parser.take()
        if parser.take() != "discrete":
            raise parser.error("only 'type discrete' is supported")
        parser.take("[")
        count = parser.label("a number of states")
        parser.take("]")
        parser.take("{")
        states = parser.listed("}", "a state")
        parser.take(";")
        if count != str(len(states)):
            raise parser.error(f"{name!r} declares {count[:20]} states but lists {len(states)}")
    parser.take("}")
    if states is None:
        raise parser.error(f"variable {name!r} has no type")
    try:
        return Variable(name, states)
    except ConjoinError as error:
        raise parser.error(str(error)) from None


def _table(parser: _Parser, domain: Domain, name: str, parents: list[str]) -> TableCPD:
    target = domain[name]
    owners = [domain[p] for p in parents]
    shape = [len(p) for p in owners] + [len(target)]
    parser.entries += min(MAX_TOTAL + 1, int(np.prod(shape, dtype=object)))
    if len(shape) > MAX_AXES or parser.entries > MAX_TOTAL:
        raise parser.error(f"the table of {name!r} has too many parents or entries")
    table = np.full(shape, np.nan)
    default: Any = None
    while parser.peek() != "}":
        word = parser.take()
        if word == "table":
            values = parser.numbers()
            if len(values) != table.size:
                raise parser.error(f"expected {table.size} probabilities, not {len(values)}")
            # The format runs over the target first, then over the parents' states.
            table = np.moveaxis(np.array(values).reshape([shape[-1], *shape[:-1]]), 0, -1)
        elif word == "default":
            default = _row(parser, len(target))
        elif word == "(":
            states = parser.listed(")", "a parent's state")
            if len(states) != len(owners):
                raise parser.error(f"expected {len(owners)} states, not {len(states)}")
            index = tuple(p.index(s) for p, s in zip(owners, states, strict=True))
            if not np.isnan(table[index]).any():
                raise parser.error(f"the row ({', '.join(states)}) of {name!r} is given twice")
            table[index] = _row(parser, len(target))
        else:
            parser.at -= 1
            parser.skip_to_semicolon()  # a property
    if default is not None:
        table[np.isnan(table).all(axis=-1)] = default
    for index in map(tuple, np.argwhere(~(np.abs(table.sum(axis=-1) - 1) <= SUM_TOLERANCE))):
        row = table[index]
        where = ", ".join(f"{p.name}={p.states[s]}" for p, s in zip(owners, index, strict=True))
        if np.isnan(row).any():
            raise parser.error(f"the table of {name!r} has no row for {where or 'it'}")
        raise parser.error(
            f"the probabilities of {name!r}{' for ' if where else ''}{where} sum to "
            f"{row.sum():.6g}, not to 1"
        )
    with np.errstate(divide="ignore"):
        logs = np.log(table / table.sum(axis=-1, keepdims=True))
    return TableCPD(domain.cards, domain.index(name), [domain.index(p) for p in parents], logs)


def _row(parser: _Parser, length: int) -> list[float]:
    values = parser.numbers()
    if len(values) != length:
        raise parser.error(f"expected {length} probabilities, not {len(values)}")
    return values
