"""Answers for rows with holes, each row with holes of its own.

What a row knows is put into the features; those that are left speak of its free variables only and fall
into components. A component of few joint states is enumerated, a larger one is reported, or sampled.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.gibbs import holds
from conjoin.kernels.jit import compiled
from conjoin.kernels.random import STEP, scatter, uniform

MARGINALS, MODES, DRAWS = 0, 1, 2
DONE, LARGE, IMPOSSIBLE = 0, 1, 2
ICM_SWEEPS = 1000


@compiled
def root_of(parent, v):
    """Follow a chain of parents to its end, and shorten it."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@compiled
def reduce_row(row, cards, test_var, mask, ptr, test, weight, truth, parent, left_ptr, left_test,
               left_weight, bucket, key, stamp, number):  # fmt: skip
    """Put the known values of a row into the features.

    Returns how many are left, and the sum of those that hold for sure. What is left of each is written
    to `left_*`, equal ones once, and `parent` links the free variables that share one. `bucket`, `key`
    and `stamp` are a hash table; what bears the stamp `number` is of this row.
    """
    room = np.uint64(len(bucket) - 1)
    for v in range(len(cards)):
        parent[v] = v
    for t in range(len(test_var)):
        state = np.int64(row[test_var[t]])
        if state >= cards[test_var[t]]:
            truth[t] = 2
        else:
            truth[t] = 1 if holds(t, state, mask) else 0
    count, end, sure = 0, 0, 0.0
    for f in range(len(weight)):
        start = end
        alive = True
        mine = np.uint64(0)
        for e in range(ptr[f], ptr[f + 1]):
            known = truth[test[e]]
            if known == 0:
                alive = False
                break
            if known == 2:
                left_test[end] = test[e]
                mine += scatter(STEP * np.uint64(test[e] + 1))
                end += 1
        if not alive:
            end = start
        elif end == start:
            sure += weight[f]
        else:
            at = (mine ^ (mine >> np.uint64(32))) & room
            while stamp[at] == number and key[at] != mine:
                at = (at + np.uint64(1)) & room
            if stamp[at] == number:
                left_weight[bucket[at]] += weight[f]
                end = start
                continue
            stamp[at] = number
            key[at] = mine
            bucket[at] = count
            left_weight[count] = weight[f]
            count += 1
            left_ptr[count] = end
            first = root_of(parent, test_var[left_test[start]])
            for k in range(start + 1, end):
                parent[root_of(parent, test_var[left_test[k]])] = first
    return count, sure


@compiled
def fill_table(table, members, stride, cards, features, ptr, test, weight, test_var, mask, place,
               digit, first, allowed, number):  # fmt: skip
    """Sum the features of a component over its joint states, the last member fastest."""
    size = len(members)
    for f in features:
        for k in range(size):
            first[k] = -1
        for e in range(ptr[f], ptr[f + 1]):
            first[place[test_var[test[e]]]] = test[e]
        for k in range(size):
            count = 0
            for s in range(cards[members[k]]):
                if first[k] < 0 or holds(first[k], s, mask):
                    allowed[k, count] = s
                    count += 1
            number[k] = count
            digit[k] = 0
        last = size - 1
        base = 0
        for k in range(last):
            base += allowed[k, 0] * stride[k]
        while True:
            for j in range(number[last]):
                table[base + allowed[last, j]] += weight[f]
            k = last - 1
            while k >= 0:
                base -= allowed[k, digit[k]] * stride[k]
                digit[k] += 1
                if digit[k] < number[k]:
                    base += allowed[k, digit[k]] * stride[k]
                    break
                digit[k] = 0
                base += allowed[k, 0] * stride[k]
                k -= 1
            if k < 0:
                break


@compiled
def logits_of(v, state, cards, column_ptr, column, ptr, test, weight, test_var, mask, out):
    """Sum the features that enter the log-odds of a variable, given the states of the others."""
    for s in range(cards[v]):
        out[s] = 0.0
    for c in range(column_ptr[v], column_ptr[v + 1]):
        f = column[c]
        own = -1
        alive = True
        for e in range(ptr[f], ptr[f + 1]):
            t = test[e]
            if test_var[t] == v:
                own = t
            elif not holds(t, state[test_var[t]], mask):
                alive = False
                break
        if alive:
            for s in range(cards[v]):
                if holds(own, s, mask):
                    out[s] += weight[f]


@compiled
def draw_state(logits, card, beta, u):
    """Turn log-odds into probabilities, in place, and draw a state."""
    top = logits[0]
    for s in range(1, card):
        top = max(top, logits[s])
    total = 0.0
    for s in range(card):
        logits[s] = np.exp(beta * (logits[s] - top))
        total += logits[s]
    for s in range(card):
        logits[s] /= total
    drawn = 0
    while drawn < card - 1 and u >= logits[drawn]:
        u -= logits[drawn]
        drawn += 1
    return drawn


@compiled
def columns(members, features, ptr, test, test_var, column_ptr, column):
    """List the features that test each member: a variable's are `column[column_ptr[v]:...]`."""
    for v in members:
        column_ptr[v] = 0
        column_ptr[v + 1] = 0
    at = 0
    for v in members:  # ascending
        column_ptr[v] = at
        for f in features:
            for e in range(ptr[f], ptr[f + 1]):
                if test_var[test[e]] == v:
                    column[at] = f
                    at += 1
        column_ptr[v + 1] = at


@compiled
def score_of(state, features, ptr, test, weight, test_var, mask):
    """Sum the features that hold in a state."""
    total = 0.0
    for f in features:
        alive = True
        for e in range(ptr[f], ptr[f + 1]):
            if not holds(test[e], state[test_var[test[e]]], mask):
                alive = False
                break
        if alive:
            total += weight[f]
    return total


@compiled
def sample_component(mode, members, features, cards, ptr, test, weight, test_var, mask, slot,
                     column_ptr, column, counter, burn_in, sweeps, thin, starts, logits, state,
                     marginals, draws):  # fmt: skip
    """Answer for a component by Gibbs sweeps; for its mode by annealing, then climbing."""
    columns(members, features, ptr, test, test_var, column_ptr, column)
    best = np.empty(len(members), np.int64)
    top = -np.inf
    total = burn_in + (sweeps if mode == MARGINALS else thin * len(draws) if mode == DRAWS else 0)
    for _ in range(starts if mode == MODES else 1):
        for v in members:
            counter += STEP
            state[v] = min(cards[v] - 1, np.int64(uniform(counter) * cards[v]))
        for sweep in range(total):
            beta = 1.0
            if mode == MODES:
                beta = 0.2 * 25.0 ** (sweep / max(1, total - 1))  # from 0.2 to 5
            for v in members:
                logits_of(v, state, cards, column_ptr, column, ptr, test, weight, test_var, mask,
                          logits)  # fmt: skip
                counter += STEP
                state[v] = draw_state(logits, cards[v], beta, uniform(counter))
                if mode == MARGINALS and sweep >= burn_in:
                    for s in range(cards[v]):
                        marginals[slot[v] + s] += logits[s] / sweeps
            if mode == DRAWS and sweep >= burn_in and (sweep - burn_in) % thin == thin - 1:
                for v in members:
                    draws[(sweep - burn_in) // thin, v] = state[v]
        if mode == MODES:
            for _ in range(ICM_SWEEPS):
                moved = False
                for v in members:
                    logits_of(v, state, cards, column_ptr, column, ptr, test, weight, test_var,
                              mask, logits)  # fmt: skip
                    better = np.argmax(logits[: cards[v]])
                    if logits[better] > logits[state[v]]:
                        state[v] = better
                        moved = True
                if not moved:
                    break
            score = score_of(state, features, ptr, test, weight, test_var, mask)
            if score > top:
                top = score
                for k in range(len(members)):
                    best[k] = state[members[k]]
    if mode == MODES:
        for k in range(len(members)):
            draws[0, members[k]] = best[k]


@compiled
def read_table(mode, table, members, stride, cards, slot, breaking, counter, marginals, draws):
    """Answer from the log-values of all joint states; return their log-sum, NaN if none is possible."""
    where = np.argmax(table)
    top = table[where]
    if top < breaking:
        return np.nan
    total = 0.0
    for c in range(len(table)):
        table[c] = np.exp(table[c] - top)
        total += table[c]
    if mode == MARGINALS:
        for c in range(len(table)):
            p = table[c] / total
            for k in range(len(members)):
                v = members[k]
                marginals[slot[v] + c // stride[k] % cards[v]] += p
        return top + np.log(total)
    for d in range(1 if mode == MODES else len(draws)):
        cell = np.int64(where)
        if mode == DRAWS:
            counter += STEP
            u = uniform(counter) * total
            cell = np.int64(0)
            while cell < len(table) - 1 and u >= table[cell]:
                u -= table[cell]
                cell += 1
        for k in range(len(members)):
            draws[d, members[k]] = cell // stride[k] % cards[members[k]]
    return top + np.log(total)


@compiled
def complete_rows(
    mode, rows, counters, wanted, cards, slot, test_var, mask, ptr, test, weight, breaking, limit,
    sampling, burn_in, sweeps, thin, starts, status, log_sum, marginals, draws,
):  # fmt: skip
    """Answer for the free variables of rows: those whose code is not a state.

    Parameters
    ----------
    mode : int
        MARGINALS, MODES or DRAWS.
    rows : array of uint16, shape (rows, variables)
        The rows; variables with one state must be known.
    counters : array of uint64
        Where the random numbers of each row start.
    wanted : array of bool
        Components without such a variable are left out.
    slot : array of int
        Where the states of a variable begin in `marginals`.
    test_var, mask, ptr, test, weight : arrays
        The features.
    breaking : float
        A log-value below this one stands for -inf.
    limit : int
        Up to how many joint states a component is enumerated.
    sampling : bool
        Sample larger ones, with so many `burn_in` sweeps and `sweeps` that count, `thin` from draw to
        draw, `starts` for a mode; otherwise report such a row as LARGE.
    status : array of int8
        DONE, LARGE or IMPOSSIBLE, for each row.
    log_sum : array of float
        The logarithm of the sum of the potentials of all instances that agree with a row; NaN where a
        part was sampled or left out.
    marginals : array of float, shape (rows, states)
        For MARGINALS: zeros before.
    draws : array of uint16, shape (rows, draws, variables)
        For MODES (one) and DRAWS: the rows, with free variables filled in.
    """
    n = len(cards)
    truth = np.empty(len(test_var), np.uint8)
    parent = np.empty(n, np.int64)
    left_ptr = np.zeros(len(weight) + 1, np.int64)
    left_test = np.empty(len(test), np.int64)
    left_weight = np.empty(len(weight))
    room = 16
    while room < 2 * len(weight):
        room *= 2
    bucket, stamp = np.empty(room, np.int64), np.full(room, -1, np.int64)
    key = np.empty(room, np.uint64)
    order = np.empty(len(weight), np.int64)
    members = np.empty(n, np.int64)
    stride = np.empty(n, np.int64)
    place = np.empty(n, np.int64)
    digit, first, number = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    widest = np.int64(1)
    for v in range(n):
        widest = max(widest, cards[v])
    allowed = np.empty((n, widest), np.int64)
    logits = np.empty(widest)
    table = np.empty(limit)
    state = np.zeros(n, np.int64)
    column_ptr = np.zeros(n + 1, np.int64)
    column = np.empty(len(test) if sampling else 0, np.int64)
    for r in range(len(rows)):
        row = rows[r]
        count, sure = reduce_row(row, cards, test_var, mask, ptr, test, weight, truth, parent,
                                 left_ptr, left_test, left_weight, bucket, key, stamp, r)  # fmt: skip
        status[r] = DONE
        total = sure
        if sure < breaking:
            status[r] = IMPOSSIBLE
            continue
        counter = counters[r]
        for v in range(n):
            if row[v] < cards[v] or root_of(parent, v) != v:
                continue
            size, states, asked = 0, 1, False
            for w in range(n):
                if row[w] >= cards[w] and root_of(parent, w) == v:
                    members[size] = w
                    place[w] = size
                    size += 1
                    asked = asked or wanted[w]
                    if states <= limit:
                        states *= cards[w]
            if not asked:
                total = np.nan
                continue
            mine = 0
            for f in range(count):
                if root_of(parent, test_var[left_test[left_ptr[f]]]) == v:
                    order[mine] = f
                    mine += 1
            counter += STEP * np.uint64(1 << 32)
            if states > limit:
                if not sampling:
                    status[r] = LARGE
                    break
                total = np.nan
                sample_component(
                    mode, members[:size], order[:mine], cards, left_ptr, left_test, left_weight,
                    test_var, mask, slot, column_ptr, column, counter, burn_in, sweeps, thin,
                    starts, logits, state, marginals[r], draws[r],
                )  # fmt: skip
                continue
            step = 1
            for k in range(size - 1, -1, -1):
                stride[k] = step
                step *= cards[members[k]]
            table[:states] = 0.0
            fill_table(table, members[:size], stride, cards, order[:mine], left_ptr, left_test,
                       left_weight, test_var, mask, place, digit, first, allowed, number)  # fmt: skip
            found = read_table(mode, table[:states], members[:size], stride, cards, slot, breaking,
                               counter, marginals[r], draws[r])  # fmt: skip
            if np.isnan(found):
                status[r] = IMPOSSIBLE
                break
            total += found
        log_sum[r] = total
