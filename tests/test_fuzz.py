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
    "files": 150, "queries": 25, "numbers": 8, "faults": 40, "interpreter": 12, "parallel": 10,
    "soak": 3, "calibration": 15, "learning": 12,
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


def line_search(size, loss):
    """Arguments of a line search over one column of three rows, at a step of some size."""
    from conjoin.kernels.logistic import Point, Weights

    z = np.full((1, 3), size, np.float32)
    at = Point(z, z * 0, z * 0 + 1, z.copy(), z.copy(), np.array([loss]), np.ones(1), np.ones(1))
    weights = Weights(np.full((1, 2), float(size)), np.full(1, float(size)), np.zeros(0))
    step = Weights(np.ones((1, 2)), np.ones(1), np.zeros(0))
    change = np.ones((1, 3), np.float32)
    none = np.zeros(2, np.int64)
    return 0.5, np.zeros(1, np.int64), np.ones((1, 2)), change, at, weights, step, none, np.ones(1)


def test_a_line_search_that_rounding_ends_is_compared_by_what_it_promises(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    take_the_same_steps = importlib.import_module("fuzz.comparison").take_the_same_steps
    before, after, other = line_search(0, 10.0), line_search(1, 9.0), line_search(0.5, 9.5)
    take_the_same_steps(before, after, other)  # objectives 10, 9 + 1 and 9.5 + 0.5
    for one, two in zip(after[4:6], other[4:6], strict=True):
        for x, y in zip(one, two, strict=True):
            np.testing.assert_array_equal(x, y)
    with pytest.raises(AssertionError, match="raises 10"):
        take_the_same_steps(before, line_search(1, 9.1), line_search(0.5, 9.5))
