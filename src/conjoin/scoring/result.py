"""Scores of networks on tables, and comparisons of scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.errors import ModelError


@dataclass(frozen=True, eq=False)
class Score:
    """How well a network predicts the rows of a table, in nats."""

    metric: str  # the name of the score, such as "pll"
    by_row: FloatArray  # the score of each row, summed over its variables
    weights: FloatArray  # the weight of each row
    by_variable: dict[str, float]  # the mean score of each variable, over the rows that know it
    cells: int  # the number of values that were scored

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.by_row)

    @property
    def mean(self) -> float:
        """The weighted mean over the rows."""
        return float(np.average(self.by_row, weights=self.weights))

    @property
    def stderr(self) -> float:
        """The standard error of the mean; NaN if there is only one effective row.

        It is s / sqrt(n), where s is the weighted standard deviation of the row scores and n is the
        effective number of rows (`effective_rows`).
        """
        return weighted_standard_error(self.by_row, self.weights)

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
        """Return remarks for the reader of the score, one sentence each."""
        return []

    def __repr__(self) -> str:
        return f"<Score: {self.metric} {self.mean:.4f} ± {self.stderr:.4f} on {self.rows:,} rows>"


@dataclass(frozen=True)
class Comparison:
    """The difference of two scores on the same rows: the first minus the second."""

    difference: float  # the mean difference per row, in nats; positive if the first is better
    stderr: float  # its standard error
    rows: int  # the number of rows
    # better, worse: the number of rows on which the first is better, and worse
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
            "networks on the same table"
        )
    gap = first.by_row - second.by_row
    return Comparison(
        float(np.average(gap, weights=first.weights)),
        weighted_standard_error(gap, first.weights),
        first.rows,
        int((gap > 0).sum()),
        int((gap < 0).sum()),
    )


@dataclass(frozen=True)
class SignedRanks:
    """The Wilcoxon signed-ranks test over data sets, two-tailed."""

    # wins, losses, ties: the number of data sets on which the first method is better, worse, or the
    # same
    wins: int
    losses: int
    ties: int
    p_value: float  # the probability of ranks at least this uneven if neither method is better


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
        raise ModelError("both methods need the same number of scores, one per data set")
    gap = a - b
    p_value = 1.0
    if gap.any():
        from scipy.stats import wilcoxon

        p_value = float(wilcoxon(gap[gap != 0]).pvalue)
    return SignedRanks(int((gap > 0).sum()), int((gap < 0).sum()), int((gap == 0).sum()), p_value)


def effective_rows(weights: FloatArray) -> float:
    """Return the number of equally weighted rows that would make a mean as precise.

    Whole-numbered weights are counts: a row of weight 3 stands for three equal rows, so the number is the
    sum of the weights. The scale of other weights, such as shares that sum to 1, has no meaning; then it
    is Kish's effective sample size, (sum of w)^2 / (sum of w^2).

    Examples
    --------
    >>> effective_rows(np.array([1.0, 3.0])), effective_rows(np.array([0.25, 0.25, 0.5]))
    (4.0, 2.666...)
    """
    total = float(weights.sum())
    if (weights == np.round(weights)).all():
        return total
    return total**2 / float(weights @ weights)


def weighted_standard_error(values: FloatArray, weights: FloatArray) -> float:
    """Return the standard error of a weighted mean, NaN if there is only one effective row.

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 3.0, 4.0])
    >>> weighted_standard_error(values, np.ones(4)), weighted_standard_error(values, np.full(4, 0.25))
    (0.645..., 0.645...)
    """
    rows = effective_rows(weights)
    if not rows > 1:
        return float("nan")
    mean = np.average(values, weights=weights)
    with np.errstate(invalid="ignore"):
        variance = weights @ (values - mean) ** 2 / weights.sum()
    return float(np.sqrt(variance / (rows - 1)))
