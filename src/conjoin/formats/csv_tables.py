"""CSV tables, read with pyarrow and written with the standard library."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray
from conjoin.data.domain import Domain
from conjoin.data.frames import MISSING, table_from_arrow
from conjoin.data.table import Table
from conjoin.errors import FormatError
from conjoin.formats.storage import decoded, errors_naming, read_bytes, write_bytes


def read_csv(path: Path, domain: Domain | None = None) -> Table:
    """Read a CSV file with a header line.

    With a domain, other columns are ignored. Without one every column is a variable with sorted states,
    which are numbers if every value of the column is a number.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    raw = read_bytes(path)
    if not raw.strip():
        raise FormatError("the file is empty", str(path))
    if raw.count(b'"') % 2:
        raise FormatError("a quotation mark is opened but never closed", str(path))
    header = _header(decoded(raw, path), path)
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise FormatError(
            f"the header {header[0][:40]!r} has no commas; columns must be separated by commas",
            str(path),
            1,
        )
    bad: list[Any] = []

    def note(row: Any) -> str:
        bad.append(row)
        return "skip"

    text = pa.dictionary(pa.int32(), pa.string())
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(raw),
            read_options=arrow_csv.ReadOptions(column_names=header, skip_rows=1, use_threads=False),
            parse_options=arrow_csv.ParseOptions(invalid_row_handler=note, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header, text),
                null_values=list(MISSING),
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException as error:
        raise FormatError(f"cannot be read as CSV: {error}", str(path)) from None
    if bad:
        row = bad[0]
        raise FormatError(
            f"{row.actual_columns} values, but the header has {row.expected_columns}",
            str(path),
            row.number,
        )
    with errors_naming(path):
        return table_from_arrow(table, domain, text=True)


def _header(text: str, path: Path) -> list[str]:
    line = re.split("\r\n|\n|\r", text, maxsplit=1)[0]
    try:
        names = [name.strip() for name in next(csv.reader([line]), [])]
    except csv.Error as error:
        raise FormatError(f"the header cannot be read: {error}", str(path), 1) from None
    if not names:
        raise FormatError("the first line must name the columns", str(path), 1)
    seen = set()
    for number, name in enumerate(names, 1):
        if not name:
            raise FormatError(
                f"column {number} has no name in the header; name it, or write the table without row "
                "numbers (pandas: index=False, R: row.names=FALSE)",
                str(path),
                1,
            )
        if name in seen:
            raise FormatError(f"two columns are called {name!r}; rename one", str(path), 1)
        seen.add(name)
    return names


def csv_columns(path: Path) -> list[str]:
    """Return the names in the header line of a CSV file."""
    return _header(decoded(read_bytes(path), path), path)


def write_csv(table: Table, path: Path) -> None:
    """Write a CSV file with a header line; missing values are empty."""
    if table.weights is not None:
        raise FormatError("a CSV file cannot hold weights; use .data", str(path))
    for variable in table.domain:
        texts = [str(s) for s in variable.states]
        unclear = [t for t in texts if t in MISSING or texts.count(t) > 1]
        if unclear:
            raise FormatError(
                f"the state {unclear[0]!r} of {variable.name!r} cannot be distinguished from a "
                "missing value, or from another state, in a CSV file; use .data",
                str(path),
            )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.domain.names)
    columns = []
    for i, variable in enumerate(table.domain):
        labels = np.array([*map(str, variable.states), ""], object)
        codes = np.where(table.codes[:, i] == table.missing, len(variable), table.codes[:, i])
        columns.append(labels[codes])
    writer.writerows(zip(*columns, strict=True))
    write_bytes(path, out.getvalue().encode())


def write_filled_csv(source: Path, full: Table, holes: BoolArray, path: Path) -> None:
    """Write a copy of a CSV file with its missing values filled in; all else stays as it is.

    `full` are its rows without missing values, and `holes` the values that were missing. The file may
    have more columns than the table.
    """
    text = decoded(read_bytes(source), source)
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    header = _header(text, source)
    for i, variable in enumerate(full.domain):
        at = header.index(variable.name)
        labels = [str(state) for state in variable.states]
        for r in np.flatnonzero(holes[:, i]).tolist():
            rows[r + 1][at] = labels[full.codes[r, i]]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows[1:]])
    write_bytes(path, out.getvalue().encode())
