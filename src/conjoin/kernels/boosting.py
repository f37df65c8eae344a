"""One small tree of gradient boosting: second-order gains, best leaf first."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled, inner


@inner
def add_rows(rows, codes, set_of, gradient, curvature, weight, out):
    """Add gradient, curvature and weight of some rows under every set they belong to."""
    out[:] = 0.0
    columns = gradient.shape[1]
    for at in range(len(rows)):
        r = rows[at]
        line = codes[r]
        for j in range(len(line)):
            state = np.int64(line[j])
            if state >= set_of.shape[1]:
                continue  # a missing value belongs to no set
            i = set_of[j, state]
            if i < 0:
                continue
            for k in range(columns):
                out[i, k] += gradient[r, k]
                out[i, columns + k] += curvature[r, k]
            out[i, 2 * columns] += weight[r]


@inner
def score(total, ridge, columns):
    """Return twice what the best values of a leaf with these sums gain."""
    result = 0.0
    for k in range(columns):
        result += total[k] * total[k] / (total[columns + k] + ridge)
    return result


@inner
def best_split(sums, total, set_var, allowed, min_leaf, ridge, columns):
    """Return the gain of the best split of a leaf, and its set; ties go to the lowest set."""
    best, best_set = 0.0, -1
    here = score(total, ridge, columns)
    rest = np.empty(len(total))
    for i in range(sums.shape[0]):
        if not allowed[set_var[i]]:
            continue
        inside = sums[i]
        for k in range(len(total)):
            rest[k] = total[k] - inside[k]
        if inside[2 * columns] < min_leaf or rest[2 * columns] < min_leaf:
            continue
        gain = score(inside, ridge, columns) + score(rest, ridge, columns) - here
        if gain > best:
            best, best_set = gain, i
    return best, best_set


@compiled
def grow_small(
    codes, set_of, set_var, set_state, allowed, gradient, curvature, weight,
    rows, max_leaves, min_leaf, ridge, split, yes, no, value, leaf,
):  # fmt: skip
    """Grow a tree of a few leaves; return its number of nodes.

    `rows` are the rows to use, which are put into another order; `leaf` gets the node that each ends
    in, `split`, `yes` and `no` the set and the children of each node, `value` the values of all nodes.
    """
    columns = gradient.shape[1]
    n_sets = len(set_var)
    capacity = 2 * max_leaves
    sums = np.empty((capacity, n_sets, 2 * columns + 1))
    totals = np.zeros((capacity, 2 * columns + 1))
    start, end = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    gains, sets = np.zeros(capacity), np.full(capacity, -1)
    spare = np.empty(len(rows), np.int64)

    end[0] = len(rows)
    for at in range(len(rows)):
        r = rows[at]
        for k in range(columns):
            totals[0, k] += gradient[r, k]
            totals[0, columns + k] += curvature[r, k]
        totals[0, 2 * columns] += weight[r]
    add_rows(rows, codes, set_of, gradient, curvature, weight, sums[0])
    gains[0], sets[0] = best_split(sums[0], totals[0], set_var, allowed, min_leaf, ridge, columns)
    split[0] = -1
    size, leaves = 1, 1
    while leaves < max_leaves:
        node = -1
        for candidate in range(size):
            if split[candidate] >= 0 or sets[candidate] < 0:
                continue
            if node < 0 or gains[candidate] > gains[node]:
                node = candidate
        if node < 0:
            break
        chosen = sets[node]
        var, state = set_var[chosen], set_state[chosen]
        # Rows that have the state come first, the others after them, each in their old order.
        low, high = start[node], start[node]
        kept = 0
        for at in range(start[node], end[node]):
            if codes[rows[at], var] == state:
                rows[high] = rows[at]
                high += 1
            else:
                spare[kept] = rows[at]
                kept += 1
        for at in range(kept):
            rows[high + at] = spare[at]
        first, second = size, size + 1
        size += 2
        split[node], yes[node], no[node] = chosen, first, second
        start[first], end[first] = low, high
        start[second], end[second] = high, end[node]
        for k in range(2 * columns + 1):
            totals[first, k] = sums[node, chosen, k]
            totals[second, k] = totals[node, k] - totals[first, k]
        few = first if high - low <= kept else second
        add_rows(rows[start[few] : end[few]], codes, set_of, gradient, curvature, weight, sums[few])
        other = first + second - few
        for i in range(n_sets):
            for k in range(2 * columns + 1):
                sums[other, i, k] = sums[node, i, k] - sums[few, i, k]
        for child in (first, second):
            split[child] = -1
            gains[child], sets[child] = best_split(
                sums[child], totals[child], set_var, allowed, min_leaf, ridge, columns
            )
        leaves += 1
    for node in range(size):
        for k in range(columns):
            value[node, k] = -totals[node, k] / (totals[node, columns + k] + ridge)
        if split[node] < 0:
            for at in range(start[node], end[node]):
                leaf[rows[at]] = node
    return size


@compiled
def walk_small(codes, split, yes, no, set_var, set_state, leaf):
    """Find the node that each row ends in."""
    for r in range(codes.shape[0]):
        node = 0
        while split[node] >= 0:
            chosen = split[node]
            inside = codes[r, set_var[chosen]] == set_state[chosen]
            node = yes[node] if inside else no[node]
        leaf[r] = node
