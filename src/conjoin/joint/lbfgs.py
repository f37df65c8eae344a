"""Limited-memory quasi-Newton descent: L-BFGS, and OWL-QN where absolute values are penalised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray

MEMORY = 10
"""Number of past steps from which the curvature is estimated."""


@dataclass(frozen=True, eq=False)
class Step:
    """The state of the descent after an iteration."""

    point: FloatArray
    value: float
    change: float


def descend(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    scale: FloatArray,
    l1: float | FloatArray = 0.0,
) -> Iterator[Step]:
    """Minimise a smooth function plus sum l1 * |x|, yielding each iteration, until no step improves it.

    `function`: returns the value and the gradient of the smooth part at a point. `scale`: a rough
    second derivative of the function along each coordinate. `l1`: the penalty on absolute values,
    for all coordinates or for each. Each step stays within one orthant (Andrew and Gao, 2007).

    Examples
    --------
    >>> def bowl(x):
    ...     return float(((x - 3) ** 2).sum()) / 2, x - 3
    >>> *_, last = descend(bowl, np.zeros(2), scale=np.ones(2), l1=1.0)
    >>> last.point.round(6).tolist()
    [2.0, 2.0]
    """
    x = start.copy()
    smooth, gradient = function(x)
    value = smooth + float((l1 * np.abs(x)).sum())
    sparse = bool(np.any(l1))
    steps: list[FloatArray] = []
    turns: list[FloatArray] = []
    while True:
        slope = _steepest(x, gradient, l1)
        direction = -_two_loops(slope, steps, turns, 1 / scale)
        if sparse:
            direction[direction * slope >= 0] = 0.0
        along = float(direction @ slope)
        if along >= 0:
            return
        orthant = np.where(x != 0, np.sign(x), -np.sign(slope))
        size = 1.0
        while True:
            new = x + size * direction
            if sparse:
                new[(new * orthant < 0) & (l1 > 0)] = 0.0
            new_smooth, new_gradient = function(new)
            new_value = new_smooth + float((l1 * np.abs(new)).sum())
            if new_value <= value + 1e-4 * float(slope @ (new - x)):
                break
            size *= 0.5
            if size < 1e-10:
                return
        step, turn = new - x, new_gradient - gradient
        if step @ turn > 1e-12 * (turn @ turn):
            steps, turns = [*steps[-MEMORY + 1 :], step], [*turns[-MEMORY + 1 :], turn]
        change = value - new_value
        x, value, gradient = new, new_value, new_gradient
        yield Step(x, value, change)


def _steepest(x: FloatArray, gradient: FloatArray, l1: float | FloatArray) -> FloatArray:
    """Return the shortest subgradient."""
    if not np.any(l1):
        return gradient
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0)
    return np.where(x != 0, gradient + l1 * np.sign(x), at_zero)


def _two_loops(
    slope: FloatArray, steps: list[FloatArray], turns: list[FloatArray], inverse: FloatArray
) -> FloatArray:
    """Multiply the gradient by the inverse curvature that past steps show (two-loop recursion)."""
    result = slope.copy()
    parts = []
    for step, turn in zip(reversed(steps), reversed(turns), strict=True):
        rate = 1 / (step @ turn)
        part = rate * (step @ result)
        result -= part * turn
        parts.append((step, turn, rate, part))
    if steps:
        result *= inverse * ((steps[-1] @ turns[-1]) / (turns[-1] @ (inverse * turns[-1])))
    else:
        result *= inverse
    for step, turn, rate, part in reversed(parts):
        result += (part - rate * (turn @ result)) * step
    return result
