"""Array types for signatures, read-only views and distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
UInt16Array = npt.NDArray[np.uint16]
Int32Array = npt.NDArray[np.int32]
UIntArray = npt.NDArray[np.uint64]
FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def distinct(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct values of an array, sorted: `np.unique` would import masked arrays."""
    values = np.sort(array, axis=None)
    first = np.ones(len(values), bool)
    first[1:] = values[1:] != values[:-1]
    return values[first]
