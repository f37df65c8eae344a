"""The one place that knows how kernels are compiled."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
"""Compile on first use, keep the result on disk, run without the interpreter's lock."""

compiled_sums = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)
"""The same for loops of sums, whose order may be changed so that they become vector instructions."""

compiled_fused = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
"""The same where a product and a sum may be one instruction, but nothing may change its place."""


@intrinsic
def _popcount(typingctx: Any, x: Any) -> Any:  # noqa: ARG001
    """Count the bits of a 64-bit word, in a way that loops of it become vector instructions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


popcount: Any = _popcount


@intrinsic
def _power_of_two(typingctx: Any, k: Any) -> Any:  # noqa: ARG001
    """Return 2^k of a whole float32 k from -126 to 127, by writing its exponent."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        word = ir.IntType(32)
        exponent = builder.add(builder.fptosi(args[0], word), ir.Constant(word, 127))
        return builder.bitcast(builder.shl(exponent, ir.Constant(word, 23)), ir.FloatType())

    return types.float32(types.float32), codegen


power_of_two: Any = _power_of_two
