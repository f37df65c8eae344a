"""Conditions on the command line: NAME=STATE, separated by commas."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from conjoin.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from conjoin.data.domain import Domain, Variable


def parse_given(texts: str | Sequence[str], domain: Domain) -> dict[str, Any]:
    """Return {name: state} for one list of conditions, or for several.

    Both names and states may contain equals signs: the shortest known name that leaves a known state
    is taken. A state is written as it prints; a number selects the state or bin that it belongs to.

    Examples
    --------
    >>> from conjoin.data.domain import Domain
    >>> parse_given('rain=yes,"a,b=c=1"', Domain({"rain": ["no", "yes"], "a,b=c": [0, 1]}))
    {'rain': 'yes', 'a,b=c': 1}
    """
    result: dict[str, Any] = {}
    lines = [texts] if isinstance(texts, str) else texts
    for condition in chain.from_iterable(_conditions(line) for line in lines if line.strip()):
        name, state = _parse(condition, domain)
        if name in result:
            raise DataError(f"{name!r} is given twice")
        result[name] = state
    return result


def _conditions(line: str) -> list[str]:
    """Split a line at its commas; a quoted condition may contain commas and line breaks."""
    if line.count('"') % 2:
        raise DataError(f"a double quote is not closed in {line.strip()!r}")
    rows = csv.reader(io.StringIO(line, newline=""), skipinitialspace=True)
    return list(chain.from_iterable(rows))


def _parse(condition: str, domain: Domain) -> tuple[str, Any]:
    """Return the name and the state of one condition."""
    pieces = condition.split("=")
    if len(pieces) < 2:
        raise DataError(f"{condition.strip()!r} is not a condition; write NAME=STATE")
    splits = [("=".join(pieces[:k]), "=".join(pieces[k:])) for k in range(1, len(pieces))]
    splits = [(name.strip(), text.strip()) for name, text in splits]
    known = [(name, text) for name, text in splits if name in domain.names]
    if not known:
        wrong = splits[0][0]
        raise DataError(f"there is no variable {wrong!r}. " + did_you_mean(wrong, domain.names))
    for name, text in known:
        states = _matching_states(domain[name], text)
        if len(states) > 1:
            raise DataError(
                f"two states of {name!r} are written {text!r}; they cannot be told apart"
            )
        if states:
            return name, states[0]
    name, text = known[0]
    raise DataError(
        f"variable {name!r} has no state {text!r}. " + did_you_mean(text, domain[name].states)
    )


def _matching_states(variable: Variable, text: str) -> list[Any]:
    """Return the states that a text stands for: as printed, as a number, or as true or false."""
    printed = [state for state in variable.states if str(state) == text]
    if printed:
        return printed
    try:
        number = variable.by_number(float(text))
    except ValueError:
        number = None
    if number is not None:
        return [variable.states[number]]
    if text.lower() not in ("true", "false"):
        return []
    return [state for state in variable.states if str(state).lower() == text.lower()]
