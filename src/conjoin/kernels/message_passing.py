"""Messages over a junction tree: sums, maxima, marginals, draws and expectations.

Tables are built axis by axis: a term whose last axis is the third is added while the table has three
axes, before the table is spread over the others. Tables hold log-values until a clique is summed; from
then on they hold the probabilities of the residual given the separator, so that no value that matters
underflows.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.clique_tables import (
    CHUNK,
    add_feature,
    add_table,
    gather,
    max_residual,
    sum_axis,
    sum_feature,
    sum_residual,
    sum_whole,
    total_of,
)
from conjoin.kernels.elimination_layouts import (
    DRAWS,
    EXPECTATIONS,
    MARGINALS,
    MAXIMUM,
    SUM,
    JunctionTree,
    MessageMemory,
    Program,
    Terms,
)
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Float1, Float2, Int1, Int2


@inner
def workspace_for(tree, terms, mode):
    """Return memory for one run; tables share one place if only log Z is wanted."""
    count = len(tree.parent)
    offset = tree.table_first
    space = tree.table_first[count]
    if mode == SUM:
        offset = np.zeros(count + 1, np.int64)
        space = 1
        for c in range(count):
            space = max(space, tree.cells[c])
    return MessageMemory(
        offset,
        np.empty(space),
        np.empty(tree.message_first[count]),
        np.empty(len(terms.bases), np.int64),
        np.empty(len(terms.weights)),
        np.empty((5, 64), np.int64),
        np.empty(64),
        np.empty((3, CHUNK)),
    )


@inner
def set_evidence(program, terms, given, work):
    """Put one row of evidence, a state per slot, into the terms."""
    # Local names, here and below: every access to a member of a named tuple in a loop costs time.
    given_first, slot, arg = program.given_first, program.given_slot, program.given_arg
    bases, base = terms.bases, work.base
    for t in range(len(bases)):
        at = bases[t]
        for e in range(given_first[t], given_first[t + 1]):
            at += arg[e] * given[slot[e]]
        base[t] = at
    weights, weight, numbers = terms.weights, work.weight, terms.numbers
    for f in range(len(weights)):
        w = weights[f]
        t = len(bases) + f
        for e in range(given_first[t], given_first[t + 1]):
            factor = numbers[arg[e] + given[slot[e]]]
            w = w * factor if factor != 0 else 0.0
        weight[f] = w


@inner
def _spread(out, filled, sizes):
    """Spread a table over further axes of these sizes; return its new number of cells."""
    times = 1
    for d in range(len(sizes)):
        times *= sizes[d]
    for i in range(filled - 1, -1, -1):
        value = out[i]
        part = out[i * times : (i + 1) * times]
        for j in range(len(part)):
            part[j] = value
    return filled * times


@inner
def _sum_of_loose(program, terms, work):
    """Return the sum of the terms without free variables, given the evidence."""
    n_tables = len(terms.bases)
    result = 0.0
    for t in program.loose:
        result += terms.values[work.base[t]] if t < n_tables else work.weight[t - n_tables]
    return result


@inner
def forward(tree, program, terms, mode, work):
    """Send messages to the roots; return log Z given the evidence that was set before.

    SUM keeps no tables; MARGINALS leaves in each clique the probabilities of its residual given its
    separator; MAXIMUM maximises instead of summing, and leaves log-values.
    """
    result = _sum_of_loose(program, terms, work)
    n_tables, n_terms = len(terms.bases), len(terms.first) - 1
    table, offset, message, chunk = work.table, work.offset, work.message, work.chunk
    base, weight, counter, partial = work.base, work.weight, work.counter, work.partial
    parent, cells, residual, first = tree.parent, tree.cells, tree.residual, tree.message_first
    axes, sizes, values, numbers = tree.first, tree.sizes, terms.values, terms.numbers
    operands, operand, levels = program.first, program.operand, program.level
    arg_first, args = program.arg_first, program.args
    for c in range(len(parent)):
        shape = sizes[axes[c] : axes[c + 1]]
        out = table[offset[c] : offset[c] + cells[c]]
        out[0] = 0.0
        level, filled = -1, 1
        for k in range(operands[c], operands[c + 1]):
            if levels[k] > level:
                filled = _spread(out, filled, shape[level + 1 : levels[k] + 1])
                level = levels[k]
            o = operand[k]
            row = args[arg_first[k] : arg_first[k] + level + 1]
            if o < n_tables:
                add_table(out, shape, row, values, base[o], counter)
            elif o >= n_terms:
                add_table(out, shape, row, message, first[o - n_terms], counter)
            elif weight[o - n_tables] != 0:
                w = weight[o - n_tables]
                add_feature(out, shape, row, numbers, w, counter[0], counter[1], partial)
        _spread(out, filled, shape[level + 1 :])
        block = residual[c]
        if parent[c] < 0:
            if mode == MAXIMUM:
                most = out[0]
                for i in range(1, len(out)):
                    most = max(most, out[i])
                result += most
            else:
                result += sum_whole(out, mode == MARGINALS)
            continue
        sent = message[first[c] : first[c] + cells[c] // block]
        if mode == MAXIMUM:
            max_residual(out, block, sent)
        else:
            sum_residual(out, block, sent, mode == MARGINALS, chunk)
    return result


@inner
def _room_for_table(tree):
    """Return memory for the largest table."""
    largest = 1
    for c in range(len(tree.cells)):
        largest = max(largest, tree.cells[c])
    return np.empty(largest)


@inner
def backward(tree, program, terms, work, marginal_first, marginals):
    """Turn the conditionals that `forward` left into joint probabilities, from the roots down."""
    n_terms = len(terms.first) - 1
    room = _room_for_table(tree)
    table, offset, message, counter = work.table, work.offset, work.message, work.counter
    parent, cells, residual, message_first = (
        tree.parent,
        tree.cells,
        tree.residual,
        tree.message_first,
    )
    first, sizes, var = tree.first, tree.sizes, tree.var
    operands, operand = program.first, program.operand
    arg_first, args = program.arg_first, program.args
    for c in range(len(parent) - 1, -1, -1):
        shape = sizes[first[c] : first[c + 1]]
        out = table[offset[c] : offset[c] + cells[c]]
        width = cells[c] // residual[c]
        if parent[c] >= 0:
            p = message[message_first[c] : message_first[c] + width]
            for low in range(0, len(out), width):
                row = out[low : low + width]
                for j in range(len(row)):
                    row[j] *= p[j]
        for k in range(operands[c], operands[c + 1]):
            child = operand[k] - n_terms
            if child >= 0:
                low = message_first[child]
                sent = message[low : low + cells[child] // residual[child]]
                for s in range(len(sent)):
                    sent[s] = 0.0
                row = args[arg_first[k] : arg_first[k + 1]]
                gather(out, shape, row, sent, room, counter)
        read_marginals(out, shape, width, var[first[c] :], marginal_first, marginals)


@inner
def read_marginals(table, shape, width, var, marginal_first, marginals):
    """Sum the table of a clique to the marginals of the variables that it eliminates."""
    inside = len(table)
    d = 0
    while inside > width:
        states = shape[d]
        inside //= states
        start = marginal_first[var[d]]
        to = marginals[start : start + states]
        for x in range(states):
            to[x] = 0.0
        for i in range(len(table) // (states * inside)):
            for x in range(states):
                low = (i * states + x) * inside
                to[x] += total_of(table[low : low + inside])
        d += 1


@inner
def best_of(part):
    """Return the position of the largest value."""
    chosen = 0
    for j in range(1, len(part)):
        if part[j] > part[chosen]:
            chosen = j
    return chosen


@inner
def drawn_from(part, u):
    """Draw a position with the given probabilities, by a uniform random number."""
    last = 0
    for j in range(len(part)):
        if part[j] > 0:
            last = j
            u -= part[j]
            if u < 0:
                return j
    return last


@inner
def trace(tree, work, uniform, states):
    """Choose the states of all free variables, from the roots down, in the rows of `states`.

    With random numbers in `uniform` (rows by cliques) they are drawn from the conditionals that
    `forward` left in mode MARGINALS; without any they maximise the values of mode MAXIMUM.
    """
    table, offset, cells, residual = work.table, work.offset, tree.cells, tree.residual
    first, sizes, var = tree.first, tree.sizes, tree.var
    for r in range(len(states)):
        for c in range(len(cells) - 1, -1, -1):
            width = cells[c] // residual[c]
            own = first[c + 1]  # moves to where the separator starts
            left, at, times = width, 0, 1
            while left > 1:
                own -= 1
                at += times * states[r, var[own]]
                times *= sizes[own]
                left //= sizes[own]
            if own == first[c]:  # nothing to choose
                continue
            low = offset[c]
            part = table[low + at : low + cells[c] : width]
            chosen = best_of(part) if uniform.shape[1] == 0 else drawn_from(part, uniform[r, c])
            for e in range(own - 1, first[c] - 1, -1):
                states[r, var[e]] = chosen % sizes[e]
                chosen //= sizes[e]


@inner
def _expectations(tree, program, terms, given, work, shares, means):
    """Set the expectation of each term, after `backward`.

    `shares` receives the probability of each cell of the tables that agrees with the evidence, and
    `means` the mean of each feature. The clique tables are summed axis by axis, the last one first, in
    the opposite order to `forward`.
    """
    n_tables, n_terms = len(terms.bases), len(terms.first) - 1
    for t in range(n_tables):  # a table without free variables has one cell
        shares[work.base[t]] = 1.0
    for t in range(n_tables, n_terms):  # the product of the tests of variables with evidence
        means[t - n_tables] = 1.0
        for e in range(program.given_first[t], program.given_first[t + 1]):
            state = given[program.given_slot[e]]
            means[t - n_tables] *= terms.numbers[program.given_arg[e] + state]
    room = _room_for_table(tree)
    for c in range(len(tree.parent)):
        shape = tree.sizes[tree.first[c] : tree.first[c + 1]]
        out = work.table[work.offset[c] : work.offset[c] + tree.cells[c]]
        level, filled = len(shape) - 1, len(out)
        for k in range(program.first[c + 1] - 1, program.first[c] - 1, -1):
            while level > program.level[k]:
                filled //= shape[level]
                sum_axis(out, filled, shape[level], 1, out)
                level -= 1
            o = program.operand[k]
            row = program.args[program.arg_first[k] : program.arg_first[k + 1]]
            if o < n_tables:
                to = shares[work.base[o] :]
                to[0] = 0.0
                gather(out[:filled], shape[: level + 1], row, to, room, work.counter)
            elif o < n_terms:
                counter = work.counter
                means[o - n_tables] *= sum_feature(
                    out, shape, row, terms.numbers, counter[0], counter[1], work.partial
                )


@compiled
def answer(
    tree: JunctionTree,
    program: Program,
    terms: Terms,
    given: Int2,
    mode: int,
    marginal_first: Int1,
    log_z: Float1,
    marginals: Float2,
    uniform: Float2,
    states: Int2,
    shares: Float1,
    means: Float1,
) -> None:
    """Answer each row of evidence: log Z and, depending on the mode, marginals, the best states or draws.

    `states` has as many rows for each row of evidence as `uniform` has rows of random numbers; there are
    no numbers in these rows if the best states are wanted. Mode EXPECTATIONS takes one row of evidence;
    besides the marginals it sets `shares` and `means` (see `_expectations`).
    """
    passed = mode
    if mode == DRAWS or mode == EXPECTATIONS:  # noqa: SIM109 - tuples take longer to compile
        passed = MARGINALS
    work = workspace_for(tree, terms, passed)
    count = len(uniform)
    for r in range(len(given)):
        set_evidence(program, terms, given[r], work)
        log_z[r] = forward(tree, program, terms, passed, work)
        if log_z[r] == -np.inf or mode == SUM:
            continue
        if passed == MARGINALS and mode != DRAWS:
            backward(tree, program, terms, work, marginal_first, marginals[r])
            if mode == EXPECTATIONS:
                _expectations(tree, program, terms, given[r], work, shares, means)
        else:
            trace(tree, work, uniform, states[r * count : (r + 1) * count])
