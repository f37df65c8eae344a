"""Numbered random cases, run for some time; each can be run again by its number."""

from __future__ import annotations

import importlib
import multiprocessing
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Case = Callable[[np.random.Generator], str]
"""Runs one random case; returns a word for the tally, and raises an exception if there is a defect."""


@dataclass
class Tally:
    """What happened: how often each outcome was seen, and the cases that failed."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def run(self, case: Case, seed: int, number: int) -> None:
        """Run one case and record its outcome."""
        try:
            self.outcomes[case(np.random.default_rng([seed, number]))] += 1
        except Exception:
            self.outcomes["FAILED"] += 1
            self.failures[number] = traceback.format_exc()


def run_for(case: Case, seed: int, seconds: float, first: int = 0, limit: int = 10) -> Tally:
    """Run cases for some time, or until a number of them have failed."""
    tally, number, end = Tally(), first, time.monotonic() + seconds
    while time.monotonic() < end and len(tally.failures) < limit:
        tally.run(case, seed, number)
        number += 1
    return tally


def work(kind: str, seed: int, seconds: float, first: int, report: Any) -> None:
    """Run one kind of trial; send the tally when done."""
    module = importlib.import_module(f"fuzz.{kind}")
    module.prepare()
    report.send(run_for(module.case, seed, seconds, first))


def trial(kind: str, seed: int, seconds: float, first: int) -> Tally:
    """Run one kind of trial in a process of its own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(kind, seed, seconds, first, sender)
    )
    process.start()
    sender.close()
    try:
        tally: Tally = receiver.recv()
    except EOFError:
        process.join()
        tally = Tally(failures={-1: f"the process ended with status {process.exitcode}"})
    process.join()
    return tally
