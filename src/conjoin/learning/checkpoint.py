"""Finished work on disk, so that a run that was stopped can go on.

A checkpoint is a log: a line that says what it is, a record of the inputs, and a record for each
finished piece of work. A record carries its length and a digest; what a kill cut short at the end is
dropped when the file is opened again, so it need not be written anew for each piece.

Values are JSON with arrays beside. Objects are of this package's own classes, and only their attributes
are kept: nothing in a file is executed, as unpickling would.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from conjoin import __version__
from conjoin.data.table import Table
from conjoin.errors import FormatError

MAGIC = b"CONJOIN CHECKPOINT 1\n"
DIGEST = 16
HOMES = ("conjoin.models.", "conjoin.learning.")
"""Where the classes are whose objects a checkpoint may hold."""


class Checkpoint:
    """A file of finished work.

    Parameters
    ----------
    path : str or Path
        The file. It is made when the first run opens it.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise FormatError(f"there is no folder {str(self.path.parent)!r}", str(path))
        self._file: BinaryIO | None = None
        self._places: dict[str, tuple[int, int]] = {}
        self._stages = 0

    def open(self, inputs: dict[str, Any]) -> None:
        """Start a file for a run with these inputs, or go on with one.

        Parameters
        ----------
        inputs : dict
            All that the run's result depends on, in plain JSON values under readable names.
        """
        self.close()
        self._places, self._stages = {}, 0
        wanted = json.dumps(inputs, sort_keys=True).encode()
        try:
            self._file = self.path.open("a+b")
            self._file.seek(0)
            start = self._file.read(len(MAGIC))
            if start != MAGIC and not MAGIC.startswith(start):
                raise FormatError(
                    "is there already and is not a checkpoint; give another name", str(self.path)
                )
            end = self._scan(wanted) if start == MAGIC else 0
            if not end:  # new, or cut short before anything was done
                self._file.truncate(0)
                self._file.write(MAGIC)
                self._append(wanted)
            else:
                self._file.truncate(end)
        except OSError as error:
            raise FormatError(
                f"cannot be used: {error.strerror or error}", str(self.path)
            ) from None
        except FormatError:
            self.close()
            raise

    def _scan(self, wanted: bytes) -> int:
        """Find the records; return where the last whole one ends."""
        assert self._file is not None
        end = 0
        while (payload := self._next()) is not None:
            if not end:
                self._check_inputs(payload, wanted)
            else:
                key = payload[: payload.index(b"\n")]
                self._places[key.decode()] = self._file.tell(), len(payload) - len(key) - 1
            end = self._file.tell()
        return end

    def _next(self) -> bytes | None:
        """Read a record, if it is whole."""
        assert self._file is not None
        head = self._file.read(8 + DIGEST)
        size = int.from_bytes(head[:8], "little")
        payload = self._file.read(size) if len(head) == 8 + DIGEST and size < 1 << 40 else b""
        if len(payload) < max(size, 1) or _digest(payload) != head[8:]:
            return None
        return payload

    def _check_inputs(self, payload: bytes, wanted: bytes) -> None:
        if payload == wanted:
            return
        old, new = json.loads(payload), json.loads(wanted)
        odd = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        raise FormatError(
            f"holds what was finished in another run: not the same {', '.join(odd)}. Delete it to "
            "start anew, or give another file",
            str(self.path),
        )

    def _append(self, payload: bytes) -> None:
        assert self._file is not None
        self._file.write(len(payload).to_bytes(8, "little") + _digest(payload) + payload)
        self._file.flush()

    def stage(self) -> int:
        """Return the number of the next stage: a run has the same ones each time."""
        self._stages += 1
        return self._stages

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def get(self, key: str) -> Any:
        """Return what was kept under a key."""
        assert self._file is not None
        end, size = self._places[key]
        self._file.seek(end - size)
        return unpack(self._file.read(size))

    def put(self, key: str, value: Any) -> None:
        """Keep a value under a key, a line of text."""
        self._append(key.encode() + b"\n" + pack(value))

    def close(self) -> None:
        """Leave the file to a later run."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Delete the file: nothing is left to do."""
        self.close()
        self.path.unlink(missing_ok=True)


def _digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=DIGEST).digest()


def fingerprint(
    table: Table,
    valid: Table | None,
    cpd: Any,
    settings: list[Any],
    rules: npt.NDArray[np.int8],
) -> dict[str, Any]:
    """Return what tells the inputs of two runs apart, under names that a person knows."""
    kind = cpd
    if not isinstance(cpd, str):
        from joblib import hash as hash_of

        kind = f"{type(cpd).__name__} {hash_of(cpd)}"
    options = repr(settings).encode() + rules.tobytes()
    return {
        "training table": _digest_of(table),
        "validation table": None if valid is None else _digest_of(valid),
        "cpd": kind,
        "options": _digest(options).hex(),
        "version of Conjoin": __version__,
    }


def _digest_of(table: Table) -> str:
    found = hashlib.blake2b(digest_size=DIGEST)
    found.update(repr([(v.name, v.states) for v in table.domain]).encode())
    for array in (table.codes, table.weights):
        if array is not None:
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


# ---- values as bytes ------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """Return a value as bytes: plain values, lists, tuples, dicts, arrays and the package's objects.

    Examples
    --------
    >>> unpack(pack({"a": (1, [0.5, None])}))
    {'a': (1, [0.5, None])}
    """
    arrays: list[npt.NDArray[Any]] = []
    tree = _plain(value, arrays)
    listed = [[a.dtype.str, list(a.shape)] for a in arrays]
    header = json.dumps({"value": tree, "arrays": listed}).encode()
    return b"".join([header, b"\n", *(np.ascontiguousarray(a).tobytes() for a in arrays)])


def _plain(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [_plain(v, arrays) for v in value]
    if type(value) is tuple:
        return {"tuple": [_plain(v, arrays) for v in value]}
    if type(value) is dict:
        return {"dict": [[_plain(k, arrays), _plain(v, arrays)] for k, v in value.items()]}
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        arrays.append(value)
        return {"array": len(arrays) - 1}
    kind = type(value)
    if not kind.__module__.startswith(HOMES):
        raise TypeError(f"a checkpoint cannot hold a {kind.__name__}")
    state = _plain(value.__getstate__(), arrays)
    return {"object": [kind.__module__, kind.__qualname__], "state": state}


def unpack(data: bytes) -> Any:
    """Undo `pack`."""
    end = data.index(b"\n")
    header = json.loads(data[:end])
    arrays = []
    at = end + 1
    for dtype, shape in header["arrays"]:
        array = np.frombuffer(data, np.dtype(dtype), int(np.prod(shape, dtype=np.int64)), at)
        at += array.nbytes
        arrays.append(array.reshape(shape).copy())  # writable
    return _rebuilt(header["value"], arrays)


def _rebuilt(tree: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    if isinstance(tree, list):
        return [_rebuilt(t, arrays) for t in tree]
    if not isinstance(tree, dict):
        return tree
    if "tuple" in tree:
        return tuple(_rebuilt(t, arrays) for t in tree["tuple"])
    if "dict" in tree:
        return {_rebuilt(k, arrays): _rebuilt(v, arrays) for k, v in tree["dict"]}
    if "array" in tree:
        return arrays[tree["array"]]
    module, name = tree["object"]
    if not module.startswith(HOMES):
        raise FormatError(f"a checkpoint cannot hold a {name} of {module}")
    made = object.__new__(getattr(importlib.import_module(module), name))
    made.__dict__.update(_rebuilt(tree["state"], arrays))
    return made
