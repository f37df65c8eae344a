"""The terms of a component of the features that remain for a row (see `row_reduction`).

Features with the same scope that fill most of a table become one; all others stay features.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.clique_tables import add_feature
from conjoin.kernels.elimination_layouts import Terms
from conjoin.kernels.kernel import inner
from conjoin.kernels.random_numbers import STEP, scatter

CELLS_PER_FEATURE, SMALL_TABLE = 16, 1024
"""Features with the same scope become a table of at most this number of cells each, or in all."""


@inner
def _same_scope(f, g, first, literal, literal_var):
    """Whether two features test the same variables."""
    size = first[f + 1] - first[f]
    if first[g + 1] - first[g] != size:
        return False
    for k in range(size):
        if literal_var[literal[first[f] + k]] != literal_var[literal[first[g] + k]]:
            return False
    return True


@inner
def _by_scope(chosen, first, literal, literal_var):
    """Return features sorted by scope, and where each group with one scope starts."""
    count = len(chosen)
    size = 16
    while size < 2 * count:
        size *= 2
    leader = np.empty(size, np.int64)  # a hash table: the first feature of a group, and its number
    for i in range(size):
        leader[i] = -1
    number = np.empty(size, np.int64)
    group_of = np.empty(count, np.int64)
    start = np.zeros(count + 1, np.int64)
    groups = 0
    for i in range(count):
        f = chosen[i]
        key = np.uint64(0)
        for k in range(first[f], first[f + 1]):
            key += scatter(STEP * np.uint64(literal_var[literal[k]] + 1))
        at = np.int64(key >> np.uint64(32)) & (size - 1)
        while leader[at] >= 0 and not _same_scope(leader[at], f, first, literal, literal_var):
            at = (at + 1) & (size - 1)
        if leader[at] < 0:
            leader[at] = f
            number[at] = groups
            groups += 1
        group_of[i] = number[at]
        start[group_of[i] + 1] += 1
    for g in range(groups):
        start[g + 1] += start[g]
    listed = np.empty(count, np.int64)
    for i in range(count - 1, -1, -1):
        g = group_of[i] + 1
        start[g] -= 1
        listed[start[g]] = chosen[i]
    # Now group g starts at start[g + 1].
    for g in range(groups):
        start[g] = start[g + 1]
    start[groups] = count
    return listed, start[: groups + 1]


@inner
def _cells(f, most, first, literal, literal_var, cards):
    """Return the number of joint states of the variables of a feature, or more than `most`."""
    cells = 1
    for k in range(first[f], first[f + 1]):
        cells *= cards[literal_var[literal[k]]]
        if cells > most:
            break
    return cells


@inner
def _table_cells(listed, group, features, room):
    """Return the number of cells of the table of each scope; 0 if its features would fill too little."""
    cells = np.empty(len(group) - 1, np.int64)
    for g in range(len(cells)):
        most = max(SMALL_TABLE, CELLS_PER_FEATURE * (group[g + 1] - group[g]))
        cells[g] = _cells(
            listed[group[g]], most, room.first, room.literal, features.literal_var, features.cards
        )
        if cells[g] > most:
            cells[g] = 0
    return cells


@inner
def _empty_terms(listed, group, cells, features, room):
    """Return memory for the terms of all scopes."""
    n_tables, n_values, n_entries, n_features = 0, 0, 0, 0
    for g in range(len(cells)):
        f, count = listed[group[g]], group[g + 1] - group[g]
        width = room.first[f + 1] - room.first[f]
        if cells[g] > 0:
            n_tables += 1
            n_values += cells[g]
            n_entries += width
        else:
            n_features += count
            n_entries += count * width
    return Terms(
        np.zeros(n_tables + n_features + 1, np.int64),
        np.empty(n_entries, np.int64),
        np.empty(n_entries, np.int64),
        np.empty(n_tables, np.int64),
        np.zeros(n_values),
        np.empty(n_features),
        features.numbers,
    )


@inner
def _write_tables(listed, group, cells, features, room, terms):
    """Add up the features of each scope with a table."""
    left_first, literal, weight = room.first, room.literal, room.weight
    literal_var, literal_first, cards = features.literal_var, features.literal_first, features.cards
    sizes, state, index, partial = room.axes[0], room.axes[2], room.axes[3], room.partial
    first, var, arg, values, numbers = (
        terms.first,
        terms.var,
        terms.arg,
        terms.values,
        terms.numbers,
    )
    term, entry, base = 0, 0, 0
    for g in range(len(cells)):
        if cells[g] == 0:
            continue
        f = listed[group[g]]
        width = left_first[f + 1] - left_first[f]
        stride = cells[g]
        for d in range(width):
            v = literal_var[literal[left_first[f] + d]]
            var[entry + d] = v
            sizes[d] = cards[v]
            stride //= cards[v]
            arg[entry + d] = stride
        out, args = values[base : base + cells[g]], room.axes[1, :width]
        for i in range(group[g], group[g + 1]):
            f = listed[i]
            if weight[f] != 0:
                for d in range(width):
                    args[d] = literal_first[literal[left_first[f] + d]]
                add_feature(out, sizes, args, numbers, weight[f], state, index, partial)
        terms.bases[term] = base
        base += cells[g]
        entry += width
        term += 1
        first[term] = entry


@inner
def _write_features(listed, group, cells, features, room, terms):
    """Copy the features of each scope without a table, after all tables."""
    left_first, literal = room.first, room.literal
    first, var, arg = terms.first, terms.var, terms.arg
    term = n_tables = len(terms.bases)
    entry = first[term]
    for g in range(len(cells)):
        if cells[g] > 0:
            continue
        for i in range(group[g], group[g + 1]):
            f = listed[i]
            for k in range(left_first[f], left_first[f + 1]):
                var[entry] = features.literal_var[literal[k]]
                arg[entry] = features.literal_first[literal[k]]
                entry += 1
            terms.weights[term - n_tables] = room.weight[f]
            term += 1
            first[term] = entry


@inner
def component_terms(chosen, features, room):
    """Return the features of a component as terms."""
    listed, group = _by_scope(chosen, room.first, room.literal, features.literal_var)
    cells = _table_cells(listed, group, features, room)
    terms = _empty_terms(listed, group, cells, features, room)
    _write_tables(listed, group, cells, features, room, terms)
    _write_features(listed, group, cells, features, room, terms)
    return terms
