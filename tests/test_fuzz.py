"""A few cases of every random trial; `python -m fuzz` runs as many as one likes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
pytestmark = [
    pytest.mark.skipif(not (ROOT / "fuzz").is_dir(), reason="the trials are not beside the tests"),
    pytest.mark.skipif(sys.platform == "win32", reason="the trials use POSIX signals and limits"),
]


COUNTS = {
    "files": 60, "queries": 10, "numbers": 3, "faults": 15, "parallel": 3, "soak": 2,
    "learning": 4, "rules": 4,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "count"), COUNTS.items())
def test_trials_find_no_defect(kind, count, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    trials = importlib.import_module("fuzz.trials")
    tally = trials.trial(kind, seed=20_000, seconds=600, cases=count)  # in a process of its own
    assert not tally.failures, next(iter(tally.failures.values()))
    assert sum(tally.outcomes.values()) == count
    assert len(tally.outcomes) > (kind != "soak")  # the trials reach different outcomes


def test_a_failing_file_is_made_small(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT))
    files = importlib.import_module("fuzz.files")
    assert files.reduced(b"a long text with a bug inside", lambda less: b"bug" in less) == b"bug"
    monkeypatch.setattr(files.tempfile, "mkdtemp", lambda **_: str(tmp_path))

    def broken(path):
        if b"2" in path.read_bytes():
            raise ZeroDivisionError
        raise AssertionError

    name, data = next((n, d) for n, d in files.originals() if n == "table.schema")
    assert b"2" in data
    monkeypatch.setattr(files, "read", broken)
    monkeypatch.setattr(files, "originals", lambda: [(name, data)])
    with pytest.raises(AssertionError, match="a smaller file that fails in the same way"):
        files.case(np.random.default_rng(0))
    assert (tmp_path / name).read_bytes() == b"2"


def test_a_defect_is_reported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    trials = importlib.import_module("fuzz.trials")

    def wrong(rng):
        assert rng.random() < 0.5
        return "fine"

    tally = trials.run_for(wrong, seed=0, seconds=60, failures=3)
    assert len(tally.failures) == 3
    assert "AssertionError" in next(iter(tally.failures.values()))
    assert tally.outcomes["FAILED"] == 3
