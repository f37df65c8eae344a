"""The distribution of one column in each row."""

from __future__ import annotations

import warnings

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.table import Codes, Table
from conjoin.errors import ConvergenceWarning
from conjoin.inference.completion import Completion
from conjoin.models.network import Network

CHECKED = 32
"""So many of the rows that were sampled are sampled again."""

FAR = 0.1
"""Two runs that differ by more are not to be trusted."""


def probabilities(model: Network, table: Table, target: int, random_state: int = 0) -> FloatArray:
    """Return P(target | what is known of the row), rows by states.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    table : Table
        Rows; what they say of the target is not looked at, what is missing is integrated over.
    target : int
        The position of the column.
    random_state : int
        The seed, for rows whose exact answer would cost too much.

    Warns
    -----
    ConvergenceWarning
        If rows were sampled, and sampling some of them again gives other answers.
    """
    codes = np.array(table.codes)
    codes[:, target] = table.missing
    p, exact = Completion(model, codes, random_state).marginals(target)
    if not exact.all():
        _check(model, codes, p, exact, target, random_state)
    return p


def _check(
    model: Network, codes: Codes, p: FloatArray, exact: BoolArray, target: int, random_state: int
) -> None:
    """Warn if two runs of the sampler differ."""
    some = np.flatnonzero(~exact)[:CHECKED]
    again = Completion(model, codes[some], random_state + 1).marginals(target)[0]
    off = np.abs(p[some] - again).max(axis=1)
    if (off > FAR).any():
        warnings.warn(
            f"{np.count_nonzero(~exact):,} of {len(p):,} rows had to be sampled, and on "
            f"{np.count_nonzero(off > FAR)} of {len(some)} of them a second run differs by up to "
            f"{off.max():.2f}: do not trust these. A thinner network can be asked exactly (`refine`), "
            "and so can rows with more known values",
            ConvergenceWarning,
            stacklevel=4,
        )
