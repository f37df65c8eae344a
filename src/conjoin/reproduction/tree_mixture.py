"""A mixture of trees (Meila and Jordan, 2000) by plain EM, to compare with.

Each component is the maximum-likelihood tree of the rows, weighted by the posterior of the component. The
number of components and of steps are those with the best validation score.
"""

from __future__ import annotations

import numpy as np

from conjoin.bayesian.dependence_tree import tree_network
from conjoin.data.arrays import FloatArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.models.markov import MarkovNetwork

SIZES = (2, 4, 8, 16, 32)
MAX_STEPS = 15


def tree_mixture_scores(
    train: Table, valid: Table, test: Table, random_state: int = 0
) -> tuple[float, int]:
    """Return the mean log-likelihood of the test rows under the best mixture, and its components.

    Examples
    --------
    >>> from conjoin import Domain
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, 3000)
    >>> codes = (rng.random((3000, 6)) < np.where(group, 0.9, 0.1)[:, None]).astype(int)
    >>> parts = [Table(Domain.numbered([2] * 6), codes[some]) for some in np.split(np.arange(3000), 3)]
    >>> score, components = tree_mixture_scores(*parts)
    >>> bool(abs(score + np.log(2) - 6 * (0.9 * np.log(0.9) + 0.1 * np.log(0.1))) < 0.1)
    True
    """
    rng = np.random.default_rng(random_state)
    codes, weights = merge_rows(train.codes, train.weights)
    distinct = Table.adopt(train.domain, codes, weights)
    best = (-np.inf, -np.inf, 0)
    for components in SIZES:
        found = _mixture(distinct, valid.codes, test.codes, components, rng)
        if found[0] <= best[0]:
            break
        best = (*found, components)
    return best[1], best[2]


def _mixture(
    train: Table, valid: Codes, test: Codes, components: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Run EM until the validation score falls; return the best one and the test score there."""
    assert train.weights is not None
    posterior = rng.dirichlet(np.full(components, 0.5), len(train))
    best = (-np.inf, -np.inf)
    for _ in range(MAX_STEPS):
        shares = train.weights @ posterior / train.weights.sum()
        tables = [
            Table.adopt(train.domain, train.codes, train.weights * column) for column in posterior.T
        ]
        trees = [tree_network(table) for table in tables]
        by_part = [_joint(trees, shares, codes) for codes in (valid, test)]
        scores = [float(np.logaddexp.reduce(log_p, axis=1).mean()) for log_p in by_part]
        if scores[0] <= best[0] + 1e-4 * abs(best[0]):
            break
        best = (scores[0], scores[1])
        log_p = _joint(trees, shares, train.codes)
        posterior = np.exp(log_p - np.logaddexp.reduce(log_p, axis=1)[:, None])
    return best


def _joint(trees: list[MarkovNetwork], shares: FloatArray, codes: Codes) -> FloatArray:
    """Return log p(component, row), rows by components."""
    by_tree = np.stack([tree.log_potential(codes) for tree in trees], axis=1)
    joint: FloatArray = by_tree + np.log(shares)
    return joint
