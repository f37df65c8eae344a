"""Sums of clique tables: other tables read through strides, features, and sums over axes.

A table is a flat array of cells, the last axis running fastest, with the sizes of its axes beside it.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import exp64, log1p64, sum_of
from conjoin.kernels.kernel import inner

CHUNK = 512
"""Number of cells that are exponentiated together, so that they stay in the cache."""
LOWEST = -708.0
"""Below this, e^x is not a normal number."""
LOG_2 = np.log(2)


@inner
def joined(sizes, strides, length, span, step):
    """Join neighbouring axes that can be read as one axis; return the number of axes left."""
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


@inner
def add_table(out, sizes, strides, values, base, scratch):
    """Add values[base + strides . state] to each cell of a table."""
    if len(strides) == 0:
        out[0] += values[base]
        return
    counter, span, step = scratch[0], scratch[1], scratch[2]
    last = joined(sizes, strides, len(strides), span, step) - 1
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


@inner
def add_feature(out, sizes, args, numbers, weight, state, index, value):
    """Add weight * product of the tests' numbers where that is not 0, in the order of the cells."""
    last, block = len(args) - 1, 1
    while last >= 0 and args[last] < 0:  # axes that the feature does not test
        block *= sizes[last]
        last -= 1
    if last < 0:
        for i in range(block):
            out[i] += weight
        return
    tested, states = args[last], sizes[last]
    d = 0
    state[0] = -1
    index[0] = 0
    value[0] = weight
    while d >= 0:
        if d == last:
            cell, product = index[d] * states * block, value[d]
            for s in range(states):
                factor = numbers[tested + s]
                if factor != 0:
                    for i in range(cell, cell + block):
                        out[i] += product * factor
                cell += block
            d -= 1
            continue
        state[d] += 1
        if state[d] == sizes[d]:
            d -= 1
            continue
        factor = 1.0 if args[d] < 0 else numbers[args[d] + state[d]]
        if factor != 0:
            index[d + 1] = index[d] * sizes[d] + state[d]
            value[d + 1] = value[d] * factor
            d += 1
            state[d] = -1


@inner
def sum_feature(table, sizes, args, numbers, state, index, value):
    """Sum a table's cells times the product of the tests' numbers."""
    last = len(args) - 1
    d = 0
    state[0] = -1
    index[0] = 0
    value[0] = 1.0
    result = 0.0
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
            result += table[cell] * value[d] * factor
        else:
            d += 1
            state[d] = -1
            index[d] = cell
            value[d] = value[d - 1] * factor
    return result


@inner
def total_of(values):
    """Sum numbers in pieces, so that millions of them lose no digits."""
    result = 0.0
    for low in range(0, len(values), 1024):
        result += sum_of(values[low : low + 1024])
    return result


@inner
def sum_axis(source, outer, size, inner, out):
    """Sum a table over an axis, with `outer` cells before it and `inner` after; `out` may be `source`."""
    for o in range(outer):
        start = o * size * inner
        to = out[o * inner : (o + 1) * inner]
        if inner == 1:
            to[0] = sum_of(source[start : start + size])
            continue
        first = source[start : start + inner]
        for j in range(inner):
            to[j] = first[j]
        for s in range(1, size):
            line = source[start + s * inner : start + (s + 1) * inner]
            for j in range(inner):
                to[j] += line[j]


@inner
def gather(table, sizes, strides, out, room, scratch):
    """Add a table, summed over the axes that `strides` does not reach or has a 0 for, to `out`.

    These axes are summed first, in `room`, line by line; the others are added cell by cell.
    """
    counter, span, step, whole, left = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    cells = len(table)
    inner = cells
    outer = 1
    axes = 0
    source = table
    for d in range(len(sizes)):
        inner //= sizes[d]
        if d < len(strides) and strides[d] != 0:
            left[axes] = sizes[d]
            whole[axes] = strides[d]
            axes += 1
            outer *= sizes[d]
        elif sizes[d] > 1:
            sum_axis(source, outer, sizes[d], inner, room)
            source = room
            cells //= sizes[d]
    if axes == 0:
        out[0] += source[0]
        return
    last = joined(left, whole, axes, span, step) - 1
    inner = span[last]
    stride = step[last]
    for d in range(last):
        counter[d] = 0
    at = 0
    cell = 0
    while cell < cells:
        if inner == 2:
            out[at] += source[cell]
            out[at + stride] += source[cell + 1]
        else:
            part = source[cell : cell + inner]
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


@inner
def exponentials(x):
    """Replace numbers that are not positive by their exponentials, in vector instructions."""
    for j in range(len(x)):
        v = x[j]
        x[j] = exp64(max(v, LOWEST)) if v > LOWEST else 0.0


@inner
def sum_whole(out, keep):
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
        exponentials(work)
        total += total_of(work)
    if keep:
        scale = 1 / total
        for j in range(len(out)):
            out[j] *= scale
    return top + np.log(total)


@inner
def max_residual(out, block, sent):
    """Maximise a table over its first axes, which have `block` joint states."""
    width = len(out) // block
    for j in range(width):
        sent[j] = out[j]
    for r in range(1, block):
        row = out[r * width : (r + 1) * width]
        for j in range(len(row)):
            sent[j] = max(sent[j], row[j])


@inner
def add_logs(sums, block, to):
    """Add the logarithms of sums, which are 0 or from 1 to `block`, in vector instructions.

    The sums are overwritten.
    """
    for j in range(len(sums)):
        to[j] = to[j] if sums[j] > 0 else -np.inf
    most = 2
    while most < block:
        for j in range(len(sums)):
            large = sums[j] > 2
            to[j] += LOG_2 if large else 0.0
            sums[j] *= 0.5 if large else 1.0
        most *= 2
    for j in range(len(sums)):
        to[j] += log1p64(max(sums[j] - 1.0, 0.0))


@inner
def sum_two(one, two, sent, keep):
    """Sum two lines of log-values; leave their shares of the sums if asked to.

    Only the smaller one needs an exponential.
    """
    for j in range(len(sent)):
        a, b = one[j], two[j]
        top, low = (a, b) if a > b else (b, a)
        possible = top > -np.inf
        less = low - top if possible else -np.inf
        ratio = exp64(max(less, LOWEST)) if less > LOWEST else 0.0
        sent[j] = top + log1p64(ratio)
        if keep:
            share = 1 / (1 + ratio) if possible else 0.0
            one[j] = share if a > b else ratio * share
            two[j] = ratio * share if a > b else share


@inner
def sum_residual(out, block, sent, keep, chunk):
    """Sum a table over its first axes, `block` joint states; leave conditionals if asked to."""
    top, total, work = chunk[0], chunk[1], chunk[2]
    width = len(out) // block
    if block == 1:
        for j in range(width):
            sent[j] = out[j]
        if keep:
            for j in range(width):
                out[j] = 1.0 if sent[j] > -np.inf else 0.0
        return
    if block == 2:
        sum_two(out[:width], out[width:], sent, keep)
        return
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
            exponentials(part)
            for j in range(size):
                sums[j] += part[j]
        if keep:
            scale = work[:size]
            for j in range(size):
                scale[j] = 1 / sums[j] if sums[j] > 0 else 0.0
            for r in range(block):
                row = out[r * width + low : r * width + low + size]
                for j in range(size):
                    row[j] *= scale[j]
        to = sent[low : low + size]
        for j in range(size):
            to[j] = best[j]
        add_logs(sums, block, to)
