"""Limits on what is read, so that a small or damaged file cannot take all memory or time.

Each can be raised by an environment variable, such as CONJOIN_MAX_STATES=10000000.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from conjoin.errors import ModelError

PREFIX = "CONJOIN_"


class Limit(NamedTuple):
    """A limit on reading files.

    Attributes
    ----------
    name : str
        Its environment variable, without the prefix.
    default : int
        Its usual value.
    what : str
        What is limited, in words.
    """

    name: str
    default: int
    what: str

    @property
    def value(self) -> int:
        """The limit: the environment variable, or else the default."""
        given = os.environ.get(PREFIX + self.name)
        if given is None:
            return self.default
        if not (given.isascii() and given.isdigit()):
            raise ModelError(f"{PREFIX}{self.name} must be a whole number, not {given!r}")
        return int(given)

    def exceeded(self) -> str:
        """Return the end of an error message: the limit, and how to raise it."""
        return f"the limit is {self.value:,} {self.what}; raise it with {PREFIX}{self.name}"


MAX_BYTES = Limit("MAX_BYTES", 1 << 32, "bytes in a file, after decompression")
MAX_NUMBERED_STATES = Limit(
    "MAX_STATES", 1 << 20, "states in all different variables of a file without names"
)
MAX_ENTRIES = Limit("MAX_ENTRIES", 1 << 26, "tests in all features of a file")
MAX_KEY_PARTS = Limit("MAX_KEY_PARTS", 64, "parts in a dotted key")
LIMITS = (MAX_BYTES, MAX_NUMBERED_STATES, MAX_ENTRIES, MAX_KEY_PARTS)
