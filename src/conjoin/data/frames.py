"""Tables from NumPy arrays and from the data frames of other libraries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import IntArray
from conjoin.data.column_kinds import column_kind, number_kind
from conjoin.data.columns import Column, check_names, table_of_columns
from conjoin.data.domain import Domain
from conjoin.data.label_values import is_number, plain
from conjoin.data.table import Table
from conjoin.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = ("", "?", "*", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "None", "NULL", "null")
"""The texts that stand for a missing value in a file, or among the numbers of a frame."""


def as_table(data: Any, domain: Domain | None = None) -> Table:
    """Return an array or a frame as a table.

    Parameters
    ----------
    data : Table, 2-dimensional array, or frame
        Frames of pandas, polars, pyarrow and any other library that narwhals supports. Values that
        are None, NaN or null are missing, and so is a text such as "?" if all others are numbers. The
        columns of an array are called v0, v1, ... A Table is returned as it is.
    domain : Domain, optional
        The variables to look for. By default columns are numbers or dates if they look like that (see
        `column_kind`), and others have their sorted values as states. Its hidden variables are not
        looked for: they are missing in all rows. A value that is not a state is an error.

    Examples
    --------
    >>> table = as_table(np.array([[0, 2], [1, 2], [0, 5]]))
    >>> table.domain
    Domain({'v0': [0, 1], 'v1': [2, 5]})
    >>> table.codes.tolist()
    [[0, 0], [1, 0], [0, 1]]
    """
    if isinstance(data, Table):
        return data if domain is None or not domain.hidden.any() else data.over(domain)
    if domain is None:
        columns = columns_of(data)
        if not len(columns[0].codes):
            raise DataError("the table has no rows, so its columns have no states")
        return table_of_columns(columns, kinds={c.name: number_kind(c) for c in columns})
    columns = columns_of(data, domain.observed.names, domain)
    return table_of_columns(columns, domain.observed).over(domain)


def columns_of(
    data: Any, names: Sequence[str] | None = None, domain: Domain | None = None
) -> list[Column]:
    """Return the columns of a table, an array or a frame (see `as_table`).

    `names`: those of an array. `domain`: the variables that the columns will be coded as, if they are
    known: they decide whether a text such as "?" is a state or a missing value.
    """
    if isinstance(data, Table):
        return [Column.of_table(data, i) for i in range(len(data.domain))]
    if isinstance(data, np.ndarray):
        columns, categories = _array_columns(data, names), set[str]()
    else:
        columns, categories = _columns(data)
    return [c if c.name in categories else _without_markers(c, domain) for c in columns]


def _without_markers(column: Column, domain: Domain | None) -> Column:
    """Return a column of numbers without the texts that stand for missing values.

    Text such as "2.5" becomes numbers even if no value is missing, so that a part of a table is read
    like the whole. Whole numbers that are text may be codes.
    """
    texts = [v for v in column.labels if isinstance(v, str)]
    if not texts:
        return column
    markers = [v for v in texts if v.strip() in MISSING]
    rest = column.without(markers)
    if domain is not None:
        known = column.name in domain.names and domain[column.name].order_shows
        return rest if known else column
    rest = rest.parsed() if len(texts) == len(column.labels) else rest
    if not rest.labels or not all(map(is_number, rest.labels)):
        return column
    fractions = any(v % 1 for v in rest.labels) and column_kind(rest) == "number"
    return rest if markers or fractions else column


def _array_columns(data: np.ndarray[Any, Any], names: Sequence[str] | None) -> list[Column]:
    if data.ndim != 2:
        raise DataError(f"a table needs 2 dimensions, rows and columns, not {data.ndim}")
    names = [f"v{i}" for i in range(data.shape[1])] if names is None else list(names)
    if len(names) != data.shape[1]:
        raise DataError(f"the array has {data.shape[1]} columns; {len(names)} were expected")
    if not names:
        raise DataError("the table has no columns")
    if data.dtype.kind not in "iufb":
        return [Column.of_values(name, data[:, i].tolist()) for i, name in enumerate(names)]
    columns = []
    for i, name in enumerate(names):
        values, codes = np.unique(data[:, i], return_inverse=True)  # NaN, if any, comes last
        known = ~np.isnan(values) if data.dtype.kind == "f" else np.ones(len(values), bool)
        codes = np.where(known[codes], codes, -1).astype(np.int64)
        columns.append(Column(name, codes, [plain(v) for v in values[known]]).whole())
    return columns


def _columns(data: Any) -> tuple[list[Column], set[str]]:
    """Return the columns of a frame, and the names of those whose type is a category."""
    import narwhals as nw
    import pyarrow as pa

    try:
        frame = nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        check_names(getattr(data, "column_names", None) or list(data.columns))
        raise
    except TypeError:
        raise DataError(
            f"a {type(data).__name__} is not a table; give a Table, an array, a pandas, polars "
            "or pyarrow frame, or read a file with `read_table`"
        ) from None
    if not frame.columns:
        raise DataError("the table has no columns")
    check_names(frame.columns)
    names = [str(c) for c in frame.columns]
    categories = {str(n) for n, t in frame.schema.items() if t in (nw.Categorical, nw.Enum)}
    arrow = None
    with suppress(pa.ArrowException, TypeError):  # labels of several types in one column
        arrow = frame.to_arrow()
    if arrow is not None:
        arrow = arrow.select(list(range(len(names))))  # pandas' index may come after the columns
        kinds = [t.value_type if pa.types.is_dictionary(t) else t for t in arrow.schema.types]
        if not any(pa.types.is_nested(t) or isinstance(t, pa.BaseExtensionType) for t in kinds):
            return arrow_columns(arrow.rename_columns(names)), categories
    lists = [frame.get_column(name).to_list() for name in frame.columns]
    columns = [Column.of_values(name, values) for name, values in zip(names, lists, strict=True)]
    return columns, categories


def arrow_columns(table: pa.Table, *, markers: Collection[str] | None = None) -> list[Column]:
    """Return the columns of an Arrow table; `markers` of missing values if it is text from a file."""
    return [
        _arrow_column(name, column, markers)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]


def _arrow_column(name: str, column: Any, markers: Collection[str] | None) -> Column:
    import pyarrow as pa

    try:
        array = column.combine_chunks()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
    except pa.ArrowException:
        raise DataError(
            f"column {name!r} holds values of type {column.type}, which cannot be states"
        ) from None
    codes = _codes(array.indices)
    # Several entries of the dictionary may be one label, or mean a missing value.
    values = array.dictionary.to_pylist()
    if pa.types.is_decimal(array.type.value_type):
        values = [None if value is None else float(value) for value in values]
    if markers is not None:
        values = [_text_value(value, markers) for value in values]
    listed = Column.of_values(name, values)
    codes = np.append(listed.codes, -1)[codes]
    ordered = bool(getattr(column.type, "ordered", False))
    return Column(name, codes, listed.labels, ordered).whole()


def _text_value(value: str | None, markers: Collection[str]) -> str | None:
    """Return the text of a cell of a file, None if it is missing.

    A marker without blanks around it was quoted, because an unquoted one is no text here any more.
    """
    stripped = "" if value is None else value.strip()
    return None if not stripped or (stripped != value and stripped in markers) else stripped


def widened(part: Table, domain: Domain) -> Table:
    """Return a table of some variables of a domain as one of all; the other values are missing."""
    codes = np.full((len(part), len(domain)), -1, np.int64)
    codes[:, [domain.index(name) for name in part.domain.names]] = part.signed_codes()
    lacking = [name for name in domain.names if name not in part.domain.names]
    if part.domain.numeric and part.numbers is None:
        return Table.adopt(domain, codes, part.weights, None, lacking)
    numbers = np.full((len(part), len(domain.numeric)), np.nan)
    for name in part.domain.numeric:
        numbers[:, domain.numeric.index(name)] = part.column(name)
    return Table.adopt(domain, codes, part.weights, numbers, lacking)


def _codes(indices: Any) -> IntArray:
    """Return integers, -1 for null, from the buffers: pyarrow's own conversion imports pandas."""
    valid, data = indices.buffers()
    rows = slice(indices.offset, indices.offset + len(indices))
    if not len(indices) or data is None:
        return np.full(len(indices), -1, np.int64)
    codes = np.frombuffer(data, np.dtype(str(indices.type)))[rows].astype(np.int64)
    if valid is not None:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[rows]
        codes[bits == 0] = -1
    return codes
