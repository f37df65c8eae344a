"""Slow, obvious versions of what the package does fast. They share no code with it."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np


def all_states(domain):
    """Every joint state, as codes."""
    return np.indices(domain.cards, np.uint8).reshape(len(domain.cards), -1).T


def feature_rows(features):
    """Each feature as (weight, {variable: (set of states, off value)}), read bit by bit."""
    rows = []
    off = np.zeros(len(features.indices)) if features.off is None else features.off
    for f in range(len(features)):
        tests = {}
        for e in range(features.indptr[f], features.indptr[f + 1]):
            t = features.indices[e]
            var = int(features.tests.var[t])
            states = {
                s
                for s in range(int(features.tests.cards[var]))
                if int(features.tests.mask[t, s // 64]) >> (s % 64) & 1
            }
            assert var not in tests, "two tests of one variable"
            tests[var] = (states, float(off[e]))
        rows.append((float(features.weights[f]), tests))
    return rows


def feature_sum(rows, state):
    """The sum of weighted features on one state."""
    state = np.asarray(state).tolist()  # Python's numbers are found in sets much faster
    total = 0.0
    for weight, tests in rows:
        value = 1.0
        for var, (states, off) in tests.items():
            value *= 1.0 if state[var] in states else off
        if value != 0:
            total += weight * value
    return total


def log_potentials(mn, states):
    """Log-potentials of a Markov network, factor by factor."""
    rows = feature_rows(mn.features)
    result = np.array([feature_sum(rows, state) for state in states])
    for factor in mn.factors:
        for r, state in enumerate(states):
            if hasattr(factor, "table"):
                result[r] += factor.table[tuple(state[v] for v in factor.variables)]
            else:
                result[r] += walk(factor, state)
    return result


def walk(tree, state):
    """The leaf value of one state."""
    node = 0
    while tree.var[node] >= 0:
        node = tree.child[tree.ptr[node] + state[tree.var[node]]]
    return tree.value[tree.ptr[node]]


def normalized(log_values):
    """Log-probabilities of log-potentials."""
    top = np.max(log_values)
    return log_values - top - np.log(np.sum(np.exp(log_values - top)))


def conditionals_of_joint(domain, log_p, position):
    """log P(X = s | rest) for every state, from the joint over all states in product order."""
    table = log_p.reshape(domain.cards)
    top = table.max(axis=position, keepdims=True)
    norm = top + np.log(np.exp(table - top).sum(axis=position, keepdims=True))
    return table - norm


def orders_of(n, kind, given=None, reverse=True):
    """The explicit list of orders that an option stands for."""
    if kind == "all":
        return [list(p) for p in permutations(range(n))]
    orders = [list(o) for o in (given or [range(n)])]
    if reverse:
        orders += [o[::-1] for o in orders]
    if kind == "rotations":
        orders = [o[i:] + o[:i] for o in orders for i in range(n)]
    return orders


def converted(domain, log_conditionals, bases, orders):
    """Equation 4, averaged: the log-ratio of every state to the base instance.

    `log_conditionals[i]` is an array over all joint states of log P(x_i | x_-i); `bases` is a list of
    (probability, instance). Returns one value per state, in product order.
    """
    result = np.zeros(int(np.prod(domain.cards)))
    for r, x in enumerate(product(*(range(c) for c in domain.cards))):
        for weight, base in bases:
            for order in orders:
                current = list(x)
                for i in order:
                    before = tuple(current)
                    current[i] = base[i]
                    after = tuple(current)
                    ratio = log_conditionals[i][before] - log_conditionals[i][after]
                    result[r] += weight * ratio / len(orders)
    return result


def product_bases(domain, marginals):
    """All instances with their probability under a product of marginals."""
    return [
        (float(np.prod([m[s] for m, s in zip(marginals, x, strict=True)])), x)
        for x in product(*(range(c) for c in domain.cards))
    ]


def interactions(domain, marginals, values, target):
    """The Hoeffding parts of a function of all variables that contain the target.

    Inclusion and exclusion over conditional means: the part on B is the sum over subsets A of B of
    (-1)^|B - A| E[f | x_A]. Returns {B: table over x_B, other axes of length 1}.
    """
    n = len(domain)
    table = values.reshape(domain.cards)

    def mean(kept):
        result = table
        for axis in range(n):
            if axis not in kept:
                shape = [1] * n
                shape[axis] = -1
                q = np.reshape(marginals[axis], shape)
                result = (result * q).sum(axis=axis, keepdims=True)
        return result

    parts = {}
    for mask in range(1 << n):
        b = [i for i in range(n) if mask >> i & 1]
        if target not in b:
            continue
        part = 0
        for sub in range(1 << len(b)):
            a = [b[i] for i in range(len(b)) if sub >> i & 1]
            part = part + (-1) ** (len(b) - len(a)) * mean(a)
        parts[tuple(b)] = part
    return parts


def gains(form, truth):
    """The gain of each test on each row: the features with it, times their other tests' factors.

    `truth` is the probability that each test holds on each row, tests by rows. A feature with an owner
    counts for the owner's test alone.
    """
    features = form.features
    off = np.zeros(len(features.indices)) if features.off is None else features.off
    result = np.zeros(truth.shape)
    for f in range(len(features)):
        entries = range(features.indptr[f], features.indptr[f + 1])
        for e in entries:
            test = features.indices[e]
            if form.owner is not None and features.tests.var[test] != form.owner[f]:
                continue
            others = np.ones(truth.shape[1])
            for other in entries:
                if other != e:
                    u = truth[features.indices[other]]
                    others = others * (u + (1 - u) * off[other])
            result[test] += features.weights[f] * others * (1 - off[e])
    return result


def path_members(parent):
    """Which nodes lie on the path to each node of a tree, the node itself included."""
    result = np.eye(len(parent), dtype=bool)
    for node in range(1, len(parent)):
        result[node] |= result[parent[node]]
    return result
