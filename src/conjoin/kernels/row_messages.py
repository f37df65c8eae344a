"""Exact answers for rows that each have their own missing values, on one junction tree for all rows.

A variable that a row knows has one state in that row: it disappears from the cliques, its axis shifts the
start of each table that has it, and its tests multiply the weights of features. Most features are 0 then.
What is left is a smaller junction tree of the same form, over which messages are sent as over any other.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.elimination_layouts import (
    DRAWS,
    MARGINALS,
    MISSING,
    SUM,
    AnswerArrays,
    JunctionTree,
    Program,
    Terms,
)
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Half2, Int1, Word1
from conjoin.kernels.message_passing import backward, forward, trace, workspace_for
from conjoin.kernels.random_numbers import draw_uniforms


@inner
def _room_for_row(tree, program):
    """Return memory for the junction tree and the program of one row after another."""
    return (
        JunctionTree(
            np.zeros_like(tree.first),
            np.empty_like(tree.var),
            np.empty_like(tree.sizes),
            np.empty_like(tree.residual),
            np.zeros_like(tree.cells),
            np.zeros_like(tree.table_first),
            np.zeros_like(tree.message_first),
            tree.parent,
            tree.clique_of,
            np.empty_like(tree.size),
        ),
        Program(
            np.zeros_like(program.first),
            np.empty_like(program.operand),
            np.empty_like(program.level),
            np.empty_like(program.arg_first),
            np.empty_like(program.args),
            program.given_first,
            program.given_slot,
            program.given_arg,
            program.loose,
        ),
    )


@inner
def _fit_tree(row, free, tree, fitted):
    """Leave the variables that a row knows out of the cliques."""
    size, var, sizes, clique_of = fitted.size, fitted.var, fitted.sizes, tree.clique_of
    for i in range(len(free)):
        size[i] = tree.size[i] if row[free[i]] == MISSING else 1
    at, cells, sent = 0, 0, 0
    for c in range(len(tree.parent)):
        residual, separator = 1, 1
        for i in range(tree.first[c], tree.first[c + 1]):
            v = tree.var[i]
            if size[v] == 1:
                continue
            var[at] = v
            sizes[at] = size[v]
            at += 1
            if clique_of[v] == c:
                residual *= size[v]
            else:
                separator *= size[v]
        fitted.first[c + 1] = at
        fitted.residual[c] = residual
        fitted.cells[c] = residual * separator
        cells += residual * separator
        sent += separator if tree.parent[c] >= 0 else 0
        fitted.table_first[c + 1] = cells
        fitted.message_first[c + 1] = sent


@inner
def _fit_program(terms, weight, tree, size, program, fitted):
    """Leave out the axes that a row knows and features of weight 0; set the strides of messages."""
    n_tables, n_terms = len(terms.bases), len(terms.first) - 1
    args, axes, operands, levels = program.args, tree.var, program.operand, program.level
    new_args, new_level, new_first, new_operand = (
        fitted.args, fitted.level, fitted.arg_first, fitted.operand,
    )  # fmt: skip
    at, count = 0, 0
    for c in range(len(tree.parent)):
        low = tree.first[c]
        for k in range(program.first[c], program.first[c + 1]):
            o = operands[k]
            if n_tables <= o < n_terms and weight[o - n_tables] == 0:
                continue
            start = program.arg_first[k]
            new_operand[count] = o
            new_first[count] = at
            for d in range(levels[k] + 1):
                if size[axes[low + d]] > 1:
                    new_args[at] = args[start + d]
                    at += 1
            new_level[count] = at - new_first[count] - 1
            count += 1
            if o >= n_terms:
                # The separator of a child is in the same order in its own table and in its parent's.
                stride, to = 1, at - 1
                for d in range(levels[k], -1, -1):
                    states = size[axes[low + d]]
                    if states > 1:
                        if new_args[to] != 0:
                            new_args[to] = stride
                            stride *= states
                        to -= 1
        fitted.first[c + 1] = count
    new_first[count] = at


@inner
def _set_tables(row, terms, base):
    """Move the start of each table to the known values of a row."""
    first, var, arg = terms.first, terms.var, terms.arg
    for t in range(len(terms.bases)):
        at = terms.bases[t]
        for e in range(first[t], first[t + 1]):
            state = row[var[e]]
            if state != MISSING:
                at += arg[e] * np.int64(state)
        base[t] = at


@inner
def set_features(row, terms, weight):
    """Put the known values of a row into the features; return the sum of those that are all known."""
    first, var, arg = terms.first[len(terms.bases) :], terms.var, terms.arg
    numbers, weights = terms.numbers, terms.weights
    certain = 0.0
    for f in range(len(weights)):
        w, known = weights[f], True
        for e in range(first[f], first[f + 1]):
            state = row[var[e]]
            if state == MISSING:
                known = False
                continue
            factor = numbers[arg[e] + np.int64(state)]
            w = w * factor if factor != 0 else 0.0
            if w == 0:
                break
        weight[f] = 0.0 if known else w
        certain += w if known else 0.0
    return certain


@compiled
def answer_rows_on_tree(
    mode: int,
    rows: Half2,
    counters: Word1,
    free: Int1,
    marginal_first: Int1,
    tree: JunctionTree,
    program: Program,
    terms: Terms,
    answers: AnswerArrays,
) -> None:
    """Answer for the missing values of rows by messages over the tree of the whole network.

    `mode` is SUM, MARGINALS, MAXIMUM or DRAWS. `free` are the variables of the tree; all others must be
    known. `counters` say where the random numbers of each row start, `marginal_first` where the marginals
    of each free variable start.
    """
    log_sum, marginals, filled = answers.log_sum, answers.marginals, answers.filled
    passed = MARGINALS if mode == DRAWS else mode
    fitted, steps = _room_for_row(tree, program)
    states = np.empty((filled.shape[1], len(free)), np.int64)
    numbers = np.empty((filled.shape[1], len(tree.parent) if mode == DRAWS else 0))
    for r in range(len(rows)):
        row = rows[r]
        _fit_tree(row, free, tree, fitted)
        work = workspace_for(fitted, terms, passed)
        _set_tables(row, terms, work.base)
        certain = set_features(row, terms, work.weight)
        _fit_program(terms, work.weight, tree, fitted.size, program, steps)
        log_sum[r] = certain + forward(fitted, steps, terms, passed, work)
        if log_sum[r] == -np.inf or mode == SUM:
            continue
        if mode == MARGINALS:
            backward(fitted, steps, terms, work, marginal_first, marginals[r])
            continue
        draw_uniforms(counters[r], numbers)
        trace(fitted, work, numbers, states)
        for i in range(len(free)):
            if row[free[i]] == MISSING:
                for d in range(len(states)):
                    filled[r, d, free[i]] = states[d, i]
