"""Messages over a junction tree: a flat program of table sums, run for many rows of evidence.

An *operand* is a table of log-values, read through strides, or a feature: a weight times one number
a test and state. Tables are built axis by axis: an operand whose last axis is the third is added
while the table has three axes, before it is spread over the others. All tables hold
log-values until a clique is summed; from then on it holds the probabilities of its residual given its
separator, so nothing underflows that matters.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import exp64
from conjoin.kernels.jit import compiled


@compiled
def schedule(
    indptr, var, arg, n_tables, used, place, clique_of, first, clique_var, parent, size, elim
):
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


@compiled
def _joined(sizes, strides, length, span, step):
    """Make runs of axes that are read as one into one; return how many axes are left."""
    count = 0
    for d in range(length):
        if count and step[count - 1] == strides[d] * sizes[d]:
            span[count - 1] *= sizes[d]
            step[count - 1] = strides[d]
        else:
            span[count] = sizes[d]
            step[count] = strides[d]
            count += 1
    return count


@compiled
def _add_table(out, sizes, strides, values, base, scratch):
    """Add values[base + strides . state] to each cell of a table."""
    counter, span, step = scratch[0], scratch[1], scratch[2]
    last = _joined(sizes, strides, len(strides), span, step) - 1
    inner = span[last]
    stride = step[last]
    for d in range(last):
        counter[d] = 0
    at = base
    cell = 0
    while True:
        if inner == 2:
            out[cell] += values[at]
            out[cell + 1] += values[at + stride]
        elif stride == 1:
            part = out[cell : cell + inner]
            row = values[at : at + inner]
            for k in range(len(part)):
                part[k] += row[k]
        else:
            part = out[cell : cell + inner]
            for k in range(len(part)):
                part[k] += values[at + k * stride]
        cell += inner
        d = last - 1
        while d >= 0:
            counter[d] += 1
            at += step[d]
            if counter[d] < span[d]:
                break
            at -= step[d] * span[d]
            counter[d] = 0
            d -= 1
        if d < 0:
            return


@compiled
def _add_feature(out, sizes, args, numbers, weight, state, index, value):
    """Add weight * product of the tests' numbers where that is not 0, in the order of the cells."""
    last = len(args) - 1
    d = 0
    state[0] = -1
    index[0] = 0
    value[0] = weight
    while d >= 0:
        state[d] += 1
        if state[d] == sizes[d]:
            d -= 1
            continue
        factor = 1.0 if args[d] < 0 else numbers[args[d] + state[d]]
        if factor == 0:
            continue
        cell = index[d] * sizes[d] + state[d]
        if d == last:
            out[cell] += value[d] * factor
        else:
            d += 1
            state[d] = -1
            index[d] = cell
            value[d] = value[d - 1] * factor


@compiled
def _total(values):
    """Sum numbers in pieces, so that millions of them lose no digits."""
    result = 0.0
    for low in range(0, len(values), 1024):
        part = values[low : low + 1024]
        piece = 0.0
        for j in range(len(part)):
            piece += part[j]
        result += piece
    return result


@compiled
def _gather(table, sizes, strides, out, scratch):
    """Sum a table over the axes that `strides` does not reach or has a 0 for."""
    counter, span, step, whole = scratch[0], scratch[1], scratch[2], scratch[3]
    for d in range(len(sizes)):
        whole[d] = strides[d] if d < len(strides) else 0
    last = _joined(sizes, whole, len(sizes), span, step) - 1
    inner = span[last]
    stride = step[last]
    for d in range(last):
        counter[d] = 0
    at = 0
    cell = 0
    while True:
        part = table[cell : cell + inner]
        if stride == 0:
            out[at] += _total(part)
        elif stride == 1:
            to = out[at : at + inner]
            for k in range(len(part)):
                to[k] += part[k]
        else:
            for k in range(len(part)):
                out[at + k * stride] += part[k]
        cell += inner
        d = last - 1
        while d >= 0:
            counter[d] += 1
            at += step[d]
            if counter[d] < span[d]:
                break
            at -= step[d] * span[d]
            counter[d] = 0
            d -= 1
        if d < 0:
            return


CHUNK = 512
LOWEST = -708.0
"""Below this, e^x is no normal number."""


@compiled
def _exponentials(x):
    """Replace numbers that are not positive by their exponentials, in vector instructions."""
    for j in range(len(x)):
        v = x[j]
        x[j] = exp64(max(v, LOWEST)) if v > LOWEST else 0.0


@compiled
def _sum_whole(out, keep):
    """Return the logarithm of the sum of a whole table; leave probabilities if asked to."""
    top = out[0]
    for j in range(1, len(out)):
        top = max(top, out[j])
    if top == -np.inf:
        return top
    total = 0.0
    copy = np.empty(min(CHUNK, len(out)))
    for low in range(0, len(out), CHUNK):
        part = out[low : low + CHUNK]
        work = part if keep else copy[: len(part)]
        for j in range(len(part)):
            work[j] = part[j] - top
        _exponentials(work)
        total += _total(work)
    if keep:
        scale = 1 / total
        for j in range(len(out)):
            out[j] *= scale
    return top + np.log(total)


@compiled
def _sum_residual(out, block, sent, keep, top, total, work):
    """Sum a table over its first axes, `block` joint states; leave conditionals if asked to."""
    width = len(out) // block
    for low in range(0, width, CHUNK):
        size = min(CHUNK, width - low)
        best = top[:size]
        row = out[low : low + size]
        for j in range(size):
            best[j] = row[j]
        for r in range(1, block):
            row = out[r * width + low : r * width + low + size]
            for j in range(size):
                best[j] = max(best[j], row[j])
        for j in range(size):
            best[j] = best[j] if best[j] > -np.inf else 0.0
        sums = total[:size]
        for j in range(size):
            sums[j] = 0.0
        for r in range(block):
            row = out[r * width + low : r * width + low + size]
            part = row if keep else work[:size]
            for j in range(size):
                part[j] = row[j] - best[j]
            _exponentials(part)
            for j in range(size):
                sums[j] += part[j]
        to = sent[low : low + size]
        for j in range(size):
            to[j] = best[j] + np.log(sums[j])
        if keep:
            for j in range(size):
                sums[j] = 1 / sums[j] if sums[j] > 0 else 0.0
            for r in range(block):
                row = out[r * width + low : r * width + low + size]
                for j in range(size):
                    row[j] *= sums[j]


@compiled
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
                _add_table(out, shape, row, values, base[o], scratch)
            elif o < n_ops:
                if weight[o - n_tables] != 0:
                    w = weight[o - n_tables]
                    _add_feature(out, shape, row, numbers, w, scratch[0], scratch[1], partial)
            else:
                _add_table(out, shape, row, message, message_first[o - n_ops], scratch)
        block = residual[c]
        width = clique_size[c] // block
        if parent[c] < 0:
            if mode == 2:
                result += out.max()
            else:
                result += _sum_whole(out, mode == 1)
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
            _sum_residual(out, block, sent, mode == 1, top, total, work)
    return result


@compiled
def backward(tree, program, n_ops, offset, table, message, var, marginal_first, marginals):
    """Turn the conditionals that `forward` left into joint probabilities, from the roots down.

    `marginals` gets the probabilities of each free variable, read off in the clique that eliminates it.
    """
    first, sizes, residual, clique_size, message_first, parent = tree
    op_first, op_id, op_level, op_args, args = program[:5]
    scratch = np.empty((4, 64), np.int64)
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
                _gather(out, shape, row, sent, scratch)
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
                    to[x] += _total(out[start : start + inner])
            d += 1


@compiled
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
