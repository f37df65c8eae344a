"""Libra's .data files: comma-separated state numbers, `*` where missing, optionally after `weight|`."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import MAX_STATES, Domain
from conjoin.data.table import Table
from conjoin.errors import DataError, FormatError
from conjoin.formats.names_files import numbered_domain, read_names, write_named
from conjoin.formats.storage import plain_float, read_bytes

MISSING = 255
"""The mark of a missing value in rows of single digits."""

ODD_CELL = re.compile(rb"[^0-9,*]|^,|,,|,$|\*[^,]|[^,]\*")
"""Matches what a row of state numbers and stars cannot contain."""


def read_data(path: Path, domain: Domain | None = None) -> Table:
    """Read a .data file.

    Without a domain, the names beside the file give the meaning of the numbers, or else a numbered
    domain, in which each variable has as many states as its largest number requires, at least two.
    """
    raw = read_bytes(path)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n")
    if not raw.strip():
        raise FormatError("the file holds no rows", str(path))
    weights = None
    if b"|" in raw:
        raw, weights = _split_weights(raw, path)
    quick = _single_digits(raw)
    codes: npt.NDArray[Any] = _numbers(raw, path) if quick is None else quick
    domain = domain or read_names(path)
    if domain is None:
        known = codes if quick is None else np.where(codes == MISSING, 0, codes)
        domain = numbered_domain(path, _implied_cards(known))
    if codes.shape[1] != len(domain):
        raise FormatError(
            f"has {codes.shape[1]} columns; {len(domain)} variables were expected", str(path)
        )
    try:
        return Table.adopt(domain, codes, weights)
    except DataError:
        high = np.argwhere((codes >= domain.cards) & ((codes != MISSING) | (quick is None)))
        row, column = high[0] if len(high) else (0, 0)
        name, card = domain.names[column], domain.cards[column]
        raise FormatError(
            f"column {column + 1} ({name!r}) has the state number {codes[row, column]}; "
            f"there are {card} states, counted from 0",
            str(path),
            [i for i, line in enumerate(raw.split(b"\n"), 1) if line.strip()][row],
        ) from None


def _implied_cards(codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.maximum(codes.max(axis=0).astype(np.int64) + 1, 2)


def _single_digits(raw: bytes) -> npt.NDArray[np.uint8] | None:
    """Read rows of single digits and stars quickly; return None if there is anything else."""
    if not raw.endswith(b"\n"):
        raw += b"\n"
    width = raw.index(b"\n") + 1
    if width % 2 or len(raw) % width:
        return None
    # Each value and the separator after it are one 16-bit number.
    pairs = np.frombuffer(raw, "<u2").reshape(-1, width // 2)
    expected = np.full(width // 2, ord("0") | ord(",") << 8, np.uint16)
    expected[-1] = ord("0") | ord("\n") << 8
    difference = pairs - expected  # the digit, or a large number for anything else
    if difference.max() > 9:
        star = difference == np.uint16(ord("*") - ord("0") + (1 << 16))
        difference[star] = MISSING
        if ((difference > 9) & ~star).any():
            return None
    return difference.astype(np.uint8)


def _numbers(raw: bytes, path: Path) -> npt.NDArray[np.int64]:
    """Read rows of numbers of any length."""
    lines = [line for line in raw.split(b"\n") if line.strip()]
    if not lines:
        raise FormatError("the file holds no rows", str(path))
    columns = lines[0].count(b",") + 1
    flat = b",".join(lines)
    if b" " in flat:
        flat = b",".join(cell.strip() for cell in flat.split(b","))
    if flat.count(b",") + 1 == columns * len(lines) and ODD_CELL.search(flat) is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                values = np.fromstring(flat.replace(b"*", b"-1"), np.int64, sep=",")
            except (DeprecationWarning, ValueError):
                values = np.zeros(0, np.int64)
        even = all(line.count(b",") == columns - 1 for line in lines)
        if even and len(values) == columns * len(lines) and values.max() < MAX_STATES:
            return values.reshape(len(lines), columns)
    for number, line in enumerate(raw.split(b"\n"), 1):
        _check_line(line, number, columns, path)
    raise FormatError("cannot be read as rows of numbers", str(path))


def _check_line(line: bytes, number: int, columns: int, path: Path) -> None:
    if not line.strip():
        return
    cells = line.split(b",")
    if len(cells) != columns:
        raise FormatError(
            f"{len(cells)} values, but the first row has {columns}", str(path), number
        )
    for column, cell in enumerate(cells, 1):
        text = cell.strip()
        if text != b"*" and not (text.isdigit() and len(text) < 9 and int(text) < MAX_STATES):
            shown = text[:40].decode(errors="replace")
            raise FormatError(
                f"column {column}: expected a state number or *, not {shown!r}",
                str(path),
                number,
            )


def _split_weights(raw: bytes, path: Path) -> tuple[bytes, npt.NDArray[np.float64]]:
    rows, weights = [], []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            rows.append(b"")  # so that lines keep their numbers
            continue
        head, bar, row = line.rpartition(b"|")
        try:
            weight = plain_float(head.decode()) if bar else 1.0
        except ValueError:  # or bytes that are not text
            weight = -1.0
        if not 0 <= weight < np.inf:
            shown = head[:40].decode(errors="replace")
            raise FormatError(
                f"a weight must be a non-negative number, not {shown!r}", str(path), number
            )
        if not row.strip():
            raise FormatError("there are no values after the weight", str(path), number)
        rows.append(row)
        weights.append(weight)
    return b"\n".join(rows) + b"\n", np.array(weights)


def write_data(table: Table, path: Path) -> None:
    """Write a .data file."""
    if not len(table) or not len(table.domain):
        raise FormatError("a .data file cannot hold a table without rows or columns", str(path))
    codes: npt.NDArray[Any] = table.codes
    lines = []
    for i, row in enumerate(codes.tolist()):
        text = ",".join("*" if c == table.missing else str(c) for c in row)
        lines.append(text if table.weights is None else f"{float(table.weights[i])!r}|{text}")
    known = np.where(codes == table.missing, 0, codes)
    implied = Domain.numbered(_implied_cards(known))
    write_named(path, ("\n".join(lines) + "\n").encode(), table.domain, implied)
