"""The pseudo-log-likelihood of a table as a function of a network's weights (Section 2.2)."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.packing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.errors import ModelError
from conjoin.jobs import one_thread, run
from conjoin.models.features import Features
from conjoin.scoring.conditionals import BLOCK, Block, Layout

PIECES = 16
"""How many parts the rows are dealt out in: the same ones for any number of jobs."""


class Objective:
    """Value and gradient of the summed log conditionals of a table.

    Parameters
    ----------
    features : Features
        Their weights are what is sought; those that are -inf stay as they are.
    table : Table
        The rows. Equal ones are merged. Where a value is missing, the log-potential is averaged over
        it, distributed as in the table.
    n_jobs : int, optional
        How many parts of the rows to look at at a time.
    """

    def __init__(self, features: Features, table: Table, n_jobs: int | None = None) -> None:
        self.layout = Layout(features, np.full(len(features), -1, np.int64))
        self.n_jobs = n_jobs
        codes, weights = merge_rows(table.codes, table.weights)
        self.weight = float(weights.sum())
        order = _sorted_rows(features, codes)
        codes, weights = codes[order], weights[order]
        lacking = (codes == table.missing).any(axis=1)
        marginals = table.marginals() if lacking.any() else None
        blocks: list[tuple[Block, FloatArray]] = []
        for incomplete in (False, True):
            chosen = np.flatnonzero(lacking == incomplete)
            for low in range(0, len(chosen), BLOCK):
                part = chosen[low : low + BLOCK]
                given = marginals if incomplete else None
                blocks.append((Block(features, codes[part], given), weights[part]))
        size = -(-len(blocks) // PIECES)
        self.pieces = [blocks[i : i + size] for i in range(0, len(blocks), max(1, size))]

    def value(self, weights: FloatArray) -> float:
        """Return the summed log conditionals."""
        tasks = [(self.layout, piece, weights, False) for piece in self.pieces]
        return float(sum(value for value, _ in run(_evaluate, tasks, self.n_jobs)))

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the same with its gradient; of fixed weights it is 0."""
        tasks = [(self.layout, piece, weights, True) for piece in self.pieces]
        total, gradient = 0.0, np.zeros(len(weights))
        for value, slopes in run(_evaluate, tasks, self.n_jobs):
            total += value
            gradient += slopes
        gradient[~self.free] = 0.0
        if np.isnan(total):
            raise ModelError(
                "a row of the table is impossible under the network's hard constraints; "
                "weights cannot be learned from it"
            )
        return total, gradient

    @property
    def free(self) -> BoolArray:
        """Which weights may change."""
        return np.isfinite(self.layout.features.weights)

    def curvature(self) -> FloatArray:
        """Return a rough second derivative by each weight: a quarter of the rows it can matter on."""
        total = np.zeros(len(self.layout.features))
        for piece in self.pieces:
            for block, row_weights in piece:
                spread = np.zeros((len(block.tests), BLOCK))
                spread[:, : block.size] = row_weights / 4
                total += self.layout.slopes(block, spread)
        return total


def _evaluate(
    layout: Layout, piece: list[tuple[Block, FloatArray]], weights: FloatArray, slopes: bool
) -> tuple[float, FloatArray]:
    value, gradient = 0.0, np.zeros(len(weights) if slopes else 0)
    with one_thread():
        for block, row_weights in piece:
            log_p, errors = layout.log_probabilities(
                block, weights, row_weights if slopes else None
            )
            value += float(log_p.sum(axis=0) @ row_weights)
            if slopes:
                gradient += layout.slopes(block, errors)
    return value, gradient


def _sorted_rows(features: Features, codes: Codes) -> IntArray:
    """Order rows so that those alike in the variables tested most stand together.

    Then most tests hold on all or none of the 64 rows of a word, and fewer words need a look.
    """
    used = np.bincount(features.entry_var, minlength=codes.shape[1])
    busiest = np.argsort(-used, kind="stable")[:16]
    return np.lexsort(codes[:, busiest[::-1]].T)
