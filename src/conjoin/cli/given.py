"""Conditions on a command line: NAME=STATE, separated by commas."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from conjoin.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from conjoin.data.domain import Domain, Variable

QUOTING = (
    'NAME=STATE, separated by commas. A condition with a comma in it stands in double quotes ("A, '
    'B=yes"), a quote within it is doubled; the name ends at the first = that leaves a known name.'
)


def parse_given(texts: str | Sequence[str], domain: Domain) -> dict[str, Any]:
    """Return {name: state} of one list of conditions, or of several.

    A name may hold equals signs: the shortest known name before one is taken. States are compared
    with how they print.

    Examples
    --------
    >>> from conjoin.data.domain import Domain
    >>> parse_given('rain=yes,"a,b=c=1"', Domain({"rain": ["no", "yes"], "a,b=c": [0, 1]}))
    {'rain': 'yes', 'a,b=c': 1}
    """
    result: dict[str, Any] = {}
    lines = [texts] if isinstance(texts, str) else texts
    for part in chain.from_iterable(_parts(line) for line in lines if line.strip()):
        pieces = part.split("=")
        if len(pieces) < 2:
            raise DataError(f"{part.strip()!r} is not a condition; write NAME=STATE")
        splits = [("=".join(pieces[:k]), "=".join(pieces[k:])) for k in range(1, len(pieces))]
        splits = [(name.strip(), state.strip()) for name, state in splits]
        known = [split for split in splits if split[0] in domain.names]
        if not known:
            raise DataError(
                f"there is no variable {splits[0][0]!r}. "
                + did_you_mean(splits[0][0], domain.names)
            )
        for name, state in known:
            fitting = [s for s in domain[name].states if str(s) == state]
            fitting = fitting or _by_number(domain[name], state)
            fitting = fitting or [s for s in domain[name].states if _same_truth(s, state)]
            if fitting:
                break
        else:
            name, state = known[0]
            raise DataError(
                f"variable {name!r} has no state {state!r}. "
                + did_you_mean(state, domain[name].states)
            )
        if len(fitting) > 1:
            raise DataError(
                f"two states of {name!r} are written {state!r}; they cannot be told apart"
            )
        if name in result:
            raise DataError(f"{name!r} is given twice")
        result[name] = fitting[0]
    return result


def _parts(line: str) -> list[str]:
    """Cut a line at its commas; a condition in quotes may hold some, and line breaks."""
    if line.count('"') % 2:
        raise DataError(f"a double quote is not closed in {line.strip()!r}")
    rows = csv.reader(io.StringIO(line, newline=""), skipinitialspace=True)
    return list(chain.from_iterable(rows))


def _same_truth(state: Any, text: str) -> bool:
    """Tell whether both say true, or both false, in whatever case."""
    words = str(state).lower(), text.lower()
    return words[0] == words[1] and words[0] in ("true", "false")


def _by_number(variable: Variable, text: str) -> list[Any]:
    """Return the states that are a number, or the bin that it lies in."""
    try:
        found = variable.by_number(float(text))
    except ValueError:
        return []
    return [] if found is None else [variable.states[found]]
