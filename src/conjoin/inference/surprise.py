"""What is odd in a table: cells that are improbable given the rest of their rows.

The surprise of a cell is the logarithm of how much more probable the most probable value is than the one
that the cell holds, both given the rest of the row. A rare value in a column of many rare values is
therefore no surprise, and neither is a value that is as good as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.columns import Column
from conjoin.data.domain import Domain
from conjoin.data.frames import columns_of
from conjoin.data.labels import shown
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import code_dtype
from conjoin.errors import DataError, did_you_mean, names_lack_of_memory
from conjoin.inference.completion import Completion
from conjoin.inference.engines import known_of
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.number_distribution import NumberDistribution
from conjoin.models.mixed import MixedNetwork
from conjoin.models.network import Network
from conjoin.progress import progress

SHOWN = 20
"""Maximum number of cells that are printed."""

LEVEL = 0.8
"""The probability of the range that is expected of a number."""


@dataclass(frozen=True)
class Surprise:
    """A cell of a table.

    Attributes
    ----------
    row : int
        The row, counted from 0.
    column : str
        The column.
    value : object
        What the cell holds.
    probability : float
        The probability of this value given the rest of the row; 0 if the model does not know the value.
        That of a number is the probability of the value as recorded, to the step of its column.
    suggestion : object
        The most probable value given the rest of the row.
    suggested_probability : float
        Its probability.
    surprise : float
        The base-2 logarithm of how much more probable the suggestion is, in bits.
    """

    row: int
    column: str
    value: Any
    probability: float
    suggestion: Any
    suggested_probability: float

    @property
    def surprise(self) -> float:
        """The base-2 logarithm of how much more probable the suggestion is, in bits."""
        if self.probability == 0:
            return np.inf
        return float(np.log2(self.suggested_probability / self.probability))


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
        gap = np.concatenate([part.gap for part in found])
        order = np.lexsort((columns, rows, -gap))
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
            return [self[i] for i in range(*at.indices(len(self)))]
        part = self._found[self.columns[at]]
        i = int(self._at[at])
        return Surprise(
            int(self.rows[at]),
            self.names[self.columns[at]],
            part.value(i),
            float(part.probability[i]),
            part.suggestions[part.best[i]],
            float(part.best_probability[i]),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def words(self, at: int, first_row: int = 0) -> str:
        """Return a cell in words, with what was expected instead: of a number, a range.

        Parameters
        ----------
        at : int
            The place of the cell among all.
        first_row : int
            The number of the first row.
        """
        cell, part = self[at], self._found[self.columns[at]]
        start = f"row {cell.row + first_row}: {shown(cell.column)}={shown(cell.value)}"
        expected = f"{shown(cell.suggestion)} ({cell.suggested_probability:.2g})"
        if part.number is None:
            return f"{start} ({cell.probability:.2g}), rather {expected}"
        answer = part.number(int(self._at[at]))
        low, high = answer.interval(LEVEL)
        if low != high:
            ends = (answer.scale.short(answer.scale.number(end)) for end in (low, high))
            expected = f"{' to '.join(ends)} ({LEVEL:.0%})"
        if not cell.probability:
            return f"{start} (0), rather {expected}"
        tails = answer.cdf(cell.value), 1 - answer.cdf(cell.value, strict=True)
        return f"{start} ({min(1.0, 2 * min(tails)):.2g} as extreme), rather {expected}"

    def __repr__(self) -> str:
        lines = [self.words(at) for at in range(min(len(self), SHOWN))]
        if len(self) > SHOWN:
            lines.append(f"... and {len(self) - SHOWN:,} more cells")
        return "\n".join(lines) or "no known cells"


@dataclass(frozen=True, eq=False)
class _Cells:
    """The known cells of one column: probabilities, suggestions and values."""

    rows: IntArray
    suggestions: Sequence[Any]
    raw: Column
    probability: FloatArray
    best: IntArray
    best_probability: FloatArray
    exact: bool
    number: Callable[[int], NumberDistribution] | None = None  # given the rest of the row

    @property
    def gap(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.best_probability) - np.log(self.probability)

    def value(self, i: int) -> Any:
        """Return what a cell holds, as it was written."""
        return self.raw.labels[self.raw.codes[self.rows[i]]]


@names_lack_of_memory
def surprises(model: Any, table: Any, *, random_state: int = 0) -> Surprises:
    """Rank the cells of a table by how improbable they are given the rest of their rows.

    Parameters
    ----------
    model : Network, MixedNetwork or JointModel
        The model, which may have been learned from the same table.
    table : Table, MixedTable, 2-dimensional array, or frame
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
    own = getattr(model, "model_", model)
    if not isinstance(own, MixedNetwork):
        own, _ = known_of(model)
    rows = table.as_states() if isinstance(table, MixedTable) else table
    return column_surprises(own, columns_of(rows), random_state)


def column_surprises(
    model: Network | MixedNetwork, columns: Sequence[Column], random_state: int
) -> Surprises:
    """Rank the cells of columns (see `surprises`)."""
    if isinstance(model, MixedNetwork):
        return _mixed_surprises(model, columns)
    domain = model.domain.observed
    by_name = {column.name: column for column in columns}
    present = [v for v, name in enumerate(domain.names) if name in by_name]
    _check(by_name, domain.names, present)
    rows = len(columns[0].codes)
    codes = np.full((rows, len(domain)), -1, np.int64)
    for v in present:
        column = by_name[domain.names[v]]
        found = column.find_in(domain.variables[v], strict=False)
        codes[:, v] = np.append(found, -1)[column.codes]
    cells = []
    for v in progress(present, "checking columns"):
        raw = by_name[domain.names[v]]
        at = np.flatnonzero(raw.codes >= 0)
        p, exact = _given_the_rest(model, domain, codes[at], v, random_state)
        own = codes[at, v]
        probability = np.where(own >= 0, p[np.arange(len(at)), own], 0.0)
        best = p.argmax(axis=1)
        top = p[np.arange(len(at)), best]
        states = domain.variables[v].states
        cells.append(_Cells(at, states, raw, probability, best, top, exact))
    return Surprises(tuple(domain.names[v] for v in present), cells)


def _check(by_name: dict[str, Column], names: Sequence[str], present: Sequence[Any]) -> None:
    if not present:
        first = next(iter(by_name), "")
        raise DataError(
            "the table has none of the columns of the model. " + did_you_mean(first, names)
        )


def _mixed_surprises(model: MixedNetwork, columns: Sequence[Column]) -> Surprises:
    """Rank the cells of a table with numbers; a number is compared with the most probable one."""
    by_name = {column.name: column for column in columns}
    present = [name for name in model.names if name in by_name]
    _check(by_name, model.names, present)
    table = MixedTable.like(model.domain, columns, strict=False)
    cells = []
    for name in progress(present, "checking columns"):
        raw = by_name[name]
        at = np.flatnonzero(raw.codes >= 0)
        part = table.select(at)
        answers, rows = MixedAnswers(model, part), np.arange(len(at))
        number = None
        if name in model.domain.numeric:
            number = _number_of(answers, name)
            found, values = answers.number(name), part.column(name)
            known = ~np.isnan(values)
            modes = found.mode()
            probability = np.where(
                known, np.exp(found.log_mass(np.where(known, values, modes))), 0.0
            )
            scale = model.scale(name)
            suggestions: Sequence[Any] = [scale.value(x) for x in modes.tolist()]
            best, top = rows, np.maximum(np.exp(found.log_mass(modes)), probability)
        else:
            p = answers.category(name)
            own = part.categories.codes[:, model.domain.categories.index(name)].astype(np.int64)
            known = own != part.categories.missing
            probability = np.where(known, p[rows, np.where(known, own, 0)], 0.0)
            best = p.argmax(axis=1)
            top, suggestions = p[rows, best], model.domain.categories[name].states
        cells.append(_Cells(at, suggestions, raw, probability, best, top, True, number))
    return Surprises(tuple(present), cells)


def _number_of(answers: MixedAnswers, name: str) -> Callable[[int], NumberDistribution]:
    return lambda row: answers.select(np.array([row])).number(name)[0]


def _given_the_rest(
    model: Network, domain: Domain, codes: IntArray, v: int, random_state: int
) -> tuple[FloatArray, bool]:
    """Return the distribution of a variable given the rest of each row, and whether all are exact."""
    missing = codes < 0
    missing[:, v] = False
    dtype = code_dtype(domain.cards)
    rows = np.where(codes < 0, np.iinfo(dtype).max, codes).astype(dtype)
    result = np.empty((len(rows), int(domain.cards[v])))
    holes = missing.any(axis=1)
    full = np.flatnonzero(~holes)
    if len(full):
        complete = rows[full]
        complete[:, v] = 0
        result[full] = np.nan_to_num(model.conditional(domain.names[v], complete))
    rest, exact = np.flatnonzero(holes), True
    if len(rest):
        open_rows = rows[rest]
        open_rows[:, v] = np.iinfo(dtype).max
        result[rest], sure = Completion(model, open_rows, random_state).marginals(v)
        exact = bool(sure.all())
    return result, exact
