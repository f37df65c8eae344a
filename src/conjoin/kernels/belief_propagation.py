"""Belief propagation over tables and features; a feature's messages cost its length.

Messages are log-values with maximum 0, one number a state for every entry of an operand. For every
variable and state the sum of the finite messages is kept, and how many are -inf, so that taking one
out again is exact with hard zeros too.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled, inner


@inner
def _cavity(e, v, card, first, slot, sums, zeros, messages, out):
    """Write what a variable says to an operand: its messages but the operand's own."""
    for s in range(card[v]):
        own = messages[slot[e] + s]
        if own == -np.inf:
            out[s] = -np.inf if zeros[first[v] + s] > 1 else sums[first[v] + s]
        else:
            out[s] = -np.inf if zeros[first[v] + s] > 0 else sums[first[v] + s] - own


@inner
def _normalized(values, n, maximise):
    """Scale log-values to sum to 1, as probabilities, or to a maximum of 0; return the log of it."""
    top = -np.inf
    for s in range(n):
        top = max(top, values[s])
    if top == -np.inf:
        return top
    if maximise:
        for s in range(n):
            values[s] -= top
        return top
    total = 0.0
    for s in range(n):
        values[s] = np.exp(values[s] - top)
        total += values[s]
    for s in range(n):
        values[s] /= total
    return top + np.log(total)


@inner
def _mixture(weight, p):
    """Return log((1 - p) + p exp(weight))."""
    if weight <= 0:
        inside = (1 - p) + p * np.exp(weight)
        return np.log(inside) if inside > 0 else -np.inf
    return weight + np.log(p + (1 - p) * np.exp(-weight))


@inner
def _feature_messages(low, high, weight, var, arg, numbers, card, where, incoming, work, new, slot):
    """Messages of a conjunction: exp(weight) where all tests hold, else 1. Returns its log-norm."""
    count = high - low
    for i in range(count):  # the probability of each test under the incoming messages
        e = low + i
        p = 0.0
        for s in range(card[var[e]]):
            p += incoming[where[i] + s] * numbers[arg[e] + s]
        work[0, i] = min(p, 1.0)
    work[1, 0] = 1.0
    for i in range(count):
        work[1, i + 1] = work[1, i] * work[0, i]
    after = 1.0
    for i in range(count - 1, -1, -1):
        e = low + i
        inside = _mixture(weight, work[1, i] * after)
        for s in range(card[var[e]]):
            new[slot[e] + s] = inside if numbers[arg[e] + s] != 0 else 0.0
        after *= work[0, i]
    return _mixture(weight, after)


@inner
def _soft_messages(low, high, weight, var, arg, numbers, card, where, incoming, work, new, slot):
    """Messages of exp(weight * product of numbers), by the power series of the exponential.

    The m-th power of a product is the product of m-th powers, so each term is a product again.
    """
    count = high - low
    norm = 0.0
    for i in range(count):
        e = low + i
        for s in range(card[var[e]]):
            new[slot[e] + s] = 0.0
    scale = 1.0
    terms = int(3 * abs(weight)) + 25
    for m in range(terms):
        if m:
            scale *= weight / m
        work[1, 0] = 1.0
        for i in range(count):
            e = low + i
            p = 0.0
            for s in range(card[var[e]]):
                p += incoming[where[i] + s] * numbers[arg[e] + s] ** m
            work[0, i] = p
            work[1, i + 1] = work[1, i] * p
        after = 1.0
        for i in range(count - 1, -1, -1):
            e = low + i
            rest = scale * work[1, i] * after
            for s in range(card[var[e]]):
                new[slot[e] + s] += rest * numbers[arg[e] + s] ** m
            after *= work[0, i]
        norm += scale * after
    for i in range(count):
        e = low + i
        for s in range(card[var[e]]):
            new[slot[e] + s] = np.log(max(new[slot[e] + s], 1e-300))
    return np.log(max(norm, 1e-300))


@inner
def _feature_maxima(low, high, weight, var, arg, numbers, card, where, incoming, work, new, slot):
    """Max-messages of a conjunction."""
    count = high - low
    inside = 0.0  # the best with all tests true
    barred = 0  # tests that cannot be true
    first = -np.inf  # the best with a test broken, and the best but for that test
    second = -np.inf
    breaker = -1
    for i in range(count):
        e = low + i
        work[0, i] = -np.inf
        broken = -np.inf
        for s in range(card[var[e]]):
            if numbers[arg[e] + s] != 0:
                work[0, i] = max(work[0, i], incoming[where[i] + s])
            else:
                broken = max(broken, incoming[where[i] + s])
        if work[0, i] == -np.inf:
            barred += 1
        else:
            inside += work[0, i]
        if broken > first:
            first, second, breaker = broken, first, i
        else:
            second = max(second, broken)
    for i in range(count):
        e = low + i
        others = inside
        others_barred = barred
        if work[0, i] == -np.inf:
            others_barred -= 1
        else:
            others -= work[0, i]
        best = second if i == breaker else first
        if others_barred == 0:
            best = max(best, weight + others)
        for s in range(card[var[e]]):
            new[slot[e] + s] = best if numbers[arg[e] + s] != 0 else 0.0


@inner
def _table_messages(
    low, high, base, var, arg, values, card, where, incoming, counter, new, slot, maximise
):
    """Messages of a table, from all its cells."""
    count = high - low
    for i in range(count):
        e = low + i
        counter[i] = 0
        for s in range(card[var[e]]):
            new[slot[e] + s] = -np.inf if maximise else 0.0
    top = 0.0
    if not maximise:  # sums are taken relative to the largest value
        top = -np.inf
        at = base
        while True:
            top = max(top, values[at])
            d = count - 1
            while d >= 0:
                e = low + d
                counter[d] += 1
                at += arg[e]
                if counter[d] < card[var[e]]:
                    break
                at -= arg[e] * card[var[e]]
                counter[d] = 0
                d -= 1
            if d < 0:
                break
    at = base
    norm = 0.0
    while True:
        if maximise:
            for i in range(count):
                rest = values[at]
                for j in range(count):
                    if j != i:
                        rest += incoming[where[j] + counter[j]]
                to = slot[low + i] + counter[i]
                new[to] = max(new[to], rest)
        elif values[at] > -np.inf:
            cell = np.exp(values[at] - top)
            for i in range(count):
                rest = cell
                for j in range(count):
                    if j != i:
                        rest *= incoming[where[j] + counter[j]]
                new[slot[low + i] + counter[i]] += rest
                if i == 0:
                    norm += rest * incoming[where[0] + counter[0]]
        d = count - 1
        while d >= 0:
            e = low + d
            counter[d] += 1
            at += arg[e]
            if counter[d] < card[var[e]]:
                break
            at -= arg[e] * card[var[e]]
            counter[d] = 0
            d -= 1
        if d < 0:
            break
    if maximise:
        return 0.0
    for i in range(count):
        e = low + i
        for s in range(card[var[e]]):
            v = new[slot[e] + s]
            new[slot[e] + s] = np.log(v) if v > 0 else -np.inf
    return top + np.log(norm) if norm > 0 else -np.inf


@compiled
def propagate(
    operands,
    soft,
    maximise,
    damping,
    max_updates,
    tolerance,
    first,
    slot,
    messages,
    sums,
    zeros,
    norms,
):
    """Update the messages of operands, those with the largest residuals first.

    The residual of an operand is how far the beliefs of its variables moved since it was last updated;
    each round takes the operands within a factor of the largest.

    Returns
    -------
    updates : int
        How many operands were updated.
    residual : float
        The largest residual that is left; infinite if a variable has no possible state.
    """
    card, indptr, var, arg, n_tables, values, bases, weights, numbers = operands
    n_ops = len(indptr) - 1
    longest = 1
    space = 1
    for o in range(n_ops):
        longest = max(longest, indptr[o + 1] - indptr[o])
        width = 0
        for e in range(indptr[o], indptr[o + 1]):
            width += card[var[e]]
        space = max(space, width)
    where = np.empty(longest, np.int64)
    counter = np.empty(longest, np.int64)
    incoming = np.empty(space)
    work = np.empty((2, longest + 1))
    new = np.empty(len(messages))
    # The operands of each variable.
    listed_first = np.zeros(len(card) + 1, np.int64)
    for e in range(len(var)):
        listed_first[var[e] + 1] += 1
    for v in range(len(card)):
        listed_first[v + 1] += listed_first[v]
    filled = listed_first[:-1].copy()
    listed = np.empty(len(var), np.int64)
    for o in range(n_ops):
        for e in range(indptr[o], indptr[o + 1]):
            listed[filled[var[e]]] = o
            filled[var[e]] += 1
    residual = np.full(n_ops, np.inf)
    updates = 0
    while updates < max_updates:
        largest = 0.0
        for o in range(n_ops):
            largest = max(largest, residual[o])
        if largest < tolerance:
            return updates, largest
        threshold = max(tolerance, 0.3 * largest) if largest < np.inf else np.inf
        for o in range(n_ops):
            if residual[o] < threshold:
                continue
            residual[o] = 0.0
            updates += 1
            low, high = indptr[o], indptr[o + 1]
            at = 0
            for i in range(high - low):
                v = var[low + i]
                where[i] = at
                part = incoming[at : at + card[v]]
                _cavity(low + i, v, card, first, slot, sums, zeros, messages, part)
                if _normalized(part, card[v], maximise) == -np.inf:
                    return updates, np.inf
                at += card[v]
            if o < n_tables:
                norms[o] = _table_messages(
                    low, high, bases[o], var, arg, values, card, where, incoming, counter, new,
                    slot, maximise,
                )  # fmt: skip
            elif maximise:
                _feature_maxima(
                    low, high, weights[o - n_tables], var, arg, numbers, card, where, incoming,
                    work, new, slot,
                )  # fmt: skip
            elif soft[o - n_tables]:
                norms[o] = _soft_messages(
                    low, high, weights[o - n_tables], var, arg, numbers, card, where, incoming,
                    work, new, slot,
                )  # fmt: skip
            else:
                norms[o] = _feature_messages(
                    low, high, weights[o - n_tables], var, arg, numbers, card, where, incoming,
                    work, new, slot,
                )  # fmt: skip
            for e in range(low, high):
                v = var[e]
                top = -np.inf
                for s in range(card[v]):
                    top = max(top, new[slot[e] + s])
                if top == -np.inf:
                    return updates, np.inf
                moved = 0.0
                damped = 0.0
                for s in range(card[v]):
                    old = messages[slot[e] + s]
                    value = new[slot[e] + s] - top
                    if value > -np.inf and old > -np.inf:
                        value = (1 - damping) * value + damping * old
                        damped = max(damped, abs(value - old))
                        sums[first[v] + s] += value - old
                    elif value > -np.inf:
                        zeros[first[v] + s] -= 1
                        sums[first[v] + s] += value
                        moved = np.inf
                    elif old > -np.inf:
                        zeros[first[v] + s] += 1
                        sums[first[v] + s] -= old
                        moved = np.inf
                    messages[slot[e] + s] = value
                moved = max(moved, damped)
                residual[o] = max(residual[o], damped * damping / (1 - damping))
                if moved > 0:
                    moved = min(moved, 1e9)
                    for i in range(listed_first[v], listed_first[v + 1]):
                        other = listed[i]
                        if other != o:
                            residual[other] = max(residual[other], moved)
    largest = 0.0
    for o in range(n_ops):
        largest = max(largest, residual[o])
    return updates, largest


@compiled
def bethe(operands, first, slot, messages, sums, zeros, norms):
    """Return the Bethe estimate of log Z at a fixed point."""
    card, indptr, var = operands[:3]
    result = 0.0
    widest = 0
    for v in range(len(card)):
        widest = max(widest, card[v])
    work = np.empty(widest)
    for v in range(len(card)):
        for s in range(card[v]):
            work[s] = sums[first[v] + s] if zeros[first[v] + s] == 0 else -np.inf
        result += _normalized(work, card[v], False)
    for o in range(len(indptr) - 1):
        result += norms[o]
        for e in range(indptr[o], indptr[o + 1]):
            v = var[e]
            _cavity(e, v, card, first, slot, sums, zeros, messages, work)
            _normalized(work, card[v], False)
            joint = 0.0
            for s in range(card[v]):
                if messages[slot[e] + s] > -np.inf:
                    joint += work[s] * np.exp(messages[slot[e] + s])
            result -= np.log(joint)
    return result
