"""Tables from NumPy arrays and from the frames of other libraries."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Any

import numpy as np

from conjoin.data.arrow import EMPTY
from conjoin.data.domain import Domain, Variable, is_missing, plain, typed_key
from conjoin.data.table import Table
from conjoin.errors import DataError


def as_table(data: Any, domain: Domain | None = None) -> Table:
    """Return data of any kind as a table.

    Parameters
    ----------
    data : Table, 2-dimensional array, or frame
        Frames are those of pandas, polars, pyarrow and whatever else narwhals understands. Values
        that are None, NaN or null are missing. The columns of an array are called v0, v1, ...
    domain : Domain, optional
        The variables to look for. By default every column is one, its values, sorted, its states.

    Examples
    --------
    >>> table = as_table(np.array([[0, 2], [1, 2], [0, 5]]))
    >>> table.domain
    Domain({'v0': [0, 1], 'v1': [2, 5]})
    >>> table.codes.tolist()
    [[0, 0], [1, 0], [0, 1]]
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, np.ndarray):
        return _from_array(data, domain)
    import narwhals as nw
    import pyarrow as pa

    from conjoin.data.arrow import table_from_arrow

    try:
        frame = nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise DataError(_twice(getattr(data, "column_names", None) or list(data.columns))) from None
    except TypeError:
        raise DataError(
            f"a {type(data).__name__} is not a table; give a Table, an array, a frame of pandas, "
            "polars or pyarrow, or read a file with `read_table`"
        ) from None
    if len(set(map(str, frame.columns))) != len(frame.columns):  # 1 and "1", say
        raise DataError(_twice(frame.columns))
    if not frame.columns:
        raise DataError("the table has no columns")
    if not len(frame) and domain is None:
        raise DataError("the table has no rows, so that its columns have no states")
    names = [str(c) for c in frame.columns]
    arrow = None
    with suppress(pa.ArrowException, TypeError):  # labels of several types in one column
        arrow = frame.to_arrow()
    if arrow is not None:
        arrow = arrow.select(list(range(len(names))))  # pandas' index may come after the columns
        kinds = [t.value_type if pa.types.is_dictionary(t) else t for t in arrow.schema.types]
        if not any(pa.types.is_nested(t) or isinstance(t, pa.BaseExtensionType) for t in kinds):
            return table_from_arrow(arrow.rename_columns(names), domain)
    columns = [frame.get_column(name).to_list() for name in frame.columns]
    return _from_columns(names, columns, domain)


def _twice(names: list[Any]) -> str:
    seen = list(map(str, names))
    twin = next((n for i, n in enumerate(seen) if n in seen[:i]), "")
    return f"two columns are called {twin!r}; rename one"


def _from_array(data: np.ndarray[Any, Any], domain: Domain | None) -> Table:
    if data.ndim != 2:
        raise DataError(f"a table needs 2 dimensions, rows and columns, not {data.ndim}")
    names = [f"v{i}" for i in range(data.shape[1])] if domain is None else list(domain.names)
    if len(names) != data.shape[1]:
        raise DataError(f"the array has {data.shape[1]} columns; {len(names)} were expected")
    if data.dtype.kind not in "iufb":
        return _from_columns(names, [column.tolist() for column in data.T], domain)
    variables, columns = [], []
    for i, name in enumerate(names):
        column = np.ascontiguousarray(data[:, i])
        unknown = np.isnan(column) if data.dtype.kind == "f" else np.zeros(len(column), bool)
        values, place = np.unique(column[~unknown], return_inverse=True)
        states = [plain(v) for v in values]
        codes = np.full(len(column), -1, np.int64)
        if domain is not None:
            place = np.array([domain.variables[i].index(s) for s in states], np.int64)[place]
        elif not states:
            raise DataError(EMPTY.format(name))
        else:
            variables.append(Variable(name, states))
        codes[~unknown] = place
        columns.append(codes)
    return Table.adopt(domain or Domain(variables), np.stack(columns, axis=1))


def _from_columns(names: list[str], columns: list[list[Any]], domain: Domain | None) -> Table:
    """Code columns of arbitrary labels, one by one."""
    if domain is None:
        variables = []
        for name, column in zip(names, columns, strict=True):
            try:
                states = {typed_key(v): plain(v) for v in column if not is_missing(v)}
            except TypeError:
                odd = next(v for v in column if not isinstance(v, Hashable))
                raise DataError(
                    f"column {name!r} holds {odd!r}, a {type(odd).__name__}, which cannot be a state"
                ) from None
            if not states:
                raise DataError(EMPTY.format(name))
            ordered = sorted(states.values(), key=lambda s: (type(s).__name__, str(s)))
            variables.append(Variable(name, ordered))
        domain = Domain(variables)
    place = {name: i for i, name in enumerate(names)}
    for name in domain.names:
        if name not in place:
            raise DataError(f"there is no column {name!r}")
    rows = zip(*(columns[place[name]] for name in domain.names), strict=True)
    return Table.from_rows(domain, rows)
