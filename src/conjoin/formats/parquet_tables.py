"""Parquet tables, through pyarrow."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.data.columns import Column
from conjoin.data.frames import arrow_columns
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.errors import FormatError
from conjoin.formats.limits import MAX_BYTES
from conjoin.formats.storage import errors_naming, read_bytes, write_bytes


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    return list(_arrow("read_schema", path).names)


def read_parquet(path: Path, missing: Collection[str] = ()) -> list[Column]:
    """Read the columns of a Parquet file; labels keep their types. The texts `missing` are missing."""
    data = read_bytes(path)
    _check_size(_arrow("read_metadata", path, data), path)
    with errors_naming(path):
        columns = arrow_columns(_arrow("read_table", path, data, use_threads=False))
    return [column.without(missing) for column in columns] if missing else columns


def _check_size(found: Any, path: Path) -> None:
    """Reject a file of equal cells, which takes little room, if its columns would take too much."""
    size = 8 * found.num_rows * found.num_columns
    if size > MAX_BYTES.value:
        raise FormatError(
            f"has {found.num_rows:,} rows of {found.num_columns:,} columns, which take "
            f"{size:,} bytes; {MAX_BYTES.exceeded()}, or put the file into a folder: folders are read "
            "in batches",
            str(path),
        )


def _arrow(function: str, path: Path, data: bytes | None = None, **options: Any) -> Any:
    """Call one of pyarrow's readers, for a file or its contents."""
    import pyarrow as pa
    from pyarrow import parquet

    source = io.BytesIO(read_bytes(path) if data is None else data)
    try:
        return getattr(parquet, function)(source, **options)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise FormatError(f"cannot be read as Parquet: {str(error)[:300]}", str(path)) from None


def write_parquet(table: Table | MixedTable, path: Path) -> None:
    """Write a Parquet file; states of mixed types are written as text."""
    import pyarrow as pa
    from pyarrow import parquet

    if table.weights is not None:
        raise FormatError("a Parquet file cannot hold weights; use .data", str(path))
    states = table if isinstance(table, Table) else table.categories
    columns = {v.name: _states_array(states, i, path) for i, v in enumerate(states.domain)}
    names = list(columns)
    if isinstance(table, MixedTable):
        names = list(table.names)
        for scale in table.scales:
            columns[scale.name] = pa.array(map(scale.own, table.column(scale.name).tolist()))
    out = io.BytesIO()
    parquet.write_table(pa.table({name: columns[name] for name in names}), out)
    write_bytes(path, out.getvalue())


def _states_array(table: Table, position: int, path: Path) -> Any:
    import pyarrow as pa

    variable = table.domain.variables[position]
    kinds = {type(state) for state in variable.states}
    plain = len(kinds) == 1 and kinds <= {str, int, float, bool}
    states = list(variable.states) if plain else [str(state) for state in variable.states]
    if len(set(states)) < len(states):
        raise FormatError(
            f"two states of {variable.name!r} would be equal in a Parquet file; use .data",
            str(path),
        )
    codes = table.codes[:, position]
    lacking = codes == table.missing
    index = pa.array(np.where(lacking, 0, codes).astype(np.int32), mask=lacking)
    return pa.DictionaryArray.from_arrays(index, pa.array(states)).dictionary_decode()


def write_filled_parquet(
    source: Path, full: Table | MixedTable, holes: Mapping[str, BoolArray], path: Path
) -> None:
    """Write a copy of a Parquet file with its missing values filled in; types are kept if they fit.

    A column of numbers that were cut into bins becomes text if a bin has to be filled in.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = _arrow("read_table", source, use_threads=False)
    for name, missing in holes.items():
        where = np.flatnonzero(missing)
        if not len(where):
            continue
        at = table.schema.get_field_index(name)
        cells, kind = table.column(at).to_pylist(), table.schema.field(at).type
        for r, value in zip(where.tolist(), _values(full, name, where), strict=True):
            cells[r] = value
        listed = pa.types.is_dictionary(kind)
        try:
            column = pa.array(cells, kind.value_type if listed else kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            column = pa.array([str(cell) for cell in cells])
        table = table.set_column(at, name, column.dictionary_encode() if listed else column)
    out = io.BytesIO()
    parquet.write_table(table, out)
    write_bytes(path, out.getvalue())


def _values(full: Table | MixedTable, name: str, rows: IntArray) -> list[Any]:
    """Return the values of a column in some rows."""
    if isinstance(full, MixedTable) and name in full.domain.numeric:
        return list(map(full.domain.scale(name).own, full.column(name)[rows].tolist()))
    table = full.categories if isinstance(full, MixedTable) else full
    i = table.domain.index(name)
    states = table.domain.variables[i].states
    return [states[code] for code in table.codes[rows, i].tolist()]
