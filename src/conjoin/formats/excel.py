"""Excel tables: the first sheet of a workbook, read with openpyxl."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path
from typing import Any

from conjoin.data.columns import Column
from conjoin.data.frames import MISSING
from conjoin.errors import FormatError
from conjoin.formats.storage import errors_naming, read_bytes


def read_excel(path: Path, missing: Collection[str] = MISSING) -> list[Column]:
    """Read the columns of the first sheet; its first row names them.

    Empty cells are missing, and so are cells that hold one of the texts `missing`.
    """
    header, *rows = _rows(path)
    if None in header:
        column = header.index(None) + 1
        raise FormatError(f"column {column} has no name in the first row", str(path), 1)
    markers = {"", *missing}

    def value(cell: Any) -> Any:
        text = cell.strip() if isinstance(cell, str) else cell
        return None if isinstance(text, str) and text in markers else text

    with errors_naming(path):
        columns = [
            Column.of_values(str(name).strip(), (value(row[k]) for row in rows)).whole()
            for k, name in enumerate(header)
        ]
    is_text = [all(isinstance(label, str) for label in column.labels) for column in columns]
    return [c.parsed() if text else c for c, text in zip(columns, is_text, strict=True)]


def excel_columns(path: Path) -> list[str]:
    """Return the names in the first row of the first sheet."""
    return [str(name).strip() for name in _rows(path)[0]]


def _rows(path: Path) -> list[tuple[Any, ...]]:
    """Return the values of the cells of the first sheet, without empty rows and columns at its end."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise FormatError(
            "reading Excel files needs openpyxl: pip install 'conjoin[excel]'", str(path)
        ) from None
    raw = read_bytes(path)
    try:
        sheet = load_workbook(io.BytesIO(raw), read_only=True, data_only=True).worksheets[0]
        rows = [row for row in sheet.iter_rows(values_only=True) if any(v is not None for v in row)]
    except Exception as error:  # openpyxl and zipfile raise many kinds
        raise FormatError(f"is not a valid Excel file ({error})", str(path)) from None
    if not rows:
        raise FormatError("the first sheet is empty", str(path))
    used = 1 + max(k for row in rows for k, v in enumerate(row) if v is not None)
    return [(*row, *(None,) * used)[:used] for row in rows]
