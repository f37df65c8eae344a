"""Exact answers for rows that each have their own missing values, in networks of many features.

The known values of a row are put into the features; the remaining features test only free variables and
fall into components. Each component becomes a small network of its own, which is answered by messages
over a junction tree like any other, if its tables are small enough; otherwise it is reported.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.elimination_layouts import (
    DRAWS,
    MARGINALS,
    MISSING,
    SUM,
    AnswerArrays,
    Terms,
)
from conjoin.kernels.elimination_order import greedy_order, link_scopes
from conjoin.kernels.junction_tree import junction_tree, schedule
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Bool1, Bool2, Half2, Int1, Word1
from conjoin.kernels.message_passing import (
    backward,
    forward,
    set_evidence,
    trace,
    workspace_for,
)
from conjoin.kernels.random_numbers import STEP, draw_uniforms, scatter
from conjoin.kernels.row_messages import set_features


@inner
def _root_of(parent, v):
    """Follow a path to its root, and shorten it."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@inner
def _find_components(row, terms, weight, parent, component):
    """Set the component of each remaining feature, -1 for others; a component is its root variable."""
    first, var = terms.first, terms.var
    for v in range(len(parent)):
        parent[v] = v
    for f in range(len(weight)):
        component[f] = -1
        if weight[f] == 0:
            continue
        for e in range(first[f], first[f + 1]):
            if row[var[e]] == MISSING:
                root = _root_of(parent, var[e])
                if component[f] < 0:
                    component[f] = root
                parent[root] = component[f]
    for f in range(len(weight)):
        if component[f] >= 0:
            component[f] = _root_of(parent, component[f])


@inner
def _component_members(row, root, parent, place):
    """Return the free variables of a component, and set the place of each among them."""
    members = np.empty(len(parent), np.int64)
    size = 0
    for v in range(len(parent)):
        if row[v] == MISSING and _root_of(parent, v) == root:
            members[size] = v
            place[v] = size
            size += 1
    return members[:size]


@inner
def _component_terms(row, root, terms, weight, component):
    """Return the remaining features of a component as terms; those that have become equal are merged."""
    first, var, arg = terms.first, terms.var, terms.arg
    count, entries, size = 0, 0, 16
    for f in range(len(weight)):
        if component[f] == root:
            count += 1
            entries += first[f + 1] - first[f]  # at most
    while size < 2 * count:
        size *= 2
    bucket, keys = np.full(size, -1, np.int64), np.empty(size, np.uint64)  # a hash table
    left_first, left_weight = np.zeros(count + 1, np.int64), np.zeros(count)
    left_var, left_arg = np.empty(entries, np.int64), np.empty(entries, np.int64)
    count = 0
    for f in range(len(weight)):
        if component[f] != root:
            continue
        end, key = left_first[count], np.uint64(0)
        for e in range(first[f], first[f + 1]):
            if row[var[e]] == MISSING:
                left_var[end], left_arg[end] = var[e], arg[e]
                key += scatter(STEP * np.uint64(arg[e] + 1))
                end += 1
        at = np.int64(key >> np.uint64(32)) & (size - 1)
        while bucket[at] >= 0 and keys[at] != key:
            at = (at + 1) & (size - 1)
        if bucket[at] < 0:
            bucket[at], keys[at] = count, key
            count += 1
            left_first[count] = end
        left_weight[bucket[at]] += weight[f]
    entries = left_first[count]
    return Terms(
        left_first[: count + 1],
        left_var[:entries],
        left_arg[:entries],
        np.empty(0, np.int64),
        np.empty(0),
        left_weight[:count],
        terms.numbers,
    )


@inner
def _component_tree(members, terms, place, cards, limit):
    """Return the junction tree of a component, and whether its tables have at most `limit` cells."""
    n = len(members)
    size, log_size = np.empty(n, np.int64), np.empty(n)
    for i in range(n):
        size[i] = cards[members[i]]
        log_size[i] = np.log2(size[i])
    adjacency = np.zeros((n, (n + 63) >> 6), np.uint64)
    link_scopes(terms.first, terms.var, place, adjacency)
    order = np.empty(n, np.int64)
    separators = adjacency.copy()
    if n == 1:
        limit = size[0]  # a single variable is always answered
    most = np.log2(limit)
    for by_weight in (True, False):
        separators = adjacency.copy()
        total, _, _ = greedy_order(separators, log_size, by_weight, STEP, most, order)
        if total <= limit:
            return True, junction_tree(separators, order, size)
    # Something of the same type, to be thrown away.
    return False, junction_tree(separators[:0], order[:0], size[:0])


@inner
def _copy_marginals(members, first, local, state_first, marginals):
    """Write the marginals of a component to their places."""
    for i in range(len(members)):
        to = state_first[members[i]]
        for s in range(first[i], first[i + 1]):
            marginals[to + s - first[i]] = local[s]


@inner
def _answer_component(
    mode, members, terms, place, cards, state_first, limit, counter, marginals, filled
):
    """Answer for a component; return its log-sum (its maximum), or NaN if its tables are too large."""
    fits, tree = _component_tree(members, terms, place, cards, limit)
    if not fits:
        return np.nan
    used = np.ones(len(terms.first) - 1, np.bool_)
    program = schedule(tree, terms, used, place)
    passed = MARGINALS if mode == DRAWS else mode
    work = workspace_for(tree, terms, passed)
    set_evidence(program, terms, members[:0], work)
    total = forward(tree, program, terms, passed, work)
    if total == -np.inf or mode == SUM:
        return total
    if mode == MARGINALS:
        first = np.zeros(len(members) + 1, np.int64)
        for i in range(len(members)):
            first[i + 1] = first[i] + tree.size[i]
        local = np.empty(first[len(members)])
        backward(tree, program, terms, work, first, local)
        _copy_marginals(members, first, local, state_first, marginals)
        return total
    states = np.empty((len(filled), len(members)), np.int64)
    numbers = np.empty((len(filled), len(tree.parent) if mode == DRAWS else 0))
    draw_uniforms(counter, numbers)
    trace(tree, work, numbers, states)
    for d in range(len(filled)):
        for i in range(len(members)):
            filled[d, members[i]] = states[d, i]
    return total


@inner
def _has_wanted(wanted, members):
    return wanted[members].any()


@compiled
def answer_rows(
    mode: int,
    rows: Half2,
    counters: Word1,
    wanted: Bool1,
    cards: Int1,
    state_first: Int1,
    terms: Terms,
    limit: int,
    left: Bool2,
    answers: AnswerArrays,
) -> None:
    """Answer for the missing values of rows, in mode SUM, MARGINALS, MAXIMUM or DRAWS.

    Variables with one state must be known, and all terms must be features. Components without a wanted
    variable are skipped; those whose tables have more than `limit` cells are marked in `left`, rows by
    variables. The random numbers of a row start at its counter.
    """
    weight, component = np.empty(len(terms.weights)), np.empty(len(terms.weights), np.int64)
    parent, place = np.empty(len(cards), np.int64), np.empty(len(cards), np.int64)
    log_sum, marginals, filled = answers.log_sum, answers.marginals, answers.filled
    for r in range(len(rows)):
        row = rows[r]
        total = set_features(row, terms, weight)
        _find_components(row, terms, weight, parent, component)
        counter = counters[r]
        for v in range(len(cards)):
            if total == -np.inf:
                break
            if row[v] != MISSING or _root_of(parent, v) != v:
                continue
            counter += STEP * np.uint64(1 << 32)  # every component has its own random numbers
            members = _component_members(row, v, parent, place)
            if not _has_wanted(wanted, members):
                total = np.nan
                continue
            own_terms = _component_terms(row, v, terms, weight, component)
            part = _answer_component(
                mode, members, own_terms, place, cards, state_first, limit, counter,
                marginals[r], filled[r],
            )  # fmt: skip
            if np.isnan(part):
                for i in members:
                    left[r, i] = True
            total = part if part == -np.inf else total + part
        log_sum[r] = total
