"""Damaged files: reading one gives a model, a table or a clear error; never a crash or a huge bill."""

from __future__ import annotations

import atexit
import gzip
import resource
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import conjoin
from conjoin import ConjoinError
from conjoin.formats import ending, read_evidence, read_schema
from fuzz.examples import write_examples
from fuzz.trials import count

ADDRESS_SPACE = 4 << 30
"""Bytes of address space for the process that reads damaged files."""

SECONDS = 20
"""A file of a few kilobytes must be read in this time."""

WORDS = (
    b"0", b"-1", b"1e308", b"-inf", b"inf", b"nan", b"65534", b"65535", b"4294967296", b"9" * 20,
    b"1_0", b"\xd9\xa3", b"\xff", b"\x00", b"\n", b"\r\n", b",", b'"', b"'", b"{", b"}", b"(", b")",
    b"[", b"]", b"|", b"*", b"#", b"?", b"", b" ", b"\xef\xbb\xbf", b"\x1b[31m", b"v0_1", b"=", b":",
    b"null", b"true",
)  # fmt: skip


@cache
def folder() -> Path:
    """Return a folder with a valid file of every format; it is removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="conjoin-fuzz-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    (place / "valid").mkdir()
    write_examples(place / "valid")
    (place / "damaged").mkdir()
    return place


@cache
def originals() -> list[tuple[str, bytes]]:
    """Return the names and contents of the valid files, including the names beside them."""
    return [(path.name, path.read_bytes()) for path in sorted((folder() / "valid").iterdir())]


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    """Return data with one to three random changes; half the time, within what is compressed."""
    if data[:2] == b"\x1f\x8b" and rng.random() < 0.5:
        return gzip.compress(damaged(rng, gzip.decompress(data)), 1)
    for _ in range(int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1]))):
        at = int(rng.integers(0, len(data) + 1))
        end = min(len(data), at + int(rng.choice([1, 2, 8, 64])))
        kind = rng.integers(0, 8)
        if kind == 0 and data:  # change a byte
            data = data[:at] + bytes([int(rng.integers(256))]) + data[at + 1 :]
        elif kind == 1:  # remove some
            data = data[:at] + data[end:]
        elif kind == 2:  # repeat some
            data = data[:end] + data[at:end] * int(rng.choice([1, 3, 200])) + data[end:]
        elif kind == 3:  # end early
            data = data[:at]
        elif kind == 4:  # copy some elsewhere
            to = int(rng.integers(0, len(data) + 1))
            data = data[:to] + data[at:end] + data[to:]
        elif kind == 7 and (places := [i for i, c in enumerate(data) if 48 <= c < 58]):  # a digit
            at = places[int(rng.integers(len(places)))]
            data = data[:at] + bytes([48 + int(rng.integers(10))]) + data[at + 1 :]
        else:  # put a word in
            word = WORDS[int(rng.integers(len(WORDS)))]
            data = data[:at] + word + data[(end if kind == 5 else at) :]
    return data


def read(path: Path) -> Any:
    """Read a file of any format."""
    kind = ending(path)
    if path.name.startswith("estimator"):
        return conjoin.JointModel.load(path)
    if kind in (".csv", ".parquet", ".data"):
        return conjoin.read_table(path)
    if kind == ".schema":
        return read_schema(path)
    if kind == ".uai.evid":
        return read_evidence(path, conjoin.Domain({name: ["no", "yes"] for name in "abcd"}))
    return conjoin.load(path)


def case(rng: np.random.Generator) -> str:
    """Damage a file, read it, and ask what was read a question."""
    contents = originals()
    name, data = contents[int(rng.integers(len(contents)))]
    changed = damaged(rng, data)
    count("damaged files")
    try:
        return outcome(name, changed)
    except Exception as error:
        kind = type(error)
        path = _keep(name, reduced(changed, lambda less: _fails(name, less, kind)))
        raise AssertionError(f"a smaller file that fails in the same way: {path}") from error


def outcome(name: str, data: bytes) -> str:
    """Read a file, and ask what was read a question."""
    place = folder() / "damaged"
    for path in place.iterdir():
        path.unlink()
    main = name.removesuffix(".names.json")
    (place / name).write_bytes(data)
    if main != name:
        (place / main).write_bytes(dict(originals())[main])
    kind = "gz" if main.endswith(".gz") else ending(Path(main))
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read(place / main)
            _use(found)
    except ConjoinError as error:
        if len(str(error)) > 2000:
            raise AssertionError(f"a message of {len(str(error)):,} characters") from error
        return f"{kind} refused"
    finally:
        signal.alarm(0)
    return f"{kind} read"


def reduced(data: bytes, fails: Callable[[bytes], bool], tries: int = 400) -> bytes:
    """Return data without parts that are not needed for the failure.

    Examples
    --------
    >>> reduced(b"a long text with a bug inside", lambda less: b"bug" in less)
    b'bug'
    """
    size = max(1, len(data) // 2)
    while tries > 0:
        start = 0
        while start < len(data) and tries > 0:
            less = data[:start] + data[start + size :]
            tries -= 1
            if fails(less):
                data = less
            else:
                start += size
        if size == 1:
            break
        size = max(1, size // 2)
    return data


def _fails(name: str, data: bytes, kind: type[Exception]) -> bool:
    try:
        outcome(name, data)
    except Exception as error:
        return type(error) is kind
    return False


def _keep(name: str, data: bytes) -> Path:
    """Save a file that shows a defect."""
    place = Path(tempfile.mkdtemp(prefix="conjoin-defect-"))
    (place / name).write_bytes(data)
    return place / name


def _use(found: Any) -> None:
    """Print what was read and, if that is cheap, ask it for a distribution."""
    repr(found)
    if isinstance(found, conjoin.MarkovNetwork | conjoin.BayesianNetwork):
        cells = np.prod(found.domain.cards, dtype=float)
        if cells <= 1e5:
            answer = conjoin.marginals(found)
            for name in answer:
                p = answer.array(name)
                assert abs(p.sum() - 1) < 1e-6 and (p >= 0).all(), (name, p)
            repr(answer)
    if isinstance(found, conjoin.JointModel):
        answer = conjoin.marginals(found)
        repr(answer)
        for name in answer:
            if isinstance(answer[name], dict):
                assert abs(sum(answer[name].values()) - 1) < 1e-6, (name, answer[name])


def _too_slow(*_: Any) -> None:
    raise AssertionError(f"reading took more than {SECONDS} s")


def prepare() -> None:
    """Limit the address space of this process."""
    folder()
    originals()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
