"""CSV tables, read with pyarrow and written with the standard library."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.data.columns import Column
from conjoin.data.frames import MISSING, arrow_columns
from conjoin.data.table import Table
from conjoin.errors import DataWarning, FormatError
from conjoin.formats.csv_dialect import FALLBACK, SAMPLE_LINES, SEPARATORS, Dialect, read_text_table
from conjoin.formats.number_cells import number_styles, plain_number
from conjoin.formats.storage import errors_naming, write_bytes


@dataclass(frozen=True)
class Blocks:
    """How much of a file is parsed together."""

    usual: int = 1 << 20  # bytes
    largest: int = (1 << 31) - 2
    bytes_per_column: int = 256  # at least, because each column of each block has a cost of its own
    columns: int = 16_384  # converted together, because each takes kilobytes meanwhile

    def size(self, columns: int) -> int:
        """Return the number of bytes for a table of some number of columns."""
        return min(max(self.usual, self.bytes_per_column * columns), self.largest)


BLOCKS, FOUND_OUT = Blocks(), Dialect()


def read_csv(
    path: Path,
    missing: Collection[str] = MISSING,
    dialect: Dialect = FOUND_OUT,
    numeric: Collection[str] | None = None,
    blocks: Blocks = BLOCKS,
) -> list[Column]:
    """Read the columns of a CSV file with a header line, as text with numbers as Python writes them.

    Empty cells are missing, and so are cells that hold one of the texts `missing`, unless they are in
    quotation marks. In a file in which every cell is in quotation marks, these mean nothing. `numeric`
    are the columns known to hold numbers; by default, a column holds numbers if all of its text does.
    """
    import pyarrow as pa

    text, sep, encoding = read_text_table(path, dialect)
    if not text or text.isspace():
        raise FormatError("the file is empty", str(path))
    if text.count('"') % 2:
        raise FormatError("a quotation mark is opened but never closed", str(path))
    if encoding == FALLBACK != dialect.encoding:
        warnings.warn(
            f"{path}: is not UTF-8 text and was read as {FALLBACK}; encoding (--encoding) names another",
            DataWarning,
            stacklevel=4,
        )
    header, quoted = _header(text, path, sep), _all_quoted(text, sep)
    raw = text.encode()
    columns: list[Column] = []
    size = blocks.size(len(header))
    for start in range(0, len(header), blocks.columns):
        names = header[start : start + blocks.columns]
        try:
            try:
                table, bad = _parsed(raw, header, names, missing, quoted, size, sep)
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error) or size > len(raw):
                    raise
                size = min(len(raw) + 1, blocks.largest)  # a row is longer than a block
                table, bad = _parsed(raw, header, names, missing, quoted, size, sep)
        except pa.ArrowException as error:
            cause = f"cannot be read as CSV: {error}"
            if "straddl" in str(
                error
            ):  # the parser's own advice is about options that are not ours
                cause = (
                    f"a line is longer than {blocks.largest:,} bytes, the longest that can be read; if "
                    "no cell is that long, a quotation mark may be missing"
                )
            raise FormatError(cause, str(path)) from None
        if bad:
            row = bad[0]
            raise FormatError(
                f"{row.actual_columns} values, but the header has {row.expected_columns}",
                str(path),
                row.number,
            )
        with errors_naming(path):
            columns += arrow_columns(table, markers=missing)
    chosen = [column for column in columns if numeric is None or column.name in numeric]
    styles = number_styles(chosen, sep, dialect.decimal, strict=numeric is None)
    for i, column in enumerate(columns):
        if style := styles.get(column.name):
            columns[i] = column.relabelled([plain_number(v, style[0]) or v for v in column.labels])
    return columns


def _parsed(
    raw: bytes,
    header: list[str],
    names: list[str],
    missing: Collection[str],
    quoted: bool,
    size: int,
    sep: str,
) -> tuple[Any, list[Any]]:
    """Return some columns as an Arrow table, and the lines with too few or too many cells."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    bad: list[Any] = []

    def note(row: Any) -> str:
        bad.append(row)
        return "skip"

    table = arrow_csv.read_csv(
        io.BytesIO(raw),
        read_options=arrow_csv.ReadOptions(
            column_names=header, skip_rows=1, use_threads=False, block_size=size
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=sep, invalid_row_handler=note, newlines_in_values=True
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string())),
            include_columns=names,
            null_values=["", *missing],
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted,
        ),
    )
    return table, bad


def _all_quoted(text: str, sep: str) -> bool:
    """Return whether the header and all cells of the first rows are in quotation marks."""
    if not text.startswith('"'):
        return False
    rows = _raw_rows("\n".join(text.split("\n", SAMPLE_LINES)[:SAMPLE_LINES]), sep)
    return len(rows) > 1 and all(cell.strip().startswith('"') for row in rows for cell in row)


def _header(text: str, path: Path, sep: str) -> list[str]:
    end = re.search("[\r\n]", text)
    line = text if end is None else text[: end.start()]
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=sep), [])]
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


def csv_columns(path: Path, dialect: Dialect = FOUND_OUT) -> list[str]:
    """Return the names in the header line of a CSV file."""
    text, sep, _ = read_text_table(path, dialect)
    return _header(text, path, sep)


def write_csv(table: Table, path: Path, *, defuse: bool = False) -> None:
    """Write a CSV file; states such as "None" get quotation marks, and `defuse` treats formulas."""
    if table.weights is not None:
        raise FormatError("a CSV file cannot hold weights; use .data", str(path))
    columns = dict(_state_cells(table, path))
    names = list(columns)
    for name in table.domain.numeric if table.numbers is not None else ():
        texts = map(table.domain.scale(name).text, table.column(name).tolist())
        columns[name] = [_cell(text) if text else "" for text in texts]
    rows = [list(map(_cell, names)), *zip(*(columns[name] for name in names), strict=True)]
    lines = [",".join(map(_defused, row) if defuse else row) for row in rows]
    if len(names) == 1:  # an empty line would be no row
        lines = [line or '""' for line in lines]
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())


def _state_cells(table: Table, path: Path) -> Iterator[tuple[str, Any]]:
    for i, variable in enumerate(table.domain):
        texts = [str(s) for s in variable.values]
        counts = Counter(texts)
        for text in texts:
            if not text.strip() or counts[text] > 1:
                raise FormatError(
                    f"the state {text!r} of {variable.name!r} cannot be distinguished from a "
                    "missing value, or from another state, in a CSV file; use .data",
                    str(path),
                )
        cells = np.array([*map(_cell, texts), ""], object)
        codes = np.where(table.codes[:, i] == table.missing, len(texts), table.codes[:, i])
        yield variable.name, cells[codes]


def _cell(text: str, separators: str = SEPARATORS) -> str:
    """Return a text as a cell: in quotation marks if it could otherwise be read differently."""
    if text in MISSING or any(mark in text for mark in separators + '"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _defused(cell: str) -> str:
    """Return a cell, with an apostrophe in front if it is a formula to a spreadsheet program."""
    inside = cell.strip().removeprefix('"')
    if not inside.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(inside.replace(",", "."))
        return cell
    except ValueError:
        at = cell.index(inside)
        return f"{cell[:at]}'{cell[at:]}"


def _raw_rows(text: str, sep: str) -> list[list[str]]:
    """Return the cells of the rows of a CSV file as they are written, with their quotation marks."""
    mark = re.escape(sep)
    unquoted, blanks = rf"[^{mark}\r\n]*", rf"(?:(?!{mark})[^\S\r\n])*"
    cell_and_end = rf'({blanks}"(?:[^"]|"")*"{unquoted}|{unquoted})({mark}|\r\n|\r|\n|\Z)'
    rows: list[list[str]] = [[]]
    for cell, end in re.findall(cell_and_end, text):
        rows[-1].append(cell)
        if end != sep:
            rows.append([])
    return [row for row in rows if row not in ([], [""])]


def write_filled_csv(
    source: Path,
    full: Table,
    holes: Mapping[str, BoolArray],
    path: Path,
    dialect: Dialect = FOUND_OUT,
    *,
    defuse: bool = False,
) -> None:
    """Write a copy of a CSV file with its missing values filled in; all else stays as it is.

    `full` are its rows without missing values, and `holes` says for each column which values were
    missing. The file may have more columns than the table. With `defuse`, see `write_csv`.
    """
    text, sep, encoding = read_text_table(source, dialect)
    rows, header = _raw_rows(text, sep), _header(text, source, sep)
    written = [
        Column.of_values(name, (row[header.index(name)].strip(' "') for row in rows[1:]))
        for name in holes
        if full.domain[name].holds_numbers
    ]
    styles = number_styles(written, sep, dialect.decimal, strict=False)
    for name, missing in holes.items():
        where = np.flatnonzero(missing)
        if len(where):
            at = header.index(name)
            texts = filled_values(full, name, where, text=True)
            if name in styles:
                mark, prefix, suffix = styles[name]
                texts = [t and f"{prefix}{t.replace('.', mark)}{suffix}" for t in texts]
            for r, cell in zip(where.tolist(), texts, strict=True):
                rows[r + 1][at] = _cell(cell, sep)
    if defuse:
        rows = [list(map(_defused, row)) for row in rows]
    try:
        data = "".join(sep.join(row) + "\n" for row in rows).encode(encoding)
    except UnicodeEncodeError as error:
        raise FormatError(f"cannot be written: {error}", str(path)) from None
    write_bytes(path, data)


def filled_values(full: Table, name: str, rows: IntArray, *, text: bool = False) -> list[Any]:
    """Return the values of a column in some rows, in their own types or as text."""
    if name in full.domain.numeric and full.numbers is not None:
        scale = full.domain.scale(name)
        return list(map(scale.text if text else scale.own, full.column(name)[rows].tolist()))
    i = full.domain.index(name)
    states = [str(s) if text else s for s in full.domain.variables[i].states]
    return [states[code] for code in full.codes[rows, i].tolist()]
