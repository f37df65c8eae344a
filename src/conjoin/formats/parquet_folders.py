"""Folders of Parquet files, read in batches: the table may be larger than memory if rows repeat.

The rows of a batch are coded and packed at once, one byte per value while columns have few states. If
equal rows are merged on the way, only the distinct rows are kept, each with its count.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.columns import Column, columns_with_values
from conjoin.data.domain import Domain
from conjoin.data.frames import arrow_columns
from conjoin.data.label_values import typed_key
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import DataError, FormatError, did_you_mean
from conjoin.formats.storage import errors_naming

BATCH_ROWS = 1 << 17
"""Number of rows that are read at a time."""

MERGE_AT = 1 << 21
"""Number of rows that are collected before equal ones are merged."""


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

    Parameters
    ----------
    path : Path
        The folder. All files have the same columns, in any order.
    domain : Domain, optional
        The variables to look for; without it, every column is a variable with its values as states.
    merge : bool
        Keep each distinct row once, with its count as weight.
    batch_rows, merge_at : int
        The number of rows that are read at a time, and that are collected before equal ones are merged.
    """
    files = _files(path)
    wanted = list(_opened(files[0]).schema_arrow.names) if domain is None else list(domain.names)
    with errors_naming(path):
        states = [_States(name) for name in wanted]
        rows = _Rows(len(wanted), merge_at if merge else None)
        for file in files:
            for batch in _batches(file, wanted, batch_rows):
                with errors_naming(file):
                    columns = arrow_columns(batch)
                    batch_codes = [s.codes(c) for s, c in zip(states, columns, strict=True)]
                rows.add(batch_codes)
        codes, weights = rows.finished()
        if domain is None and not len(codes):
            raise DataError("the table has no rows, so its columns have no states")
        return _table(states, codes, weights, domain)


def _files(path: Path) -> list[Path]:
    """Return the Parquet files of a folder and its subfolders, but not those that start with . or _."""
    found = sorted(p for p in path.rglob("*.parquet") if not p.name.startswith((".", "_")))
    if not found:
        raise FormatError("the folder has no Parquet files", str(path))
    return found


def _opened(file: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"cannot be read as Parquet: {error}", str(file)) from None


def _batches(file: Path, wanted: list[str], batch_rows: int) -> Iterator[Any]:
    """Yield the batches of a file, with its columns in the order that is wanted."""
    import pyarrow as pa

    opened = _opened(file)
    names = opened.schema_arrow.names
    for name in wanted:
        if names.count(name) != 1:
            problem = "there is no column" if name not in names else "several columns are called"
            raise FormatError(f"{problem} {name!r}. " + did_you_mean(name, names), str(file))
    try:
        for batch in opened.iter_batches(batch_rows, columns=wanted, use_threads=False):
            yield pa.Table.from_batches([batch]).select(wanted)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"cannot be read as Parquet: {error}", str(file)) from None


class _States:
    """The distinct labels of a column, numbered as they appear."""

    def __init__(self, name: str) -> None:
        self.name, self.ordered = name, False
        self.labels: list[Any] = []
        self.numbers: dict[Any, int] = {}

    def codes(self, column: Column) -> IntArray:
        """Return the numbers of a batch's labels, -1 for a missing value."""
        self.ordered |= column.ordered
        found = []
        for label in column.labels:
            number = self.numbers.setdefault(typed_key(label), len(self.labels))
            if number == len(self.labels):
                self.labels.append(label)
            found.append(number)
        return np.array([*found, -1], np.int64)[column.codes]

    def column(self) -> Column:
        """Return the labels, as a column without rows."""
        return Column(self.name, np.zeros(0, np.int64), self.labels, self.ordered)


class _Rows:
    """The rows so far: in unsigned integers, the largest of which means a missing value."""

    def __init__(self, columns: int, merge_at: int | None) -> None:
        self.merge_at, self.limit = merge_at, merge_at or 0
        self.blocks: list[Codes] = [np.zeros((0, columns), np.uint8)]
        self.weights: list[FloatArray] = [np.zeros(0)]
        self.pending = 0

    def add(self, columns: list[IntArray]) -> None:
        """Append the rows of a batch, given by column."""
        largest = max((int(codes.max(initial=0)) for codes in columns), default=0)
        dtype = code_dtype(np.array([largest + 1]))
        block = np.empty((len(columns[0]) if columns else 0, len(columns)), dtype)
        for i, codes in enumerate(columns):
            block[:, i] = codes  # -1 becomes the largest number
        self.blocks.append(block)
        self.weights.append(np.ones(len(block)))
        self.pending += len(block)
        if self.merge_at is not None and self.pending >= self.limit:
            merged, _ = self.finished()
            # Rows that hardly repeat are merged ever more rarely.
            self.pending, self.limit = len(merged), max(self.merge_at, 2 * len(merged))

    def finished(self) -> tuple[Codes, FloatArray]:
        """Return all rows so far, merged if they should be, and their weights."""
        dtype = max((block.dtype for block in self.blocks), key=lambda d: d.itemsize)
        codes = np.concatenate([_widened(block, dtype) for block in self.blocks])
        weights = np.concatenate(self.weights)
        self.blocks, self.weights = [codes], [weights]
        if self.merge_at is not None:
            codes, weights = merge_rows(codes, weights)
            self.blocks, self.weights = [codes], [weights]
        return codes, weights


def _widened(codes: Codes, dtype: np.dtype[Any]) -> Codes:
    """Return codes in a larger type, in which another number means a missing value."""
    if codes.dtype == dtype:
        return codes
    wide = codes.astype(dtype)
    wide[codes == np.iinfo(codes.dtype).max] = np.iinfo(dtype).max
    return wide


def _table(
    states: list[_States], codes: Codes, weights: FloatArray, domain: Domain | None
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
        lookup = np.full(len(new) + 1, missing, dtype)
        lookup[:-1] = new
        result[:, i] = lookup[np.where(codes[:, i] == old, len(new), codes[:, i])]
    repeated = len(weights) > 0 and bool(weights.max() > 1)
    return Table.adopt(domain, result, weights if repeated else None)
