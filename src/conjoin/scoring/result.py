"""What a score is, and how two of them are compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.errors import ModelError


@dataclass(frozen=True, eq=False)
class Score:
    """How well a network predicts the rows of a table, in nats.

    Attributes
    ----------
    metric : str
        What was measured, such as "pll".
    by_row : array of float
        The score of each row, summed over its variables.
    weights : array of float
        What each row counts.
    by_variable : dict
        The mean score of each variable, by name, over the rows that have it.
    cells : int
        How many values were scored.
    """

    metric: str
    by_row: FloatArray
    weights: FloatArray
    by_variable: dict[str, float]
    cells: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.by_row)

    @property
    def mean(self) -> float:
        """The mean over the rows."""
        return float(np.average(self.by_row, weights=self.weights))

    @property
    def stderr(self) -> float:
        """The standard error of that mean; not a number for a single row."""
        return _standard_error(self.by_row, self.weights)

    @property
    def normalized(self) -> float:
        """The mean divided by the number of variables (NPLL)."""
        return self.mean / max(1, len(self.by_variable))

    def report(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        return {
            "metric": self.metric,
            "mean": self.mean,
            "stderr": None if np.isnan(self.stderr) else self.stderr,
            "normalized": self.normalized,
            "rows": self.rows,
            "cells": self.cells,
            "by_variable": self.by_variable,
        }

    def notes(self) -> list[str]:
        """Return what else a reader of the score should know, a sentence a line."""
        return []

    def __repr__(self) -> str:
        return f"<Score: {self.metric} {self.mean:.4f} ± {self.stderr:.4f} on {self.rows:,} rows>"


@dataclass(frozen=True)
class Comparison:
    """The difference of two scores on the same rows: the first minus the second.

    Attributes
    ----------
    difference : float
        The mean difference a row, in nats; positive if the first is better.
    stderr : float
        Its standard error.
    rows : int
        The number of rows.
    better, worse : int
        The rows on which the first is better, and worse.
    """

    difference: float
    stderr: float
    rows: int
    better: int
    worse: int


def compare(first: Score, second: Score) -> Comparison:
    """Compare two networks by their scores on the same rows, row by row.

    Examples
    --------
    >>> one, ones = np.array([-1.0, -2.0, -3.0]), np.ones(3)
    >>> a, b = Score("pll", one, ones, {}, 3), Score("pll", one - [0.5, 1, 1.5], ones, {}, 3)
    >>> compare(a, b)
    Comparison(difference=1.0, stderr=0.288..., rows=3, better=3, worse=0)
    """
    if first.metric != second.metric:
        raise ModelError(f"one score is {first.metric}, the other {second.metric}")
    if first.rows != second.rows or not np.array_equal(first.weights, second.weights):
        raise ModelError(
            f"the scores are of different rows ({first.rows:,} and {second.rows:,}); score both "
            "networks on one table"
        )
    gap = first.by_row - second.by_row
    return Comparison(
        float(np.average(gap, weights=first.weights)),
        _standard_error(gap, first.weights),
        first.rows,
        int((gap > 0).sum()),
        int((gap < 0).sum()),
    )


@dataclass(frozen=True)
class SignedRanks:
    """The Wilcoxon signed-ranks test over data sets, two-tailed.

    Attributes
    ----------
    wins, losses, ties : int
        On how many data sets the first method is better, worse, or the same.
    p_value : float
        How probable ranks so uneven are if neither method is better.
    """

    wins: int
    losses: int
    ties: int
    p_value: float


def signed_ranks(first: Iterable[float], second: Iterable[float]) -> SignedRanks:
    """Compare two methods by their scores on several data sets (the paper's Section 6.3).

    Examples
    --------
    >>> result = signed_ranks([-1, -2, -3, -4, -5, -6], [-2, -4, -6, -8, -10, -12])
    >>> result.wins, round(result.p_value, 5)  # all six have one sign: 2 / 2^6
    (6, 0.03125)
    """
    a, b = (np.array(list(values), np.float64) for values in (first, second))
    if a.shape != b.shape or not len(a):
        raise ModelError("give as many scores of the first method as of the second, one a data set")
    gap = a - b
    p_value = 1.0
    if gap.any():
        from scipy.stats import wilcoxon

        p_value = float(wilcoxon(gap[gap != 0]).pvalue)
    return SignedRanks(int((gap > 0).sum()), int((gap < 0).sum()), int((gap == 0).sum()), p_value)


def _standard_error(values: FloatArray, weights: FloatArray) -> float:
    total = weights.sum()
    if total <= 1:
        return float("nan")
    mean = np.average(values, weights=weights)
    with np.errstate(invalid="ignore"):
        return float(np.sqrt((weights @ (values - mean) ** 2) / (total - 1) / total))
