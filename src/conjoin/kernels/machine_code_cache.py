"""Compiled kernels on disk: the only module that knows where they are kept and when they are valid.

numba's own cache checks only the file of the function it loads, and so keeps using machine code that
inlined an older version of a function in another file. Here the folder is named after a hash of the
sources of all kernels: any change starts an empty one, and different versions never share files.

There is one file per function and signature, with a checksum. A file that is missing, damaged or not
readable means compiling again, and a place that is not writable means compiling in each process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from conjoin.kernels.build_info import sources_hash

FOLDER_PREFIX = "conjoin-kernels-"
KEPT_FOLDERS = 3
"""How many folders of machine code are kept, the newest ones; those of older sources are removed."""
DIGEST_SIZE = 16


@cache
def cache_folders() -> list[Path]:
    """Return the folders where machine code of these sources may be, the preferred one first."""
    name = sources_hash()
    if name is None:
        return []
    places = [Path(__file__).parent / "__pycache__"]
    if "NUMBA_CACHE_DIR" in os.environ:
        places = [Path(os.environ["NUMBA_CACHE_DIR"]).absolute()]
    elif "XDG_CACHE_HOME" in os.environ:
        places.append(Path(os.environ["XDG_CACHE_HOME"]))
    else:
        places.append(Path(os.path.expanduser("~/.cache")))  # noqa: PTH111 - never raises
    # Without a home, "~" stays as it is.
    return [place / (FOLDER_PREFIX + name) for place in places if place.is_absolute()]


@cache
def writable_folder() -> Path | None:
    """Return the folder for new machine code, and make it; None, with a warning, if none can be made."""
    for folder in cache_folders():
        try:
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                _remove_old_folders(folder)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    tried = " and ".join(str(folder.parent) for folder in cache_folders()) or "no folder"
    warnings.warn(
        f"compiled functions cannot be kept ({tried} is not writable), so every process compiles "
        "them again; set NUMBA_CACHE_DIR to a writable folder",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _remove_old_folders(folder: Path) -> None:
    """Remove machine code of other sources, except the newest. Processes that use it compile again."""

    def age(other: Path) -> float:
        try:
            return -other.stat().st_mtime
        except OSError:  # another process removed it
            return 0.0

    others = [other for other in folder.parent.glob(FOLDER_PREFIX + "*") if other != folder]
    for other in sorted(others, key=age)[KEPT_FOLDERS - 1 :]:
        shutil.rmtree(other, ignore_errors=True)


class MachineCodeCache(NullCache):
    """The compiled signatures of one function, with the interface that numba's dispatcher calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        self._name = f"{Path(code.co_filename).stem}.{function.__name__}-{code.co_firstlineno}"

    def _file_name(self, signature: Any, codegen: Any) -> str:
        """Return a name for all that decides which machine code a call needs."""
        key = repr(
            (
                self._name,
                str(signature),
                codegen.magic_tuple(),
                numba.__version__,
                sys.implementation.cache_tag,
            )
        )
        digest = hashlib.blake2b(key.encode(), digest_size=DIGEST_SIZE)
        return f"{self._name}-{digest.hexdigest()}.bin"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature; None if it is not there in good order."""
        target_context.refresh()
        name = self._file_name(sig, target_context.codegen())
        for folder in cache_folders():
            try:
                content = (folder / name).read_bytes()
                digest, data = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
                if hashlib.blake2b(data, digest_size=DIGEST_SIZE).digest() == digest:
                    return CompileResult._rebuild(target_context, *pickle.loads(data))
            except Exception:  # whatever it is, compiling again helps
                continue
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if there is a place for it."""
        if data.library.has_dynamic_globals:  # addresses that are valid in this process only
            return
        folder = writable_folder()
        if folder is None:
            return
        packed = dumps(data._reduce())
        digest = hashlib.blake2b(packed, digest_size=DIGEST_SIZE).digest()
        path = folder / self._file_name(sig, data.codegen)
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_bytes(digest + packed)
            part.replace(path)  # two processes may do this at once
        except OSError:  # the disk is full, or the folder was removed
            part.unlink(missing_ok=True)
