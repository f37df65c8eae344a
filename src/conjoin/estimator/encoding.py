"""From a user's arrays and frames to codes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.discretization import continuous, discretize_by
from conjoin.data.discretizer import Discretizer
from conjoin.data.domain import Domain, is_missing, is_number
from conjoin.data.frames import as_table
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import DataError
from conjoin.estimator.base import checked_array

BINS = "quantile:5"
KEPT = 51
"""How many of the numbers in a bin are remembered, evenly spaced among all."""


def is_frame(data: Any) -> bool:
    """Tell whether data has named columns, as frames and tables do."""
    return isinstance(data, Table) or hasattr(data, "columns") or hasattr(data, "column_names")


@dataclass(eq=False)
class Encoding:
    """What the columns of the training table were like.

    Attributes
    ----------
    domain : Domain
        The variables, bins as states where numbers were cut.
    values : dict
        For each variable that was cut, the ascending numbers remembered of each bin.
    empty : object
        No rows of the user's frame, None for arrays.
    dtype : dtype, optional
        That of the user's array.
    unseen : {'error', 'missing'}
        What a value that is no state means.
    """

    domain: Domain
    values: dict[str, list[FloatArray]]
    empty: Any = None
    dtype: Any = None
    unseen: str = "error"
    labels: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Any, discretize: Any, unseen: str) -> tuple[Encoding, Table]:  # noqa: N803
        """Learn the encoding of a table; return its codes too."""
        if unseen not in ("error", "missing"):
            raise DataError(f"unseen must be 'error' or 'missing', not {unseen!r}")
        empty = dtype = None
        labels: dict[str, Any] = {}
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
        return cls(table.domain, values, empty, dtype, unseen, labels), table

    def name(self, target: Any) -> str:
        """Return the variable of a column's name, or of its number in an array."""
        number = isinstance(target, int | np.integer) and self.empty is None
        if number and -len(self.domain) <= target < len(self.domain):
            return self.domain.names[target]
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
            same = [s for s in variable.states if s == value and type(s) is not bool]
            if not same or value in variable.states:
                same = [variable.states[variable.index(_plain_like(variable.states, value))]]
            found[name] = same[0]
        return found

    def table(self, X: Any, *, subset: bool = False) -> Table:  # noqa: N803
        """Return rows as codes.

        Parameters
        ----------
        X : Table, array or frame
            The rows.
        subset : bool
            Columns of a frame may be absent: their values are missing.
        """
        if type(X).__module__.split(".")[0] == "pandas" and hasattr(X, "to_frame"):
            return self.table(X.to_dict())  # a row of a frame
        if isinstance(X, Mapping):
            return Table.from_rows(self.domain, [self.given(X)])
        if not is_frame(X):
            array = checked_array(X)
            if array.shape[1] != len(self.domain):
                raise DataError(
                    f"X has {array.shape[1]} features, but JointModel is expecting "
                    f"{len(self.domain)} features as input"
                )
            return self._coded(array, self.domain)
        if isinstance(X, Table) and X.domain == self.domain:
            return X
        present = {str(c) for c in _columns(X)}
        at = [i for i, n in enumerate(self.domain.names) if n in present]
        if not subset and len(at) < len(self.domain):
            absent = next(n for n in self.domain.names if n not in present)
            raise DataError(f"there is no column {absent!r}")
        if not at and present:
            raise DataError(
                f"no column is one of the model's; there are {', '.join(sorted(present)[:5])}"
            )
        part = self._coded(X, self.domain.subset(at))
        codes = np.full((len(part), len(self.domain)), -1, np.int64)
        codes[:, at] = np.where(part.codes == part.missing, -1, part.codes.astype(np.int64))
        return Table(self.domain, codes)

    def _coded(self, X: Any, domain: Domain) -> Table:  # noqa: N803
        if isinstance(X, Table):
            raw = X
        elif self.unseen == "error":
            if not isinstance(X, np.ndarray):
                return as_table(X, domain)
            return Table(domain, _array_codes(X, domain, strict=True))
        else:
            raw = None
        if raw is None:
            if isinstance(X, np.ndarray):
                return Table(domain, _array_codes(X, domain, strict=False))
            raw = as_table(X)
        cut = Discretizer.of(domain)
        if cut.cuts:
            raw = cut.apply(raw)
        codes = np.full((len(raw), len(domain)), -1, np.int64)
        for i, variable in enumerate(domain):
            own = raw.domain.index(variable.name)
            place = np.array([_find(variable, s, self.unseen == "error") for s in
                              raw.domain.variables[own].states] + [-1])  # fmt: skip
            column = raw.codes[:, own].astype(np.int64)
            codes[:, i] = place[np.where(column == raw.missing, -1, column)]
        return Table(domain, codes)

    def fills(self, position: int) -> list[Any]:
        """Return the value to write for each state: of a bin, the median of its numbers."""
        variable = self.domain.variables[position]
        if variable.name not in self.values:
            return list(variable.states)
        found = self.values[variable.name]
        return [
            v[len(v) // 2].item() if len(v) else s
            for v, s in zip(found, variable.states, strict=True)
        ]

    def drawn(self, position: int, codes: Any, rng: np.random.Generator) -> list[Any]:
        """Return values for codes; of a bin, one of its numbers at random."""
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
        """Return the user's own table with the holes filled, its types kept."""
        holes = before.codes == before.missing
        if isinstance(X, Table):
            return Table.adopt(self.domain, codes, X.weights)
        if not is_frame(X):
            array = np.array(checked_array(X))
            for i in np.flatnonzero(holes.any(axis=0)).tolist():
                values = np.array([*self.fills(i), None], object)[:-1]
                array[holes[:, i], i] = values[codes[holes[:, i], i].astype(np.int64)]
            return array
        from conjoin.estimator.frames import replaced

        columns = {}
        for i in np.flatnonzero(holes.any(axis=0)).tolist():
            fills = self.fills(i)
            label = self.labels.get(self.domain.names[i], self.domain.names[i])
            columns[label] = (holes[:, i], [fills[c] for c in codes[holes[:, i], i].tolist()])
        return replaced(X, columns)

    def new(self, codes: Codes, rng: np.random.Generator) -> Any:
        """Return codes as a table of the kind that the training table was."""
        columns = {n: self.drawn(i, codes[:, i], rng) for i, n in enumerate(self.domain.names)}
        if self.empty is None:
            if self.dtype is None:
                return Table.adopt(self.domain, codes.astype(code_dtype(self.domain.cards)))
            array: Any = np.empty(codes.shape, object)
            for i, name in enumerate(columns):
                array[:, i] = columns[name]
            return array if self.dtype == object else array.astype(self.dtype)
        from conjoin.estimator.frames import made_like

        return made_like(self.empty, {self.labels.get(n, n): c for n, c in columns.items()})


def _columns(X: Any) -> list[Any]:  # noqa: N803
    if isinstance(X, Table):
        return list(X.domain.names)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _plain_like(states: tuple[Any, ...], value: Any) -> Any:
    by_text = [s for s in states if str(s) == str(value)]
    return by_text[0] if len(by_text) == 1 else value


def _find(variable: Any, state: Any, strict: bool) -> int:
    same = [c for c, s in enumerate(variable.states) if type(s) is type(state) and s == state]
    same = same or [c for c, s in enumerate(variable.states) if str(s) == str(state)]
    found = same[0] if same else variable.by_number(state) if is_number(state) else None
    if found is not None:
        return int(found)
    if strict:
        variable.index(state)  # says what is wrong
    return -1


def _array_codes(X: Any, domain: Domain, *, strict: bool) -> Any:  # noqa: N803
    """Code the columns of an array, distinct values once."""
    codes = np.full(X.shape, -1, np.int64)
    for i, variable in enumerate(domain):
        column = X[:, i]
        lookup: dict[Any, int] = {}
        for r, value in enumerate(column.tolist()):
            if is_missing(value):
                continue
            key = (type(value), value)
            if key not in lookup:
                try:
                    lookup[key] = _find(variable, value, strict)
                except DataError as error:
                    raise DataError(f"row {r + 1}: {error}") from None
            codes[r, i] = lookup[key]
    return codes


def _remembered(raw: Table, table: Table, position: int) -> list[FloatArray]:
    """Return, for each bin of a variable, numbers that are spread as those of the data."""
    numbers = np.array(raw.domain.variables[position].states)
    column, own = raw.codes[:, position], table.codes[:, position]
    known = column != raw.missing
    result = []
    for state in range(int(table.domain.cards[position])):
        inside = np.sort(numbers[column[known & (own == state)].astype(np.int64)])
        at = np.linspace(0, len(inside) - 1, min(KEPT, len(inside))).astype(np.int64)
        result.append(inside[at] if len(inside) else inside)
    return result
