"""Exact answers for rows that each have their own missing values.

The known values of a row are put into the features; the remaining features test only free variables and
fall into components. Each component becomes a small network of its own, which is answered by messages
over a junction tree like any other, if its tables are small enough; otherwise it is reported.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.clique_tables import add_feature, sum_whole
from conjoin.kernels.component_terms import component_terms
from conjoin.kernels.elimination_layouts import (
    DRAWS,
    MARGINALS,
    MAXIMUM,
    SUM,
    RowAnswers,
    RowFeatures,
)
from conjoin.kernels.elimination_order import greedy_order, link_scopes
from conjoin.kernels.junction_tree import junction_tree, schedule
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Bool1, Bool2, Half2, Word1
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
from conjoin.kernels.random_numbers import STEP, draw_uniforms, uniform
from conjoin.kernels.row_reduction import component, reduce_row, room_for_rows, root_of

WHOLE = 512
"""A component with at most this number of joint states becomes one table."""


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
    draw_uniforms(counter, numbers)
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
def _answer_rows(mode, rows, counters, wanted, features, limit, left, answers, by_messages):
    """Answer rows; `by_messages` is None where components of many joint states are left out."""
    room = room_for_rows(features)
    cards = features.cards
    log_sum, marginals, filled = answers.log_sum, answers.marginals, answers.filled
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
def answer_rows(
    mode: int,
    rows: Half2,
    counters: Word1,
    wanted: Bool1,
    features: RowFeatures,
    limit: int,
    left: Bool2,
    answers: RowAnswers,
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
    answers : RowAnswers
        Gets the answers.
    """
    _answer_rows(mode, rows, counters, wanted, features, limit, left, answers, True)


@compiled
def answer_small_rows(
    mode: int,
    rows: Half2,
    counters: Word1,
    wanted: Bool1,
    features: RowFeatures,
    limit: int,
    left: Bool2,
    answers: RowAnswers,
) -> None:
    """Answer rows as `answer_rows` does, except for components of more than WHOLE joint states.

    It compiles in a quarter of the time.
    """
    _answer_rows(mode, rows, counters, wanted, features, limit, left, answers, None)
