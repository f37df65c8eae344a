"""Pseudo-log-likelihood: the sum of the log conditionals of a row's values (Section 2.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.frames import as_table
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, codes_of
from conjoin.errors import DataError, ModelError
from conjoin.jobs import one_thread, run
from conjoin.models.network import Network
from conjoin.scoring.conditionals import BLOCK, Block, Layout, Weighted
from conjoin.scoring.result import Score

BLOCKS_A_JOB = 8
"""Blocks that one task scores: the same ones for any number of jobs."""


def pll(model: Network, table: Any, *, marginals: Any = None, n_jobs: int | None = None) -> Score:
    """Score a network by its pseudo-log-likelihood on a table.

    The score of a row is the sum over the variables of log P(x_i | the rest of the row), in nats.

    A value that is missing is not scored. Where the *rest* of the row has missing values, the
    log-potential is averaged over them, each distributed as `marginals` say, before it is normalised.

    Parameters
    ----------
    model : DependencyNetwork, MarkovNetwork or BayesianNetwork
        What to score.
    table : Table, 2-dimensional array, or frame
        The rows; their weights count.
    marginals : Table, optional
        Rows, such as those of training, from which missing values are taken to be drawn, each variable
        on its own. By default the rows that are scored.
    n_jobs : int, optional
        How many blocks of rows to score at a time. The result is the same for any number.

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
    rows = as_table(table, model.domain)
    codes_of(model.domain, rows, complete=False)
    if not len(rows):
        raise DataError("the table has no rows to score")
    first, inverse = distinct_rows(rows.codes)
    codes = rows.codes[first]
    lacking = (codes == rows.missing).any(axis=1)
    given = None
    if lacking.any():
        given = (rows if marginals is None else as_table(marginals, model.domain)).marginals()
    layout = Layout.of(model)
    weighted = Weighted(layout, layout.features.weights)
    by_cell = np.empty((len(codes), len(model.domain)))
    tasks, places = [], []
    for incomplete in (False, True):
        chosen = np.flatnonzero(lacking == incomplete)
        size = BLOCK * BLOCKS_A_JOB
        for low in range(0, len(chosen), size):
            part = chosen[low : low + size]
            tasks.append((weighted, codes[part], given if incomplete else None))
            places.append(part)
    for part, cells in zip(places, run(_score_blocks, tasks, n_jobs), strict=True):
        by_cell[part] = cells
    if np.isnan(by_cell).any():
        row, column = np.argwhere(np.isnan(by_cell))[0]
        number = int(np.flatnonzero(inverse == row)[0]) + 1
        raise ModelError(
            f"row {number}: the model gives probability 0 to every state of "
            f"{model.domain.names[column]!r} given the rest of the row"
        )
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    by_distinct = np.bincount(inverse, weights, len(codes))
    known = codes != rows.missing
    with np.errstate(invalid="ignore"):
        sums = np.where(known, by_cell, 0.0).T @ by_distinct
        by_variable = sums / (known.T @ by_distinct)
    names = model.domain.names
    return Score(
        "pll",
        by_cell.sum(axis=1)[inverse],
        weights,
        dict(zip(names, by_variable.tolist(), strict=True)),
        int(known[inverse].sum()),
    )


def _score_blocks(
    weighted: Weighted, codes: Codes, marginals: list[FloatArray] | None
) -> FloatArray:
    """Score some rows, a block at a time."""
    parts = []
    with one_thread():
        for low in range(0, len(codes), BLOCK):
            block = Block(weighted.layout.features, codes[low : low + BLOCK], marginals)
            parts.append(weighted.log_probabilities(block).T)
    return np.concatenate(parts)
