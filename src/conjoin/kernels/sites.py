"""One variable at a time over features: mean field, ICM, simulated annealing, annealed sampling.

All take the same flat description. A feature is its weight times one number a test and state
(`numbers`, from `arg` on for each entry); `touch` lists for each variable the entries that it may look
at (with its feature and its `arg`): all that test it, or in a dependency network those of its own CPD;
`every` lists all of them. `free` lists the variables that are not given.

For each feature the number of tests that make it 0 is kept, so that most features need one look.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled, inner
from conjoin.kernels.random import STEP, uniform


@inner
def _uniform(state):
    """Return a number in [0, 1); `state` is a counter of one element."""
    state[0] += STEP
    return uniform(state[0])


@inner
def _start(sites, x, fails):
    """Count, for each feature, the tests that make it 0."""
    _, indptr, var, arg, weights, numbers = sites[:6]
    for f in range(len(weights)):
        fails[f] = 0
        for e in range(indptr[f], indptr[f + 1]):
            fails[f] += numbers[arg[e] + x[var[e]]] == 0


@inner
def _move(sites, v, new, x, fails):
    """Set a variable to another state."""
    numbers, every_first, every = sites[5], sites[9], sites[10]
    old = x[v]
    part = every[every_first[v] : every_first[v + 1]]
    for t in range(len(part)):
        at = part[t, 2]
        before = numbers[at + old] == 0
        after = numbers[at + new] == 0
        if before != after:
            fails[part[t, 1]] += 1 if after else -1
    x[v] = new


@inner
def _logits(sites, v, x, fails, out):
    """Write, for each state of a variable, the sum of the features that it looks at."""
    card, indptr, var, arg, weights, numbers, touch_first, touch = sites[:8]
    for s in range(card[v]):
        out[s] = 0.0
    part = touch[touch_first[v] : touch_first[v + 1]]
    for t in range(len(part)):
        f = part[t, 1]
        at = part[t, 2]
        if fails[f] > (numbers[at + x[v]] == 0):
            continue
        value = weights[f]
        for e in range(indptr[f], indptr[f + 1]):
            if e != part[t, 0]:
                value *= numbers[arg[e] + x[var[e]]]
        for s in range(card[v]):
            if numbers[at + s] != 0:
                out[s] += value * numbers[at + s]


@inner
def total(sites, x):
    """Return the sum of all features on one instance."""
    _, indptr, var, arg, weights, numbers = sites[:6]
    result = 0.0
    for f in range(len(weights)):
        value = weights[f]
        for e in range(indptr[f], indptr[f + 1]):
            factor = numbers[arg[e] + x[var[e]]]
            if factor == 0:
                value = 0.0
                break
            value *= factor
        result += value
    return result


@inner
def _choose(logits, n, beta, state):
    """Draw a state from exp(beta * logits)."""
    top = -np.inf
    for s in range(n):
        logits[s] *= beta
        top = max(top, logits[s])
    if top == -np.inf:  # nothing is possible here: any state
        return np.int64(_uniform(state) * n)
    norm = 0.0
    for s in range(n):
        logits[s] = np.exp(logits[s] - top)
        norm += logits[s]
    u = _uniform(state) * norm
    for s in range(n - 1):
        u -= logits[s]
        if u < 0:
            return s
    return n - 1


@compiled
def climb(sites, x, max_sweeps):
    """Set each variable to its best state given the others until none changes (ICM).

    Returns the number of sweeps, more than `max_sweeps` if it did not come to rest.
    """
    card, free = sites[0], sites[8]
    logits = np.empty(card.max())
    fails = np.empty(len(sites[4]), np.int32)
    _start(sites, x, fails)
    for sweep in range(max_sweeps):
        changed = False
        for i in range(len(free)):
            v = free[i]
            _logits(sites, v, x, fails, logits)
            best = x[v]
            for s in range(card[v]):
                if logits[s] > logits[best] + 1e-12:
                    best = s
            if best != x[v]:
                _move(sites, v, best, x, fails)
                changed = True
        if not changed:
            return sweep + 1
    return max_sweeps + 1


@compiled
def anneal(sites, x, betas, state, best):
    """Gibbs sampling while the inverse temperature rises; return the best score met."""
    card, free = sites[0], sites[8]
    logits = np.empty(card.max())
    kept = np.empty(card.max())
    fails = np.empty(len(sites[4]), np.int32)
    _start(sites, x, fails)
    score = total(sites, x)
    top = score
    for v in range(len(x)):
        best[v] = x[v]
    for t in range(len(betas)):
        improved = False
        for i in range(len(free)):
            v = free[i]
            _logits(sites, v, x, fails, logits)
            for s in range(card[v]):
                kept[s] = logits[s]
            new = _choose(logits, card[v], betas[t], state)
            if new != x[v]:
                if score == -np.inf or kept[new] == -np.inf or kept[x[v]] == -np.inf:
                    _move(sites, v, new, x, fails)
                    score = total(sites, x)
                else:
                    score += kept[new] - kept[x[v]]
                    _move(sites, v, new, x, fails)
            if score > top + 1e-12:
                top = score
                improved = True
                for u in range(len(x)):
                    best[u] = x[u]
        if improved:
            top = total(sites, best)
    return top


@compiled
def annealed_weights(sites, betas, seeds, rows, weights):
    """Annealed importance sampling from the even distribution to the network.

    A chain starts at random and its weight grows by (step in beta) * log-potential before each sweep.
    `rows` holds the states that are given and gets those that the chains end in.
    """
    card, free = sites[0], sites[8]
    logits = np.empty(card.max())
    kept = np.empty(card.max())
    fails = np.empty(len(sites[4]), np.int32)
    for chain in range(len(weights)):
        state = seeds[chain : chain + 1]
        x = rows[chain]
        for i in range(len(free)):
            x[free[i]] = np.int64(_uniform(state) * card[free[i]])
        _start(sites, x, fails)
        score = total(sites, x)
        result = 0.0
        for t in range(1, len(betas)):
            result += (betas[t] - betas[t - 1]) * score
            for i in range(len(free)):
                v = free[i]
                _logits(sites, v, x, fails, logits)
                for s in range(card[v]):
                    kept[s] = logits[s]
                new = _choose(logits, card[v], betas[t], state)
                if new != x[v]:
                    score += kept[new] - kept[x[v]]
                    _move(sites, v, new, x, fails)
        weights[chain] = result


@compiled
def mean_field(sites, first, q, max_sweeps, tolerance):
    """Update each variable's distribution to exp(expected features), in turn, until they rest.

    Returns
    -------
    sweeps : int
        More than `max_sweeps` if it did not come to rest.
    change : float
        The largest change of a probability in the last sweep.
    """
    card, indptr, var, arg, weights, numbers, touch_first, touch, free = sites[:9]
    expected = np.empty(len(var))
    entries = np.zeros(len(card) + 1, np.int64)  # the entries of each variable
    for e in range(len(var)):
        entries[var[e] + 1] += 1
    for v in range(len(card)):
        entries[v + 1] += entries[v]
    listed = np.empty(len(var), np.int64)
    filled = entries[:-1].copy()
    for e in range(len(var)):
        v = var[e]
        listed[filled[v]] = e
        filled[v] += 1
        expected[e] = 0.0
        for s in range(card[v]):
            expected[e] += q[first[v] + s] * numbers[arg[e] + s]
    logits = np.empty(card.max())
    change = 0.0
    for sweep in range(max_sweeps):
        change = 0.0
        for place in range(len(free)):
            v = free[place]
            for s in range(card[v]):
                logits[s] = 0.0
            for t in range(touch_first[v], touch_first[v + 1]):
                entry = touch[t, 0]
                f = touch[t, 1]
                value = weights[f]
                for e in range(indptr[f], indptr[f + 1]):
                    if e != entry:
                        value *= expected[e]
                if value != 0:
                    for s in range(card[v]):
                        logits[s] += value * numbers[arg[entry] + s]
            top = logits[0]
            for s in range(1, card[v]):
                top = max(top, logits[s])
            norm = 0.0
            for s in range(card[v]):
                logits[s] = np.exp(logits[s] - top)
                norm += logits[s]
            moved = 0.0
            for s in range(card[v]):
                p = logits[s] / norm
                moved = max(moved, abs(p - q[first[v] + s]))
                q[first[v] + s] = p
            change = max(change, moved)
            if moved > 0:
                for i in range(entries[v], entries[v + 1]):
                    e = listed[i]
                    expected[e] = 0.0
                    for s in range(card[v]):
                        expected[e] += q[first[v] + s] * numbers[arg[e] + s]
        if change < tolerance:
            return sweep + 1, change
    return max_sweeps + 1, change


@compiled
def expected_total(sites, first, q):
    """Return the expected sum of all features under independent variables."""
    card, indptr, var, arg, weights, numbers = sites[:6]
    result = 0.0
    for f in range(len(weights)):
        value = weights[f]
        for e in range(indptr[f], indptr[f + 1]):
            v = var[e]
            mean = 0.0
            for s in range(card[v]):
                mean += q[first[v] + s] * numbers[arg[e] + s]
            value = value * mean if mean != 0 else 0.0
        result += value
    return result
