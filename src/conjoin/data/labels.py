"""Names and states as text that is safe to show on a terminal, and ranges of intervals in words."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conjoin.data.domain import Variable

ESCAPED = ("Cc", "Cf", "Zl", "Zp", "Cs")
"""Unicode categories that a terminal may act on: controls, writing direction, line ends."""

_START = re.compile(r"-?[\d.]+(?:e[+-]?\d+)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def shown(label: Any) -> str:
    r"""Return a name or a state as text, with invisible characters escaped."""
    text = str(label)
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ESCAPED else char
        for char in text
    )


def statement(variable: Variable, first: int, last: int | None = None) -> str:
    """Return in words that a variable has a state, or one of a range of intervals."""
    name, states = shown(variable.name), variable.states
    last = first if last is None else last
    text = str(states[first])
    single = first == last and (_START.fullmatch(text) or _DAY.fullmatch(text))
    if variable.numbers is None or single:
        return f"{name}={shown(states[first])}"
    begin = _start(states[first])
    end = _start(states[last + 1]) if last + 1 < len(states) else None
    if first == 0 and end is not None:
        return f"{name} below {end}"
    if last + 1 == len(states) and begin is not None and first:
        return f"{name} {begin} or more"
    if first < last and begin is not None and end is not None:
        return f"{name} {begin} to below {end}"
    return f"{name} {shown(states[first])}" + (f" to {shown(states[last])}" if last > first else "")


def _start(label: Any) -> str | None:
    """Return the number or day with which the label of an interval starts."""
    text = str(label).partition(" to ")[0]
    return text if _DAY.match(text) or _START.fullmatch(text) else None
