"""How a benchmark states its goal and prints how far it is from it."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def best_of(function: Callable[[], object], repeats: int = 15) -> float:
    """Return the seconds of the fastest of several runs."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def cpu(function: Callable[[], T], runs: int = 1) -> tuple[float, T]:
    """Return the CPU seconds of the fastest run, and the result."""
    best = np.inf
    for _ in range(runs):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return best, result


def headline(title: str) -> None:
    print(f"\n{title}")
    print("-" * len(title))


def report(what: str, seconds: float, goal: float | None = None, note: str = "") -> None:
    """Print one measurement, and its distance from the goal if it has one."""
    line = f"{what:<58}{seconds * 1e3:>10.1f} ms"
    if goal is not None:
        verdict = "met" if seconds <= goal else "MISSED"
        line += f"   goal {goal * 1e3:,.0f} ms: {seconds / goal:.2f} of it, {verdict}"
    print(line + (f"   {note}" if note else ""))


def machine() -> str:
    return f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}"
