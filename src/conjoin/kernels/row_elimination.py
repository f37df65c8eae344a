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

FAILS, HOLDS, FREE, SOFT = 0, 1, 2, 3
"""What a row says of a literal."""

WHOLE = 512
"""A component with at most this number of joint states becomes one table."""


class Reduced(NamedTuple):
    """The features of one row, given its known values, and memory to find them.

    Attributes
    ----------
    known : uint8, (literals,)
        What the row says of each literal: FAILS, HOLDS, FREE or, for another off value, SOFT.
    factor : float64, (literals,)
        The number of each literal in the row, unless it is free.
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
    axes : int64, (4, 64)
        Memory for the table of one scope: the sizes of its axes, and loop counters.
    partial : float64, (64,)
        Partial products of a feature.
    """

    known: np.ndarray
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
    axes: np.ndarray
    partial: np.ndarray


@inner
def room_for_rows(features):
    """Return memory for the reduction of one row after another."""
    n, count = len(features.cards), len(features.weight)
    size = 16
    while size < 2 * count:
        size *= 2
    return Reduced(
        np.empty(len(features.literal_var), np.uint8),
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
        np.empty((4, 64), np.int64),
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
    """Write what a row says of each literal."""
    parent, known, factor, literal_var = room.parent, room.known, room.factor, features.literal_var
    cards, numbers, literal_first = features.cards, features.numbers, features.literal_first
    for v in range(len(parent)):
        parent[v] = v
    for k in range(len(known)):
        v = literal_var[k]
        state = np.int64(row[v])
        if state >= cards[v]:
            known[k] = FREE
            continue
        number = numbers[literal_first[k] + state]
        factor[k] = number
        known[k] = HOLDS if number == 1 else FAILS if number == 0 else SOFT


@inner
def reduce_row(row, features, room, number):
    """Put the known values of a row into the features; equal remainders are merged.

    Returns the number of remaining features, and the sum of those that test no free variable. `number`
    is the stamp of the row.
    """
    _set_factors(row, features, room)
    # Local names: every access to a member of a named tuple in the loop would cost time.
    first, literals, skip = features.first, features.literal, features.skip
    weights, literal_var, known, factor, parent = (
        features.weight, features.literal_var, room.known, room.factor, room.parent,
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
            says = known[literal]
            if says == FAILS:
                weight = 0.0
                following = skip[e]
                break
            if says == FREE:
                left_literal[end] = literal
                mine += scatter(STEP * np.uint64(literal + 1))
                end += 1
            elif says == SOFT:
                weight *= factor[literal]
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
def component_terms(chosen, features, room):
    """Return the features of a component as terms; those that fill most of a table become one."""
    left_first, literal, weight = room.first, room.literal, room.weight
    literal_var, literal_first = features.literal_var, features.literal_first
    cards, numbers = features.cards, features.numbers
    sizes, state, index, partial = room.axes[0], room.axes[2], room.axes[3], room.partial
    listed, group = _by_scope(chosen, left_first, literal, literal_var)
    groups = len(group) - 1
    cells = np.empty(groups, np.int64)
    n_tables, n_values, n_entries, n_features = 0, 0, 0, 0
    for g in range(groups):
        f, many = listed[group[g]], group[g + 1] - group[g]
        most = max(SMALL_TABLE, CELLS_PER_FEATURE * many)
        cells[g] = _cells(f, most, left_first, literal, literal_var, cards)
        width = left_first[f + 1] - left_first[f]
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
    bases, values = np.empty(n_tables, np.int64), np.zeros(n_values)
    weights = np.empty(n_features)
    term, entry, base = 0, 0, 0
    for g in range(groups):
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
        bases[term] = base
        base += cells[g]
        entry += width
        term += 1
        first[term] = entry
    for g in range(groups):
        if cells[g] > 0:
            continue
        for i in range(group[g], group[g + 1]):
            f = listed[i]
            for k in range(left_first[f], left_first[f + 1]):
                var[entry] = literal_var[literal[k]]
                arg[entry] = literal_first[literal[k]]
                entry += 1
            weights[term - n_tables] = weight[f]
            term += 1
            first[term] = entry
    return Terms(first, var, arg, bases, values, weights, numbers)


@inner
def _component_tree(members, terms, place, features, limit):
    """Return the junction tree of a component, and whether its tables have at most `limit` cells."""
    n, cards = len(members), features.cards
    size, log_size = np.empty(n, np.int64), np.empty(n)
    for i in range(n):
        size[i] = cards[members[i]]
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
    sizes, state, prefix, partial = room.axes[0], room.axes[2], room.axes[3], room.partial
    numbers, args = features.numbers, room.axes[1, : len(members)]
    table = np.zeros(cells)
    for c in range(len(chosen)):
        f = chosen[c]
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
    best = best_of(table) if mode == MAXIMUM else 0
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
def _answer_small(mode, members, chosen, features, room, limit, counter, marginals, filled):
    """Answer for a component of few joint states; return its log-sum (its maximum), otherwise NaN."""
    sizes = room.axes[0]
    cells = _joint_states(members, features, sizes)
    if len(members) > 1 and cells > min(WHOLE, limit):
        return np.nan
    table = _joint_table(members, chosen, features, room, cells)
    return _answer_whole(mode, members, table, features, sizes, counter, marginals, filled)


@inner
def _answer_large(mode, members, chosen, features, room, limit, counter, marginals, filled):
    """Answer for a component by messages; return its log-sum, or NaN if its tables are too large."""
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
    for i in range(len(members)):
        count += wanted[members[i]]
    return count


@inner
def _answer_rows(
    mode, rows, counters, wanted, features, limit, left, log_sum, marginals, filled, by_messages
):
    """Answer rows; `by_messages` is None where components of many joint states are left out."""
    room = room_for_rows(features)
    cards = features.cards
    for r in range(len(rows)):
        row = rows[r]
        count, total = reduce_row(row, features, room, r)
        counter = counters[r]
        for v in range(len(cards)):
            if total == -np.inf:
                break
            if row[v] < cards[v] or root_of(room.parent, v) != v:
                continue
            counter += STEP * np.uint64(1 << 32)  # every component has its own random numbers
            size, many = component(row, v, count, features, room)
            members, chosen = room.members[:size], room.chosen[:many]
            if _count_wanted(wanted, members) == 0:
                total = np.nan
                continue
            found = _answer_small(
                mode, members, chosen, features, room, limit, counter, marginals[r], filled[r]
            )
            if by_messages is not None:  # noqa: SIM102 - decided when this is compiled
                if np.isnan(found):
                    found = _answer_large(
                        mode, members, chosen, features, room, limit, counter, marginals[r],
                        filled[r],
                    )  # fmt: skip
            if np.isnan(found):
                for i in range(size):
                    left[r, members[i]] = True
            total = found if found == -np.inf else total + found
        log_sum[r] = total


@compiled
def answer_small_rows(
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
    """Answer rows as `answer_rows` does, except for components of more than WHOLE joint states.

    It compiles in a quarter of the time.
    """
    _answer_rows(
        mode, rows, counters, wanted, features, limit, left, log_sum, marginals, filled, None
    )


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
    _answer_rows(
        mode, rows, counters, wanted, features, limit, left, log_sum, marginals, filled, True
    )
