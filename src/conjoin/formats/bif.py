"""Reading the Bayesian Interchange Format (.bif); `bif_writing` writes it.

A file is a sequence of blocks: ``network``, ``variable`` and ``probability``. Each block is found with
one regular expression and divided at its semicolons. Positions in the text are kept, and turned into
line numbers only for an error message.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from conjoin.data.domain import Domain, Variable
from conjoin.errors import ConjoinError, FormatError
from conjoin.formats.names_files import named_domain, names_path
from conjoin.formats.storage import errors_naming, plain_float, read_text
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.cpd import MAX_AXES, SUM_LIMIT, SUM_TOLERANCE
from conjoin.models.table_cpd import TableCPD

COMMENT_OR_STRING = re.compile(r'"[^"\n]*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
BLOCK = re.compile(r"\s*(\w+)\b([^{}]*)\{((?:[^{}]++|\{[^{}]*+\})*+)\}")
HEAD = re.compile(r"\s*\(\s*([^\s{}()\[\];,|]+)\s*(?:[|,]([^()]*))?\)\s*")
TYPE = re.compile(r"\s*type\s+([^\s\[]+)\s*\[\s*([^\s\]]*)\s*\]\s*\{([^{}]*)\}\s*")
LABEL = re.compile(r'[^\s{}()\[\];,|"]+')
BLOCKS = ("network", "variable", "probability")
MAX_TOTAL = 1 << 26
"""Maximum number of entries of all tables of a file together."""


class _BifBlock(NamedTuple):
    """The parts of a block, and where they start in the text."""

    head: str
    body: str
    head_at: int
    body_at: int


class _Reader:
    """The text of a file, without comments, and the strings that were in it."""

    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self.strings: dict[str, str] = {}
        self.entries = 0  # of the tables so far
        self.inexact = False  # whether some row does not sum to 1 exactly
        if '"' in text or "/" in text:
            text = COMMENT_OR_STRING.sub(self._replaced, text)
        self.text = text

    def _replaced(self, match: re.Match[str]) -> str:
        """Replace a comment by its line breaks, and a string by a word without special characters."""
        piece = match[0]
        if piece[0] != '"':
            return " " + "\n" * piece.count("\n")
        label = piece[1:-1]
        if LABEL.fullmatch(label):
            return label
        word = f"\0{len(self.strings)}\0"
        self.strings[word] = label
        return word

    def fail(self, message: str, at: int) -> NoReturn:
        """Raise an error that names the line of a position."""
        line = self.text.count("\n", 0, at) + 1
        raise FormatError(message, str(self.path), line) from None

    def shown(self, word: str) -> str:
        return repr(self.strings.get(word, word)[:40])

    def label(self, word: str, wanted: str, at: int) -> str:
        """Return a name or a state."""
        word = word.strip()
        if not LABEL.fullmatch(word):
            self.fail(f"expected {wanted}, not {self.shown(word)}", at)
        return self.strings.get(word, word)

    def labels(self, words: str, wanted: str, at: int) -> list[str]:
        return [self.label(word, wanted, at) for word in words.split(",")]

    def blocks(self) -> tuple[list[Variable], list[_BifBlock]]:
        variables, probabilities = [], []
        text, at = self.text, 0
        end = len(text.rstrip())
        while at < end:
            match = BLOCK.match(text, at)
            if match is None or match[1] not in BLOCKS:
                self._fail_between_blocks(at)
            block = _BifBlock(match[2], match[3], match.start(2), match.start(3))
            at = match.end()
            if match[1] == "variable":
                variables.append(self.variable(block))
            elif match[1] == "probability":
                probabilities.append(block)
        return variables, probabilities

    def _fail_between_blocks(self, at: int) -> NoReturn:
        at += len(self.text[at:]) - len(self.text[at:].lstrip())
        word = (LABEL.match(self.text, at) or self.text[at])[0]
        if word not in BLOCKS:
            names = "'network', 'variable' or 'probability'"
            self.fail(f"expected {names}, not {self.shown(word)}", at)
        opening = re.compile(r"[{}]").search(self.text, at)
        if opening is None:
            self.fail("the file ends where '{' is expected", len(self.text.rstrip()))
        if opening[0] == "}":
            self.fail("expected '{', not '}'", opening.start())
        self.fail("the file ends where '}' is expected", len(self.text.rstrip()))

    def statements(self, body: str, at: int) -> Iterator[tuple[str, int]]:
        """Yield the statements of a block, which end with semicolons, and where they start."""
        *parts, rest = body.split(";")
        for part in parts:
            yield part, at + len(part) - len(part.lstrip())
            at += len(part) + 1
        if rest.strip():
            self.fail("expected ';' before '}'", at + len(rest))

    def variable(self, block: _BifBlock) -> Variable:
        head, body, head_at, body_at = block
        name = self.label(head, "a variable's name", head_at)
        states: list[str] | None = None
        for statement, at in self.statements(body, body_at):
            if not statement.lstrip().startswith("type"):
                continue  # a property
            match = TYPE.fullmatch(statement)
            if match is None:
                self.fail("expected 'type discrete [ number ] { states }'", at)
            if match[1] != "discrete":
                self.fail("only 'type discrete' is supported", at)
            states, states_at = self.labels(match[3], "a state", at), at
            if match[2] != str(len(states)):
                count = f"{match[2][:20]} states"
                self.fail(f"{name!r} declares {count} but lists {len(states)}", at)
        if states is None:
            self.fail(f"variable {name!r} has no type", body_at)
        try:
            return Variable(name, states)
        except ConjoinError as error:
            self.fail(str(error), states_at)

    def cpd(self, domain: Domain, block: _BifBlock) -> TableCPD:
        """Read a probability block."""
        head, body, head_at, body_at = block
        match = HEAD.fullmatch(head)
        if match is None:
            self.fail("expected '( variable )' or '( variable | parents )'", head_at)
        names = [self.label(match[1], "a variable", head_at)]
        if match[2] is not None:
            names += self.labels(match[2], "a parent", head_at)
        try:
            target, *parents = [domain[name] for name in names]
        except ConjoinError as error:
            self.fail(str(error), head_at)
        shape = [*map(len, parents), len(target)]
        self.entries += math.prod(shape)
        if len(parents) >= MAX_AXES or self.entries > MAX_TOTAL:
            self.fail(f"the table of {target.name!r} has too many parents or entries", body_at)
        rows = np.array(self._rows(target, parents, body, body_at))
        sums = np.add.reduceat(rows.ravel(), np.arange(0, rows.size, len(target)))
        off = np.abs(sums - 1)
        if off.max() > SUM_LIMIT:
            place = int(np.argmax(off > SUM_LIMIT))
            where = _where(parents, place)
            self.fail(
                f"the probabilities of {target.name!r}{' for ' if where else ''}{where} "
                f"sum to {sums[place]:.6g}, not to 1",
                body_at,
            )
        self.inexact |= bool(off.max() > SUM_TOLERANCE)
        with np.errstate(divide="ignore"):
            logs = np.log(rows / sums[:, None]).reshape(shape)
        place_of = [domain.index(variable.name) for variable in (*parents, target)]
        return TableCPD(domain.cards, place_of[-1], place_of[:-1], logs)

    def _rows(
        self, target: Variable, parents: list[Variable], body: str, body_at: int
    ) -> list[list[float]]:
        """Read the rows of a table, one distribution per joint state of the parents."""
        card, n_rows = len(target), math.prod(map(len, parents))
        codes = [{str(s): code for code, s in enumerate(parent.states)} for parent in parents]
        rows: list[list[float] | None] = [None] * n_rows
        default: list[float] | None = None
        for statement, at in self.statements(body, body_at):
            words = statement.lstrip()
            if words.startswith("("):
                states, _, numbers = words[1:].partition(")")
                place = self._place(parents, codes, states, at)
                if rows[place] is not None:
                    shown = ", ".join(s.strip() for s in states.split(","))
                    self.fail(f"the row ({shown}) of {target.name!r} is given twice", at)
                rows[place] = self._numbers(numbers, card, at)
            elif words.startswith("table"):
                values = self._numbers(words[5:], card * n_rows, at)
                # The target's states vary slowest in this form.
                rows = [values[r::n_rows] for r in range(n_rows)]
            elif words.startswith("default"):
                default = self._numbers(words[7:], card, at)
        filled = [row or default for row in rows]
        if None in filled:
            where = _where(parents, filled.index(None)) or "it"
            self.fail(f"the table of {target.name!r} has no row for {where}", body_at)
        return [row for row in filled if row is not None]

    def _place(
        self, parents: list[Variable], codes: list[dict[str, int]], states: str, at: int
    ) -> int:
        """Return the number of the row for some states of the parents."""
        words = states.split(",")
        if len(words) != len(parents):
            self.fail(f"expected {len(parents)} states, not {len(words)}", at)
        place = 0
        for parent, known, word in zip(parents, codes, words, strict=True):
            code = known.get(word.strip())
            if code is None:
                label = self.label(word, "a parent's state", at)
                try:
                    code = parent.index(label)
                except ConjoinError as error:
                    self.fail(str(error), at)
            place = place * len(parent) + code
        return place

    def _numbers(self, text: str, count: int, at: int) -> list[float]:
        values = []
        for word in text.replace(",", " ").split():
            try:
                value = plain_float(word)
            except ValueError:
                value = np.nan
            if not 0 <= value <= 1 + SUM_LIMIT:
                self.fail(f"expected a probability, not {self.shown(word)}", at)
            values.append(value)
        if len(values) != count:
            self.fail(f"expected {count} probabilities, not {len(values)}", at)
        return values


def _where(parents: list[Variable], place: int) -> str:
    """Describe the states of the parents in a row."""
    codes = np.unravel_index(place, [len(parent) for parent in parents]) if parents else ()
    pairs = zip(parents, codes, strict=True)
    return ", ".join(f"{parent.name}={parent.states[int(code)]}" for parent, code in pairs)


def read_bif(path: Path) -> BayesianNetwork:
    """Read a .bif file."""
    reader = _Reader(read_text(path), path)
    variables, probabilities = reader.blocks()
    with errors_naming(path):
        domain = Domain(variables)
        cpds: dict[int, TableCPD] = {}
        for block in probabilities:
            cpd = reader.cpd(domain, block)
            if cpd.target in cpds:
                name = domain.names[cpd.target]
                reader.fail(f"{name!r} already has a probability block", block.body_at)
            cpds[cpd.target] = cpd
        absent = [name for v, name in enumerate(domain.names) if v not in cpds]
        if absent:
            raise FormatError(f"there is no probability block for {absent[0]!r}", str(path))
        if reader.inexact:
            warnings.warn(
                f"{path}: some probabilities do not sum to 1 exactly; they are normalised",
                UserWarning,
                stacklevel=2,
            )
        if names_path(path).is_file():
            domain = named_domain(path, domain.cards)
        return BayesianNetwork(domain, cpds.values(), {"read_from": path.name})
