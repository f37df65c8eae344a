"""Turning a user's arrays and frames into codes, and codes back into arrays and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.columns import Column, table_of_columns
from conjoin.data.discretization import continuous, discretize_by
from conjoin.data.domain import Domain, is_missing, plain
from conjoin.data.frames import as_table, widened
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import DataError
from conjoin.estimator.base import checked_array

BINS = "quantile:5"
KEPT_NUMBERS = 51
"""Maximum number of training values that are remembered for each bin, evenly spaced among all."""


def is_frame(data: Any) -> bool:
    """Return whether data has named columns, as frames and tables do."""
    return isinstance(data, Table) or hasattr(data, "columns") or hasattr(data, "column_names")


@dataclass(eq=False)
class Encoding:
    """The columns of the training table: their states, types and kind of frame."""

    domain: Domain  # the states of numbers that were cut are bins
    values: dict[str, list[FloatArray]]  # the remembered numbers of each bin, ascending
    empty: Any = None  # the user's frame without its rows, None for arrays
    dtype: Any = None  # the type of the user's array
    unseen: str = "error"  # or "missing": what a value that is not a state counts as
    labels: dict[str, Any] = field(default_factory=dict)  # the user's own label of each column
    width: int = 0  # the number of columns of the user's array, those without values included
    places: list[int] = field(default_factory=list)  # where the domain's columns are in the array

    @classmethod
    def of(cls, X: Any, discretize: Any, unseen: str) -> tuple[Encoding, Table]:  # noqa: N803
        """Learn the encoding of a table; also return the coded table."""
        if unseen not in ("error", "missing"):
            raise DataError(f"unseen must be 'error' or 'missing', not {unseen!r}")
        empty = dtype = None
        labels: dict[str, Any] = {}
        places: list[int] = []
        width = 0
        if isinstance(X, Table):
            raw = X
        elif is_frame(X):
            raw = as_table(X)
            empty = X.slice(0, 0) if hasattr(X, "column_names") else X[:0]
            labels = {str(label): label for label in _columns(X)}
        else:
            array = checked_array(X)
            dtype = array.dtype
            raw = as_table(array)
            width = array.shape[1]
            places = [i for i in range(width) if f"v{i}" in set(raw.domain.names)]
        table = raw
        if isinstance(discretize, str) and discretize == "auto":
            chosen = {v.name: BINS for v in raw.domain if continuous(v.states)}
            discretize = chosen or None
        if discretize is not None:
            table, _ = discretize_by(raw, discretize)
        values = {}
        for i, variable in enumerate(table.domain):
            if variable.cuts is not None and raw.domain.variables[i].cuts is None:
                values[variable.name] = _remembered(raw, table, i)
        return cls(table.domain, values, empty, dtype, unseen, labels, width, places), table

    def name(self, target: Any) -> str:
        """Return the name of the variable of a column, given by name or by number in an array."""
        width = self.width or len(self.domain)
        number = isinstance(target, int | np.integer) and self.empty is None
        if number and -width <= target < width:
            if not self.places:
                return self.domain.names[target]
            target = f"v{target % width}"
        self.domain.index(str(target))
        return str(target)

    def given(self, evidence: Mapping[Any, Any] | None) -> dict[str, Any]:
        """Return evidence by the names and states of the domain; missing values are left out."""
        found: dict[str, Any] = {}
        for label, value in (evidence or {}).items():
            name = self.name(label)
            if is_missing(value):
                continue
            variable = self.domain[name]
            (code,) = variable.find_all([plain(value)])
            if code < 0:
                code = variable.index(value)  # raises, with the states that there are
            found[name] = variable.states[code]
        return found

    def table(self, X: Any, *, subset: bool = False) -> Table:  # noqa: N803
        """Return rows as codes; with `subset`, columns that a frame lacks are missing values."""
        if type(X).__module__.split(".")[0] == "pandas" and hasattr(X, "to_frame"):
            return self.table(X.to_dict())  # one row of a frame
        if isinstance(X, Mapping):
            return Table.from_rows(self.domain, [self.given(X)])
        if not is_frame(X):
            array = checked_array(X)
            width = self.width or len(self.domain)
            if array.shape[1] != width:
                raise DataError(
                    f"X has {array.shape[1]} features, but JointModel is expecting {width} features as "
                    "input"
                )
            used = array[:, self.places] if len(self.domain) < width else array
            return as_table(used, self.domain, unseen=self.unseen)
        if isinstance(X, Table) and X.domain == self.domain:
            return X
        present = {str(c) for c in _columns(X)}
        at = [i for i, n in enumerate(self.domain.names) if n in present]
        if not subset and len(at) < len(self.domain):
            absent = next(n for n in self.domain.names if n not in present)
            raise DataError(f"there is no column {absent!r}")
        if not at and present:
            raise DataError(
                "none of the columns belongs to the model; the columns are "
                f"{', '.join(sorted(present)[:5])}"
            )
        domain = self.domain.subset(at)
        if isinstance(X, Table):
            columns = [_table_column(X, i) for i in range(len(X.domain))]
            part = table_of_columns(columns, domain, strict=self.unseen == "error")
        else:
            part = as_table(X, domain, unseen=self.unseen)
        return widened(part, self.domain)

    def fills(self, position: int) -> list[Any]:
        """Return the value to write for each state; for a bin, the median of its numbers."""
        variable = self.domain.variables[position]
        if variable.name not in self.values:
            return list(variable.states)
        found = self.values[variable.name]
        return [
            v[len(v) // 2].item() if len(v) else s
            for v, s in zip(found, variable.states, strict=True)
        ]

    def drawn(self, position: int, codes: Any, rng: np.random.Generator) -> list[Any]:
        """Return values for codes; for a bin, a random one of its numbers."""
        variable = self.domain.variables[position]
        if variable.name not in self.values:
            return [variable.states[c] for c in codes.tolist()]
        found, fills = self.values[variable.name], self.fills(position)
        spots = rng.random(len(codes))
        return [
            found[c][int(u * len(found[c]))].item() if len(found[c]) else fills[c]
            for c, u in zip(codes.tolist(), spots, strict=True)
        ]

    def filled(self, X: Any, before: Table, codes: Codes) -> Any:  # noqa: N803
        """Return the user's own table with its missing values filled in and its types kept."""
        holes = before.codes == before.missing
        if isinstance(X, Table):
            return Table.adopt(self.domain, codes, X.weights)
        if not is_frame(X):
            array = np.array(checked_array(X))
            for i in np.flatnonzero(holes.any(axis=0)).tolist():
                values = np.array([*self.fills(i), None], object)[:-1]
                at = self.places[i] if self.places else i
                array[holes[:, i], at] = values[codes[holes[:, i], i].astype(np.int64)]
            return array
        from conjoin.estimator.frames import replaced

        columns = {}
        for i in np.flatnonzero(holes.any(axis=0)).tolist():
            fills = self.fills(i)
            label = self.labels.get(self.domain.names[i], self.domain.names[i])
            columns[label] = (holes[:, i], [fills[c] for c in codes[holes[:, i], i].tolist()])
        return replaced(X, columns)

    def new(self, codes: Codes, rng: np.random.Generator) -> Any:
        """Return codes as a table of the same kind as the training table."""
        columns = {n: self.drawn(i, codes[:, i], rng) for i, n in enumerate(self.domain.names)}
        if self.empty is None:
            if self.dtype is None:
                return Table.adopt(self.domain, codes.astype(code_dtype(self.domain.cards)))
            array: Any = np.full((len(codes), self.width), None, object)
            for at, name in zip(self.places, columns, strict=True):
                array[:, at] = columns[name]
            return array if self.dtype == object else array.astype(self.dtype)
        from conjoin.estimator.frames import made_like

        return made_like(self.empty, {self.labels.get(n, n): c for n, c in columns.items()})


def _columns(X: Any) -> list[Any]:  # noqa: N803
    if isinstance(X, Table):
        return list(X.domain.names)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _table_column(table: Table, position: int) -> Column:
    variable = table.domain.variables[position]
    codes = table.codes[:, position].astype(np.int64)
    codes[codes == table.missing] = -1
    return Column(variable.name, codes, list(variable.states))


def _remembered(raw: Table, table: Table, position: int) -> list[FloatArray]:
    """Return, for each bin of a variable, numbers that are distributed as in the data."""
    numbers = np.array(raw.domain.variables[position].states)
    column, own = raw.codes[:, position], table.codes[:, position]
    known = column != raw.missing
    result = []
    for state in range(int(table.domain.cards[position])):
        inside = np.sort(numbers[column[known & (own == state)].astype(np.int64)])
        at = np.linspace(0, len(inside) - 1, min(KEPT_NUMBERS, len(inside))).astype(np.int64)
        result.append(inside[at] if len(inside) else inside)
    return result
