"""Pseudo-log-likelihood: the sum of the log conditionals of a row's values (Section 2.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.frames import as_table
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, Table
from conjoin.errors import DataError, ModelError, names_lack_of_memory
from conjoin.inference.joint_rows import JointRows
from conjoin.inference.number_distribution import NumberDistributions
from conjoin.inference.terms import as_markov_network
from conjoin.jobs import one_thread, run
from conjoin.kernels.layouts import ROWS_PER_BLOCK
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.hidden_states import HiddenStates
from conjoin.models.network import Network, takes_estimators
from conjoin.scoring.conditionals import ConditionalBlock, ConditionalScorer
from conjoin.scoring.result import Score

ROWS_PER_TASK = 8 * ROWS_PER_BLOCK
"""Number of rows that one task scores, whatever the number of jobs."""


@takes_estimators
@names_lack_of_memory
def pll(
    model: Network,
    table: Any,
    *,
    marginals: Any = None,
    n_jobs: int | None = None,
) -> Score:
    """Score a network by its pseudo-log-likelihood on a table.

    The score of a row is the sum over the variables of log P(x_i | the rest of the row), in nats.

    Missing values are not scored. Where the *rest* of the row has missing values, the log-potential is
    averaged over them, each distributed as in `marginals`, before it is normalised. Hidden columns are
    summed out, and not scored.

    Parameters
    ----------
    model : DependencyNetwork, MarkovNetwork, BayesianNetwork or JointModel
        The model to score. With numbers, the score of a number is a log-density, per unit of its column,
        and missing values are summed out of the rest of the row.
    table : Table, 2-dimensional array, or frame
        The rows, with their weights if they have some.
    marginals : Table, array or frame, optional
        Rows, such as the training rows, whose marginals missing values are averaged over. By default
        the rows that are scored.
    n_jobs : int, optional
        The number of groups of rows to score at the same time. It does not change the result.

    Returns
    -------
    Score
        The mean over the rows, its standard error, and the scores by row and by variable.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork, Table
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 1})]))
    >>> score = pll(mn, Table.from_rows(domain, [{"a": 1, "b": 1}, {"a": 0, "b": 0}]))
    >>> score.by_row.round(3).tolist()  # 2 log(e / (1 + e)), 2 log(1/2)
    [-0.627, -1.386]
    """
    domain = model.domain.observed
    rows = as_table(table, domain).over(domain)
    if not len(rows):
        raise DataError("the table has no rows to score")
    if rows.numbers is not None:
        return _with_numbers(model, rows)
    first, inverse = distinct_rows(rows.codes)
    codes = rows.codes[first]
    known = codes != rows.missing
    given = None
    if not known.all():
        given = (rows if marginals is None else as_table(marginals, domain)).marginals()
    by_cell = _score_cells(model, codes, known.all(axis=1), given, n_jobs)
    if np.isnan(by_cell).any():
        row, column = np.argwhere(np.isnan(by_cell))[0]
        number = int(np.flatnonzero(inverse == row)[0]) + 1
        raise ModelError(
            f"row {number}: the model gives probability 0 to every state of "
            f"{domain.names[column]!r} given the rest of the row"
        )
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    by_distinct = np.bincount(inverse, weights, len(codes))
    with np.errstate(invalid="ignore"):
        sums = np.where(known, by_cell, 0.0).T @ by_distinct
        by_variable = sums / (known.T @ by_distinct)
    return Score(
        "pll",
        by_cell.sum(axis=1)[inverse],
        weights,
        dict(zip(domain.names, by_variable.tolist(), strict=True)),
        int(known[inverse].sum()),
    )


def _with_numbers(model: Network, rows: Table) -> Score:
    """Score rows with numbers: log-densities of these, missing values summed out of the rest of a row."""
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    by_row, by_variable, cells = np.zeros(len(rows)), {}, 0
    for name, hole in zip(rows.names, rows.holes.T, strict=True):
        known = np.flatnonzero(~hole)
        by_variable[name] = np.nan
        if len(known):
            answers = JointRows(model, rows.select(known))
            if name in rows.domain.numeric:
                logs = _log_densities(answers.number(name), rows.column(name)[known])
            else:
                own = rows.codes[known, rows.domain.index(name)]
                with np.errstate(divide="ignore"):
                    logs = np.log(answers.states(name)[np.arange(len(known)), own])
            by_row[known] += logs
            by_variable[name] = float(np.average(logs, weights=weights[known]))
            cells += len(known)
    return Score("pll", by_row, weights, by_variable, cells)


def _log_densities(found: NumberDistributions, values: FloatArray) -> FloatArray:
    """Return the log-densities of numbers per unit, and the log-probabilities of absent ones, NaN."""
    absent, safe = np.isnan(values), np.where(np.isnan(values), found.scale.low, values)
    logs = found.log_likelihood(safe) - np.log(found.map.step)
    if found.absent is None:
        return logs
    with np.errstate(divide="ignore"):
        return np.where(absent, np.log(found.absent), logs + np.log1p(-found.absent))


def _score_cells(
    model: Network,
    codes: Codes,
    complete: BoolArray,
    marginals: list[FloatArray] | None,
    n_jobs: int | None,
) -> FloatArray:
    """Return log P(x_i | the rest of the row), rows by variables."""
    if isinstance(model, BayesianNetwork) and complete.all() and not model.has_small_factors:
        rows = np.arange(len(codes))
        each = enumerate(model.domain.names)
        return np.stack([model.log_conditional(n, codes)[rows, codes[:, i]] for i, n in each], 1)
    hidden = model.domain.hidden.any()
    scorer: ConditionalScorer | HiddenStates
    scorer = as_markov_network(model).hidden_states if hidden else ConditionalScorer.of(model.form)
    tasks, places = [], []
    for given, chosen in ((None, np.flatnonzero(complete)), (marginals, np.flatnonzero(~complete))):
        for low in range(0, len(chosen), ROWS_PER_TASK):
            part = chosen[low : low + ROWS_PER_TASK]
            tasks.append((scorer, codes[part], given))
            places.append(part)
    by_cell = np.empty(codes.shape)
    score: Any = _score_hidden if hidden else _score_blocks
    for part, cells in zip(places, run(score, tasks, n_jobs), strict=True):
        by_cell[part] = cells
    return by_cell


def _score_hidden(
    states: HiddenStates, codes: Codes, marginals: list[FloatArray] | None
) -> FloatArray:
    """Score some rows of a network with hidden columns."""
    by_variable = states.log_conditionals(codes, marginals)
    cells = np.zeros(codes.shape)
    for i, log_p in enumerate(by_variable):
        known = np.flatnonzero(codes[:, i] < log_p.shape[1])
        cells[known, i] = log_p[known, codes[known, i]]
    return cells


def _score_blocks(
    scorer: ConditionalScorer, codes: Codes, marginals: list[FloatArray] | None
) -> FloatArray:
    """Score some rows, one block after another."""
    parts = []
    with one_thread():
        for low in range(0, len(codes), ROWS_PER_BLOCK):
            block = ConditionalBlock(scorer.form, codes[low : low + ROWS_PER_BLOCK], marginals)
            parts.append(scorer.log_probabilities(block).T)
    return np.concatenate(parts)
