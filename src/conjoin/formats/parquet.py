"""Parquet tables, through pyarrow: single files, and folders of files that are read in batches.

The table of a folder may be larger than memory. The rows of a batch are coded and packed at once, one
byte per value while columns have few states. If equal rows are merged on the way, only the distinct rows
of states are kept, each with its count.

A sample of the rows decides what each column is, and where the intervals of numbers end, before all rows
are coded; if rows are merged, only the sample keeps the values of numbers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.columns import Column, table_of_columns
from conjoin.data.domain import Domain, Variable
from conjoin.data.frames import arrow_columns
from conjoin.data.label_values import is_number, typed_key
from conjoin.data.number_scale import LARGEST_INTEGER, NumberScale
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.data.telling_edges import with_telling_edges
from conjoin.errors import DataError, FormatError, did_you_mean
from conjoin.formats.csv_tables import filled_values
from conjoin.formats.storage import MAX_BYTES, errors_naming, read_bytes, write_bytes

BATCH_ROWS = 1 << 17
"""Number of rows that are read at a time."""

MERGE_AT = 1 << 21
"""Number of rows that are collected before equal ones are merged."""

SAMPLE_ROWS, SAMPLE_SEED = 200_000, 0
"""Maximum number of rows of a folder whose numbers are kept if equal rows are merged, and the seed that
they are drawn with."""


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    return list(_arrow("read_schema", path).names)


def read_parquet(path: Path, missing: Collection[str] = ()) -> list[Column]:
    """Read the columns of a Parquet file; labels keep their types. The texts `missing` are missing."""
    data = read_bytes(path)
    _check_size(_arrow("read_metadata", path, data), path)
    with errors_naming(path):
        columns = arrow_columns(_arrow("read_table", path, data, use_threads=False))
    return [column.without(missing) for column in columns]


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


class FolderSample(NamedTuple):
    """The columns of a random sample of the rows of a folder."""

    columns: list[Column]
    whole: bool  # whether these are all rows
    missing: Collection[str]  # the texts that stand for a missing value


def folder_sample(path: Path, missing: Collection[str] = ()) -> FolderSample:
    """Draw rows from a folder of Parquet files; a folder with few rows is its own sample.

    Which rows are drawn depends on the number of rows alone, not on files and row groups.
    """
    import pyarrow as pa

    files = _files(path)
    total = sum(_opened(file).metadata.num_rows for file in files)
    if not total:
        raise FormatError("the table has no rows, so its columns have no states", str(path))
    drawn = np.arange(total)
    if total > SAMPLE_ROWS:
        rng = np.random.default_rng(SAMPLE_SEED)
        drawn = np.sort(rng.choice(total, SAMPLE_ROWS, replace=False, shuffle=False))
    coders = [_FolderStates(name) for name in folder_columns(path)]
    codes: list[list[IntArray]] = [[] for _ in coders]
    start = 0
    for file in files:
        for batch in _batches(file, [coder.name for coder in coders]):
            first, last = np.searchsorted(drawn, [start, start + len(batch)])
            some = batch.take(pa.array(drawn[first:last] - start))
            start += len(batch)
            with errors_naming(file):
                for coder, listed in zip(coders, codes, strict=True):
                    listed.append(coder.codes(some.select([coder.name]), missing))
    columns = [
        replace(coder.column(), codes=np.concatenate(listed))
        for coder, listed in zip(coders, codes, strict=True)
    ]
    return FolderSample(columns, len(drawn) == total, missing)


def folder_table(
    path: Path,
    sample: FolderSample,
    kinds: Mapping[str, str],
    *,
    merge: bool = False,
    settle: Callable[[Table], Table] | None = None,
) -> Table:
    """Read a folder of Parquet files whose columns are of the given kinds, as a sample tells.

    The states of categories, and the codes and counts of rows, are those of all rows. The states of
    numbers are learned from the sample. If rows are merged, only the sample has the values of numbers
    (see `Table.sample`), unless the sample is the whole folder: it is then read like a single file.

    `settle`: what is done to a table before learning: to the sample, or to all rows if there are no
    numbers. By default, intervals are moved if rows are merged, since that is impossible later.
    """
    columns = [column for column in sample.columns if column.name in kinds]
    with errors_naming(path):
        table = table_of_columns(columns, kinds=kinds)
    if not table.domain.numeric:
        coders: list[_Coder] = [_FolderStates(column.name) for column in columns]
        table = _read(path, coders, merge=merge, missing=sample.missing)
        return table if settle is None else settle(table)
    if settle is None and merge and not sample.whole:
        settle = with_telling_edges
    table = table if settle is None else settle(table)
    if sample.whole:
        return table
    coders = [
        _FolderStates(v.name, v.absent)
        if v.numbers is None
        else _KnownStates(v, keeps_values=not merge)
        for v in table.domain
    ]
    result = _read(path, coders, merge=merge, missing=sample.missing)
    return result.with_sample(table_of_columns(columns, result.domain)) if merge else result


def read_parquet_folder(path: Path, domain: Domain, *, merge: bool = False) -> Table:
    """Read a folder of Parquet files with the states of a domain; merged rows have no numbers."""
    coders = [_KnownStates(variable, keeps_values=not merge) for variable in domain]
    return _read(path, coders, merge=merge)


def _read(
    path: Path, coders: Sequence[_Coder], *, merge: bool, missing: Collection[str] = ()
) -> Table:
    """Read all Parquet files in a folder, in the order of their names, each column by its coder.

    All files have the same columns, in any order. With `merge`, each distinct row of states is kept once,
    with its count as weight.
    """
    with errors_naming(path):
        blocks = [(np.zeros((0, len(coders)), np.uint8), np.zeros(0))]
        pending, limit = 0, MERGE_AT
        for file in _files(path):
            for batch in _batches(file, [coder.name for coder in coders]):
                with errors_naming(file):
                    block = _packed([c.codes(batch.select([c.name]), missing) for c in coders])
                blocks.append((block, np.ones(len(block))))
                pending += len(block)
                if merge and pending >= limit:
                    blocks = [_together(blocks, merge)]
                    pending = len(blocks[0][0])
                    limit = max(MERGE_AT, 2 * pending)  # rows that hardly repeat are merged rarely
        codes, weights = _together(blocks, merge)
        blocks.clear()  # they are as large as the table
        return _table(coders, codes, weights)


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


def _batches(file: Path, wanted: list[str]) -> Iterator[Any]:
    """Yield the batches of a file, with its columns in the order that is wanted."""
    import pyarrow as pa

    opened = _opened(file)
    names = opened.schema_arrow.names
    for name in wanted:
        if names.count(name) != 1:
            problem = "there is no column" if name not in names else "several columns are called"
            raise FormatError(f"{problem} {name!r}. " + did_you_mean(name, names), str(file))
    with _parquet_errors(file):
        for batch in opened.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
            if len(batch):
                yield pa.Table.from_batches([batch]).select(wanted)


class _FolderStates:
    """The distinct labels of a column, numbered as they appear."""

    values: list[FloatArray] | None = None

    def __init__(self, name: str, absent: bool = False) -> None:
        self.name, self.absent, self.ordered, self.gaps = name, absent, False, False
        self.labels: list[Any] = []
        self.numbers: dict[Any, int] = {}

    def codes(self, batch: Any, missing: Collection[str]) -> IntArray:
        """Return the numbers of a batch's labels, -1 for a missing value."""
        column = arrow_columns(batch)[0].without(missing)
        self.ordered |= column.ordered
        self.gaps |= bool((column.codes < 0).any())
        numbers = []
        for label in column.labels:
            # Whole numbers are integers in a batch in which one is missing (see `Column.whole`).
            key = float(label) if _is_exact(label) else label
            number = self.numbers.setdefault(typed_key(key), len(self.labels))
            if number == len(self.labels):
                self.labels.append(label)
            numbers.append(number)
        return np.array([*numbers, -1], np.int64)[column.codes]

    def column(self) -> Column:
        """Return the labels, as a column without rows."""
        labels = self.labels
        if {type(label) for label in labels} == {int, float} and all(map(_is_exact, labels)):
            labels = [float(label) for label in labels]
        gap = np.full(int(self.gaps), -1, np.int64)
        return Column(self.name, gap, labels, self.ordered).whole()

    def settled(self) -> tuple[Variable, IntArray]:
        """Return the variable, and the code of each number."""
        variable, codes = self.column().as_variable()
        return variable.with_absent() if self.absent else variable, codes


class _KnownStates:
    """A column whose states are known."""

    def __init__(self, variable: Variable, *, keeps_values: bool) -> None:
        self.name, self.variable = variable.name, variable
        keeps_values &= variable.numbers is not None
        self.values: list[FloatArray] | None = [] if keeps_values else None

    def codes(self, batch: Any, missing: Collection[str]) -> IntArray:
        """Return the states of a batch, -1 for a missing value."""
        if self.variable.numbers is None:
            column = arrow_columns(batch)[0].without(missing)
            codes = np.array(self.variable.find_all(column.labels), np.int64)
            if (codes < 0).any():
                label = column.labels[int(codes.argmin())]
                raise DataError(
                    f"column {self.name!r}: {label!r} is not a state. "
                    + did_you_mean(label, self.variable.states)
                )
            return np.append(codes, -1)[column.codes]
        values = _numbers(batch, self.variable.numbers.scale, missing)
        if self.values is not None:
            self.values.append(values)
        return self.variable.numbers.codes(values)

    def settled(self) -> tuple[Variable, IntArray]:
        """Return the variable, and the code of each state."""
        return self.variable, np.arange(len(self.variable))


_Coder = _FolderStates | _KnownStates


def _is_exact(label: Any) -> bool:
    """Return whether a label is a number that is the same as an integer and as a float."""
    return is_number(label) and abs(label) <= LARGEST_INTEGER


def _numbers(batch: Any, scale: NumberScale, missing: Collection[str]) -> FloatArray:
    """Return the values of a batch of one column of numbers, NaN where one is missing."""
    import pyarrow as pa

    kind = batch.schema.types[0]
    if scale.kind == "number" and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        array = batch.column(0).cast(pa.float64(), safe=False).fill_null(np.nan).combine_chunks()
        # From the buffer: pyarrow's own conversion imports pandas.
        values = np.frombuffer(array.buffers()[1], np.float64)[array.offset :][: len(array)] + 0.0
    else:
        column = arrow_columns(batch)[0].without(missing)
        values = np.append(scale.numbers(column.labels), np.nan)[column.codes]
    if np.isinf(values).any():
        raise DataError(f"column {scale.name!r} has an infinite value; mark it as missing")
    return values


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


def _table(coders: Sequence[_Coder], codes: Codes, weights: FloatArray) -> Table:
    """Return the rows with the codes of their domain; the states of columns are sorted."""
    settled = [coder.settled() for coder in coders]
    domain = Domain(variable for variable, _ in settled)
    dtype = code_dtype(domain.cards)
    missing, old = np.iinfo(dtype).max, np.iinfo(codes.dtype).max
    result = codes if codes.dtype == dtype else np.empty(codes.shape, dtype)
    for i, (variable, new) in enumerate(settled):
        empty = len(variable) - 1 if variable.absent else missing
        lookup = np.full(len(new) + 1, empty, dtype)
        lookup[:-1] = new
        result[:, i] = lookup[np.where(codes[:, i] == old, len(new), codes[:, i])]
    values = [np.concatenate([np.zeros(0), *c.values]) for c in coders if c.values is not None]
    repeated = len(weights) > 0 and bool(weights.max() > 1)
    numbers = np.stack(values, axis=1) if values else None
    return Table.adopt(domain, result, weights if repeated else None, numbers)
