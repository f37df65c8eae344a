"""The distribution of one column in each row."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Table
from conjoin.inference.completion import Completion
from conjoin.models.network import Network


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
    """
    codes = np.array(table.codes)
    codes[:, target] = table.missing
    return Completion(model, codes, random_state).marginals(target)[0]
