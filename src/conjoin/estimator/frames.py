"""Frames of pandas, polars and pyarrow, written to without a change of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def replaced(frame: Any, columns: Mapping[Any, tuple[Any, list[Any]]]) -> Any:
    """Return a frame with some cells replaced: {column: (which rows, their values)}."""
    kind = type(frame).__module__.split(".")[0]
    if kind == "pandas":
        result = frame.copy()
        for label, (rows, values) in columns.items():
            at = result.columns.get_loc(label)
            series = result.iloc[:, at].copy()
            series.iloc[rows.nonzero()[0]] = values
            result = result.drop(columns=[label])
            result.insert(at, label, series)
        return result
    import narwhals as nw

    native = nw.from_native(frame, eager_only=True)
    new = []
    for label, (rows, values) in columns.items():
        old = native.get_column(label)
        cells = old.to_list()
        for row, value in zip(rows.nonzero()[0].tolist(), values, strict=True):
            cells[row] = value
        new.append(_series(label, cells, old))
    return native.with_columns(*new).to_native()


def _series(label: str, cells: list[Any], like: Any) -> Any:
    import narwhals as nw

    if type(like.to_native()).__module__.split(".")[0] == "pyarrow":
        import pyarrow as pa

        array = pa.chunked_array([pa.array(cells, type=like.to_native().type)])
        return nw.from_native(array, series_only=True).alias(label)
    return nw.new_series(label, cells, like.dtype, backend=like.implementation)


def made_like(empty: Any, columns: Mapping[Any, list[Any]]) -> Any:
    """Return a frame of the same library, columns and types as an empty one."""
    kind = type(empty).__module__.split(".")[0]
    if kind == "pandas":
        result = type(empty)(dict(columns), columns=list(empty.columns))
        return result.astype(dict(empty.dtypes))
    import narwhals as nw

    native = nw.from_native(empty, eager_only=True)
    if kind == "pyarrow":
        import pyarrow as pa

        return pa.table(
            {n: pa.array(columns[n], type=empty.schema.field(n).type) for n in empty.column_names}
        )
    new = [_series(n, columns[n], native.get_column(n)) for n in native.columns]
    return nw.from_dict({s.name: s for s in new}, backend=native.implementation).to_native()
