"""128-bit hash keys of rows and features, by which equal ones are found and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray, UIntArray

if TYPE_CHECKING:
    from conjoin.data.table import Codes, Table

MAX_PACKED = 1 << 20
"""Maximum number of rows that are sorted as one number each: the top of the key and the row's place."""


def _mix(x: UIntArray) -> UIntArray:
    """Scatter integers over 64 bits (the finalizer of the SplitMix64 generator)."""
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
    key: UIntArray, second: UIntArray, max_packed: int = MAX_PACKED
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Sort rows so that those with equal keys stand together."""
    if len(key) <= max_packed:
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
    if (_changes(second, order) & ~change).any():  # different rows share the bits that were sorted
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


def merge_rows(codes: Codes, weights: FloatArray | None) -> tuple[Codes, npt.NDArray[np.float64]]:
    """Return the distinct rows and their total weights; rows of weight 0 are left out."""
    weight = np.ones(len(codes)) if weights is None else weights
    if not len(codes) or not codes.shape[1]:
        return codes, weight
    if weights is not None and not weights.all():
        codes, weight = codes[weights > 0], weight[weights > 0]
    first, inverse = distinct_rows(codes)
    if len(first) == len(codes):
        return codes, weight
    return codes[first], np.bincount(inverse, weight).astype(np.float64)


def distinct_rows(codes: Codes) -> tuple[IntArray, IntArray]:
    """Return the first occurrence of each distinct row, in order, and the number of each row's twin."""
    if not codes.shape[1]:
        return np.zeros(min(1, len(codes)), np.int64), np.zeros(len(codes), np.int64)
    order, starts, first = group_equal(*_word_keys(_words(codes)))
    if len(starts) == len(codes):
        return np.arange(len(codes)), np.arange(len(codes))
    by_first = np.argsort(first)
    place = np.empty(len(first), np.int64)
    place[by_first] = np.arange(len(first))
    inverse = np.empty(len(codes), np.int64)
    inverse[order] = np.repeat(place, np.diff(np.append(starts, len(order))))
    return first[by_first].astype(np.int64), inverse


def in_content_order(table: Table) -> Table:
    """Return the rows in an order that looks random and depends on their contents alone.

    What is learned from such a table, with rows that are held out or drawn at random, does not depend on
    the order of the rows or columns that were given.
    """
    if not len(table) or not len(table.domain):
        return table
    names = table.domain.sorted_names()
    columns = [table.domain.index(name) for name in names]
    keys = _word_keys(_words(table.codes[:, columns]))
    weights = table.weights
    order = np.lexsort(keys if weights is None else (weights, *keys))
    return table.select(order)


def content_order(values: FloatArray, weights: FloatArray) -> IntArray:
    """Return an order of rows that looks random and depends on their contents alone."""
    same = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and no negative zero
    words = np.ascontiguousarray(same.T).view(np.uint64)
    return np.lexsort((weights, *_word_keys(words)))


def _words(codes: Codes) -> UIntArray:
    """Return the bytes of each row as words, which come column by column."""
    size = codes.shape[1] * codes.itemsize
    padded = np.zeros((len(codes), -(-size // 8) * 8), np.uint8)
    padded[:, :size] = np.ascontiguousarray(codes).view(np.uint8)
    return padded.view(np.uint64).T


def _word_keys(words: UIntArray) -> tuple[UIntArray, UIntArray]:
    """Return the two keys of rows of words, which come column by column."""
    first, second = code_numbers(len(words))
    return _word_key(words, first), _word_key(words, second)


def _word_key(words: UIntArray, numbers: UIntArray) -> UIntArray:
    key = np.zeros(words.shape[1], np.uint64)
    for word, number in zip(words, numbers, strict=True):
        # A product with an odd number mixes each value over the whole key.
        key += (word + np.uint64(1)) * (number | np.uint64(1))
        key ^= key >> np.uint64(29)
    return key
