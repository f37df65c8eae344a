"""L1-regularised logistic regression of one target of several states, over a path of penalties.

Each step minimises a quadratic model of the loss in the weights of all states together, and is halved
until the objective falls. Solving for one state after another would take hundreds of rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, Int32Array
from conjoin.jobs import stop_point
from conjoin.kernels.coordinate_descent import QuadraticModel, coordinate_descent
from conjoin.kernels.multinomial import add_logits, derive, list_features, softmax, spread
from conjoin.learning.logistic_features import MAX_STEPS, TOLERANCE, Design, PathFeatures, Solution
from conjoin.learning.options import LIMITS

RIDGE = 1e-3
"""The fraction by which second derivatives are increased."""
ROWS_AT_A_TIME = 1024
"""The number of rows in one product, when mixed second derivatives are computed."""
SWEEPS = 50
"""The maximum number of sweeps of coordinate descent per step."""


class Multinomial:
    """One target, with a column for each of its states; the arguments are those of `Batch`."""

    def __init__(
        self,
        design: Design,
        target: int,
        factor: FloatArray,
        path: PathFeatures | None = None,
        valid: Design | None = None,
        curvature_rows: int = LIMITS.curvature_rows,
    ) -> None:
        self.design, self.valid, self.path = design, valid, path
        self.curvature_rows = curvature_rows
        self.targets, self.states = [target], int(design.cards[target])
        own = 0 if path is None else len(path.parent)
        self.features = np.arange(design.x.width)
        self.factor = np.concatenate([factor[:, target], np.ones(own)])
        self.usable: BoolArray = self.factor >= 0  # of a tree's nodes those at depth 2 or more
        if path is not None:
            self.usable[design.x.width :] = path.depth >= 2
        self.column_target = np.full(self.states, target)
        self.column_state = np.arange(self.states)
        self.own_first = np.arange(self.states + 1) * own
        self.weights: FloatArray | None = None  # features by states
        self.bias = np.zeros(self.states)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("design", "valid")}

    def solve(
        self, penalty: float, start: Solution | None = None, tolerance: float = TOLERANCE
    ) -> Solution:
        """Solve for a penalty, from the solution for a larger one or from no weights."""
        rows = Rows(self, self.design, None if self.path is None else self.path.leaf)
        self._start(start, rows)
        assert self.weights is not None
        if not self.weights.any():  # so that features enter a few at a time
            for more in (64, 16, 4):
                self._descend(more * penalty, rows, 0.01)
        self._descend(penalty, rows, tolerance)
        score = 0.0
        if self.valid is not None:
            held = Rows(self, self.valid, None if self.path is None else self.path.valid_leaf)
            z = held.logits(self.weights, self.bias)
            score = -held.softmax(z, np.empty_like(z))
        width = self.design.x.width
        weights, own = self.weights[:width].T.copy(), self.weights[width:].T.ravel()
        return Solution(tolerance, weights, self.bias, own, np.array([score]))

    def _start(self, start: Solution | None, rows: Rows) -> None:
        """Start with the weights of a solution, or with none and the biases of the marginals."""
        if start is not None:
            own = start.own.reshape(self.states, -1)
            self.weights = np.concatenate([start.weights, own], axis=1).T.copy()
            self.bias = start.bias.copy()
            return
        counts = np.bincount(rows.label, rows.m, self.states)
        self.bias = np.log(np.maximum(counts, 0.5))  # half a row of a state that was never seen
        self.bias -= self.bias.mean()
        self.weights = np.zeros((len(self.factor), self.states))

    def _descend(self, penalty: float, rows: Rows, tolerance: float) -> None:
        """Minimise for one penalty."""
        assert self.weights is not None
        cost = penalty * np.abs(self.factor)  # features that may not be used have no rows
        z = rows.logits(self.weights, self.bias)
        p = np.empty_like(z)
        loss, caution = rows.softmax(z, p), 0.0
        for _ in range(MAX_STEPS):
            stop_point()
            self._centre()
            norm = float(cost @ np.abs(self.weights).sum(axis=1))
            step, bias_step, decrease = self._step(rows, p, cost, caution)
            if decrease <= tolerance * (loss + norm):
                break
            change, size = rows.logits(step, bias_step), 1.0
            while True:
                value = rows.softmax(z + size * change, p)
                growth = float(cost @ np.abs(self.weights + size * step).sum(axis=1)) - norm
                if value + growth <= loss - 1e-3 * size * decrease or size < 1e-6:
                    break
                size *= 0.5
            # Where the model promises too much, its second derivatives are increased.
            caution = 10 * caution + 0.01 if size < 0.2 else caution / 4
            if size < 1e-6:
                if caution > 1e6:
                    break  # no step helps: floating-point precision is reached
                rows.softmax(z, p)
                continue
            z += size * change
            self.weights += size * step
            self.bias += size * bias_step
            loss = value

    def _centre(self) -> None:
        """Shift the weights of all states by the amount that costs least; probabilities stay the same.

        This is the median, or the number closest to 0 between the two in the middle.
        """
        assert self.weights is not None
        used = np.flatnonzero(self.weights.any(axis=1))
        ordered = np.sort(self.weights[used], axis=1)
        low, high = ordered[:, (self.states - 1) // 2], ordered[:, self.states // 2]
        self.weights[used] -= np.clip(0.0, low, high)[:, None]

    def _step(
        self, rows: Rows, p: FloatArray, cost: FloatArray, caution: float
    ) -> tuple[FloatArray, FloatArray, float]:
        """Minimise a quadratic model, in which biases respond to weights, plus the penalty.

        Returns the step, that of the biases, and the decrease that the model predicts.
        """
        assert self.weights is not None
        slope, bend = rows.derivatives(p)
        bias_slope = slope[-1]
        active = np.ones_like(slope, bool)  # the biases always are
        active[:-1] = (self.weights != 0) | (np.abs(slope[:-1]) > cost[:, None])
        second = rows.curvatures(p, active)
        state, feature = np.nonzero(active.T)
        free = feature == len(cost)
        state, feature = state[~free], feature[~free]
        inverse = np.linalg.pinv(second[np.ix_(free, free)], hermitian=True)
        across = second[np.ix_(~free, free)]
        taken = across @ inverse
        alone = np.diag(second)[~free]
        second = second[np.ix_(~free, ~free)] - taken @ across.T
        kept = np.clip(np.diag(second), 0.0, None)
        # Correlations are those of some rows, scales those of all, as far as the biases leave them.
        share = np.divide(kept, alone, out=np.ones_like(kept), where=alone > 0)
        scale = np.sqrt(bend[feature, state] * np.maximum(share, 1e-3) + 1e-6 * bend[-1].sum())
        unit = np.sqrt(np.maximum(kept, 1e-3 * alone))
        ratio = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0)
        rho = (second * np.outer(ratio, ratio) / (1 + RIDGE + caution)).astype(np.float32)
        np.fill_diagonal(rho, 1.0)
        delta = np.zeros(len(scale))
        model = QuadraticModel(
            rho,
            scale * np.sqrt(1 + RIDGE + caution),
            slope[feature, state] - taken @ bias_slope,
            self.weights[feature, state],
            cost[feature],
            1.0,
        )
        decrease = coordinate_descent(model, SWEEPS, 1e-3, delta)
        step = np.zeros_like(self.weights)
        step[feature, state] = delta
        bias_step = -inverse @ bias_slope - taken.T @ delta
        return step, bias_step, decrease + 0.5 * float(bias_slope @ inverse @ bias_slope)


class Rows:
    """The rows of a table on which a target is known, and their features."""

    def __init__(self, solver: Multinomial, design: Design, leaf: Int32Array | None) -> None:
        target = solver.targets[0]
        rows = np.flatnonzero(design.codes[:, target] != design.missing)
        self.label = design.codes[rows, target].astype(np.int64)
        self.m = design.weights[rows].astype(np.float64)
        self.states, usable = solver.states, solver.usable
        self.curvature_rows = solver.curvature_rows
        self.width = len(usable)
        nodes, parent = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if solver.path is not None and leaf is not None:
            nodes, parent = leaf.astype(np.int64), solver.path.parent
        self.first = np.zeros(len(rows) + 1, np.int64)
        self.feature: Int32Array = np.zeros(0, np.int32)
        count = list_features(rows, design.ids, usable, nodes, parent, self.first, self.feature)
        if count:
            self.feature = np.zeros(count, np.int32)
            list_features(rows, design.ids, usable, nodes, parent, self.first, self.feature)

    def logits(self, weights: FloatArray, bias: FloatArray) -> FloatArray:
        """Return the logits, rows by states."""
        z = np.zeros((len(self.m), self.states))
        add_logits(self.first, self.feature, weights, bias, z)
        return z

    def softmax(self, z: FloatArray, p: FloatArray) -> float:
        """Set the probabilities that belong to logits; return the loss."""
        return float(softmax(z, self.label, self.m, p))

    def derivatives(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivatives of the loss: features, the bias last, by states."""
        both = np.zeros((self.width + 1, 2 * self.states))
        derive(self.first, self.feature, p, self.label, self.m, both)
        return both[:, : self.states], both[:, self.states :]

    def curvatures(self, p: FloatArray, active: BoolArray) -> FloatArray:
        """Return the second derivatives by active weights: those of a state, its bias last, in a row.

        In long tables they are computed from a part of the rows.
        """
        per_state = np.count_nonzero(active, axis=0)
        ends = np.cumsum(per_state)
        place = np.full(active.shape[::-1], -1, np.int32)
        place[active.T] = np.arange(ends[-1])
        place = np.ascontiguousarray(place.T)
        least = 1e-2 * float(self.m @ (1 - (p * p).sum(axis=1))) / max(1, len(p))
        every = max(1, len(p) // self.curvature_rows)
        own, all_states = np.empty((2, min(len(p), ROWS_AT_A_TIME), ends[-1]), np.float32)
        result = np.zeros((ends[-1], ends[-1]))
        at = 0
        while at < len(p):
            count, at = spread(
                self.first,
                self.feature,
                place,
                p,
                self.label,
                self.m,
                every,
                least,
                at,
                own,
                all_states,
            )
            result -= all_states[:count].T @ all_states[:count]
            for low, high in zip(ends - per_state, ends, strict=True):
                mine = own[:count, low:high]
                result[low:high, low:high] += mine.T @ mine
        return result
