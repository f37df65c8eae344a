"""What evidence says of a number: disjoint intervals, each with a likelihood.

Intervals end at the edges between recorded values, half a step from each, so that "above 40" and "at
least 41" are the same for whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.number_scale import NumberScale
from conjoin.errors import DataError
from conjoin.inference.conditions import (
    Condition,
    Likelihood,
    Marginal,
    Not,
    OneOf,
    Range,
)
from conjoin.inference.number_distribution import NumberDistributions
from conjoin.inference.number_ranges import Interval
from conjoin.models.number_map import NumberMap


def range_words(scale: NumberScale, part: Range) -> str:
    """Return a range in words; between two ends, by its first and last recorded value.

    Examples
    --------
    >>> age = NumberScale.of("age", [20, 35, 61])
    >>> range_words(age, Range(above=52)), range_words(age, Range(at_least=30, below=40))
    ('above 52', '30 to 39')
    """
    ends = {word: scale.number(end) for word, end in vars(part).items() if end is not None}
    texts = {word: scale.text(x) for word, x in ends.items()}
    if len(ends) == 1:
        ((word, text),) = texts.items()
        return {"at_most": f"up to {text}", "at_least": f"{text} or more"}.get(
            word, f"{word} {text}"
        )
    if scale.step is not None:
        line = _range(scale, scale.step, part)
        first, last = (
            scale.text(x) for x in (line.low + scale.step / 2, line.high - scale.step / 2)
        )
        if line.low < line.high:
            return first if first == last else f"{first} to {last}"
    low = texts.get("at_least") or f"above {texts['above']}"
    return (
        f"{low} up to {texts['at_most']}"
        if part.below is None
        else f"{low} to below {texts['below']}"
    )


@dataclass(frozen=True)
class Piece:
    """An interval of a number.

    Attributes
    ----------
    line : Interval
        Its ends.
    log : float
        The log-likelihood of the evidence for values in it.
    group : int
        Its number among the ranges of a new marginal; 0 if there is none.
    """

    line: Interval
    log: float = 0.0
    group: int = 0

    def both(self, other: Piece) -> Piece:
        """Return what two pieces have in common; at most one of them has a group."""
        return Piece(self.line.both(other.line), self.log + other.log, max(self.group, other.group))

    def has(self, value: float) -> bool:
        """Return whether a value lies in the interval."""
        return bool(self.line.low <= value <= self.line.high)

    def scores(self, mapped: NumberMap) -> FloatArray:
        """Return the normal scores of the ends."""
        ends = np.array([self.line.low, self.line.high])
        infinite = np.isinf(ends)
        return np.where(infinite, ends, mapped.to_scores(np.where(infinite, 0.0, ends)))


def pieces_of(scale: NumberScale, step: float, value: Any) -> tuple[list[Piece], FloatArray | None]:
    """Return what a value or condition allows, and the new distribution of its groups, if any.

    Parameters
    ----------
    scale : NumberScale
        The column.
    step : float
        The distance of neighbouring values.
    value : object
        A number, or a condition.
    """
    pieces, target = [Piece(Interval(-np.inf, np.inf))], None
    for part in value.parts() if isinstance(value, Condition) else (value,):
        if isinstance(part, Marginal):
            if target is not None:
                raise DataError(f"{scale.name!r} is given two new marginals")
            target = part.probabilities(scale.name)
        allowed = _allowed(scale, step, part)
        pieces = [x.both(y) for x in pieces for y in allowed]
        pieces = [x for x in pieces if x.line.low < x.line.high]
    return pieces, target


def _allowed(scale: NumberScale, step: float, part: Any) -> list[Piece]:
    """Return what one condition allows."""
    if isinstance(part, Likelihood | Marginal):
        return _weighted(scale, step, part)
    if isinstance(part, Range):
        return [Piece(_range(scale, step, part))]
    values = part.states if isinstance(part, OneOf | Not) else (part,)
    points = [_point(x, step) for x in sorted({scale.number(v) for v in values})]
    if not isinstance(part, Not):
        return [Piece(line) for line in points]
    ends = [-np.inf, *(e for line in points for e in (line.low, line.high)), np.inf]
    between = zip(ends[::2], ends[1::2], strict=True)
    return [Piece(Interval(a, b)) for a, b in between if b > a]


def _weighted(scale: NumberScale, step: float, part: Likelihood | Marginal) -> list[Piece]:
    """Return the ranges of a likelihood, or of a new marginal; ranges of weight 0 are left out."""
    lines = [
        _range(scale, step, key) if isinstance(key, Range) else _point(scale.number(key), step)
        for key in part.numbers
    ]
    ordered = sorted(lines, key=lambda line: line.low)
    for one, other in pairwise(ordered):
        if one.high > other.low + 1e-9 * step:
            raise DataError(
                f"two ranges of the {part.word} of {scale.name!r} have values in common, such as "
                f"{scale.short(max(one.low, other.low) + step / 2)}"
            )
    if isinstance(part, Likelihood):
        ends = [-np.inf, *(end for line in ordered for end in (line.low, line.high)), np.inf]
        gap = next((k for k in range(0, len(ends), 2) if ends[k] < ends[k + 1] - 1e-9 * step), None)
        if gap is not None:
            at = ends[gap] + step / 2 if np.isfinite(ends[gap]) else ends[gap + 1] - step / 2
            raise DataError(
                f"there is no likelihood for {scale.name} = {scale.short(at)}; give one for each range"
            )
        return [
            Piece(line, float(np.log(x)))
            for line, x in zip(lines, part.numbers.values(), strict=True)
            if x > 0
        ]
    given = zip(lines, part.numbers.values(), strict=True)
    return [Piece(line, group=k) for k, (line, x) in enumerate(given) if x > 0]


def _point(x: float, step: float) -> Interval:
    return Interval(x - step / 2, x + step / 2)


def _range(scale: NumberScale, step: float, part: Range) -> Interval:
    """Return a range of recorded values by the edges between them."""

    def edge(end: Any, after: bool) -> float:
        """Return the edge before the first recorded value from `end` on, or after it."""
        x = scale.number(end)
        if scale.step is None:
            return x + step / 2 if after else x - step / 2
        number = np.floor(x / step + 1e-6) + 0.5 if after else np.ceil(x / step - 1e-6) - 0.5
        return float(number * step)

    low, high = -np.inf, np.inf
    if part.above is not None:
        low = edge(part.above, True)
    elif part.at_least is not None:
        low = edge(part.at_least, False)
    if part.below is not None:
        high = edge(part.below, False)
    elif part.at_most is not None:
        high = edge(part.at_most, True)
    return Interval(low, high)


def log_weights(pieces: Sequence[Piece], values: FloatArray, fitted: FloatArray) -> FloatArray:
    """Return the log-likelihood of values: that of their piece, plus a number per group."""
    found = np.full(len(values), -np.inf)
    for piece in pieces:
        inside = (values >= piece.line.low) & (values <= piece.line.high)
        found[inside] = piece.log + fitted[piece.group]
    return found


def restricted(
    rows: NumberDistributions, pieces: Sequence[Piece], fitted: FloatArray
) -> NumberDistributions | None:
    """Return the distribution of a number given its own evidence; None if that is impossible.

    Parameters
    ----------
    rows : NumberDistributions
        The distribution given all other evidence, in one row.
    pieces : sequence of Piece
        The evidence.
    fitted : array of float
        The log-likelihood of each group.
    """
    with np.errstate(divide="ignore"):
        kept = rows.atoms * np.exp(log_weights(pieces, rows.map.atoms, fitted))
    parts = []
    for piece in pieces:
        ends = piece.scores(rows.map)
        low, high = np.maximum(rows.low, ends[0]), np.minimum(rows.high, ends[1])
        used = np.flatnonzero(low < high)
        mean, sd = rows.means[:, used], rows.sds[:, used]
        whole = between(rows.low[used], rows.high[used], mean, sd)
        inside = between(low[used], high[used], mean, sd)
        ratio = np.divide(inside, whole, out=np.zeros_like(inside), where=whole > 0)
        weight = rows.weights[:, used] * ratio * np.exp(piece.log + fitted[piece.group])
        parts.append((weight, mean, sd, low[used], high[used]))
    if not parts:
        return None
    weights, means, sds = (np.concatenate([p[k] for p in parts], axis=1) for k in range(3))
    low, high = (np.concatenate([p[k] for p in parts]) for k in (3, 4))
    total = kept.sum() + weights.sum()
    if not total > 0:
        return None
    return replace(
        rows, atoms=kept / total, weights=weights / total, means=means, sds=sds, low=low, high=high
    )


def between(
    low: FloatArray, high: FloatArray, mean: FloatArray | float = 0.0, sd: FloatArray | float = 1.0
) -> FloatArray:
    """Return the probability of Gaussians between two scores; upper tails are reflected."""
    from scipy.special import ndtr

    first, last = (low - mean) / sd, (high - mean) / sd
    side = np.where(first > 0, -1.0, 1.0)
    return np.asarray(np.abs(ndtr(side * last) - ndtr(side * first)))
