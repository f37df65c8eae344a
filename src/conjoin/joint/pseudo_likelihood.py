"""The pseudo-log-likelihood of a table as a function of a network's weights (Section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.errors import ModelError
from conjoin.jobs import one_thread, run
from conjoin.kernels.layouts import ROWS_PER_BLOCK, WORDS, LiveRows, packed
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm
from conjoin.scoring.conditionals import ConditionalScorer, RowBlock

ShortArray = npt.NDArray[np.uint16]

BLOCKS_PER_PIECE = 8
"""Number of blocks that are evaluated together where all features are summed on bits."""

MAX_LIST_BYTES = 1 << 31
"""The most memory for lists of live rows; lists beyond it are made anew for each evaluation."""


class PseudoLikelihood:
    """Value and gradient of the summed log conditionals of a table.

    Equal rows are merged. Where a value is missing, the log-potential is averaged over it, distributed
    as in the table. Weights of -inf stay as they are; `free` says which weights may change, and
    `weight` is the total weight of the rows. Lists of rows beyond `max_list_bytes` are made anew for each
    value.
    """

    def __init__(
        self,
        form: LogLinearForm,
        table: Table,
        n_jobs: int | None = None,
        max_list_bytes: int = MAX_LIST_BYTES,
    ) -> None:
        self.scorer, self.n_jobs = ConditionalScorer.of(form), n_jobs
        self.free: BoolArray = ~form.hard
        codes, weights = merge_rows(table.codes, table.weights)
        self.weight = float(weights.sum())
        order = _similar_rows_together(form.features, codes)
        codes, weights = codes[order], weights[order]
        incomplete = (codes == table.missing).any(axis=1)
        self.pieces = self._pieces(codes[~incomplete], weights[~incomplete], None)
        if incomplete.any():
            marginals = table.marginals()
            self.pieces += self._pieces(codes[incomplete], weights[incomplete], marginals)
        if self.pieces:
            kept = max_list_bytes // self.pieces[0].live_rows().nbytes
            for piece in self.pieces[kept:]:
                piece.keep = False

    def _pieces(
        self, codes: Codes, weights: FloatArray, marginals: list[FloatArray] | None
    ) -> list[_Piece]:
        """Cut rows into pieces; products of features with the truth of tests take one block at a time."""
        starts = range(0, len(codes), ROWS_PER_BLOCK)
        form = self.scorer.form
        blocks = [RowBlock(form, codes[i : i + ROWS_PER_BLOCK], marginals) for i in starts]
        weights = np.pad(weights, (0, len(blocks) * ROWS_PER_BLOCK - len(weights)))
        dense = blocks and self.scorer.groups.needs_truth(blocks[0])
        size = 1 if dense else BLOCKS_PER_PIECE
        return [
            _Piece(blocks[i : i + size], weights[i * ROWS_PER_BLOCK : (i + size) * ROWS_PER_BLOCK],
                   self.scorer.groups.conjunction)
            for i in range(0, len(blocks), size)
        ]  # fmt: skip

    def value(self, weights: FloatArray) -> float:
        """Return the summed log conditionals."""
        return self._evaluate(weights, slopes=False)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the summed log conditionals and their gradient, which is 0 for fixed weights."""
        total, gradient = self._evaluate(weights, slopes=True)
        gradient[~self.free] = 0.0
        if np.isnan(total):
            raise ModelError(
                "a row of the table is impossible under the network's hard constraints; "
                "weights cannot be learned from it"
            )
        return total, gradient

    def _evaluate(self, weights: FloatArray, *, slopes: bool) -> tuple[float, FloatArray]:
        scorer = self.scorer.with_weights(weights)
        tasks = [(scorer, piece, slopes) for piece in self.pieces]
        total, gradient = 0.0, np.zeros(len(weights) if slopes else 0)
        for value, part in run(_evaluate_piece, tasks, self.n_jobs):
            total += value
            gradient += part
        return total, gradient

    def curvature(self) -> FloatArray:
        """Return a rough second derivative by each weight: a quarter of the rows where it is live."""
        total = np.zeros(len(self.free))
        for piece in self.pieces:
            total += _curvature_of_piece(self.scorer, piece)
        return total


@dataclass(eq=False)
class _Piece:
    """Some of the rows, with what does not depend on the weights."""

    blocks: list[RowBlock]  # a single one if products need the truth of its tests
    weights: FloatArray  # of the rows, 0 for the padding of blocks
    conjunction: IntArray  # the features that are summed on bits
    keep: bool = True  # whether to keep the lists of live rows
    _live: LiveRows | None = None

    @cached_property
    def columns(self) -> Codes:
        """The codes, variables by rows."""
        return np.concatenate([block.columns for block in self.blocks], axis=1)

    def live_rows(self) -> LiveRows:
        """Return the live rows of each conjunction, none on blocks with missing values."""
        if self._live is not None:
            return self._live
        complete = [block for block in self.blocks if block.marginals is None]
        live = list_live_rows(self.blocks[0].form, complete, self.conjunction)
        if self.keep:
            self._live = live
        return live


def list_live_rows(form: LogLinearForm, blocks: list[RowBlock], chosen: IntArray) -> LiveRows:
    """List the rows of some blocks, numbered one after the other, where chosen features are live."""
    from conjoin.kernels.live_rows import list_live

    arrays = form.arrays
    next_row, next_word = np.zeros((2, len(arrays.test)), np.int64)

    def fill(row: ShortArray, word: ShortArray, mask: UIntArray) -> None:
        for number, block in enumerate(blocks):
            list_live(
                block.bits, arrays, chosen, number * WORDS, next_row, next_word, row, word, mask
            )

    fill(np.empty(0, np.uint16), np.empty(0, np.uint16), np.empty(0, np.uint64))
    order = arrays.column_entry[(next_row + next_word)[arrays.column_entry] > 0]
    row_first, word_first = (
        packed(np.concatenate([[0], np.cumsum(count[order])]), np.int64)
        for count in (next_row, next_word)
    )
    next_row[order], next_word[order] = row_first[:-1], word_first[:-1]
    row, word = np.empty(row_first[-1], np.uint16), np.empty(word_first[-1], np.uint16)
    mask = np.empty(len(word), np.uint64)
    fill(row, word, mask)
    numbers = np.arange(len(form.features.tests) + 1)
    return LiveRows(
        packed(np.searchsorted(arrays.test[order], numbers), np.int64),
        packed(arrays.entry_feature[order], np.int64),
        row_first, word_first, row, word, mask,
    )  # fmt: skip


def _evaluate_piece(
    scorer: ConditionalScorer, piece: _Piece, slopes: bool
) -> tuple[float, FloatArray]:
    """Return the summed log conditionals of some rows, and their gradient if it is asked for."""
    from conjoin.kernels.live_rows import score_rows

    block = piece.blocks[0]
    with one_thread():
        truth = lines = np.zeros((0, 0))
        if scorer.groups.needs_truth(block):
            truth = block.truth()
            lines = scorer.gains_without_bits(block, truth)
        sums = np.zeros(len(scorer.shared_gains) if slopes else 0)
        gradient = np.zeros(len(scorer.form.features) if slopes else 0)
        value = score_rows(
            piece.columns, piece.weights, scorer.arrays, piece.live_rows(), scorer.shared_gains,
            lines, sums, gradient,
        )  # fmt: skip
        if slopes:
            gradient += scorer.slopes(block, truth, lines, sums)
    return value, gradient


def _curvature_of_piece(scorer: ConditionalScorer, piece: _Piece) -> FloatArray:
    """Return a quarter of the weight of the rows where each feature is live."""
    from conjoin.kernels.live_rows import sum_all_live

    block, size = piece.blocks[0], len(scorer.shared_gains)
    quarter = piece.weights / 4
    total = np.zeros(len(scorer.form.features))
    sum_all_live(piece.live_rows(), quarter, total)
    truth = errors = np.zeros((0, 0))
    if scorer.groups.needs_truth(block):
        truth, errors = block.truth(), np.tile(quarter, (size, 1))
    return total + scorer.slopes(block, truth, errors, np.full(size, quarter.sum()))


def _similar_rows_together(features: Features, codes: Codes) -> IntArray:
    """Order rows so that rows that agree in the most tested variables are neighbours.

    Then most tests hold on all or none of the 64 rows of a word, and fewer words have to be visited.
    """
    used = np.bincount(features.entry_var, minlength=codes.shape[1])
    busiest = np.argsort(-used, kind="stable")[:16]
    return np.lexsort(codes[:, busiest[::-1]].T)
