"""Reading and writing files: endings, gzip, bounded reading, atomic writing, errors with a place."""

from __future__ import annotations

import importlib
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from conjoin.errors import ConjoinError, FormatError, ModelError

if TYPE_CHECKING:
    from gzip import GzipFile

TABLE_ENDINGS = (".data", ".csv", ".parquet", ".xlsx")
"""The endings of tables; other files hold models."""

CHUNK = 1 << 20
"""Number of bytes that are read or decompressed at a time."""

BINARY = getattr(os, "O_BINARY", 0)
"""Needed on Windows only."""

PREFIX = "CONJOIN_"
"""The start of the environment variables that raise limits, such as CONJOIN_MAX_STATES=10000000."""


class Limit(NamedTuple):
    """A limit on what is read, so that a small or damaged file cannot take all memory or time."""

    name: str  # of its environment variable, without the prefix
    default: int
    counted: str  # what the limit counts, in words

    @property
    def value(self) -> int:
        """The limit: the environment variable, or else the default."""
        given = os.environ.get(PREFIX + self.name)
        if given is None:
            return self.default
        if not (given.isascii() and given.isdigit()):
            raise ModelError(f"{PREFIX}{self.name} must be a whole number, not {given!r}")
        return int(given)

    def exceeded(self) -> str:
        """Return the end of an error message: the limit, and how to raise it."""
        return f"the limit is {self.value:,} {self.counted}; raise it with {PREFIX}{self.name}"


MAX_BYTES = Limit("MAX_BYTES", 1 << 32, "bytes in a file, after decompression")
MAX_NUMBERED_STATES = Limit(
    "MAX_STATES", 1 << 20, "states in all different variables of a file without names"
)
MAX_ENTRIES = Limit("MAX_ENTRIES", 1 << 26, "tests in all features of a file")
MAX_KEY_PARTS = Limit("MAX_KEY_PARTS", 64, "parts in a dotted key")
LIMITS = (MAX_BYTES, MAX_NUMBERED_STATES, MAX_ENTRIES, MAX_KEY_PARTS)


def ending(path: Path) -> str:
    """Return the ending that names the format, without a final .gz."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".uai.evid"):
        return ".uai.evid"
    return Path(name).suffix.lower()


def function_for(functions: dict[str, str], path: Path) -> Any:
    """Import the function for the ending of a path."""
    module, name = functions[ending(path)].split(".")
    return getattr(importlib.import_module(f"conjoin.formats.{module}"), name)


def check_ending(path: Path, functions: dict[str, str], what: str) -> None:
    """Raise an error if no function reads or writes files of this ending."""
    kind = ending(path)
    if kind not in functions:
        raise FormatError(
            f"{ending_error(kind)} of a {what} file; use {', '.join(functions)}, each also with .gz",
            str(path),
        )


def ending_error(kind: str) -> str:
    """Return the beginning of an error about an ending."""
    return f"{kind!r} is not the ending" if kind else "the name does not have the ending"


def check_folder(path: Path) -> None:
    """Raise an error if the folder of a file does not exist."""
    if not path.absolute().parent.is_dir():
        raise FormatError(f"there is no folder {str(path.parent)!r}; create it first", str(path))


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
    """Read a number as files write it; Python itself also reads 1_0 and the digits of other scripts."""
    if "_" in word or not word.isascii():
        raise ValueError(f"not a number: {word[:40]!r}")
    return float(word)
