"""Names and states as text that is safe to show on a terminal."""

from __future__ import annotations

import unicodedata
from typing import Any

ESCAPED = ("Cc", "Cf", "Zl", "Zp", "Cs")
"""Unicode categories that a terminal may act on: controls, writing direction, line ends."""


def shown(label: Any) -> str:
    r"""Return a name or a state as text, with invisible characters escaped."""
    text = str(label)
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ESCAPED else char
        for char in text
    )
