"""The junction tree of an elimination order, and the program of messages over it."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.elimination_layouts import JunctionTree, Program, Terms
from conjoin.kernels.elimination_order import members_of
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Bool1, Int1, Word2


@inner
def _merged(order, above, width):
    """Return for each variable the last variable that its clique eliminates.

    `above` is the first variable of each separator to be eliminated, `width` the separator's length. A
    variable whose table is the separator of the variable before it joins the clique of that one.
    """
    n = len(order)
    top = np.full(n, -1, np.int64)
    for v in order:
        if top[v] >= 0:
            continue
        last = v
        while above[last] >= 0 and top[above[last]] < 0 and width[last] == width[above[last]] + 1:
            last = above[last]
            top[last] = last
        u = v
        while u != last:
            top[u] = last
            u = above[u]
        top[last] = last
    return top


@inner
def _listed(separators, order, place, clique_of, last_of, width):
    """List the variables of each clique in the order of elimination; return where each starts, too."""
    n, count = len(order), len(last_of)
    first = np.zeros(count + 1, np.int64)
    eliminated = np.zeros(count, np.int64)
    for v in range(n):
        eliminated[clique_of[v]] += 1
    for c in range(count):
        first[c + 1] = first[c] + eliminated[c] + width[last_of[c]]
    var = np.empty(first[count], np.int64)
    filled = first[:-1].copy()
    for v in order:
        c = clique_of[v]
        var[filled[c]] = v
        filled[c] += 1
    around = np.empty(n, np.int64)
    for c in range(count):
        separator = var[filled[c] : first[c + 1]]
        members_of(separators[last_of[c]], around)
        for i in range(len(separator)):
            moved, j = around[i], i
            while j > 0 and place[separator[j - 1]] > place[moved]:
                separator[j] = separator[j - 1]
                j -= 1
            separator[j] = moved
    return first, var


@compiled
def junction_tree(separators: Word2, order: Int1, size: Int1) -> JunctionTree:
    """Gather the tables of an elimination order into the cliques of a junction tree."""
    n = len(order)
    place, around, width = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    above = np.full(n, -1, np.int64)
    for i in range(n):
        place[order[i]] = i
    for v in range(n):
        width[v] = members_of(separators[v], around)
        for i in range(width[v]):
            if above[v] < 0 or place[around[i]] < place[above[v]]:
                above[v] = around[i]
    top = _merged(order, above, width)
    clique_of, last_of = np.empty(n, np.int64), np.empty(n, np.int64)
    count = 0
    for v in order:  # numbered by its last variable, a clique comes before its parent
        if top[v] == v:
            clique_of[v] = count
            last_of[count] = v
            count += 1
    for v in range(n):
        clique_of[v] = clique_of[top[v]]
    last_of = last_of[:count]
    first, var = _listed(separators, order, place, clique_of, last_of, width)
    sizes = np.empty(len(var), np.int64)
    for i in range(len(var)):
        sizes[i] = size[var[i]]
    residual, cells = np.ones(count, np.int64), np.ones(count, np.int64)
    table_first, message_first = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    parent = np.full(count, -1, np.int64)
    for c in range(count):
        for i in range(first[c], first[c + 1]):
            cells[c] *= sizes[i]
            if clique_of[var[i]] == c:
                residual[c] *= sizes[i]
        table_first[c + 1] = table_first[c] + cells[c]
        message_first[c + 1] = message_first[c]
        if above[last_of[c]] >= 0:
            parent[c] = clique_of[above[last_of[c]]]
            message_first[c + 1] += cells[c] // residual[c]
    return JunctionTree(
        first, var, sizes, residual, cells, table_first, message_first, parent, clique_of, size
    )


@inner
def _homes(tree, terms, used, place):
    """Return the clique that adds each term and each message: -1 for none.

    A term is added by the clique that eliminates the first of its variables, which is the clique of
    the lowest number.
    """
    n_terms = len(terms.first) - 1
    home = np.full(n_terms + len(tree.parent), -1, np.int64)
    for t in range(n_terms):
        if not used[t]:
            continue
        for e in range(terms.first[t], terms.first[t + 1]):
            v = place[terms.var[e]]
            if v >= 0 and (home[t] < 0 or tree.clique_of[v] < home[t]):
                home[t] = tree.clique_of[v]
    for c in range(len(tree.parent)):
        home[n_terms + c] = tree.parent[c]
    return home


@inner
def _evidence(terms, used, place, home):
    """Return the entries of each term that have evidence, and the terms without any others."""
    n_terms = len(terms.first) - 1
    first = np.zeros(n_terms + 1, np.int64)
    slot, arg = np.empty(len(terms.var), np.int64), np.empty(len(terms.var), np.int64)
    loose = np.empty(n_terms, np.int64)
    n_loose, count = 0, 0
    for t in range(n_terms):
        if used[t]:
            for e in range(terms.first[t], terms.first[t + 1]):
                v = place[terms.var[e]]
                if v < 0:
                    slot[count] = -1 - v
                    arg[count] = terms.arg[e]
                    count += 1
            if home[t] < 0:
                loose[n_loose] = t
                n_loose += 1
        first[t + 1] = count
    return first, slot[:count], arg[:count], loose[:n_loose]


@inner
def _level(tree, terms, place, axis, operand):
    """Return the last axis of its clique that an operand has."""
    n_terms = len(terms.first) - 1
    level = 0
    if operand < n_terms:
        for e in range(terms.first[operand], terms.first[operand + 1]):
            v = place[terms.var[e]]
            if v >= 0:
                level = max(level, axis[v])
    else:
        child = operand - n_terms
        for i in range(tree.first[child], tree.first[child + 1]):
            v = tree.var[i]
            if tree.clique_of[v] != child:
                level = max(level, axis[v])
    return level


@inner
def _set_args(tree, terms, place, axis, operand, row):
    """Write the arguments of an operand, one per axis up to its level."""
    n_terms, n_tables = len(terms.first) - 1, len(terms.bases)
    absent = -1 if n_tables <= operand < n_terms else 0
    for i in range(len(row)):
        row[i] = absent
    if operand < n_terms:
        for e in range(terms.first[operand], terms.first[operand + 1]):
            v = place[terms.var[e]]
            if v >= 0:
                row[axis[v]] = terms.arg[e]
        return
    child = operand - n_terms
    stride = 1
    for i in range(tree.first[child + 1] - 1, tree.first[child] - 1, -1):
        v = tree.var[i]
        if tree.clique_of[v] != child:
            row[axis[v]] = stride
            stride *= tree.size[v]


@inner
def _grouped(home, count):
    """Return the operands sorted by clique, and where those of each clique start."""
    first = np.zeros(count + 1, np.int64)
    for o in range(len(home)):
        if home[o] >= 0:
            first[home[o] + 1] += 1
    for c in range(count):
        first[c + 1] += first[c]
    operand = np.empty(first[count], np.int64)
    filled = first[:-1].copy()
    for o in range(len(home)):
        if home[o] >= 0:
            operand[filled[home[o]]] = o
            filled[home[o]] += 1
    return first, operand


@compiled
def schedule(tree: JunctionTree, terms: Terms, used: Bool1, place: Int1) -> Program:
    """Work out which terms and messages each clique adds, and how each is read."""
    count = len(tree.parent)
    home = _homes(tree, terms, used, place)
    given_first, given_slot, given_arg, loose = _evidence(terms, used, place, home)
    first, unsorted = _grouped(home, count)
    total = len(unsorted)
    operand, level = np.empty(total, np.int64), np.empty(total, np.int64)
    arg_first = np.zeros(total + 1, np.int64)
    axis, last_axis = np.empty(len(tree.size), np.int64), np.empty(total, np.int64)
    widest = 0
    for c in range(count):
        widest = max(widest, tree.first[c + 1] - tree.first[c])
    starts = np.empty(widest + 2, np.int64)
    room = 0
    for c in range(count):  # sort the operands of each clique by level
        low, high = first[c], first[c + 1]
        for i in range(tree.first[c], tree.first[c + 1]):
            axis[tree.var[i]] = i - tree.first[c]
        for i in range(len(starts)):
            starts[i] = 0
        for k in range(low, high):
            last_axis[k] = _level(tree, terms, place, axis, unsorted[k])
            starts[last_axis[k] + 1] += 1
            room += last_axis[k] + 1
        for i in range(widest):
            starts[i + 1] += starts[i]
        for k in range(low, high):
            to = low + starts[last_axis[k]]
            starts[last_axis[k]] += 1
            operand[to] = unsorted[k]
            level[to] = last_axis[k]
    args = np.empty(room, np.int64)
    for c in range(count):
        for i in range(tree.first[c], tree.first[c + 1]):
            axis[tree.var[i]] = i - tree.first[c]
        for k in range(first[c], first[c + 1]):
            arg_first[k + 1] = arg_first[k] + level[k] + 1
            row = args[arg_first[k] : arg_first[k + 1]]
            _set_args(tree, terms, place, axis, operand[k], row)
    return Program(
        first, operand, level, arg_first, args, given_first, given_slot, given_arg, loose
    )
