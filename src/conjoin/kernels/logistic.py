"""L1-regularised logistic regression: losses, their derivatives, and moves along steps.

Arrays have one row per binary target, called a column of the regression. `columns` lists the ones that
take part; arrays of what they do in this step, such as `step.ordinary`, have a row for each of these
alone. Features are *ordinary* ones, indicators that all columns share, and a column's *own*: the nodes of
its tree, those of all columns in one array. The steps are found by `conjoin.kernels.coordinate_descent`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.functions import LOWEST, exp32, f32, log1p32, sum_of
from conjoin.kernels.kernel import compiled, inlined, inner, inner_fused
from conjoin.kernels.layouts import Bool1, Float1, Float2, Int1, Short2, Single1, Single2


class Weights(NamedTuple):
    """Weights, or changes of weights, of ordinary features, (columns, features), biases, and own ones."""

    ordinary: Float2
    bias: Float1
    own: Float1


class Point(NamedTuple):
    """The logits of all columns, and the derivatives of their losses there."""

    # z, residual, bend: the logits, and the first and second derivatives of the loss by them
    z: Single2
    y: Single2  # 1 in the rows that have the column's state, else 0
    m: Single2  # the weight of each row
    residual: Single2
    bend: Single2
    # loss, g_bias, h_bias: the loss, and its first and second derivative by the bias
    loss: Float1
    g_bias: Float1
    h_bias: Float1


class Spread(NamedTuple):
    """The means and deviations of the features, weighted by the second derivatives of the loss."""

    mean: Float2
    scale: Float2
    own_mean: Float1
    own_scale: Float1


class PathNodes(NamedTuple):
    """The own features of all columns: the nodes of their trees, one tree after another."""

    first: Int1  # the first node of each column
    parent: Int1  # the parent of each node, counted from the column's first
    # share, deviation: the share of the rows in each node, and the deviation of its indicator
    share: Float1
    deviation: Float1
    cross: Single1  # the correlations of the nodes with ordinary features
    cross_first: Int1  # where those of each column begin


@inner_fused
def binary_cells(z, change, size, y, m, cell, residual, bend):
    """Set the loss of each row at z + size * change, its derivative and its second derivative.

    The latter is raised where a row is all but impossible: it would be 0, and steps endless.
    """
    for r in range(len(z)):
        v = z[r] + size * change[r]
        e = exp32(max(-abs(v), LOWEST))
        q = f32(1) / (f32(1) + e)
        eq = e * q
        p = q if v >= f32(0) else eq
        cell[r] = (log1p32(e) + max(v, f32(0)) - y[r] * v) * m[r]
        off = p - y[r]
        residual[r] = off * m[r]
        bend[r] = max(eq * q, f32(0.1) * (abs(off) - f32(0.95))) * m[r]


@inlined
def place_column(c, change, size, at, cell):
    """Set the loss of a column that is moved, and its derivatives."""
    weights, residual, bend = at.m[c % len(at.m)], at.residual[c], at.bend[c]
    binary_cells(at.z[c], change, f32(size), at.y[c], weights, cell, residual, bend)
    at.loss[c] = sum_of(cell)
    at.g_bias[c] = sum_of(at.residual[c])
    at.h_bias[c] = sum_of(at.bend[c])


@compiled
def derive(at: Point) -> None:
    """Set the losses of all columns, and their derivatives."""
    cell = np.empty(at.z.shape[1], np.float32)
    for c in range(len(at.z)):
        place_column(c, at.z[c], 0.0, at, cell)


@compiled
def deviations(
    columns: Int1,
    sums: Float2,
    own_sums: Float1,
    h_bias: Float1,
    factor: Float2,
    usable: Bool1,
    own_first: Int1,
    spread: Spread,
) -> None:
    """Set the means and deviations of features from their sums; 0 for those that take no part."""
    own_mean, own_scale = spread.own_mean, spread.own_scale
    for place in range(len(columns)):
        c = columns[place]
        mean, scale = spread.mean[c], spread.scale[c]
        for j in range(sums.shape[1]):
            m = min(max(sums[place, j] / h_bias[c], 0.0), 1.0)
            deviation = np.sqrt(m * (1.0 - m))
            mean[j] = m
            scale[j] = deviation if deviation >= 1e-6 and factor[c, j] >= 0.0 else 0.0
        for o in range(own_first[c], own_first[c + 1]):
            m = min(max(own_sums[o] / h_bias[c], 0.0), 1.0)
            deviation = np.sqrt(m * (1.0 - m))
            own_mean[o] = m
            own_scale[o] = deviation if deviation >= 1e-6 and usable[o] else 0.0


@inlined
def growth_of_norm(c, place, size, factor, weights, step, own_first):
    """Return by how much a step of some size increases a column's penalised sum of absolute weights."""
    growth = 0.0
    line, change, share = weights.ordinary[c], step.ordinary[place], factor[c]
    for j in range(len(line)):
        w, d = line[j], change[j]
        if d != 0.0:
            growth += share[j] * (abs(w + size * d) - abs(w))
    own, own_change = weights.own, step.own
    for o in range(own_first[c], own_first[c + 1]):
        growth += abs(own[o] + size * own_change[o]) - abs(own[o])
    return growth


@inner
def add_multiple(size, change, values):
    """Add a multiple of some numbers to others."""
    for i in range(len(values)):
        values[i] += size * change[i]


@compiled
def move(
    penalty: float,
    columns: Int1,
    factor: Float2,
    change: Single2,
    at: Point,
    weights: Weights,
    step: Weights,
    own_first: Int1,
    objective: Float1,
) -> None:
    """Go along each column's step, halved until the objective falls, and take the derivatives there."""
    cell = np.empty(at.z.shape[1], np.float32)
    for place in range(len(columns)):
        c = columns[place]
        size, before = 1.0, at.loss[c]
        while True:
            place_column(c, change[place], size, at, cell)
            growth = growth_of_norm(c, place, size, factor, weights, step, own_first)
            if size == 0.0 or at.loss[c] + penalty * growth <= before + 1e-8 * objective[place]:
                break
            size = size * 0.5 if size > 1e-7 else 0.0
        if size == 0.0:
            continue
        weights.bias[c] += size * step.bias[place]
        low, high = own_first[c], own_first[c + 1]
        add_multiple(size, step.ordinary[place], weights.ordinary[c])
        add_multiple(size, step.own[low:high], weights.own[low:high])
        add_multiple(f32(size), change[place], at.z[c])


@compiled
def penalised(
    columns: Int1, weights: Weights, factor: Float2, own_first: Int1, norm: Float1
) -> None:
    """Set the sum of the absolute weights of each column, as far as they bear a penalty."""
    for i in range(len(columns)):
        c = columns[i]
        total = 0.0
        line, share = weights.ordinary[c], factor[c]
        own = weights.own[own_first[c] : own_first[c + 1]]
        for j in range(len(line)):
            if line[j] != 0.0:
                total += share[j] * abs(line[j])
        for o in range(len(own)):
            total += abs(own[o])
        norm[i] = total


@compiled
def add_by_leaf(
    columns: Int1, values: Single2, leaf: Short2, parent: Int1, first: Int1, out: Float1
) -> None:
    """Add the values of each node's rows, column by column: those of its leaves, handed up.

    Row r of column c ends in node leaf[c, r]; the nodes of column c are first[c] to first[c + 1] of
    `parent` and `out`, children after their parents.
    """
    for c in columns:
        low, high = first[c], first[c + 1]
        out[low:high] = 0.0
        line, ends = values[c], leaf[c]
        for r in range(len(line)):
            out[low + ends[r]] += line[r]
        for node in range(high - low - 1, 0, -1):
            out[low + parent[low + node]] += out[low + node]


@compiled
def spread_to_leaves(
    columns: Int1, node_values: Float1, leaf: Short2, parent: Int1, first: Int1, out: Single2
) -> None:
    """Add to each cell of row i of `out` the values of all nodes on the path to column i's leaf."""
    for i in range(len(columns)):
        c = columns[i]
        low, high = first[c], first[c + 1]
        total = np.zeros(high - low, np.float32)
        for node in range(1, high - low):
            total[node] = node_values[low + node] + total[parent[low + node]]
        line, ends = out[i], leaf[c]
        for r in range(len(line)):
            line[r] += total[ends[r]]
