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

    Parameters
    ----------
    sums, squares : arrays of float, shape (chains, batches, quantities)
        Sums of the values of each batch, and of their squares; the number of batches is even.
    length : int
        The number of values per batch.

    Examples
    --------
    Two chains of two batches of two values, [1, 3, 2, 4] and [2, 2, 1, 5]:

    >>> sums = np.array([[[4.0], [6.0]], [[4.0], [6.0]]])
    >>> squares = np.array([[[10.0], [20.0]], [[8.0], [26.0]]])
    >>> split_r_hat(sums, squares, 2).round(4)  # W = 3, B = 2/3, sqrt((3/2 + 1/3) / 3)
    array([0.7817])
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
    """Return the Monte Carlo standard error of the mean, from the spread of the batch means.

    Examples
    --------
    >>> standard_error(np.array([[[4.0], [6.0]], [[4.0], [6.0]]]), 2)  # means 2, 3, 2, 3
    array([0.28867513])
    """
    means = sums.reshape(-1, sums.shape[2]) / length
    return np.sqrt(means.var(axis=0, ddof=1) / len(means))


def effective_size(sums: FloatArray, squares: FloatArray, length: int) -> FloatArray:
    """Return the number of independent values that would have the same standard error.

    It is never larger than the number of values, although chains can do better than independent
    draws.

    Examples
    --------
    >>> sums = np.array([[[4.0], [6.0]], [[4.0], [6.0]]])
    >>> squares = np.array([[[10.0], [20.0]], [[8.0], [26.0]]])
    >>> effective_size(sums, squares, 2)  # the variance of all eight is 2, that of the mean 1/12
    array([8.])
    """
    count = sums.shape[0] * sums.shape[1] * length
    mean = sums.sum((0, 1)) / count
    variance = np.maximum(squares.sum((0, 1)) - count * mean**2, 0.0) / max(1, count - 1)
    error = standard_error(sums, length) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(error <= 1e-30, float(count), variance / error)
    return np.minimum(size, float(count))
