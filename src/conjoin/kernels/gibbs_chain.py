"""Gibbs sweeps over a network of any size, at any inverse temperature.

Each feature counts how many of its tests fail and keeps the sum of the numbers of the failing entries,
so that a single failing one is known at once. When a variable changes, only the features whose tests of
it change are visited, and log-odds change only where a count passes 0 or 1. A variable whose log-odds
have not changed since its last turn costs one random number and one comparison; its distribution is
added to the sums later, once for all the turns it lasted.

Features with off values are few and have no such shortcut: their part of the log-odds is computed anew
at each turn.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import ChainArrays, FeatureArrays, Float1, Float2, Half2, Int1
from conjoin.kernels.random_numbers import STEP, uniform

REFRESH = 256
"""Number of sweeps after which log-odds are computed from scratch, to stop rounding errors adding up."""

TIE = 1e-9
"""At zero temperature a variable moves only if that raises its log-odds by more than this."""


@inner
def holds(t, state, mask):
    """Return whether a test holds in a state of its variable."""
    return (mask[t, state >> 6] >> np.uint64(state & 63)) & np.uint64(1) != np.uint64(0)


@inner
def add_to_states(t, change, test_var, member_first, member, field, stale):
    """Add to the log-odds of the states that satisfy a test.

    It takes single arrays because a call with a whole tuple would copy all of it.
    """
    stale[test_var[t]] = 1
    for k in range(member_first[t], member_first[t + 1]):
        field[member[k]] += change


@inner
def feature_value(f, features, state, skipped):
    """Return the value of a feature with off values, leaving out one of its entries."""
    value = features.weight[f]
    for e in range(features.first[f], features.first[f + 1]):
        t = features.test[e]
        if e != skipped and not holds(t, state[features.test_var[t]], features.test_mask):
            value *= features.off[e]
    return value


@inner
def refresh(plain, soft, chain):
    """Compute failing tests, log-odds and the log-potential from the states alone."""
    field, stale, test_var = chain.field, chain.stale, plain.test_var
    member_first, member = plain.member_first, plain.member
    field[:] = 0.0
    stale[:] = 1
    total = 0.0
    for f in range(len(plain.weight)):
        count, place = 0, 0
        for e in range(plain.first[f], plain.first[f + 1]):
            t = plain.test[e]
            if not holds(t, chain.state[plain.test_var[t]], plain.test_mask):
                count += 1
                place += e
        chain.failing[f] = count
        chain.failing_sum[f] = place
        own = plain.own[f]
        if count == 0:
            total += plain.weight[f]
            for e in range(plain.first[f], plain.first[f + 1]):
                if own < 0 or own == e:
                    add_to_states(
                        plain.test[e], plain.weight[f], test_var, member_first, member, field, stale
                    )
        elif count == 1 and (own < 0 or own == place):
            add_to_states(
                plain.test[place], plain.weight[f], test_var, member_first, member, field, stale
            )
    for f in range(len(soft.weight)):
        total += feature_value(f, soft, chain.state, -1)
    chain.log_potential[0] = total


@inner
def move(v, new, features, chain):
    """Set a variable to another state; update counts and log-odds."""
    failing, failing_sum, field, stale = (
        chain.failing, chain.failing_sum, chain.field, chain.stale,
    )  # fmt: skip
    test, test_var, mask = features.test, features.test_var, features.test_mask
    member_first, member, first = features.member_first, features.member, features.first
    old = chain.state[v]
    chain.state[v] = new
    for t in range(features.test_first[v], features.test_first[v + 1]):
        on = holds(t, new, mask)
        if on == holds(t, old, mask):
            continue
        for k in range(features.column_first[t], features.column_first[t + 1]):
            e = features.column_entry[k]
            f = features.entry_feature[e]
            change = features.weight[f]
            if on:
                failing[f] -= 1
                failing_sum[f] -= e
            others, last = failing[f], failing_sum[f]  # of the other tests of the feature
            if not on:
                failing[f] += 1
                failing_sum[f] += e
                change = -change
            own = features.own[f]
            if others == 0:  # all other tests hold: the other variables gain or lose the feature
                if own < 0:
                    for j in range(first[f], first[f + 1]):
                        if j != e:
                            add_to_states(
                                test[j], change, test_var, member_first, member, field, stale
                            )
                elif own != e:
                    add_to_states(test[own], change, test_var, member_first, member, field, stale)
            elif others == 1 and (own < 0 or own == last):
                add_to_states(test[last], change, test_var, member_first, member, field, stale)


@inner
def add_soft_features(v, soft, state, logits):
    """Add the features with off values to the log-odds of a variable's states."""
    for t in range(soft.test_first[v], soft.test_first[v + 1]):
        for k in range(soft.column_first[t], soft.column_first[t + 1]):
            e = soft.column_entry[k]
            f = soft.entry_feature[e]
            if soft.own[f] < 0 or soft.own[f] == e:
                value = feature_value(f, soft, state, e)
                for s in range(soft.cards[v]):
                    logits[s] += value if holds(t, s, soft.test_mask) else value * soft.off[e]


@inner
def best_state(logits, card, current):
    """Return the state of the highest log-odds; the current one if none is clearly better."""
    best = current
    for s in range(card):
        if logits[s] > logits[best] + TIE:
            best = s
    return best


@inner
def softmax(logits, card, beta, p):
    """Set p to exp(beta * logits), normalised."""
    top = logits[0]
    for s in range(1, card):
        top = max(top, logits[s])
    total = 0.0
    for s in range(card):
        p[s] = np.exp(beta * (logits[s] - top))
        total += p[s]
    for s in range(card):
        p[s] /= total


@inner
def draw_state(u, b, card, p):
    """Return the state of a variable that a uniform number stands for."""
    likeliest = 0
    for s in range(card):
        u -= p[b + s]
        if u < 0.0:
            return s
        if p[b + s] > p[b + likeliest]:
            likeliest = s
    return likeliest  # rounding: the probabilities sum to slightly less than 1


@inner
def count_turns(turns, b, card, p, sums, squares, batch):
    """Add a variable's distribution to the sums of a batch, once for each turn that it lasted."""
    if turns > 0:
        for s in range(card):
            sums[batch, b + s] += turns * p[b + s]
            squares[batch, b + s] += turns * p[b + s] * p[b + s]


@compiled
def run_chain(
    order: Int1,
    plain: FeatureArrays,
    soft: FeatureArrays,
    chain: ChainArrays,
    betas: Float1,
    sweeps_per_row: int,
    drawn: Half2,
    sums: Float2,
    squares: Float2,
    scores: Float1,
) -> int:
    """Continue a chain; everything that it needs to continue later is in the arrays of `chain`.

    `order`: the variables that are drawn in each sweep, in this order. `plain` and `soft`: the
    features without and with off values. Weights are finite. `betas`: the inverse temperature of
    each sweep: variables are drawn from the conditional distribution to the power of beta. At
    infinity they take the best state, and the chain stops after a sweep without a change.
    `sweeps_per_row`: the state after this number of sweeps is written into the next row of `drawn`,
    if that has rows. `sums` and `squares`: sums of the conditional probabilities and of their
    squares, by batch; without rows if they are not needed. Returns `sweeps`, the number of sweeps
    until nothing changed at an infinite beta; otherwise one more than the number of betas.
    """
    batches, n_sweeps = len(sums), len(betas)
    cards, first = plain.cards, plain.state_first
    p, field, stale, state = chain.p, chain.field, chain.stale, chain.state
    since = np.zeros(len(cards), np.int64)  # the sweep from which on p is not yet in the sums
    widest = cards.max() if len(cards) else 1
    logits, new_p = np.empty(widest), np.empty(widest)
    has_soft = len(soft.weight) > 0
    batch = 0
    count = chain.counter[0]
    last_beta = np.nan
    refresh(plain, soft, chain)
    for sweep in range(n_sweeps):
        if sweep % REFRESH == 0 and sweep > 0:
            refresh(plain, soft, chain)
        if len(scores):
            scores[sweep] = chain.log_potential[0]
        beta = betas[sweep]
        new_beta, greedy, changed = beta != last_beta, beta == np.inf, False
        last_beta = beta
        for i in range(len(order)):
            v = order[i]
            b, card, old = first[v], cards[v], state[v]
            if stale[v] or new_beta or has_soft:
                stale[v] = 0
                for s in range(card):
                    logits[s] = field[b + s]
                if has_soft:
                    add_soft_features(v, soft, state, logits)
                if not greedy:
                    softmax(logits, card, beta, new_p)
                    same = True
                    for s in range(card):
                        same &= new_p[s] == p[b + s]
                    if not same:
                        if batches:
                            count_turns(sweep - since[v], b, card, p, sums, squares, batch)
                            since[v] = sweep
                        for s in range(card):
                            p[b + s] = new_p[s]
            elif greedy:
                continue
            if greedy:
                new = best_state(logits, card, old)
            else:
                count += STEP
                new = draw_state(uniform(count), b, card, p)
            if new != old:
                changed = True
                if has_soft:
                    chain.log_potential[0] += logits[new] - logits[old]
                else:
                    chain.log_potential[0] += field[b + new] - field[b + old]
                move(v, new, plain, chain)
        done = sweep + 1
        if batches and done * batches // n_sweeps > batch:
            for i in range(len(order)):
                v = order[i]
                count_turns(done - since[v], first[v], cards[v], p, sums, squares, batch)
                since[v] = done
            batch += 1
        if len(drawn) and done % sweeps_per_row == 0:
            for v in range(len(cards)):
                drawn[done // sweeps_per_row - 1, v] = state[v]
        if greedy and not changed:
            chain.counter[0] = count
            return done
    chain.counter[0] = count
    return n_sweeps + 1
