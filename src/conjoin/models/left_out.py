"""Columns of a training table that a model does not have, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from conjoin.data.column_kinds import EXCLUDED, NO_VALUES
from conjoin.errors import DataError, UnknownColumnError

P = ParamSpec("P")
R = TypeVar("R")


def left_out_of(model: Any) -> dict[str, str]:
    """Return the columns that were left out of a model, with the reason of each, "" if it is unknown."""
    provenance = getattr(getattr(model, "model_", model), "provenance", {})
    recorded = provenance.get("left_out", {})
    names = dict.fromkeys(getattr(model, "left_out_", ()), "")
    return {**names, **recorded} if isinstance(recorded, dict) else names


@contextmanager
def naming_left_out(model: Any) -> Iterator[None]:
    """Say of a column that was left out of a model so, instead of that there is no such column."""
    try:
        yield
    except UnknownColumnError as error:
        name, reasons = error.name, left_out_of(model)
        if name not in reasons:
            raise
        why = f" ({reasons[name]})" if reasons[name] else ""
        keep = f"; learn with include=[{name!r}], or --include on the command line, to keep it"
        if reasons[name] in (NO_VALUES, EXCLUDED):
            keep = ""
        raise DataError(f"column {name!r} was left out of the model{why}{keep}") from None


def names_left_out(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function whose first argument is a model say which columns were left out of it."""

    @wraps(function)
    def explained(*arguments: P.args, **options: P.kwargs) -> R:
        model = arguments[0] if arguments else options.get("model")
        with naming_left_out(model):
            return function(*arguments, **options)

    return explained
