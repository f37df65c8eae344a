"""Excel tables: the first sheet of a workbook, read with openpyxl."""

from __future__ import annotations

import io
from collections.abc import Collection
from itertools import zip_longest
from pathlib import Path

from conjoin.data.columns import Column
from conjoin.data.frames import MISSING
from conjoin.errors import FormatError
from conjoin.formats.storage import errors_naming, read_bytes


def read_excel(path: Path, missing: Collection[str] = MISSING) -> list[Column]:
    """Read the columns of the first sheet; its first row names them, and `missing` are no values."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        how = "pip install 'conjoin[excel]'"
        raise FormatError(f"reading Excel files needs openpyxl: {how}", str(path)) from None
    raw = io.BytesIO(read_bytes(path))
    try:
        sheet = load_workbook(raw, read_only=True, data_only=True).worksheets[0]
        rows = [row for row in sheet.iter_rows(values_only=True) if set(row) != {None}]
    except Exception as error:  # openpyxl and zipfile raise many kinds
        raise FormatError(f"is not a valid Excel file ({error})", str(path)) from None
    columns = []
    for name, *cells in zip_longest(*rows):
        values = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        with errors_naming(path):
            column = Column.of_values(str(name).strip(), values).without({"", *missing}).whole()
        if name is None and column.labels:
            raise FormatError("a column has no name in the first row", str(path), 1)
        if name is not None:
            is_text = all(isinstance(label, str) for label in column.labels)
            columns.append(column.parsed() if is_text else column)
    if not columns:
        raise FormatError("the first sheet is empty", str(path))
    return columns


def excel_columns(path: Path) -> list[str]:
    """Return the names in the first row of the first sheet."""
    return [column.name for column in read_excel(path)]
