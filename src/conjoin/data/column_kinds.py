"""Which column is what: a category, numbers, dates, or an identifier that says nothing about the rest."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.columns import Column
from conjoin.data.label_values import as_float, is_number
from conjoin.data.number_scale import LARGEST_INTEGER, date_format
from conjoin.errors import DataError, DataWarning, did_you_mean

KINDS = ("category", "number", "date", "identifier", "empty")
CHOICES = KINDS[:3]
"""The kinds that a user can ask for."""

MANY_NUMBERS, SEVERAL_NUMBERS = 20, 5
"""A column is continuous if it has more distinct numbers than the first, or more than the second if
some of them have a fraction."""

MANY_TEXTS = 20
"""A column of text is an identifier or free text if it has more different values than this, and more
than half as many as rows."""

FEW_COUNTS = 12
"""Whole numbers with more different values than this are numbers, not states, if some occur only once:
new rows will have others."""

KEY_ROWS, EXPECTED_REPEATS = 100, 10
"""Whole numbers in at least this many rows are an identifier if none is repeated although at least this
many repetitions were expected of numbers from the same range."""

NO_VALUES, EXCLUDED = "no values", "excluded"
"""Reasons why columns are left out; others are sentences."""

YEARS, ANNUAL_ROWS = (1500, 2200), 500
"""Whole numbers in this range that count up or down from row to row, in at most this many rows, are years
of a time series, not running numbers."""

_KEY_NAME = re.compile(r"(?i:(^|[\W_])(id|uuid|guid|index|key)$)|[a-z]I[Dd]$")


def column_kind(column: Column) -> str:
    """Return what a column is: one of `KINDS`.

    Columns of more than 20 different numbers are numbers, of more than 12 if some of them occur only
    once, or of more than 5 if some have a fraction; with fewer, every number is a state. Columns of more
    than 5 different dates are dates. Text that is different in more than half of the rows, and whole
    numbers that are different in all rows and look like a running number, are identifiers; the years of
    a time series are numbers.
    """
    labels = column.labels
    if column.variable is not None:
        return "category"
    if not labels:
        return "empty"
    if all(map(is_number, labels)):
        if not (continuous(labels) or _is_count(column)):
            return "category"
        return "identifier" if _is_key(column) else "number"
    if is_date(labels):
        return "date" if len(labels) > SEVERAL_NUMBERS else "category"
    if all(isinstance(label, bool) for label in labels):
        return "category"
    known = np.count_nonzero(column.codes >= 0)
    texts = len(labels) > MANY_TEXTS and len(labels) > known / 2 and not column.ordered
    return "identifier" if texts else "category"


def number_kind(column: Column) -> str:
    """Return "number" or "date" for a column that is one, or would be if it were no identifier."""
    kind = column_kind(column)
    if kind == "identifier" and all(map(is_number, column.labels)):
        return "number"
    return kind


def _is_count(column: Column) -> bool:
    """Return whether whole numbers are counts, whose range is open, rather than codes."""
    if len(column.labels) <= FEW_COUNTS:
        return False
    return int(np.bincount(column.codes[column.codes >= 0]).min()) == 1


def continuous(states: Sequence[Any]) -> bool:
    """Return whether states look like measurements: many numbers, or several with fractions."""
    if not all(map(is_number, states)) or len(states) <= SEVERAL_NUMBERS:
        return False
    return len(states) > MANY_NUMBERS or any(s != int(s) for s in states)


def is_date(labels: Sequence[Any]) -> bool:
    """Return whether all labels are dates, or text in one format of dates."""
    import datetime

    if all(isinstance(label, str) for label in labels):
        return date_format(labels) is not None
    return all(isinstance(label, datetime.date) for label in labels)


def _is_key(column: Column) -> bool:
    """Return whether numbers are a key: whole, all different, and suspiciously so."""
    rows = np.count_nonzero(column.codes >= 0)
    if rows < KEY_ROWS or len(column.labels) < rows:
        return False
    numbers = np.array([as_float(label) for label in column.labels])
    if not (np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all()):
        return False
    if _are_years(column.name, numbers[column.codes[column.codes >= 0]]):
        return False
    expected = rows * (rows - 1) / 2 / (float(numbers.max()) - float(numbers.min()) + 1)
    huge = np.abs(numbers).max() > LARGEST_INTEGER and all(
        isinstance(v, int) for v in column.labels
    )
    return bool(expected > EXPECTED_REPEATS or huge or _KEY_NAME.search(column.name))


def _are_years(name: str, numbers: FloatArray) -> bool:
    """Return whether different whole numbers, in the order of the rows, are years of a time series."""
    if numbers.min() < YEARS[0] or numbers.max() > YEARS[1]:
        return False
    steps = np.diff(numbers)
    counted = len(numbers) <= ANNUAL_ROWS and ((steps == 1).all() or (steps == -1).all())
    return bool(counted or "year" in name.lower())


def chosen_kinds(
    columns: Sequence[Column],
    *,
    include: Collection[str] | str = (),
    exclude: Collection[str] | str = (),
    kinds: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the kind of each column that is kept; warn (DataWarning) of those that are left out."""
    names = [column.name for column in columns]
    include, exclude = _names(include, names, "include"), _names(exclude, names, "exclude")
    wanted = {str(name): kind for name, kind in (kinds or {}).items()}
    _names(wanted, names, "kinds")
    for name, kind in wanted.items():
        if kind not in CHOICES:
            raise DataError(
                f"column {name!r}: there is no kind {kind!r}. " + did_you_mean(kind, CHOICES)
            )
    both = [name for name in exclude if name in include or name in wanted]
    if both:
        raise DataError(f"column {both[0]!r} is excluded, and asked for at the same time")
    kept: dict[str, str] = {}
    for column in columns:
        kind = column_kind(column)
        if column.name in exclude or kind == "empty":
            continue
        if kind == "identifier" and column.name in include:
            kind = "number" if all(map(is_number, column.labels)) else "category"
        kind = wanted.get(column.name, kind)
        if kind != "identifier":
            kept[column.name] = kind
    out = left_out([column for column in columns if column.name not in exclude], kept)
    if all(out.get(name) == NO_VALUES for name in names):
        raise DataError("the table has no values: all are missing")
    if out:
        _warn(out, bool(kept))
    if not kept:
        raise DataError("no column is left to learn from")
    return kept


def left_out(columns: Sequence[Column], kept: Collection[str]) -> dict[str, str]:
    """Return the columns that are not among some, with the reasons why `chosen_kinds` leaves them out."""
    reasons = {}
    for column in columns:
        if column.name not in kept:
            kind = column_kind(column)
            reasons[column.name] = NO_VALUES if kind == "empty" else EXCLUDED
            if kind == "identifier":
                reasons[column.name] = _reason(column)
    return reasons


def _names(given: Iterable[Any], known: Sequence[str], option: str) -> set[str]:
    wanted = {given} if isinstance(given, str) else {str(name) for name in given}
    for name in sorted(wanted):
        if name not in known:
            raise DataError(f"{option}: there is no column {name!r}. " + did_you_mean(name, known))
    return wanted


def _reason(column: Column) -> str:
    rows, labels = np.count_nonzero(column.codes >= 0), column.labels
    if all(map(is_number, labels)):
        return "an identifier: a different whole number in every row"
    reason = f"{len(labels):,} different values in {rows:,} rows"
    odd = [str(label) for label in labels if not _reads_as_number(label)]
    if 0 < len(odd) < len(labels) / 2:
        reason += f"; most are numbers, but not {odd[0]!r}"
    return reason


def _reads_as_number(label: Any) -> bool:
    try:
        float(label)
    except (TypeError, ValueError):
        return False
    return True


def _warn(reasons: Mapping[str, str], some_left: bool) -> None:
    listed = [f"{name!r} ({reason})" for name, reason in reasons.items()]
    more = f" and {len(listed) - 12} more" if len(listed) > 12 else ""
    kept = [name for name, reason in reasons.items() if reason != NO_VALUES]
    name = kept[0] if kept else ""
    advice = f"to keep {name!r}: include=[{name!r}], or --include on the command line"
    advice = advice if kept and some_left else ""
    warnings.warn(
        f"left out: {', '.join(listed[:12])}{more}" + (f"; {advice}" if advice else ""),
        DataWarning,
        stacklevel=2,
    )
