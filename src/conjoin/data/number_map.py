"""The map between the values of a column of numbers and normal scores.

The normal score of a value is the quantile of the standard normal distribution at the value's rank, so
that the scores of a column are normally distributed, whatever its values are. The map is continuous,
rises from knot to knot in straight lines, and continues as a line beyond the outermost knots. (Where the
values end at 0, the outermost knots are so far out that this line has no probability.) Means,
quantiles and probabilities of ranges are therefore closed-form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, read_only


@dataclass(frozen=True, eq=False)
class NumberMap:
    """The map between the values of a column and normal scores."""

    # values, scores: the knots, both ascending
    values: FloatArray
    scores: FloatArray
    # The distance of neighbouring values that can be recorded; a value stands for all numbers
    # within half a step of it
    step: float
    atoms: FloatArray  # values that have a probability of their own and no score

    def __post_init__(self) -> None:
        for name in ("values", "scores", "atoms"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.float64)))

    @property
    def slopes(self) -> FloatArray:
        """The rise of the values per unit of the score between two knots each."""
        return np.diff(self.values) / np.diff(self.scores)

    def to_scores(self, values: FloatArray) -> FloatArray:
        """Return the normal score of each value."""
        return _lines(self.values, self.scores, values)

    def to_values(self, scores: FloatArray) -> FloatArray:
        """Return the value of each normal score."""
        return _lines(self.scores, self.values, scores)

    def cell(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the lower and upper ends of what each value stands for."""
        half = self.step / 2
        return self.to_scores(values - half), self.to_scores(values + half)

    def slopes_at(self, values: FloatArray) -> FloatArray:
        """Return the rise of the score per unit at each value; at a knot, the mean of both sides."""
        rises = np.diff(self.scores) / np.diff(self.values)
        last = len(rises) - 1
        sides = (np.searchsorted(self.values, values, side=side) - 1 for side in ("left", "right"))
        left, right = (rises[np.clip(k, 0, last)] for k in sides)
        return np.asarray((left + right) / 2)

    def atom_of(self, values: FloatArray) -> IntArray:
        """Return the number of the atom that each value is, or how many there are; -1 if missing."""
        near = np.abs(values[:, None] - self.atoms) < self.step / 2
        found = np.where(near.any(axis=1), near.argmax(axis=1) if near.size else 0, len(self.atoms))
        return np.where(np.isnan(values), -1, found).astype(np.int64)


def _lines(x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    """Interpolate between knots, and extrapolate beyond the outermost ones."""
    k = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
    share = (at - x[k]) / (x[k + 1] - x[k])
    return y[k] + share * (y[k + 1] - y[k])
