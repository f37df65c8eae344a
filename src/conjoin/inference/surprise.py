"""What is odd in a table: cells that are improbable given the rest of their rows.

A cell is as improbable as all values together that are no more probable than the one that it holds, given
the rest of the row. Of a number these are the values that are at least as extreme, so that numbers and
categories have one scale. Its surprise is the logarithm of how much more probable the most probable
value is. A rare value in a column of many rare values is therefore no surprise, and neither is a value
that is as good as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.columns import Column, table_of_columns
from conjoin.data.frames import columns_of
from conjoin.data.labels import shown
from conjoin.errors import DataError, did_you_mean, names_lack_of_memory
from conjoin.inference.engines import joint_of
from conjoin.inference.joint_rows import JointRows
from conjoin.inference.number_distribution import TIE, NumberDistributions
from conjoin.models.network import Network
from conjoin.progress import progress

SHOWN = 20
"""Maximum number of cells that are printed."""

LEVEL = 0.8
"""The probability of the range that is expected of a number."""

CELLS_AT_ONCE = 1 << 12
"""Number of cells whose suggestions are found together."""

SMALLEST = 1e-300
"""Numbers are at least as probable as this, and unlike unknown values not impossible."""


@dataclass(frozen=True)
class Surprise:
    """A cell of a table."""

    row: int  # the position of the row, counted from 0: ``frame.iloc[row]``
    column: str  # the column
    value: Any  # what the cell holds
    # The probability of this value given the rest of the row; 0 if the model does not know the
    # value. That of a number is the probability of the value as recorded, to the step of its column
    probability: float
    # The probability of all values that are as improbable as this one or more so, given the rest of
    # the row; of a number, of those that are at least as extreme (see `NumberDistributions.tails`)
    tail: float
    # The most probable state given the rest of the row; of a number, the median, which lies in the
    # range that `Surprises.words` states
    suggestion: Any
    suggested_probability: float  # its probability
    # The base-2 logarithm of how much more probable the most probable state is than `tail`, in
    # bits; 0 if `tail` is more. Frequent numbers with a probability of their own count as states,
    # and all other numbers together as one more
    surprise: float


class Surprises(Sequence[Surprise]):
    """The known cells of a table, the most surprising one first.

    Attributes
    ----------
    rows, columns : array of int
        Where the cells are, counted from 0; `columns` are positions in `names`.
    names : tuple of str
        The columns.
    exact : bool
        Whether no probability was sampled.
    """

    def __init__(self, names: tuple[str, ...], found: list[_Cells]) -> None:
        self.names = names
        self.exact = all(part.exact for part in found)
        rows = np.concatenate([part.rows for part in found])
        columns = np.repeat(np.arange(len(found)), [len(part.rows) for part in found])
        bits = np.concatenate([part.bits for part in found])
        order = np.lexsort((columns, rows, -bits))
        self.rows, self.columns = rows[order], columns[order]
        self._found = found
        first = np.cumsum([0] + [len(part.rows) for part in found])
        self._at = (np.arange(len(rows)) - first[columns])[order]

    @overload
    def __getitem__(self, at: int) -> Surprise: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Surprise]: ...
    def __getitem__(self, at: int | slice) -> Surprise | Sequence[Surprise]:
        if isinstance(at, slice):
            return self._cells(np.arange(*at.indices(len(self))))
        if not -len(self) <= at < len(self):
            raise IndexError(f"there are {len(self)} cells, and none at {at}")
        return self._cells(np.array([at % len(self)]))[0]

    def __iter__(self) -> Iterator[Surprise]:
        for low in range(0, len(self), CELLS_AT_ONCE):
            yield from self[low : low + CELLS_AT_ONCE]

    def _cells(self, places: IntArray) -> list[Surprise]:
        """Return some cells; the suggestions for those of a column are found together."""
        result: dict[int, Surprise] = {}
        for c in np.unique(self.columns[places]).tolist():
            part, own = self._found[c], places[self.columns[places] == c]
            inside = self._at[own]
            for place, i, (value, p) in zip(
                own.tolist(), inside.tolist(), part.suggested(inside), strict=True
            ):
                result[place] = Surprise(
                    int(part.rows[i]), self.names[c], part.value(i), float(part.probability[i]),
                    float(part.tails[i]), value, p, float(part.bits[i]),
                )  # fmt: skip
        return [result[place] for place in places.tolist()]

    def __len__(self) -> int:
        return len(self.rows)

    def words(self, at: int, first_row: int = 0) -> str:
        """Return a cell in words, with what was expected instead: of a number, a range."""
        part, i = self._found[self.columns[at]], int(self._at[at])
        column, value = self.names[self.columns[at]], part.value(i)
        start = f"row {self.rows[at] + first_row}: {shown(column)}={shown(value)}"
        extreme = " as extreme" if part.number is not None and part.tails[i] else ""
        expected, p = self.expected(at)
        sure = f"{p:.0%}" if part.number is not None and p == LEVEL else f"{p:.2g}"
        return f"{start} ({part.tails[i]:.2g}{extreme}), rather {expected} ({sure})"

    def expected(self, at: int) -> tuple[str, float]:
        """Return what was expected of a cell, and its probability: a state, or a range of a number."""
        part, i = self._found[self.columns[at]], int(self._at[at])
        if part.number is not None:
            answer = part.number(np.array([i]))[0]
            low, high = answer.interval(LEVEL)
            if low != high:
                ends = (answer.scale.short(answer.scale.number(end)) for end in (low, high))
                return " to ".join(ends), LEVEL
        ((value, p),) = part.suggested(np.array([i]))
        return shown(value), p

    def __repr__(self) -> str:
        lines = [self.words(at) for at in range(min(len(self), SHOWN))]
        if len(self) > SHOWN:
            lines.append(f"... and {len(self) - SHOWN:,} more cells")
        return "\n".join([*lines, "(rows are counted from 0)"] if lines else ["no known cells"])


@dataclass(frozen=True, eq=False)
class _Cells:
    """The known cells of one column."""

    rows: IntArray  # their rows
    raw: Column  # the column as it was written
    # probability, tails, best: the probability of each value, of those no more probable, and of the
    # most probable state
    probability: FloatArray
    tails: FloatArray
    best: FloatArray
    # Returns the most probable states, or the medians, of some of the cells, with their
    # probabilities
    suggested: Callable[[IntArray], list[tuple[Any, float]]]
    exact: bool = True  # whether no probability was sampled
    # For a column of numbers, returns the distributions of some of the cells
    number: Callable[[IntArray], NumberDistributions] | None = None

    @classmethod
    def of_states(
        cls, rows: IntArray, raw: Column, states: Sequence[Any], p: FloatArray, own: IntArray,
        exact: bool,
    ) -> _Cells:  # fmt: skip
        """Return the cells of a column of states: p is rows by states, unknown values are -1."""
        at = np.arange(len(rows))
        probability = np.where(own >= 0, p[at, own], 0.0)
        rarer = p <= probability[:, None] * (1 + TIE)
        top = p.argmax(axis=1)
        best = p[at, top]

        def suggested(cells: IntArray) -> list[tuple[Any, float]]:
            return [(states[top[i]], float(best[i])) for i in cells.tolist()]

        return cls(rows, raw, probability, (p * rarer).sum(axis=1), best, suggested, exact)

    @classmethod
    def of_numbers(
        cls, rows: IntArray, raw: Column, values: FloatArray, answers: JointRows, name: str
    ) -> _Cells:
        """Return the cells of a column of numbers; values that are no numbers are NaN."""
        found, known = answers.number(name), ~np.isnan(values)
        safe = np.where(known, values, found.scale.low)
        tails, best = found.tails(safe)

        def number(cells: IntArray) -> NumberDistributions:
            return answers.select(cells).number(name)

        def suggested(cells: IntArray) -> list[tuple[Any, float]]:
            part = number(cells)
            medians = part.median()
            p = np.exp(part.log_mass(medians))
            return [
                (part.scale.own(x), y) for x, y in zip(medians.tolist(), p.tolist(), strict=True)
            ]

        return cls(
            rows, raw, np.where(known, np.exp(found.log_mass(safe)), 0.0),
            np.where(known, np.maximum(tails, SMALLEST), 0.0), best, suggested, number=number,
        )  # fmt: skip

    @cached_property
    def bits(self) -> FloatArray:
        """The surprise of each cell."""
        with np.errstate(divide="ignore"):
            return np.maximum(np.log2(self.best) - np.log2(self.tails), 0.0)

    def value(self, i: int) -> Any:
        """Return what a cell holds, as it was written."""
        return self.raw.labels[self.raw.codes[self.rows[i]]]


@names_lack_of_memory
def surprises(model: Any, table: Any, *, random_state: int = 0) -> Surprises:
    """Rank the cells of a table by how improbable they are given the rest of their rows.

    Parameters
    ----------
    model : Network or JointModel
        The model, which may have been learned from the same table.
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are summed out. Columns that the model does not know are ignored; values
        that it does not know have probability 0.
    random_state : int
        The seed, for rows that are too large for exact inference.

    Returns
    -------
    surprises : Surprises
        A sequence of all known cells, the most surprising one first, each with the value that the model
        would rather have seen.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import JointModel
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 3, 500)
    >>> table = np.stack([a, a, 2 - a], axis=1)
    >>> table[7, 1] = (table[7, 1] + 1) % 3  # a typing error
    >>> found = surprises(JointModel().fit(table), table)[0]
    >>> found.row, found.column, bool(found.suggestion == a[7])
    (7, 'v1', True)
    """
    joint = joint_of(model)
    return column_surprises(joint, columns_of(table, domain=joint.domain), random_state)


def column_surprises(model: Network, columns: Sequence[Column], random_state: int) -> Surprises:
    """Rank the cells of columns (see `surprises`)."""
    domain = model.domain.observed
    by_name = {column.name: column for column in columns}
    present = [name for name in domain.names if name in by_name]
    _check(by_name, domain.names, present)
    rows = len(columns[0].codes)
    none = Column("", np.full(rows, -1, np.int64), [], lacking=True)
    given = [by_name.get(name, none.renamed(name)) for name in domain.names]
    table = table_of_columns(given, domain, strict=False)
    cells = []
    for name in progress(present, "checking columns"):
        raw, v = by_name[name], domain.index(name)
        at = np.flatnonzero(raw.codes >= 0)
        answers = JointRows(model, table.select(at), random_state)
        if name in domain.numeric and table.numbers is not None:
            values = table.column(name)[at]
            cells.append(_Cells.of_numbers(at, raw, values, answers, name))
        else:
            found = answers.answer(name)
            states, own = domain.variables[v].states, answers.codes[:, v]
            cells.append(_Cells.of_states(at, raw, states, found.p, own, bool(found.exact.all())))
    return Surprises(tuple(present), cells)


def _check(by_name: dict[str, Column], names: Sequence[str], present: Sequence[Any]) -> None:
    if not present:
        first = next(iter(by_name), "")
        raise DataError(
            "the table has none of the columns of the model. " + did_you_mean(first, names)
        )
