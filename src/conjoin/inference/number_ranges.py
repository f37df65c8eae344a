"""Ranges of numbers and dates: what labels stand for, and which states lie in a range."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Variable
from conjoin.data.label_values import is_missing, is_number, plain

DAY = 86_400
"""The seconds of a day."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_INTEGER_BINS = re.compile(r"\d+(-\d+)?|below \d+|\d+ or more")


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

    def whole_numbers(self) -> int:
        """Return how many whole numbers lie inside; both ends must be finite."""
        first, last = math.ceil(self.low), math.floor(self.high)
        first += first == self.low and not self.closed_low
        last -= last == self.high and not self.closed_high
        return max(0, last - first + 1)

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


def bin_kind(variable: Variable) -> str:
    """Return what the bins of a variable consist of: "number" or "date"."""
    return "date" if _DAY.match(str(variable.states[0])) else "number"


def date_number(variable: Variable, value: Any) -> float | None:
    """Return a date in the units of a variable; None if it is none.

    These are seconds since 1970, and days for bins of days.
    """
    seconds = as_date(value)
    if seconds is None or variable.cuts is None:
        return seconds
    first = as_date(str(variable.states[0]).partition(" to ")[0]) or 0.0
    days = abs(first - variable.cuts[0] * DAY) <= DAY
    return seconds / DAY if days else seconds


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


def has_whole_numbers(variable: Variable) -> bool:
    """Return whether the bins of a variable hold whole numbers."""
    return all(_INTEGER_BINS.fullmatch(str(label)) for label in variable.values)


def bin_shares(variable: Variable, inside: Interval) -> FloatArray:
    """Return the share of each bin of a variable that lies in a range; numbers are spread evenly."""
    assert variable.cuts is not None
    shares = np.zeros(len(variable))
    whole = has_whole_numbers(variable)
    for k in range(len(variable.values)):
        last = k == len(variable.values) - 1
        low, high = variable.cuts[k], variable.cuts[k + 1]
        shares[k] = _even_share(inside, low, high, last, whole)
    return shares


def _even_share(inside: Interval, low: float, high: float, last: bool, whole: bool) -> float:
    """Return the share of a bin, from low up to high, whose numbers are evenly spread."""
    if whole:
        bin_of = Interval(low, high, closed_high=last)
        return inside.both(bin_of).whole_numbers() / max(1, bin_of.whole_numbers())
    if high == low:
        return float(inside.contains(np.array([low]))[0])
    covered = min(inside.high, high) - max(inside.low, low)
    return min(max(covered / (high - low), 0.0), 1.0)
