"""Bytes in and out: gzip by the ending, bounded reading, atomic writing."""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

from conjoin.errors import FormatError

MAX_BYTES = 1 << 32
"""The most bytes that a file may hold, after decompression."""


PIECE = 1 << 16
"""How many packed bytes are unpacked at a time."""


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
    """Return a file's contents, decompressed, or one clear error."""
    limit = MAX_BYTES if limit is None else limit
    try:
        with path.open("rb") as file:
            if not path.name.endswith(".gz"):
                data = file.read(limit + 1)
            else:
                data = _decompress(file.read(limit + 1), limit, path)
    except FileNotFoundError:
        raise FormatError("there is no such file", str(path)) from None
    except IsADirectoryError:
        raise FormatError("this is a folder, not a file", str(path)) from None
    except (OSError, ValueError) as error:  # a name may hold a character that no file has
        detail = getattr(error, "strerror", None) or error
        raise FormatError(f"cannot be read: {detail}", str(path)) from None
    if len(data) > limit:
        raise FormatError(f"is larger than the {limit:,} bytes that are allowed", str(path))
    return data


def _decompress(packed: bytes, limit: int, path: Path) -> bytes:
    """Unpack one gzip member after another, in pieces, up to a limit."""
    parts: list[bytes] = []
    size, at = 0, 0
    stream = zlib.decompressobj(wbits=31)
    fresh = True
    while at < len(packed) and size <= limit:
        piece = packed[at : at + PIECE]
        at += len(piece)
        while piece and size <= limit:
            if fresh:
                piece = piece.lstrip(b"\0")  # padding between members
                if not piece:
                    break
            try:
                part = stream.decompress(piece, limit + 1 - size)
            except zlib.error as error:
                raise FormatError(f"is not a valid gzip file ({error})", str(path)) from None
            fresh = False
            parts.append(part)
            size += len(part)
            piece = stream.unconsumed_tail
            if stream.eof:
                piece = stream.unused_data
                stream = zlib.decompressobj(wbits=31)
                fresh = True
    if not fresh and size <= limit:
        raise FormatError("ends in the middle: the gzip file is truncated", str(path))
    return b"".join(parts)


def read_text(path: Path) -> str:
    """Return a text file's contents with plain newlines."""
    text = decoded(read_bytes(path), path)
    return text.replace("\r\n", "\n") if "\r" in text else text


def decoded(data: bytes, path: Path) -> str:
    """Return bytes as text, or an error that names the line where they are not."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError("is not UTF-8 text", str(path), line) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: to a temporary neighbour first, then renamed."""
    if path.name.endswith(".gz"):
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # no time stamp: same model, same bytes
        data = packer.compress(data) + packer.flush()
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise FormatError("this is a folder, not a file", str(path))
        path.write_bytes(data)  # a device or a pipe cannot be renamed onto
        return
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror or error}", str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def line_of_token(text: str, number: int, pattern: str = r"\S+") -> int:
    """Return the line, from 1, of the token with a given number; of the last one if there are fewer.

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
