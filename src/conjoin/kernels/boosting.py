"""One small tree of gradient boosting: second-order gains, best leaf first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Bool1, Codes2, Float1, Float2, Int1, Int2
from conjoin.kernels.signatures import layout


@layout
class IndexedRows(NamedTuple):
    """Rows of codes, and the sets "variable = state" that trees may split on.

    Attributes
    ----------
    codes : unsigned integers, (rows, variables)
        The state of each cell.
    set_of : int64, (variables, states)
        The set of each state, -1 if it has none.
    set_var, set_state : int64, (sets,)
        The variable and the state of each set.
    """

    codes: Codes2
    set_of: Int2
    set_var: Int1
    set_state: Int1


@layout
class Derivatives(NamedTuple):
    """The derivatives of the loss by each row's scores, (rows, scores), and the weight of each row."""

    gradient: Float2
    curvature: Float2
    weight: Float1


@layout
class SplitRules(NamedTuple):
    """Which variables may be split on, the minimum weight of a leaf, and a term added to curvatures."""

    allowed: Bool1
    min_leaf: float
    ridge: float


@layout
class SmallTree(NamedTuple):
    """The set (-1 in a leaf), the children and the values of each node; node 0 is the root."""

    split: Int1
    yes: Int1
    no: Int1
    value: Float2


class Leaves(NamedTuple):
    """What is known of each node while the tree grows.

    Attributes
    ----------
    sums : float64, (nodes, sets, 2 * scores + 1)
        Gradients, curvatures and weight of the node's rows in each set.
    totals : float64, (nodes, 2 * scores + 1)
        The same of all its rows.
    start, end : int64, (nodes,)
        Its range in the list of rows.
    gain, best : (nodes,)
        The gain and the set of its best split, -1 if it has none.
    """

    sums: npt.NDArray[np.float64]
    totals: npt.NDArray[np.float64]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    gain: npt.NDArray[np.float64]
    best: npt.NDArray[np.int64]


@inner
def add_rows(rows, data, slopes, out):
    """Add gradient, curvature and weight of some rows under every set they belong to."""
    out[:] = 0.0
    columns = slopes.gradient.shape[1]
    for at in range(len(rows)):
        r = rows[at]
        line = data.codes[r]
        for j in range(len(line)):
            state = np.int64(line[j])
            if state >= data.set_of.shape[1]:
                continue  # a missing value belongs to no set
            i = data.set_of[j, state]
            if i < 0:
                continue
            for k in range(columns):
                out[i, k] += slopes.gradient[r, k]
                out[i, columns + k] += slopes.curvature[r, k]
            out[i, 2 * columns] += slopes.weight[r]


@inner
def score(total, ridge, columns):
    """Return twice the gain of the best values of a leaf with these sums."""
    result = 0.0
    for k in range(columns):
        result += total[k] * total[k] / (total[columns + k] + ridge)
    return result


@inner
def find_best_split(leaves, node, set_var, rules):
    """Set the gain and the set of the best split of a node; ties go to the lowest set."""
    total = leaves.totals[node]
    columns = len(total) // 2
    best, best_set = 0.0, -1
    here = score(total, rules.ridge, columns)
    rest = np.empty(len(total))
    for i in range(leaves.sums.shape[1]):
        if not rules.allowed[set_var[i]]:
            continue
        inside = leaves.sums[node, i]
        for k in range(len(total)):
            rest[k] = total[k] - inside[k]
        if inside[2 * columns] < rules.min_leaf or rest[2 * columns] < rules.min_leaf:
            continue
        gain = score(inside, rules.ridge, columns) + score(rest, rules.ridge, columns) - here
        if gain > best:
            best, best_set = gain, i
    leaves.gain[node], leaves.best[node] = best, best_set


@inner
def add_root(rows, data, slopes, rules, tree, leaves):
    """Make the root of all rows."""
    columns = slopes.gradient.shape[1]
    leaves.start[0], leaves.end[0] = 0, len(rows)
    leaves.totals[0] = 0.0
    for at in range(len(rows)):
        r = rows[at]
        for k in range(columns):
            leaves.totals[0, k] += slopes.gradient[r, k]
            leaves.totals[0, columns + k] += slopes.curvature[r, k]
        leaves.totals[0, 2 * columns] += slopes.weight[r]
    add_rows(rows, data, slopes, leaves.sums[0])
    find_best_split(leaves, 0, data.set_var, rules)
    tree.split[0] = -1


@inner
def best_leaf(tree, leaves, size):
    """Return the leaf whose split gains most, the first of equal ones; -1 if none can be split."""
    node = -1
    for candidate in range(size):
        if tree.split[candidate] >= 0 or leaves.best[candidate] < 0:
            continue
        if node < 0 or leaves.gain[candidate] > leaves.gain[node]:
            node = candidate
    return node


@inner
def partition(rows, start, end, codes, state):
    """Put the rows whose code is a state before the others, each in their old order.

    Returns where the others begin.
    """
    spare = np.empty(end - start, np.int64)
    high, kept = start, 0
    for at in range(start, end):
        if codes[rows[at]] == state:
            rows[high] = rows[at]
            high += 1
        else:
            spare[kept] = rows[at]
            kept += 1
    for at in range(kept):
        rows[high + at] = spare[at]
    return high


@inner
def split_leaf(node, size, rows, data, slopes, tree, leaves):
    """Split a leaf; its children are nodes `size` and `size + 1`. The smaller one is counted."""
    chosen = leaves.best[node]
    codes = data.codes[:, data.set_var[chosen]]
    low, high = leaves.start[node], leaves.end[node]
    middle = partition(rows, low, high, codes, data.set_state[chosen])
    first, second = size, size + 1
    tree.split[node], tree.yes[node], tree.no[node] = chosen, first, second
    leaves.start[first], leaves.end[first] = low, middle
    leaves.start[second], leaves.end[second] = middle, high
    for k in range(leaves.totals.shape[1]):
        leaves.totals[first, k] = leaves.sums[node, chosen, k]
        leaves.totals[second, k] = leaves.totals[node, k] - leaves.totals[first, k]
    few = first if middle - low <= high - middle else second
    other = first + second - few
    add_rows(rows[leaves.start[few] : leaves.end[few]], data, slopes, leaves.sums[few])
    for i in range(leaves.sums.shape[1]):
        for k in range(leaves.sums.shape[2]):
            leaves.sums[other, i, k] = leaves.sums[node, i, k] - leaves.sums[few, i, k]


@compiled
def grow_small(
    rows: Int1,
    data: IndexedRows,
    slopes: Derivatives,
    rules: SplitRules,
    max_leaves: int,
    tree: SmallTree,
    leaf: Int1,
) -> int:
    """Grow a tree of a few leaves; return its number of nodes.

    `rows` are the rows to use, which are put into another order; `leaf` gets the node that each ends
    in, `tree` the nodes and their values.
    """
    columns, n_sets = slopes.gradient.shape[1], len(data.set_var)
    capacity = 2 * max_leaves
    leaves = Leaves(
        np.empty((capacity, n_sets, 2 * columns + 1)),
        np.empty((capacity, 2 * columns + 1)),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity),
        np.empty(capacity, np.int64),
    )
    add_root(rows, data, slopes, rules, tree, leaves)
    size = 1
    for _ in range(max_leaves - 1):
        node = best_leaf(tree, leaves, size)
        if node < 0:
            break
        split_leaf(node, size, rows, data, slopes, tree, leaves)
        for child in (size, size + 1):
            tree.split[child] = -1
            find_best_split(leaves, child, data.set_var, rules)
        size += 2
    for node in range(size):
        total = leaves.totals[node]
        for k in range(columns):
            tree.value[node, k] = -total[k] / (total[columns + k] + rules.ridge)
        if tree.split[node] < 0:
            for at in range(leaves.start[node], leaves.end[node]):
                leaf[rows[at]] = node
    return size


@compiled
def walk_small(data: IndexedRows, tree: SmallTree, leaf: Int1) -> None:
    """Find the node that each row ends in."""
    for r in range(data.codes.shape[0]):
        node = 0
        while tree.split[node] >= 0:
            chosen = tree.split[node]
            inside = data.codes[r, data.set_var[chosen]] == data.set_state[chosen]
            node = tree.yes[node] if inside else tree.no[node]
        leaf[r] = node
