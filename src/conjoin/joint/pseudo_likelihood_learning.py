"""The pseudo-log-likelihood of a table as a function of a network's weights (Section 2.2)."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.errors import ModelError
from conjoin.jobs import one_thread, run
from conjoin.kernels.layouts import ROWS_PER_BLOCK
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm
from conjoin.scoring.conditionals import ConditionalBlock, ConditionalScorer

ROWS_PER_TASK = 8 * ROWS_PER_BLOCK
"""Number of rows that one task evaluates, whatever the number of jobs."""

Task = list[tuple[ConditionalBlock, FloatArray]]
"""Blocks of rows with the weights of these."""


class PseudoLikelihood:
    """Value and gradient of the summed log conditionals of a table.

    Equal rows are merged. Where a value is missing, the log-potential is averaged over it, distributed
    as in the table. Weights of -inf stay as they are; `free` says which weights may change, and
    `weight` is the total weight of the rows.
    """

    def __init__(self, form: LogLinearForm, table: Table, n_jobs: int | None = None) -> None:
        self.scorer, self.n_jobs = ConditionalScorer.of(form), n_jobs
        self.free: BoolArray = ~form.hard
        codes, weights = merge_rows(table.codes, table.weights)
        self.weight = float(weights.sum())
        order = _similar_rows_together(form.features, codes)
        codes, weights = codes[order], weights[order]
        incomplete = (codes == table.missing).any(axis=1)
        self.tasks = self._tasks(codes[~incomplete], weights[~incomplete], None)
        if incomplete.any():
            marginals = table.marginals()
            self.tasks += self._tasks(codes[incomplete], weights[incomplete], marginals)

    def _tasks(
        self, codes: Codes, weights: FloatArray, marginals: list[FloatArray] | None
    ) -> list[Task]:
        """Cut rows into blocks, and these into tasks; blocks are padded with rows of weight 0."""
        form, tasks = self.scorer.form, []
        for start in range(0, len(codes), ROWS_PER_TASK):
            task = []
            for low in range(start, min(len(codes), start + ROWS_PER_TASK), ROWS_PER_BLOCK):
                rows = slice(low, low + ROWS_PER_BLOCK)
                block = ConditionalBlock(form, codes[rows], marginals)
                task.append((block, np.pad(weights[rows], (0, ROWS_PER_BLOCK - block.size))))
            tasks.append(task)
        return tasks

    def value(self, weights: FloatArray) -> float:
        """Return the summed log conditionals."""
        return self._evaluate(weights)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the summed log conditionals and their gradient, which is 0 for fixed weights."""
        total, gradient = self._evaluate(weights)
        gradient[~self.free] = 0.0
        if np.isnan(total):
            raise ModelError(
                "a row of the table is impossible under the network's hard constraints; "
                "weights cannot be learned from it"
            )
        return total, gradient

    def _evaluate(self, weights: FloatArray) -> tuple[float, FloatArray]:
        scorer = self.scorer.with_weights(weights)
        total, gradient = 0.0, np.zeros(len(weights))
        for value, part in run(_evaluate, [(scorer, task) for task in self.tasks], self.n_jobs):
            total += value
            gradient += part
        return total, gradient

    def curvature(self) -> FloatArray:
        """Return a rough second derivative by each weight: a quarter of the rows where it is live.

        A feature is live, for one of its tests, on the rows where all its other tests hold.
        """
        total = np.zeros(len(self.free))
        for task in self.tasks:
            for block, weights in task:
                total += self.scorer.weight_of_live_rows(block, weights / 4)
        return total


def _evaluate(scorer: ConditionalScorer, task: Task) -> tuple[float, FloatArray]:
    """Return the summed log conditionals of some rows, and their gradient."""
    total, gradient = 0.0, np.zeros(len(scorer.form.features))
    with one_thread():
        for block, weights in task:
            value, slopes = scorer.value_and_slopes(block, weights)
            total += value
            gradient += slopes
    return total, gradient


def _similar_rows_together(features: Features, codes: Codes) -> IntArray:
    """Order rows so that rows that agree in the most tested variables are neighbours.

    Then most tests hold on all or none of the 64 rows of a word, and fewer words have to be visited.
    """
    used = np.bincount(features.entry_var, minlength=codes.shape[1])
    busiest = np.argsort(-used, kind="stable")[:16]
    return np.lexsort(codes[:, busiest[::-1]].T)
