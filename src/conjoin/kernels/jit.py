"""The one place that knows how kernels are compiled."""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types
from numba.extending import intrinsic

compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
"""Compile on first use, keep the result on disk, run without the interpreter's lock."""


@intrinsic
def _popcount(typingctx: Any, x: Any) -> Any:  # noqa: ARG001
    """Count the bits of a 64-bit word, in a way that loops of it become vector instructions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


popcount: Any = _popcount
