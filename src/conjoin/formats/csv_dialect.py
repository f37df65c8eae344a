"""How a CSV file is written: its encoding, its separator and its decimal mark, said or found out."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from conjoin.errors import FormatError
from conjoin.formats.storage import decoded, read_bytes

SEPARATORS, SAMPLE_LINES = ",;\t|", 200
"""The separators that are tried, and the number of lines that show which it is."""

FALLBACK = "cp1252"
"""The encoding of files that are not Unicode: that of Windows in Western Europe, a kind of Latin-1."""

_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\ufffd]")


class Dialect(NamedTuple):
    """How a CSV file is written; None is found out from the file."""

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None  # "." or ","


def read_text_table(path: Path, dialect: Dialect) -> tuple[str, str, str]:
    """Return the text of a CSV file, its separator and its encoding."""
    raw, (sep, encoding, decimal) = read_bytes(path), dialect
    sep = "\t" if sep in ("tab", "\\t") else sep
    if sep is not None and (len(sep) != 1 or sep in '"\r\n' or not sep.isascii()):
        raise FormatError(f"the separator must be a character such as ; or tab, not {sep!r}")
    if decimal not in (None, ".", ","):
        raise FormatError(f"the decimal mark must be . or , and not {decimal!r}")
    try:
        if encoding is None:
            marks = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb": "utf-8-sig"}
            encoding = marks.get(raw[:2], "utf-8")
            if encoding != "utf-16":
                decoded(raw, path)
        text = raw.decode(encoding).removeprefix("\ufeff")
    except (LookupError, UnicodeError) as error:
        raise FormatError(f"cannot be read as {encoding}: {error}", str(path)) from None
    except FormatError:
        encoding, text = FALLBACK, raw.decode(FALLBACK, "replace")
        if _NO_TEXT.search(text):
            raise
    return text, sep or separator(text), encoding


def separator(text: str) -> str:
    r"""Return the separator of the cells of a CSV file.

    It is the one that gives the same number of cells in all of the first lines: a comma if it does, and
    otherwise the one that gives most.
    """
    lines = text[: 1 << 20].splitlines()[:SAMPLE_LINES]
    cells: dict[str, int] = {}
    for sep in SEPARATORS:
        with suppress(csv.Error):
            rows = [row for row in csv.reader(lines, delimiter=sep) if row]
            rows = rows[:-1] if len(lines) == SAMPLE_LINES else rows  # the last may be cut off
            if rows and len(rows[0]) > 1 and len(set(map(len, rows))) == 1:
                cells[sep] = len(rows[0])
    scores = cells or dict(zip(SEPARATORS, map("".join(lines[:1]).count, SEPARATORS), strict=True))
    return "," if scores.get(",") else max(scores, key=lambda sep: scores[sep])
