"""`MixedTable`: a table of categories and numbers, and `MixedDomain`, its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, read_only
from conjoin.data.column_kinds import chosen_kinds
from conjoin.data.columns import Column, check_names, table_of_columns
from conjoin.data.discretization import discretize_by
from conjoin.data.discretizer import Discretizer
from conjoin.data.domain import Domain, Variable
from conjoin.data.labels import shown
from conjoin.data.number_scale import NumberScale
from conjoin.data.table import Table
from conjoin.errors import DataError, UnknownColumnError


@dataclass(frozen=True)
class MixedDomain:
    """The columns of a table: categories with their states, and numbers with their scales.

    Attributes
    ----------
    categories : Domain
        The columns of states, without hidden ones.
    scales : tuple of NumberScale
        The columns of numbers.
    names : tuple of str
        All columns in the order of the table.
    """

    categories: Domain
    scales: tuple[NumberScale, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        own = [*self.categories.names, *(scale.name for scale in self.scales)]
        if sorted(own) != sorted(self.names) or len(set(own)) < len(own):
            raise DataError("the names of a table must be those of its categories and numbers")

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(scale.name for scale in self.scales)

    @property
    def observed(self) -> MixedDomain:
        """The columns of tables: all."""
        return self

    def scale(self, name: str) -> NumberScale:
        """Return the scale of a column of numbers."""
        self.check(name)
        for scale in self.scales:
            if scale.name == name:
                return scale
        raise DataError(f"column {name!r} has states, not numbers")

    def check(self, name: str) -> None:
        """Raise an error if there is no such column."""
        if name not in self.names:
            raise UnknownColumnError(name, self.names, "column")

    def subset(self, names: Collection[str]) -> MixedDomain:
        """Return the domain of some of the columns, in the same order."""
        at = [i for i, name in enumerate(self.categories.names) if name in names]
        return MixedDomain(
            self.categories.subset(at),
            tuple(scale for scale in self.scales if scale.name in names),
            tuple(name for name in self.names if name in names),
        )

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class MixedTable:
    """A table of categories and numbers.

    Attributes
    ----------
    domain : MixedDomain
        The columns.
    categories : Table
        The columns of states, with the weights of the rows.
    numbers : array, shape (rows, columns of numbers)
        The numbers, NaN where one is missing; read-only.

    Examples
    --------
    >>> columns = {"age": np.arange(30, 60), "group": ["a", "b"] * 15}
    >>> table = MixedTable.of_columns([Column.of_values(n, v) for n, v in columns.items()])
    >>> table
    <MixedTable: 30 rows of 1 category and 1 number>
    >>> table.scales[0].name, table.numbers[:3, 0]
    ('age', array([30., 31., 32.]))
    """

    domain: MixedDomain
    categories: Table
    numbers: FloatArray

    def __post_init__(self) -> None:
        if self.categories.domain != self.domain.categories:
            raise DataError("the categories of the table are not those of its domain")
        shape = len(self.categories), len(self.domain.scales)
        if self.numbers.shape != shape:
            raise DataError(f"the numbers have the shape {self.numbers.shape}, not {shape}")
        object.__setattr__(self, "numbers", read_only(self.numbers.astype(np.float64, copy=False)))

    @classmethod
    def of_columns(
        cls,
        columns: Sequence[Column],
        *,
        include: Collection[str] | str = (),
        exclude: Collection[str] | str = (),
        kinds: Mapping[str, str] | None = None,
        text: bool = False,
        weights: npt.ArrayLike | None = None,
    ) -> MixedTable:
        """Find out what each column is (see `chosen_kinds`), and make a table of them."""
        check_names([column.name for column in columns])
        found = chosen_kinds(columns, include=include, exclude=exclude, kinds=kinds)
        kept = [column for column in columns if column.name in found]
        numeric = [c for c in kept if found[c.name] in ("number", "date")]
        scales = tuple(NumberScale.of(column.name, column.labels) for column in numeric)
        coded = [column for column in kept if column not in numeric]
        table = _table(coded, None, len(columns[0].codes), weights, text=text)
        names = tuple(column.name for column in kept)
        numbers = [_numbers(c, s) for c, s in zip(numeric, scales, strict=True)]
        return cls(MixedDomain(table.domain, scales, names), table, _stacked(numbers, len(table)))

    @classmethod
    def like(
        cls, domain: MixedDomain, columns: Sequence[Column], *, strict: bool = True
    ) -> MixedTable:
        """Return columns as a table of a given domain; other columns are ignored.

        A value that is not a state or a number is an error if `strict` and otherwise missing. Columns
        that are absent are missing in all rows.
        """
        check_names([column.name for column in columns])
        rows = len(columns[0].codes)
        given = {column.name: column for column in columns}
        empty = Column("", np.full(rows, -1, np.int64), [])
        coded = [given.get(name, empty.renamed(name)) for name in domain.categories.names]
        table = _table(coded, domain.categories, rows, None, strict=strict)
        numbers = [
            _numbers(given.get(scale.name, empty), scale, strict=strict) for scale in domain.scales
        ]
        return cls(domain, table, _stacked(numbers, rows))

    @property
    def scales(self) -> tuple[NumberScale, ...]:
        """The scales of the columns of numbers."""
        return self.domain.scales

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in the order of the user's table."""
        return self.domain.names

    @property
    def weights(self) -> FloatArray | None:
        """The weights of the rows, or None."""
        return self.categories.weights

    @cached_property
    def holes(self) -> BoolArray:
        """Which values are missing, rows by all columns in the order of the table."""
        own: dict[str, BoolArray] = {}
        for i, name in enumerate(self.categories.domain.names):
            own[name] = self.categories.codes[:, i] == self.categories.missing
        for i, name in enumerate(self.domain.numeric):
            own[name] = np.isnan(self.numbers[:, i])
        return np.stack([own[name] for name in self.names], axis=1)

    def column(self, name: str) -> FloatArray:
        """Return the numbers of a column."""
        return np.asarray(self.numbers[:, self.domain.numeric.index(name)])

    def warn_of_far_numbers(self, target: str | None = None) -> None:
        """Warn, once per column, of numbers far outside it; those of `target` are no evidence.

        Warns
        -----
        DataWarning
            A column has numbers far outside those that were recorded (see `NumberScale.is_far`).
        """
        for scale in self.scales:
            far = np.unique(self.column(scale.name)[scale.is_far(self.column(scale.name))])
            if len(far) and scale.name != target:
                middle = (scale.low + scale.high) / 2
                many = f"{len(far) - 1:,} other value{'s' if len(far) > 2 else ''}"
                others = f" (and {many})" if len(far) > 1 else ""
                value = scale.short(far[np.abs(far - middle).argmax()])
                scale.warn_of_far(f"{shown(scale.name)}={shown(value)}{others}")

    def select(self, rows: IntArray | BoolArray) -> MixedTable:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        part = Table.adopt(self.categories.domain, self.categories.codes[rows], weights)
        return MixedTable(self.domain, part, self.numbers[rows])

    def with_rows(self, other: MixedTable) -> MixedTable:
        """Return the table with the rows of another one of the same columns below its own."""
        if other.domain.categories != self.domain.categories or other.names != self.names:
            raise DataError("the tables have different columns or states")
        weights = None
        if self.weights is not None or other.weights is not None:
            both = [np.ones(len(t)) if t.weights is None else t.weights for t in (self, other)]
            weights = np.concatenate(both)
        codes = np.concatenate([self.categories.codes, other.categories.codes])
        numbers = np.concatenate([self.numbers, other.numbers])
        scales = tuple(scale.covering(numbers[:, i]) for i, scale in enumerate(self.scales))
        domain = MixedDomain(self.domain.categories, scales, self.names)
        return MixedTable(domain, Table.adopt(domain.categories, codes, weights), numbers)

    def weighted(self, weights: npt.ArrayLike | None) -> MixedTable:
        """Return the table with other weights."""
        table = Table.adopt(self.categories.domain, self.categories.codes, weights)
        return MixedTable(self.domain, table, self.numbers)

    def as_states(self) -> Table:
        """Return the table with every distinct number as a state; dates are numbers, too.

        Examples
        --------
        >>> table = MixedTable.of_columns([Column.of_values("x", np.arange(25) / 2)])
        >>> table.as_states().domain["x"].states[:3]
        (0.0, 0.5, 1.0)
        """
        codes = [self.categories.codes[:, i] for i in range(len(self.categories.domain))]
        columns = {
            v.name: (v, np.where(c == self.categories.missing, -1, c.astype(np.int64)))
            for v, c in zip(self.categories.domain, codes, strict=True)
        }
        for scale in self.scales:
            x = self.column(scale.name)
            known = ~np.isnan(x)
            values, places = np.unique(x[known], return_inverse=True)
            own = np.full(len(x), -1, np.int64)
            own[known] = places
            states = values.astype(np.int64) if scale.integer else values
            columns[scale.name] = Variable(scale.name, states.tolist() or [0]), own
        chosen = [columns[name] for name in self.names]
        stacked = np.stack([own for _, own in chosen], axis=1)
        return Table(Domain(variable for variable, _ in chosen), stacked, self.weights)

    def binned(self, how: str | Mapping[str | None, Any] | Discretizer) -> Table:
        """Return the table with its numbers cut into bins (see `discretize_by`).

        Bins of dates have dates in their labels.
        """
        table, _ = discretize_by(self.as_states(), how)
        variables = list(table.domain)
        for scale in self.scales:
            i = table.domain.index(scale.name)
            cuts = variables[i].cuts
            if scale.kind != "number" and cuts is not None:
                variables[i] = Variable(scale.name, _date_labels(scale, cuts), cuts)
        return Table.adopt(Domain(variables), table.codes, table.weights)

    def __len__(self) -> int:
        return len(self.categories)

    def __repr__(self) -> str:
        a, b = len(self.categories.domain), len(self.scales)
        categories = f"{a} categor{'y' if a == 1 else 'ies'}"
        return f"<MixedTable: {len(self):,} rows of {categories} and {b} number{'s' * (b != 1)}>"


def _date_labels(scale: NumberScale, cuts: Sequence[float]) -> list[str]:
    """Return labels of bins of dates: "until 2024-03-01", "2024-03-02 to 2024-03-09", "from ..."."""
    starts = [scale.short(cut) for cut in cuts]
    if scale.kind == "datetime":
        ends = starts
    else:
        ends = [scale.short(np.ceil(cut) - 1) for cut in cuts]
        ends[-1] = starts[-1]
    return [f"{a} to {b}" if a != b else a for a, b in zip(starts[:-1], ends[1:], strict=True)]


def _table(
    columns: Sequence[Column],
    domain: Domain | None,
    rows: int,
    weights: npt.ArrayLike | None,
    **options: bool,
) -> Table:
    """Return the table of categories, which may have no column."""
    if not columns:
        return Table.adopt(Domain([]), np.empty((rows, 0), np.uint8), weights)
    table = table_of_columns(columns, domain, **options)
    return table if weights is None else Table.adopt(table.domain, table.codes, weights)


def _numbers(column: Column, scale: NumberScale, *, strict: bool = True) -> FloatArray:
    """Return the number in each row of a column."""
    try:
        found = scale.numbers(column.labels)
        if np.isinf(found).any():
            raise DataError(f"column {scale.name!r} has an infinite value; mark it as missing")
    except DataError:
        found = np.array([_number_or_nan(label, scale) for label in column.labels], np.float64)
        wrong = np.isin(column.codes, np.flatnonzero(np.isnan(found)))
        if strict and wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            label = column.labels[column.codes[row]]
            raise DataError(
                f"row {row + 1}, column {scale.name!r}: {label!r} is not a finite number or date"
            ) from None
    return np.append(found, np.nan)[column.codes]  # code -1, a missing value, is the last one


def _number_or_nan(label: Any, scale: NumberScale) -> float:
    try:
        found = scale.number(label)
    except DataError:
        return np.nan
    return found if np.isfinite(found) else np.nan


def _stacked(columns: Sequence[FloatArray], rows: int) -> FloatArray:
    return np.stack(columns, axis=1) if columns else np.empty((rows, 0))
