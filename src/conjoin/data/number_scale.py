"""`NumberScale`: what the numbers of a column are, how they are read and how they are written."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.label_values import EPOCH, UTC, date_number, is_missing, is_number, plain
from conjoin.errors import DataError

KINDS = ("number", "date", "datetime")
MAX_DECIMALS = 9
"""Numbers with more decimals than this are not rounded to a grid."""
LARGEST_INTEGER = 2**53
"""Integers up to this size are exact as floats."""

SMALLEST_STEP = 1e-7
"""The resolution of a column without a grid, relative to its extent."""

ROOM = 1e-3
"""Numbers that are beyond the last half step, on the other side of 0, by this share of a step are 0."""

LARGEST_STORED = 2**62
"""Larger numbers are not integers: those of 64 bits could not hold them."""

SHORT_DIGITS, MOST_DIGITS = 4, 16
"""Minimum number of significant digits of numbers in tables and sentences, and the maximum number."""

FAR = 0.5
"""A number is far outside a column beyond this share of the column's extent, from its nearest end."""

DATE_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%b-%Y", "%d %b %Y")
TIME_FORMATS = tuple(f"%Y-%m-%d{sep}%H:%M{s}" for sep in "T " for s in (":%S", ""))
UNPADDED = "-"
"""The mark in front of a format of dates whose days and months are written without leading zeros."""

ISO = "iso"
MIDNIGHT = "midnight"
_ISO_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?$")
SECONDS = (86400.0, 3600.0, 60.0, 1.0)


@dataclass(frozen=True)
class NumberScale:
    """The scale of a column of numbers: their kind, resolution and extremes.

    Dates are days, and dates with a time of day are seconds, since 1 January 1970. Make a scale with
    `NumberScale.of`.
    """

    name: str  # the column
    kind: str  # what the numbers mean
    integer: bool  # whether all recorded numbers are whole, and not too large to be integers
    # The grid of the recorded numbers: all are multiples of it (1, 0.01, 100; 1 for days). None if
    # there is no grid
    step: float | None
    # low, high: the extremes among the recorded numbers
    low: float
    high: float
    # How the column writes its dates: "iso", or a format of `strptime` (see `date_format`), if text;
    # "midnight" if they are dates with a time of day that is always midnight; None if they are
    # dates
    form: str | None = None
    # Whether dates with a time of day know their time zone; they are then returned in UTC
    utc: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"column {self.name!r}: there is no kind of number {self.kind!r}")
        numbers = [self.low, self.high, *([] if self.step is None else [self.step])]
        if not all(map(math.isfinite, numbers)) or self.low > self.high:
            raise DataError(f"column {self.name!r}: the scale has the numbers {numbers}")
        if self.step is not None and self.step <= 0:
            raise DataError(f"column {self.name!r}: the step must be more than 0, not {self.step}")
        form = (self.form or ISO).removeprefix(UNPADDED)
        if form not in (ISO, MIDNIGHT, *DATE_FORMATS, *TIME_FORMATS):
            raise DataError(f"column {self.name!r}: there is no format of dates {self.form!r}")

    @classmethod
    def of(cls, name: str, values: Iterable[Any]) -> NumberScale:
        """Return the scale of values: numbers, dates, or text that is one of both."""
        given = [plain(value) for value in values if not is_missing(value)]
        if not given:
            raise DataError(f"column {name!r} has no values: all are missing; leave it out")
        kind, form, utc = _kind(name, given)
        draft = cls(name, kind, False, None, 0.0, 0.0, form, utc)
        found = draft.numbers(given)
        if not np.isfinite(found).all():
            raise DataError(f"column {name!r} has an infinite value; mark such values as missing")
        return draft.covering(found)

    def covering(self, numbers: FloatArray) -> NumberScale:
        """Return the scale of the same column with other recorded numbers; NaN is missing."""
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return self
        step = _step(known)
        if self.kind == "datetime":
            step = next((s for s in SECONDS if not np.fmod(known, s).any()), None)
        integer = bool((known == np.rint(known)).all() and np.abs(known).max() <= LARGEST_STORED)
        ends = float(known.min()) + 0.0, float(known.max()) + 0.0
        return NumberScale(self.name, self.kind, integer, step, *ends, self.form, self.utc)

    def is_far(self, numbers: npt.ArrayLike) -> BoolArray:
        """Return which numbers are beyond the recorded ones by more than half their extent."""
        margin, x = FAR * (self.high - self.low), np.asarray(numbers, np.float64)
        return np.asarray((x > self.high + margin) | (x < self.low - margin))

    def far_words(self, evidence: str) -> str:
        """Return what is said of evidence that is far outside the recorded numbers."""
        return (
            f"{evidence} is far outside the values that the model has seen ({self.short(self.low)} to "
            f"{self.short(self.high)}): only that it is at that end counts"
        )

    def is_between(self, x: float) -> bool:
        """Return whether a number is between the recorded ones, which are all on a grid."""
        if self.step is None or not math.isfinite(x):
            return False
        return abs(x - float(self.rounded(x))) > 1e-6 * self.step

    def between_words(self, evidence: str) -> str:
        """Return what is said of evidence that is not on the grid of the column."""
        return (
            f"{evidence} is between the values that the model has seen ({self._grid}): answers are "
            "interpolated"
        )

    @property
    def _grid(self) -> str:
        """The grid in words."""
        assert self.step is not None
        if self.kind == "number":
            return "whole numbers" if self.step == 1 else f"multiples of {self.step:.15g}"
        unit = 1.0 if self.kind == "date" else self.step
        noun = {86400.0: "days", 3600.0: "hours", 60.0: "minutes"}.get(unit, "seconds")
        noun = "days" if self.kind == "date" else noun
        return f"whole {noun}" if self.step == unit else f"every {self.step:g} {noun}"

    def number(self, value: Any) -> float:
        """Return the number that a value stands for, or text of it; NaN if it is missing."""
        value = plain(value)
        if is_missing(value):
            return math.nan
        try:
            if isinstance(value, bool):
                raise ValueError
            if self.kind == "number" or is_number(value):
                found = float(value)
            else:
                found = date_number(self._date(value), self.kind)
        except (TypeError, ValueError, OverflowError):
            raise DataError(
                f"column {self.name!r}: {value!r} is not a {self._noun}"
                + ("" if self.kind == "number" else "; write it as 2024-12-31")
            ) from None
        if math.isnan(found) and not isinstance(value, float):
            raise DataError(f"column {self.name!r}: {value!r} is not a {self._noun}")
        return found + 0.0

    @property
    def _noun(self) -> str:
        return {"number": "number", "date": "date", "datetime": "date and time"}[self.kind]

    def _date(self, value: Any) -> datetime.date:
        if isinstance(value, str):
            if self.form not in (None, ISO, MIDNIGHT):
                form = self.form.removeprefix(UNPADDED)
                with suppress(ValueError):
                    time = datetime.datetime.strptime(value.strip(), form)
                    return time.date() if self.kind == "date" else time
            return datetime.datetime.fromisoformat(value.strip())
        if isinstance(value, datetime.date):
            return value
        raise TypeError

    def numbers(self, values: Sequence[Any]) -> FloatArray:
        """Return the number of each value, NaN where it is missing."""
        if self.kind == "number":
            kinds = set(map(type, values))
            if kinds <= {int, float}:
                return np.array(values, np.float64) + 0.0
        return np.array([self.number(value) for value in values], np.float64)

    def value(self, x: float) -> Any:
        """Return a number rounded to the resolution, in the type of the column; None for NaN."""
        if math.isnan(x):
            return None
        rounded = self.rounded(x)
        if self.kind == "number":
            return int(rounded) if self.integer else float(rounded)
        return self._calendar(rounded)

    def _calendar(self, x: float) -> Any:
        if self.kind == "date":
            last = datetime.date.max.toordinal()
            return datetime.date.fromordinal(min(max(round(x) + EPOCH, 1), last))
        start = datetime.datetime(1970, 1, 1, tzinfo=UTC if self.utc else None)
        try:
            return start + datetime.timedelta(seconds=round(x, 6))
        except OverflowError:
            end = datetime.datetime.max if x > 0 else datetime.datetime.min
            return end.replace(tzinfo=UTC if self.utc else None)

    def rounded(self, x: Any) -> Any:
        """Return numbers rounded to the grid of the column.

        If all recorded numbers are on one side of 0, numbers next to it on the other side are 0.
        """
        if self.low >= 0 or self.high <= 0:
            unit = self.step or SMALLEST_STEP * (self.high - self.low)
            sign = 1.0 if self.low >= 0 else -1.0
            beyond = sign * np.asarray(x, np.float64)
            x = np.where((beyond < 0) & (beyond >= -(0.5 + ROOM) * unit), 0.0, x)
        if self.step is None:
            return x
        decimals = next((d for d in range(16) if round(self.step, d) == self.step), None)
        near = np.rint(np.asarray(x, np.float64) / self.step) * self.step
        return (near if decimals is None else np.round(near, decimals)) + 0.0

    def own(self, x: float) -> Any:
        """Return a number as the column itself holds it: as `value`, but dates as text if they were."""
        value = self.value(x)
        if self.form is None or value is None:
            return value
        if self.form == MIDNIGHT:
            return datetime.datetime.combine(value, datetime.time())
        return self._written(value)

    def text(self, x: float, digits: int | None = None) -> str:
        """Return a number as text, as the column would write it; computed ones need few digits."""
        value = self.value(x)
        if value is None:
            return ""
        if self.kind == "number":
            return f"{value:.{digits}g}" if digits and type(value) is float else str(value)
        return self._written(value)

    def _written(self, value: Any) -> str:
        if self.form not in (None, ISO, MIDNIGHT):
            text = str(value.strftime(self.form.removeprefix(UNPADDED)))
            return re.sub(r"\b0(?=\d)", "", text) if self.form.startswith(UNPADDED) else text
        return str(value.isoformat(" ") if self.kind == "datetime" else value.isoformat())

    def short(self, x: float, spread: float | None = None) -> str:
        """Return a number in a few digits that show a hundredth of the spread (by default the extent)."""
        if math.isnan(x):
            return "?"
        if self.kind != "number":
            text = self._written(self._calendar(self.rounded(x)))
            return text[: 10 if self.step == SECONDS[0] else None]
        extent = (self.high - self.low) or self.step or 0.0
        return number_text(x, (spread or extent) / 100, SHORT_DIGITS)

    def mean_text(self, x: float) -> str:
        """Return a mean as text for a file: numbers finer than the grid, dates as `text`."""
        if self.kind != "number":
            return self.text(x)
        extent = (self.high - self.low) or self.step or 0.0
        return "" if math.isnan(x) else number_text(x, (self.step or extent / 1e3) / 100, 6)


def number_text(x: float, resolution: float, digits: int) -> str:
    """Write a number in a few digits, so that numbers that differ by a resolution look different."""
    if x == 0 or not math.isfinite(x):
        return f"{x + 0.0:g}"
    first = math.floor(math.log10(abs(x)))
    last = first - digits + 1  # the powers of ten of the first and the last digit
    if 0 < resolution < math.inf:
        last = min(last, math.floor(math.log10(resolution)))
    last = max(last, first - MOST_DIGITS + 1)
    if not -4 <= first < 15:
        return f"{x:.{first - last + 1}g}"
    text = f"{x:.{max(0, -last)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _kind(name: str, values: list[Any]) -> tuple[str, str | None, bool]:
    """Return the kind of values that are not missing, the format of text dates, and whether in UTC."""
    if all(map(is_number, values)):
        return "number", None, False
    if all(isinstance(v, datetime.date) for v in values):
        times = [v for v in values if isinstance(v, datetime.datetime)]
        if not times:
            return "date", None, False
        aware = {v.tzinfo is not None for v in times}
        if len(times) < len(values) or len(aware) > 1:
            raise DataError(f"column {name!r} mixes dates with and without a time or time zone")
        if aware == {False} and all(v.time() == datetime.time() for v in times):
            return "date", MIDNIGHT, False
        return "datetime", None, aware == {True}
    if all(isinstance(v, str) for v in values):
        form = date_format(values)
        if form is not None:
            if form != ISO or not any(_ISO_DATETIME.match(v.strip()) for v in values):
                return "date", form, False
            for form in TIME_FORMATS:
                if all(_fits(v, form) and len(v.strip()) == len(values[0]) for v in values):
                    return "datetime", form, False
            zones = {datetime.datetime.fromisoformat(v.strip()).tzinfo is not None for v in values}
            return "datetime", ISO, zones == {True}
        try:
            [float(v) for v in values]
            return "number", None, False
        except ValueError:
            pass
    odd = next(v for v in values if not is_number(v))
    raise DataError(f"column {name!r}: {odd!r} is not a number or a date")


def date_format(texts: Sequence[str]) -> str | None:
    """Return the one format in which all texts are dates: "iso", or one of `strptime`; else None.

    A minus sign in front of it means that days and months have no leading zeros. A column that could be
    read with the day or with the month first is not a column of dates.
    """
    if not texts or not texts[0][:1].isdigit() or len(texts[0]) < 8:
        return None
    if all(_is_iso(text.strip()) for text in texts):
        return ISO
    fitting = [form for form in DATE_FORMATS[1:] if all(_fits(text, form) for text in texts)]
    if len(fitting) != 1:
        return None
    digits = [part for text in texts for part in re.findall(r"\d+", text)]
    padded = any(part.startswith("0") for part in digits) or all(len(p) > 1 for p in digits)
    return fitting[0] if padded else UNPADDED + fitting[0]


def _is_iso(text: str) -> bool:
    if len(text) == 10 or _ISO_DATETIME.match(text):
        try:
            datetime.datetime.fromisoformat(text)
        except ValueError:
            return False
        return text[4] == "-" == text[7]
    return False


def _fits(text: str, form: str) -> bool:
    try:
        datetime.datetime.strptime(text.strip(), form)
    except ValueError:
        return False
    return True


def _step(values: FloatArray) -> float | None:
    """Return the largest number that all values are multiples of, with few decimals; None if none."""
    distinct = np.unique(values)
    for decimals in range(MAX_DECIMALS + 1):
        scaled = np.rint(distinct * 10.0**decimals)
        if np.abs(scaled).max() > LARGEST_INTEGER:
            return None
        if np.array_equal(scaled / 10.0**decimals, distinct):
            step = int(np.gcd.reduce(scaled.astype(np.int64)))
            return (step or 1) / 10.0**decimals
    return None
