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
Code1 = Annotated[npt.NDArray[np.uint32], 1]
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
ReadFloat1 = Annotated[Float1, READ_ONLY]
ReadFloat2 = Annotated[Float2, READ_ONLY]
ReadFloat3 = Annotated[Float3, READ_ONLY]
Single1 = Annotated[npt.NDArray[np.float32], 1]
Single2 = Annotated[npt.NDArray[np.float32], 2]
Single3 = Annotated[npt.NDArray[np.float32], 3]
Codes2 = Annotated[npt.NDArray[Any], 2, np.uint8, np.uint16, np.uint32, READ_ONLY]
"""State numbers of a table, in the smallest type that holds them."""

WORDS = 8
"""Words of 64 rows that are scored together; a fixed number, so that loops over them unroll."""

ROWS_PER_BLOCK = 64 * WORDS
"""Rows that are scored together; the arrays of a block stay in the cache."""


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
    TypeError: expected an array of 1 axes, not 2
    """
    given = np.asarray(array, dtype)
    if given.ndim != ndim:
        raise TypeError(f"expected an array of {ndim} axes, not {given.ndim}")
    flags = given.flags
    return given if flags.c_contiguous and flags.behaved else np.array(given, order="C")


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


@layout
class LiveRows(NamedTuple):
    """For each test of each conjunction, the rows on which all other tests of it hold.

    There is one list of rows per entry of a conjunction, sorted by test. Words of 64 rows with many live
    rows are kept as bits, the other rows as numbers.

    Attributes
    ----------
    test_first : int64, (tests + 1,)
        The first list of each test.
    feature : int64, (lists,)
        The feature of each list.
    row_first, word_first : int64, (lists + 1,)
        Where each list starts in `row`, and in `word` and `mask`.
    row : uint16
        Rows listed by number.
    word, mask : uint16 and uint64
        Words of 64 rows by number, and the live rows of each as bits.
    """

    test_first: Int1
    feature: Int1
    row_first: Int1
    word_first: Int1
    row: Half1
    word: Half1
    mask: Word1

    @property
    def nbytes(self) -> int:
        """The memory that the lists take, in bytes."""
        return sum(array.nbytes for array in self)


@layout
class ChainArrays(NamedTuple):
    """The state of one Gibbs chain.

    Attributes
    ----------
    state : int64, (variables,)
        The state of each variable.
    counter : uint64, (1,)
        The counter of the random numbers.
    failing : int64, (plain features,)
        How many tests of each feature fail.
    failing_sum : int64, (plain features,)
        The sum of the numbers of the failing entries: of the failing entry if it is the only one.
    field : float64, (states,)
        The log-odds of each state given all other variables, without features that have off values.
    stale : uint8, (variables,)
        Whether the log-odds of a variable have changed since its last turn.
    p : float64, (states,)
        The distribution of each variable at its last turn.
    log_potential : float64, (1,)
        The sum of all features.
    """

    state: Int1
    counter: Word1
    failing: Int1
    failing_sum: Int1
    field: Float1
    stale: Byte1
    p: Float1
    log_potential: Float1


@layout
class KnownTests(NamedTuple):
    """The tests of known variables in features that also test free variables.

    Features that have the same tests of free variables form a *unit* and are listed together.

    Attributes
    ----------
    test_var : int64, (tests,)
        The variable of each test.
    test_mask : uint64, (tests, words)
        The states that satisfy each test, as bits.
    first : int64, (features + 1,)
        The first entry of each feature.
    test : int64, (entries,)
        The test of each entry.
    off : float64, (entries,)
        The factor by which a failing test multiplies the feature.
    plain : bool, (features,)
        Whether all these factors are 0.
    weight : float64, (features,)
        The weight of each feature.
    unit_first : int64, (units + 1,)
        The first feature of each unit.
    """

    test_var: Int1
    test_mask: Word2
    first: Int1
    test: Int1
    off: Float1
    plain: Bool1
    weight: Float1
    unit_first: Int1


@layout
class StateArrays(NamedTuple):
    """The states of the variables of chains that run side by side, and the tests of them.

    The first tests are the states themselves, the others are *sets* of two or more states (or none).

    Attributes
    ----------
    first : int64, (variables + 1,)
        The first state of each variable.
    set_first : int64, (variables + 1,)
        The first set of each variable.
    member_first : int64, (sets + 1,)
        The first member of each set.
    member : int64
        The states that are members.
    """

    first: Int1
    set_first: Int1
    member_first: Int1
    member: Int1


@layout
class SlotArrays(NamedTuple):
    """Conjunctions in the log-odds of states, for rows of evidence side by side.

    A *line* is the log-odds of a state relative to the first state of its variable. Its *slots* are
    conjunctions of tests of other variables, each with a weight that all rows share or with one weight
    per row; slots of the first kind come first in a line. The conjunctions of a line form a tree: a
    *node* is its parent and one more test (see `StateArrays`).

    Attributes
    ----------
    node_first : int64, (lines + 1,)
        The first node of each line.
    parent : uint32, (nodes,)
        The parent of each node, counted from 1 within the line; 0 is the empty conjunction.
    test : uint32, (nodes,)
        The test that each node adds.
    part : int64, (lines, 3)
        Where the slots of a line start, where those with one weight per row start, and where they end.
    node : uint32, (slots,)
        The node of each slot, counted from 1 within the line.
    source : int64, (slots,)
        Of a slot with a shared weight the unit that says in which rows it is alive, of the others the
        index of their weights.
    weight : float32, (slots,)
        The shared weight.
    """

    node_first: Int1
    parent: Code1
    test: Code1
    part: Int2
    node: Code1
    source: Int1
    weight: Single1


@layout
class HiddenTables(NamedTuple):
    """Tables of log-values over visible variables, with the hidden states side by side.

    A *cell* is a joint state of the visible variables of a table; it has one log-value per hidden state.
    The cells of all tables are numbered one after another.

    Attributes
    ----------
    state_first : int64, (variables + 1,)
        The number of each visible variable's first state, all states counted one after another.
    base : int64, (tables,)
        The first cell of each table.
    first : int64, (tables + 1,)
        Where the axes of each table start in `var` and `stride`.
    var, stride : int64, (axes,)
        The variable of each axis, and the distance between the cells of two neighbouring states.
    own_first : int64, (variables + 1,)
        Where the axes of each variable start in `own_table` and `own_stride`.
    own_table, own_stride : int64, (axes,)
        The table and the stride of each axis, sorted by variable.
    values : float64, (cells, hidden states)
        The log-values.
    finite : bool
        Whether no log-value is -inf, so that tables can be subtracted from a sum.
    """

    state_first: Int1
    base: Int1
    first: Int1
    var: Int1
    stride: Int1
    own_first: Int1
    own_table: Int1
    own_stride: Int1
    values: Float2
    finite: bool
