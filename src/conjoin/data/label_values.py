"""The values of labels: any Python values, told apart by type and value; numbers, and missing ones."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np


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
