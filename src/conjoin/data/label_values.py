"""The values of labels: any Python values, told apart by type and value; numbers, and missing ones."""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable
from typing import Any

import numpy as np

EPOCH = datetime.date(1970, 1, 1).toordinal()
UTC = datetime.UTC

ABSENT = "(absent)"
"""The state of a cell that has no value because none applies: the date of a contract's end, say."""


def plain(label: Any) -> Any:
    """Return the Python value of a NumPy scalar, and anything else as it is."""
    return label.item() if isinstance(label, np.generic) else label


def typed_key(label: Any) -> Hashable:
    """Return a dictionary key under which 1, 1.0, True and "1" are four different labels."""
    label = plain(label)
    if isinstance(label, tuple):
        return (tuple, tuple(typed_key(part) for part in label))
    return (type(label), label)


def is_missing(label: Any) -> bool:
    """Return whether a label means a missing value: None, NaN, or a library's own marker."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas.NA cannot be a bool
        return type(label).__name__ in ("NAType", "NaTType")


def is_number(label: Any) -> bool:
    """Return whether a label is a number; booleans are not."""
    return isinstance(label, int | float) and not isinstance(label, bool)


def as_float(number: float) -> float:
    """Return a number as a float; integers beyond the range of floats become infinite."""
    try:
        return float(number) + 0.0  # -0.0 becomes 0.0
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def date_number(value: datetime.date, kind: str) -> float:
    """Return the days or seconds since the first day of 1970."""
    days = float(value.toordinal() - EPOCH)
    if not isinstance(value, datetime.datetime):
        return days * (86400.0 if kind == "datetime" else 1.0)
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
        days = float(value.toordinal() - EPOCH)
    seconds = value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return days * 86400 + seconds if kind == "datetime" else days + seconds / 86400
