"""The one place that knows how kernels are compiled, and where machine code is kept.

numba compiles each kernel on first use, for the types of the arguments that it gets, and keeps the result
on disk. Importing this module imports the compiler (about half a second), so that commands that need no
kernel do not.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import numba
from llvmlite import ir
from numba import extending
from numba.core import event, types
from numba.core.caching import FunctionCache


@cache
def sources_hash() -> str:
    """Return a hash of the sources of all kernels."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


class KernelCache(FunctionCache):
    """numba's cache of machine code, made safe for functions that are spread over several files.

    numba itself compiles again only if the file of the kernel has changed, not if that of a function has
    which the kernel calls. Here, a change of any file counts. A damaged file means compiling again, and a
    full disk that the result is not kept.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = sources_hash()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature; None if it is not there in good order."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever it is, compiling again helps
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if there is a place for it."""
        with suppress(OSError):
            super().save_overload(sig, data)


@cache
def _warn_that_nothing_is_kept() -> None:
    tried = os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent
    warnings.warn(
        f"compiled functions cannot be kept ({tried} is not writable), so every process compiles "
        "them again; set NUMBA_CACHE_DIR to a writable folder",
        RuntimeWarning,
        stacklevel=2,
    )


_KERNEL: Any = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function on first use, keep the result on disk, run it without the interpreter's lock."""
    dispatcher: Any = numba.njit(**_KERNEL)(function)
    if dispatcher is not function:  # as it is where NUMBA_DISABLE_JIT is set
        try:
            dispatcher._cache = KernelCache(function)
        except RuntimeError:  # numba found no folder that it can write to
            _warn_that_nothing_is_kept()
    return dispatcher


_INNER: Any = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner = numba.njit(**_INNER)
"""For functions that only kernels call: not callable from Python, they compile in less time."""

inlined = numba.njit(forceinline=True, **_INNER)
"""The same for functions that take tuples and are called often: passing a tuple copies its members."""

inner_sums = numba.njit(fastmath={"reassoc", "contract", "nsz"}, **_INNER)
"""The same for sums whose terms may be reordered, so that loops become vector instructions."""

inner_fused = numba.njit(fastmath={"contract"}, **_INNER)
"""The same where a product and a sum may be one instruction, but nothing may be reordered."""

inlined_fused = numba.njit(fastmath={"contract"}, forceinline=True, **_INNER)
"""The same for parts of loops that become vector instructions."""


intrinsic: Any = extending.intrinsic  # calls of intrinsics have no types that mypy knows


class Notice(event.Listener):
    """Tells a waiting user, on a terminal, that kernels are being compiled; once per process."""

    def __init__(self) -> None:
        self.depth, self.since, self.spent = 0, 0.0, 0.0
        self.to_be_said = Lock()  # taken by the first thread that says it, and never given back

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        """Record when the outermost compilation began."""
        if self.depth == 0:
            self.since = monotonic()
        self.depth += 1

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Print a message once compiling has taken two seconds."""
        self.depth -= 1
        spent = self.spent + monotonic() - self.since
        if self.depth == 0:
            self.spent = spent
        if spent > 2 and sys.stderr.isatty() and self.to_be_said.acquire(blocking=False):
            sys.stderr.write("conjoin: compiling its numerical loops, once on this machine\n")


event.register("numba:compile", Notice())


@inner
def copy_into(out, source):
    """Copy an array element by element, as `out[:] = source` takes seconds to compile."""
    for i in range(len(source)):
        out[i] = source[i]


@intrinsic
def popcount(typingctx: Any, x: Any) -> Any:  # noqa: ARG001
    """Count the bits of a 64-bit word, so that loops become vector instructions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def power_of_two(typingctx: Any, k: Any) -> Any:  # noqa: ARG001
    """Return 2^k of a whole number k that is a float, by writing its exponent."""
    size, shift, bias = (32, 23, 127) if k == types.float32 else (64, 52, 1023)
    number = ir.FloatType() if k == types.float32 else ir.DoubleType()

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        word = ir.IntType(size)
        exponent = builder.add(builder.fptosi(args[0], word), ir.Constant(word, bias))
        return builder.bitcast(builder.shl(exponent, ir.Constant(word, shift)), number)

    return k(k), codegen
