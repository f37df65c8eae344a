"""The one place that knows how kernels are compiled."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
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
    """Return 2^k of a whole number k that is a float, by writing its exponent."""
    size, shift, bias = (32, 23, 127) if k == types.float32 else (64, 52, 1023)
    number = ir.FloatType() if k == types.float32 else ir.DoubleType()

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        word = ir.IntType(size)
        exponent = builder.add(builder.fptosi(args[0], word), ir.Constant(word, bias))
        return builder.bitcast(builder.shl(exponent, ir.Constant(word, shift)), number)

    return k(k), codegen


power_of_two: Any = _power_of_two


def _lanes(context: Any, builder: Any, array_type: Any, array: Any, word: Any) -> Any:
    """Return a pointer to the first 64 numbers of an array, and the bits of a word beside them."""
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    vector = ir.VectorType(ir.DoubleType(), 64)
    pointer = builder.bitcast(data, vector.as_pointer())
    return pointer, builder.bitcast(word, ir.VectorType(ir.IntType(1), 64)), vector


@intrinsic
def _add_lanes(typingctx: Any, line: Any, word: Any, weight: Any) -> Any:  # noqa: ARG001
    """Add a weight to those of 64 float64 numbers whose bit in the word is set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, mask, vector = _lanes(context, builder, signature.args[0], args[0], args[1])
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        nothing = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(nothing, args[2], ir.Constant(ir.IntType(32), 0))
        weights = builder.shuffle_vector(first, nothing, zeros)
        old = builder.load(pointer, align=8)
        builder.store(builder.select(mask, builder.fadd(old, weights), old), pointer, align=8)
        return context.get_dummy_value()

    return types.none(line, types.uint64, types.float64), codegen


@intrinsic
def _sum_lanes(typingctx: Any, line: Any, word: Any) -> Any:  # noqa: ARG001
    """Add up those of 64 float64 numbers whose bit in the word is set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, mask, vector = _lanes(context, builder, signature.args[0], args[0], args[1])
        chosen = builder.select(
            mask, builder.load(pointer, align=8), ir.Constant(vector, [0.0] * 64)
        )
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), vector])
        total = cgutils.get_or_insert_function(
            builder.module, kind, "llvm.vector.reduce.fadd.v64f64"
        )
        zero = ir.Constant(ir.DoubleType(), 0.0)
        return builder.call(total, [zero, chosen], fastmath=("reassoc",))

    return types.float64(line, types.uint64), codegen


add_lanes: Any = _add_lanes
sum_lanes: Any = _sum_lanes


LANES = 16
"""How many numbers `sum_rows` adds up side by side."""


@intrinsic
def _sum_rows(typingctx: Any, block: Any, row: Any, start: Any, end: Any, out: Any) -> Any:  # noqa: ARG001
    """Set `out` to the sum of some rows of LANES float32 numbers: row[start:end] of a block of them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), LANES)
        lines, places, result = (
            cgutils.create_struct_proxy(signature.args[k])(context, builder, args[k]).data
            for k in (0, 1, 4)
        )
        lines = builder.bitcast(lines, vector.as_pointer())
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
        with cgutils.for_range(builder, builder.sub(args[3], args[2])) as loop:
            place = builder.gep(places, [builder.add(args[2], loop.index)])
            line = builder.gep(lines, [builder.sext(builder.load(place), ir.IntType(64))])
            more = builder.fadd(builder.load(total), builder.load(line, align=4))
            builder.store(more, total)
        builder.store(builder.load(total), builder.bitcast(result, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.none(block, row, types.int64, types.int64, out), codegen


sum_rows: Any = _sum_rows
