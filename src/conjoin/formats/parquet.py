"""Parquet tables, through pyarrow: single files, and folders of files that are read in batches.

The table of a folder may be larger than memory if rows repeat. The rows of a batch are coded and packed
at once, one byte per value while columns have few states. If equal rows are merged on the way, only the
distinct rows are kept, each with its count.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.columns import Column, columns_with_values
from conjoin.data.domain import Domain
from conjoin.data.frames import arrow_columns
from conjoin.data.label_values import typed_key
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import DataError, FormatError, did_you_mean
from conjoin.formats.csv_tables import filled_values
from conjoin.formats.storage import MAX_BYTES, errors_naming, read_bytes, write_bytes

BATCH_ROWS = 1 << 17
"""Number of rows that are read at a time."""

MERGE_AT = 1 << 21
"""Number of rows that are collected before equal ones are merged."""


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


def _check_size(metadata: Any, path: Path) -> None:
    """Reject a file of equal cells, which takes little room, if its columns would take too much."""
    size = 8 * metadata.num_rows * metadata.num_columns
    if size > MAX_BYTES.value:
        raise FormatError(
            f"has {metadata.num_rows:,} rows of {metadata.num_columns:,} columns, which take "
            f"{size:,} bytes; {MAX_BYTES.exceeded()}, or put the file into a folder: folders are read "
            "in batches",
            str(path),
        )


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors into errors that name the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise FormatError(f"cannot be read as Parquet: {str(error)[:300]}", str(path)) from None


def _arrow(function: str, path: Path, data: bytes | None = None, **options: Any) -> Any:
    """Call one of pyarrow's readers, for a file or its contents."""
    from pyarrow import parquet

    source = io.BytesIO(read_bytes(path) if data is None else data)
    with _parquet_errors(path):
        return getattr(parquet, function)(source, **options)


def write_parquet(table: Table, path: Path) -> None:
    """Write a Parquet file; states of mixed types are written as text."""
    import pyarrow as pa
    from pyarrow import parquet

    if table.weights is not None:
        raise FormatError("a Parquet file cannot hold weights; use .data", str(path))
    columns = {v.name: _states_array(table, i, path) for i, v in enumerate(table.domain)}
    for name in table.domain.numeric if table.numbers is not None else ():
        columns[name] = pa.array(map(table.domain.scale(name).own, table.column(name).tolist()))
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    write_bytes(path, out.getvalue())


def _states_array(table: Table, position: int, path: Path) -> Any:
    import pyarrow as pa

    variable = table.domain.variables[position]
    kinds = {type(state) for state in variable.values}
    plain = len(kinds) == 1 and kinds <= {str, int, float, bool}
    states = list(variable.values) if plain else [str(state) for state in variable.values]
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
    source: Path, full: Table, holes: Mapping[str, BoolArray], path: Path
) -> None:
    """Write a copy of a Parquet file with missing values filled in; types are kept if they fit."""
    import pyarrow as pa
    from pyarrow import parquet

    table = _arrow("read_table", source, use_threads=False)
    for name, missing in holes.items():
        where = np.flatnonzero(missing)
        if not len(where):
            continue
        at = table.schema.get_field_index(name)
        cells, kind = table.column(at).to_pylist(), table.schema.field(at).type
        for r, value in zip(where.tolist(), filled_values(full, name, where), strict=True):
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


def folder_columns(path: Path) -> list[str]:
    """Return the names of the columns of a folder of Parquet files."""
    return list(_opened(_files(path)[0]).schema_arrow.names)


def read_parquet_folder(
    path: Path,
    domain: Domain | None = None,
    *,
    merge: bool = False,
    batch_rows: int = BATCH_ROWS,
    merge_at: int = MERGE_AT,
) -> Table:
    """Read all Parquet files in a folder, in the order of their names, as one table.

    All files have the same columns, in any order. With `merge`, each distinct row is kept once, with its
    count as weight; up to `merge_at` rows are collected before equal ones are merged.
    """
    files = _files(path)
    wanted = list(_opened(files[0]).schema_arrow.names) if domain is None else list(domain.names)
    with errors_naming(path):
        states = [_FolderStates(name) for name in wanted]
        blocks = [(np.zeros((0, len(wanted)), np.uint8), np.zeros(0))]
        pending, limit = 0, merge_at
        for file in files:
            for batch in _batches(file, wanted, batch_rows):
                with errors_naming(file):
                    columns = arrow_columns(batch)
                    block = _packed([s.codes(c) for s, c in zip(states, columns, strict=True)])
                blocks.append((block, np.ones(len(block))))
                pending += len(block)
                if merge and pending >= limit:
                    blocks = [_together(blocks, merge)]
                    pending = len(blocks[0][0])
                    limit = max(merge_at, 2 * pending)  # rows that hardly repeat are merged rarely
        codes, weights = _together(blocks, merge)
        blocks.clear()  # they are as large as the table
        if domain is None and not len(codes):
            raise DataError("the table has no rows, so its columns have no states")
        return _table(states, codes, weights, domain)


def _files(path: Path) -> list[Path]:
    """Return the Parquet files of a folder and its subfolders, but not those that start with . or _."""
    files = sorted(p for p in path.rglob("*.parquet") if not p.name.startswith((".", "_")))
    if not files:
        raise FormatError("the folder has no Parquet files", str(path))
    return files


def _opened(file: Path) -> Any:
    from pyarrow import parquet

    with _parquet_errors(file):
        return parquet.ParquetFile(file)


def _batches(file: Path, wanted: list[str], batch_rows: int) -> Iterator[Any]:
    """Yield the batches of a file, with its columns in the order that is wanted."""
    import pyarrow as pa

    opened = _opened(file)
    names = opened.schema_arrow.names
    for name in wanted:
        if names.count(name) != 1:
            problem = "there is no column" if name not in names else "several columns are called"
            raise FormatError(f"{problem} {name!r}. " + did_you_mean(name, names), str(file))
    with _parquet_errors(file):
        for batch in opened.iter_batches(batch_rows, columns=wanted, use_threads=False):
            yield pa.Table.from_batches([batch]).select(wanted)


class _FolderStates:
    """The distinct labels of a column, numbered as they appear."""

    def __init__(self, name: str) -> None:
        self.name, self.ordered = name, False
        self.labels: list[Any] = []
        self.numbers: dict[Any, int] = {}

    def codes(self, column: Column) -> IntArray:
        """Return the numbers of a batch's labels, -1 for a missing value."""
        self.ordered |= column.ordered
        numbers = []
        for label in column.labels:
            number = self.numbers.setdefault(typed_key(label), len(self.labels))
            if number == len(self.labels):
                self.labels.append(label)
            numbers.append(number)
        return np.array([*numbers, -1], np.int64)[column.codes]

    def column(self) -> Column:
        """Return the labels, as a column without rows."""
        return Column(self.name, np.zeros(0, np.int64), self.labels, self.ordered)


def _packed(columns: list[IntArray]) -> Codes:
    """Return the rows of a batch in unsigned integers, the largest of which is a missing value."""
    largest = max((int(codes.max(initial=0)) for codes in columns), default=0)
    block = np.empty(
        (len(columns[0]) if columns else 0, len(columns)), code_dtype(np.array([largest + 1]))
    )
    for i, codes in enumerate(columns):
        block[:, i] = codes  # -1 becomes the largest number
    return block


def _together(blocks: list[tuple[Codes, FloatArray]], merge: bool) -> tuple[Codes, FloatArray]:
    """Return blocks of rows and their weights as one, with equal rows merged on demand."""
    dtype = max((codes.dtype for codes, _ in blocks), key=lambda d: d.itemsize)
    codes = np.concatenate([_widened(codes, dtype) for codes, _ in blocks])
    weights = np.concatenate([weights for _, weights in blocks])
    return merge_rows(codes, weights) if merge else (codes, weights)


def _widened(codes: Codes, dtype: np.dtype[Any]) -> Codes:
    """Return codes in a larger type, in which another number means a missing value."""
    if codes.dtype == dtype:
        return codes
    wide = codes.astype(dtype)
    wide[codes == np.iinfo(codes.dtype).max] = np.iinfo(dtype).max
    return wide


def _table(
    states: list[_FolderStates], codes: Codes, weights: FloatArray, domain: Domain | None
) -> Table:
    """Return the rows with the codes of a domain, or of sorted states."""
    columns = [s.column() for s in states]
    if domain is None:
        kept = columns_with_values(columns)
        coded = [column.as_variable() for column in kept]
        domain, recoded = Domain(v for v, _ in coded), [new for _, new in coded]
        if len(kept) < len(columns):
            codes = codes[:, [i for i, column in enumerate(columns) if column.labels]]
    else:
        recoded = [
            np.array(v.find_all(c.labels), np.int64) for v, c in zip(domain, columns, strict=True)
        ]
        for variable, column, new in zip(domain, columns, recoded, strict=True):
            if (new < 0).any():
                label = column.labels[int(new.argmin())]
                raise DataError(
                    f"column {variable.name!r}: {label!r} is not a state. "
                    + did_you_mean(label, variable.states)
                )
    dtype = code_dtype(domain.cards)
    missing, old = np.iinfo(dtype).max, np.iinfo(codes.dtype).max
    result = codes if codes.dtype == dtype else np.empty(codes.shape, dtype)
    for i, new in enumerate(recoded):
        empty = len(domain.variables[i]) - 1 if domain.variables[i].absent else missing
        lookup = np.full(len(new) + 1, empty, dtype)
        lookup[:-1] = new
        result[:, i] = lookup[np.where(codes[:, i] == old, len(new), codes[:, i])]
    repeated = len(weights) > 0 and bool(weights.max() > 1)
    return Table.adopt(domain, result, weights if repeated else None)
