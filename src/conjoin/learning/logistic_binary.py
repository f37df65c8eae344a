"""L1-regularised logistic regression of many binary targets at once, over a path of penalties.

Minimises, for each target, the summed log-loss of the training rows plus lambda * sum |w|; the bias is
free. All targets of a batch share the products with the data. Each step minimises a quadratic model:
its gradient, its diagonal and its terms with the bias are exact; the correlations between features
are those of the data, without the weights that the logistic function gives to rows. Steps are halved
until the objective falls, and the path runs from the largest penalty to the smallest. If this model is
poor, as it is for targets that are nearly determined by others, a column gets its own correlations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import Float32Array, FloatArray, Int32Array, IntArray
from conjoin.jobs import stop_point
from conjoin.learning.logistic_features import Design, PathFeatures, correlation, joint_counts
from conjoin.learning.logistic_solver import MAX_STEPS, TOLERANCE, Solution

if TYPE_CHECKING:
    from conjoin.kernels.logistic import PathNodes, Point, Spread, Weights

PATIENCE = 30
"""The number of steps after which a column goes on with correlations of its own."""
MAX_OWN_ALONE = 200
"""The maximum number of own features of such a column: the correlations of more cost too much."""


@dataclass(eq=False)
class Batch:
    """Targets that are solved together, each a column: binary ones, and constants of one state.

    Attributes
    ----------
    design : Design
        The training rows; not pickled with the batch.
    targets : list of int
        The targets' positions.
    factor : array of float, shape (features, variables)
        The fraction of the penalty on each feature for each target; negative if it must not be used.
    features : array of int
        The features that the targets of this batch consider: the design's, when it is solved.
    paths : list of PathFeatures, optional
        The path features of each target.
    valid : Design, optional
        The validation rows; not pickled with the batch.
    """

    design: Design
    targets: list[int]
    factor: FloatArray
    features: IntArray
    paths: list[PathFeatures] | None = None
    valid: Design | None = None
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
        self.reached: Solution | None = None  # where to continue

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("design", "valid")}

    # ---- the path -----------------------------------------------------------------------------

    def solve(self, penalties: Sequence[float], tolerance: float = TOLERANCE) -> list[Solution]:
        """Continue along the path, from the largest penalty to the smallest."""
        self.design = self.design.screened(self.factor >= 0)
        y, m = self._labels(self.design)
        weights = self._start(y, m) if self.weights is None else self.weights
        result = []
        for penalty in sorted(penalties, reverse=True):
            self._descend(penalty, self._place(self.design, self.leaf, y, m), tolerance)
            reached = weights.ordinary.copy(), weights.bias.copy(), weights.own.copy()
            result.append(Solution(penalty, tolerance, *reached, self._score()))
        return result

    def go_back(self, solution: Solution) -> None:
        """Continue from a solution that was found before, here or in another process or run."""
        self.reached = solution
        if self.weights is not None:
            self._go_back(self.weights)

    def _go_back(self, weights: Weights) -> None:
        if self.reached is not None:
            weights.ordinary[:], weights.bias[:] = self.reached.weights, self.reached.bias
            weights.own[:] = self.reached.own
            self.reached = None

    def _labels(self, design: Design) -> tuple[Float32Array, Float32Array]:
        """Return which rows have each column's state, and the weight of each row for it."""
        codes = design.codes.T[self.column_target]
        y = (codes == self.column_state[:, None]).astype(np.float32)
        known = codes != design.missing
        m = design.weights[None, :]
        return y, np.ascontiguousarray(m if known.all() else m * known)

    def _start(self, y: Float32Array, m: Float32Array) -> Weights:
        """Start with no weights, and the biases that give the marginals; return the weights."""
        from conjoin.kernels.logistic import Weights

        self._prepare_own()
        total = np.broadcast_to(m.sum(axis=1, dtype=np.float64), len(y))
        yes = (y * m).sum(axis=1, dtype=np.float64)
        # The best bias of a constant target is infinite: half a row of the other state keeps it finite.
        self.movable = (yes > 0) & (yes < total)
        bias = np.log(np.clip(yes, 0.5, None) / np.clip(total - yes, 0.5, None))
        self.weights = Weights(np.zeros(self.factor.shape), bias, np.zeros(self.own_first[-1]))
        self._go_back(self.weights)
        return self.weights

    def _prepare_own(self) -> None:
        """Lay the path features of all columns end to end, with their correlations."""
        design = self.design
        _, mean, deviation = design.correlations
        cross: list[Float32Array] = [np.zeros(0, np.float32)]
        self.leaf = np.zeros((0, 0), np.int32)
        self.parent = np.zeros(0, np.int64)
        self.own_usable = np.zeros(0, bool)
        self.share, self.deviation = np.zeros((2, 0))
        if self.paths is not None:
            ready = []
            weights = design.weights / np.float32(design.weights.sum(dtype=np.float64))
            for path in self.paths:
                together, share = joint_counts(design.x, path, weights)
                dev = np.sqrt(np.maximum(share * (1 - share), 0))
                rho = correlation(together, share, dev, mean, deviation).ravel()
                ready.append((rho, share, dev))
            cross += [rho for rho, _, _ in ready]
            self.leaf = np.stack([path.leaf for path in self.paths])
            self.parent = np.concatenate([path.parent for path in self.paths]).astype(np.int64)
            self.share = np.concatenate([share for _, share, _ in ready])
            self.deviation = np.concatenate([deviation for _, _, deviation in ready])
            self.own_usable = np.concatenate([path.depth >= 2 for path in self.paths])
            self.own_usable &= self.deviation > 0
        widths = self.own_sizes * design.x.width
        self.cross_first: IntArray = np.concatenate([[0], np.cumsum(widths)])
        self.cross = np.concatenate(cross)

    def _score(self) -> FloatArray:
        """Return the summed log-likelihood of the validation rows for each target."""
        if self.valid is None:
            return np.zeros(len(self.targets))
        leaf = self.leaf
        if self.paths is not None:
            leaf = np.stack([path.valid_leaf for path in self.paths])
        return -self._place(self.valid, leaf, *self._labels(self.valid)).loss

    # ---- one penalty ----------------------------------------------------------------------------

    def _product(
        self, design: Design, columns: IntArray, weights: Weights, leaf: Int32Array
    ) -> Float32Array:
        """Return the logits that weights give; `leaf` is where the rows end in each tree."""
        from conjoin.kernels.logistic import spread_to_leaves

        z = design.x.logits(weights.ordinary)
        z += weights.bias.astype(np.float32)[:, None]
        if self.paths is not None:
            spread_to_leaves(columns, weights.own, leaf, self.parent, self.own_first, z)
        return z

    def _nodes(self) -> PathNodes:
        """Return the path features, as kernels take them."""
        from conjoin.kernels.logistic import PathNodes

        return PathNodes(
            self.own_first, self.parent, self.share, self.deviation, self.cross, self.cross_first
        )

    def _place(self, design: Design, leaf: Int32Array, y: Float32Array, m: Float32Array) -> Point:
        """Return the logits of rows under the weights reached so far, and the derivatives there."""
        from conjoin.kernels.logistic import Point, derive

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
        from conjoin.kernels.logistic import move

        change = self._product(self.design, columns, step, self.leaf)
        move(
            penalty, columns, self.factor, change, at, self.weights, step, self.own_first, objective
        )
        np.maximum(at.h_bias, 1e-12, out=at.h_bias)

    def _objective(self, at: Point, penalty: float, columns: IntArray) -> FloatArray:
        """Return the loss and the penalty of each column."""
        from conjoin.kernels.logistic import penalised

        norm = np.zeros(len(columns))
        penalised(columns, self.weights, self.factor, self.own_first, norm)
        return at.loss[columns] + penalty * norm

    def _slopes(self, values: Float32Array, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the products of rows of values with the features, ordinary ones and own."""
        from conjoin.kernels.logistic import add_by_leaf

        own = np.zeros(self.own_first[-1])
        if self.paths is not None:
            add_by_leaf(columns, values, self.leaf, self.parent, self.own_first, own)
        return self.design.x.slopes(values, columns), own

    def _set_spread(self, at: Point, columns: IntArray, spread: Spread) -> None:
        """Set the means and deviations of the features, weighted by the second derivatives."""
        from conjoin.kernels.logistic import deviations

        sums, own_sums = self._slopes(at.bend, columns)
        deviations(
            columns, sums, own_sums, at.h_bias, self.factor, self.own_usable, self.own_first, spread
        )  # fmt: skip

    def _descend(self, penalty: float, at: Point, tolerance: float) -> None:
        """Minimise for one penalty, all targets together."""
        from conjoin.kernels.coordinate_descent import steps
        from conjoin.kernels.logistic import Spread, Weights

        shared, _, _ = self.design.correlations
        nodes = self._nodes()
        spread = Spread(*np.zeros((2, *self.factor.shape)), *np.zeros((2, self.own_first[-1])))
        gain = np.where(self.movable, np.inf, 0.0)
        for iteration in range(MAX_STEPS):
            stop_point()
            columns = np.flatnonzero(gain > tolerance)
            if not len(columns):
                break
            gradient, own_gradient = self._slopes(at.residual, columns)
            if iteration % 3 == 0:
                self._set_spread(at, columns, spread)
            decrease, bias_step = np.empty((2, len(columns)))
            step = Weights(np.empty_like(gradient), bias_step, np.zeros_like(own_gradient))
            steps(
                penalty, columns, self.factor, gradient, own_gradient, at, spread, self.weights,
                shared, nodes, step, decrease,
            )  # fmt: skip
            objective = self._objective(at, penalty, columns)
            gain[columns] = decrease / np.maximum(objective, 1e-12)
            moving = gain[columns] > tolerance
            late = moving & (iteration >= PATIENCE)
            late &= self.own_sizes[columns] <= MAX_OWN_ALONE
            for c in columns[late].tolist():
                self._go_alone(c, penalty, at, tolerance, spread)
            gain[columns[late]] = 0
            moving &= ~late
            if not moving.all():
                columns, objective = columns[moving], objective[moving]
                step = Weights(step.ordinary[moving], step.bias[moving], step.own)
            if len(columns):
                self._move(at, penalty, columns, step, objective)
                fell = objective - self._objective(at, penalty, columns)
                # Where no step helps, the numbers' own precision is reached.
                gain[columns[fell < 0.1 * tolerance * objective]] = 0

    def _go_alone(
        self, column: int, penalty: float, at: Point, tolerance: float, spread: Spread
    ) -> None:
        """Finish one column with correlations weighted by its own second derivatives."""
        from conjoin.kernels.coordinate_descent import QuadraticModel, coordinate_descent
        from conjoin.kernels.logistic import Weights

        assert self.weights is not None
        one = np.array([column])
        slot = slice(self.own_first[column], self.own_first[column + 1])
        path = None if self.paths is None else self.paths[column]
        factor = self.factor[column]
        rho, had = np.zeros((0, 0), np.float32), np.zeros(0, np.int64)
        for iteration in range(MAX_STEPS):
            slopes, own_slopes = self._slopes(at.residual, one)
            if iteration % 2 == 0:
                self._set_spread(at, one, spread)
                mean = np.concatenate([spread.mean[column], spread.own_mean[slot]])
                scale = np.concatenate([spread.scale[column], spread.own_scale[slot]])
            g_bias, h_bias = at.g_bias[column], at.h_bias[column]
            gradient = np.concatenate([slopes[0], own_slopes[slot]]) - mean * g_bias
            cost = penalty * np.concatenate([factor, np.ones(slot.stop - slot.start)])
            now = np.concatenate([self.weights.ordinary[column], self.weights.own[slot]])
            active = np.flatnonzero((scale > 0) & ((now != 0) | (np.abs(gradient) > cost)))
            if iteration % 2 == 0 or not np.isin(active, had).all():
                rho, had = self._own_correlations(at.bend[column], active, path), active
            places = np.searchsorted(had, active)
            delta = np.zeros(len(active))
            model = QuadraticModel(
                np.ascontiguousarray(rho[np.ix_(places, places)]),
                scale[active],
                gradient[active],
                now[active],
                cost[active],
                float(h_bias),
            )
            decrease = coordinate_descent(model, 100, 1e-4, delta)
            objective = self._objective(at, penalty, one)
            if decrease + 0.5 * g_bias**2 / h_bias <= tolerance * objective[0]:
                break
            full = np.zeros(len(now))
            full[active] = delta
            bias_step = np.array([-g_bias / h_bias - mean[active] @ delta])
            ordinary = np.ascontiguousarray(full[None, : len(factor)])
            step = Weights(ordinary, bias_step, np.zeros_like(own_slopes))
            step.own[slot] = full[len(factor) :]
            before = at.loss[column]
            self._move(at, penalty, one, step, objective)
            if at.loss[column] == before:
                break  # no shorter step helps: the numbers' own precision is reached

    def _own_correlations(
        self, bend: Float32Array, active: IntArray, path: PathFeatures | None
    ) -> Float32Array:
        """Return the correlations of some features, weighted by second derivatives.

        Rows that bend far less than the mean are left out: they hardly count, and are most of the rows
        of a target that is nearly determined.
        """
        h = np.where(bend > 1e-3 * bend.mean(), bend, np.float32(0))
        ordinary = active[active < self.design.x.width]
        nodes = active[len(ordinary) :] - self.design.x.width
        second = np.zeros((len(active), len(active)))
        size = len(ordinary)
        second[:size, :size] = self.design.x.second_moments(h, ordinary)
        if path is not None and len(nodes):
            cross, alone = joint_counts(self.design.x, path, h)
            second[size:, :size] = cross[np.ix_(nodes, ordinary)]
            second[:size, size:] = second[size:, :size].T
            inner = path.members[np.ix_(nodes, nodes)] * alone[nodes, None]
            second[size:, size:] = np.maximum(inner, inner.T)
        second /= max(float(h.sum(dtype=np.float64)), 1e-12)
        mean = np.diag(second).copy()
        deviation = np.sqrt(np.maximum(mean - mean**2, 0))
        deviation[deviation < 1e-6] = 0
        rho = correlation(second, mean, deviation, mean, deviation)
        np.fill_diagonal(rho, 1.0)
        return rho
