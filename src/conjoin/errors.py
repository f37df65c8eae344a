"""Errors that tell a person what was wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConjoinError(ValueError):
    """Base of every error that Conjoin raises on purpose."""


class DataError(ConjoinError):
    """A table, an instance or a label does not fit the domain."""


class ModelError(ConjoinError):
    """A model, or a request made of one, is not well formed."""


class FormatError(ConjoinError):
    """A file cannot be read or written.

    Parameters
    ----------
    message : str
        What is wrong and what to do.
    path : str, optional
        The file.
    line : int, optional
        The line, counted from 1.
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        self.path, self.line = path, line
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message)


class ConvergenceWarning(UserWarning):
    """A sampled or iterated result may be far from what more work would give."""


def did_you_mean(wrong: object, known: Iterable[object]) -> str:
    """Return a closing sentence that lists what was allowed, the likeliest first.

    Examples
    --------
    >>> did_you_mean("rian", ["rain", "wind"])
    "Did you mean 'rain'? Known: 'rain', 'wind'."
    """
    options = list(known)
    shown = ", ".join(repr(o) for o in options[:12]) + (", ..." if len(options) > 12 else "")
    by_text = {str(o): o for o in reversed(options)}
    close = difflib.get_close_matches(str(wrong), list(by_text), n=1)
    hint = f"Did you mean {by_text[close[0]]!r}? " if close else ""
    return f"{hint}Known: {shown or 'none'}."
