"""Diagnostics: how far the estimates of Gibbs chains can be trusted."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import FloatArray

BATCHES = 20
"""Number of parts in which the sweeps of a chain are summed, for standard errors."""

MAX_R_HAT = 1.05
"""Chains with a larger R-hat disagree."""

MIN_ESS = 100.0
"""Estimates with a smaller effective sample size are not trusted."""


def split_r_hat(sums: FloatArray, squares: FloatArray, length: int) -> FloatArray:
    """Return the potential scale reduction of halves of chains (Gelman et al., Bayesian Data Analysis).

    `sums`, `squares`: of the values of each batch; the number of batches is even.
    """
    chains, batches, quantities = sums.shape
    halves = sums.reshape(chains * 2, batches // 2, quantities).sum(1)
    half_squares = squares.reshape(chains * 2, batches // 2, quantities).sum(1)
    n = length * (batches // 2)
    if n < 2:
        return np.full(quantities, np.nan)
    means = halves / n
    within = (np.maximum(half_squares - n * means**2, 0.0) / (n - 1)).mean(0)
    between = means.var(axis=0, ddof=1)
    tiny = 1e-14
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt((n - 1) / n + between / within)
    # A quantity that never changes has converged, unless the chains disagree about it.
    r_hat[within <= tiny] = 1.0
    r_hat[(within <= tiny) & (between > tiny)] = np.inf
    return r_hat


def standard_error(sums: FloatArray, length: int) -> FloatArray:
    """Return the Monte Carlo standard error of the mean, from the spread of the batch means."""
    means = sums.reshape(-1, sums.shape[2]) / length
    return np.sqrt(means.var(axis=0, ddof=1) / len(means))


def effective_size(sums: FloatArray, squares: FloatArray, length: int) -> FloatArray:
    """Return the number of independent values that would have the same standard error.

    It is never larger than the number of values, although chains can do better than independent
    draws.
    """
    count = sums.shape[0] * sums.shape[1] * length
    mean = sums.sum((0, 1)) / count
    variance = np.maximum(squares.sum((0, 1)) - count * mean**2, 0.0) / max(1, count - 1)
    error = standard_error(sums, length) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(error <= 1e-30, float(count), variance / error)
    return np.minimum(size, float(count))
