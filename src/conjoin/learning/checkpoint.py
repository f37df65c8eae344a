"""Results of tasks on disk, so that a run that was stopped can be resumed.

A checkpoint is a folder: a description of the run's inputs, and one file per finished task. A file is
written under another name and then renamed, so that it is there whole or not at all, and starts with a
checksum; a damaged one counts as missing.

The files are pickles of a restricted kind: only arrays and objects of this package's models and learners
are read, and no function is called. A stranger's file can be wrong, but it cannot run code.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin import __version__
from conjoin.data.table import Table
from conjoin.errors import FormatError

INPUTS_FILE = "inputs.json"
RESULT_SUFFIX = ".result"
PART_SUFFIX = ".part"
DIGEST_SIZE = 16
TRUSTED_MODULES = ("conjoin.models.", "conjoin.learning.")
"""The modules whose classes a checkpoint may contain."""


class Checkpoint:
    """A folder of finished tasks.

    Parameters
    ----------
    path : str or Path
        The folder. The first run makes it.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise FormatError(f"there is no folder {str(self.path.parent)!r}", str(path))
        self._stages = 0

    def open(self, inputs: dict[str, Any]) -> None:
        """Start a checkpoint for a run with these inputs, or resume one.

        Parameters
        ----------
        inputs : dict
            Everything that the run's result depends on, as JSON values under readable names.
        """
        self._stages = 0
        description = self.path / INPUTS_FILE
        try:
            is_mine = description.is_file() or not self.path.exists()
            started = description.with_suffix(PART_SUFFIX)  # by a run that was stopped at once
            if not is_mine and (
                not self.path.is_dir() or any(path != started for path in self.path.iterdir())
            ):
                raise FormatError(
                    "exists and is not a checkpoint; choose another name", str(self.path)
                )
            self.path.mkdir(exist_ok=True)
            if description.is_file():
                self._check_inputs(description.read_bytes(), inputs)
            self._write(description, json.dumps(inputs, sort_keys=True).encode())
        except OSError as error:
            raise FormatError(
                f"cannot be used: {error.strerror or error}", str(self.path)
            ) from None

    def _check_inputs(self, found: bytes, inputs: dict[str, Any]) -> None:
        try:
            old = dict(json.loads(found))
        except (ValueError, TypeError):
            raise FormatError(
                f"is not a checkpoint: its {INPUTS_FILE} cannot be read; choose another name",
                str(self.path),
            ) from None
        other = [name for name in sorted({*old, *inputs}) if old.get(name) != inputs.get(name)]
        if other:
            raise FormatError(
                f"belongs to another run (different: {', '.join(other)}). Delete it to start again, "
                "or choose another name",
                str(self.path),
            )

    def stage_keys(self, what: str, tasks: int) -> list[str]:
        """Return the keys of the tasks of the next stage: every run has the same stages."""
        self._stages += 1
        return [f"{self._stages} {what} {i + 1}/{tasks}" for i in range(tasks)]

    def _file(self, key: str) -> Path:
        return self.path / (_digest(key.encode()).hex() + RESULT_SUFFIX)

    def get(self, key: str) -> tuple[Any] | None:
        """Return the result kept under a key, in a tuple; None if there is none in good order."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        digest, data = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
        return (restricted_loads(data),) if _digest(data) == digest else None

    def put(self, key: str, result: Any) -> None:
        """Keep a result under a key."""
        data = pickle.dumps(result, 4)
        restricted_loads(data)  # refuse now what could not be read later
        try:
            self._write(self._file(key), _digest(data) + data)
        except OSError as error:
            raise FormatError(
                f"cannot be written: {error.strerror or error}. What was finished before is kept; run "
                "the same again to resume",
                str(self.path),
            ) from None

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        part = path.with_suffix(PART_SUFFIX)
        part.write_bytes(content)
        part.replace(path)

    def remove(self) -> None:
        """Delete the checkpoint; files that are not part of it stay."""
        if self.path.is_dir():
            for pattern in ("*" + PART_SUFFIX, "*" + RESULT_SUFFIX, INPUTS_FILE):
                for path in self.path.glob(pattern):
                    path.unlink()
            if not any(self.path.iterdir()):
                self.path.rmdir()


class _RestrictedUnpickler(pickle.Unpickler):
    """Reads arrays and objects of trusted classes, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class by name, if it is trusted."""
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if (module.partition(".")[0], name) in (("numpy", "_reconstruct"), ("numpy", "scalar")):
            return super().find_class(module, name)  # they build arrays and numbers
        if module.startswith(TRUSTED_MODULES):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise FormatError(f"a checkpoint cannot contain {module}.{name}")


def restricted_loads(data: bytes) -> Any:
    """Unpickle arrays, plain values and objects of this package's models and learners.

    Examples
    --------
    >>> restricted_loads(pickle.dumps({"a": (1, [0.5, None])}))
    {'a': (1, [0.5, None])}
    """
    return _RestrictedUnpickler(io.BytesIO(data)).load()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE).digest()


def fingerprint(
    table: Table,
    valid: Table | None,
    cpd: Any,
    settings: list[Any],
    rules: npt.NDArray[np.int8],
) -> dict[str, Any]:
    """Return a description that differs between the inputs of different runs, under readable names."""
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
    found = hashlib.blake2b(digest_size=DIGEST_SIZE)
    found.update(repr([(v.name, v.states) for v in table.domain]).encode())
    for array in (table.codes, table.weights):
        if array is not None:
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
