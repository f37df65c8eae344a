"""How a CSV file is written: its encoding, its separator and its decimal mark, said or found out."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from conjoin.errors import FormatError
from conjoin.formats.storage import decoded

SEPARATORS = (",", ";", "\t", "|")
"""The separators that are tried, the most common one first."""

FALLBACK = "cp1252"
"""The encoding of files that are not Unicode: that of Windows in Western Europe, a kind of Latin-1."""

SAMPLE_LINES = 200
"""Number of lines that show how a file is written."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f]")


class Dialect(NamedTuple):
    """How a CSV file is written; None is found out from the file."""

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None  # "." or ","

    def checked(self) -> Dialect:
        r"""Return the dialect, with "\t" and "tab" as a tab; reject what no file can have."""
        sep = "\t" if self.sep in ("\\t", "tab") else self.sep
        if sep is not None and (len(sep) != 1 or sep in '"\r\n' or not sep.isascii()):
            raise FormatError(f"the separator must be one character such as ; or tab, not {sep!r}")
        if self.decimal not in (None, ".", ","):
            raise FormatError(f"the decimal mark must be . or , and not {self.decimal!r}")
        return self._replace(sep=sep)


def decoded_as(raw: bytes, path: Path, encoding: str | None) -> tuple[str, str]:
    """Return the text of a file, without a byte order mark, and its encoding."""
    if encoding is None:
        if raw.startswith(_UTF16_MARKS):
            encoding = "utf-16"
        else:
            try:
                return decoded(raw, path), "utf-8-sig" if raw.startswith(
                    b"\xef\xbb\xbf"
                ) else "utf-8"
            except FormatError:
                text = raw.decode(FALLBACK, "replace")
                if "\ufffd" in text or _CONTROL.search(text):
                    raise
                return text, FALLBACK
    try:
        return raw.decode(encoding).removeprefix("\ufeff"), encoding
    except LookupError:
        raise FormatError(f"there is no encoding {encoding!r}", str(path)) from None
    except UnicodeError:
        raise FormatError(f"is not {encoding} text; --encoding names another", str(path)) from None


def separator(text: str) -> str:
    r"""Return the separator of the cells of a CSV file.

    It is the one that gives the same number of cells in all of the first lines: a comma if it does, and
    otherwise the one that gives most.

    Examples
    --------
    >>> separator("a;b\n1,5;2\n2,5;3\n"), separator("name\nSmith; Anna\n"), separator("a\tb\n1\t2\n")
    (';', ',', '\t')
    """
    lines = text.split("\n", SAMPLE_LINES)[:SAMPLE_LINES]
    cells: dict[str, int] = {}
    for sep in SEPARATORS:
        try:
            rows = [row for row in csv.reader("\n".join(lines).splitlines(), delimiter=sep) if row]
        except csv.Error:
            continue
        if len(lines) == SAMPLE_LINES:
            rows = rows[:-1]  # which may be cut off
        if rows and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1:
            cells[sep] = len(rows[0])
    if cells:
        return "," if "," in cells else max(cells, key=lambda sep: cells[sep])
    header = lines[0] if lines else ""
    return "," if "," in header else max(SEPARATORS, key=header.count)
