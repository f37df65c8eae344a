"""How sure an answer is: the same answer from models of resampled rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.progress import progress

FITS = 20
"""Number of models of resampled rows."""


def bootstrap_interval(
    model: Any, rows: Table, answer: Callable[[Any], FloatArray], level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of bootstrap intervals of probabilities.

    Rows get random weights, and a model is learned from them with little effort, several times. The
    weights are exponentially distributed (Rubin's Bayesian bootstrap, 1981). Rows drawn with replacement
    vary as much, but copies of a row would be both learned from and held out to choose by. The log-odds
    of the answers are taken to be normally distributed around those of the model itself, with the
    standard deviation of the answers.
    """
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise ModelError(f"interval must be a number between 0 and 1, not {level!r}")
    from scipy.special import expit, logit, stdtrit

    if not model.resampled_:  # they are kept for later answers
        model.resampled_ = tuple(_reweighted(model, rows))
    answers = [answer(twin) for twin in model.resampled_]
    least = 1 / (len(rows) + 2)  # nothing is more certain than that
    center = logit(np.clip(answer(model), least, 1 - least))
    sd = logit(np.clip(np.stack(answers), least, 1 - least)).std(axis=0, ddof=1)
    reach = stdtrit(FITS - 1, (1 + level) / 2) * sd
    return expit(center - reach), expit(center + reach)


def _reweighted(model: Any, rows: Table) -> Iterator[Any]:
    """Yield models of the same rows with random weights."""
    rng = np.random.default_rng([model.seed_, 3])
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    for _ in progress(range(FITS), "models of reweighted rows"):
        twin = copy.copy(model)
        twin.effort = "quick"
        twin._learn(rows.weighted(weights * rng.exponential(size=len(rows))))
        twin.rows_ = None
        yield twin
