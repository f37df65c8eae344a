"""A few cases of every random trial; `python -m fuzz` runs as many as one likes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = [
    pytest.mark.skipif(not (ROOT / "fuzz").is_dir(), reason="the trials are not beside the tests"),
    pytest.mark.skipif(sys.platform == "win32", reason="the trials use POSIX signals and limits"),
]


@pytest.mark.parametrize(("kind", "count"), [("files", 150), ("queries", 25), ("faults", 12)])
def test_trials_find_no_defect(kind, count, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    trials = importlib.import_module("fuzz.trials")
    module = importlib.import_module(f"fuzz.{kind}")
    tally = trials.Tally()
    for number in range(count):
        tally.run(module.case, 20_000, number)
    assert not tally.failures, next(iter(tally.failures.values()))
    assert sum(tally.outcomes.values()) == count
    assert len(tally.outcomes) > 2  # the trials reach different outcomes


def test_a_defect_is_reported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    trials = importlib.import_module("fuzz.trials")

    def wrong(rng):
        assert rng.random() < 0.5
        return "fine"

    tally = trials.run_for(wrong, seed=0, seconds=60, limit=3)
    assert len(tally.failures) == 3
    assert "AssertionError" in next(iter(tally.failures.values()))
    assert tally.outcomes["FAILED"] == 3
