"""Which tables and features each clique of a junction tree adds, worked out before any row is seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.kernels.kernel import compiled
from conjoin.kernels.layouts import Bool1, Int1


@compiled
def schedule(
    indptr: Int1,
    var: Int1,
    arg: Int1,
    n_tables: int,
    used: Bool1,
    place: Int1,
    clique_of: Int1,
    first: Int1,
    clique_var: Int1,
    parent: Int1,
    size: Int1,
    elim: Int1,
) -> Any:
    """Say which operands each clique adds, and through which strides.

    Parameters
    ----------
    indptr, var, arg : arrays of int
        The scope of each operand; for each entry its stride, or for a feature where the numbers of
        its test start.
    n_tables : int
        How many operands are tables; the others are features.
    used : array of bool
        Operands that take part.
    place : array of int
        The free number of each variable, or -1 - slot for a variable that is given.
    clique_of, first, clique_var, parent : arrays of int
        The junction tree.
    size, elim : arrays of int
        The states and the place in the order of each free variable.

    Returns
    -------
    op_first : array
        Where the operands of each clique start.
    op_id : array
        An operand; from the number of operands on, the message of a child.
    op_level : array
        The last axis it has.
    op_args : array
        Where its arguments start in `args`, one for each axis up to that level.
    args : array
    given_first, given_slot, given_arg : arrays
        For each operand, the entries of given variables.
    loose : array
        Operands without a free variable.
    """
    n_ops = len(indptr) - 1
    count = len(parent)
    home = np.full(n_ops + count, -1, np.int64)
    given_first = np.zeros(n_ops + 1, np.int64)
    n_loose = 0
    for o in range(n_ops):
        given_first[o + 1] = given_first[o]
        if not used[o]:
            continue
        earliest = -1
        for e in range(indptr[o], indptr[o + 1]):
            v = place[var[e]]
            if v < 0:
                given_first[o + 1] += 1
            elif earliest < 0 or elim[v] < elim[earliest]:
                earliest = v
        if earliest < 0:
            n_loose += 1
        else:
            home[o] = clique_of[earliest]
    for c in range(count):
        home[n_ops + c] = parent[c]
    given_slot = np.empty(given_first[n_ops], np.int64)
    given_arg = np.empty(given_first[n_ops], np.int64)
    loose = np.empty(n_loose, np.int64)
    n_loose = 0
    at = 0
    op_first = np.zeros(count + 1, np.int64)
    for o in range(n_ops + count):
        if home[o] >= 0:
            op_first[home[o] + 1] += 1
        if o >= n_ops or not used[o]:
            continue
        if home[o] < 0:
            loose[n_loose] = o
            n_loose += 1
        for e in range(indptr[o], indptr[o + 1]):
            v = place[var[e]]
            if v < 0:
                given_slot[at] = -1 - v
                given_arg[at] = arg[e]
                at += 1
    for c in range(count):
        op_first[c + 1] += op_first[c]
    total = op_first[count]
    by_clique = np.empty(total, np.int64)
    filled = op_first[:-1].copy()
    for o in range(n_ops + count):
        if home[o] >= 0:
            by_clique[filled[home[o]]] = o
            filled[home[o]] += 1

    op_id = np.empty(total, np.int64)
    op_level = np.empty(total, np.int64)
    op_args = np.empty(total + 1, np.int64)
    op_args[0] = 0
    axis = np.empty(len(size), np.int64)
    level = np.empty(n_ops + count, np.int64)
    space = 0
    for c in range(count):
        width = first[c + 1] - first[c]
        for i in range(width):
            axis[clique_var[first[c] + i]] = i
        starts = np.zeros(width + 2, np.int64)
        for k in range(op_first[c], op_first[c + 1]):
            o = by_clique[k]
            level[o] = 0
            if o < n_ops:
                for e in range(indptr[o], indptr[o + 1]):
                    v = place[var[e]]
                    if v >= 0:
                        level[o] = max(level[o], axis[v])
            else:
                child = o - n_ops
                for e in range(first[child], first[child + 1]):
                    v = clique_var[e]
                    if clique_of[v] != child:
                        level[o] = max(level[o], axis[v])
            starts[level[o] + 1] += 1
            space += level[o] + 1
        for i in range(width):
            starts[i + 1] += starts[i]
        for k in range(op_first[c], op_first[c + 1]):
            o = by_clique[k]
            to = op_first[c] + starts[level[o]]
            starts[level[o]] += 1
            op_id[to] = o
            op_level[to] = level[o]
    args = np.empty(space, np.int64)
    at = 0
    for c in range(count):
        for i in range(first[c + 1] - first[c]):
            axis[clique_var[first[c] + i]] = i
        for k in range(op_first[c], op_first[c + 1]):
            o = op_id[k]
            op_args[k] = at
            row = args[at : at + op_level[k] + 1]
            at += len(row)
            absent = -1 if n_tables <= o < n_ops else 0
            for i in range(len(row)):
                row[i] = absent
            if o < n_ops:
                for e in range(indptr[o], indptr[o + 1]):
                    v = place[var[e]]
                    if v >= 0:
                        row[axis[v]] = arg[e]
            else:
                child = o - n_ops
                stride = 1
                for e in range(first[child + 1] - 1, first[child] - 1, -1):
                    v = clique_var[e]
                    if clique_of[v] != child:
                        row[axis[v]] = stride
                        stride *= size[v]
    op_args[total] = at
    return op_first, op_id, op_level, op_args, args, given_first, given_slot, given_arg, loose
