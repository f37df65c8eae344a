"""Tables as bits: for every state of every variable, one bit per row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Table
from conjoin.errors import DataError

FRACTION_BITS = 24
"""Weights that are not whole numbers are rounded to this many bits below the largest."""


@dataclass(frozen=True, eq=False)
class PackedTable:
    """A table in the form that the learning kernels read.

    Equal rows are merged. A row of weight w is stored once in the segment of 2^b for each bit b that is
    set in w, so that a weighted count is a few popcounts. Segments start at whole words of 64 rows; the
    rest of a word is padded with rows that have no values.
    """

    cards: IntArray  # the number of states of each variable
    # For each state of each variable, the rows that have it; only state 1 of a binary variable. A
    # binary variable with missing values also has a set of the rows on which it is known; shape
    # (sets, words)
    sets: UIntArray
    # set_var, set_state: the variable and the first state of each set; state -1 means "known"
    set_var: IntArray
    set_state: IntArray
    # The last state of each set: that of the sets of ordered variables (see `state_ranges`) may
    # differ from the first
    set_last: IntArray
    everyone: UIntArray  # all rows that are not padding; shape (words,)
    # The rows on which each variable is known; without words if nothing is missing; shape
    # (variables, words)
    known: UIntArray
    # segments, powers: the first word of each segment, and the weight of a row in it
    segments: IntArray
    powers: FloatArray
    weight: float  # the weight of all rows
    whole: bool  # whether all weights are whole numbers

    def rows_of(self, position: int) -> UIntArray:
        """Return the rows on which a variable is known, as bits."""
        return self.known[position] if self.known.shape[1] else self.everyone


def pack_table(table: Table) -> PackedTable:
    """Merge equal rows, spread their weights over powers of two, and pack every state into bits."""
    codes, weights = merge_rows(table.codes, table.weights)
    unit, whole = 1.0, bool((weights == np.round(weights)).all())
    if not whole:
        unit = 2.0 ** (np.floor(np.log2(weights.max())) - FRACTION_BITS)
    counts = np.round(weights / unit).astype(np.int64)
    if counts.sum() <= 0:
        raise DataError("the table has no rows of positive weight to learn from")

    place, segments, powers = _segments(counts)
    placed = codes[place]
    placed[place < 0] = table.missing
    columns = np.ascontiguousarray(placed.T)
    del placed  # as large as the table

    cards = table.domain.cards
    lacking = np.array([(column == table.missing).any() for column in codes.T], bool)
    set_var, set_state, set_last = _sets_of(cards, table.domain.ordered, lacking)
    sets = np.zeros((len(set_var), segments[-1]), np.uint64)
    limits = zip(set_var.tolist(), set_state.tolist(), set_last.tolist(), strict=True)
    for i, (var, state, last) in enumerate(limits):
        held = (columns[var] >= state) & (columns[var] <= last)
        sets[i] = pack_bits(held if state >= 0 else columns[var] != table.missing)
    known = np.zeros((len(cards), 0), np.uint64)
    if lacking.any():
        known = np.stack([pack_bits(column != table.missing) for column in columns])
    return PackedTable(
        cards,
        sets,
        set_var,
        set_state,
        set_last,
        pack_bits(place >= 0),
        known,
        segments,
        unit * powers,
        float(counts.sum() * unit),
        whole,
    )


def _segments(counts: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Spread rows over segments of equal weight, one for each power of two in the counts."""
    chosen, powers, segments = [np.zeros(0, np.int64)], [], [0]
    for bit in range(int(counts.max(initial=0)).bit_length()):
        rows = np.flatnonzero(counts >> bit & 1)
        if len(rows):
            words = -(-len(rows) // 64)
            chosen.append(np.append(rows, np.full(words * 64 - len(rows), -1)))
            powers.append(2.0**bit)
            segments.append(segments[-1] + words)
    return np.concatenate(chosen), np.array(segments, np.int64), np.array(powers, np.float64)


def state_ranges(
    cards: IntArray, ordered: BoolArray | None = None
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the variable, the first and the last state of everything that learning tests.

    These are all states, of two states the second. Of an ordered variable they are followed by all states
    up to one, unless that is the first or the last but one: single states tell these apart, too.
    """
    ranges = []
    for var, card in enumerate(cards.tolist()):
        ranges += [(var, state, state) for state in ([1] if card == 2 else range(card))]
        if ordered is not None and ordered[var]:
            ranges += [(var, 0, last) for last in range(1, card - 2)]
    columns = np.array(ranges, np.int64).reshape(-1, 3).T
    return columns[0].copy(), columns[1].copy(), columns[2].copy()


def _sets_of(
    cards: IntArray, ordered: BoolArray, lacking: BoolArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the variable, the first and the last state of each set of a table."""
    var, first, last = state_ranges(cards, ordered)
    more = np.flatnonzero(lacking & (cards == 2))
    everything = np.concatenate([var, more])
    order = np.argsort(everything, kind="stable")
    known = np.full(len(more), -1)
    return (
        everything[order],
        np.concatenate([first, known])[order],
        np.concatenate([last, known])[order],
    )


def pack_bits(truth: BoolArray) -> UIntArray:
    """Pack booleans, a multiple of 64 of them, into words of 64 bits."""
    return np.packbits(truth, bitorder="little").view("<u8").astype(np.uint64, copy=False)
