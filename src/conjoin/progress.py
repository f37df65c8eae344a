"""What takes longer than two seconds says so: one live line on a terminal, a few plain lines in a log.

Commands write lines in a log, the longer they take the fewer: the next one is due after a quarter of the
time so far. On a terminal the line is replaced several times per second, in Python programs, too.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TypeVar

Item = TypeVar("Item")

DELAY, TICK = 2.0, 0.2
"""Seconds before the first sign of progress, and at least between lines in a log; between two versions
of the line on a terminal."""

SPACING = 0.25
"""Share of the time so far that passes before the next line in a log."""

FIRST_RUN = " (the first run also compiles code, once)"
"""What a line on a terminal says if nothing more is known than the command."""

QUIET = "CONJOIN_QUIET"
"""The environment variable that, unless empty, turns progress off."""


class _Step:
    """Work that is under way."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0

    def __str__(self) -> str:
        if self.total is None or self.total == 1:
            return self.what
        return f"{self.what}, {min(self.done + 1, self.total):,} of {self.total:,}"


_under_way: list[_Step] = []
"""The steps under way, the outermost first."""


def progress(
    items: Iterable[Item], what: str, total: int | None = None
) -> Generator[Item, None, None]:
    """Yield items; if this takes long, say on standard error which of them is under way.

    `items`: the items. Each counts as done when the next is requested. `what`: what they are. `total`:
    the number of items, if they have no length.

    Examples
    --------
    >>> sum(progress([1, 2, 3], "adding"))
    6
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with reported(_Step(what, total), in_logs=False) as step:
        for item in items:
            yield item
            step.done += 1


@contextmanager
def reported(step: _Step | str, in_logs: bool = True) -> Iterator[_Step]:
    """Report on standard error what is under way, unless an outer step is reported on already.

    Python programs report on a terminal only; commands, with `in_logs`, in a log, too.
    """
    step = _Step(step) if isinstance(step, str) else step
    live = sys.stderr is not None and sys.stderr.isatty()
    wanted = not os.environ.get(QUIET) and (live or (in_logs and sys.stderr is not None))
    _under_way.append(step)
    with ExitStack() as streams:
        streams.callback(_under_way.remove, step)
        if wanted and len(_under_way) == 1:
            done, terminal = threading.Event(), _Terminal(sys.stderr) if live else None
            writer = threading.Thread(target=_report, args=(done, terminal), daemon=True)
            writer.start()
            if terminal is not None and in_logs:  # a library leaves the streams of programs alone
                streams.enter_context(redirect_stderr(terminal))
                if sys.stdout is not None and sys.stdout.isatty():
                    streams.enter_context(redirect_stdout(_Terminal(sys.stdout)))
            streams.callback(writer.join)
            streams.callback(done.set)
        yield step


def _report(done: threading.Event, terminal: _Terminal | None) -> None:
    began, wait, hint = time.monotonic(), DELAY, FIRST_RUN
    while not done.wait(wait):
        so_far = time.monotonic() - began
        steps = ": ".join(map(str, list(_under_way)))
        if terminal is not None:
            hint = hint if len(_under_way) == 1 else ""  # the first step of a command follows soon
            terminal.show(f"{so_far:.0f} s  {steps}{hint}")
            wait = TICK
        else:
            sys.stderr.write(f"conjoin: after {so_far:.0f} s: {steps}\n")
            sys.stderr.flush()
            wait = max(DELAY, SPACING * so_far)
    if terminal is not None:
        terminal.show("")


class _Terminal:
    """Standard error or output, with a line of progress that gives way to all that is written."""

    lock = threading.RLock()
    line = ""  # what is shown; both streams share it
    at_start = True  # whether what was written before ends a line

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def show(self, text: str) -> None:
        """Replace the line of progress, unless a line of output is not complete."""
        with self.lock:
            text = text[: shutil.get_terminal_size().columns - 1] if self.at_start else ""
            blanks = f"\r{' ' * len(self.line)}\r" if self.line else ""
            self._stream.write(blanks + text)
            self._stream.flush()
            _Terminal.line = text

    def write(self, text: str) -> int:
        """Write to the terminal."""
        with self.lock:
            if self.line:
                self.show("")
            _Terminal.at_start = text.endswith("\n") if text else self.at_start
            return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
