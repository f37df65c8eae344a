"""Means of scores given states, and what known scores say of classes and of the states of a column.

Only the classes that count for the states of a row are looked at: they are the entries of the row.
"""

from __future__ import annotations

import math

import numpy as np

from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Float1, Float2, Float3, Int1, Int2

NEGLIGIBLE = 40.0
"""A class whose log-probability is this much lower than that of another class has none."""

ROOT_HALF, LOG_ROOT_TAU = math.sqrt(0.5), 0.5 * math.log(2 * math.pi)


@compiled
def add_effects(codes: Int2, columns: Int1, first: Int1, effects: Float3, out: Float3) -> None:
    """Add the effects of the states of some columns to the sums of each row; -1 adds nothing.

    `first`: where the states of each column begin. `effects`: classes by states by numbers. `out`:
    classes by rows by numbers.
    """
    for z in range(len(out)):
        for r in range(len(codes)):
            total = out[z, r]
            for c in range(len(columns)):
                state = codes[r, columns[c]]
                if state >= 0:
                    added = effects[z, first[columns[c]] + state]
                    for k in range(len(added)):
                        total[k] += added[k]


@compiled
def counting_classes(log_odds: Float2, own: Float2, log_smallest: float, out: Int2) -> int:
    """Write the classes that count for some state of a column in each row, then -1.

    `log_odds`: rows by classes. `own`: what the states of the column add, classes by states. A class
    counts if it is the first or within `log_smallest` of the best. Returns the largest number of classes.
    """
    most = 0
    marks = np.zeros(log_odds.shape[1], np.bool_)
    for r in range(len(log_odds)):
        marks[:] = False
        marks[0] = True
        for s in range(own.shape[1]):
            top = -np.inf
            for z in range(len(marks)):
                top = max(top, log_odds[r, z] + own[z, s])
            for z in range(len(marks)):
                if log_odds[r, z] + own[z, s] > top + log_smallest:
                    marks[z] = True
        count = 0
        for z in range(len(marks)):
            if marks[z]:
                out[r, count] = z
                count += 1
        for k in range(count, out.shape[1]):
            out[r, k] = -1
        most = max(most, count)
    return most


@inner
def _normalise(logs, log_smallest):
    """Turn log-odds into logarithms of shares; those that are too small, but the first, become -inf."""
    top, total = -np.inf, 0.0
    for k in range(len(logs)):
        top = max(top, logs[k])
    for k in range(len(logs)):
        if k and not logs[k] > top + log_smallest:
            logs[k] = -np.inf
        else:
            total += np.exp(logs[k] - top)
    for k in range(len(logs)):
        logs[k] -= top + np.log(total)


@compiled
def log_shares_of_entries(
    log_odds: Float2, own: Float2, log_smallest: float, classes: Int2, out: Float3
) -> None:
    """Write the logarithms of the shares of the entries: rows by states by entries; -inf for none."""
    for r in range(len(classes)):
        for s in range(own.shape[1]):
            for k in range(classes.shape[1]):
                z = classes[r, k]
                out[r, s, k] = log_odds[r, z] + own[z, s] if z >= 0 else -np.inf
            _normalise(out[r, s], log_smallest)


@inner
def _log_mass(mean, sd, low, high):
    """Return the log-probability of a Gaussian between two ends."""
    first, last = (low - mean) / sd, (high - mean) / sd
    if first > 0:  # differences of small numbers are more exact
        first, last = -last, -first
    mass = 0.5 * (math.erfc(-last * ROOT_HALF) - math.erfc(-first * ROOT_HALF))
    if mass > 1e-300:
        return math.log(mass)
    # So far in the tail, the probability beyond the nearer end is all that counts
    square = last * last
    return -0.5 * square - math.log(-last) - LOG_ROOT_TAU + math.log1p(-1 / square + 3 / square**2)


@compiled
def add_densities(
    rows: Int1,
    classes: Int2,
    codes: Int2,
    columns: Int1,
    first: Int1,
    intercepts: Float2,
    effects: Float3,
    own: Float3,
    scores: Float2,
    known: Int1,
    precisions: Float3,
    log_constants: Float1,
    unknown: Int1,
    gains: Float3,
    sds: Float2,
    own_ends: Float2,
    ends: Float3,
    logs: Float3,
    means: Float3,
) -> None:
    """Add the log-densities of known scores, and the log-probabilities that unknown ones are inside.

    `own`: the effects of the states of the column that is asked about, classes by states by numbers.
    `unknown`: the unknown scores. `gains`, `sds`: how their means follow residuals of known ones, classes
    by known by unknown, and their deviations given these. `own_ends`: the ends between which the first
    of them lies, given each state; no states if they are those of the row, as for all others. `ends`:
    rows by unknown by two. `logs`: rows by states by entries. `means`: the same for all unknown scores,
    one after another.
    """
    numbers, states, width = intercepts.shape[1], own.shape[1], classes.shape[1]
    base = np.empty((width, numbers))
    residual, left = np.empty((width, len(known))), np.empty(len(known))
    for i in range(len(rows)):
        r = rows[i]
        for k in range(width):
            z = classes[r, k]
            if z < 0:
                continue
            base[k] = intercepts[z]
            for c in range(len(columns)):
                state = codes[r, columns[c]]
                if state >= 0:
                    for j in range(numbers):
                        base[k, j] += effects[z, first[columns[c]] + state, j]
            for a in range(len(known)):
                residual[k, a] = scores[r, known[a]] - base[k, known[a]]
        for s in range(states):
            best, at = -np.inf, 0
            for k in range(width):
                if logs[r, s, k] == -np.inf:
                    continue
                z = classes[r, k]
                for a in range(len(known)):
                    left[a] = residual[k, a] - own[z, s, known[a]]
                square = 0.0
                for a in range(len(known)):
                    total = 0.0
                    for b in range(len(known)):
                        total += precisions[z, a, b] * left[b]
                    square += total * left[a]
                logs[r, s, k] += log_constants[z] - 0.5 * square
                if logs[r, s, k] > best:
                    best, at = logs[r, s, k], k
                for u in range(len(unknown)):
                    j = unknown[u]
                    total = base[k, j] + own[z, s, j]
                    for a in range(len(known)):
                        total += left[a] * gains[z, a, u]
                    means[r, s, u * width + k] = total
            if not len(unknown):
                continue
            # Masses are at most 1: classes that are negligible without them need not be looked at.
            best = -np.inf
            for place in range(width):
                k = (at + place) % width
                if not logs[r, s, k] > best - NEGLIGIBLE:
                    logs[r, s, k] = -np.inf
                    continue
                z = classes[r, k]
                for u in range(len(unknown)):
                    low, high = ends[r, u, 0], ends[r, u, 1]
                    if u == 0 and own_ends.shape[1]:
                        low, high = own_ends[0, s], own_ends[1, s]
                    if low > -np.inf or high < np.inf:
                        logs[r, s, k] += _log_mass(means[r, s, u * width + k], sds[z, u], low, high)
                best = max(best, logs[r, s, k])


@compiled
def shares_of_entries(logs: Float3, total: Float2) -> None:
    """Turn the logs of entries into shares, and write the logarithms of their sums."""
    for r in range(len(logs)):
        for s in range(logs.shape[1]):
            top, weight = -np.inf, 0.0
            for k in range(logs.shape[2]):
                top = max(top, logs[r, s, k])
            for k in range(logs.shape[2]):
                logs[r, s, k] = np.exp(logs[r, s, k] - top)
                weight += logs[r, s, k]
            for k in range(logs.shape[2]):
                logs[r, s, k] /= weight
            total[r, s] = top + np.log(weight)
