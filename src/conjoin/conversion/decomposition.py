"""The interactions of a network: its log-potential as a sum of parts on sets of variables.

Under a product distribution q, a function of all variables is the sum of one part for each set of
variables (the Hoeffding decomposition). The part on a set is a table over the joint states of its
variables, with all other variables averaged out and the effects of smaller sets taken away: it averages
to 0 along each of its axes.

A conjunction of tests with weight w has, on the variables of some of its tests, the part

    w * product of (1[t] - q(t)) over these tests * product of q(t) over the other tests.

A test with the off value o has (1 - o) (1[t] - q(t)) and o + (1 - o) q(t) in place of these factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray, distinct
from conjoin.data.row_hashing import code_numbers, group_equal
from conjoin.models.features import segment_index
from conjoin.models.loglinear import LogLinearForm

IMPOSSIBLE = float(np.log(1e-6))
"""The weight that stands for -inf: one in a million."""

ENTRIES_AT_ONCE = 1 << 21
"""About how many parts of features, or entries of tables, are in memory at a time."""

LARGE_CELLS = 1 << 12
"""Tables of pairs with more cells than this are added up by matrix products, which need less memory."""

MAX_COUNTERS = 4
"""Equal parts are added up without sorting if all possible ones are at most this number per part."""


@dataclass(frozen=True, eq=False)
class InteractionTables:
    """The parts of a log-potential on some sets of variables, all of one size."""

    sets: IntArray  # the variables of each set, ascending, sets by members
    first: IntArray  # the first cell of each set's table; tables are in C order
    # The tables, in nats: one line, or, of a dependency network, a line for the CPD of each member
    values: FloatArray
    magnitude: FloatArray  # the sums of absolute values, by which rounding errors are told
    probability: FloatArray  # the probability of each cell under the product distribution

    def mean_squares(self, values: FloatArray) -> FloatArray:
        """Return the mean square of each set's table, along the last axis."""
        return np.add.reduceat(values**2 * self.probability, self.first, axis=-1)


def decompose(
    form: LogLinearForm, marginals: list[FloatArray], size: int
) -> Iterator[InteractionTables]:
    """Yield the parts on all sets of a given size that are not zero, as many at a time as fit in memory.

    Hard constraints count as `IMPOSSIBLE`. In a dependency network a set contains the feature's owner.
    """
    tests = form.features.tests
    q = tests.probability(marginals)
    pending: list[_Parts] = []
    count = 0
    for part in _parts(form, q, size):
        pending.append(part)
        count += len(part.weight)
        if count > ENTRIES_AT_ONCE:
            pending, count = [_merged(form, pending)], 0
    if not pending:
        return
    parts = _merged(form, pending)
    var = tests.var[parts.tests].astype(np.int64)
    order, starts, _ = _group_rows(var, len(tests.cards))
    parts, ends = parts.select(order), np.append(starts[1:], len(order))
    cells = tests.cards[var[order][starts]].prod(axis=1)
    large = (cells > LARGE_CELLS) & (size == 2)
    block = np.cumsum(np.where(large, 0, (ends - starts) * cells)) // ENTRIES_AT_ONCE
    for number in distinct(block[~large]):
        which = np.flatnonzero((block == number) & ~large)
        lengths = ends[which] - starts[which]
        of_block = parts.select(segment_index(starts[which], lengths))
        yield _tables(form, marginals, q, of_block, np.cumsum(lengths) - lengths)
    for number in np.flatnonzero(large).tolist():
        of_pair = parts.select(np.arange(starts[number], ends[number]))
        yield _large_table(form, marginals, q, of_pair)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of features: tests, the owner (0 if there is none), weight and magnitude."""

    tests: npt.NDArray[np.int32]
    owner: IntArray
    weight: FloatArray
    magnitude: FloatArray

    def select(self, which: IntArray | slice) -> _Parts:
        """Return some of the parts."""
        return _Parts(*(values[which] for values in vars(self).values()))


def _parts(form: LogLinearForm, q: FloatArray, size: int) -> Iterator[_Parts]:
    """Yield the parts of all features on `size` of their tests."""
    features = form.features
    weights = np.where(form.hard, IMPOSSIBLE, features.weights)
    off = features.off_values()
    owners = np.zeros(len(features), np.int64) if form.owner is None else form.owner
    for chosen, entries in features.by_length():
        length = entries.shape[1]
        if length < size:
            continue
        step = max(1, ENTRIES_AT_ONCE // length**2)
        for low in range(0, len(chosen), step):
            rows, entry = chosen[low : low + step], entries[low : low + step]
            if form.owner is not None:  # the owner's test comes first and is always chosen
                others = entry != form.own_entry[rows][:, None]
                entry = np.take_along_axis(entry, others.argsort(axis=1, kind="stable"), axis=1)
            rise = 1 - off[entry]
            mean = off[entry] + rise * q[features.indices[entry]]
            for places, product in _choices(rise, mean, size, form.owner is not None):
                tests = features.indices[entry[:, places]]
                if form.owner is not None:
                    tests.sort(axis=1)
                weight = weights[rows] * product
                yield _Parts(tests, owners[rows], weight, np.abs(weight))


def _choices(
    rise: FloatArray, mean: FloatArray, size: int, first: bool
) -> Iterator[tuple[list[int], FloatArray]]:
    """Yield each choice of `size` columns (with `first`, among them the first), and its product.

    It is that of the `rise` of the chosen columns and the `mean` of all others.
    """
    length = rise.shape[1]
    after = np.ones((len(mean), length + 1))  # the product of all later means
    after[:, :-1] = mean[:, ::-1].cumprod(axis=1)[:, ::-1]

    def choose(
        chosen: list[int], start: int, product: FloatArray
    ) -> Iterator[tuple[list[int], FloatArray]]:
        if len(chosen) == size:
            yield chosen, product * after[:, start]
            return
        last = 0 if first and not chosen else length - size + len(chosen)
        for j in range(start, last + 1):
            yield from choose([*chosen, j], j + 1, product * rise[:, j])
            product = product * mean[:, j]

    yield from choose([], 0, np.ones(len(rise)))


def _merged(form: LogLinearForm, parts: list[_Parts]) -> _Parts:
    """Put parts together, equal tests of one owner as one part."""
    tests = np.concatenate([part.tests for part in parts])
    owner = np.concatenate([part.owner for part in parts])
    values = [
        np.concatenate([p.weight for p in parts]),
        np.concatenate([p.magnitude for p in parts]),
    ]
    size = len(form.features.tests)
    owners = 1 if form.owner is None else len(form.domain)
    count = owners * size ** tests.shape[1]
    if count <= MAX_COUNTERS * len(tests):
        shape = (owners, *[size] * tests.shape[1])
        number = np.ravel_multi_index((owner, *tests.T.astype(np.int64)), shape)
        present = np.flatnonzero(np.bincount(number, minlength=count))
        owner, *columns = np.unravel_index(present, shape)
        weight, magnitude = (
            np.bincount(number, v, count)[present].astype(np.float64) for v in values
        )
        return _Parts(np.stack(columns, axis=1).astype(np.int32), owner, weight, magnitude)
    with_owner = np.column_stack([tests, size + owner])
    order, starts, first = _group_rows(with_owner, size + len(form.domain))
    weight, magnitude = (np.add.reduceat(v[order], starts) for v in values)
    return _Parts(tests[first], owner[first], weight, magnitude)


def _group_rows(
    rows: npt.NDArray[np.integer], count: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Group equal rows of distinct numbers below `count`, as `group_equal` does."""
    keys = []
    for code in code_numbers(count):
        key = code[rows[:, 0]]
        for column in rows.T[1:]:
            key += code[column]
        keys.append(key)
    return group_equal(keys[0], keys[1])


def _tables(
    form: LogLinearForm,
    marginals: list[FloatArray],
    q: FloatArray,
    parts: _Parts,
    starts: IntArray,
) -> InteractionTables:
    """Add up parts, which are sorted by their variables; `starts` are the first parts of each set."""
    tests = form.features.tests
    sets = tests.var[parts.tests[starts]].astype(np.int64)
    count, size = sets.shape
    cards = tests.cards[sets]
    cells = cards.prod(axis=1)
    first, total = np.cumsum(cells) - cells, int(cells.sum())
    stride = np.ones((count, size), np.int64)
    stride[:, :-1] = cards[:, :0:-1].cumprod(axis=1)[:, ::-1]

    # The cells of each part, by their number among all cells of all sets.
    set_of = np.repeat(np.arange(count), np.diff(np.append(starts, len(parts.weight))))
    part = np.repeat(np.arange(len(set_of)), cells[set_of])
    cell = segment_index(first[set_of], cells[set_of])
    owner_set = np.repeat(np.arange(count), cells)
    place = np.arange(total) - first[owner_set]  # the number of each cell within its table
    p, first_state = np.concatenate(marginals), np.cumsum([0] + [len(m) for m in marginals])
    centred = tests.members() - q[:, None]
    effect, probability = np.ones(len(part)), np.ones(total)
    for axis in range(size):
        state = place // stride[owner_set, axis] % cards[owner_set, axis]
        probability *= p[first_state[sets[owner_set, axis]] + state]
        effect *= centred[parts.tests[part, axis], state[cell]]
    lines = 1
    if form.owner is not None:
        lines = size
        cell += (sets[set_of] == parts.owner[:, None]).argmax(axis=1)[part] * total

    def added(values: FloatArray) -> FloatArray:
        sums: FloatArray = np.bincount(cell, values, lines * total).astype(np.float64, copy=False)
        return sums.reshape(lines, total)

    values = added(parts.weight[part] * effect)
    magnitude = added(parts.magnitude[part] * np.abs(effect))
    return InteractionTables(sets, first, values, magnitude, probability)


def _large_table(
    form: LogLinearForm, marginals: list[FloatArray], q: FloatArray, parts: _Parts
) -> InteractionTables:
    """Add up the parts on one pair of variables, whose table has many cells."""
    tests = form.features.tests
    pair = tests.var[parts.tests[0]].astype(np.int64)
    cards = tests.cards[pair]
    lines = 1 if form.owner is None else 2
    values, magnitude = np.zeros((2, lines, *cards))
    step = max(1, ENTRIES_AT_ONCE // int(cards.sum()))
    for line in range(lines):
        in_line = parts if lines == 1 else parts.select(np.flatnonzero(parts.owner == pair[line]))
        for low in range(0, len(in_line.weight), step):
            block = in_line.select(slice(low, low + step))
            left, right = (
                tests.members(block.tests[:, k], int(cards[k])) - q[block.tests[:, [k]]]
                for k in range(2)
            )
            values[line] += (left * block.weight[:, None]).T @ right
            magnitude[line] += (np.abs(left) * block.magnitude[:, None]).T @ np.abs(right)
    probability = np.outer(*(marginals[v] for v in pair)).ravel()
    flat = values.reshape(lines, -1), magnitude.reshape(lines, -1)
    return InteractionTables(pair[None], np.zeros(1, np.int64), *flat, probability)
