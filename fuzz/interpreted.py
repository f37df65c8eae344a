"""A process in which the interpreter runs the kernels that are otherwise compiled; see `interpreter`.

It reads calls (module, name, arguments) and sends back what a kernel returned, and its arguments as they
are then. `NUMBA_DISABLE_JIT` must be set: functions that kernels call are then ordinary functions, too.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import traceback
import warnings
from typing import Any

import numpy as np


def popcount(x: Any) -> Any:
    """Count the bits of a word."""
    return np.uint64(int(x).bit_count())


def power_of_two(k: Any) -> Any:
    """Return 2^k for a whole number k."""
    return type(k)(2.0 ** float(k))


def _bits(word: Any) -> np.ndarray:
    return np.array([int(word) >> i & 1 for i in range(64)], bool)


def add_lanes(line: Any, word: Any, weight: Any) -> None:
    """Add a weight to those of 64 numbers whose bit is set."""
    line[:64][_bits(word)] += line.dtype.type(weight)


def add_row(line: Any, word: Any, row: Any, sign: Any) -> None:
    """Add 64 numbers, times 1 or -1, to those of 64 others whose bit is set."""
    chosen = _bits(word)
    line[:64][chosen] += (row[:64] * line.dtype.type(sign))[chosen]


def lanes_set(line: Any) -> Any:
    """Return which of 64 numbers are not 0, as the bits of a word."""
    return np.uint64(sum(1 << i for i in range(64) if line[i] != 0))


def sum_lanes(line: Any, word: Any) -> Any:
    """Add up those of 64 numbers whose bit is set."""
    return np.float64(line[:64][_bits(word)].sum())


def sum_rows(block: Any, row: Any, start: Any, end: Any, out: Any) -> None:
    """Set `out` to the sum of some rows of a block."""
    width = 16
    flat = block.reshape(-1)
    total = np.zeros(width, np.float32)
    for i in range(start, end):
        at = int(row[i]) * width
        total += flat[at : at + width]
    out.reshape(-1)[:width] = total


REPLACED = (popcount, power_of_two, add_lanes, add_row, lanes_set, sum_lanes, sum_rows)
"""Functions that have no Python of their own."""


def main() -> None:
    """Answer calls until there are no more."""
    from conjoin.kernels import jit

    for function in REPLACED:
        setattr(jit, function.__name__, function)
    from conjoin.kernels.kernel import Kernel

    def load(self: Kernel, variant: int) -> Any:  # noqa: ARG001
        return self.function

    Kernel._load = load  # type: ignore[method-assign]
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    while True:
        try:
            module, name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            kernel = getattr(importlib.import_module(module), name)
            answer: Any = (kernel(*arguments), arguments, None)
        except Exception:
            answer = (None, None, traceback.format_exc())
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
