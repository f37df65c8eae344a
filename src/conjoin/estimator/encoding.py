"""Turning a user's arrays and frames into states and numbers, and these back into arrays and frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.columns import Column
from conjoin.data.domain import Domain, Variable
from conjoin.data.frames import columns_of
from conjoin.data.label_values import is_missing, plain
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.number_scale import NumberScale
from conjoin.data.table import Table
from conjoin.errors import DataError, did_you_mean
from conjoin.estimator.base import checked_array
from conjoin.inference.conditions import Condition
from conjoin.inference.evidence import Evidence, evidence_of, no_value, number_value

BINS = "quantile:5"
"""How numbers are cut into bins if a network of states has to be learned."""

SHOWN_BINS = "quantile:10"
"""The bins whose probabilities `predict_proba` returns for a number."""

_CONDITIONS = (Condition, set, frozenset, list)
KEPT_NUMBERS = 51
"""Maximum number of training values that are remembered for each bin, evenly spaced among all."""

MOST_REPEATED = 10
"""Rows are repeated, rather than weighted, up to this number of times on average."""

Fills = dict[str, tuple[BoolArray, list[Any]]]
"""For each column, the rows whose value is missing and the values that are filled in."""


def is_frame(data: Any) -> bool:
    """Return whether data has named columns, as frames and tables do."""
    tables = isinstance(data, Table | MixedTable)
    return tables or hasattr(data, "columns") or hasattr(data, "column_names")


@dataclass(frozen=True)
class Bins:
    """Bins of a column of numbers.

    Attributes
    ----------
    variable : Variable
        The bins as states, with their cut points.
    values : tuple of tuple of float
        The remembered numbers of each bin, ascending; they are distributed as in the training rows.
    """

    variable: Variable
    values: tuple[tuple[float, ...], ...]


@dataclass(eq=False)
class Encoding:
    """The columns of the training table: their states or scales, types and kind of frame."""

    columns: MixedDomain  # what the model has; numbers that were cut are categories
    scales: dict[str, NumberScale]  # of all columns of numbers, cut or not
    bins: dict[str, Bins]  # of the same columns: the states, or what probabilities are shown for
    empty: Any = None  # the user's frame without its rows, None for arrays
    dtype: Any = None  # the type of the user's array
    unseen: str = "error"  # or "missing": what a value that is not a state counts as
    labels: dict[str, Any] = field(default_factory=dict)  # the user's own label of each column
    sources: tuple[str, ...] = ()  # all columns of the training table; some may have been left out
    automatic: bool = True  # whether numbers were cut only because the model needs states

    @classmethod
    def of(
        cls,
        X: Any,  # noqa: N803
        discretize: Any,
        unseen: str,
        extra: Column | None = None,
        sample_weight: Any = None,
        **kinds: Any,
    ) -> tuple[Encoding, MixedTable]:
        """Learn the encoding of a table; also return the coded table.

        Parameters
        ----------
        X : array or frame
            The table.
        discretize : None, str, mapping or Discretizer
            How numbers are cut: "numbers" if they are not, "auto" for `BINS`.
        unseen : {'error', 'missing'}
            What a value that is not a state counts as.
        extra : Column, optional
            A column that the user's table does not have.
        sample_weight : array of float, optional
            The weights of the rows. Rows with whole numbers as weights are repeated.
        **kinds
            The options of `chosen_kinds`.
        """
        if unseen not in ("error", "missing"):
            raise DataError(f"unseen must be 'error' or 'missing', not {unseen!r}")
        empty = dtype = None
        labels: dict[str, Any] = {}
        if is_frame(X):
            if not isinstance(X, Table | MixedTable):
                empty = X.slice(0, 0) if hasattr(X, "column_names") else X[:0]
                labels = {str(label): label for label in _names(X)}
        else:
            X = checked_array(X)  # noqa: N806
            dtype = X.dtype
        if not isinstance(X, MixedTable):
            columns = columns_of(X)
            sources = tuple(column.name for column in columns)
            if not len(columns[0].codes):
                raise DataError("the table has no rows, so its columns have no states")
            weights = X.weights if isinstance(X, Table) else None
            rows, weights = weighted_rows(len(columns[0].codes), sample_weight, weights)
            columns = columns if extra is None else [*columns, extra]
            if rows is not None:
                columns = [column.select(rows) for column in columns]
            mixed = MixedTable.of_columns(columns, weights=weights, **kinds)
        else:
            mixed, sources = X, X.names
            rows, weights = weighted_rows(len(X), sample_weight, X.weights)
            if rows is not None:
                mixed = X.select(rows).weighted(weights)
        word = discretize if isinstance(discretize, str) else ""
        table = mixed
        if word != "numbers":
            how = dict.fromkeys(mixed.domain.numeric, BINS) if word == "auto" else discretize
            states = mixed.as_states() if how is None else mixed.binned(how)
            table = MixedTable(
                MixedDomain(states.domain, (), mixed.names), states, np.empty((len(states), 0))
            )
        shown = table.categories
        if table.scales:
            shown = mixed.binned(dict.fromkeys(mixed.domain.numeric, SHOWN_BINS))
        bins = {
            scale.name: _remembered(mixed.column(scale.name), shown, scale)
            for scale in mixed.scales
            if shown.domain[scale.name].cuts is not None
        }
        scales = {scale.name: scale for scale in mixed.scales}
        automatic = word in ("auto", "numbers")
        own = cls(table.domain, scales, bins, empty, dtype, unseen, labels, sources, automatic)
        return own, table

    @property
    def domain(self) -> Domain:
        """The columns of states."""
        return self.columns.categories

    def is_number(self, name: str) -> bool:
        """Return whether answers about a column are numbers."""
        return name in self.columns.numeric or (self.automatic and name in self.bins)

    def scale(self, name: str) -> NumberScale:
        """Return the scale of a column of numbers."""
        if name not in self.scales:
            raise DataError(f"column {name!r} has states, not numbers")
        return self.scales[name]

    def name(self, target: Any) -> str:
        """Return the name of a column, given by name or by number in an array."""
        number = isinstance(target, int | np.integer) and self.empty is None
        if number and -len(self.sources) <= target < len(self.sources):
            target = self.sources[target]
        text = str(target)
        if text not in self.columns.names:
            if text in self.sources:
                raise DataError(
                    f"column {text!r} was left out of the model; learn with include=[{text!r}] to keep it"
                )
            raise DataError(
                f"there is no variable {text!r}. " + did_you_mean(text, self.columns.names)
            )
        return text

    @property
    def places(self) -> dict[str, int]:
        """The place of each column of the model in the user's array."""
        at = {name: i for i, name in enumerate(self.sources)}
        return {name: at[name] for name in self.columns.names if name in at}

    def given(self, evidence: Mapping[Any, Any] | None) -> dict[str, Any]:
        """Return evidence by name, as states and numbers; missing values are left out."""
        found: dict[str, Any] = {}
        for label, value in (evidence or {}).items():
            name = self.name(label)
            if is_missing(value):
                continue
            if name in self.columns.numeric:
                found[name] = number_value(self.scales[name], value)
                continue
            if isinstance(value, Mapping):
                raise no_value(name, value)
            variable = self.domain[name]
            code = self._state(variable, plain(value))
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
        numbers = {n: [np.array(v) for v in bins.values] for n, bins in self.bins.items()}
        return evidence_of(self.domain, given, numbers)

    def mixed_evidence(self, given: Mapping[Any, Any] | str | None) -> Any:
        """Return evidence for a mixed network: by name, as values and conditions, or as text."""
        if not isinstance(given, Mapping):
            return given
        rich = {self.name(k): v for k, v in given.items() if isinstance(v, _CONDITIONS)}
        rest = {k: v for k, v in given.items() if not isinstance(v, _CONDITIONS)}
        return {**self.given(rest), **rich}

    def _state(self, variable: Variable, value: Any) -> int:
        (code,) = variable.find_all([value])
        if code < 0 and variable.name in self.bins:  # a date belongs to a bin of dates
            code = variable.find_all([self.scales[variable.name].number(value)])[0]
        return code

    def row(self, values: Mapping[Any, Any] | str | None) -> MixedTable:
        """Return the values of a row as a table; columns that were left out of the model are ignored."""
        if isinstance(values, str):
            raise DataError(f"give values as {{column: value}}, not as the text {values!r}")
        left_out = set(self.sources) - set(self.columns.names)
        known = self.given({k: v for k, v in (values or {}).items() if str(k) not in left_out})
        columns = [Column.of_values(name, [value]) for name, value in known.items()]
        none = Column("", np.full(1, -1, np.int64), [])
        return MixedTable.like(self.columns, columns or [none])

    def table(self, X: Any, *, subset: bool = False) -> MixedTable:  # noqa: N803
        """Return rows as states and numbers; with `subset`, columns that a frame lacks are missing."""
        if type(X).__module__.split(".")[0] == "pandas" and hasattr(X, "to_frame"):
            X = X.to_frame().T  # one row of a frame  # noqa: N806
        if isinstance(X, Mapping):
            return self.row(X)
        if isinstance(X, MixedTable) and X.domain == self.columns:
            return X
        if isinstance(X, Table) and not self.columns.scales and X.domain == self.domain:
            return MixedTable(self.columns, X, np.empty((len(X), 0)))
        columns = self._columns(X, subset)
        for i, column in enumerate(columns):
            if column.name in self.bins and column.name in self.domain.names:
                columns[i] = self._as_bins(column)
        return MixedTable.like(self.columns, columns, strict=self.unseen == "error")

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
            return columns_of(array[:, list(places.values())], list(places))
        present = {str(c) for c in _names(X)}
        if not subset:
            wanted = [n for n in self.columns.names if n not in present and n in self.sources]
            if wanted:
                raise DataError(f"there is no column {wanted[0]!r}")
        if not present & set(self.columns.names) and len(self.columns.names) == 1:
            return [Column(self.columns.names[0], np.full(len(X), -1, np.int64), [])]
        if present and not present & set(self.columns.names):
            raise DataError(
                "none of the columns belongs to the model; the columns are "
                f"{', '.join(sorted(present)[:5])}"
            )
        return [column for column in columns_of(X) if column.name in self.columns.names]

    def _as_bins(self, column: Column) -> Column:
        """Return a column with dates as numbers, which belong to bins."""
        scale = self.scales[column.name]
        if scale.kind == "number":
            return column
        known = set(self.domain[column.name].states)
        labels = [v if v in known else _number(scale, v) for v in column.labels]
        return Column(column.name, column.codes, labels)

    def fills(self, name: str, codes: Any) -> list[Any]:
        """Return the values of states; for a bin, the median of its numbers."""
        variable = self.domain[name]
        values = list(variable.states)
        if name in self.bins:
            scale, found = self.scales[name], self.bins[name].values
            for i, inside in enumerate(found):
                if inside:
                    values[i] = scale.own(inside[len(inside) // 2])
        return [values[code] for code in codes.tolist()]

    def drawn(self, name: str, codes: Any, rng: np.random.Generator) -> list[Any]:
        """Return values for codes; for a bin, a random one of its numbers."""
        if name not in self.bins:
            return self.fills(name, codes)
        scale, found = self.scales[name], self.bins[name].values
        spots, fills = rng.random(len(codes)), self.fills(name, codes)
        return [
            scale.own(found[c][int(u * len(found[c]))]) if found[c] else fill
            for c, u, fill in zip(codes.tolist(), spots, fills, strict=True)
        ]

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
        from conjoin.estimator.frames import replaced

        present = {str(c) for c in _names(X)}
        columns = {self.labels.get(n, n): cells for n, cells in fills.items() if n in present}
        return replaced(X, {n: cells for n, cells in columns.items() if cells[1]})

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
        from conjoin.estimator.frames import made_like

        own = {n: c for n, c in columns.items() if n in self.labels}
        return made_like(self.empty, {self.labels[n]: c for n, c in own.items()})


def values_of(table: MixedTable, name: str, rows: Any = slice(None)) -> list[Any]:
    """Return the values of a column as the user's table holds them; None where missing."""
    if name in table.domain.numeric:
        return [table.domain.scale(name).own(x) for x in table.column(name)[rows].tolist()]
    part = table.categories
    i = part.domain.index(name)
    states = [*part.domain.variables[i].states, None]
    codes = np.minimum(part.codes[rows, i].astype(np.int64), len(states) - 1)
    return [states[code] for code in codes.tolist()]


def _names(X: Any) -> list[Any]:  # noqa: N803
    if isinstance(X, Table):
        return list(X.domain.names)
    if isinstance(X, MixedTable):
        return list(X.names)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _number(scale: NumberScale, label: Any) -> Any:
    try:
        return scale.number(label)
    except DataError:
        return label


def _remembered(numbers: FloatArray, table: Table, scale: NumberScale) -> Bins:
    """Return the bins of a column, with numbers that are distributed as in the data."""
    position = table.domain.index(scale.name)
    own, result = table.codes[:, position], []
    for state in range(int(table.domain.cards[position])):
        inside = np.sort(numbers[own == state])
        at = np.linspace(0, len(inside) - 1, min(KEPT_NUMBERS, len(inside))).astype(np.int64)
        result.append(tuple(inside[at].tolist()) if len(inside) else ())
    return Bins(table.domain.variables[position], tuple(result))


def weighted_rows(count: int, given: Any, own: Any = None) -> tuple[Any, Any]:
    """Return the rows to use (None for all) and their weights (None if all are 1).

    Rows whose weights are whole numbers are repeated, unless that would be far more rows.
    """
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


def extra_column(X: Any, y: Any, target: Any) -> Column | None:  # noqa: N803
    """Return y as a column called `target`, if there is a y and the table has no such column."""
    if y is None or not isinstance(target, str):
        return None
    names: Sequence[str] = [f"v{i}" for i in range(np.shape(X)[1])] if not is_frame(X) else []
    if target in (names or [str(name) for name in _names(X)]):
        return None
    values = y.tolist() if hasattr(y, "tolist") else list(y)
    return Column.of_values(target, values).whole()
