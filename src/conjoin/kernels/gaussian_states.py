"""Gaussians of several hidden states: what EM needs of them, as sums over rows that BLAS can do.

The features of a row that knows some numbers are 1, the numbers, and the products of any two of them (the
first with itself and all others, then the second, and so on). The log-density of a row is linear in its
features, and the sums of the features, weighted by the posterior of a state, determine the moments of the
state. Hidden states have small matrices of their own, for which calls of LAPACK would take longer than
the arithmetic.
"""

from __future__ import annotations

import math

import numpy as np

from conjoin.kernels.functions import LOWEST_64, exp64, sum_of
from conjoin.kernels.kernel import compiled, inner, inner_fused
from conjoin.kernels.layouts import Float2, Float3, Int1, ReadFloat1, ReadFloat2, ReadFloat3

LOG_TAU = math.log(2 * math.pi)


@inner_fused
def inverse_root(covariance, known, root, inverse):
    """Write the Cholesky factor of the covariance of known numbers, and its inverse.

    Both are lower triangles; what is above the diagonal is not written. Returns whether there is one.
    """
    size = len(known)
    for i in range(size):
        for j in range(i + 1):
            total = covariance[known[i], known[j]]
            for k in range(j):
                total -= root[i, k] * root[j, k]
            if j < i:
                root[i, j] = total * inverse[j, j]
            elif total > 0:
                root[i, i] = math.sqrt(total)
                inverse[i, i] = 1 / root[i, i]
            else:
                return False
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += root[i, k] * inverse[k, j]
            inverse[i, j] = -total * inverse[i, i]
    return True


@inner_fused
def _precision(inverse, precision):
    """Write the inverse of a covariance, all of it, from the inverse of its Cholesky factor."""
    size = len(inverse)
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, size):
                total += inverse[k, i] * inverse[k, j]
            precision[i, j] = total
            precision[j, i] = total


@compiled
def density_coefficients(
    means: ReadFloat2, covariances: ReadFloat3, known: Int1, out: Float2
) -> bool:
    """Write the coefficients of the log-density in the features of a row; whether there are any.

    Parameters
    ----------
    means, covariances : arrays, shape (states, columns), (states, columns, columns)
        The Gaussians.
    known : array
        The columns that are known.
    out : array, shape (states, features)
    """
    size = len(known)
    root, inverse, precision = np.empty((3, size, size))
    for s in range(len(means)):
        if not inverse_root(covariances[s], known, root, inverse):
            return False
        _precision(inverse, precision)
        constant = -0.5 * size * LOG_TAU
        at = 1 + size
        for i in range(size):
            towards = 0.0
            for j in range(size):
                towards += precision[i, j] * means[s, known[j]]
            constant -= math.log(root[i, i]) + 0.5 * towards * means[s, known[i]]
            out[s, 1 + i] = towards
            out[s, at] = -0.5 * precision[i, i]
            for j in range(i + 1, size):
                out[s, at + j - i] = -precision[i, j]
            at += size - i
        out[s, 0] = constant
    return True


@inner_fused
def _moments_of_known(sums, mean, known, first, squares):
    """Write the sums of the differences from the means, and of their products."""
    size, count = len(known), sums[0]
    at = 1 + size
    for i in range(size):
        first[i] = sums[1 + i] - count * mean[known[i]]
    for i in range(size):
        for j in range(i, size):
            found = sums[at] - sums[1 + i] * mean[known[j]] - mean[known[i]] * first[j]
            squares[i, j] = found
            squares[j, i] = found
            at += 1


@inner_fused
def _product(left, right, out):
    """Write the product of two matrices."""
    for i in range(len(left)):
        for j in range(right.shape[1]):
            total = 0.0
            for k in range(len(right)):
                total += left[i, k] * right[k, j]
            out[i, j] = total


@inner_fused
def _add_missing(count, covariance, known, missing, slope, partial, moments, first, second):
    """Add the expected moments of missing numbers, given those of known ones."""
    known_first, squares = moments
    _product(slope, squares, partial)
    for a in range(len(missing)):
        total = 0.0
        for j in range(len(known)):
            total += slope[a, j] * known_first[j]
            second[missing[a], known[j]] += partial[a, j]
            second[known[j], missing[a]] += partial[a, j]
        first[missing[a]] += total
        for b in range(len(missing)):
            total = count * covariance[missing[a], missing[b]]
            for j in range(len(known)):
                left = partial[a, j] - count * covariance[missing[a], known[j]]
                total += left * slope[b, j]
            second[missing[a], missing[b]] += total


@inner
def _slopes(covariance, known, missing, inverse, precision, slope):
    """Write the regression coefficients of missing numbers on known ones."""
    _precision(inverse, precision)
    for a in range(len(missing)):
        for j in range(len(known)):
            total = 0.0
            for k in range(len(known)):
                total += covariance[missing[a], known[k]] * precision[k, j]
            slope[a, j] = total


@compiled
def add_moments(
    sums: Float2,
    means: ReadFloat2,
    covariances: ReadFloat3,
    known: Int1,
    missing: Int1,
    first: Float2,
    second: Float3,
) -> bool:
    """Add expected moments about the means of rows that know the same numbers; whether there are any.

    Parameters
    ----------
    sums : array, shape (states, features)
        The sums of the features, weighted by the posterior of each state.
    means, covariances : arrays, shape (states, columns), (states, columns, columns)
        The Gaussians, which say what missing numbers are given known ones.
    known, missing : array
        The columns that are known, and the others.
    first, second : arrays, shape (states, columns), (states, columns, columns)
        The moments that are added to.
    """
    size = len(known)
    root, inverse, precision, squares = np.empty((4, size, size))
    slope, partial = np.empty((2, len(missing), size))
    known_first = np.empty(size)
    for s in range(len(means)):
        _moments_of_known(sums[s], means[s], known, known_first, squares)
        for i in range(size):
            first[s, known[i]] += known_first[i]
            for j in range(size):
                second[s, known[i], known[j]] += squares[i, j]
        if len(missing):
            if not inverse_root(covariances[s], known, root, inverse):
                return False
            _slopes(covariances[s], known, missing, inverse, precision, slope)
            _add_missing(
                sums[s, 0], covariances[s], known, missing, slope, partial, (known_first, squares),
                first[s], second[s],
            )  # fmt: skip
    return True


@compiled
def posteriors(scores: Float2, weights: ReadFloat1) -> None:
    """Replace the log-probabilities of the hidden states by the posterior times the weight of a row."""
    for r in range(len(scores)):
        row = scores[r]
        top = row[0]
        for s in range(len(row)):
            top = max(top, row[s])
        for s in range(len(row)):
            row[s] = exp64(max(row[s] - top, LOWEST_64))
        share = weights[r] / sum_of(row)
        for s in range(len(row)):
            row[s] *= share


@compiled
def condition_draws(
    middle: ReadFloat2, state: Int1, covariances: ReadFloat3, draws: Float2
) -> bool:
    """Replace draws of all numbers by known ones, and correct the others by what the row knows.

    Parameters
    ----------
    middle : array, shape (rows, columns)
        The known numbers; NaN if they are missing.
    state : array, shape (rows,)
        The hidden state of each row.
    covariances : array, shape (states, columns, columns)
    draws : array, shape (rows, columns)
        A draw of all numbers of each row.

    Returns
    -------
    bool
        Whether all covariances are positive definite.
    """
    rows, columns = middle.shape
    known, missing = np.empty((2, columns), np.int64)
    root, inverse = np.empty((2, columns, columns))
    white, solved = np.empty((2, columns))
    for r in range(rows):
        size, holes = 0, 0
        for j in range(columns):
            if math.isnan(middle[r, j]):
                missing[holes] = j
                holes += 1
            else:
                known[size] = j
                size += 1
        covariance = covariances[state[r]]
        if holes > 0:
            if not inverse_root(covariance, known[:size], root, inverse):
                return False
            for i in range(size):
                total = 0.0
                for j in range(i + 1):
                    total += inverse[i, j] * (middle[r, known[j]] - draws[r, known[j]])
                white[i] = total
            for i in range(size):
                total = 0.0
                for j in range(i, size):
                    total += inverse[j, i] * white[j]
                solved[i] = total
            for i in range(holes):
                total = 0.0
                for j in range(size):
                    total += covariance[missing[i], known[j]] * solved[j]
                draws[r, missing[i]] += total
        for i in range(size):
            draws[r, known[i]] = middle[r, known[i]]
    return True
