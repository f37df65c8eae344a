"""Reading and writing files: gzip by the ending, bounded reading, atomic writing, errors with a place."""

from __future__ import annotations

import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from conjoin.errors import ConjoinError, FormatError
from conjoin.formats.limits import MAX_BYTES

if TYPE_CHECKING:
    from gzip import GzipFile

CHUNK = 1 << 20
"""Number of bytes that are read or decompressed at a time."""

BINARY = getattr(os, "O_BINARY", 0)
"""Needed on Windows only."""


def ending(path: Path) -> str:
    """Return the ending that names the format, without a final .gz.

    Examples
    --------
    >>> ending(Path("a/model.mn.gz"))
    '.mn'
    >>> ending(Path("grid.uai.evid"))
    '.uai.evid'
    """
    name = path.name.removesuffix(".gz")
    if name.endswith(".uai.evid"):
        return ".uai.evid"
    return Path(name).suffix.lower()


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """Return the contents of a file, decompressed."""
    limit = MAX_BYTES.value if limit is None else limit
    try:
        with path.open("rb") as file:
            data = _bounded(file, limit)
        if path.name.endswith(".gz"):
            data = _decompress(data, limit, path)
    except FileNotFoundError:
        raise FormatError("there is no such file", str(path)) from None
    except IsADirectoryError:
        raise FormatError("this is a folder, not a file", str(path)) from None
    except (OSError, ValueError) as error:  # the name may contain a null character
        detail = getattr(error, "strerror", None) or error
        raise FormatError(f"cannot be read: {detail}", str(path)) from None
    if len(data) > limit:
        raise FormatError(
            f"is larger than the limit of {limit:,} bytes (CONJOIN_MAX_BYTES raises it)", str(path)
        )
    return data


def _bounded(stream: BinaryIO | GzipFile, limit: int) -> bytes:
    """Read in steps, until the end or until a limit is passed; reserve no more than is read."""
    parts: list[bytes] = []
    size = 0
    while size <= limit and (part := stream.read(CHUNK)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _decompress(packed: bytes, limit: int, path: Path) -> bytes:
    """Decompress in chunks, until a limit is passed."""
    from gzip import GzipFile

    try:
        with GzipFile(fileobj=io.BytesIO(packed)) as stream:
            return _bounded(stream, limit)
    except EOFError:
        raise FormatError("is truncated: the gzip stream does not end", str(path)) from None
    except (OSError, zlib.error) as error:
        raise FormatError(f"is not a valid gzip file ({error})", str(path)) from None


def read_text(path: Path) -> str:
    """Return the contents of a text file, with \\n for every line end."""
    text = decoded(read_bytes(path), path)
    return text.replace("\r\n", "\n") if "\r" in text else text


def decoded(data: bytes, path: Path) -> str:
    """Decode UTF-8; the error for other bytes names the line."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError("is not UTF-8 text", str(path), line) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: to a temporary file beside it, which is then renamed."""
    if path.name.endswith(".gz"):
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # no timestamp: same model, same bytes
        data = packer.compress(data) + packer.flush()
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise FormatError("this is a folder, not a file", str(path))
        path.write_bytes(data)  # a device or a pipe cannot be renamed onto
        return
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f".conjoin-{os.urandom(8).hex()}.tmp")
    try:
        old = path.stat() if path.exists() else None
        mode = 0o666 if old is None else stat.S_IMODE(old.st_mode)
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
        with os.fdopen(number, "wb") as file:
            if old is not None:
                _take_over(number, old)
            file.write(data)
            file.flush()
            os.fsync(number)
        temporary.replace(path)
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror or error}", str(path)) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _take_over(number: int, old: os.stat_result) -> None:
    """Give an open file the owner and the permissions of the file that it will replace."""
    if not hasattr(os, "fchown"):  # Windows
        return
    if (old.st_uid, old.st_gid) != (os.getuid(), os.getgid()):
        with suppress(PermissionError):
            os.fchown(number, old.st_uid, old.st_gid)
    os.fchmod(number, stat.S_IMODE(old.st_mode))  # last: a change of owner clears some of them


@contextmanager
def errors_naming(path: Path, line: int | None = None) -> Iterator[None]:
    """Turn errors of models and tables within the block into errors that name the file."""
    try:
        yield
    except FormatError:
        raise
    except ConjoinError as error:
        raise FormatError(str(error), str(path), line) from None
    except UnicodeDecodeError:
        raise FormatError("contains text that is not UTF-8", str(path), line) from None


def plain_float(word: str) -> float:
    """Read a number as files write it; Python itself also reads 1_0 and the digits of other scripts.

    Examples
    --------
    >>> plain_float("-2.5e3")
    -2500.0
    >>> plain_float("1_0")
    Traceback (most recent call last):
    ValueError: not a number: '1_0'
    """
    if "_" in word or not word.isascii():
        raise ValueError(f"not a number: {word[:40]!r}")
    return float(word)


def line_of_token(text: str, number: int, pattern: str = r"\S+") -> int:
    """Return the line, counted from 1, of the token with this number, or else of the last token.

    Examples
    --------
    >>> line_of_token("a b\\nc", 2)
    2
    """
    start = 0
    for count, match in enumerate(re.finditer(pattern, text)):
        start = match.start()
        if count == number:
            break
    return text.count("\n", 0, start) + 1
