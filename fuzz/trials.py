"""Numbered random cases, run for some time; each can be run again by its number."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Case = Callable[[np.random.Generator], str]
"""Runs one random case; returns a word for the tally, and raises an exception if there is a defect."""


COUNTED: Counter[str] = Counter()
"""What the cases of this process have done so far, such as questions asked."""


def count(what: str, number: int = 1) -> None:
    """Record that a case asked questions, injected faults or the like."""
    COUNTED[what] += number


@dataclass
class Tally:
    """What happened.

    Attributes
    ----------
    outcomes : Counter
        How often each outcome was seen.
    failures : dict
        {number: message} of the cases that failed.
    counted : Counter
        What the cases did, such as questions asked.
    cpu_seconds : float
        The processor time of the cases, including that of processes they started.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    cpu_seconds: float = 0.0

    def run(self, case: Case, seed: int, number: int) -> None:
        """Run one case and record its outcome."""
        try:
            self.outcomes[case(np.random.default_rng([seed, number]))] += 1
        except Exception:
            self.outcomes["FAILED"] += 1
            self.failures[number] = traceback.format_exc()


def run_for(
    case: Case,
    seed: int,
    seconds: float,
    first: int = 0,
    cases: float = np.inf,
    failures: int = 10,
) -> Tally:
    """Run cases for some time, or until a number of them have run or failed."""
    tally, number, end = Tally(), first, time.monotonic() + seconds
    while time.monotonic() < end and len(tally.failures) < failures and number < first + cases:
        tally.run(case, seed, number)
        number += 1
    tally.counted.update(COUNTED)
    tally.cpu_seconds = sum(os.times()[:4])
    return tally


def work(kind: str, seed: int, seconds: float, first: int, cases: float, report: Any) -> None:
    """Run one kind of trial; send the tally when done."""
    module = importlib.import_module(f"fuzz.{kind}")
    module.prepare()
    report.send(run_for(module.case, seed, seconds, first, cases))


def trial(kind: str, seed: int, seconds: float, first: int = 0, cases: float = np.inf) -> Tally:
    """Run one kind of trial in a process of its own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(kind, seed, seconds, first, cases, sender)
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
