"""Exact answers for rows that each have their own missing values.

The known values of a row are put into the features; the remaining features test only free variables and
fall into components. Each component becomes a small network of its own, which is answered by messages
over a junction tree like any other, if its tables are small enough; otherwise it is reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.clique_tables import add_feature, sum_whole
from conjoin.kernels.elimination_layouts import DRAWS, MARGINALS, MAXIMUM, SUM, RowFeatures, Terms
from conjoin.kernels.elimination_order import greedy_order, link_scopes
from conjoin.kernels.junction_tree import junction_tree, schedule
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import (
    Bool1,
    Bool2,
    Float1,
    Float2,
    Half2,
    Half3,
    Word1,
)
from conjoin.kernels.message_passing import (
    backward,
    best_of,
    drawn_from,
    forward,
    read_marginals,
    set_evidence,
    trace,
    workspace_for,
)
from conjoin.kernels.random_numbers import STEP, scatter, uniform

CELLS_PER_FEATURE, SMALL_TABLE = 16, 1024
"""Features with the same scope become a table of at most this number of cells each, or in all."""

WHOLE = 512
"""A component with at most this number of joint states becomes one table."""


class Reduced(NamedTuple):
    """The features of one row, given its known values, and memory to find them.

    Attributes
    ----------
    factor : float64, (literals,)
        The number of each literal in the row; NaN if its variable is free.
    parent : int64, (variables,)
        A forest that links free variables that share a feature.
    first, literal : int64
        The remaining literals of each remaining feature.
    weight : float64
        The weights of the remaining features.
    bucket, key, stamp : arrays
        A hash table of these features; entries with the stamp of the row are in use.
    members, place : int64, (variables,)
        The variables of one component, and the position of each among them.
    chosen : int64, (features,)
        The features of one component.
    sizes, args, state, prefix, partial : arrays of length 64
        Memory for the table of one scope.
    """

    factor: np.ndarray
    parent: np.ndarray
    first: np.ndarray
    literal: np.ndarray
    weight: np.ndarray
    bucket: np.ndarray
    key: np.ndarray
    stamp: np.ndarray
    members: np.ndarray
    place: np.ndarray
    chosen: np.ndarray
    sizes: np.ndarray
    args: np.ndarray
    state: np.ndarray
    prefix: np.ndarray
    partial: np.ndarray


@inner
def room_for_rows(features):
    """Return memory for the reduction of one row after another."""
    n, count = len(features.cards), len(features.weight)
    size = 16
    while size < 2 * count:
        size *= 2
    return Reduced(
        np.empty(len(features.literal_var)),
        np.empty(n, np.int64),
        np.zeros(count + 1, np.int64),
        np.empty(len(features.literal), np.int64),
        np.empty(count),
        np.empty(size, np.int64),
        np.empty(size, np.uint64),
        np.full(size, -1, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(count, np.int64),
        np.empty(64, np.int64),
        np.empty(64, np.int64),
        np.empty(64, np.int64),
        np.empty(64, np.int64),
        np.empty(64),
    )


@inner
def root_of(parent, v):
    """Follow a path to its root, and shorten it."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@inner
def _set_factors(row, features, room):
    """Write the number of each literal in a row."""
    parent, factor, literal_var = room.parent, room.factor, features.literal_var
    cards, numbers, literal_first = features.cards, features.numbers, features.literal_first
    for v in range(len(parent)):
        parent[v] = v
    for k in range(len(factor)):
        v = literal_var[k]
        state = np.int64(row[v])
        factor[k] = numbers[literal_first[k] + state] if state < cards[v] else np.nan


@inner
def reduce_row(row, features, room, number):
    """Put the known values of a row into the features; equal remainders are merged.

    Returns the number of remaining features, and the sum of those that test no free variable. `number`
    is the stamp of the row.
    """
    _set_factors(row, features, room)
    # Local names: every access to a member of a named tuple in the loop would cost time.
    first, literals, skip = features.first, features.literal, features.skip
    weights, literal_var, factors, parent = (
        features.weight, features.literal_var, room.factor, room.parent,
    )  # fmt: skip
    left_first, left_literal, left_weight = room.first, room.literal, room.weight
    bucket, key, stamp = room.bucket, room.key, room.stamp
    last = np.uint64(len(bucket) - 1)
    count, end, certain = 0, 0, 0.0
    following = 0
    while following < len(weights):
        f = following
        following += 1
        start, weight, mine = end, weights[f], np.uint64(0)
        for e in range(first[f], first[f + 1]):
            literal = literals[e]
            factor = factors[literal]
            if factor == 0:
                weight = 0.0
                following = skip[e]
                break
            if np.isnan(factor):
                left_literal[end] = literal
                mine += scatter(STEP * np.uint64(literal + 1))
                end += 1
            else:
                weight *= factor
        if weight == 0:
            end = start
            continue
        if end == start:
            certain += weight
            continue
        at = (mine ^ (mine >> np.uint64(32))) & last
        while stamp[at] == number and key[at] != mine:
            at = (at + np.uint64(1)) & last
        if stamp[at] == number:
            left_weight[bucket[at]] += weight
            end = start
            continue
        stamp[at] = number
        key[at] = mine
        bucket[at] = count
        left_weight[count] = weight
        count += 1
        left_first[count] = end
        root = root_of(parent, literal_var[left_literal[start]])
        for k in range(start + 1, end):
            parent[root_of(parent, literal_var[left_literal[k]])] = root
    return count, certain


@inner
def component(row, v, count, features, room):
    """Write the free variables that are linked with v, and their features; return their numbers."""
    cards, parent, members = features.cards, room.parent, room.members
    place, chosen = room.place, room.chosen
    first, literal, literal_var = room.first, room.literal, features.literal_var
    size = 0
    for w in range(len(cards)):
        if row[w] >= cards[w] and root_of(parent, w) == v:
            members[size] = w
            place[w] = size
            size += 1
    mine = 0
    for f in range(count):
        if root_of(parent, literal_var[literal[first[f]]]) == v:
            chosen[mine] = f
            mine += 1
    return size, mine


@inner
def _same_scope(f, g, features, room):
    """Whether two features test the same variables."""
    size = room.first[f + 1] - room.first[f]
    if room.first[g + 1] - room.first[g] != size:
        return False
    for k in range(size):
        left, right = room.literal[room.first[f] + k], room.literal[room.first[g] + k]
        if features.literal_var[left] != features.literal_var[right]:
            return False
    return True


@inner
def _by_scope(chosen, features, room):
    """Return features sorted by scope, and where each group with one scope starts."""
    first, literal, literal_var = room.first, room.literal, features.literal_var
    keys = np.zeros(len(chosen), np.uint64)
    for i in range(len(chosen)):
        f = chosen[i]
        for k in range(first[f], first[f + 1]):
            keys[i] += scatter(STEP * np.uint64(literal_var[literal[k]] + 1))
    listed = chosen[np.argsort(keys)]
    group = np.empty(len(listed) + 1, np.int64)
    groups = 0
    for i in range(len(listed)):
        if i == 0 or not _same_scope(listed[i - 1], listed[i], features, room):
            group[groups] = i
            groups += 1
    group[groups] = len(listed)
    return listed, group[: groups + 1]


@inner
def _cells(f, most, features, room):
    """Return the number of joint states of the variables of a feature, or more than `most`."""
    cells = 1
    for k in range(room.first[f], room.first[f + 1]):
        cells *= features.cards[features.literal_var[room.literal[k]]]
        if cells > most:
            break
    return cells


@inner
def _add_table(which, width, features, room, out):
    """Sum features with one scope of `width` variables, whose sizes are in `room`, in a table."""
    args = room.args[:width]
    for i in range(len(out)):
        out[i] = 0.0
    for f in which:
        weight = room.weight[f]
        if weight == 0:
            continue
        for d in range(width):
            args[d] = features.literal_first[room.literal[room.first[f] + d]]
        add_feature(
            out, room.sizes, args, features.numbers, weight, room.state, room.prefix, room.partial
        )


@inner
def component_terms(chosen, features, room):
    """Return the features of a component as terms; those that fill most of a table become one."""
    listed, group = _by_scope(chosen, features, room)
    groups = len(group) - 1
    cells = np.empty(groups, np.int64)
    n_tables, n_values, n_entries, n_features = 0, 0, 0, 0
    for g in range(groups):
        f, many = listed[group[g]], group[g + 1] - group[g]
        most = max(SMALL_TABLE, CELLS_PER_FEATURE * many)
        cells[g] = _cells(f, most, features, room)
        width = room.first[f + 1] - room.first[f]
        if cells[g] <= most:
            n_tables += 1
            n_values += cells[g]
            n_entries += width
        else:
            cells[g] = 0
            n_features += many
            n_entries += many * width
    first = np.zeros(n_tables + n_features + 1, np.int64)
    var, arg = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
    bases, values = np.empty(n_tables, np.int64), np.empty(n_values)
    weights = np.empty(n_features)
    sizes = room.sizes
    term, entry, base = 0, 0, 0
    for g in range(groups):
        if cells[g] == 0:
            continue
        f = listed[group[g]]
        width = room.first[f + 1] - room.first[f]
        stride = cells[g]
        for d in range(width):
            var[entry + d] = features.literal_var[room.literal[room.first[f] + d]]
            sizes[d] = features.cards[var[entry + d]]
            stride //= sizes[d]
            arg[entry + d] = stride
        which = listed[group[g] : group[g + 1]]
        out = values[base : base + cells[g]]
        _add_table(which, width, features, room, out)
        bases[term] = base
        base += cells[g]
        entry += width
        term += 1
        first[term] = entry
    for g in range(groups):
        if cells[g] > 0:
            continue
        for f in listed[group[g] : group[g + 1]]:
            for k in range(room.first[f], room.first[f + 1]):
                var[entry] = features.literal_var[room.literal[k]]
                arg[entry] = features.literal_first[room.literal[k]]
                entry += 1
            weights[term - n_tables] = room.weight[f]
            term += 1
            first[term] = entry
    return Terms(first, var, arg, bases, values, weights, features.numbers)


@inner
def _component_tree(members, terms, place, features, limit):
    """Return the junction tree of a component, and whether its tables have at most `limit` cells."""
    n = len(members)
    size, log_size = np.empty(n, np.int64), np.empty(n)
    for i in range(n):
        size[i] = features.cards[members[i]]
        log_size[i] = np.log2(size[i])
    adjacency = np.zeros((n, (n + 63) >> 6), np.uint64)
    link_scopes(terms.first, terms.var, place, adjacency)
    order = np.empty(n, np.int64)
    separators = adjacency.copy()
    most = np.log2(limit)
    for by_weight in (True, False):
        separators = adjacency.copy()
        total, _, _ = greedy_order(separators, log_size, by_weight, STEP, most, order)
        if total <= limit:
            return True, junction_tree(separators, order, size)
    # Something of the same type, to be thrown away.
    return False, junction_tree(separators[:0], order[:0], size[:0])


@inner
def _copy_marginals(members, first, local, features, marginals):
    """Write the marginals of a component to their places."""
    for i in range(len(members)):
        to = features.state_first[members[i]]
        for s in range(first[i], first[i + 1]):
            marginals[to + s - first[i]] = local[s]


@inner
def _joint_states(members, features, sizes):
    """Write the sizes of some variables; return the number of their joint states, or WHOLE + 1."""
    cells = 1
    for i in range(len(members)):
        if cells > WHOLE or i == len(sizes):
            return WHOLE + 1
        sizes[i] = features.cards[members[i]]
        cells *= sizes[i]
    return cells


@inner
def _joint_table(members, chosen, features, room, cells):
    """Return the sum of the features of a component for each joint state of its variables."""
    first, literals, weights, place = room.first, room.literal, room.weight, room.place
    literal_var, literal_first = features.literal_var, features.literal_first
    sizes, state, prefix, partial = room.sizes, room.state, room.prefix, room.partial
    numbers, args = features.numbers, room.args[: len(members)]
    table = np.empty(cells)
    for i in range(cells):
        table[i] = 0.0
    for f in chosen:
        if weights[f] == 0:
            continue
        for i in range(len(args)):
            args[i] = -1
        for k in range(first[f], first[f + 1]):
            args[place[literal_var[literals[k]]]] = literal_first[literals[k]]
        add_feature(table, sizes, args, numbers, weights[f], state, prefix, partial)
    return table


@inner
def _answer_whole(mode, members, table, features, sizes, counter, marginals, filled):
    """Answer for a component from the table of its joint states, without messages."""
    best = best_of(table)
    found = table[best] if mode == MAXIMUM else sum_whole(table, mode != SUM)
    if found == -np.inf or mode == SUM:
        return found
    if mode == MARGINALS:
        read_marginals(table, sizes, 1, members, features.state_first, marginals)
        return found
    for d in range(len(filled)):
        if mode == DRAWS:
            counter += STEP
            best = drawn_from(table, uniform(counter))
        at = best
        for i in range(len(members) - 1, -1, -1):
            filled[d, members[i]] = at % sizes[i]
            at //= sizes[i]
    return found


@inner
def answer_component(mode, members, chosen, features, room, limit, counter, marginals, filled):
    """Answer for one component; return its log-sum (its maximum), or NaN if it is too large."""
    cells = _joint_states(members, features, room.sizes)
    if len(members) == 1 or cells <= min(WHOLE, limit):
        table = _joint_table(members, chosen, features, room, cells)
        return _answer_whole(mode, members, table, features, room.sizes, counter, marginals, filled)
    terms = component_terms(chosen, features, room)
    fits, tree = _component_tree(members, terms, room.place, features, limit)
    if not fits:
        return np.nan
    used = np.ones(len(terms.first) - 1, np.bool_)
    program = schedule(tree, terms, used, room.place)
    passed = MARGINALS if mode == DRAWS else mode
    work = workspace_for(tree, terms, passed)
    set_evidence(program, terms, room.chosen[:0], work)
    found = forward(tree, program, terms, passed, work)
    if found == -np.inf or mode == SUM:
        return found
    if mode == MARGINALS:
        first = np.zeros(len(members) + 1, np.int64)
        for i in range(len(members)):
            first[i + 1] = first[i] + tree.size[i]
        local = np.empty(first[len(members)])
        backward(tree, program, terms, work, first, local)
        _copy_marginals(members, first, local, features, marginals)
        return found
    states = np.empty((len(filled), len(members)), np.int64)
    numbers = np.empty((len(filled), len(tree.parent) if mode == DRAWS else 0))
    for d in range(numbers.shape[0]):
        for c in range(numbers.shape[1]):
            counter += STEP
            numbers[d, c] = uniform(counter)
    trace(tree, work, numbers, states)
    for d in range(len(filled)):
        for i in range(len(members)):
            filled[d, members[i]] = states[d, i]
    return found


@inner
def _count_wanted(wanted, members):
    count = 0
    for v in members:
        count += wanted[v]
    return count


@compiled
def answer_rows(
    mode: int,
    rows: Half2,
    counters: Word1,
    wanted: Bool1,
    features: RowFeatures,
    limit: int,
    left: Bool2,
    log_sum: Float1,
    marginals: Float2,
    filled: Half3,
) -> None:
    """Answer for the free variables of rows, the ones whose code is not a state.

    Parameters
    ----------
    mode : int
        SUM, MARGINALS, MAXIMUM or DRAWS.
    rows : array of uint16, shape (rows, variables)
        The rows; variables with one state must be known.
    counters : array of uint64
        Where the random numbers of each row start.
    wanted : array of bool
        Components without such a variable are skipped.
    features : RowFeatures
        The features of the network.
    limit : int
        Maximum number of cells of the tables of a component.
    left : array of bool, shape (rows, variables)
        Set for the variables of components that are too large.
    log_sum : array of float
        The logarithm of the sum of the potentials of all instances that agree with a row (MAXIMUM: the
        largest of them): -inf for an impossible row, NaN where a component was left out.
    marginals : array of float, shape (rows, states)
        Written in mode MARGINALS.
    filled : array of uint16, shape (rows, draws, variables)
        For MAXIMUM (one draw) and DRAWS: the rows, whose free variables are written.
    """
    room = room_for_rows(features)
    for r in range(len(rows)):
        row = rows[r]
        count, total = reduce_row(row, features, room, r)
        counter = counters[r]
        for v in range(len(features.cards)):
            if total == -np.inf:
                break
            if row[v] < features.cards[v] or root_of(room.parent, v) != v:
                continue
            counter += STEP * np.uint64(1 << 32)  # every component has its own random numbers
            size, many = component(row, v, count, features, room)
            members = room.members[:size]
            if _count_wanted(wanted, members) == 0:
                total = np.nan
                continue
            found = answer_component(
                mode, members, room.chosen[:many], features, room, limit, counter,
                marginals[r], filled[r],
            )  # fmt: skip
            if np.isnan(found):
                for w in members:
                    left[r, w] = True
            total = found if found == -np.inf else total + found
        log_sum[r] = total
