"""Parquet tables, through pyarrow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray
from conjoin.data.domain import Domain
from conjoin.data.frames import table_from_arrow
from conjoin.data.table import Table
from conjoin.errors import FormatError
from conjoin.formats.storage import errors_naming, read_bytes, write_bytes


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    return list(_arrow("read_schema", path).names)


def read_parquet(path: Path, domain: Domain | None = None) -> Table:
    """Read a Parquet file; labels keep their types."""
    with errors_naming(path):
        return table_from_arrow(_arrow("read_table", path, use_threads=False), domain)


def _arrow(function: str, path: Path, **options: Any) -> Any:
    """Call one of pyarrow's readers."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return getattr(parquet, function)(io.BytesIO(read_bytes(path)), **options)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"cannot be read as Parquet: {error}", str(path)) from None


def write_parquet(table: Table, path: Path) -> None:
    """Write a Parquet file; states of mixed types are written as text."""
    import pyarrow as pa
    from pyarrow import parquet

    if table.weights is not None:
        raise FormatError("a Parquet file cannot hold weights; use .data", str(path))
    columns = {}
    for i, variable in enumerate(table.domain):
        kinds = {type(state) for state in variable.states}
        plain = len(kinds) == 1 and kinds <= {str, int, float, bool}
        states = list(variable.states) if plain else [str(state) for state in variable.states]
        if len(set(states)) < len(states):
            raise FormatError(
                f"two states of {variable.name!r} would be equal in a Parquet file; use .data",
                str(path),
            )
        codes = table.codes[:, i]
        lacking = codes == table.missing
        index = pa.array(np.where(lacking, 0, codes).astype(np.int32), mask=lacking)
        columns[variable.name] = pa.DictionaryArray.from_arrays(
            index, pa.array(states)
        ).dictionary_decode()
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    write_bytes(path, out.getvalue())


def write_filled_parquet(source: Path, full: Table, holes: BoolArray, path: Path) -> None:
    """Write a copy of a Parquet file with its missing values filled in; types are kept if they fit.

    A column of numbers that were cut into bins becomes text if a bin has to be filled in.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = _arrow("read_table", source, use_threads=False)
    for i, variable in enumerate(full.domain):
        where = np.flatnonzero(holes[:, i]).tolist()
        if not where:
            continue
        at = table.schema.get_field_index(variable.name)
        cells, kind = table.column(at).to_pylist(), table.schema.field(at).type
        for r in where:
            cells[r] = variable.states[full.codes[r, i]]
        listed = pa.types.is_dictionary(kind)
        try:
            column = pa.array(cells, kind.value_type if listed else kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            column = pa.array([str(cell) for cell in cells])
        table = table.set_column(
            at, variable.name, column.dictionary_encode() if listed else column
        )
    out = io.BytesIO()
    parquet.write_table(table, out)
    write_bytes(path, out.getvalue())
