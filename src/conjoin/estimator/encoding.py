"""Turning a user's arrays and frames into states and numbers, and these back into arrays and frames."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.absent_values import with_absent_values
from conjoin.data.arrays import BoolArray
from conjoin.data.column_kinds import chosen_kinds
from conjoin.data.columns import Column, table_of_columns
from conjoin.data.domain import Domain
from conjoin.data.frames import columns_of
from conjoin.data.label_values import ABSENT, is_missing, plain
from conjoin.data.table import Table
from conjoin.data.telling_edges import with_telling_edges
from conjoin.errors import DataError, did_you_mean
from conjoin.estimator.scikit_learn import checked_array
from conjoin.inference.conditions import Condition
from conjoin.inference.evidence import Evidence, Given, evidence_of, no_value, number_value

_CONDITIONS = (Condition, set, frozenset, list)
MOST_REPEATED = 10
"""Rows are repeated, rather than weighted, up to this number of times on average."""

Fills = dict[str, tuple[BoolArray, list[Any]]]
"""For each column, the rows whose value is missing and the values that are filled in."""


def is_frame(data: Any) -> bool:
    """Return whether data has named columns, as frames and tables do."""
    return isinstance(data, Table) or hasattr(data, "columns") or hasattr(data, "column_names")


@dataclass(frozen=True, eq=False)
class Encoding:
    """The columns of the training table, their types and kind of frame."""

    domain: Domain  # the columns of the model
    empty: Any = None  # the user's frame without its rows, None for arrays
    dtype: Any = None  # the type of the user's array
    unseen: str = "error"  # or "missing": what a value that is not a state counts as
    labels: Mapping[str, Any] = field(default_factory=dict)  # the user's own label of each column
    sources: tuple[str, ...] = ()  # all columns of the training table; some may have been left out
    target: str | None = None  # the column that is predicted by default

    @classmethod
    def of(
        cls,
        X: Any,  # noqa: N803
        unseen: str,
        y: Any = None,
        target: Any = None,
        sample_weight: Any = None,
        missing: str = "auto",
        **kinds: Any,
    ) -> tuple[Encoding, Table]:
        """Learn the encoding of a table; also return the coded table.

        `unseen`: what a value that is not a state counts as. `y`, `target`: see `with_target`.
        `sample_weight`: the weights of the rows. Rows with whole numbers as weights are repeated.
        `missing`: "auto" if empty cells may have a state of their own, otherwise "ignore".
        """
        if unseen not in ("error", "missing"):
            raise DataError(f"unseen must be 'error' or 'missing', not {unseen!r}")
        if missing not in ("auto", "ignore"):
            raise DataError(f"missing must be 'auto' or 'ignore', not {missing!r}")
        empty = dtype = None
        labels: dict[str, Any] = {}
        if is_frame(X):
            if not isinstance(X, Table):
                empty = X.slice(0, 0) if hasattr(X, "column_names") else X[:0]
                labels = {str(label): label for label in _names(X)}
        else:
            X = checked_array(X)  # noqa: N806
            dtype = X.dtype
        columns = columns_of(X)
        sources = tuple(column.name for column in columns)
        if not len(columns[0].codes):
            raise DataError("the table has no rows, so its columns have no states")
        weights = X.weights if isinstance(X, Table) else None
        rows, weights = weighted_rows(len(columns[0].codes), sample_weight, weights)
        if not is_frame(X) and isinstance(target, int | np.integer):
            target = sources[target] if -len(sources) <= target < len(sources) else target
        given = columns
        columns, target = with_target(columns, y, target)
        if rows is not None:
            columns = [column.select(rows) for column in columns]
        if isinstance(X, Table) and columns is given and not any(kinds.values()):
            table = X if weights is X.weights else X.weighted(weights)
        else:
            if any(column.name == target for column in columns):
                include = kinds["include"]
                kinds["include"] = [target, *([include] if isinstance(include, str) else include)]
            kept = chosen_kinds(columns, **kinds)
            chosen = [column for column in columns if column.name in kept]
            table = table_of_columns(chosen, kinds=kept, weights=weights)
        if missing == "auto":
            table = with_absent_values(table)
        table = with_telling_edges(table)
        return cls(table.domain, empty, dtype, unseen, labels, sources, target), table

    def __post_init__(self) -> None:
        if self.target is not None:
            self.name(self.target)  # raises if the model has no such column

    def name(self, target: Any) -> str:
        """Return the name of a column, given by name or by number in an array."""
        number = isinstance(target, int | np.integer) and self.empty is None
        if number and -len(self.sources) <= target < len(self.sources):
            target = self.sources[target]
        text = str(target)
        if text not in self.domain.names:
            if text in self.sources:
                raise DataError(
                    f"column {text!r} was left out of the model; learn with include=[{text!r}] to keep it"
                )
            raise DataError(
                f"there is no variable {text!r}. " + did_you_mean(text, self.domain.names)
            )
        return text

    @property
    def places(self) -> dict[str, int]:
        """The place of each column of the model in the user's array."""
        at = {name: i for i, name in enumerate(self.sources)}
        return {name: at[name] for name in self.domain.names if name in at}

    def given(self, evidence: Mapping[Any, Any] | None) -> dict[str, Any]:
        """Return evidence by name, as states and numbers; missing values are left out."""
        found: dict[str, Any] = {}
        for label, value in (evidence or {}).items():
            name = self.name(label)
            if is_missing(value):
                continue
            variable = self.domain[name]
            if variable.numbers is not None and not (isinstance(value, str) and value == ABSENT):
                found[name] = number_value(variable.numbers.scale, value)
                continue
            if isinstance(value, Mapping):
                raise no_value(name, value)
            (code,) = variable.find_all([plain(value)])
            if code < 0:
                code = variable.index(value)  # raises, with the states that there are
            found[name] = variable.states[code]
        return found

    def evidence(self, given: Given) -> Evidence:
        """Return evidence on the columns of the model."""
        if isinstance(given, Mapping):
            rich = {self.name(k): v for k, v in given.items() if isinstance(v, _CONDITIONS)}
            rest = {k: v for k, v in given.items() if not isinstance(v, _CONDITIONS)}
            given = {**self.given(rest), **rich}
        return evidence_of(self.domain, given)

    def row(self, values: Mapping[Any, Any] | str | None) -> Table:
        """Return the values of a row as a table; columns that were left out of the model are ignored."""
        if isinstance(values, str):
            raise DataError(f"give values as {{column: value}}, not as the text {values!r}")
        left_out = set(self.sources) - set(self.domain.names)
        known = self.given({k: v for k, v in (values or {}).items() if str(k) not in left_out})
        return self._coded([Column.of_values(name, [value]) for name, value in known.items()], 1)

    def table(self, X: Any, *, subset: bool = False) -> Table:  # noqa: N803
        """Return rows as states and numbers; with `subset`, columns that a frame lacks are missing."""
        if type(X).__module__.split(".")[0] == "pandas" and hasattr(X, "to_frame"):
            X = X.to_frame().T  # one row of a frame  # noqa: N806
        if isinstance(X, Mapping):
            return self.row(X)
        coded = isinstance(X, Table) and X.domain == self.domain
        if coded and (X.numbers is not None or not X.domain.numeric):
            return X
        columns = self._columns(X, subset)
        return self._coded(columns, len(columns[0].codes))

    def _coded(self, columns: Sequence[Column], rows: int) -> Table:
        """Return columns as a table of the model's domain; those that are absent are missing."""
        given = {column.name: column for column in columns}
        none = Column("", np.full(rows, -1, np.int64), [], lacking=True)
        whole = [given.get(name, none.renamed(name)) for name in self.domain.names]
        return table_of_columns(whole, self.domain, strict=self.unseen == "error")

    def _columns(self, X: Any, subset: bool) -> list[Column]:  # noqa: N803
        """Return the columns of a table that belong to the model."""
        if not is_frame(X):
            array = checked_array(X)
            if array.shape[1] != len(self.sources):
                raise DataError(
                    f"X has {array.shape[1]} features, but JointModel is expecting "
                    f"{len(self.sources)} features as input"
                )
            places = self.places
            return columns_of(array[:, list(places.values())], list(places), self.domain)
        present = {str(c) for c in _names(X)}
        if not subset:
            wanted = [n for n in self.domain.names if n not in present and n in self.sources]
            if wanted:
                raise DataError(f"there is no column {wanted[0]!r}")
        if not present & set(self.domain.names) and len(self.domain.names) == 1:
            return [Column(self.domain.names[0], np.full(len(X), -1, np.int64), [])]
        if present and not present & set(self.domain.names):
            raise DataError(
                "none of the columns belongs to the model; the columns are "
                f"{', '.join(sorted(present)[:5])}"
            )
        columns = columns_of(X, domain=self.domain)
        return [column for column in columns if column.name in self.domain.names]

    def target_of(self, X: Any) -> Column:  # noqa: N803
        """Return the target of a table as it is, with values that the model does not know."""
        for column in self._columns(X, subset=True):
            if column.name == self.target:
                return column
        raise DataError(f"X does not have the target {self.target!r}; give its true values as y")

    def filled(self, X: Any, fills: Fills) -> Any:  # noqa: N803
        """Return the user's own table with values filled in and its types kept."""
        fills = self._only_missing(X, fills) if self.unseen == "missing" else fills
        if not is_frame(X):
            array = np.array(checked_array(X))
            places = self.places
            for name, (rows, values) in fills.items():
                if name in places and values:
                    array[rows, places[name]] = np.array([*values, None], object)[:-1]
            return array
        from conjoin.estimator.frame_writing import replaced

        present = {str(c) for c in _names(X)}
        shown = {n: cells for n, cells in fills.items() if n in present and cells[1]}
        return replaced(X, {self.labels.get(n, n): cells for n, cells in shown.items()})

    def _only_missing(self, X: Any, fills: Fills) -> Fills:  # noqa: N803
        """Return fills without those of cells that have a value, which the model does not know."""
        missing = {column.name: column.codes < 0 for column in self._columns(X, subset=True)}
        found: Fills = {}
        for name, (rows, values) in fills.items():
            empty = missing.get(name, rows)
            kept = [value for value, keep in zip(values, empty[rows], strict=True) if keep]
            found[name] = rows & empty, kept
        return found

    def new(self, columns: Mapping[str, list[Any]], rows: int) -> Any:
        """Return columns as an array or a frame of the same kind as the training table."""
        if self.empty is None:
            array: Any = np.full((rows, len(self.sources)), np.nan, object)
            for name, at in self.places.items():
                array[:, at] = columns[name]
            lacking = self.dtype.kind in "iub" and len(self.places) < len(self.sources)
            return array.astype(np.float64 if lacking else self.dtype)
        from conjoin.estimator.frame_writing import made_like

        own = {n: c for n, c in columns.items() if n in self.labels}
        return made_like(self.empty, {self.labels[n]: c for n, c in own.items()})


def values_of(table: Table, name: str, rows: Any = slice(None)) -> list[Any]:
    """Return the values of a column as the user's table holds them; None where missing."""
    variable = table.domain[name]
    if variable.numbers is not None and table.numbers is not None:
        return [variable.numbers.scale.own(x) for x in table.column(name)[rows].tolist()]
    states = [None if state == ABSENT else state for state in variable.states] + [None]
    codes = np.minimum(
        table.codes[rows, table.domain.index(name)].astype(np.int64), len(states) - 1
    )
    return [states[code] for code in codes.tolist()]


def _names(X: Any) -> list[Any]:  # noqa: N803
    if isinstance(X, Table):
        return list(X.domain.names)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def weighted_rows(count: int, given: Any, own: Any = None) -> tuple[Any, Any]:
    """Return rows repeated by whole weights (None for all), or rows and weights (None if all are 1)."""
    if given is None:
        return None, own
    weights = np.asarray(given, np.float64)
    if weights.shape != (count,):
        raise DataError(
            f"sample_weight has the shape {weights.shape}; {count} rows need one weight each"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError("sample_weight must be finite and not negative")
    if not weights.any():
        raise DataError("sample_weight is zero for all rows")
    weights = weights if own is None else weights * own
    if (weights == np.rint(weights)).all() and weights.sum() <= MOST_REPEATED * count:
        return np.repeat(np.arange(count), weights.astype(np.int64)), None
    rows = np.flatnonzero(weights)
    return rows, weights[rows]


def target_column(y: Any, rows: int) -> Column:
    """Return an array, a list, a series or a frame of one column; its name is "" if it has none."""
    if hasattr(y, "to_frame") or hasattr(y, "columns") or hasattr(y, "column_names"):
        columns = columns_of(y.to_frame() if hasattr(y, "to_frame") else y)
        name = "" if getattr(y, "name", y) is None else columns[0].name
    else:
        array, name = np.asarray(y, object if isinstance(y, list | tuple) else None), ""
        columns = columns_of(checked_array(array[:, None] if array.ndim == 1 else array))
        if array.ndim == 2 and len(columns) == 1:
            known = sys.modules.get("sklearn.exceptions")
            said = "A column-vector y was passed when a 1d array was expected; use y.ravel()"
            warnings.warn(said, getattr(known, "DataConversionWarning", UserWarning), stacklevel=5)
    column = columns[0].renamed(name)
    if (shape := (len(column.codes), len(columns))) != (rows, 1) or not column.labels:
        said = f"its shape is {shape}, with {len(column.labels):,} different values"
        raise DataError(f"y should be a 1d array of {rows:,} values, some of them known; {said}")
    return column


def with_target(columns: list[Column], y: Any, target: Any) -> tuple[list[Column], str | None]:
    """Return the columns of a table including y, and the name of the target.

    Without a name given as `target`, y has its own, or is called "y". If the table has a column of this
    name with the same values, y is that column. A column with other values is replaced if `target` names
    it; otherwise y gets a free name.
    """
    if y is None:
        return columns, None if target is None else str(target)
    column, by_name = target_column(y, len(columns[0].codes)), {c.name: c for c in columns}
    name = (column.name or "y") if target is None else str(target)
    while name in by_name:
        if _cells(by_name[name]) == _cells(column):
            return columns, name
        if target is not None:
            break
        name += "_"
    by_name[name] = column.renamed(name)
    return list(by_name.values()), name


def _cells(column: Column) -> list[Any]:
    labels = [*column.labels, None]  # code -1, a missing value, is the last one
    return [labels[code] for code in column.codes.tolist()]
