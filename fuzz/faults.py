"""Saving while things go wrong: the file is the old one or the new one, and nothing is left over."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import conjoin
from conjoin.errors import ConjoinError
from conjoin.formats import storage
from fuzz.examples import random_markov_network

KILLED = """\
import os, signal, sys
import conjoin
from conjoin.formats import storage
network = conjoin.load(sys.argv[1])
step = {step!r}
real = getattr(os, step)
def killed(*arguments, **options):
    os.kill(os.getpid(), signal.{signal})
    return real(*arguments, **options)
setattr(os, step, killed)
network.save(sys.argv[2])
"""


def case(rng: np.random.Generator) -> str:
    """Save a network over another one, with a fault at a random step."""
    old, new = random_markov_network(rng), random_markov_network(rng)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "model.conjoin"
        old.save(path)
        before = path.read_bytes()
        new.save(folder / "new.conjoin")
        after = (folder / "new.conjoin").read_bytes()
        if rng.random() < 0.05:
            outcome = _killed(rng, folder, path)
        else:
            outcome = _failing(rng, new, path)
            left = sorted(p.name for p in folder.iterdir())
            assert left == ["model.conjoin", "new.conjoin"], left
        assert path.read_bytes() in (before, after), "the file is neither the old nor the new one"
        conjoin.load(path)
    return outcome


def _failing(rng: np.random.Generator, network: Any, path: Path) -> str:
    """Save while a call to the system fails."""
    step = str(rng.choice(["open", "fsync", "fdopen", "fchmod", "replace", "write"]))
    fault: BaseException = OSError(
        int(rng.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])), "injected"
    )
    if rng.random() < 0.2:
        fault = MemoryError("injected")

    def fail(*_: Any, **__: Any) -> Any:
        raise fault

    if step == "replace":
        patch = mock.patch.object(Path, "replace", fail)
    elif step == "write":
        patch = mock.patch.object(storage.os, "fdopen", _Broken(fault))
    else:
        patch = mock.patch.object(storage.os, step, fail)
    try:
        with patch:
            network.save(path)
    except (ConjoinError, MemoryError):
        return f"{step} failed"
    return f"{step} was not needed"


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


def _killed(rng: np.random.Generator, folder: Path, path: Path) -> str:
    """Save in a process that is killed at a random step."""
    step = str(rng.choice(["fsync", "fchmod", "replace", "open"]))
    how = str(rng.choice(["SIGKILL", "SIGTERM"]))
    code = KILLED.format(step=step, signal=how)
    command = [sys.executable, "-c", code, str(folder / "new.conjoin"), str(path)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode in (-getattr(signal, how), 0), done.stderr.decode()
    return f"{how} in {step}"


def prepare() -> None:
    """Nothing to prepare."""
