"""The arrays that kernels take, alone or as named tuples.

numba compiles a kernel for the types of its arguments: so arrays are of one type everywhere, contiguous
and writable, or a kernel would be compiled again. `packed` makes them so. The digit in the name of a type
is the number of axes.

This module imports no compiler, so that models can build the tuples without one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int1 = npt.NDArray[np.int64]
Int2 = npt.NDArray[np.int64]
Short1 = npt.NDArray[np.int32]
Short2 = npt.NDArray[np.int32]
Half2 = npt.NDArray[np.uint16]
Half3 = npt.NDArray[np.uint16]
SignedByte1 = npt.NDArray[np.int8]
Byte1 = npt.NDArray[np.uint8]
Byte2 = npt.NDArray[np.uint8]
Word1 = npt.NDArray[np.uint64]
Word2 = npt.NDArray[np.uint64]
Bool1 = npt.NDArray[np.bool_]
Bool2 = npt.NDArray[np.bool_]
Float1 = npt.NDArray[np.float64]
Float2 = npt.NDArray[np.float64]
Float3 = npt.NDArray[np.float64]
Single1 = npt.NDArray[np.float32]
Single2 = npt.NDArray[np.float32]
Single3 = npt.NDArray[np.float32]
Codes2 = npt.NDArray[Any]
"""State numbers of a table, in the smallest type that holds them: uint8, uint16 or uint32."""

WORDS = 8
"""Words of 64 rows that are scored together; a fixed number, so that loops over them unroll."""

ROWS_PER_BLOCK = 64 * WORDS
"""Rows that are scored together; the arrays of a block stay in the cache."""


def packed(array: npt.ArrayLike, dtype: npt.DTypeLike, ndim: int = 1) -> npt.NDArray[Any]:
    """Return an array as kernels need it: of this type, contiguous and writable; copied if it is not."""
    given = np.asarray(array, dtype)
    if given.ndim != ndim:
        raise TypeError(f"expected an array of {ndim} axes, not {given.ndim}")
    flags = given.flags
    return given if flags.c_contiguous and flags.behaved else np.array(given, order="C")


class FeatureArrays(NamedTuple):
    """Weighted conjunctions of tests, indexed by feature and by test.

    Entry e says that feature ``entry_feature[e]`` has test ``test[e]``. Entries are sorted by feature;
    ``column_entry`` lists them sorted by test. The states of all variables are numbered one after
    another: state s of variable v is ``state_first[v] + s``.
    """

    cards: Int1  # the number of states of each variable
    state_first: Int1  # the number of each variable's first state
    test_first: Int1  # the first test of each variable; tests are sorted by variable
    test_var: Int1  # the variable of each test
    test_mask: Word2  # the states that satisfy each test, as bits
    member_first: Int1  # where the states of each test start in `member`
    member: Int1  # the numbers of the states that satisfy each test
    first: Int1  # the first entry of each feature
    test: Int1  # the test of each entry
    entry_feature: Int1  # the feature of each entry
    # The factor by which a test multiplies its feature where it fails; 0 in a plain conjunction
    off: Float1
    weight: Float1  # the weight of each feature
    # The one entry whose variable the feature counts for, in a dependency network; -1 if it counts
    # for all that it tests
    own: Int1
    column_first: Int1  # where the entries of each test start in `column_entry`
    column_entry: Int1  # the entries, sorted by test


class TreeNodes(NamedTuple):
    """A tree that splits columns at thresholds."""

    column: Int1  # the column that each node splits, -1 for a leaf
    threshold: Int1  # the largest code that goes to the first child
    below: Int1  # the first of the two children of a split, which stand side by side


class ChainArrays(NamedTuple):
    """The state of one Gibbs chain."""

    state: Int1  # the state of each variable
    counter: Word1  # the counter of the random numbers
    failing: Int1  # how many tests of each feature fail
    # The sum of the numbers of the failing entries: of the failing entry if it is the only one
    failing_sum: Int1
    # The log-odds of each state given all other variables, without features that have off values
    field: Float1
    stale: Byte1  # whether the log-odds of a variable have changed since its last turn
    p: Float1  # the distribution of each variable at its last turn
    log_potential: Float1  # the sum of all features
