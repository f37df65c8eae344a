"""The target of a `JointModel`: the column that it predicts by default."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from conjoin.data.columns import Column
from conjoin.data.frames import columns_of
from conjoin.errors import DataError
from conjoin.estimator.scikit_learn import checked_array


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
        if _values(by_name[name]) == _values(column):
            return columns, name
        if target is not None:
            break
        name += "_"
    by_name[name] = column.renamed(name)
    return list(by_name.values()), name


def _values(column: Column) -> list[Any]:
    labels = [*column.labels, None]  # code -1, a missing value, is the last one
    return [labels[code] for code in column.codes.tolist()]
