"""Gibbs sweeps over a network of any size.

Each feature counts how many of its tests fail, and remembers the sum of their entry numbers, so that a
single failing one is known at once. A variable that changes touches the features whose tests of it turn;
only when a count passes 0 or 1 do log-odds change. A variable none of whose log-odds changed since its
last turn costs a random number and a comparison; how often its distribution counts is made up for later.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled, inner
from conjoin.kernels.random import STEP, uniform

REFRESH = 256
"""After so many sweeps the log-odds are summed anew, against the drift of rounding."""


@inner
def add(entry, change, test, test_var, state_ptr, state_slot, field, stale):
    """Add to the log-odds of the states that satisfy the test of an entry."""
    t = test[entry]
    stale[test_var[t]] = 1
    for k in range(state_ptr[t], state_ptr[t + 1]):
        field[state_slot[k]] += change


@inner
def holds(t, state, mask):
    """Tell whether a test holds in a state of its variable."""
    return (mask[t, state >> 6] >> np.uint64(state & 63)) & np.uint64(1) != np.uint64(0)


@inner
def refresh(
    state, ptr, test, weight, own, test_var, mask, state_ptr, state_slot, failing, which, field, stale
):  # fmt: skip
    """Count failing tests and sum log-odds from the states alone."""
    field[:] = 0.0
    stale[:] = 1
    for f in range(len(weight)):
        count, place = 0, 0
        for e in range(ptr[f], ptr[f + 1]):
            if not holds(test[e], state[test_var[test[e]]], mask):
                count += 1
                place += e
        failing[f] = count
        which[f] = place
        if count == 0:
            for e in range(ptr[f], ptr[f + 1]):
                if own[f] < 0 or own[f] == e:
                    add(e, weight[f], test, test_var, state_ptr, state_slot, field, stale)
        elif count == 1 and (own[f] < 0 or own[f] == place):
            add(place, weight[f], test, test_var, state_ptr, state_slot, field, stale)


@inner
def turn(
    t, on, ptr, test, weight, own, test_var, state_ptr, state_slot, column_ptr, column_entry,
    entry_feature, failing, which, field, stale,
):  # fmt: skip
    """Let a test become true or false."""
    for k in range(column_ptr[t], column_ptr[t + 1]):
        e = column_entry[k]
        f = entry_feature[e]
        if on:
            failing[f] -= 1
            which[f] -= e
            others, change = failing[f], weight[f]
            last = which[f]
        else:
            others, change = failing[f], -weight[f]
            last = which[f]
            failing[f] += 1
            which[f] += e
        if others == 0:  # all other tests hold: the others' log-odds have the feature, or lose it
            if own[f] < 0:
                for j in range(ptr[f], ptr[f + 1]):
                    if j != e:
                        add(j, change, test, test_var, state_ptr, state_slot, field, stale)
            elif own[f] != e:
                add(own[f], change, test, test_var, state_ptr, state_slot, field, stale)
        elif others == 1 and (own[f] < 0 or own[f] == last):
            add(last, change, test, test_var, state_ptr, state_slot, field, stale)


@inner
def soft_field(
    v, state, soft_ptr, soft_test, soft_off, soft_weight, soft_first, soft_entry, soft_feature,
    test_var, mask, cards, logits,
):  # fmt: skip
    """Add the features with off values to the log-odds of a variable, one by one."""
    for k in range(soft_first[v], soft_first[v + 1]):
        e = soft_entry[k]
        f = soft_feature[e]
        value = soft_weight[f]
        for j in range(soft_ptr[f], soft_ptr[f + 1]):
            if j != e and not holds(soft_test[j], state[test_var[soft_test[j]]], mask):
                value *= soft_off[j]
        for s in range(cards[v]):
            if holds(soft_test[e], s, mask):
                logits[s] += value
            else:
                logits[s] += value * soft_off[e]


@inner
def count_turns(turns, b, card, p, sums, squares, batch):
    """Add a variable's distribution to the sums of a batch, once for each turn that it held."""
    if turns > 0:
        for s in range(card):
            sums[batch, b + s] += turns * p[b + s]
        if len(squares):
            for s in range(card):
                squares[batch, b + s] += turns * p[b + s] * p[b + s]


@compiled
def sweeps(
    order, cards, first, var_test_ptr, ptr, test, weight, own, test_var, mask, state_ptr, state_slot,
    column_ptr, column_entry, entry_feature, soft_ptr, soft_test, soft_off, soft_weight, soft_first,
    soft_entry, soft_feature, state, counter, failing, which, field, stale, p, n_sweeps, thin, drawn,
    sums, squares,
):  # fmt: skip
    """Go on with a chain; all it needs to go on later is in the arrays it was given.

    Parameters
    ----------
    n_sweeps : int
        How often each variable of the order has its turn.
    thin : int
        Every so many sweeps the state goes into a row of `drawn`, if that has rows.
    sums, squares : arrays of float, shape (batches, states)
        Sums of the conditional probabilities and of their squares, by batch; without rows for none.
    """
    batches = len(sums)
    since = np.zeros(
        len(cards), np.int64
    )  # from which sweep on the distribution is not yet counted
    logits = np.empty(cards.max() if len(cards) else 1)
    batch = 0
    count = counter[0]
    for sweep in range(n_sweeps):
        if sweep % REFRESH == 0:
            refresh(
                state, ptr, test, weight, own, test_var, mask, state_ptr, state_slot, failing, which,
                field, stale,
            )  # fmt: skip
        for i in range(len(order)):
            v = order[i]
            b, card = first[v], cards[v]
            soft = soft_first[v + 1] > soft_first[v]
            if stale[v] or soft:
                stale[v] = 0
                for s in range(card):
                    logits[s] = field[b + s]
                if soft:
                    soft_field(
                        v, state, soft_ptr, soft_test, soft_off, soft_weight, soft_first, soft_entry,
                        soft_feature, test_var, mask, cards, logits,
                    )  # fmt: skip
                top = logits[0]
                for s in range(1, card):
                    top = max(top, logits[s])
                total = 0.0
                for s in range(card):
                    logits[s] = np.exp(logits[s] - top)
                    total += logits[s]
                same = True
                for s in range(card):
                    logits[s] /= total
                    same &= logits[s] == p[b + s]
                if not same:
                    if batches:
                        count_turns(sweep - since[v], b, card, p, sums, squares, batch)
                        since[v] = sweep
                    for s in range(card):
                        p[b + s] = logits[s]
            count += STEP
            u = uniform(count)
            new = -1
            for s in range(card):
                u -= p[b + s]
                if u < 0.0:
                    new = s
                    break
            if new < 0:  # rounding: the likeliest state
                new = 0
                for s in range(1, card):
                    if p[b + s] > p[b + new]:
                        new = s
            old = state[v]
            if new != old:
                state[v] = new
                for t in range(var_test_ptr[v], var_test_ptr[v + 1]):
                    on = holds(t, new, mask)
                    if on != holds(t, old, mask):
                        turn(
                            t, on, ptr, test, weight, own, test_var, state_ptr, state_slot,
                            column_ptr, column_entry, entry_feature, failing, which, field, stale,
                        )  # fmt: skip
        done = sweep + 1
        if batches and done * batches // n_sweeps > batch:
            for i in range(len(order)):
                v = order[i]
                count_turns(done - since[v], first[v], cards[v], p, sums, squares, batch)
                since[v] = done
            batch += 1
        if len(drawn) and done % thin == 0:
            for v in range(len(state)):
                drawn[done // thin - 1, v] = state[v]
    counter[0] = count


@compiled
def broken(state, ptr, test, weight, test_var, mask, breaking):
    """Tell whether a feature of less than a weight holds."""
    for f in range(len(weight)):
        if weight[f] < breaking:
            all_hold = True
            for e in range(ptr[f], ptr[f + 1]):
                all_hold &= holds(test[e], state[test_var[test[e]]], mask)
            if all_hold:
                return True
    return False
