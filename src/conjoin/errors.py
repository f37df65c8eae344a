"""Errors that say what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConjoinError(ValueError):
    """Base class of the errors that Conjoin raises on purpose."""


class DataError(ConjoinError):
    """A table, an instance or a label does not fit the domain."""


class ModelError(ConjoinError):
    """A model, or a query to a model, is invalid."""


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


class DataWarning(UserWarning):
    """Part of a table is left out, or is read in a way that may not be what was meant."""


class ConvergenceWarning(UserWarning):
    """A sampled or iterative result may not have converged."""


def did_you_mean(wrong: object, known: Iterable[object]) -> str:
    """Return the end of an error message: a suggestion, and the allowed values.

    Examples
    --------
    >>> did_you_mean("rian", ["rain", "wind"])
    "Did you mean 'rain'? Known: 'rain', 'wind'."
    """
    options = list(known)
    shown = ", ".join(repr(o) for o in options[:12]) + (
        f" and {len(options) - 12:,} more" if len(options) > 12 else ""
    )
    by_text = {str(o): o for o in reversed(options)}
    close = difflib.get_close_matches(str(wrong), list(by_text), n=1)
    hint = f"Did you mean {by_text[close[0]]!r}? " if close else ""
    return f"{hint}Known: {shown or 'none'}."
