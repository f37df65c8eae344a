"""128-bit keys of features, and the grouping of equal ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import IntArray, UIntArray

PACKED = 1 << 20
"""Up to so many rows, the top of a key that is left beside the row's place tells rows apart."""


def _mix(x: UIntArray) -> UIntArray:
    """Scatter integers over 64 bits (the finaliser of the SplitMix64 generator)."""
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def code_numbers(count: int) -> tuple[UIntArray, UIntArray]:
    """Return two fixed, unrelated 64-bit numbers for each of `count` tests."""
    number = np.arange(1, count + 1, dtype=np.uint64)
    return _mix(number), _mix(number + np.uint64(1 << 40))


def row_keys(
    indptr: IntArray, indices: npt.NDArray[np.int32], codes: tuple[UIntArray, UIntArray]
) -> tuple[UIntArray, UIntArray]:
    """Return the two keys of each row: the sums, modulo 2^64, of the codes of its tests."""

    def sums(code: UIntArray) -> UIntArray:
        running = np.zeros(len(indices) + 1, np.uint64)
        np.cumsum(code[indices], out=running[1:])
        return running[indptr[1:]] - running[indptr[:-1]]

    return sums(codes[0]), sums(codes[1])


def group_equal(
    key: UIntArray, second: UIntArray
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Sort rows so that those with equal keys stand together.

    Returns
    -------
    order : array of int
        The rows, group by group.
    starts : array of int
        Where each group starts in `order`.
    first : array of int
        The lowest row of each group.

    Examples
    --------
    >>> keys = np.array([7, 3, 7], np.uint64)
    >>> order, starts, first = group_equal(keys, keys)
    >>> sorted(order[starts[1]:].tolist()), first.tolist()
    ([0, 2], [1, 0])
    """
    if len(key) <= PACKED:
        # Sorting numbers is faster than sorting their places: the top of each key and the place of
        # its row go into one number.
        bits = np.uint64(len(key).bit_length())
        place = np.arange(len(key), dtype=np.uint64)
        packed = np.sort(key >> bits << bits | place)
        order: npt.NDArray[Any] = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.intp)
        packed >>= bits
        change = np.ones(len(key), bool)
        np.not_equal(packed[1:], packed[:-1], out=change[1:])
    else:
        order = np.argsort(key)
        change = _changes(key, order)
    if (_changes(second, order) & ~change).any():  # rows that differ share what was sorted by
        order = np.lexsort((second, key))
        change = _changes(key, order) | _changes(second, order)
    starts = np.flatnonzero(change)
    first = np.minimum.reduceat(order, starts) if len(order) else order
    return order, starts, first


def _changes(key: UIntArray, order: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    placed = key[order]
    change = np.ones(len(placed), bool)
    np.not_equal(placed[1:], placed[:-1], out=change[1:])
    return change
