"""`read_table` and `write_table`: the ending of a file's name decides its format."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from conjoin.data.arrays import BoolArray
from conjoin.data.column_kinds import chosen_kinds
from conjoin.data.columns import Column, table_of_columns
from conjoin.data.domain import Domain
from conjoin.data.frames import MISSING
from conjoin.data.table import Table
from conjoin.errors import DataError, FormatError, names_lack_of_memory
from conjoin.formats.csv_dialect import Dialect
from conjoin.formats.storage import (
    check_ending,
    check_folder,
    ending,
    errors_naming,
    function_for,
)

Markers = Collection[str] | str | None
FOUND_OUT = Dialect()

# The function for each ending, imported when it is needed.
TABLE_READERS = {
    ".data": "libra_data.read_data",  # state numbers, read into a table
    ".csv": "csv_tables.read_csv",  # the others are read into columns
    ".parquet": "parquet.read_parquet",
    ".xlsx": "excel.read_excel",
}
TABLE_WRITERS = {
    ".data": "libra_data.write_data",
    ".csv": "csv_tables.write_csv",
    ".parquet": "parquet.write_parquet",
}
COLUMN_READERS = {
    ".csv": "csv_tables.csv_columns",
    ".parquet": "parquet.parquet_columns",
    ".xlsx": "excel.excel_columns",
}
FILLED_WRITERS = {
    ".csv": "csv_tables.write_filled_csv",
    ".parquet": "parquet.write_filled_parquet",
}


@names_lack_of_memory
def read_table(
    path: str | Path,
    domain: Domain | None = None,
    *,
    missing: Markers = None,
    include: Collection[str] | str = (),
    exclude: Collection[str] | str = (),
    kinds: Mapping[str, str] | None = None,
    merge: bool = False,
    unseen: str = "error",
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Table:
    """Read a table.

    Parameters
    ----------
    path : str or Path
        A .csv, .parquet or .xlsx file with names (the first sheet; this needs openpyxl), or a .data
        file of state numbers; each may end in .gz. A folder of Parquet files is one table, which is read
        in batches.
    domain : Domain, optional
        The columns that the table must have, for example those of a model; hidden variables are left
        out. Without a domain, columns are numbers, dates or categories as they look like, and columns
        without values, identifiers and free text are left out with a warning.
    missing : collection of str, optional
        The texts that stand for a missing value, in place of those in `conjoin.data.frames.MISSING`. An
        empty cell is always missing; a cell of a CSV file in quotation marks is not.
    include, exclude : names, optional
        Columns to keep although they look like identifiers, and columns to leave out.
    kinds : mapping, optional
        {column: 'category', 'number' or 'date'}, to overrule what is found.
    merge : bool
        For a folder: keep each distinct row of states once, with its count as weight. This happens while
        the folder is read, so that a table larger than memory can be learned from. If it has numbers and
        more than 200,000 rows, a random sample of these keeps the values, which is `Table.sample`.
    unseen : {'error', 'missing'}
        What a value that is not in the domain counts as.
    sep, encoding, decimal : str, optional
        How a .csv file separates its cells, encodes its text, and writes decimals ("." or ",").
        By default, this is found out from the file.
    """
    if unseen not in ("error", "missing"):
        raise DataError(f"unseen must be 'error' or 'missing', not {unseen!r}")
    path = Path(path)
    shown = None if domain is None else domain.observed
    if path.is_dir():
        from conjoin.formats.parquet import folder_sample, folder_table, read_parquet_folder

        if shown is not None:
            return read_parquet_folder(path, shown, merge=merge)
        sample = folder_sample(path, [missing] if isinstance(missing, str) else missing or ())
        with errors_naming(path):
            kept = chosen_kinds(sample.columns, include=include, exclude=exclude, kinds=kinds)
        return folder_table(path, sample, kept, merge=merge)
    check_ending(path, TABLE_READERS, "table")
    if ending(path) == ".data":
        table: Table = function_for(TABLE_READERS, path)(path, shown)
        return table
    columns = read_columns(path, missing, shown, Dialect(sep, encoding, decimal))
    with errors_naming(path):
        if shown is None:
            kept = chosen_kinds(columns, include=include, exclude=exclude, kinds=kinds)
            return table_of_columns([c for c in columns if c.name in kept], kinds=kept)
        wanted = [c for c in columns if c.name in shown.names]
        return table_of_columns(wanted, shown, strict=unseen == "error")


@names_lack_of_memory
def read_columns(
    path: str | Path,
    missing: Markers = None,
    domain: Domain | None = None,
    dialect: Dialect = FOUND_OUT,
) -> list[Column]:
    """Read the columns of a table.

    A text that is a state of a column of `domain` is not missing there, and all text stays text, with
    numbers as Python writes them. Without a domain, a column of text that is all numbers becomes a column
    of numbers.
    """
    path = Path(path)
    check_ending(path, TABLE_READERS, "table")
    reader, kind = function_for(TABLE_READERS, path), ending(path)
    if kind == ".data":
        table = reader(path, domain)
        columns = [Column.of_table(table, i) for i in range(len(table.domain))]
        settled = zip(columns, table.domain, strict=True)
        return [replace(column, variable=variable) for column, variable in settled]
    if isinstance(missing, str):
        missing = [missing]
    markers = set(MISSING if missing is None and kind != ".parquet" else missing or ())
    states = {v.name: set(map(str, v.states)) for v in domain or () if v.numbers is None}
    doubtful = markers & set().union(*states.values())
    numeric = None if domain is None else [v.name for v in domain if v.holds_numbers]
    how = {"dialect": dialect, "numeric": numeric} if kind == ".csv" else {}
    columns = reader(path, sorted(markers - doubtful), **how)
    if doubtful:
        columns = [c.without(doubtful - states.get(c.name, set())) for c in columns]
    return [c.parsed() for c in columns] if domain is None and kind == ".csv" else columns


def empty_cells(
    path: str | Path, domain: Domain, *, missing: Markers = None, dialect: Dialect = FOUND_OUT
) -> dict[str, BoolArray]:
    """Return which cells of each column of a domain hold no value; unknown values are values."""
    columns = read_columns(path, missing, domain, dialect)
    return {c.name: c.codes < 0 for c in columns if c.name in domain.names}


def table_columns(path: str | Path, dialect: Dialect = FOUND_OUT) -> list[str] | None:
    """Return the column names of a file, or of a folder of Parquet files; None if it has no names."""
    path = Path(path)
    if path.is_dir():
        from conjoin.formats.parquet import folder_columns

        return folder_columns(path)
    if ending(path) not in COLUMN_READERS:
        return None
    how = {"dialect": dialect} if ending(path) == ".csv" else {}
    return function_for(COLUMN_READERS, path)(path, **how)


def check_can_write(path: str | Path) -> None:
    """Raise the error that writing a table under this name would raise later."""
    path = Path(path)
    check_ending(path, TABLE_WRITERS, "table")
    check_folder(path)


@names_lack_of_memory
def write_table(table: Table, path: str | Path, *, defuse: bool = False) -> None:
    """Write a table, completely or not at all, as .csv, .parquet or .data.

    Parameters
    ----------
    table : Table
        The table.
    path : str or Path
        The file.
    defuse : bool
        For a .csv file: put an apostrophe in front of cells that a spreadsheet program would take for a
        formula, such as ``=HYPERLINK(...)``. Such a file no longer has the table's own values.
    """
    path = Path(path)
    if not isinstance(table, Table):
        raise FormatError(
            f"a {type(table).__name__} is not a Table; a frame writes itself, with `to_csv` and the like",
            str(path),
        )
    check_can_write(path)
    if table.numbers is not None and ending(path) == ".data":
        raise FormatError("a .data file holds states, not numbers; use .csv or .parquet", str(path))
    how = {"defuse": defuse} if ending(path) == ".csv" else {}
    function_for(TABLE_WRITERS, path)(table.recorded(), path, **how)


@names_lack_of_memory
def write_filled(
    source: str | Path,
    full: Table,
    holes: Mapping[str, BoolArray],
    path: str | Path,
    dialect: Dialect = FOUND_OUT,
    *,
    defuse: bool = False,
) -> None:
    """Write a table that was read from a file, with its missing values filled in.

    `holes` says for each column which values were missing. From CSV to CSV and from Parquet to Parquet,
    other columns and known values stay as they are. With `defuse`, see `write_table`.
    """
    source, path = Path(source), Path(path)
    check_can_write(path)
    if ending(source) == ending(path) and ending(path) in FILLED_WRITERS:
        how = {"dialect": dialect, "defuse": defuse} if ending(path) == ".csv" else {}
        function_for(FILLED_WRITERS, path)(source, full, holes, path, **how)
    else:
        write_table(full, path, defuse=defuse)
