"""How sure an answer is: the same answer from models of resampled rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.mixed_table import MixedTable
from conjoin.errors import ModelError

FITS = 20
"""Number of models of resampled rows."""


def bootstrap_interval(
    model: Any,
    rows: MixedTable,
    answer: Callable[[Any], FloatArray],
    level: float,
    fits: int = FITS,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of bootstrap intervals of an answer.

    Rows are drawn with replacement, and a model is learned from them with little effort, several times;
    the ends are quantiles of the answers. They tell how far the answer depends on which rows happened
    to be in the table. They do not tell whether the model is right.

    Parameters
    ----------
    model : JointModel
        The fitted model.
    rows : MixedTable
        Its training rows.
    answer : function
        Returns the answer of a model, an array.
    level : float
        The probability of an interval.
    fits : int
        The number of models.
    """
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise ModelError(f"interval must be a number between 0 and 1, not {level!r}")
    rng = np.random.default_rng([model.seed_, 3])
    found = []
    for _ in range(fits):
        twin = copy.copy(model)
        twin.effort = "quick"
        twin._learn(rows.select(rng.integers(len(rows), size=len(rows))))
        found.append(answer(twin))
    low, high = np.quantile(np.stack(found), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
