"""Choosing the cut points of a numeric variable."""

from __future__ import annotations

import math

import numpy as np

from conjoin.data.arrays import FloatArray

DIGITS = 17
"""Number of significant digits that distinguish any two floats."""


def _between(low: float, high: float, integral: bool) -> float:
    """Return a short number near the middle of two numbers: above `low` and at most `high`."""
    return _short(low / 2 + high / 2, low, high, integral)


def _short(value: float, low: float, high: float, integral: bool, digits: int = 1) -> float:
    """Round a number to the fewest digits that keep it above `low` and at most `high`."""
    for precision in range(digits, DIGITS + 1):
        for number in (value, high):
            cut = float(f"{number:.{precision}g}") + 0.0
            if low < cut <= high and (not integral or cut.is_integer()):
                return cut
    return high


def quantile_cuts(
    values: FloatArray, weights: FloatArray, bins: int, integral: bool
) -> list[float]:
    """Cut between the values whose boundaries are nearest to the weighted quantiles."""
    if len(values) == 1:
        return []
    below = np.cumsum(weights)
    total = float(below[-1])
    below = below[:-1]
    chosen = set()
    for k in range(1, bins):
        wanted = total * k / bins
        after = min(int(np.searchsorted(below, wanted)), len(below) - 1)
        before = max(after - 1, 0)
        lower_is_nearer = wanted - below[before] <= abs(below[after] - wanted) + 1e-9 * total
        chosen.add(before if lower_is_nearer else after)
    return [_between(float(values[i]), float(values[i + 1]), integral) for i in sorted(chosen)]


def width_cuts(values: FloatArray, bins: int, integral: bool) -> list[float]:
    """Cut at equal distances, leaving out cuts that would make a bin empty."""
    low, high = float(values[0]), float(values[-1])
    width = high / bins - low / bins
    raw = [float(f"{low + k * width:.12g}") for k in range(1, bins)]
    if integral:
        raw = [float(math.ceil(cut)) for cut in raw]
    raw = sorted({cut for cut in raw if low < cut <= high})
    firsts = np.searchsorted(values, raw)  # the first value of each bin
    cuts = []
    for k, (cut, first) in enumerate(zip(raw, firsts, strict=True)):
        if k + 1 == len(raw) or first < firsts[k + 1]:
            before, after = float(values[first - 1]), float(values[first])
            cuts.append(cut if integral else _short(cut, before, after, False, digits=4))
    return cuts


def _entropy(counts: FloatArray) -> FloatArray:
    """Return the entropy of each row of counts, in bits."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    return -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=1)


def mdl_cuts(values: FloatArray, counts: FloatArray, integral: bool) -> list[float]:
    """Cut where it lowers the entropy of the target enough: the recursion of Fayyad and Irani."""
    cuts = []
    todo = [(0, len(values))]
    while todo:
        start, stop = todo.pop()
        split = _best_split(counts[start:stop])
        if split is not None:
            at = start + split
            cuts.append(_between(float(values[at - 1]), float(values[at]), integral))
            todo += [(start, at), (at, stop)]
    return sorted(cuts)


def _best_split(counts: FloatArray) -> int | None:
    """Return the row to cut before, or None if no cut is accepted."""
    if len(counts) < 2:
        return None
    left = np.cumsum(counts, axis=0)
    right = np.cumsum(counts[::-1], axis=0)[::-1][1:]
    whole, left = left[-1:], left[:-1]
    classes = int((whole > 0).sum())
    if classes < 2:
        return None
    total = float(whole.sum())
    entropies = _entropy(left), _entropy(right)
    after = (left.sum(axis=1) * entropies[0] + right.sum(axis=1) * entropies[1]) / total
    best = int(np.argmax(after <= after.min() + 1e-12))  # the first of several that are equal
    before = float(_entropy(whole)[0])
    gain = before - float(after[best])
    spent = classes * before
    for side, entropy in zip((left, right), entropies, strict=True):
        spent -= int((side[best] > 0).sum()) * float(entropy[best])
    delta = classes * math.log2(3) + math.log1p(-2 * 3.0**-classes) / math.log(2) - spent
    accepted = gain > (math.log2(max(total - 1, 1.0)) + delta) / total
    return best + 1 if accepted else None
