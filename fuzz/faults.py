"""Things that go wrong from outside: full disks, no memory, kills, folders that cannot be written to.

A file is the old one or the new one and nothing is left over, and whatever fails, fails with a clear
error.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import conjoin
from conjoin import ConjoinError
from conjoin.formats import storage
from conjoin.models import TableFactor
from fuzz.examples import random_joint, random_markov_network
from fuzz.trials import count

NOBODY = 65534
"""The user and the group without any rights."""


def case(rng: np.random.Generator) -> str:
    """Inject a fault of a random kind."""
    kinds, shares = zip(*KINDS, strict=True)
    kind = kinds[int(rng.choice(len(kinds), p=np.array(shares) / sum(shares)))]
    count("faults")
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(kind(rng, Path(name)))


def in_child(action: Callable[[], None], *, seconds: int = 60) -> int:
    """Run an action in a copy of this process; return its status, negative if a signal ended it.

    The status is 0 if it ended without an error, 1 after a clear error and 2 after any other.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 2
        try:
            faulthandler.dump_traceback_later(seconds, exit=True)
            action()
            status = 0
        except ConjoinError:
            status = 1
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


# ---- saving ---------------------------------------------------------------------------------------


def failing_call(rng: np.random.Generator, folder: Path) -> str:
    """Save over a file while a call to the system fails or memory runs out."""
    step = str(rng.choice(["open", "fsync", "fdopen", "fchmod", "replace", "write"]))
    fault: BaseException = OSError(
        int(rng.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])), "injected"
    )
    if rng.random() < 0.2:
        fault = MemoryError("injected")

    def fail(*_: Any, **__: Any) -> Any:
        raise fault

    patch: Any
    if step == "replace":
        patch = mock.patch.object(Path, "replace", fail)
    elif step == "write":
        patch = mock.patch.object(storage.os, "fdopen", _Broken(fault))
    else:
        patch = mock.patch.object(storage.os, step, fail)
    saved = _Saved(rng, folder)
    try:
        with patch:
            conjoin.save(saved.new, saved.path)
        outcome = f"{step} was not needed"
    except ConjoinError:
        outcome = f"{step} failed"
    saved.check(others=0)
    return outcome


class _Saved:
    """A file with an old model, and a new one to be saved over it."""

    def __init__(self, rng: np.random.Generator, folder: Path) -> None:
        make = random_joint if rng.random() < 0.3 else random_markov_network
        old, self.new = make(rng), make(rng)
        ending = str(rng.choice([".conjoin", ".conjoin.gz"]))
        self.path, other = folder / f"model{ending}", folder / f"new{ending}"
        conjoin.save(old, self.path)
        conjoin.save(self.new, other)
        self.contents = (self.path.read_bytes(), other.read_bytes())
        other.unlink()

    def check(self, others: int) -> None:
        """The file is one of both, and at most some other files were left."""
        assert self.path.read_bytes() in self.contents, (
            "the file is neither the old nor the new one"
        )
        left = sorted(p.name for p in self.path.parent.iterdir())
        assert len(left) <= 1 + others, left
        conjoin.load(self.path)


class _Broken:
    """Stands for `os.fdopen`: a file that fails in the middle of a write."""

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault
        self.real = os.fdopen

    def __call__(self, number: int, mode: str) -> Any:
        file = self.real(number, mode)
        broken = mock.MagicMock(wraps=file)
        broken.__enter__.return_value = broken
        broken.__exit__.side_effect = lambda *_: file.close()

        def write(data: bytes) -> None:
            file.write(data[: len(data) // 2])
            raise self.fault

        broken.write.side_effect = write
        return broken


def killed_while_saving(rng: np.random.Generator, folder: Path) -> str:
    """Save in a process that is killed at a random step."""
    saved = _Saved(rng, folder)
    step = str(rng.choice(["fsync", "fchmod", "replace", "open"]))
    how = signal.SIGKILL if rng.random() < 0.5 else signal.SIGTERM

    def save() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        real = getattr(os, step)

        def killed(*arguments: Any, **options: Any) -> Any:
            os.kill(os.getpid(), how)
            return real(*arguments, **options)

        setattr(os, step, killed)
        conjoin.save(saved.new, saved.path)

    status = in_child(save)
    assert status in (-how, 0), status
    saved.check(others=1)  # the temporary file of a process that was killed
    return f"{how.name} in {step}"


def full_disk(rng: np.random.Generator, folder: Path) -> str:
    """Save a file that is larger than the system allows."""
    saved = _Saved(rng, folder)
    limit = int(rng.integers(0, max(map(len, saved.contents))))

    def save() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        conjoin.save(saved.new, saved.path)

    status = in_child(save)
    assert status in (0, 1), status
    saved.check(others=0)
    return "file size limit: " + ("fits" if status == 0 else "a clear error")


def read_only(rng: np.random.Generator, folder: Path) -> str:
    """Save a model or write a table, as a user without any rights to the folder."""
    saved = _Saved(rng, folder)
    table = _table(rng)
    folder.chmod(0o555)
    saved.path.chmod(0o444)
    to_table = bool(rng.integers(2))

    def write() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        conjoin.marginals(conjoin.load(saved.path))
        if to_table:
            conjoin.write_table(table, folder / "table.csv")
        else:
            conjoin.save(saved.new, saved.path)

    # The folder of temporary files, or the one that this package is in, may be closed to others.
    needed = [*folder.parents, *Path(conjoin.__file__).resolve().parents]
    if os.getuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in needed):
        return "nothing: others cannot enter the folder"
    status = in_child(write)
    assert status == 1, status
    saved.check(others=0)
    folder.chmod(0o755)
    return f"read-only folder: {'a table' if to_table else 'a model'}"


# ---- memory ---------------------------------------------------------------------------------------


def no_memory(rng: np.random.Generator, folder: Path) -> str:
    """Do something with little memory left: it works, or fails with a clear error."""
    kind = str(rng.choice(["loading", "asking", "saving", "learning"]))
    left = int(rng.choice([0, 1, 4, 16, 64]))
    large, network = _large_network()
    table, path = _table(rng, 100_000), folder / "model.conjoin"
    path.write_bytes(b"old")

    def work() -> None:
        # In a thread, as otherwise learning starts one, and Python waits forever for a thread that does
        # not have enough memory to begin.
        failures: list[BaseException] = []
        thread = threading.Thread(target=limited, args=(failures,))
        thread.start()
        thread.join()
        for failure in failures:
            raise failure

    def limited(failures: list[BaseException]) -> None:
        try:
            hog = _leave_memory(left)
            if kind == "loading":
                conjoin.load(large)
            elif kind == "asking":
                conjoin.marginals(network, {"v0": 1})
            elif kind == "saving":
                conjoin.save(network, path)
            else:
                conjoin.convert(conjoin.learn_conditionals(table, "tree", n_jobs=1), table)
            hog.clear()
        except BaseException as error:
            failures.append(error)

    status = in_child(work)
    assert status in (0, 1), status
    assert [p.name for p in folder.iterdir()] == ["model.conjoin"]
    if kind != "saving" or status != 0:
        assert path.read_bytes() == b"old"
    return f"little memory, {kind}: " + ("enough" if status == 0 else "a clear error")


def _leave_memory(megabytes: int) -> list[Any]:
    """Leave this process about as many megabytes of memory; return what holds all others."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # large arrays are given back to the system
        library.mallopt(-3, 1 << 16)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    hog: list[Any] = []
    try:
        while True:
            hog.append(np.empty(1 << 17))
    except MemoryError:
        del hog[len(hog) - megabytes :]
    return hog


@cache
def _large_network() -> tuple[Path, conjoin.MarkovNetwork]:
    """Return a network whose table takes 16 MB, and its file."""
    domain = conjoin.Domain({f"v{i}": [0, 1] for i in range(21)})
    table = np.random.default_rng(0).normal(size=(2,) * 21)
    network = conjoin.MarkovNetwork(domain, factors=[TableFactor(tuple(range(21)), table)])
    path = Path(_KEPT.name) / "large.conjoin"
    conjoin.save(network, path)
    return path, network


# ---- long runs ------------------------------------------------------------------------------------


def _table(rng: np.random.Generator, rows: int = 60) -> conjoin.Table:
    hidden = rng.integers(0, 2, rows)
    columns = [np.where(rng.random(rows) < 0.8, hidden, rng.integers(0, 2, rows)) for _ in range(4)]
    domain = conjoin.Domain({name: ["no", "yes"] for name in "abcd"})
    return conjoin.Table(domain, np.stack(columns, axis=1).astype(np.uint8))


# ---- compiled code --------------------------------------------------------------------------------

COUNTING = """
import sys
import numpy as np
from conjoin.kernels.counts import count_bits
sets = np.random.default_rng(1).integers(0, 1 << 63, (5, 8), np.uint64)
out = np.zeros((5, 2))
count_bits(sets, sets[:2].copy(), np.array([0, 5, 8]), np.array([1.0, 0.3]), out)
print(out.sum())
"""


def cold_cache(rng: np.random.Generator, folder: Path) -> str:
    """Start two processes on one empty, damaged or closed cache of compiled code; kill one of them."""
    place = folder / "cache"
    kind = str(rng.choice(["empty", "killed", "damaged", "a file"]))
    if kind == "a file":
        place.write_text("no folder can be made here")
    elif kind == "damaged":
        shutil.copytree(_warm_cache(), place)
        for path in place.rglob("*.nb[ci]"):
            data = path.read_bytes()
            path.write_bytes(data[: int(rng.integers(len(data)))])
    processes = [_counting(place) for _ in range(2)]
    if kind == "killed":
        with_time = float(rng.random() * 2)
        try:
            processes[0].wait(with_time)
        except subprocess.TimeoutExpired:
            processes[0].kill()
        processes[0].communicate()
        processes[0] = _counting(place)
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert out == _right_count(), (out, err)
        assert "Traceback" not in err
    return f"cold cache: {kind}"


def _counting(place: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(place)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", COUNTING], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@cache
def _warm_cache() -> Path:
    """Return a folder with the compiled code; it is removed with the temporary files of this process."""
    place = Path(_KEPT.name) / "warm"
    out, err = _counting(place).communicate(timeout=300)
    assert out == _right_count(), err
    return place


@cache
def _right_count() -> str:
    names: dict[str, Any] = {"print": lambda x: names.__setitem__("found", x)}
    exec(COUNTING, names)
    return f"{names['found']}\n"


_KEPT = tempfile.TemporaryDirectory(prefix="conjoin-fuzz-")

KINDS: tuple[tuple[Any, float], ...] = (
    (failing_call, 60),
    (killed_while_saving, 10),
    (full_disk, 10),
    (read_only, 8),
    (no_memory, 10),
    (cold_cache, 0.3),
)
"""The kinds of faults, and how often each is injected."""


def prepare() -> None:
    """Import and compile what the copies of this process need."""
    table = _table(np.random.default_rng(0))
    for cpd in ("tree", "logistic", "hybrid"):
        conjoin.convert(conjoin.learn_conditionals(table, cpd, n_jobs=1), table)
    with tempfile.TemporaryDirectory() as name:  # others may not be allowed to import modules later
        for seed, ending in enumerate((".conjoin", ".conjoin.gz")):
            for make in (random_markov_network, random_joint):
                path = Path(name) / f"model{ending}"
                conjoin.save(make(np.random.default_rng(seed)), path)
                conjoin.marginals(conjoin.load(path))
        conjoin.write_table(table, Path(name) / "table.csv")
