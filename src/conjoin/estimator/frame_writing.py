"""Writing values into frames of pandas, polars and pyarrow without changing their types.

A type changes only if it cannot hold a value: if a column of NaN is filled with text, for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def replaced(frame: Any, columns: Mapping[Any, tuple[Any, list[Any]]]) -> Any:
    """Return a frame with some cells replaced: {column: (which rows, their values)}."""
    kind = type(frame).__module__.split(".")[0]
    if kind == "pandas":
        import pandas as pd  # type: ignore[import-untyped]

        parts = [frame.iloc[:, at] for at in range(frame.shape[1])]
        for label, (rows, values) in columns.items():
            at = frame.columns.get_loc(label)
            parts[at] = _written(parts[at], rows.nonzero()[0], values)
        result = pd.concat(parts, axis=1) if columns else frame.copy()
        result.columns, result.attrs = frame.columns, dict(frame.attrs)
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


def _written(series: Any, where: Any, values: list[Any]) -> Any:
    """Return a pandas series with some cells written, of a wider type if its own cannot hold them."""
    import warnings

    import pandas as pd

    result = series.copy()
    if pd.api.types.infer_dtype(series) == "string":
        values = _text(values)
    if hasattr(result, "cat"):
        new = [v for v in dict.fromkeys(values) if v not in result.cat.categories]
        result = result.cat.add_categories(new) if new else result
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # older versions warn instead of raising
            result.iloc[where] = values
    except (TypeError, ValueError, OverflowError, FutureWarning):
        result = series.astype(object)
        result.iloc[where] = values
        result = result.infer_objects()
    return result


def _text(cells: list[Any]) -> list[Any]:
    """Return the cells of a column of text, in which "?" or the like stood beside numbers."""
    return [str(cell) if isinstance(cell, int | float) else cell for cell in cells]


def _series(label: str, cells: list[Any], like: Any) -> Any:
    import narwhals as nw

    if like.dtype == nw.String:
        cells = _text(cells)
    if type(like.to_native()).__module__.split(".")[0] == "pyarrow":
        import pyarrow as pa

        try:
            array = pa.array(cells, type=like.to_native().type)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            array = pa.array(cells)
        return nw.from_native(pa.chunked_array([array]), series_only=True).alias(label)
    try:
        return nw.new_series(label, cells, like.dtype, backend=like.implementation)
    except Exception:  # each library raises its own error
        return nw.new_series(label, cells, backend=like.implementation)


def made_like(empty: Any, columns: Mapping[Any, list[Any]]) -> Any:
    """Return a frame of the same library, columns and types as an empty one.

    Columns that are not given have no values, and a type that allows that.
    """
    length = len(next(iter(columns.values())))
    kind = type(empty).__module__.split(".")[0]
    if kind == "pandas":
        result = type(empty)(dict(columns), columns=list(empty.columns), index=range(length))
        fixed = {n: t for n, t in empty.dtypes.items() if n in columns or str(t)[:1] not in "iub"}
        return result.astype(fixed)
    import narwhals as nw

    native = nw.from_native(empty, eager_only=True)
    cells = {n: columns[n] if n in columns else [None] * length for n in native.columns}
    new = [_series(n, cells[n], native.get_column(n)) for n in native.columns]
    if kind == "pyarrow":
        import pyarrow as pa

        return pa.table({s.name: s.to_native() for s in new})
    return nw.from_dict({s.name: s for s in new}, backend=native.implementation).to_native()
