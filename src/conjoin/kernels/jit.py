"""The one place that knows how kernels are compiled."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from time import monotonic
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, compiler, event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import _OverloadFunctionTemplate
from numba.extending import intrinsic

from conjoin.kernels.machine_code_cache import MachineCodeCache
from conjoin.kernels.quicker_compiler import shorten

QUICK = numba.__version__.startswith("0.68.")
"""Whether compiling takes less time by what is known of the inside of this version of numba."""

if QUICK:
    shorten()

_KERNEL: Any = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function on first use, keep the result on disk, run it without the interpreter's lock."""
    dispatcher: Any = numba.njit(**_KERNEL)(function)
    if dispatcher is not function:  # as it is where NUMBA_DISABLE_JIT is set
        dispatcher._cache = MachineCodeCache(function)
    return dispatcher


class Part(JITCodeLibrary):
    """The code of a function that only kernels call: only the kernels are optimised and emitted."""

    def finalize(self) -> None:
        """Link the code that this code calls, and do nothing else."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """Lets kernels call a function that has no machine code of its own."""

    _name = "conjoin_part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower a function to a `Part`."""
        state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        key: Any = [].append  # callers find the function by it: any built-in function that is unique
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=key)
        return True


class PartCompiler(compiler.CompilerBase):
    """Compiles functions that only kernels call."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual passes, with another last one."""
        pipeline = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (PartLowering if used is NativeLowering else used, text)
            for used, text in pipeline.passes
        ]
        pipeline._finalized = False
        pipeline.finalize()
        return [pipeline]


_PART: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
if QUICK:
    _PART["pipeline_class"] = PartCompiler
_INNER: Any = {"error_model": "numpy", **_PART}

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


class CompilingKernels(local):
    """Whether this thread compiles a kernel; then numba's own functions, as `np.empty`, are parts."""

    now = False


_THIS_THREAD = CompilingKernels()
_usual_decorator: Any = getattr(_OverloadFunctionTemplate, "_get_jit_decorator", None)


def _decorator(template: Any) -> Any:
    """Return what compiles one of numba's own functions."""
    usual = _usual_decorator(template)
    return (lambda **options: usual(**{**options, **_PART})) if _THIS_THREAD.now else usual


if QUICK:
    _template: Any = _OverloadFunctionTemplate
    _template._get_jit_decorator = _decorator


@contextmanager
def compiling() -> Iterator[None]:
    """Compile a kernel in this context, without stopping to look for unused objects."""
    collects = gc.isenabled()
    gc.disable()
    _THIS_THREAD.now = True
    try:
        yield
    finally:
        _THIS_THREAD.now = False
        if collects:
            gc.enable()


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
def _popcount(typingctx: Any, x: Any) -> Any:  # noqa: ARG001
    """Count the bits of a 64-bit word, so that loops become vector instructions."""

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


def _lanes(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Return a pointer to the first 64 numbers of an array, and the type of these."""
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    number = ir.FloatType() if array_type.dtype == types.float32 else ir.DoubleType()
    vector = ir.VectorType(number, 64)
    return builder.bitcast(data, vector.as_pointer()), vector


def _mask(builder: Any, word: Any) -> Any:
    """Return the bits of a word as a vector."""
    return builder.bitcast(word, ir.VectorType(ir.IntType(1), 64))


def _everywhere(builder: Any, vector: Any, number: Any) -> Any:
    """Return a vector of 64 copies of a number."""
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, zeros)


@intrinsic
def _add_lanes(typingctx: Any, line: Any, word: Any, weight: Any) -> Any:  # noqa: ARG001
    """Add a weight to those of 64 numbers whose bit in the word is set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, vector = _lanes(context, builder, signature.args[0], args[0])
        weights = _everywhere(builder, vector, args[2])
        align = signature.args[0].dtype.bitwidth // 8
        old = builder.load(pointer, align=align)
        new = builder.select(_mask(builder, args[1]), builder.fadd(old, weights), old)
        builder.store(new, pointer, align=align)
        return context.get_dummy_value()

    return types.none(line, types.uint64, line.dtype), codegen


@intrinsic
def _add_row(typingctx: Any, line: Any, word: Any, row: Any, sign: Any) -> Any:  # noqa: ARG001
    """Add 64 numbers, times 1 or -1, to those of 64 others whose bit in the word is set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, vector = _lanes(context, builder, signature.args[0], args[0])
        source, _ = _lanes(context, builder, signature.args[2], args[2])
        signs = _everywhere(builder, vector, args[3])
        align = signature.args[0].dtype.bitwidth // 8
        old = builder.load(pointer, align=align)
        # The product is exact, so that one instruction for both gives the same.
        product = builder.fmul(builder.load(source, align=align), signs, flags=("contract",))
        total = builder.fadd(old, product, flags=("contract",))
        builder.store(builder.select(_mask(builder, args[1]), total, old), pointer, align=align)
        return context.get_dummy_value()

    return types.none(line, types.uint64, row, line.dtype), codegen


@intrinsic
def _lanes_set(typingctx: Any, line: Any) -> Any:  # noqa: ARG001
    """Return which of 64 float32 numbers are not 0, as the bits of a word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, vector = _lanes(context, builder, signature.args[0], args[0])
        zeros = ir.Constant(vector, [0.0] * 64)
        chosen = builder.fcmp_unordered("!=", builder.load(pointer, align=4), zeros)
        return builder.bitcast(chosen, ir.IntType(64))

    return types.uint64(line), codegen


@intrinsic
def _sum_lanes(typingctx: Any, line: Any, word: Any) -> Any:  # noqa: ARG001
    """Add up those of 64 float64 numbers whose bit in the word is set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, vector = _lanes(context, builder, signature.args[0], args[0])
        old = builder.load(pointer, align=8)
        chosen = builder.select(_mask(builder, args[1]), old, ir.Constant(vector, [0.0] * 64))
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), vector])
        total = cgutils.get_or_insert_function(
            builder.module, kind, "llvm.vector.reduce.fadd.v64f64"
        )
        zero = ir.Constant(ir.DoubleType(), 0.0)
        return builder.call(total, [zero, chosen], fastmath=("reassoc",))

    return types.float64(line, types.uint64), codegen


add_lanes: Any = _add_lanes
add_row: Any = _add_row
sum_lanes: Any = _sum_lanes
lanes_set: Any = _lanes_set


SIDE_BY_SIDE = 16
"""The number of columns that `sum_rows` adds up side by side."""


@intrinsic
def _sum_rows(typingctx: Any, block: Any, row: Any, start: Any, end: Any, out: Any) -> Any:  # noqa: ARG001
    """Set `out` to the sum of rows of SIDE_BY_SIDE float32 numbers: row[start:end] of a block."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), SIDE_BY_SIDE)
        lines, places, result = (
            cgutils.create_struct_proxy(signature.args[k])(context, builder, args[k]).data
            for k in (0, 1, 4)
        )
        lines = builder.bitcast(lines, vector.as_pointer())
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * SIDE_BY_SIDE))
        with cgutils.for_range(builder, builder.sub(args[3], args[2])) as loop:
            place = builder.gep(places, [builder.add(args[2], loop.index)])
            line = builder.gep(lines, [builder.sext(builder.load(place), ir.IntType(64))])
            more = builder.fadd(builder.load(total), builder.load(line, align=4))
            builder.store(more, total)
        builder.store(builder.load(total), builder.bitcast(result, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.none(block, row, types.int64, types.int64, out), codegen


sum_rows: Any = _sum_rows
