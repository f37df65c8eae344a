"""The pseudo-log-likelihood of a table as a function of a network's weights (Section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.errors import ModelError
from conjoin.jobs import one_thread, run
from conjoin.models.features import Features
from conjoin.scoring.conditionals import BLOCK, Block, Layout, Weighted
from conjoin.weights.live import Live

BLOCKS = 8
"""How many blocks of rows are looked at together, where only conjunctions on bits are summed."""
MEMORY = 1 << 31
"""Lists of live rows are kept up to so many bytes; what is more is listed again every time."""


@dataclass(eq=False)
class _Piece:
    """Some of the rows, and what does not depend on the weights.

    Attributes
    ----------
    layout : Layout
        The features.
    blocks : list of Block
        The rows; one block if the layout's sums need its truth.
    weights : array of float
        The weight of each row, 0 for those that pad the blocks.
    keep : bool
        Whether to keep the list of live rows.
    """

    layout: Layout
    blocks: list[Block]
    weights: FloatArray
    keep: bool = True
    _live: Live | None = None

    @cached_property
    def columns(self) -> Codes:
        """The codes, variables by rows."""
        return np.concatenate([block.columns for block in self.blocks], axis=1)

    def live(self) -> Live:
        """Return on which rows each feature matters, where nothing is missing."""
        if self._live is not None:
            return self._live
        complete = [block for block in self.blocks if block.marginals is None]
        live = Live.of(self.layout, complete)
        if self.keep:
            self._live = live
        return live


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
        self.pieces: list[_Piece] = []
        for incomplete in (False, True):
            chosen = np.flatnonzero(lacking == incomplete)
            given = marginals if incomplete else None
            blocks, parts = [], []
            for low in range(0, len(chosen), BLOCK):
                part = chosen[low : low + BLOCK]
                blocks.append(Block(features, codes[part], given))
                parts.append(np.pad(weights[part], (0, BLOCK - len(part))))
            size = 1 if blocks and self.layout.needs_truth(blocks[0]) else BLOCKS
            for i in range(0, len(blocks), size):
                joined = np.concatenate(parts[i : i + size])
                self.pieces.append(_Piece(self.layout, blocks[i : i + size], joined))
        if self.pieces:
            kept = MEMORY // self.pieces[0].live().nbytes
            for piece in self.pieces[kept:]:
                piece.keep = False

    def value(self, weights: FloatArray) -> float:
        """Return the summed log conditionals."""
        return self._evaluate(weights, slopes=False)[0]

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the same with its gradient; of fixed weights it is 0."""
        total, gradient = self._evaluate(weights, slopes=True)
        gradient[~self.free] = 0.0
        if np.isnan(total):
            raise ModelError(
                "a row of the table is impossible under the network's hard constraints; "
                "weights cannot be learned from it"
            )
        return total, gradient

    def _evaluate(self, weights: FloatArray, *, slopes: bool) -> tuple[float, FloatArray]:
        weighted = Weighted(self.layout, weights)
        tasks = [(weighted, piece, slopes) for piece in self.pieces]
        total, gradient = 0.0, np.zeros(len(weights) if slopes else 0)
        for value, part in run(_evaluate, tasks, self.n_jobs):
            total += value
            gradient += part
        return total, gradient

    @property
    def free(self) -> BoolArray:
        """Which weights may change."""
        return np.isfinite(self.layout.features.weights)

    def curvature(self) -> FloatArray:
        """Return a rough second derivative by each weight: a quarter of the rows it can matter on."""
        total = np.zeros(len(self.layout.features))
        for piece in self.pieces:
            total += _spread(piece)
        return total


def _evaluate(weighted: Weighted, piece: _Piece, slopes: bool) -> tuple[float, FloatArray]:
    """Return the summed log conditionals of some rows, and their slopes if they are asked for."""
    from conjoin.kernels.live import score_rows

    layout, tests, live = weighted.layout, weighted.layout.features.tests, piece.live()
    block = piece.blocks[0]
    with one_thread():
        truth = lines = np.zeros((0, 0))
        if layout.needs_truth(block):
            truth = block.truth()
            lines = weighted.sums(block, truth)
        sums = np.zeros(len(tests) if slopes else 0)
        long = np.zeros(len(layout.parts[2]))
        value = score_rows(
            piece.columns, piece.weights, tests.cards, layout.test_first, layout.members,
            weighted.start, lines, live.test_first, live.lists, weighted.long[0], sums, long,
        )  # fmt: skip
        gradient = _slopes(piece, truth, lines, sums, long) if slopes else np.zeros(0)
    return value, gradient


def _slopes(
    piece: _Piece, truth: FloatArray, errors: FloatArray, sums: FloatArray, long: FloatArray
) -> FloatArray:
    """Put the slopes together: of features of one test, of conjunctions on bits, and of the rest."""
    layout = piece.layout
    out = layout.start_slopes(sums)
    out[layout.parts[2]] = long
    if len(truth):
        out += layout.slopes(piece.blocks[0], truth, errors)
    return out


def _spread(piece: _Piece) -> FloatArray:
    """Return a quarter of the weight of the rows that each feature can matter on."""
    from conjoin.kernels.live import sum_all_live

    layout, block, live, size = (
        piece.layout,
        piece.blocks[0],
        piece.live(),
        len(piece.layout.features.tests),
    )
    quarter = piece.weights / 4
    long = np.zeros(len(layout.parts[2]))
    sum_all_live(live.test_first, live.lists, quarter, long)
    truth = errors = np.zeros((0, 0))
    if layout.needs_truth(block):
        truth, errors = block.truth(), np.tile(quarter, (size, 1))
    return _slopes(piece, truth, errors, np.full(size, quarter.sum()), long)


def _sorted_rows(features: Features, codes: Codes) -> IntArray:
    """Order rows so that those alike in the variables tested most stand together.

    Then most tests hold on all or none of the 64 rows of a word, and fewer words need a look.
    """
    used = np.bincount(features.entry_var, minlength=codes.shape[1])
    busiest = np.argsort(-used, kind="stable")[:16]
    return np.lexsort(codes[:, busiest[::-1]].T)
