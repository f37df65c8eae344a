"""The rows on which each feature is live, listed once for many weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import IntArray, UIntArray
from conjoin.scoring.conditionals import WORDS, Block, Layout

Rows = npt.NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Live:
    """For each test of each conjunction, the rows where all its other tests hold.

    Attributes
    ----------
    test_first : array of int, shape (tests + 1,)
        The first list of each test.
    feature : array of int
        The feature of each list, by its place among the layout's conjunctions.
    single, whole : arrays of int
        Where each list starts in `rows`, and in `words` and `masks`.
    rows : array of uint16
        Rows that are listed one by one.
    words, masks : arrays of uint16 and uint64
        Words of 64 rows, and which of them.
    """

    test_first: IntArray
    feature: npt.NDArray[np.int32]
    single: IntArray
    whole: IntArray
    rows: Rows
    words: Rows
    masks: UIntArray

    @classmethod
    def of(cls, layout: Layout, blocks: list[Block]) -> Live:
        """List the live rows of some blocks, one after the other; of none, nothing is live."""
        from conjoin.kernels.live_rows import list_live

        hard = layout.long[0]
        single, whole = np.zeros((2, len(hard.indices)), np.int64)

        def fill(rows: Rows, words: Rows, masks: UIntArray) -> None:
            for number, block in enumerate(blocks):
                first = number * WORDS
                list_live(
                    block.bits, hard.indptr, hard.indices, first, single, whole, rows, words, masks
                )

        fill(np.empty(0, np.uint16), np.empty(0, np.uint16), np.empty(0, np.uint64))
        order = np.argsort(hard.indices, kind="stable")
        order = order[(single + whole)[order] > 0]
        starts = []
        for count in (single, whole):
            first = np.concatenate([[0], np.cumsum(count[order])])
            starts.append(first)
            count[order] = first[:-1]
        rows = np.empty(starts[0][-1], np.uint16)
        words = np.empty(starts[1][-1], np.uint16)
        masks = np.empty(len(words), np.uint64)
        fill(rows, words, masks)
        test_first = np.searchsorted(hard.indices[order], np.arange(len(layout.features.tests) + 1))
        feature = hard.entry_feature[order].astype(np.int32)
        return cls(test_first, feature, starts[0], starts[1], rows, words, masks)

    @property
    def lists(self) -> tuple[npt.NDArray[np.generic], ...]:
        """All arrays but the first, as the kernels take them."""
        return self.feature, self.single, self.whole, self.rows, self.words, self.masks

    @property
    def nbytes(self) -> int:
        """The memory that the lists take."""
        return self.test_first.nbytes + sum(part.nbytes for part in self.lists)
