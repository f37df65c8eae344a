"""How kernels get their machine code: the decorators that all kernels use.

Machine code is that of the build where it can be used (see `build_info`); then the functions below only
declare kernels, and no compiler is imported. Otherwise numba compiles each kernel on first use, for the
types that its annotations declare, and keeps the result on disk.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from threading import Lock
from typing import Any

from conjoin.kernels.build_info import mode
from conjoin.kernels.signatures import Signature, numba_types

MODE = mode()


class Kernel:
    """A function that runs as machine code and checks its arguments before.

    Parameters
    ----------
    function : function
        Its annotations declare the types of its parameters; see `signatures`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.signature = Signature(function)
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._entries: dict[int, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Check the arguments and run the machine code."""
        variant = self.signature.check(arguments)
        entry = self._entries.get(variant)
        return (entry or self._load(variant))(*arguments)

    def __reduce__(self) -> str:
        return self.__name__

    @cached_property
    def exports(self) -> list[str]:
        """The name of the machine code of each variant in an extension module."""
        name = self.signature.name.replace(".", "__")
        return [name + (f"__{v}" if v is not None else "") for v in self.signature.variants]

    @cached_property
    def dispatcher(self) -> Any:
        """The function as numba compiles it."""
        from conjoin.kernels import jit

        return jit.compiled(self.function)

    @property
    def _numba_type_(self) -> Any:
        """What numba sees where one kernel calls another: a part of the other one."""
        return self._part._numba_type_

    @cached_property
    def _part(self) -> Any:
        from conjoin.kernels import jit

        return jit.inner(self.function)

    def _load(self, variant: int) -> Any:
        """Find or make the machine code of a variant."""
        if MODE.compiled and MODE.record is not None:
            name = MODE.record.modules[self.signature.name]
            entry = getattr(import_module(f"conjoin.kernels.{name}"), self.exports[variant])
        else:
            report_failed_build()
            types = numba_types(self.signature, self.signature.variants[variant])
            from conjoin.kernels.jit import compiling

            with compiling():
                entry = self.dispatcher.compile(types)
        self._entries[variant] = entry
        return entry


_to_be_reported = Lock()
"""Taken by the first thread that reports, and never given back."""


def report_failed_build() -> None:
    """Say, once per process, why kernels are compiled now although there was a build."""
    if MODE.record is None or sys.stderr is None:
        return
    if _to_be_reported.acquire(blocking=False):
        sys.stderr.write(f"conjoin: compiling on first use: {MODE.reason}\n")


def _only_declared(function: Any) -> Any:
    return function


compiled: Any = Kernel
"""Declare a kernel: a function that Python calls and that runs as machine code."""

inner: Any = _only_declared
inlined: Any = _only_declared
inlined_fused: Any = _only_declared
inner_sums: Any = _only_declared
inner_fused: Any = _only_declared
popcount: Any = None
power_of_two: Any = None
add_lanes: Any = None
add_row: Any = None
sum_lanes: Any = None
lanes_set: Any = None
sum_rows: Any = None
copy_into: Any = None
SIDE_BY_SIDE = 16
"""How many numbers `sum_rows` adds up side by side."""

if not MODE.compiled:
    from conjoin.kernels.jit import (
        add_lanes,
        add_row,
        copy_into,
        inlined,
        inlined_fused,
        inner,
        inner_fused,
        inner_sums,
        lanes_set,
        popcount,
        power_of_two,
        sum_lanes,
        sum_rows,
    )

__all__ = [
    "MODE", "SIDE_BY_SIDE", "Kernel", "add_lanes", "add_row", "compiled", "copy_into", "inlined",
    "inlined_fused", "inner", "inner_fused", "inner_sums", "lanes_set", "popcount", "power_of_two",
    "sum_lanes", "sum_rows",
]  # fmt: skip
