"""Reading the Bayesian Interchange Format (.bif); `bayesian_writing` writes it.

A file is a sequence of blocks: ``network``, ``variable`` and ``probability``. Each block is found with
one regular expression and divided at its semicolons; variables in their usual form take a shortcut. The
numbers of all tables are then normalized together. Positions in the text are kept, and turned into line
numbers only for an error message. A property `conjoin_labels` of a variable holds the name and the states
that its words stand for.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import unquote

import numpy as np

from conjoin.data.domain import Domain, Variable
from conjoin.errors import ConjoinError, FormatError
from conjoin.formats.json_labels import variable_from_json
from conjoin.formats.names_files import named_domain, names_path
from conjoin.formats.storage import errors_naming, plain_float, read_text
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.cpd import MAX_AXES, SUM_LIMIT, SUM_TOLERANCE
from conjoin.models.table_cpd import TableCPD

COMMENT_OR_STRING = re.compile(r'"[^"\n]*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
BLOCK = re.compile(r"\s*(\w+)\b([^{}]*)\{((?:[^{}]++|\{[^{}]*+\})*+)\}")
USUAL_VARIABLE = re.compile(
    r"\s*variable\s+([^\s{}()\[\];,|]+)\s*\{\s*type\s+discrete\s*\[\s*(\d+)\s*\]\s*"
    r"\{([^{}]*)\}\s*;\s*\}"
)
HEAD = re.compile(r"\s*\(\s*([^\s{}()\[\];,|]+)\s*(?:[|,]([^()]*))?\)\s*")
TYPE = re.compile(r"\s*type\s+([^\s\[]+)\s*\[\s*([^\s\]]*)\s*\]\s*\{([^{}]*)\}\s*")
LIST = re.compile(r"\s*[^\s{}()\[\];,|]+\s*(?:,\s*[^\s{}()\[\];,|]+\s*)*+")
LABEL = re.compile(r'[^\s{}()\[\];,|"]+')
LABELS = re.compile(r"\s*property\s+conjoin_labels\s*=\s*(\S+)\s*")
BLOCKS = ("network", "variable", "probability")
MAX_TOTAL = 1 << 26
"""Maximum number of entries of all tables of a file together."""


class _Block(NamedTuple):
    """The parts of a block, and where they start in the text."""

    keyword: str
    head: str
    body: str
    head_at: int
    body_at: int


class _Table(NamedTuple):
    """A probability block: its place in the text, its variables, and the joint states of the parents."""

    at: int
    body: str
    target: Variable
    parents: list[Variable]
    n_rows: int


class _Reader:
    """The text of a file, without comments, and the strings that were in it."""

    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self.strings: dict[str, str] = {}
        self.originals: dict[str, Variable] = {}  # by the names that stand for them
        if '"' in text or "/" in text:
            text = COMMENT_OR_STRING.sub(self._replaced, text)
        self.text = text

    def _replaced(self, match: re.Match[str]) -> str:
        """Replace a comment by its line breaks, and a string by a word without special characters."""
        found = match[0]
        if found[0] != '"':
            return " " + "\n" * found.count("\n")
        label = found[1:-1]
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
        """Return a piece of the file for a message."""
        return repr(self.strings.get(word, word)[:40])

    def label(self, word: str, wanted: str, at: int) -> str:
        """Return a name or a state."""
        word = word.strip()
        if not LABEL.fullmatch(word):
            self.fail(f"expected {wanted}, not {self.shown(word)}", at)
        return self.strings.get(word, word)

    def labels(self, words: str, wanted: str, at: int) -> list[str]:
        """Return names or states that are separated by commas."""
        if self.strings or not LIST.fullmatch(words):
            return [self.label(word, wanted, at) for word in words.split(",")]
        return [word.strip() for word in words.split(",")]

    def blocks(self) -> tuple[list[Variable], list[_Block]]:
        """Return the variables of the file, and its probability blocks."""
        variables, probabilities = [], []
        text, at = self.text, 0
        end = len(text.rstrip())
        usual = not self.strings
        while at < end:
            match = USUAL_VARIABLE.match(text, at) if usual else None
            if match is not None:
                variables.append(self._usual_variable(match))
                at = match.end()
                continue
            match = BLOCK.match(text, at)
            if match is None or match[1] not in BLOCKS:
                self._fail_between_blocks(at)
            block = _Block(match[1], match[2], match[3], match.start(2), match.start(3))
            at = match.end()
            if match[1] == "variable":
                variables.append(self.variable(block))
            elif match[1] == "probability":
                usual = False  # variables come first
                probabilities.append(block)
        return variables, probabilities

    def _usual_variable(self, match: re.Match[str]) -> Variable:
        """Read a variable without properties."""
        name, count, words = match.groups()
        at = match.start(3)
        if '"' in name:
            self.label(name, "a variable's name", match.start(1))
        return self._variable(name, self.labels(words, "a state", at), count, at)

    def _variable(self, name: str, states: list[str], count: str, at: int) -> Variable:
        if count != str(len(states)):
            self.fail(f"{name!r} declares {count[:20]} states but lists {len(states)}", at)
        try:
            return Variable(name, states)
        except ConjoinError as error:
            self.fail(str(error), at)

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

    def variable(self, block: _Block) -> Variable:
        """Read a variable block."""
        _, head, body, head_at, body_at = block
        name = self.label(head, "a variable's name", head_at)
        found: tuple[list[str], str, int] | None = None
        labels: re.Match[str] | None = None
        for statement, at in self.statements(body, body_at):
            if not statement.lstrip().startswith("type"):
                labels = LABELS.fullmatch(statement) or labels  # others are not used
                continue
            match = TYPE.fullmatch(statement)
            if match is None:
                self.fail("expected 'type discrete [ number ] { states }'", at)
            if match[1] != "discrete":
                self.fail("only 'type discrete' is supported", at)
            found = self.labels(match[3], "a state", at), match[2], at
        if found is None:
            self.fail(f"variable {name!r} has no type", body_at)
        variable = self._variable(name, *found)
        if labels is not None:
            self.originals[name] = self._original(labels[1], variable, body_at)
        return variable

    def _original(self, word: str, variable: Variable, at: int) -> Variable:
        """Return the variable whose name and states were replaced by words."""
        try:
            original = variable_from_json(json.loads(unquote(self.strings.get(word, word))))
        except (KeyError, TypeError, ValueError, RecursionError):
            self.fail(f"the property 'conjoin_labels' of {variable.name!r} is damaged", at)
        if len(original) != len(variable):
            self.fail(
                f"{variable.name!r} has {len(variable)} states but labels of {len(original)}", at
            )
        return original

    def table(self, domain: Domain, block: _Block) -> _Table:
        """Read the head of a probability block."""
        _, head, body, head_at, body_at = block
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
        n_rows = 1
        for parent in parents:
            n_rows *= len(parent)
        return _Table(body_at, body, target, parents, n_rows)

    def numbers(self, table: _Table) -> list[float]:
        """Read the numbers of a table, row by row."""
        found = self._usual_numbers(table)
        return found if found is not None else [*chain.from_iterable(self._rows(table))]

    def _usual_numbers(self, table: _Table) -> list[float] | None:
        """Read a table in its usual form, one plain row for each joint state of the parents.

        Returns None for any other form, right or wrong, which `_rows` reads more slowly.
        """
        statements = table.body.split(";")
        if len(statements) != table.n_rows + 1 or statements.pop().strip():
            return None
        if not table.parents:
            keyword, _, numbers = statements[0].lstrip().partition(" ")
            if keyword != "table" or numbers.count(",") != len(table.target) - 1:
                return None
            return _floats(numbers)
        joint_states = product(*[parent.states for parent in table.parents])
        place = {"(" + ", ".join(states): row for row, states in enumerate(joint_states)}
        rows = [""] * table.n_rows
        for statement in statements:
            states, _, numbers = statement.partition(")")
            row = place.pop(states.strip(), None)
            if row is None:
                return None
            rows[row] = numbers
        commas = len(table.target) - 1
        if any(row.count(",") != commas for row in rows):
            return None
        return _floats(",".join(rows))

    def _rows(self, table: _Table) -> list[list[float]]:
        """Read the rows of a table, one distribution per joint state of the parents."""
        card, n_rows = len(table.target), table.n_rows
        rows: list[list[float] | None] = [None] * n_rows
        default: list[float] | None = None
        for statement, at in self.statements(table.body, table.at):
            words = statement.lstrip()
            if words.startswith("("):
                states, _, numbers = words[1:].partition(")")
                place = self._place(table, states, at)
                if rows[place] is not None:
                    shown = ", ".join(s.strip() for s in states.split(","))
                    self.fail(f"the row ({shown}) of {table.target.name!r} is given twice", at)
                rows[place] = self._numbers(numbers, card, at)
            elif words.startswith("table"):
                values = self._numbers(words[5:], card * n_rows, at)
                # The target's states vary slowest in this form.
                rows = [values[r::n_rows] for r in range(n_rows)]
            elif words.startswith("default"):
                default = self._numbers(words[7:], card, at)
        filled: list[list[float]] = []
        for place, row in enumerate(rows):
            row = row or default
            if row is None:
                where = self._where(table, place) or "it"
                self.fail(f"the table of {table.target.name!r} has no row for {where}", table.at)
            filled.append(row)
        return filled

    def _place(self, table: _Table, states: str, at: int) -> int:
        """Return the number of the row for some states of the parents."""
        words = states.split(",")
        if len(words) != len(table.parents):
            self.fail(f"expected {len(table.parents)} states, not {len(words)}", at)
        place = 0
        for parent, word in zip(table.parents, words, strict=True):
            try:
                code = parent.index(self.label(word, "a parent's state", at))
            except FormatError:
                raise
            except ConjoinError as error:
                self.fail(str(error), at)
            place = place * len(parent) + code
        return place

    def _numbers(self, text: str, count: int, at: int) -> list[float]:
        """Read probabilities, separated by commas or blanks."""
        try:
            values = [plain_float(word) for word in text.split(",")]
        except ValueError:
            values = []
            for word in text.replace(",", " ").split() or [""]:
                try:
                    values.append(plain_float(word))
                except ValueError:
                    self.fail(f"expected a probability, not {self.shown(word)}", at)
        if len(values) != count:
            self.fail(f"expected {count} probabilities, not {len(values)}", at)
        if not (min(values) >= 0 and max(values) <= 1 + SUM_LIMIT):
            wrong = next(v for v in values if not 0 <= v <= 1 + SUM_LIMIT)
            self.fail(f"expected a probability, not '{wrong:g}'", at)
        return values

    def _where(self, table: _Table, place: int) -> str:
        """Describe the states of the parents in a row."""
        words = []
        for parent in reversed(table.parents):
            place, code = divmod(place, len(parent))
            words.append(f"{parent.name}={parent.states[code]}")
        return ", ".join(reversed(words))

    def logarithms(self, tables: list[_Table]) -> list[np.ndarray]:
        """Read the numbers of all tables; return the logarithms of their normalized rows."""
        values: list[float] = []
        shapes = [(t.n_rows, len(t.target)) for t in tables]
        for table, (n_rows, card) in zip(tables, shapes, strict=True):
            if len(table.parents) >= MAX_AXES or len(values) + n_rows * card > MAX_TOTAL:
                name = table.target.name
                self.fail(f"the table of {name!r} has too many parents or entries", table.at)
            values += self.numbers(table)
        flat = np.array(values)
        lengths = np.repeat([card for _, card in shapes], [n_rows for n_rows, _ in shapes])
        starts = np.cumsum(lengths) - lengths
        sums = np.add.reduceat(flat, starts)
        if not (flat.min() >= 0 and np.abs(sums - 1).max() <= SUM_TOLERANCE):
            self._report_numbers(tables)
        with np.errstate(divide="ignore"):
            logs = np.log(flat / np.repeat(sums, lengths))
        parts, start = [], 0
        for table, (n_rows, card) in zip(tables, shapes, strict=True):
            part = logs[start : start + n_rows * card]
            parts.append(part.reshape([*map(len, table.parents), card]))
            start += n_rows * card
        return parts

    def _report_numbers(self, tables: list[_Table]) -> None:
        """Raise an error for the first row that is not a distribution; warn if all are nearly so."""
        for table in tables:
            for place, row in enumerate(self._rows(table)):
                if not abs(sum(row) - 1) <= SUM_LIMIT:
                    where = self._where(table, place)
                    self.fail(
                        f"the probabilities of {table.target.name!r}{' for ' if where else ''}{where} "
                        f"sum to {sum(row):.6g}, not to 1",
                        table.at,
                    )
        warnings.warn(
            f"{self.path}: some probabilities do not sum to 1 exactly; they are normalised",
            UserWarning,
            stacklevel=2,
        )


def _floats(words: str) -> list[float] | None:
    """Read numbers that are separated by commas; return None if one of them is not a number."""
    if "_" in words or not words.isascii():  # Python reads these as numbers
        return None
    try:
        return [*map(float, words.split(","))]
    except ValueError:
        return None


def read_bif(path: Path) -> BayesianNetwork:
    """Read a .bif file."""
    reader = _Reader(read_text(path), path)
    variables, probabilities = reader.blocks()
    with errors_naming(path):
        domain = Domain(variables)
        tables: dict[str, _Table] = {}
        for block in probabilities:
            table = reader.table(domain, block)
            if table.target.name in tables:
                reader.fail(f"{table.target.name!r} already has a probability block", table.at)
            tables[table.target.name] = table
        absent = [v.name for v in domain if v.name not in tables]
        if absent:
            raise FormatError(f"there is no probability block for {absent[0]!r}", str(path))
        cpds: list[TableCPD] = []
        if not tables:
            return BayesianNetwork(domain, cpds, {"read_from": path.name})
        for table, logs in zip(tables.values(), reader.logarithms([*tables.values()]), strict=True):
            parents = [domain.index(p.name) for p in table.parents]
            cpds.append(TableCPD(domain.cards, domain.index(table.target.name), parents, logs))
        domain = Domain(reader.originals.get(v.name, v) for v in domain)
        if names_path(path).is_file():
            domain = named_domain(path, domain.cards)
        return BayesianNetwork(domain, cpds, {"read_from": path.name})
