"""Scores of models with numbers: log-densities, per unit of each number."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.frames import columns_of
from conjoin.data.mixed_table import MixedTable
from conjoin.errors import DataError
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.results import LogValue, Run
from conjoin.models.mixed import MixedNetwork
from conjoin.scoring.likelihood import LogLikelihood
from conjoin.scoring.result import Score


def log_densities(model: MixedNetwork, table: Any) -> LogLikelihood:
    """Score a model by the log-density of the rows; missing values are summed out."""
    rows = _rows(model, table)
    by_row = MixedAnswers(model, rows).log_density()
    known = int((~rows.holes).sum())
    log_z = LogValue(0.0, Run("exact", exact=True))
    return LogLikelihood("ll", by_row, _weights(rows), {}, known, True, log_z, len(model.names))


def conditional_log_densities(model: MixedNetwork, table: Any) -> Score:
    """Score a model by the sum of log-densities of each value given the rest of its row.

    Missing values are not scored, and summed out of the rest of a row.
    """
    rows = _rows(model, table)
    answers, weights = MixedAnswers(model, rows), _weights(rows)
    by_row, by_variable, cells = np.zeros(len(rows)), {}, 0
    for name, hole in zip(rows.names, rows.holes.T, strict=True):
        known = np.flatnonzero(~hole)
        by_variable[name] = np.nan
        if len(known):
            found = _conditional(answers.select(known), name)
            by_row[known] += found
            by_variable[name] = float(np.average(found, weights=weights[known]))
            cells += len(known)
    return Score("pll", by_row, weights, by_variable, cells)


def _conditional(answers: MixedAnswers, name: str) -> FloatArray:
    """Return the log-density of a column, which all rows know, given the rest of each row."""
    model, rows = answers.model, answers.table
    if name in model.domain.numeric:
        found = answers.number(name).log_likelihood(rows.column(name))
        return np.asarray(found - np.log(model.map_of(name).step))
    p = answers.category(name)
    own = rows.categories.codes[:, rows.categories.domain.index(name)]
    with np.errstate(divide="ignore"):
        return np.log(p[np.arange(len(p)), own])


def _rows(model: MixedNetwork, table: Any) -> MixedTable:
    """Return rows over the columns of a model, which has them all."""
    if not isinstance(table, MixedTable) or table.domain != model.domain:
        columns = columns_of(table)
        present = {column.name for column in columns}
        absent = next((name for name in model.names if name not in present), None)
        if absent is not None:
            raise DataError(f"there is no column {absent!r} in the table")
        table = MixedTable.like(model.domain, columns)
    if not len(table):
        raise DataError("the table has no rows to score")
    return table


def _weights(rows: MixedTable) -> FloatArray:
    return np.ones(len(rows)) if rows.weights is None else rows.weights
