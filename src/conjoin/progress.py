"""What takes longer than two seconds says so: a bar on a terminal, a few plain lines in a log.

Bars are shown wherever standard error is a terminal. Where it is not, commands write lines instead, the
longer they take the fewer: the next one is due after a quarter of the time so far.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

DELAY = 2.0
"""Seconds before the first sign of progress, and at least between two lines."""

SPACING = 0.25
"""Share of the time so far that passes before the next line."""

QUIET = "CONJOIN_QUIET"
"""The environment variable that, unless empty, turns the lines off."""


class _Step:
    """Work that is under way."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0

    def __str__(self) -> str:
        return self.what if self.total is None else f"{self.what}, {self.done:,} of {self.total:,}"


_under_way: list[_Step] = []
"""The steps under way, the outermost first."""


def progress(
    items: Iterable[Item], what: str, total: int | None = None
) -> Generator[Item, None, None]:
    """Yield items; after two seconds show a bar on standard error, if that is a terminal.

    `items`: the items. Each counts as one step when the next is requested. `what`: the label of the
    bar, and of lines in a log (see `lines_in_a_log`). `total`: the number of items, if they have no
    length.

    Examples
    --------
    >>> sum(progress([1, 2, 3], "adding"))
    6
    """
    from tqdm import tqdm

    if total is None and isinstance(items, Sized):
        total = len(items)
    step = _Step(what, total)
    _under_way.append(step)
    try:
        for item in tqdm(items, desc=what, total=total, delay=DELAY, disable=None, leave=False):
            yield item
            step.done += 1
    finally:
        _under_way.remove(step)


@contextmanager
def lines_in_a_log(what: str) -> Iterator[None]:
    """Write a line on standard error now and then, if that is no terminal; for commands."""
    if os.environ.get(QUIET) or sys.stderr is None or sys.stderr.isatty():
        yield
        return
    step, done = _Step(what), threading.Event()
    writer = threading.Thread(target=_write_lines, args=(done,), name="progress", daemon=True)
    _under_way.insert(0, step)
    writer.start()
    try:
        yield
    finally:
        _under_way.remove(step)
        done.set()
        writer.join()


def _write_lines(done: threading.Event) -> None:
    began, wait = time.monotonic(), DELAY
    while not done.wait(wait):
        so_far = time.monotonic() - began
        steps = ": ".join(map(str, list(_under_way)))
        sys.stderr.write(f"conjoin: after {so_far:.0f} s: {steps}\n")
        sys.stderr.flush()
        wait = max(DELAY, SPACING * so_far)
