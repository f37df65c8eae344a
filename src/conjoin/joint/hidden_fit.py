"""Fits of a hidden column: its parameters learned by L-BFGS on all rows, or by Adam on batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.joint.batches import adam, batches
from conjoin.joint.hidden_column import HiddenModel, Parameters
from conjoin.joint.hidden_tables import HiddenRows, Part
from conjoin.joint.lbfgs import descend

MAX_ITERATIONS, PATIENCE = 150, 8
"""Number of steps of a fit, and number of steps without a better validation score before it stops."""

STRIDE, STRIDES_TO_COME = 10, 3
"""A fit stops if even this multiple of its gain in the last steps would not make it the best."""

START_ROWS = 1 << 13
"""Number of rows of the mixture that a fit from batches starts from."""

BATCH_ROWS, RATE = 1 << 11, 0.1
"""Number of rows of a batch, and how far parameters move in a step."""


@dataclass(frozen=True, eq=False)
class HiddenFit:
    """A hidden column with parameters that were learned."""

    model: HiddenModel
    parameters: Parameters
    log_z: FloatArray  # the log Z of each hidden state; shape (states,)
    iterations: int = 0  # the number of steps that it took to get there

    def part(self) -> Part:
        """Return the fit as part of a larger mixture."""
        weights, p = self.model.weights(self.parameters), self.parameters
        return Part(self.model.tables.matrix @ weights.T, p.log_probabilities - self.log_z)

    def log_density(self, rows: HiddenRows) -> FloatArray:
        """Return the log-probability of each row, the hidden column summed out."""
        return self.model.log_density(rows, self.parameters, self.log_z)

    def score(self, rows: HiddenRows) -> float:
        """Return the mean log-probability of the rows."""
        return self.model.mean_log_density(rows, self.parameters, self.log_z)


def fit_hidden(
    model: HiddenModel,
    train: HiddenRows,
    valid: HiddenRows,
    rng: np.random.Generator,
    max_steps: int = MAX_ITERATIONS,
    reached: float = -np.inf,
) -> HiddenFit:
    """Learn the parameters from all rows.

    `train` and `valid`: rows to learn from, and rows that tell when to stop: where they score best, or
    where that will clearly stay below the score that another fit has reached.
    """
    fit = HiddenFit(model, *model.start(train, rng))
    best, scores = -np.inf, []
    for now in _descent(fit, train):
        step = now.iterations
        scores.append(now.score(valid))
        if scores[-1] > best:
            best, fit = scores[-1], now
        if step >= min(max_steps, fit.iterations + PATIENCE):
            break
        gain = best - scores[-STRIDE - 1] if step > STRIDE else np.inf
        if best + STRIDES_TO_COME * gain < reached:
            break
    return fit


def fit_further(fit: HiddenFit, rows: HiddenRows) -> HiddenFit:
    """Continue on all rows, for a quarter of the steps that were taken on most of them."""
    for now in islice(_descent(fit, rows), -(-fit.iterations // 4)):
        fit = now
    return fit


def fit_batches(
    model: HiddenModel, rows: HiddenRows, rng: np.random.Generator, steps: int
) -> HiddenFit:
    """Learn the parameters from batches of many rows."""
    some = next(batches(rows.weights, min(START_ROWS, len(rows.codes)), rng))
    return _by_batches(
        HiddenFit(model, *model.start(rows.drawn(some), rng)), rows, rng, steps, RATE
    )


def fit_further_batches(
    fit: HiddenFit, rows: HiddenRows, rng: np.random.Generator, steps: int
) -> HiddenFit:
    """Continue on batches of many rows, in short steps."""
    return _by_batches(fit, rows, rng, steps, RATE / 4)


def _by_batches(
    start: HiddenFit, rows: HiddenRows, rng: np.random.Generator, steps: int, rate: float
) -> HiddenFit:
    """Return the fit after the last step from whose parameters log Z can be computed."""
    model, drawn, fit = start.model, batches(rows.weights, BATCH_ROWS, rng), start
    precision = model.precisions(start.parameters) / rows.count

    def gradient(flat: FloatArray) -> FloatArray:
        nonlocal fit
        p = start.parameters.like(flat)
        found = model.tables.expectations(model.weights(p))
        if found is None:
            return np.zeros_like(flat)
        fit = HiddenFit(model, p, found[0], start.iterations)
        _, likelihood = model.value_and_gradient(rows.drawn(next(drawn)), p, *found)
        return precision * flat - likelihood.flat() / BATCH_ROWS

    gradient(adam(gradient, start.parameters.flat(), steps, rate))
    return fit


def _descent(fit: HiddenFit, rows: HiddenRows) -> Iterator[HiddenFit]:
    """Yield the fit after each step from the parameters of a fit."""
    model, start, log_z = fit.model, fit.parameters, fit.log_z
    precision = model.precisions(start)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal log_z
        p = start.like(flat)
        found = model.tables.expectations(model.weights(p))
        if found is None:
            return np.inf, np.zeros_like(flat)
        log_z, means = found
        value, gradient = model.value_and_gradient(rows, p, log_z, means)
        prior = flat * precision
        return 0.5 * float(prior @ flat) - value, prior - gradient.flat()

    scale = model.curvature(start, fit.log_z, rows).flat() + precision
    for number, step in enumerate(descend(objective, start.flat(), scale=scale), 1):
        yield HiddenFit(model, start.like(step.point), log_z, fit.iterations + number)
