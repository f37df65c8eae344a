"""Messages over a junction tree: a flat program of table sums, run for many rows of evidence.

An *operand* is a table of log-values, read through strides, or a feature: a weight times one number
a test and state. Tables are built axis by axis: an operand whose last axis is the third is added
while the table has three axes, before it is spread over the others. All tables hold
log-values until a clique is summed; from then on it holds the probabilities of its residual given its
separator, so nothing underflows that matters.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.clique_tables import (
    CHUNK,
    add_feature,
    add_table,
    gather,
    sum_axis,
    sum_feature,
    sum_residual,
    sum_whole,
    total_of,
)
from conjoin.kernels.jit import compiled, inner


@inner
def forward(tree, program, model, given, mode, offset, table, message, base, weight):
    """Send messages to the roots; return log Z of one row of evidence.

    Mode 0 sums and keeps no table; mode 1 sums and leaves in each clique the probabilities of its
    residual given its separator; mode 2 maximises and leaves log-values.
    """
    first, sizes, residual, clique_size, message_first, parent = tree
    op_first, op_id, op_level, op_args, args, given_first, given_slot, given_arg, loose = program
    values, bases, weights, numbers, n_tables = model
    n_ops = len(bases) + len(weights)
    for o in range(n_ops):
        low, high = given_first[o], given_first[o + 1]
        if o < n_tables:
            at = bases[o]
            for e in range(low, high):
                at += given_arg[e] * given[given_slot[e]]
            base[o] = at
        else:
            w = weights[o - n_tables]
            for e in range(low, high):
                factor = numbers[given_arg[e] + given[given_slot[e]]]
                w = w * factor if factor != 0 else 0.0
            weight[o - n_tables] = w
    result = 0.0
    for k in range(len(loose)):
        o = loose[k]
        result += values[base[o]] if o < n_tables else weight[o - n_tables]
    scratch = np.empty((4, 64), np.int64)
    partial = np.empty(64)
    top, total, work = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    for c in range(len(parent)):
        shape = sizes[first[c] : first[c + 1]]
        out = table[offset[c] : offset[c] + clique_size[c]]
        out[0] = 0.0
        level = -1
        filled = 1
        for k in range(op_first[c], op_first[c + 1] + 1):
            wanted = op_level[k] if k < op_first[c + 1] else len(shape) - 1
            if wanted > level:  # spread what there is over the next axes
                times = 1
                for d in range(level + 1, wanted + 1):
                    times *= shape[d]
                for i in range(filled - 1, -1, -1):
                    value = out[i]
                    part = out[i * times : (i + 1) * times]
                    for j in range(len(part)):
                        part[j] = value
                filled *= times
                level = wanted
            if k == op_first[c + 1]:
                break
            o = op_id[k]
            row = args[op_args[k] : op_args[k] + level + 1]
            if o < n_tables:
                add_table(out, shape, row, values, base[o], scratch)
            elif o < n_ops:
                if weight[o - n_tables] != 0:
                    w = weight[o - n_tables]
                    add_feature(out, shape, row, numbers, w, scratch[0], scratch[1], partial)
            else:
                add_table(out, shape, row, message, message_first[o - n_ops], scratch)
        block = residual[c]
        width = clique_size[c] // block
        if parent[c] < 0:
            if mode == 2:
                most = out[0]
                for i in range(1, len(out)):
                    most = max(most, out[i])
                result += most
            else:
                result += sum_whole(out, mode == 1)
            continue
        sent = message[message_first[c] : message_first[c] + width]
        if mode == 2:
            for j in range(width):
                sent[j] = out[j]
            for r in range(1, block):
                row = out[r * width : (r + 1) * width]
                for j in range(len(row)):
                    sent[j] = max(sent[j], row[j])
        else:
            sum_residual(out, block, sent, mode == 1, top, total, work)
    return result


@inner
def room_for(clique_size):
    """Return room for the largest table."""
    largest = 1
    for c in range(len(clique_size)):
        largest = max(largest, clique_size[c])
    return np.empty(largest)


@inner
def backward(tree, program, n_ops, offset, table, message, var, marginal_first, marginals):
    """Turn the conditionals that `forward` left into joint probabilities, from the roots down.

    `marginals` gets the probabilities of each free variable, read off in the clique that eliminates it.
    """
    first, sizes, residual, clique_size, message_first, parent = tree
    op_first, op_id, op_level, op_args, args = program[:5]
    scratch = np.empty((5, 64), np.int64)
    room = room_for(clique_size)
    for c in range(len(parent) - 1, -1, -1):
        shape = sizes[first[c] : first[c + 1]]
        out = table[offset[c] : offset[c] + clique_size[c]]
        block = residual[c]
        width = clique_size[c] // block
        if parent[c] >= 0:
            p = message[message_first[c] : message_first[c] + width]
            for r in range(block):
                row = out[r * width : (r + 1) * width]
                for j in range(len(row)):
                    row[j] *= p[j]
        for k in range(op_first[c], op_first[c + 1]):
            child = op_id[k] - n_ops
            if child >= 0:
                low = message_first[child]
                sent = message[low : low + clique_size[child] // residual[child]]
                for s in range(len(sent)):
                    sent[s] = 0.0
                row = args[op_args[k] : op_args[k] + op_level[k] + 1]
                gather(out, shape, row, sent, room, scratch)
        inner = clique_size[c]
        d = 0
        while inner > width:
            states = shape[d]
            inner //= states
            v = var[first[c] + d]
            to = marginals[marginal_first[v] : marginal_first[v] + states]
            for x in range(states):
                to[x] = 0.0
            for i in range(clique_size[c] // (states * inner)):
                for x in range(states):
                    start = (i * states + x) * inner
                    to[x] += total_of(out[start : start + inner])
            d += 1


@inner
def trace(tree, var, offset, table, uniform, states):
    """Choose the states of all free variables, from the roots down, in the rows of `states`.

    With random numbers in `uniform` (rows by cliques) they are drawn from the conditionals that
    `forward` left in mode 1; with none they are the best of the values that mode 2 left.
    """
    first, sizes, residual, clique_size, _, parent = tree
    for r in range(len(states)):
        for c in range(len(parent) - 1, -1, -1):
            block = residual[c]
            width = clique_size[c] // block
            own = first[c + 1]  # where the separator starts
            left = width
            at = 0
            times = 1
            while left > 1:
                own -= 1
                at += times * states[r, var[own]]
                times *= sizes[own]
                left //= sizes[own]
            part = table[offset[c] + at : offset[c] + clique_size[c] : width]
            chosen = 0
            if uniform.shape[1] == 0:
                for j in range(1, block):
                    if part[j] > part[chosen]:
                        chosen = j
            else:
                u = uniform[r, c]
                last = 0
                chosen = -1
                for j in range(block):
                    if part[j] > 0:
                        last = j
                        u -= part[j]
                        if u < 0:
                            chosen = j
                            break
                if chosen < 0:
                    chosen = last
            for e in range(own - 1, first[c] - 1, -1):
                states[r, var[e]] = chosen % sizes[e]
                chosen //= sizes[e]


@compiled
def answer(
    tree, program, model, given, mode, offset, space, var, marginal_first, log_z, marginals, states
):
    """Answer each row of evidence: log Z (mode 0), marginals too (1), or the best states (2)."""
    message_first, parent = tree[4], tree[5]
    bases, weights = model[1], model[2]
    table = np.empty(space)
    message = np.empty(message_first[len(parent)])
    base = np.empty(len(bases), np.int64)
    weight = np.empty(len(weights))
    none = np.empty((1, 0))
    for r in range(len(given)):
        log_z[r] = forward(
            tree, program, model, given[r], mode, offset, table, message, base, weight
        )
        if log_z[r] == -np.inf:
            continue
        if mode == 1:
            n_ops = len(bases) + len(weights)
            backward(
                tree, program, n_ops, offset, table, message, var, marginal_first, marginals[r]
            )
        elif mode == 2:
            trace(tree, var, offset, table, none, states[r : r + 1])


@compiled
def expectations(
    tree, program, model, given, offset, space, var, marginal_first, marginals, shares, means
):
    """Return log Z given one row of evidence, and what each operand can expect.

    `shares` gets the probability of each cell of the tables, where the evidence leaves it open, and
    `means` the mean of each feature. The clique tables are summed axis by axis, the last one first, as
    `forward` spread them.
    """
    first, sizes, _, clique_size, message_first, parent = tree
    op_first, op_id, op_level, op_args, args, given_first, given_slot, given_arg, _ = program
    bases, weights, numbers, n_tables = model[1], model[2], model[3], model[4]
    n_ops = len(bases) + len(weights)
    table = np.empty(space)
    message = np.empty(message_first[len(parent)])
    base = np.empty(len(bases), np.int64)
    weight = np.empty(len(weights))
    log_z = forward(tree, program, model, given, 1, offset, table, message, base, weight)
    if log_z == -np.inf:
        return log_z
    backward(tree, program, n_ops, offset, table, message, var, marginal_first, marginals)
    for o in range(n_tables):  # one that the evidence settles has one cell
        shares[base[o]] = 1.0
    for o in range(n_tables, n_ops):  # what the evidence makes of a feature
        means[o - n_tables] = 1.0
        for e in range(given_first[o], given_first[o + 1]):
            means[o - n_tables] *= numbers[given_arg[e] + given[given_slot[e]]]
    scratch = np.empty((5, 64), np.int64)
    partial = np.empty(64)
    room = room_for(clique_size)
    for c in range(len(parent)):
        shape = sizes[first[c] : first[c + 1]]
        out = table[offset[c] : offset[c] + clique_size[c]]
        level, filled = len(shape) - 1, clique_size[c]
        for k in range(op_first[c + 1] - 1, op_first[c] - 1, -1):
            while level > op_level[k]:
                filled //= shape[level]
                sum_axis(out, filled, shape[level], 1, out)
                level -= 1
            o = op_id[k]
            row = args[op_args[k] : op_args[k] + level + 1]
            if o < n_tables:
                to = shares[base[o] :]
                to[0] = 0.0
                gather(out[:filled], shape[: level + 1], row, to, room, scratch)
            elif o < n_ops:
                means[o - n_tables] *= sum_feature(
                    out, shape, row, numbers, scratch[0], scratch[1], partial
                )
    return log_z


@compiled
def draw(tree, program, model, given, offset, space, var, uniform, states):
    """Draw rows given one row of evidence; return log Z."""
    message_first, parent = tree[4], tree[5]
    bases, weights = model[1], model[2]
    table = np.empty(space)
    message = np.empty(message_first[len(parent)])
    base = np.empty(len(bases), np.int64)
    weight = np.empty(len(weights))
    log_z = forward(tree, program, model, given, 1, offset, table, message, base, weight)
    if log_z > -np.inf:
        trace(tree, var, offset, table, uniform, states)
    return log_z
