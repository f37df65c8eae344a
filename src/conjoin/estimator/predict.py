"""The distribution of one column in each row of a table."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.table import Codes, Table
from conjoin.errors import ConvergenceWarning
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.completion import Completion
from conjoin.models.network import Network

CHECKED_ROWS = 32
"""Maximum number of sampled rows that are sampled a second time."""

MAX_DIFFERENCE = 0.1
"""Largest difference between two runs of the sampler that is accepted without a warning."""


def probabilities(model: Network, table: Table, target: int, random_state: Any = 0) -> FloatArray:
    """Return P(target | the known values of the row), rows by states.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    table : Table
        Rows. Their values of the target are ignored; missing values are summed over.
    target : int
        The position of the column.
    random_state : int, numpy Generator, RandomState or None
        The source of randomness, for rows on which exact inference would be too expensive.

    Warns
    -----
    ConvergenceWarning
        If rows were sampled, and sampling some of them again gives different answers.
    """
    return probabilities_and_exactness(model, table, target, random_state)[0]


def probabilities_and_exactness(
    model: Network, table: Table, target: int, random_state: Any = 0
) -> tuple[FloatArray, BoolArray]:
    """Return what `probabilities` returns, and which rows are exact; the others were sampled."""
    seed = integer_seed(random_state)
    codes = np.array(table.codes)
    codes[:, target] = table.missing
    p, exact = Completion(model, codes, seed).marginals(target)
    if not exact.all():
        _check(model, codes, p, exact, target, seed)
    return p, exact


def _check(
    model: Network, codes: Codes, p: FloatArray, exact: BoolArray, target: int, seed: int
) -> None:
    """Warn if two runs of the sampler differ."""
    some = np.flatnonzero(~exact)[:CHECKED_ROWS]
    again = Completion(model, codes[some], seed + 1).marginals(target)[0]
    off = np.abs(p[some] - again).max(axis=1)
    if (off > MAX_DIFFERENCE).any():
        warnings.warn(
            f"{np.count_nonzero(~exact):,} of {len(p):,} rows had to be sampled, and on "
            f"{np.count_nonzero(off > MAX_DIFFERENCE)} of {len(some)} of them a second run differs by up "
            f"to {off.max():.2f}: do not trust these probabilities. Inference is exact in a thinner "
            "network (`refine`), and for rows with fewer missing values",
            ConvergenceWarning,
            stacklevel=5,
        )
