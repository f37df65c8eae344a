"""Errors that say what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


MAX_MESSAGE = 1500
"""Characters of the longest message; a damaged file can have a name of any length."""


class ConjoinError(ValueError):
    """Base class of the errors that Conjoin raises on purpose.

    Examples
    --------
    >>> error = ConjoinError(f"{'very' * 1000!r} is not a variable")
    >>> len(str(error)), str(error)[-19:]
    (1500, "' is not a variable")
    """

    def __init__(self, message: str = "") -> None:
        if len(message) > MAX_MESSAGE:
            end = MAX_MESSAGE // 2
            message = f"{message[: MAX_MESSAGE - end - 5]} ... {message[-end:]}"
        super().__init__(message)


class DataError(ConjoinError):
    """A table, an instance or a label does not fit the domain."""


class UnknownColumnError(DataError):
    """There is no column, or variable, of this name."""

    def __init__(self, name: object, known: Iterable[object], noun: str = "variable") -> None:
        self.name = str(name)
        super().__init__(f"there is no {noun} {name!r}. {did_you_mean(name, known)}")


class ModelError(ConjoinError):
    """A model, or a query to a model, is invalid."""


class FormatError(ConjoinError):
    """A file cannot be read or written."""

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        self.path, self.line = path, line
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message)


class OutOfMemoryError(ConjoinError, MemoryError):
    """There is not enough memory for a table, a model or a question."""


def names_lack_of_memory(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say what it had not enough memory for, and what to do about it.

    Examples
    --------
    >>> @names_lack_of_memory
    ... def reserve(cells):
    ...     raise MemoryError
    >>> reserve(10**12)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    conjoin.errors.OutOfMemoryError: not enough memory for reserve; take fewer rows or ...
    """

    @wraps(function)
    def explained(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return function(*arguments, **options)
        except OutOfMemoryError:
            raise
        except MemoryError as error:
            detail = f" ({error})" if str(error) else ""
            raise OutOfMemoryError(
                f"not enough memory for {function.__qualname__}{detail}; take fewer rows or columns, or "
                "give this process more memory"
            ) from None

    return explained


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
