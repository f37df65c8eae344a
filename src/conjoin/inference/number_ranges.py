"""Ranges of numbers and dates: what labels stand for, and which states lie in a range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Variable
from conjoin.data.label_values import is_missing, is_number, plain


@dataclass(frozen=True)
class Interval:
    """A range in numbers: its ends, and whether they belong to it."""

    low: float
    high: float
    closed_low: bool = True
    closed_high: bool = True

    def both(self, other: Interval) -> Interval:
        """Return the part that two ranges have in common."""
        low, open_low = max((self.low, not self.closed_low), (other.low, not other.closed_low))
        high, closed_high = min((self.high, self.closed_high), (other.high, other.closed_high))
        return Interval(low, high, not open_low, closed_high)

    def contains(self, numbers: FloatArray) -> FloatArray:
        """Return 1.0 for the numbers inside, 0.0 for all others."""
        above = numbers >= self.low if self.closed_low else numbers > self.low
        below = numbers <= self.high if self.closed_high else numbers < self.high
        return (above & below).astype(np.float64)


def as_number(value: Any) -> float | None:
    """Return a number, or the number that a text stands for; None if there is none."""
    value = plain(value)
    if not (is_number(value) or isinstance(value, str)) or is_missing(value):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def as_date(value: Any) -> float | None:
    """Return the seconds since 1970 of a date or of a text in ISO format; None if it is none."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def state_numbers(variable: Variable) -> tuple[str, FloatArray] | None:
    """Return what ranges of a variable are made of, and the number of each state, if ranges make sense.

    The first is "number", "date", or "state" for other states that are in order. Absent is NaN, which is
    in no range.
    """
    readings = (("number", as_number), ("date", as_date))
    last = [math.nan] if variable.absent else []
    for kind, read in readings:
        numbers = [read(state) for state in variable.values]
        if all(x is not None for x in numbers):
            return kind, np.array([*numbers, *last], np.float64)
    places = np.array([*range(len(variable.values)), *last], np.float64)
    return ("state", places) if variable.ordered else None
