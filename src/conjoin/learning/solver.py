"""L1-regularised logistic regression for many targets at once, over a path of penalties.

Minimises, for each target, the summed log-loss of the training rows plus lambda * sum |w|; the bias is
free. All targets of a batch share the products with the data. Each step minimises a quadratic model:
its gradient, its diagonal and its terms with the bias are exact; the correlations between features
are taken from the data without the weights that the logistic function gives to rows. Steps are halved
until the objective falls, and the path runs from the largest penalty to the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from conjoin.learning.design import Design, PathFeatures, correlation, joint_counts
from conjoin.models.features import segment_index

TOLERANCE = 1e-7
"""A column is done when a step would gain less than this part of its objective."""
MAX_STEPS = 100


@dataclass(eq=False)
class Solution:
    """Weights of one batch at one penalty."""

    penalty: float
    weights: FloatArray
    bias: FloatArray
    own: FloatArray
    score: FloatArray


@dataclass(eq=False)
class Batch:
    """Targets that are solved together: one column a binary target, one a state of any other.

    Attributes
    ----------
    design : Design
        The training rows; not kept when the batch is sent elsewhere.
    targets : list of int
        The targets' positions.
    allowed : array of bool, shape (features, variables)
        Which features each target may use.
    paths : list of PathFeatures, optional
        Features of each target's own.
    valid : Design, optional
        The validation rows; not kept when the batch is sent elsewhere.
    """

    design: Design
    targets: list[int]
    allowed: BoolArray
    paths: list[PathFeatures] | None = None
    valid: Design | None = None
    column_target: IntArray = field(init=False)
    column_state: IntArray = field(init=False)
    groups: list[slice] = field(init=False)

    def __post_init__(self) -> None:
        target: list[int] = []
        state: list[int] = []
        groups: list[slice] = []
        for t in self.targets:
            card = int(self.design.cards[t])
            states = [1] if card == 2 else list(range(card))
            groups.append(slice(len(target), len(target) + len(states)))
            target += [t] * len(states)
            state += states
        self._position = [i for i, g in enumerate(groups) for _ in range(g.start, g.stop)]
        self.column_target = np.array(target, np.int64)
        self.column_state = np.array(state, np.int64)
        self.groups = groups
        self.weights: FloatArray | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("design", "valid")}

    # ---- the model of a batch -----------------------------------------------------------------

    def _labels(self, design: Design) -> tuple[Float32Array, Float32Array]:
        """Return which rows have each column's state, and what each row weighs for it."""
        y = (design.codes[:, self.column_target] == self.column_state).astype(np.float32)
        m = np.broadcast_to(design.weights[:, None], y.shape)
        known = design.codes[:, self.column_target] != design.missing
        return y, m if known.all() else m * known

    def _prepare_own(self) -> None:
        """Lay the path features of all columns end to end, with their correlations."""
        columns, design = len(self.column_target), self.design
        _, mean, deviation = design.correlations
        self.own_first = np.zeros(columns + 1, np.int64)
        self.cross_first = np.zeros(columns + 1, np.int64)
        self.inner_first = np.zeros(columns + 1, np.int64)
        cross: list[Float32Array] = [np.zeros(0, np.float32)]
        inner: list[Float32Array] = [np.zeros(0, np.float32)]
        n_shared = design.x.shape[1]
        for group, position in zip(self.groups, range(len(self.targets)), strict=True):
            size = 0
            if self.paths is not None:
                path = self.paths[position]
                size = len(path.parent)
                ab, bb, own_mean = joint_counts(design, path)
                own_dev = np.sqrt(np.maximum(own_mean * (1 - own_mean), 0))
                rho_ab = correlation(ab, own_mean, own_dev, mean, deviation).ravel()
                rho_bb = correlation(bb, own_mean, own_dev, own_mean, own_dev).ravel()
            for c in range(group.start, group.stop):
                self.own_first[c + 1] = self.own_first[c] + size
                self.cross_first[c + 1] = self.cross_first[c] + size * n_shared
                self.inner_first[c + 1] = self.inner_first[c] + size * size
                if size:
                    cross.append(rho_ab)
                    inner.append(rho_bb)
        self.cross, self.inner = np.concatenate(cross), np.concatenate(inner)
        if self.paths is not None:
            self.leaf = self._leaves([path.leaf for path in self.paths])
            parents = [self.paths[p].parent for p in self._position]
            self.parent = np.concatenate(parents).astype(np.int64)

    def _leaves(self, by_target: list[IntArray]) -> Int32Array:
        """Lay the leaves of each target's rows beside each other, one column a column."""
        return np.stack([by_target[p] for p in self._position], axis=1).astype(np.int32)

    def _path(self, column: int) -> PathFeatures | None:
        if self.paths is None:
            return None
        return self.paths[self._position[column]]

    def _own_sums(self, values: Float32Array) -> FloatArray:
        """Add the columns of values by node of each column's tree."""
        from conjoin.kernels.logistic import add_by_leaf

        out = np.zeros(int(self.own_first[-1]))
        if self.paths is not None:
            add_by_leaf(values, self.leaf, self.parent, self.own_first, out)
        return out

    def _product(
        self,
        design: Design,
        weights: FloatArray,
        bias: FloatArray,
        own: FloatArray,
        leaf: Int32Array | None = None,
    ) -> Float32Array:
        """Return the logits that weights give; `leaf` is where the rows end in each tree."""
        from conjoin.kernels.logistic import spread_to_leaves

        z = design.x @ weights.astype(np.float32)
        z += bias.astype(np.float32)
        if self.paths is not None and own.any():
            ends = self.leaf if leaf is None else leaf
            spread_to_leaves(own, ends, self.parent, self.own_first, z)
        return z

    def _loss(
        self, z: Float32Array, y: Float32Array, m: Float32Array
    ) -> tuple[FloatArray, Float32Array]:
        """Return the summed log-loss of each column's group, and the probabilities."""
        if all(g.stop - g.start == 1 for g in self.groups):
            cell, p = _binary_loss(z, y)
            cell *= m
            return cell.sum(axis=0, dtype=np.float64), p
        p = np.empty_like(z)
        loss = np.empty(z.shape[1])
        for g in self.groups:
            if g.stop - g.start == 1:
                cell, p[:, g] = _binary_loss(z[:, g], y[:, g])
            else:
                shifted = z[:, g] - z[:, g].max(axis=1, keepdims=True)
                e = np.exp(shifted)
                total = e.sum(axis=1, keepdims=True)
                p[:, g] = e / total
                cell = np.log(total) - (shifted * y[:, g]).sum(axis=1, keepdims=True)
            loss[g] = (cell * m[:, g.start : g.start + 1]).sum(dtype=np.float64)
        return loss, p

    # ---- the path -----------------------------------------------------------------------------

    def solve(self, penalties: Sequence[float]) -> list[Solution]:
        """Go on along the path, from the largest penalty to the smallest."""
        shared, _, _ = self.design.correlations
        y, m = self._labels(self.design)
        if self.weights is None:
            self._start(y, m)
        assert self.weights is not None
        result = []
        for penalty in sorted(penalties, reverse=True):
            self._descend(penalty, shared, y, m, self.weights, self.bias, self.own)
            score = self._score(self.weights, self.bias, self.own)
            result.append(
                Solution(penalty, self.weights.copy(), self.bias.copy(), self.own.copy(), score)
            )
        return result

    def _start(self, y: Float32Array, m: Float32Array) -> None:
        """Begin with no weights, and the bias that the marginals give."""
        self._prepare_own()
        self.weights = np.zeros((self.design.x.shape[1], len(self.column_target)))
        self.own = np.zeros(int(self.own_first[-1]))
        yes = np.clip((y * m).sum(axis=0, dtype=np.float64), 0.5, None)
        no = np.clip(m.sum(axis=0, dtype=np.float64) - yes, 0.5, None)
        self.bias = np.log(yes / no)
        for g in self.groups:
            if g.stop - g.start > 1:
                self.bias[g] = np.log(yes[g]) - np.log(yes[g]).mean()

    def _score(self, weights: FloatArray, bias: FloatArray, own: FloatArray) -> FloatArray:
        """Return the summed log-likelihood of the validation rows, a number a target."""
        if self.valid is None:
            return np.zeros(len(self.targets))
        y, m = self._labels(self.valid)
        leaf = None
        if self.paths is not None:
            leaf = self._leaves([path.valid_leaf for path in self.paths])
        loss, _ = self._loss(self._product(self.valid, weights, bias, own, leaf), y, m)
        return np.array([-loss[g.start] for g in self.groups])

    def _descend(
        self,
        penalty: float,
        shared: Float32Array,
        y: Float32Array,
        m: Float32Array,
        weights: FloatArray,
        bias: FloatArray,
        own: FloatArray,
        level: int = 0,
    ) -> None:
        """Minimise for one penalty, in place.

        When most columns are done, the others go on in a batch of their own; the last few, whose
        correlations are far from those of the data, one by one with their own.
        """
        from conjoin.kernels.logistic import steps

        design = self.design
        columns = weights.shape[1]
        allowed = self.allowed[:, self.column_target]
        own_usable = np.zeros(len(own), bool)
        if self.paths is not None:
            own_usable = np.concatenate([self.paths[p].depth >= 2 for p in self._position])
        own_column = np.repeat(np.arange(columns), np.diff(self.own_first))

        z = self._product(design, weights, bias, own)
        loss, p = self._loss(z, y, m)
        step, own_step = np.zeros_like(weights), np.zeros_like(own)
        decrease = np.zeros(columns)
        for iteration in range(MAX_STEPS):
            residual = (p - y) * m
            gradient = (design.x.T @ residual).astype(np.float64)
            g_bias = residual.sum(axis=0, dtype=np.float64)
            own_gradient = self._own_sums(residual)
            if iteration % 3 == 0:
                h = p * (1 - p) * m
                h_bias = np.maximum(h.sum(axis=0, dtype=np.float64), 1e-12)
                mean = np.clip((design.x.T @ h) / h_bias, 0, 1)
                scale = np.sqrt(mean * (1 - mean)) * allowed
                scale[scale < 1e-6] = 0
                own_mean = np.clip(self._own_sums(h) / h_bias[own_column], 0, 1)
                own_scale = np.sqrt(own_mean * (1 - own_mean)) * own_usable
                own_scale[own_scale < 1e-6] = 0
            # The bias moves along: its best value for each step is put into the gradient.
            gradient -= mean * g_bias
            own_gradient -= own_mean * g_bias[own_column]
            steps(
                penalty, gradient, scale, h_bias, weights, shared, own_gradient, own_scale, own,
                self.own_first, self.cross, self.cross_first, self.inner, self.inner_first,
                step, own_step, decrease, 20, 1e-3,
            )  # fmt: skip
            bias_step = -g_bias / h_bias - (mean * step).sum(axis=0)
            bias_step -= np.bincount(own_column, own_mean * own_step, minlength=columns)
            gain = decrease + 0.5 * g_bias**2 / h_bias
            objective = loss + penalty * self._norm(weights, own, own_column)
            open_columns = gain > TOLERANCE * np.maximum(objective, 1e-12)
            for g in self.groups:
                open_columns[g] = open_columns[g].any()
            if not open_columns.any():
                break
            left = [i for i, g in enumerate(self.groups) if open_columns[g.start]]
            if iteration >= 4 and (2 * len(left) <= len(self.groups) or iteration >= 12):
                if level < 2 and 2 * len(left) <= len(self.groups):
                    self._descend_some(left, penalty, shared, y, m, weights, bias, own, level)
                    break
                binary = [i for i in left if self.groups[i].stop - self.groups[i].start == 1]
                for i in binary:
                    self._polish(self.groups[i].start, penalty, z, y, m, weights, bias, own)
                if len(binary) == len(left):
                    break
            size = open_columns.astype(np.float64)
            change = self._product(design, step, bias_step, own_step)
            trial = z + change * size.astype(np.float32)
            new_loss, new_p = self._loss(trial, y, m)
            while True:
                moved = own + own_step * size[own_column]
                norm = self._norm(weights + step * size, moved, own_column)
                worse = (new_loss + penalty * norm > objective * (1 + 1e-9)) & (size > 0)
                if not worse.any():
                    break
                size[worse] *= 0.5
                size[worse & (size < 1e-4)] = 0.0
                self._shorten(worse, size, z, change, y, m, trial, new_loss, new_p)
            weights += step * size
            own += own_step * size[own_column]
            bias += bias_step * size
            z, loss, p = trial, new_loss, new_p

    def _shorten(
        self,
        worse: BoolArray,
        size: FloatArray,
        z: Float32Array,
        change: Float32Array,
        y: Float32Array,
        m: Float32Array,
        trial: Float32Array,
        loss: FloatArray,
        p: Float32Array,
    ) -> None:
        """Try shorter steps for the columns that got worse, in place."""
        chosen = [i for i, g in enumerate(self.groups) if worse[g.start]]
        columns = np.flatnonzero(worse)
        part = Batch(self.design, [self.targets[i] for i in chosen], self.allowed)
        trial[:, columns] = z[:, columns] + change[:, columns] * size[columns].astype(np.float32)
        loss[columns], p[:, columns] = part._loss(trial[:, columns], y[:, columns], m[:, columns])

    def _descend_some(
        self,
        chosen: list[int],
        penalty: float,
        shared: Float32Array,
        y: Float32Array,
        m: Float32Array,
        weights: FloatArray,
        bias: FloatArray,
        own: FloatArray,
        level: int,
    ) -> None:
        """Go on with some of the targets."""
        columns = np.concatenate(
            [np.arange(self.groups[i].start, self.groups[i].stop) for i in chosen]
        )
        paths = None if self.paths is None else [self.paths[i] for i in chosen]
        part = Batch(self.design, [self.targets[i] for i in chosen], self.allowed, paths, None)
        own_rows = segment_index(self.own_first[columns], np.diff(self.own_first)[columns])
        for name, values in (("own", None), ("cross", self.cross), ("inner", self.inner)):
            first = getattr(self, f"{name}_first")
            lengths = np.diff(first)[columns]
            setattr(part, f"{name}_first", np.concatenate([[0], np.cumsum(lengths)]))
            if values is not None:
                setattr(part, name, values[segment_index(first[columns], lengths)])
        if self.paths is not None:
            part.leaf, part.parent = (
                np.ascontiguousarray(self.leaf[:, columns]),
                self.parent[own_rows],
            )
        w, b, o = weights[:, columns], bias[columns], own[own_rows]
        part._descend(penalty, shared, y[:, columns], m[:, columns], w, b, o, level + 1)
        weights[:, columns], bias[columns], own[own_rows] = w, b, o

    def _polish(
        self,
        column: int,
        penalty: float,
        z: Float32Array,
        y: Float32Array,
        m: Float32Array,
        weights: FloatArray,
        bias: FloatArray,
        own: FloatArray,
    ) -> None:
        """Finish one binary column with the exact Hessian of its active features."""
        from conjoin.kernels.logistic import add_by_leaf, steps

        design, path = self.design, self._path(column)
        w = weights[:, column].copy()
        slot = slice(self.own_first[column], self.own_first[column + 1])
        v = own[slot].copy()
        b = float(bias[column])
        zc, yc = z[:, column].astype(np.float64), y[:, column].astype(np.float64)
        mc = m[:, column].astype(np.float64)
        allowed = self.allowed[:, self.column_target[column]]
        none = np.zeros(0)
        zero = np.zeros(2, np.int64)
        loss = _exact_loss(zc, yc, mc)
        for _ in range(MAX_STEPS):
            p = 1 / (1 + np.exp(-zc))
            residual = (p - yc) * mc
            h = np.maximum(p * (1 - p) * mc, 1e-12 * mc)
            gradient = design.x.T @ residual.astype(np.float32)
            h_total, g_bias = h.sum(), residual.sum()
            near = np.abs(gradient - (design.x.T @ h.astype(np.float32)) / h_total * g_bias)
            shared_active = np.flatnonzero(allowed & ((w != 0) | (near > penalty)))
            parts: list[Any] = [design.x[:, shared_active]]
            own_active = np.zeros(0, np.int64)
            if path is not None:
                sums, bends = np.zeros(len(v)), np.zeros(len(v))
                ends, nodes = self.leaf[:, column : column + 1], np.array([0, len(v)])
                add_by_leaf(residual[:, None], ends, path.parent, nodes, sums)
                add_by_leaf(h[:, None], ends, path.parent, nodes, bends)
                near = np.abs(sums - bends / h_total * g_bias)
                own_active = np.flatnonzero((path.depth >= 2) & ((v != 0) | (near > penalty)))
                parts.append(path.members[:, own_active][path.leaf])
            x = np.concatenate(parts, axis=1, dtype=np.float32)
            h32, r32 = h.astype(np.float32), residual.astype(np.float32)
            mean = (h32 @ x).astype(np.float64) / h_total
            second = (x.T @ (x * h32[:, None])).astype(np.float64) / h_total
            deviation = np.sqrt(np.maximum(np.diag(second) - mean**2, 0))
            deviation[deviation < 1e-6] = 0
            rho = correlation(second, mean, deviation, mean, deviation)
            g = (r32 @ x).astype(np.float64) - mean * g_bias
            now = np.concatenate([w[shared_active], v[own_active]])
            step, decrease = np.zeros((len(now), 1)), np.zeros(1)
            steps(
                penalty, g[:, None], deviation[:, None], np.array([h_total]), now[:, None], rho,
                none, none, none, zero, none.astype(np.float32), zero, none.astype(np.float32), zero,
                step, none, decrease, 100, 1e-4,
            )  # fmt: skip
            objective = loss + penalty * (np.abs(w).sum() + np.abs(v).sum())
            if decrease[0] + 0.5 * g_bias**2 / h_total <= TOLERANCE * objective:
                break
            delta = step[:, 0]
            shift = -g_bias / h_total - mean @ delta
            change = (x @ delta.astype(np.float32)).astype(np.float64) + shift
            size = 1.0
            while size > 1e-6:
                moved = now + size * delta
                trial = _exact_loss(zc + size * change, yc, mc)
                norm = np.abs(moved).sum() - np.abs(now).sum()
                if trial - loss + penalty * norm < 0:
                    break
                size /= 2
            else:
                break
            w[shared_active], v[own_active] = (
                moved[: len(shared_active)],
                moved[len(shared_active) :],
            )
            b += size * shift
            zc += size * change
            loss = trial
        weights[:, column], own[slot], bias[column] = w, v, b

    def _norm(self, weights: FloatArray, own: FloatArray, own_column: IntArray) -> FloatArray:
        """Return the penalised norm of each column's group."""
        norm = np.abs(weights).sum(axis=0)
        norm += np.bincount(own_column, np.abs(own), minlength=len(norm))
        for g in self.groups:
            norm[g] = norm[g].sum()
        return norm


def _exact_loss(z: FloatArray, y: FloatArray, m: FloatArray) -> float:
    return float(m @ (np.logaddexp(0, z) - y * z))


def _binary_loss(z: Float32Array, y: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return the log-loss of each cell, and the probability of state 1."""
    e = np.abs(z)
    np.negative(e, out=e)
    np.exp(e, out=e)
    total = e + np.float32(1)
    p = np.where(z >= 0, np.float32(1), e)
    p /= total
    cell = np.log(total, out=total)
    cell += np.maximum(z, 0)
    cell -= y * z
    return cell, p
