"""Columns of labels, from any source, become the coded columns of a table."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, distinct
from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import is_missing, plain, typed_key
from conjoin.data.number_scale import LARGEST_INTEGER, NumberScale
from conjoin.data.number_states import NumberStates
from conjoin.data.table import Table
from conjoin.errors import DataError, DataWarning, did_you_mean

LONGEST_NUMBER = 1000
"""A text of more characters is not a number."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column, with its distinct labels listed once."""

    name: str
    codes: IntArray  # the number of each row's label, -1 where the value is missing
    labels: list[Any]  # the distinct labels; some may not occur
    ordered: bool = False  # whether the order of the labels has a meaning
    variable: Variable | None = None  # whose states the labels are, if that is settled
    lacking: bool = False  # whether the table has no such column, so that all of it is unknown

    @classmethod
    def of_values(cls, name: str, values: Iterable[Any]) -> Column:
        """List the distinct values among any Python objects."""
        numbers: dict[Any, int] = {}
        labels: list[Any] = []
        codes: list[int] = []
        for value in values:
            if is_missing(value):
                codes.append(-1)
                continue
            try:
                number = numbers.setdefault(typed_key(value), len(labels))
            except TypeError:
                raise DataError(
                    f"column {name!r} holds {value!r}, a {type(value).__name__}, which cannot be a "
                    "state"
                ) from None
            if number == len(labels):
                labels.append(plain(value))
            codes.append(number)
        return cls(name, np.array(codes, np.int64), labels)

    @classmethod
    def of_table(cls, table: Table, position: int) -> Column:
        """Return a column of a table: values of numbers, or states."""
        variable = table.domain.variables[position]
        if variable.numbers is not None and table.numbers is not None:
            values, at = np.unique(table.column(variable.name), return_inverse=True)
            known = ~np.isnan(values)
            scale = variable.numbers.scale
            labels = [scale.own(x) for x in values[known].tolist()]
            return cls(variable.name, np.where(known[at], at, -1), labels)
        codes = table.codes[:, position].astype(np.int64)
        codes[(codes == table.missing) | table.absent[:, position]] = -1
        settled = variable if variable.numbers is not None or variable.hidden else None
        ordered = variable.ordered and not variable.order_shows
        return cls(variable.name, codes, list(variable.states), ordered, settled)

    def renamed(self, name: str) -> Column:
        """Return the column under another name."""
        return replace(self, name=name)

    def parsed(self) -> Column:
        """Return a column of text with numbers as labels, if every label is written as a number."""
        numbers = _numbers(self.labels)
        if numbers is self.labels:
            return self
        return self.relabelled(numbers)  # "2.5" and "2.50" are one number

    def relabelled(self, labels: Sequence[Any]) -> Column:
        """Return the column with other labels in place of its own; some may be equal."""
        listed = Column.of_values(self.name, labels)
        return Column(self.name, np.append(listed.codes, -1)[self.codes], listed.labels)

    def select(self, rows: IntArray) -> Column:
        """Return some of the rows, or rows more than once; labels that do not occur are dropped."""
        codes = self.codes[rows]
        if self.variable is not None or self.ordered:
            return replace(self, codes=codes)
        used = distinct(codes[codes >= 0])
        place = np.full(len(self.labels) + 1, -1, np.int64)
        place[used] = np.arange(len(used))
        return replace(self, codes=place[codes], labels=[self.labels[i] for i in used])

    def without(self, labels: Collection[Any]) -> Column:
        """Return the column with some labels missing."""
        if not labels:
            return self
        kept = [label for label in self.labels if label not in labels]
        place = {typed_key(label): i for i, label in enumerate(kept)}
        new = [place.get(typed_key(label), -1) for label in self.labels]
        return replace(self, codes=np.array([*new, -1], np.int64)[self.codes], labels=kept)

    def whole(self) -> Column:
        """Return floats that are all whole as integers: libraries turn integers with gaps into floats."""
        exact = (type(v) is float and abs(v) <= LARGEST_INTEGER for v in self.labels)
        if not (all(exact) and all(v.is_integer() for v in self.labels)):
            return self
        return replace(self, labels=[int(v) for v in self.labels]) if -1 in self.codes else self

    def as_variable(self) -> tuple[Variable, IntArray]:
        """Return a variable with the labels as states, and the code of each label."""
        states = self.labels
        if self.variable is not None:
            return self.variable, np.arange(len(states))
        order = list(range(len(states)))
        if not self.ordered:
            try:
                order.sort(key=lambda i: states[i])
            except TypeError:  # labels of several types
                order.sort(key=lambda i: (type(states[i]).__name__, str(states[i])))
        codes = np.empty(len(states), np.int64)
        codes[order] = np.arange(len(order))
        ordered = True if self.ordered else None
        return Variable(self.name, [states[i] for i in order], ordered=ordered), codes

    def find_in(self, variable: Variable, *, strict: bool) -> IntArray:
        """Return the code of the state of each label; -1, or an error if `strict`, if there is none."""
        codes = np.array(variable.find_all(self.labels), np.int64)
        unknown = np.flatnonzero(codes < 0)
        if strict and len(unknown):
            rows = np.flatnonzero(np.isin(self.codes, unknown))
            if len(rows):
                label = self.labels[self.codes[rows[0]]]
                raise DataError(
                    f"row {rows[0] + 1}, column {variable.name!r}: {label!r} is not a state. "
                    + did_you_mean(label, variable.states)
                )
        return codes


def table_of_columns(
    columns: Sequence[Column],
    domain: Domain | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    strict: bool = True,
    weights: Any = None,
) -> Table:
    """Code columns of the same length.

    Without a domain, `kinds` names the columns of numbers and dates, and every other column is a variable
    with its values as states: sorted, unless they are categories with an order of their own. Columns in
    which all values are missing have no states; they are left out, with a warning. With a domain, other
    columns are ignored, and a value that is not a state is an error if `strict` and otherwise missing; so
    is an empty cell, unless its column has a state for these (see `Variable.absent`).
    """
    check_names([column.name for column in columns])
    rows = len(columns[0].codes) if columns else 0
    values: list[FloatArray] = []
    if domain is None:
        variables, coded = [], []
        for column in columns_with_values(columns):
            if (kinds or {}).get(column.name) in ("number", "date"):
                scale = NumberScale.of(column.name, column.labels)
                values.append(_values(column, scale))
                states = NumberStates.learn(scale, values[-1], weights)
                variable, codes = Variable.of_numbers(states), states.codes(values[-1])
            else:
                variable, new = column.as_variable()
                codes = np.append(new, -1)[
                    column.codes
                ]  # code -1, a missing value, is the last one
            variables.append(variable)
            coded.append(codes)
        domain = Domain(variables)
    else:
        coded = []
        for column, variable in zip(_in_order(columns, domain), domain, strict=True):
            if variable.numbers is not None and column.variable != variable:
                values.append(_values(column, variable.numbers.scale, strict=strict))
                codes = variable.numbers.codes(values[-1])
            else:
                codes = np.append(column.find_in(variable, strict=strict), -1)[column.codes]
            if variable.absent and not column.lacking:
                codes = np.where(column.codes < 0, len(variable) - 1, codes)
            coded.append(codes)
    lacking = [column.name for column in columns if column.lacking]
    whole = np.stack(coded, axis=1) if coded else np.empty((rows, 0), np.int64)
    numbers = np.stack(values, axis=1) if values and len(values) == len(domain.numeric) else None
    return Table.adopt(domain, whole, weights, numbers, lacking)


def _in_order(columns: Sequence[Column], domain: Domain) -> list[Column]:
    """Return the columns of a domain."""
    place = {column.name: column for column in columns}
    for name in domain.names:
        if name not in place:
            raise DataError(f"there is no column {name!r}. " + did_you_mean(name, place))
    return [place[name] for name in domain.names]


def _values(column: Column, scale: NumberScale, *, strict: bool = True) -> FloatArray:
    """Return the number in each row of a column, NaN where it is missing."""
    try:
        found = scale.numbers(column.labels)
        if np.isinf(found).any():
            raise DataError(f"column {scale.name!r} has an infinite value; mark it as missing")
    except DataError:
        found = np.array([_value_or_nan(label, scale) for label in column.labels], np.float64)
        wrong = np.isin(column.codes, np.flatnonzero(np.isnan(found)))
        if strict and wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            label = column.labels[column.codes[row]]
            raise DataError(
                f"row {row + 1}, column {scale.name!r}: {label!r} is not a finite number or date"
            ) from None
    return np.append(found, np.nan)[column.codes]  # code -1, a missing value, is the last one


def _value_or_nan(label: Any, scale: NumberScale) -> float:
    try:
        found = scale.number(label)
    except DataError:
        return np.nan
    return found if np.isfinite(found) else np.nan


def columns_with_values(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that have values; warn of the others."""
    empty = [column.name for column in columns if not column.labels]
    if len(empty) == len(columns) > 0:
        raise DataError("the table has no values: all are missing")
    if empty:
        named = ", ".join(map(repr, empty[:5])) + (" and others" if len(empty) > 5 else "")
        noun = "column has" if len(empty) == 1 else "columns have"
        warnings.warn(
            f"{len(empty)} {noun} no values and will be left out: {named}",
            DataWarning,
            stacklevel=3,
        )
    return [column for column in columns if column.labels]


def check_names(names: Iterable[Any]) -> None:
    """Reject columns that share a name; 1 and "1" are the same name."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise DataError(f"two columns are called {name!r}; rename one")
        seen.add(name)


def _numbers(labels: list[Any]) -> list[Any]:
    """Read labels as integers or floats if every one of them is written as a number."""
    if any("_" in label or len(label) > LONGEST_NUMBER for label in labels):
        return labels  # Python reads 1_000 as a number; people do not
    for kind in (int, float):
        try:
            values = [kind(v) for v in labels]
        except ValueError:
            continue
        # "007" is not the number 7.
        canonical = all(str(v) == t for v, t in zip(values, labels, strict=True))
        if canonical or (
            kind is float and not any(re.match(r"[+-]*0\d", label) for label in labels)
        ):
            return values
    return labels
