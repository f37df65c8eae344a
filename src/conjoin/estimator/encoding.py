"""Turning a user's arrays and frames into codes, and codes back into arrays and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.columns import table_of_columns
from conjoin.data.domain import Domain, is_missing, plain
from conjoin.data.frames import as_table, columns_of, widened
from conjoin.data.mixed_table import MixedTable
from conjoin.data.number_scale import NumberScale
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import DataError
from conjoin.estimator.base import checked_array
from conjoin.inference.conditions import Condition
from conjoin.inference.evidence import Evidence, evidence_of

BINS = "quantile:5"
_CONDITIONS = (Condition, set, frozenset, list)
KEPT_NUMBERS = 51
"""Maximum number of training values that are remembered for each bin, evenly spaced among all."""


def is_frame(data: Any) -> bool:
    """Return whether data has named columns, as frames and tables do."""
    return isinstance(data, Table) or hasattr(data, "columns") or hasattr(data, "column_names")


@dataclass(eq=False)
class Encoding:
    """The columns of the training table: their states, types and kind of frame."""

    domain: Domain  # the states of numbers that were cut are bins
    values: dict[str, list[list[Any]]]  # the remembered values of each bin, ascending
    empty: Any = None  # the user's frame without its rows, None for arrays
    dtype: Any = None  # the type of the user's array
    unseen: str = "error"  # or "missing": what a value that is not a state counts as
    labels: dict[str, Any] = field(default_factory=dict)  # the user's own label of each column
    sources: tuple[str, ...] = ()  # all columns of the training table; some may have been left out

    @classmethod
    def of(
        cls,
        X: Any,  # noqa: N803
        discretize: Any,
        unseen: str,
        **kinds: Any,
    ) -> tuple[Encoding, Table]:
        """Learn the encoding of a table; also return the coded table.

        `kinds` are the options of `chosen_kinds`.
        """
        if unseen not in ("error", "missing"):
            raise DataError(f"unseen must be 'error' or 'missing', not {unseen!r}")
        empty = dtype = None
        labels: dict[str, Any] = {}
        if is_frame(X):
            columns = columns_of(X)
            if not isinstance(X, Table):
                empty = X.slice(0, 0) if hasattr(X, "column_names") else X[:0]
                labels = {str(label): label for label in _columns(X)}
        else:
            array = checked_array(X)
            dtype = array.dtype
            columns = columns_of(array)
        if not len(columns[0].codes):
            raise DataError("the table has no rows, so its columns have no states")
        weights = X.weights if isinstance(X, Table) else None
        mixed = MixedTable.of_columns(columns, weights=weights, **kinds)
        table = _binned(mixed, discretize)
        values = {
            scale.name: _remembered(mixed.column(scale.name), table, scale)
            for scale in mixed.scales
            if table.domain[scale.name].cuts is not None
        }
        sources = tuple(column.name for column in columns)
        return cls(table.domain, values, empty, dtype, unseen, labels, sources), table

    def name(self, target: Any) -> str:
        """Return the name of the variable of a column, given by name or by number in an array."""
        number = isinstance(target, int | np.integer) and self.empty is None
        if number and -len(self.sources) <= target < len(self.sources):
            target = self.sources[target]
        if str(target) in self.sources and str(target) not in self.domain.names:
            raise DataError(f"column {str(target)!r} was left out of the model; include it")
        self.domain.index(str(target))
        return str(target)

    @property
    def _places(self) -> list[int]:
        """The place of each column of the model in the user's array."""
        return [self.sources.index(name) for name in self.domain.names]

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

    def evidence(self, given: Mapping[Any, Any] | str | None) -> Evidence:
        """Return evidence; parts of bins count by the remembered numbers."""
        if isinstance(given, Mapping):
            rich = {self.name(k): v for k, v in given.items() if isinstance(v, _CONDITIONS)}
            rest = {k: v for k, v in given.items() if not isinstance(v, _CONDITIONS)}
            given = {**self.given(rest), **rich}
        return evidence_of(self.domain, given, self.values)

    def table(self, X: Any, *, subset: bool = False) -> Table:  # noqa: N803
        """Return rows as codes; with `subset`, columns that a frame lacks are missing values."""
        if type(X).__module__.split(".")[0] == "pandas" and hasattr(X, "to_frame"):
            return self.table(X.to_dict())  # one row of a frame
        if isinstance(X, Mapping):
            return Table.from_rows(self.domain, [self.given(X)])
        if not is_frame(X):
            array = checked_array(X)
            if array.shape[1] != len(self.sources):
                raise DataError(
                    f"X has {array.shape[1]} features, but JointModel is expecting "
                    f"{len(self.sources)} features as input"
                )
            return as_table(array[:, self._places], self.domain, unseen=self.unseen)
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
            part = table_of_columns(columns_of(X), domain, strict=self.unseen == "error")
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
            v[len(v) // 2] if len(v) else s for v, s in zip(found, variable.states, strict=True)
        ]

    def drawn(self, position: int, codes: Any, rng: np.random.Generator) -> list[Any]:
        """Return values for codes; for a bin, a random one of its numbers."""
        variable = self.domain.variables[position]
        if variable.name not in self.values:
            return [variable.states[c] for c in codes.tolist()]
        found, fills = self.values[variable.name], self.fills(position)
        spots = rng.random(len(codes))
        return [
            found[c][int(u * len(found[c]))] if len(found[c]) else fills[c]
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
                array[holes[:, i], self._places[i]] = values[codes[holes[:, i], i].astype(np.int64)]
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
            array: Any = np.full((len(codes), len(self.sources)), np.nan, object)
            for i, name in zip(self._places, columns, strict=True):
                array[:, i] = columns[name]
            lacking = self.dtype.kind in "iub" and len(columns) < len(self.sources)
            return array.astype(np.float64 if lacking else self.dtype)
        from conjoin.estimator.frames import made_like

        return made_like(self.empty, {self.labels.get(n, n): c for n, c in columns.items()})


def _columns(X: Any) -> list[Any]:  # noqa: N803
    if isinstance(X, Table):
        return list(X.domain.names)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _binned(mixed: MixedTable, discretize: Any) -> Table:
    """Return a table of states: numbers are cut as told, or every number is a state."""
    if isinstance(discretize, str) and discretize == "auto":
        discretize = dict.fromkeys(mixed.domain.numeric, BINS)
    return mixed.as_states() if discretize is None else mixed.binned(discretize)


def _remembered(numbers: FloatArray, table: Table, scale: NumberScale) -> list[Any]:
    """Return, for each bin of a column, values that are distributed as in the data."""
    position = table.domain.index(scale.name)
    own, result = table.codes[:, position], []
    for state in range(int(table.domain.cards[position])):
        inside = np.sort(numbers[own == state])
        at = np.linspace(0, len(inside) - 1, min(KEPT_NUMBERS, len(inside))).astype(np.int64)
        result.append([scale.own(x) for x in inside[at].tolist()] if len(inside) else [])
    return result
