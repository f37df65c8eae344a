"""Conditions written as text: ``age > 40, city in {Austin, Boston}, income=high``.

=======================================  ===========================================
``rain=yes``                             a state
``rain != no``                           any other state
``city in {Austin, Boston}``             one of several; also ``not in``
``left is absent``, ``left is known``    that a column has no value, or some value
``age > 40``, ``20 <= age < 30``         a range of numbers, dates (``2024-01-31``) or ordered states
``ill likelihood {yes: 0.9, no: 0.2}``   virtual evidence: a likelihood per state
``ill marginal {yes: 0.7, no: 0.3}``     Jeffrey's evidence: a new distribution
=======================================  ===========================================

In the last two, a range can take the place of a state: ``age marginal {age < 40: 0.3, age >= 40: 0.7}``.

Commas, or the word "and", separate conditions. A name or a state that contains a comma or one of
``= < > ! { }`` stands in double quotes, with quotes inside doubled. Names and states that are not
ambiguous need none: the shortest known name that leaves a known state is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import ABSENT
from conjoin.data.number_scale import ISO, MIDNIGHT, NumberScale
from conjoin.errors import DataError, UnknownColumnError, did_you_mean
from conjoin.inference.condition_hints import hint
from conjoin.inference.conditions import (
    Condition,
    Likelihood,
    Marginal,
    Not,
    OneOf,
    Range,
    label_text,
    numbers_of_states,
)
from conjoin.inference.number_ranges import as_date, as_number, state_numbers

EXAMPLES = "NAME=STATE, NAME != STATE, NAME in {A, B}, NAME > 40 or 20 <= NAME < 30"

_OPERATORS = ("!=", "<=", ">=", "==", "=", "<", ">")
_ENDS = {"<": "below", "<=": "at_most", ">": "above", ">=": "at_least"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_QUOTED = re.compile(r'(?:^|(?<=[,={}<>:])|(?<=\band))(\s*)"((?:[^"]|"")*)"')
_UNCLOSED = re.compile(r'(?:^|(?<=[,={}<>:])|(?<=\band))\s*"')
_GROUP = re.compile(r"\b(not\s+in|in|likelihood|marginal)\s*\{([^}]*)\}")
_WITH_GROUP = re.compile(r"(.*?\S)\s+(not\s+in|in|likelihood|marginal)\s*\{(.*)\}", re.DOTALL)
_PRESENCE = re.compile(r"(.*?\S)\s+is\s+(absent|known)", re.DOTALL)
_OPEN_GROUP = re.compile(r"\b(in|likelihood|marginal)\s*\{")
_LENGTHS = range(2, 7)  # how many pieces between commas a name or a state may consist of


def parse_conditions(text: str, domain: Domain) -> list[tuple[str, Any]]:
    """Return (name, state or condition) pairs.

    Examples
    --------
    >>> domain = Domain({"rain": ["no", "yes"], "age": [20, 30, 40], "a, b": ["x=1", "x=2"]})
    >>> parse_conditions('rain=yes, age > 20, "a, b" != "x=1"', domain)
    [('rain', 'yes'), ('age', Range(above=20)), ('a, b', Not('x=1'))]
    """
    source = _Source(text, domain)
    pieces = source.pieces
    conditions: list[tuple[str, Any]] = []
    for k, piece in enumerate(pieces):
        if not piece.strip():
            continue
        try:
            conditions += source.conditions(piece)
        except DataError as error:
            raise source.explained(error, k) from None
    return conditions


class _Source:
    """A text in which quoted strings are single characters, so that it can be cut at commas."""

    def __init__(self, text: str, domain: Domain) -> None:
        self.domain, self.names = domain, domain.names
        self.observed = domain.observed.names
        self.kept: dict[str, tuple[str, bool]] = {}  # by character: the raw text, whether quoted
        self.free = (chr(c) for c in range(0xF0000, 0xFFFFD) if chr(c) not in text)
        hidden = _QUOTED.sub(lambda m: m[1] + self._keep(m[2].replace('""', '"'), True), text)
        if _UNCLOSED.search(hidden):
            raise DataError(f"a double quote is not closed in {text.strip()!r}")
        hidden = _GROUP.sub(lambda m: f"{m[1]} {{{self._keep(m[2], False)}}}", hidden)
        for opened in _OPEN_GROUP.finditer(hidden):
            if hidden[opened.end() : opened.end() + 1] not in self.kept:
                raise DataError(
                    f"the brace after '{opened[1]}' is not closed in {text.strip()!r}; quote a state "
                    "that contains a brace"
                )
        self.pieces = hidden.split(",")

    def _keep(self, raw: str, quoted: bool) -> str:
        character = next(self.free)
        self.kept[character] = (raw, quoted)
        return character

    def raw(self, piece: str) -> str:
        """Return a piece with its quoted strings, without the quotes."""
        return "".join(self.raw(self.kept[c][0]) if c in self.kept else c for c in piece)

    def label(self, piece: str) -> str:
        """Return a name or a state: what stands in quotes, or else the text without outer spaces."""
        inside = piece.strip()
        quoted = inside in self.kept and self.kept[inside][1]
        return self.raw(inside) if quoted else self.raw(inside).strip()

    def conditions(self, piece: str) -> list[tuple[str, Any]]:
        """Return the conditions of a piece: one, or several that "and" separates."""
        try:
            return [self._condition(piece)]
        except DataError:
            for word in re.finditer(r"\s+and\s+", piece):
                try:
                    first = self._condition(piece[: word.start()])
                except DataError:
                    continue
                return [first, *self.conditions(piece[word.end() :])]
            raise

    def _condition(self, piece: str) -> tuple[str, Any]:
        inside = piece.strip()
        if inside in self.kept and self.kept[inside][1]:  # a whole condition in quotes
            return self._comparison(self.raw(inside))
        presence = _PRESENCE.fullmatch(inside)
        if presence and self.label(presence[1]) in self.names:
            return self._presence(self.domain[self.label(presence[1])], presence[2])
        group = _WITH_GROUP.fullmatch(inside)
        if group and self.label(group[1]) in self.names:
            variable = self.domain[self.label(group[1])]
            content = self.kept[group[3]][0] if group[3] in self.kept else group[3]
            return variable.name, self._group(variable, " ".join(group[2].split()), content)
        return self._comparison(piece)

    def _presence(self, variable: Variable, word: str) -> tuple[str, Any]:
        if not variable.absent:
            raise DataError(
                f"{variable.name!r} always has a value in this model, known or not; write a condition on "
                "this value"
            )
        return variable.name, ABSENT if word == "absent" else Not(ABSENT)

    def _comparison(self, piece: str) -> tuple[str, Any]:
        """Try every operator in turn; the first that separates a known name from a value counts."""
        wrong: DataError | None = None
        first = ""
        for left, operator, right in _splits(piece):
            first = first or self.label(left)
            name = self.label(left)
            if name in self.names:
                try:
                    return name, self._value(self.domain[name], operator, right)
                except DataError as error:
                    wrong = wrong or error
            between = self._between(left, operator, right)
            if between is not None:
                return between
        if wrong is not None:
            raise wrong
        if not first:
            shown = self.raw(piece).strip()
            raise DataError(f"{shown!r} is not a condition; write {EXAMPLES}")
        raise UnknownColumnError(first, self.observed)

    def _value(self, variable: Variable, operator: str, right: str) -> Any:
        text = self.label(right)
        if operator in _ENDS:
            return Range(**{_ENDS[operator]: _end(variable, operator, text)})
        state = _state(variable, text)
        return Not(state) if operator == "!=" else state

    def _between(self, left: str, operator: str, right: str) -> tuple[str, Any] | None:
        """Return the condition of ``20 <= age < 30`` or ``20 <= age``, if this is one."""
        low = self.label(left)
        if operator not in _ENDS:
            return None
        near = _ENDS[_MIRRORED[operator]]
        if self._is_end(low, self.label(right)):
            variable = self.domain[self.label(right)]
            return variable.name, Range(**{near: _end(variable, operator, low)})
        for middle, second, high in _splits(right):
            same_way = second[0] == operator[0] and second in _ENDS
            if same_way and self._is_end(low, self.label(middle)):
                variable = self.domain[self.label(middle)]
                end = _end(variable, second, self.label(high))
                start = _end(variable, operator, low)
                return variable.name, Range(**{near: start, _ENDS[second]: end})
        return None

    def _is_end(self, text: str, name: str) -> bool:
        """Return whether a text can be the end of a range of a column: a number, a date or a state."""
        if name not in self.names:
            return False
        if as_number(text) is not None or as_date(text) is not None:
            return True
        column = self.domain[name]
        return column.ordered and text in map(str, column.states)

    def _group(self, variable: Variable, word: str, content: str) -> Condition:
        items = [item for item in content.split(",") if item.strip()]
        if not items:
            raise DataError(f"the braces after {variable.name!r} are empty")
        if word in ("in", "not in"):
            states = [_state(variable, self.label(item)) for item in items]
            return OneOf(*states) if word == "in" else Not(*states)
        numbers = {}
        for item in items:
            key, colon, text = item.rpartition(":")
            number = as_number(self.label(text))
            if not colon or number is None:
                raise DataError(
                    f"{self.raw(item).strip()!r} is not STATE: NUMBER; write "
                    f"{label_text(variable.name)} {word} {{A: 0.7, B: 0.3}}"
                )
            numbers[self._key(variable, key)] = number
        return Likelihood(numbers) if word == "likelihood" else Marginal(numbers)

    def _key(self, variable: Variable, text: str) -> Any:
        """Return a state, or a range: ``age < 40``, ``20 <= age < 30`` or, for short, ``< 40``."""
        try:
            return _state(variable, self.label(text))
        except DataError as error:
            if not any(sign in text for sign in _ENDS):
                raise
            wrong = error
        inside = text.strip()
        for operator in sorted(_ENDS, key=len, reverse=True):
            if inside.startswith(operator):
                return self._value(variable, operator, inside[len(operator) :])
        name, value = self._comparison(text)
        if name != variable.name or not isinstance(value, Range):
            raise wrong
        return value

    def explained(self, error: DataError, wrong: int) -> DataError:
        """Return an error with the quoting that would work, if a comma is to blame."""
        known: str | None = None
        for length in _LENGTHS:
            for start in range(max(0, wrong - length + 1), wrong + 1):
                whole = ",".join(self.pieces[start : start + length])
                shown = self.raw(whole).strip()
                names = [n for n in self.names if "," in n and shown.startswith(n)]
                known = known or next(iter(names), None)
                if start + length > len(self.pieces):
                    continue
                try:
                    name, value = self._condition(whole)
                except DataError:
                    continue
                return DataError(
                    f"commas separate conditions, so {shown!r} needs double quotes; write "
                    f"{conditions_text({name: value})} (in a shell, put single quotes around all of it)"
                )
        if known is None:
            return self._with_hint(error, wrong)
        column = self.domain[known]
        example = "..." if column.numbers is not None else label_text(column.states[0])
        return DataError(
            f"commas separate conditions, so the name {known!r} needs double quotes; write, for example, "
            f"{label_text(known)}={example} (in a shell, put single quotes around all of it)"
        )

    def _with_hint(self, error: DataError, wrong: int) -> DataError:
        """Return an error with what to write instead, if that is clear."""
        pieces = [self.raw(piece) for piece in self.pieces]
        words = hint(pieces, wrong, self.names)
        clear = "; write" in str(error) and EXAMPLES not in str(error)
        if words is None or clear or _WITH_GROUP.fullmatch(pieces[wrong].strip()):
            return error
        if str(error).startswith("variable "):  # it names the states
            return DataError(f"{error} {words[0].upper()}{words[1:]}.")
        return DataError(f"{pieces[wrong].strip()!r} is not a condition; {words}")


def _splits(piece: str) -> Iterator[tuple[str, str, str]]:
    """Yield (left, operator, right) for each operator in a text, from left to right."""
    for at in range(len(piece)):
        for operator in _OPERATORS:
            if piece.startswith(operator, at):
                yield piece[:at], operator, piece[at + len(operator) :]


def _end(variable: Variable, operator: str, text: str) -> Any:
    """Return the end of a range: a number, a state, or a date as it was written."""
    if variable.numbers is not None:
        return _number(variable.numbers.scale, text)
    try:
        kind, _ = numbers_of_states(variable)
    except DataError as error:
        for state in (operator + text, f"{operator} {text}"):
            if any(str(s) == state for s in variable.states):
                raise DataError(
                    f"{state!r} is a state of {variable.name!r}; write "
                    f"{conditions_text({variable.name: state})}"
                ) from None
        raise error from None
    if kind == "state":
        return _state(variable, text)
    if kind == "date" and as_date(text) is not None:
        return text
    number = as_number(text)
    if kind == "date" or number is None:
        raise DataError(
            f"{text!r} is not a {kind}; the column {variable.name!r} has {kind}s, so a range of it "
            "needs one"
        )
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else number


def _number(scale: NumberScale, text: str) -> Any:
    """Return the number or date that a text stands for, as the column writes it."""
    number = scale.number(text)
    value = scale.value(number) if scale.form in (ISO, MIDNIGHT) else scale.own(number)
    return value if scale.kind != "number" or value == number else number


def _state(variable: Variable, text: str) -> Any:
    """Return the state that a text stands for: as printed, as a number, or as true or false."""
    if variable.numbers is not None and variable.number(text) is not None:
        return _number(variable.numbers.scale, text)
    printed = [state for state in variable.states if str(state) == text]
    if len(printed) > 1:
        raise DataError(
            f"two states of {variable.name!r} are written {text!r}; they cannot be told apart"
        )
    if printed:
        return printed[0]
    if variable.numbers is not None:
        return _number(variable.numbers.scale, text)
    number = as_number(text)
    code = None if number is None else variable.by_number(number)
    if code is not None:
        return variable.states[code]
    if text.lower() in ("true", "false"):
        alike = [state for state in variable.states if str(state).lower() == text.lower()]
        if len(alike) == 1:
            return alike[0]
    hint = ""
    if number is not None and state_numbers(variable) is not None:
        hint = f" A range is written {label_text(variable.name)} >= {text}."
    raise DataError(
        f"variable {variable.name!r} has no state {text!r}. "
        + did_you_mean(text, variable.states)
        + hint
    )


def conditions_text(given: Mapping[str, Any], limit: int | None = None) -> str:
    """Return evidence as text that `given` accepts; with a limit, of the first conditions only.

    Examples
    --------
    >>> conditions_text({"rain": "yes", "city, state": "Austin, TX", "age": Range(above=40)})
    'rain=yes, "city, state"="Austin, TX", age > 40'
    """
    items = list(given.items())
    shown = [
        value.text(name)
        if isinstance(value, Condition)
        else f"{label_text(name)} is absent"
        if isinstance(value, str) and value == ABSENT
        else f"{label_text(name)}={label_text(value)}"
        for name, value in items[:limit]
    ]
    return ", ".join([*shown, "..."] if limit is not None and len(items) > limit else shown)
