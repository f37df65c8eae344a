"""The arrays that kernels take, as named tuples.

Compiled code trusts its arguments: an array of another type or with gaps would be read as garbage.
So every array that goes into one of these tuples is checked once, by `packed`, when the tuple is
built; kernels then name what they read (`features.weight`) and nothing is passed by position.

This module imports no compiler, so that models can build the tuples without one.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conjoin.kernels.signatures import READ_ONLY, layout

Int1 = Annotated[npt.NDArray[np.int64], 1]
Int2 = Annotated[npt.NDArray[np.int64], 2]
Short1 = Annotated[npt.NDArray[np.int32], 1]
Short2 = Annotated[npt.NDArray[np.int32], 2]
Half1 = Annotated[npt.NDArray[np.uint16], 1]
Half2 = Annotated[npt.NDArray[np.uint16], 2]
Half3 = Annotated[npt.NDArray[np.uint16], 3]
SignedByte1 = Annotated[npt.NDArray[np.int8], 1]
Byte1 = Annotated[npt.NDArray[np.uint8], 1]
Byte2 = Annotated[npt.NDArray[np.uint8], 2]
Word1 = Annotated[npt.NDArray[np.uint64], 1]
Word2 = Annotated[npt.NDArray[np.uint64], 2]
Bool1 = Annotated[npt.NDArray[np.bool_], 1]
Bool2 = Annotated[npt.NDArray[np.bool_], 2]
Float1 = Annotated[npt.NDArray[np.float64], 1]
Float2 = Annotated[npt.NDArray[np.float64], 2]
Float3 = Annotated[npt.NDArray[np.float64], 3]
Single1 = Annotated[npt.NDArray[np.float32], 1]
Single2 = Annotated[npt.NDArray[np.float32], 2]
ReadInt1 = Annotated[Int1, READ_ONLY]
ReadShort1 = Annotated[Short1, READ_ONLY]
ReadWord2 = Annotated[Word2, READ_ONLY]
ReadFloat1 = Annotated[Float1, READ_ONLY]
Codes2 = Annotated[npt.NDArray[Any], 2, np.uint8, np.uint16, READ_ONLY]
"""State numbers of a table, in the smallest type that holds them."""


def packed(array: npt.ArrayLike, dtype: npt.DTypeLike, ndim: int = 1) -> npt.NDArray[Any]:
    """Return an array as kernels need it: of this type, contiguous and writable.

    Parameters
    ----------
    array : array-like
        The values. They are copied only if they are not laid out as needed.
    dtype : dtype
        The type of the elements.
    ndim : int
        The number of axes.

    Examples
    --------
    >>> packed([1, 2], np.float64)
    array([1., 2.])
    >>> packed([[1, 2]], np.float64)
    Traceback (most recent call last):
    ...
    TypeError: an array of 1 axes is needed, not of 2
    """
    given = np.asarray(array)
    if given.ndim != ndim:
        raise TypeError(f"an array of {ndim} axes is needed, not of {given.ndim}")
    return np.require(given, dtype, ["C", "A", "W"])


@layout
class FeatureArrays(NamedTuple):
    """Weighted conjunctions of tests, indexed by feature and by test.

    Entry e says that feature ``entry_feature[e]`` has test ``test[e]``. Entries are sorted by feature;
    ``column_entry`` lists them sorted by test. The states of all variables are numbered one after
    another: state s of variable v is ``state_first[v] + s``.

    Attributes
    ----------
    cards : int64, (variables,)
        The number of states of each variable.
    state_first : int64, (variables + 1,)
        The number of each variable's first state.
    test_first : int64, (variables + 1,)
        The first test of each variable; tests are sorted by variable.
    test_var : int64, (tests,)
        The variable of each test.
    test_mask : uint64, (tests, words)
        The states that satisfy each test, as bits.
    member_first : int64, (tests + 1,)
        Where the states of each test start in `member`.
    member : int64
        The numbers of the states that satisfy each test.
    first : int64, (features + 1,)
        The first entry of each feature.
    test : int64, (entries,)
        The test of each entry.
    entry_feature : int64, (entries,)
        The feature of each entry.
    off : float64, (entries,)
        The factor by which a test multiplies its feature where it fails; 0 in a plain conjunction.
    weight : float64, (features,)
        The weight of each feature.
    own : int64, (features,)
        The one entry whose variable the feature counts for, in a dependency network; -1 if it counts
        for all that it tests.
    column_first : int64, (tests + 1,)
        Where the entries of each test start in `column_entry`.
    column_entry : int64, (entries,)
        The entries, sorted by test.
    """

    cards: Int1
    state_first: Int1
    test_first: Int1
    test_var: Int1
    test_mask: Word2
    member_first: Int1
    member: Int1
    first: Int1
    test: Int1
    entry_feature: Int1
    off: Float1
    weight: Float1
    own: Int1
    column_first: Int1
    column_entry: Int1
