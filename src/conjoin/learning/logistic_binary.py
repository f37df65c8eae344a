"""L1-regularised logistic regression of many binary targets at once, over a path of penalties.

Minimises, for each target, the summed log-loss of the training rows plus lambda * sum |w|; the bias is
free. All targets of a batch share the products with the data. Each step minimises a quadratic model:
its gradient, its diagonal and its terms with the bias are exact; the correlations between features
are those of the data, without the weights that the logistic function gives to rows. Steps are halved
until the objective falls, and the path runs from the largest penalty to the smallest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.arrays import Float32Array, FloatArray, Int32Array, IntArray
from conjoin.jobs import stop_point
from conjoin.kernels.coordinate_descent import steps
from conjoin.kernels.logistic import (
    PathNodes,
    Point,
    Spread,
    Weights,
    add_by_leaf,
    derive,
    deviations,
    move,
    penalised,
    spread_to_leaves,
)
from conjoin.learning.logistic_features import (
    MAX_STEPS,
    TOLERANCE,
    Design,
    PathFeatures,
    Solution,
    correlation,
    joint_counts,
)


@dataclass(eq=False)
class Batch:
    """Targets that are solved together, each a column: binary ones, and constants of one state."""

    design: Design  # the training rows; not pickled with the batch
    targets: list[int]  # the targets' positions
    # The fraction of the penalty on each feature for each target; negative if it must not be used;
    # shape (features, variables)
    factor: FloatArray
    # The features that the targets of this batch consider: the design's, when it is solved
    features: IntArray
    paths: list[PathFeatures] | None = None  # the path features of each target
    valid: Design | None = None  # the validation rows; not pickled with the batch
    column_target: IntArray = field(init=False)
    column_state: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.column_target = np.array(self.targets, np.int64)
        self.column_state = np.minimum(1, self.design.cards[self.targets] - 1)
        self.factor = np.ascontiguousarray(self.factor[self.features][:, self.targets].T)
        self.own_sizes = np.zeros(len(self.targets), np.int64)
        if self.paths is not None:
            self.own_sizes = np.array([len(path.parent) for path in self.paths], np.int64)
        self.own_first = np.cumsum([0, *self.own_sizes], dtype=np.int64)
        self.weights: Weights | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("design", "valid")}

    def solve(
        self, penalty: float, start: Solution | None = None, tolerance: float = TOLERANCE
    ) -> Solution:
        """Solve for a penalty, from the solution for a larger one or from no weights."""
        y, m = self._labels(self.design)
        if self.weights is None:
            self._prepare_own()
        self.weights = self._start(start, y, m)
        self._descend(penalty, self._place(self.design, self.leaf, y, m), tolerance)
        return Solution(
            tolerance, self.weights.ordinary, self.weights.bias, self.weights.own, self._score()
        )

    def _labels(self, design: Design) -> tuple[Float32Array, Float32Array]:
        """Return which rows have each column's state, and the weight of each row for it."""
        codes = design.codes.T[self.column_target]
        y = (codes == self.column_state[:, None]).astype(np.float32)
        known = codes != design.missing
        m = design.weights[None, :]
        return y, np.ascontiguousarray(m if known.all() else m * known)

    def _start(self, start: Solution | None, y: Float32Array, m: Float32Array) -> Weights:
        """Return the weights of a solution, or none and the biases that give the marginals."""
        total = np.broadcast_to(m.sum(axis=1, dtype=np.float64), len(y))
        yes = (y * m).sum(axis=1, dtype=np.float64)
        # The best bias of a constant target is infinite: half a row of the other state keeps it finite.
        self.movable = (yes > 0) & (yes < total)
        if start is not None:
            return Weights(start.weights.copy(), start.bias.copy(), start.own.copy())
        bias = np.log(np.clip(yes, 0.5, None) / np.clip(total - yes, 0.5, None))
        return Weights(np.zeros(self.factor.shape), bias, np.zeros(self.own_first[-1]))

    def _prepare_own(self) -> None:
        """Lay the path features of all columns end to end, with their correlations."""
        design, paths = self.design, self.paths or []
        _, mean, deviation = design.correlations
        weights = design.weights / np.float32(design.weights.sum(dtype=np.float64))
        cross: list[Float32Array] = [np.zeros(0, np.float32)]
        shares, usable = [np.zeros(0)], [np.zeros(0, bool)]
        for path in paths:
            together, share = joint_counts(design.x, path, weights)
            spread = np.sqrt(np.maximum(share * (1 - share), 0))
            cross.append(correlation(together, share, spread, mean, deviation).ravel())
            shares.append(share)
            usable.append((path.depth >= 2) & (spread > 0))
        self.cross, self.share = np.concatenate(cross), np.concatenate(shares)
        self.deviation = np.sqrt(np.maximum(self.share * (1 - self.share), 0))
        self.own_usable = np.concatenate(usable)
        self.parent = np.concatenate([np.zeros(0, np.int64), *(path.parent for path in paths)])
        self.leaf = np.stack([p.leaf for p in paths]) if paths else np.zeros((0, 0), np.int32)
        self.cross_first = np.cumsum([0, *self.own_sizes * design.x.width])

    def _score(self) -> FloatArray:
        """Return the summed log-likelihood of the validation rows for each target."""
        if self.valid is None:
            return np.zeros(len(self.targets))
        leaf = self.leaf
        if self.paths is not None:
            leaf = np.stack([path.valid_leaf for path in self.paths])
        return -self._place(self.valid, leaf, *self._labels(self.valid)).loss

    def _product(
        self, design: Design, columns: IntArray, weights: Weights, leaf: Int32Array
    ) -> Float32Array:
        """Return the logits that weights give; `leaf` is where the rows end in each tree."""
        z = design.x.logits(weights.ordinary)
        z += weights.bias.astype(np.float32)[:, None]
        if self.paths is not None:
            spread_to_leaves(columns, weights.own, leaf, self.parent, self.own_first, z)
        return z

    def _place(self, design: Design, leaf: Int32Array, y: Float32Array, m: Float32Array) -> Point:
        """Return the logits of rows under the weights reached so far, and the derivatives there."""
        assert self.weights is not None
        every = np.arange(len(self.column_target))
        z = self._product(design, every, self.weights, leaf)
        at = Point(z, y, m, np.empty_like(z), np.empty_like(z), *np.zeros((3, len(z))))
        derive(at)
        np.maximum(at.h_bias, 1e-12, out=at.h_bias)
        return at

    def _move(
        self, at: Point, penalty: float, columns: IntArray, step: Weights, objective: FloatArray
    ) -> None:
        """Take a step, halved for each column until its objective falls."""
        change = self._product(self.design, columns, step, self.leaf)
        move(
            penalty, columns, self.factor, change, at, self.weights, step, self.own_first, objective
        )
        np.maximum(at.h_bias, 1e-12, out=at.h_bias)

    def _objective(self, at: Point, penalty: float, columns: IntArray) -> FloatArray:
        """Return the loss and the penalty of each column."""
        norm = np.zeros(len(columns))
        penalised(columns, self.weights, self.factor, self.own_first, norm)
        return at.loss[columns] + penalty * norm

    def _slopes(self, values: Float32Array, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the products of rows of values with the features, ordinary ones and own."""
        own = np.zeros(self.own_first[-1])
        if self.paths is not None:
            add_by_leaf(columns, values, self.leaf, self.parent, self.own_first, own)
        return self.design.x.slopes(values, columns), own

    def _descend(self, penalty: float, at: Point, tolerance: float) -> None:
        """Minimise for one penalty, all targets together."""
        shared, _, _ = self.design.correlations
        nodes = PathNodes(
            self.own_first, self.parent, self.share, self.deviation, self.cross, self.cross_first
        )
        spread = Spread(*np.zeros((2, *self.factor.shape)), *np.zeros((2, self.own_first[-1])))
        gain = np.where(self.movable, np.inf, 0.0)
        for iteration in range(MAX_STEPS):
            stop_point()
            columns = np.flatnonzero(gain > tolerance)
            if not len(columns):
                break
            gradient, own_gradient = self._slopes(at.residual, columns)
            if iteration % 3 == 0:
                sums, own_sums = self._slopes(at.bend, columns)
                deviations(
                    columns, sums, own_sums, at.h_bias, self.factor, self.own_usable,
                    self.own_first, spread,
                )  # fmt: skip
            decrease, bias_step = np.empty((2, len(columns)))
            step = Weights(np.empty_like(gradient), bias_step, np.zeros_like(own_gradient))
            steps(
                penalty, columns, self.factor, gradient, own_gradient, at, spread, self.weights,
                shared, nodes, step, decrease,
            )  # fmt: skip
            objective = self._objective(at, penalty, columns)
            gain[columns] = decrease / np.maximum(objective, 1e-12)
            moving = gain[columns] > tolerance
            if not moving.all():
                columns, objective = columns[moving], objective[moving]
                step = Weights(step.ordinary[moving], step.bias[moving], step.own)
            if len(columns):
                self._move(at, penalty, columns, step, objective)
                fell = objective - self._objective(at, penalty, columns)
                # Where no step helps, the numbers' own precision is reached.
                gain[columns[fell < 0.1 * tolerance * objective]] = 0
