"""Slow and obvious answers of a joint of states and numbers: sums over all states, integrals over scores.

    p(states, scores) = p(states) * sum over z of share_z(states) N(scores; mean_z(states), covariance_z)

A code of -1 is a state that is not known, and a score of NaN is not known. If some score is known, a
number whose state is not known lies inside the interval that is its state, with its probability given the
known scores; that of several numbers is the product of theirs.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

SMALLEST_SHARE = 1e-3  # of the largest one
NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)


def worlds(log_p, fine, codes, scores):
    """All states that agree with what is known: their weights, and the means and deviations of scores.

    `log_p`: the log-probabilities of the states, one axis per column.
    """
    agree = [range(n) if code < 0 else [code] for n, code in zip(log_p.shape, codes, strict=True)]
    states = np.stack(np.meshgrid(*agree, indexing="ij"), axis=-1).reshape(-1, log_p.ndim)
    first = np.cumsum([0, *log_p.shape[:-1]])
    means = fine.intercepts[:, None] + fine.effects[:, states + first].sum(axis=2)
    sds = np.ones((len(fine.log_shares), len(fine.names)))
    log_odds = fine.log_shares[:, None] + fine.gates[:, states + first].sum(axis=2)
    shares = np.exp(log_odds - log_odds.max(axis=0))
    shares[1:][shares[1:] <= SMALLEST_SHARE] = 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(shares / shares.sum(axis=0)) + log_p[tuple(states.T)]
    known = np.flatnonzero(~np.isnan(scores))
    if not len(known):
        return states, logs, 0 * means, sds
    for z, covariance in enumerate(fine.covariances):
        own = covariance[np.ix_(known, known)]
        residual = (scores - means[z])[:, known]
        logs[z] += multivariate_normal(np.zeros(len(known)), own).logpdf(residual)
        gains = np.linalg.solve(own, covariance[known])
        means[z] += residual @ gains
        sds[z] = np.sqrt(np.diag(covariance - covariance[known].T @ gains).clip(0))
    for j, name in enumerate(fine.names):
        v, column = fine.domain.index(name), fine.domain.numbers(name)
        single = ~intervals_of(column)[states[:, v]]
        if codes[v] < 0 or not np.isnan(scores[j]):  # inside as often as the network says
            logs -= np.where(single, 0.0, fine.log_inside[first[v] + states[:, v]])
        if codes[v] < 0:
            held = log_masses(means[:, :, j], sds[:, None, j], *ends_of(column)[states[:, v]].T)
            logs += np.where(single, 0.0, held)
    return states, logs, means, sds


def ends_of(column):
    """The scores between which the states lie."""
    ends = np.array([-np.inf, *score(column, column.edges), np.inf])
    absent = [(-1.0, 1.0)] if column.absent else []  # never used
    return np.array([*pairwise(ends), *absent])


def intervals_of(column):
    """Which states have more than one value."""
    return np.isnan(column.single) & (np.arange(len(column.single)) <= len(column.edges))


def log_masses(mean, sd, low, high):
    """The log-probabilities of Gaussians between two ends."""
    low, high = (low - mean) / sd, (high - mean) / sd
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    first, last = log_ndtr(low), log_ndtr(high)
    return last + np.log1p(-np.exp(first - last))


def log_probability(log_p, fine, codes, scores):
    """The log of the probability of known states times the density of known scores."""
    return np.logaddexp.reduce(worlds(log_p, fine, codes, scores)[1], axis=None)


def states_of(log_p, fine, codes, scores, v):
    """The distribution of the states of a column."""
    states, logs, _, _ = worlds(log_p, fine, codes, scores)
    weights = np.exp(logs - logs.max()).sum(axis=0)
    return np.bincount(states[:, v], weights, log_p.shape[v]) / weights.sum()


def number_of(log_p, fine, codes, scores, name, at):
    """The mean and standard deviation of a number, and its cumulative probabilities at values.

    The number has a value: the state that it has none does not count. A score given its state and class
    is Gaussian, cut to the interval; its mean is at most half a unit beyond all values. If no score is
    known, it is standard normal.
    """
    states, logs, means, sds = worlds(log_p, fine, codes, scores)
    v, j, column = fine.domain.index(name), fine.names.index(name), fine.domain.numbers(name)
    low, high = score(column, np.array([column.scale.low, column.scale.high]))
    means = means[:, :, j].clip(low - 0.5, high + 0.5)
    first = second = 0.0
    below = np.zeros(len(at))
    edges = np.array(at) + column.map.step / 2
    weights = np.exp(logs - logs.max()) * (states[:, v] <= len(column.edges))
    weights /= weights.sum()
    for (z, i), weight in np.ndenumerate(weights):
        x = column.single[states[i, v]]
        points, masses, share = np.array([x]), np.array([1.0]), (x < edges).astype(float)
        if np.isnan(x):
            part = column, means[z, i], sds[z, j], *ends_of(column)[states[i, v]]
            points, masses = cut_gaussian(*part)
            inside = [cut_gaussian(*part, end)[1].sum() for end in score(column, edges)]
            share, masses = np.array(inside) / masses.sum(), masses / masses.sum()
        first += weight * (points @ masses)
        second += weight * (points**2 @ masses)
        below += weight * share
    return first, np.sqrt(second - first**2), below


def cut_gaussian(column, mean, sd, low, high, end=np.inf):
    """Values and masses (up to a factor) of a Gaussian between two ends, up to a third."""
    reach = 14 * sd
    low, high = max(low, min(mean, high) - reach), min(high, max(mean, low) + reach)
    center = np.clip(mean, low, high)
    cuts = [low, *(x for x in column.map.scores if low < x < high), center, high]
    cuts = np.unique(np.clip(cuts, None, max(low, end)))
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    y = (middle[:, None] + half[:, None] * NODES).ravel()
    density = np.exp(-(((y - mean) / sd) ** 2 - ((center - mean) / sd) ** 2) / 2)
    return value(column, y), density * (half[:, None] * WEIGHTS).ravel()


def lines(x, y, at):
    """Lines between knots, which go on beyond the outermost ones."""
    k = np.clip(np.searchsorted(x, at), 1, len(x) - 1)
    return y[k] + (at - x[k]) * (y[k] - y[k - 1]) / (x[k] - x[k - 1])


def score(column, values):
    """The normal scores of values."""
    return lines(column.map.values, column.map.scores, values)


def value(column, scores):
    """The values of normal scores."""
    return lines(column.map.scores, column.map.values, scores)
