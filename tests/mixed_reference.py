"""Slow and obvious probabilities of a mixed network: sums over all states, integrals over scores.

What is known of a category is {state: weight}. What is known of a number is a value (a point: its density
times the step), or a list of (low, high, weight): intervals with a likelihood each.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr

from conjoin.models.mixed import GaussianComponent


def slow_probability(model, given):
    """The probability of what is known; of values, their density times the step."""
    total = 0.0
    for share, component in zip(model.shares, model.components, strict=True):
        slow = _gaussian if isinstance(component, GaussianComponent) else _binned
        total += share * slow(model, component, given)
    return total


@cache
def _all_states(network):
    """All states of a network by name, their codes and potentials."""
    names, found = network.domain.names, []
    for codes in product(*map(range, network.domain.cards)):
        log = sum(f.table[tuple(codes[v] for v in f.variables)] for f in network.factors)
        states = {n: v.states[c] for n, v, c in zip(names, network.domain, codes, strict=True)}
        found.append((states, dict(zip(names, codes, strict=True)), np.exp(log)))
    return found


def _states(network, given):
    """All states of a network, with the weight of the known categories."""
    known = {n: w for n, w in given.items() if isinstance(w, dict)}
    for states, codes, potential in _all_states(network):
        weight = np.prod([w.get(states[n], 0.0) for n, w in known.items()])
        yield states, codes, potential, weight


def _atom_weight(known, atom):
    if known is None:
        return 1.0
    if isinstance(known, list):
        return sum(w for low, high, w in known if low <= atom <= high)
    return float(known == atom)


def _gaussian(model, component, given):
    total, found = 0.0, {}
    for states, _, potential, weight in _states(component.network, given):
        points, ranges = [], []
        for j, name in enumerate(model.numbers):
            mapped, known = model.maps[j], given.get(name)
            state = states.get(name)
            if len(mapped.atoms) and state in mapped.atoms:
                weight *= _atom_weight(known, state)
            elif isinstance(known, list):
                ranges.append((j, known))
            elif known is not None:
                if known in mapped.atoms:
                    weight = 0.0
                low, high = (float(e[0]) for e in mapped.cell(np.array([known], float)))
                points.append((j, (low + high) / 2, high - low))
        if weight:
            z = states["(hidden)"]
            mean, cov = component.gaussians.means[z], component.gaussians.covariances[z]
            key = z, len(points), len(ranges)  # which numbers are atoms, for one number with atoms
            if key not in found:
                found[key] = _numbers(model, mean, cov, points, ranges)
            total += potential * weight * found[key]
    return total


def _numbers(model, mean, cov, points, ranges):
    """The density of points, times their widths, and the weights of ranges given them."""
    p = 1.0
    at = [j for j, _, _ in points]
    if points:
        inside = cov[np.ix_(at, at)]
        off = np.array([m for _, m, _ in points]) - mean[at]
        p = np.exp(-0.5 * off @ np.linalg.solve(inside, off))
        p /= np.sqrt(np.linalg.det(2 * np.pi * inside))
        p *= np.prod([width for _, _, width in points])
    if not ranges:
        return p
    (j, lines), *rest = ranges
    m, v = mean[j], cov[j, j]
    if points:
        slope = np.linalg.solve(inside, cov[at, j])
        m, v = m + slope @ off, v - slope @ cov[at, j]
    total = 0.0
    for low, high, weight in lines:
        ends = model.maps[j].to_scores(np.clip([low, high], -1e9, 1e9))
        a, b = ndtr((ends - m) / v**0.5)
        if not rest:
            total += weight * p * (b - a)
            continue

        def density(s, j=j, rest=rest):
            return _numbers(model, mean, cov, [*points, (j, s, 1.0)], rest)

        ends = np.clip(ends, m - 8 * v**0.5, m + 8 * v**0.5)
        total += weight * quad(density, *ends, epsabs=1e-11, epsrel=1e-9)[0]
    return total


def _binned(model, component, given):
    total = norm = 0.0
    for _, codes, potential, weight in _states(component.network, given):
        norm += potential
        for j, name in enumerate(model.numbers):
            known, mapped = given.get(name), model.maps[j]
            if codes[name] < len(mapped.atoms):
                weight *= _atom_weight(known, mapped.atoms[codes[name]])
            elif known is not None:
                ends = [-np.inf, *component.cuts[j], np.inf]
                k = codes[name] - len(mapped.atoms)
                weight *= _within(mapped, ends[k], ends[k + 1], known)
        total += potential * weight
    return total / norm


def _within(mapped, low, high, known):
    """What is known of a number given its bin."""
    whole = ndtr(high) - ndtr(low)
    if not isinstance(known, list):
        if known in mapped.atoms:
            return 0.0
        a, b = (float(e[0]) for e in mapped.cell(np.array([known], float)))
        inside = low <= (a + b) / 2 < high
        return np.exp(-((a + b) ** 2) / 8) / np.sqrt(2 * np.pi) * (b - a) / whole * inside
    total = 0.0
    for start, end, weight in known:
        ends = mapped.to_scores(np.clip([start, end], -1e9, 1e9))
        a, b = np.clip(ends, low, high)
        total += weight * max(0.0, ndtr(b) - ndtr(a)) / whole
    return total
