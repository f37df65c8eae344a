"""Compiled kernels on disk: never out of date, and never in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import conjoin

OUTER = """
from conjoin.kernels.kernel import compiled
from conjoin.kernels.probe_inner import shifted

@compiled
def doubled(x):
    return 2 * shifted(x)
"""
INNER = """
from conjoin.kernels.kernel import inner

@inner
def shifted(x):
    return x + {shift}
"""
SCRIPT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from conjoin.kernels.probe_outer import doubled
    print(doubled(1), doubled(1.5))
print(*(str(w.message) for w in caught if "compiled functions" in str(w.message)), sep="\\n")
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package with a kernel that calls a function of another file."""
    copy = tmp_path / "src" / "conjoin"
    copy.mkdir(parents=True)
    original = Path(conjoin.__file__).parent
    for path in original.glob("*.py"):
        shutil.copy(path, copy)
    for folder in original.iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(folder, copy / folder.name, ignore=ignore)
    (copy / "kernels" / "probe_outer.py").write_text(OUTER)
    (copy / "kernels" / "probe_inner.py").write_text(INNER.format(shift=1))
    return copy


def start(package, **environment):
    hidden = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH", "HOME")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    home = {"HOME": str(package.parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**kept, **home, "PYTHONPATH": str(package.parent), **environment},
        cwd=package.parent.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process):
    """Return the two results and the warnings of a process."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    first, *warned = out.splitlines()
    return [float(x) for x in first.split()], [line for line in warned if line]


def cached_files(folder):
    """Return when each file of the cache was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("probe_outer*.nb[ci]")}


def test_a_changed_inner_function_is_compiled_again(package):
    assert answer(start(package)) == ([4.0, 5.0], [])
    files = cached_files(package)
    assert len(files) == 3  # an index, and one per signature
    assert answer(start(package)) == ([4.0, 5.0], [])
    assert files == cached_files(package)  # only read
    (package / "kernels" / "probe_inner.py").write_text(INNER.format(shift=1001))
    assert answer(start(package)) == ([2004.0, 2005.0], [])


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage"])
def test_damaged_files_are_replaced(package, damage):
    answer(start(package))
    for path in cached_files(package):
        whole = path.read_bytes()
        content = {"empty": b"", "cut": whole[:-9], "garbage": b"x" * 99}
        path.write_bytes(content[damage])
    assert answer(start(package)) == ([4.0, 5.0], [])
    files = cached_files(package)
    assert answer(start(package)) == ([4.0, 5.0], [])
    assert files == cached_files(package)


def test_without_a_writable_place_everything_works_with_one_warning(package):
    (package / "kernels" / "__pycache__").write_text("a file, so that no folder can be made here")
    home = package.parent.parent / "home"
    home.write_text("another one")
    results, warned = answer(start(package, HOME=str(home)))
    assert results == [4.0, 5.0]
    assert len(warned) == 1
    assert "set NUMBA_CACHE_DIR" in warned[0]
    place = package.parent.parent / "place"
    assert answer(start(package, HOME=str(home), NUMBA_CACHE_DIR=str(place))) == ([4.0, 5.0], [])
    assert len(cached_files(place)) == 3


def test_processes_may_start_at_once(package):
    processes = [start(package) for _ in range(3)]
    assert [answer(process) for process in processes] == [([4.0, 5.0], [])] * 3
