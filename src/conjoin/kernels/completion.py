"""Answers for rows with holes, each row with holes of its own.

What a row knows is put into the features; those that are left speak of its free variables only and fall
into components. The variables of a component are eliminated one by one if the tables for that are small;
otherwise it is reported, or sampled.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.buckets import DRAWS, MARGINALS, MODES, MOST, eliminate
from conjoin.kernels.gibbs_chain import holds
from conjoin.kernels.jit import compiled, inner
from conjoin.kernels.random_numbers import STEP, scatter, uniform

DONE, LARGE, IMPOSSIBLE = 0, 1, 2
ICM_SWEEPS = 1000


@inner
def root_of(parent, v):
    """Follow a chain of parents to its end, and shorten it."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@inner
def reduce_row(row, cards, test_var, mask, ptr, test, skip, weight, truth, parent, left_ptr, left_test,
               left_weight, bucket, key, stamp, number):  # fmt: skip
    """Put the known values of a row into the features.

    Where a test fails, `skip` is the next feature that does not begin with the same tests up to it.
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
    following = 0
    while following < len(weight):
        f = following
        following += 1
        start = end
        alive = True
        mine = np.uint64(0)
        for e in range(ptr[f], ptr[f + 1]):
            known = truth[test[e]]
            if known == 0:
                alive = False
                following = skip[e]
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


@inner
def columns(members, features, ptr, test, test_var, column_ptr, column):
    """List the features of each member with its tests, from column_ptr[v, 0] to column_ptr[v, 1]."""
    for v in members:
        column_ptr[v, 1] = 0
    for f in features:
        for e in range(ptr[f], ptr[f + 1]):
            column_ptr[test_var[test[e]], 1] += 1
    at = 0
    for v in members:
        count = column_ptr[v, 1]
        column_ptr[v] = at
        at += count
    for f in features:
        for e in range(ptr[f], ptr[f + 1]):
            v = test_var[test[e]]
            column[column_ptr[v, 1], 0] = f
            column[column_ptr[v, 1], 1] = test[e]
            column_ptr[v, 1] += 1


@inner
def add_weight(t, weight, test_var, cards, mask, fields):
    """Add a weight to the states in which a test holds."""
    v = test_var[t]
    for s in range(cards[v]):
        if holds(t, s, mask):
            fields[v, s] += weight


@inner
def settle(members, features, cards, ptr, test, weight, test_var, mask, state, failing, fields):
    """Count the failing tests of each feature, and sum for each state the features it would complete."""
    for v in members:
        fields[v, : cards[v]] = 0.0
    for f in features:
        failing[f] = 0
        for e in range(ptr[f], ptr[f + 1]):
            failing[f] += not holds(test[e], state[test_var[test[e]]], mask)
        for e in range(ptr[f], ptr[f + 1]):
            others = failing[f] - (not holds(test[e], state[test_var[test[e]]], mask))
            if others == 0:
                add_weight(test[e], weight[f], test_var, cards, mask, fields)


@inner
def move(v, new, cards, column_ptr, column, ptr, test, weight, test_var, mask, state, failing, fields,
         stale):  # fmt: skip
    """Give a variable another state; the fields of those that share a feature with it follow."""
    old = state[v]
    state[v] = new
    for c in range(column_ptr[v, 0], column_ptr[v, 1]):
        f, own = column[c, 0], column[c, 1]
        after = holds(own, new, mask)
        if holds(own, old, mask) == after:
            continue
        failing[f] += -1 if after else 1
        others = failing[f] - (not after)
        if others > 1:
            continue
        change = weight[f] if after else -weight[f]
        for e in range(ptr[f], ptr[f + 1]):
            t = test[e]
            u = test_var[t]
            if u != v and (others == 0 or not holds(t, state[u], mask)):
                add_weight(t, change, test_var, cards, mask, fields)
                stale[u] = True


@inner
def set_chances(field, beta, chances):
    """Turn log-odds into probabilities."""
    top = field[0]
    for s in range(1, len(chances)):
        top = max(top, field[s])
    total = 0.0
    for s in range(len(chances)):
        chances[s] = np.exp(beta * (field[s] - top))
        total += chances[s]
    for s in range(len(chances)):
        chances[s] /= total


@inner
def sample_component(mode, members, features, cards, ptr, test, weight, test_var, mask, slot,
                     column_ptr, column, failing, fields, chances, stale, counter, burn_in, sweeps,
                     thin, starts, state, marginals, draws):  # fmt: skip
    """Answer for a component by Gibbs sweeps; for its mode by annealing, then climbing."""
    columns(members, features, ptr, test, test_var, column_ptr, column)
    best = np.empty(len(members), np.int64)
    top = -np.inf
    total = burn_in + (sweeps if mode == MARGINALS else thin * len(draws) if mode == DRAWS else 0)
    for _ in range(starts if mode == MODES else 1):
        for v in members:
            counter += STEP
            state[v] = min(cards[v] - 1, np.int64(uniform(counter) * cards[v]))
            stale[v] = True
        settle(members, features, cards, ptr, test, weight, test_var, mask, state, failing, fields)
        for sweep in range(total):
            beta = 1.0
            if mode == MODES:
                beta = 5.0 ** (sweep / max(1, total - 1))  # from 1 to 5
            for v in members:
                if stale[v] or mode == MODES:
                    set_chances(fields[v], beta, chances[v, : cards[v]])
                    stale[v] = False
                counter += STEP
                u = uniform(counter)
                drawn = 0
                while drawn < cards[v] - 1 and u >= chances[v, drawn]:
                    u -= chances[v, drawn]
                    drawn += 1
                if drawn != state[v]:
                    move(v, drawn, cards, column_ptr, column, ptr, test, weight, test_var, mask,
                         state, failing, fields, stale)  # fmt: skip
                if mode == MARGINALS and sweep >= burn_in:
                    for s in range(cards[v]):
                        marginals[slot[v] + s] += chances[v, s] / sweeps
            if mode == DRAWS and sweep >= burn_in and (sweep - burn_in) % thin == thin - 1:
                for v in members:
                    draws[(sweep - burn_in) // thin, v] = state[v]
        if mode == MODES:
            for _ in range(ICM_SWEEPS):
                moved = False
                for v in members:
                    better = np.argmax(fields[v, : cards[v]])
                    if fields[v, better] > fields[v, state[v]] + 1e-9:
                        move(v, better, cards, column_ptr, column, ptr, test, weight, test_var, mask,
                             state, failing, fields, stale)  # fmt: skip
                        moved = True
                if not moved:
                    break
            score = 0.0
            for f in features:
                if failing[f] == 0:
                    score += weight[f]
            if score > top:
                top = score
                for k in range(len(members)):
                    best[k] = state[members[k]]
    if mode == MODES:
        for k in range(len(members)):
            draws[0, members[k]] = best[k]


@inner
def row_room(cards, test_var, test, weight):
    """Return room for what `reduce_row` and the search for components write, and the most states.

    The hash table among it has no stamp of a row yet.
    """
    n, features = len(cards), len(weight)
    size = 16
    while size < 2 * features:
        size *= 2
    stamp = np.empty(size, np.int64)
    for i in range(size):
        stamp[i] = -1
    widest = np.int64(1)
    for v in range(n):
        widest = max(widest, cards[v])
    truth = np.empty(len(test_var), np.uint8)
    parent, members, place = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    left = (np.zeros(features + 1, np.int64), np.empty(len(test), np.int64), np.empty(features))
    table = (np.empty(size, np.int64), np.empty(size, np.uint64), stamp)
    return truth, parent, members, place, left, table, np.empty(features, np.int64), widest


@inner
def component_of(row, cards, parent, v, members, place):
    """Write the free variables that are linked with v, and where each stands; return how many."""
    size = 0
    for w in range(len(cards)):
        if row[w] >= cards[w] and root_of(parent, w) == v:
            members[size] = w
            place[w] = size
            size += 1
    return size


@inner
def features_of(parent, v, count, test_var, left_ptr, left_test, order):
    """Write the features that test the component of v; return how many."""
    mine = 0
    for f in range(count):
        if root_of(parent, test_var[left_test[left_ptr[f]]]) == v:
            order[mine] = f
            mine += 1
    return mine


@compiled
def complete_rows(
    mode, rows, counters, wanted, cards, slot, test_var, mask, ptr, test, skip, weight, breaking,
    limit, status, left, log_sum, marginals, draws,
):  # fmt: skip
    """Answer for the free variables of rows, those whose code is not a state, by elimination.

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
    test_var, mask, ptr, test, skip, weight : arrays
        The features, sorted by their tests; see `reduce_row` for `skip`.
    breaking : float
        A log-value below this one stands for -inf.
    limit : int
        How many cells the tables may have by which a component is answered.
    status : array of int8
        DONE, LARGE (a component would take more) or IMPOSSIBLE, for each row.
    left : array of bool, shape (rows, variables)
        Set for the variables of components that would take more.
    log_sum : array of float
        The logarithm of the sum of the potentials of all instances that agree with a row; NaN where a
        part was left out.
    marginals : array of float, shape (rows, states)
        For MARGINALS: zeros before.
    draws : array of uint16, shape (rows, draws, variables)
        For MODES (one) and DRAWS: the rows, with free variables filled in.
    """
    n = len(cards)
    truth, parent, members, place, kept, table, order, widest = row_room(
        cards, test_var, test, weight
    )
    left_ptr, left_test, left_weight = kept
    bucket, key, stamp = table
    allowed = np.empty((min(n, MOST), widest), np.int64)
    tables, messages, part = np.empty((3, limit))
    inner_room, outer_room = np.empty((2, limit), np.int64)
    for r in range(len(rows)):
        row = rows[r]
        count, sure = reduce_row(row, cards, test_var, mask, ptr, test, skip, weight, truth, parent,
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
            counter += STEP * np.uint64(1 << 32)  # each component has numbers of its own
            size = component_of(row, cards, parent, v, members, place)
            asked = False
            for k in range(size):
                asked = asked or wanted[members[k]]
            if not asked:
                total = np.nan
                continue
            mine = features_of(parent, v, count, test_var, left_ptr, left_test, order)
            found = np.inf
            if size <= MOST:
                found = eliminate(
                    mode, members[:size], order[:mine], cards, place, left_ptr, left_test,
                    left_weight, test_var, mask, slot, breaking, counter, tables, messages, part,
                    inner_room, outer_room, allowed, marginals[r], draws[r],
                )  # fmt: skip
            if np.isnan(found):
                status[r] = IMPOSSIBLE
                break
            total += found
            if found == np.inf:
                status[r] = LARGE
                total = np.nan
                for k in range(size):
                    left[r, members[k]] = True
        log_sum[r] = total


@compiled
def sample_rows(
    mode, rows, counters, cards, slot, test_var, mask, ptr, test, skip, weight, left, burn_in, sweeps,
    thin, starts, marginals, draws,
):  # fmt: skip
    """Sample the components that `complete_rows` left; `burn_in` sweeps do not count.

    `sweeps` do, with `thin` from draw to draw; a mode is the best of so many `starts`.
    """
    n = len(cards)
    truth, parent, members, place, kept, table, order, widest = row_room(
        cards, test_var, test, weight
    )
    left_ptr, left_test, left_weight = kept
    bucket, key, stamp = table
    state = np.zeros(n, np.int64)
    column_ptr = np.zeros((n, 2), np.int64)
    column = np.empty((len(test), 2), np.int64)
    failing = np.empty(len(weight), np.int64)
    fields, chances = np.empty((2, n, widest))
    stale = np.zeros(n, np.bool_)
    for r in range(len(rows)):
        row = rows[r]
        count, _ = reduce_row(row, cards, test_var, mask, ptr, test, skip, weight, truth, parent,
                              left_ptr, left_test, left_weight, bucket, key, stamp, r)  # fmt: skip
        counter = counters[r]
        for v in range(n):
            if row[v] < cards[v] or root_of(parent, v) != v:
                continue
            counter += STEP * np.uint64(1 << 32)
            if not left[r, v]:
                continue
            size = component_of(row, cards, parent, v, members, place)
            mine = features_of(parent, v, count, test_var, left_ptr, left_test, order)
            sample_component(
                mode, members[:size], order[:mine], cards, left_ptr, left_test, left_weight,
                test_var, mask, slot, column_ptr, column, failing, fields, chances, stale, counter,
                burn_in, sweeps, thin, starts, state, marginals[r], draws[r],
            )  # fmt: skip
