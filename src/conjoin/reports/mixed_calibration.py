"""How reliable the predictions of a network with numbers are; see `calibration`.

A number is predicted twice: by its mean, and as one of five bins with about the same number of rows,
whose probabilities are compared with the bin that the number falls into.
"""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.mixed_table import MixedTable
from conjoin.errors import DataError
from conjoin.inference.mixed import MixedAnswers
from conjoin.models.mixed import MixedNetwork
from conjoin.progress import progress
from conjoin.reports.calibration import Calibration, Totals, VariableScore, summed
from conjoin.reports.subject import evenly

MAX_ROWS = 1_000
"""Maximum number of rows used; of longer tables, evenly spaced rows are taken."""

LEVELS = (0.2, 0.4, 0.6, 0.8)
"""The quantiles between the bins of a number."""

SMALLEST = 1e-12
"""Probabilities below this one count as this one in a log loss."""


def mixed_calibration(
    model: MixedNetwork, table: MixedTable, train: MixedTable | None = None
) -> Calibration:
    """Compare the predictions of a network with numbers with the rows of a table.

    Parameters
    ----------
    model : MixedNetwork
        The model.
    table : MixedTable
        Rows that it was not learned from. Missing values are not predicted, and summed over.
    train : MixedTable, optional
        Rows whose means and frequencies are the simplest guess; by default `table`.
    """
    if not len(table):
        raise DataError("the table has no rows to compare predictions with")
    rows, source = table.select(evenly(len(table), MAX_ROWS)), train or table
    answers = MixedAnswers(model, rows)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    totals: list[Totals] = []
    scores: list[VariableScore] = []
    for name, hole in progress(
        list(zip(rows.names, rows.holes.T, strict=True)), "predicting columns"
    ):
        known: BoolArray = ~hole
        if not weights[known].sum() > 0:
            continue
        errors: tuple[float | None, float | None] = (None, None)
        if name in rows.domain.numeric:
            own = source.column(name)
            own = own[~np.isnan(own)]
            truth, p, marginal, errors = _number(
                answers, name, rows.column(name), known, own, weights
            )
        else:
            i = rows.categories.domain.index(name)
            truth = rows.categories.codes[:, i].astype(np.int64)
            p, marginal = answers.category(name), source.categories.marginals()[i]
        total = Totals(p.shape[1])
        with np.errstate(divide="ignore"):
            log_p = np.log(np.maximum(p[known], SMALLEST))
        total.add(truth[known], log_p, weights[known], marginal)
        totals.append(total)
        scores.append(total.score(name, errors))
    return summed(len(rows), totals, scores)


def _number(
    answers: MixedAnswers,
    name: str,
    values: FloatArray,
    known: BoolArray,
    source: FloatArray,
    weights: FloatArray,
) -> tuple[IntArray, FloatArray, FloatArray, tuple[float, float]]:
    """Return the bins of the values, their probabilities, their shares, and the errors of means."""
    found = answers.number(name)
    cuts = np.unique(np.quantile(source, LEVELS))
    below = [found.cdf(cut, strict=True) for cut in cuts.tolist()]
    ends = np.stack([np.zeros(len(values)), *below, np.ones(len(values))], axis=1)
    p = np.maximum(np.diff(ends, axis=1), 0.0)
    truth = np.searchsorted(cuts, values, side="right").astype(np.int64)
    counts = np.bincount(np.searchsorted(cuts, source, side="right"), minlength=len(cuts) + 1)
    guesses = found.mean()[known], np.full(int(known.sum()), source.mean())
    w = weights[known] / weights[known].sum()
    model, simplest = (float(np.sqrt(w @ (g - values[known]) ** 2)) for g in guesses)
    return truth, p, (counts + 1) / (counts + 1).sum(), (model, simplest)
