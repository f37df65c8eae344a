"""Which machine code is in use: that of the build, or numba's, and why.

When a wheel is built, the kernels are compiled into extension modules beside this file, and `RECORD`
says for what they are valid. They are used if the sources and the processor are those of the build.
Otherwise numba compiles every kernel on first use; the results are the same.

This module imports no compiler.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent
RECORD = "build.json"
"""The file in which a build describes what it made."""
SWITCH = "CONJOIN_KERNELS"
"""Environment variable: "numba" ignores the extension modules."""


@dataclass(frozen=True)
class BuildRecord:
    """What a build made.

    Attributes
    ----------
    sources : str
        The hash of the sources of all kernels.
    cpu : str
        The processor that the machine code is for.
    features : list of str
        The instruction sets that the machine code may use.
    numba, python : str
        The versions of the compiler, and of Python.
    modules : dict
        The extension module of each kernel, by the kernel's full name.
    failure : str
        Why there are none; empty if all is well.
    """

    sources: str | None
    cpu: str = ""
    features: list[str] = field(default_factory=list)
    numba: str = ""
    python: str = ""
    modules: dict[str, str] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Mode:
    """Which machine code is in use.

    Attributes
    ----------
    compiled : bool
        The extension modules of the build are used; else numba compiles.
    reason : str
        Why.
    record : BuildRecord, optional
        What the build made, if there was one.
    """

    compiled: bool
    reason: str
    record: BuildRecord | None = None


@cache
def sources_hash() -> str | None:
    """Return a hash of the sources of all kernels; None if they are not files on disk."""
    sources = sorted(FOLDER.glob("*.py"))
    if not sources:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for path in sources:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def cpu_features() -> list[str]:
    """Return the instruction sets of this processor, as NumPy names them."""
    module = import_module("numpy._core._multiarray_umath")
    found: dict[str, bool] = getattr(module, "__cpu_features__", {})
    return sorted(name for name, present in found.items() if present)


def python_version() -> str:
    """Return the version of Python for which extension modules are built."""
    return sys.implementation.cache_tag or ""


def read_record() -> BuildRecord | None:
    """Return the record of the build; None if there was none."""
    try:
        text = (FOLDER / RECORD).read_text(encoding="utf-8")
    except OSError:
        return None
    return BuildRecord(**json.loads(text))


@cache
def mode() -> Mode:
    """Decide which machine code is used in this process."""
    if os.environ.get(SWITCH) == "numba":
        return Mode(False, f"{SWITCH}=numba is set", read_record())
    record = read_record()
    if record is None:
        return Mode(False, "the package was not built (an editable install or a source tree)")
    if record.failure:
        return Mode(False, f"the build could not compile: {record.failure}", record)
    if record.sources != sources_hash():
        return Mode(False, "the sources of kernels have changed since the build", record)
    if record.python != python_version():
        return Mode(False, f"the build was made for {record.python}", record)
    lacking = sorted(set(record.features) - set(cpu_features()))
    if lacking:
        return Mode(False, f"this processor lacks {', '.join(lacking)} of the build's", record)
    return Mode(True, "sources, Python and processor are those of the build", record)


def describe() -> dict[str, str]:
    """Describe which machine code is in use, for people and programs."""
    now = mode()
    report = {
        "kernels": "compiled when the package was built"
        if now.compiled
        else "compiled on first use",
        "reason": now.reason,
    }
    record = now.record
    if record is not None and not record.failure:
        report |= {
            "built_for": f"{record.cpu}, {record.python}",
            "built_with": f"numba {record.numba}",
            "sources": "as built"
            if record.sources == sources_hash()
            else "changed since the build",
        }
    return report
