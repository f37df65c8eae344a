"""Readable labels of bins, such as "30-39", and ranges of bins in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.labels import shown
from conjoin.errors import DataError

if TYPE_CHECKING:
    from conjoin.data.domain import Variable

DIGITS = 17
"""Number of significant digits that distinguish any two floats."""

_START = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?)(?:-\d.*)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SINGLE = re.compile(r"-?[\d.]+(e[+-]?\d+)?|\d{4}-\d\d-\d\d")


def statement(variable: Variable, first: int, last: int | None = None) -> str:
    """Return in words that a variable has a state, or one of a range of bins."""
    name, states = shown(variable.name), variable.states
    last = first if last is None else last
    single = first == last and _SINGLE.fullmatch(str(states[first]))
    if variable.cuts is None or single:
        return f"{name}={shown(states[first])}"
    begin = _start(states[first])
    end = _start(states[last + 1]) if last + 1 < len(states) else None
    if first == 0 and end is not None:
        return f"{name} below {end}"
    if last + 1 == len(states) and begin is not None and first:
        return f"{name} {begin} or more"
    if first < last and begin is not None and end is not None:
        return f"{name} {begin} to below {end}"
    return f"{name} {shown(states[first])}" + (f" to {shown(states[last])}" if last > first else "")


def _start(label: Any) -> str | None:
    """Return the number or day with which the label of a bin starts."""
    text = str(label).partition(" to ")[0]
    if _DAY.match(text):
        return text
    match = _START.fullmatch(text)
    return match[1] if match else None


def integer_labels(name: str, inner: Sequence[float], seen: FloatArray) -> list[str]:
    """Return labels such as "30-39", which include both ends."""
    low, high = int(seen[0]), int(seen[-1])
    starts = [math.ceil(cut) for cut in inner]
    for a, b, cut in zip(starts, starts[1:], inner[1:], strict=False):
        if a == b:
            raise DataError(
                f"the edges of column {name!r} leave no whole number just below {cut:g}; "
                "drop that edge"
            )
    dash = " to " if min([low, *starts]) < 0 else "-"
    lasts = [*(start - 1 for start in starts), high]
    return _labels([low, *starts], lasts, dash, inner, seen)


def float_labels(inner: Sequence[float], seen: FloatArray) -> list[str]:
    """Return labels such as "0.5 to 1.2", which include the lower end only."""
    low, high = float(seen[0]), float(seen[-1])
    texts = [_cut_text(inner, k, seen) for k in range(len(inner))]
    digits = _digits(low, high)
    firsts = [_outer_text(low, digits, ROUND_FLOOR), *texts]
    lasts = [*texts, _outer_text(high, digits, ROUND_CEILING)]
    return _labels(firsts, lasts, " to ", inner, seen)


def _labels(
    firsts: Sequence[object],
    lasts: Sequence[object],
    dash: str,
    inner: Sequence[float],
    seen: FloatArray,
) -> list[str]:
    """Return ranges; the outermost are open if they lie beyond all data, as fixed edges can cause."""
    pairs = zip(firsts, lasts, strict=True)
    labels = [f"{first}{dash}{last}" if first != last else str(first) for first, last in pairs]
    if inner and inner[0] <= seen[0]:
        labels[0] = f"below {firsts[1]}"
    if inner and inner[-1] > seen[-1]:
        labels[-1] = f"{firsts[-1]} or more"
    return labels


def _cut_text(inner: Sequence[float], k: int, seen: FloatArray) -> str:
    """Write a cut point with the fewest digits that keep the values and other cuts on the same side."""
    cut = inner[k]
    after = int(np.searchsorted(seen, cut))
    low = float(seen[after - 1]) if after else -math.inf
    high = float(seen[after]) if after < len(seen) else math.inf
    others = (*inner[max(k - 1, 0) : k], *inner[k + 1 : k + 2])
    tolerance = min((abs(cut - other) for other in others), default=math.inf) / 100
    for precision in range(6, DIGITS):
        text = _text(cut, precision)
        if low < float(text) <= high and abs(float(text) - cut) <= tolerance:
            return text
    return _text(cut, DIGITS)


def _digits(low: float, high: float) -> int:
    """Return how many digits show a hundredth of the distance of two extremes: 6 or more."""
    size, extent = max(abs(low), abs(high)), high - low
    return (
        min(DIGITS, max(6, math.ceil(math.log10(size / extent)) + 3))
        if 0 < extent < math.inf
        else 6
    )


def _outer_text(value: float, digits: int, rounding: str) -> str:
    """Write an extreme, rounded outwards."""
    text = _text(value, digits)
    inwards = float(text) > value if rounding == ROUND_FLOOR else float(text) < value
    if inwards:
        text = _text(float(Context(prec=digits, rounding=rounding).create_decimal(value)), digits)
    return text


def _text(value: float, digits: int) -> str:
    """Write a number with at most this many significant digits, large integers without an exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < 1e15 else text
