"""L1-regularised logistic regression: losses, steps by coordinate descent, and line searches.

Arrays have one row per binary target, called a column of the regression. `columns` lists the ones that
take part; arrays of what they do in this step, such as `step.ordinary`, have a row for each of these
alone. Features are *ordinary* ones, indicators that all columns share, and a column's *own*: the nodes of
its tree, those of all columns in one array.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.functions import LOWEST, exp32, f32, log1p32
from conjoin.kernels.kernel import compiled, inlined, inner, inner_fused, inner_sums
from conjoin.kernels.layouts import Bool1, Float1, Float2, Int1, Short2, Single1, Single2
from conjoin.kernels.signatures import layout

STEP_SWEEPS = 20
"""The maximum number of sweeps of coordinate descent per step."""
STEP_TOLERANCE = 1e-3
"""A step is done when a sweep changes less than this part of what the first one did."""


@layout
class Weights(NamedTuple):
    """Weights, or changes of weights, of ordinary features, (columns, features), biases, and own ones."""

    ordinary: Float2
    bias: Float1
    own: Float1


@layout
class Point(NamedTuple):
    """The logits of all columns, and the derivatives of their losses there.

    Attributes
    ----------
    z, residual, bend : float32, (columns, rows)
        The logits, and the first and second derivatives of the loss by them.
    y : float32, (columns, rows)
        1 in the rows that have the column's state, else 0.
    m : float32, (columns, rows) or (1, rows)
        The weight of each row.
    loss, g_bias, h_bias : float64, (columns,)
        The loss, and its first and second derivative by the bias.
    """

    z: Single2
    y: Single2
    m: Single2
    residual: Single2
    bend: Single2
    loss: Float1
    g_bias: Float1
    h_bias: Float1


@layout
class Spread(NamedTuple):
    """The means and deviations of the features, weighted by the second derivatives of the loss."""

    mean: Float2
    scale: Float2
    own_mean: Float1
    own_scale: Float1


@layout
class PathNodes(NamedTuple):
    """The own features of all columns: the nodes of their trees, one tree after another.

    Attributes
    ----------
    first : int64, (columns + 1,)
        The first node of each column.
    parent : int64, (nodes,)
        The parent of each node, counted from the column's first.
    share, deviation : float64, (nodes,)
        The share of the rows in each node, and the deviation of its indicator.
    cross : float32
        The correlations of the nodes with ordinary features.
    cross_first : int64, (columns + 1,)
        Where those of each column begin.
    """

    first: Int1
    parent: Int1
    share: Float1
    deviation: Float1
    cross: Single1
    cross_first: Int1


@layout
class QuadraticModel(NamedTuple):
    """g.d + h/2 (s d)' matrix (s d) + cost.|w + d|, a function of the changes d of some weights w."""

    matrix: Single2
    s: Float1
    g: Float1
    w: Float1
    cost: Float1
    h: float


@layout
class TreePart(NamedTuple):
    """The part of a quadratic model in the nodes of a tree.

    `active` lists the nodes that take part, and `across` has their correlations with the other weights;
    all other arrays have one element per node of the tree.
    """

    active: Int1
    across: Single2
    s: Float1
    g: Float1
    w: Float1
    penalty: float
    parent: Int1
    share: Float1
    deviation: Float1


@inner
def active_features(scale, weights, gradient, cost):
    """Return the features that a step may change: weights that are not 0 or would leave 0."""
    active = np.empty(len(scale), np.int64)
    size = 0
    for j in range(len(scale)):
        if scale[j] > 0 and (weights[j] != 0 or abs(gradient[j]) > cost[j]):
            active[size] = j
            size += 1
    return active[:size]


@inlined
def model_of_column(c, penalty, factor, gradient, active, shared, spread, weights, h):
    """Return the quadratic model of a column in its active ordinary features."""
    matrix = np.empty((len(active), len(active)), np.float32)
    for a in range(len(active)):
        row = shared[active[a]]
        for b in range(len(active)):
            matrix[a, b] = row[active[b]]
    cost = penalty * factor[c][active]
    g, w = gradient[active], weights.ordinary[c][active]
    return QuadraticModel(matrix, spread.scale[c][active], g, w, cost, h)


@inlined
def tree_of_column(c, penalty, own_gradient, active, own, n_shared, nodes, spread, weights):
    """Return the part of the model in a column's own features; `own` lists the active ones."""
    low, high = nodes.first[c], nodes.first[c + 1]
    across = np.empty((len(own), len(active)), np.float32)
    cross, first = nodes.cross, nodes.cross_first[c]
    for k in range(len(own)):
        row = cross[first + own[k] * n_shared :]
        for b in range(len(active)):
            across[k, b] = row[active[b]]
    return TreePart(
        own,
        across,
        spread.own_scale[low:high],
        own_gradient[low:high],
        weights.own[low:high],
        penalty,
        nodes.parent[low:high],
        nodes.share[low:high],
        nodes.deviation[low:high],
    )


@compiled
def steps(
    penalty: float,
    columns: Int1,
    factor: Float2,
    gradient: Float2,
    own_gradient: Float1,
    at: Point,
    spread: Spread,
    weights: Weights,
    shared: Single2,
    nodes: PathNodes,
    step: Weights,
    decrease: Float1,
) -> None:
    """Minimise, for each column, the quadratic model of its loss plus the penalty.

    The model's Hessian is h_bias[c] * s_j r_jk s_k with a correlation matrix r: `shared` among the
    ordinary features, `nodes.cross` between these and the column's own; those among the latter follow
    from the tree, from the share of the rows in each node and its deviation. Features of scale 0 take no
    part. `factor` multiplies the penalty of ordinary features. The bias moves along: its best value for
    each step is put into the gradients. `step` gets the changes, `decrease` the decrease that the model
    predicts.
    """
    n_shared = shared.shape[0]
    own_step, bias_step, own_means = step.own, step.bias, spread.own_mean
    for place in range(len(columns)):
        c = columns[place]
        low, high = nodes.first[c], nodes.first[c + 1]
        line, means, pull, h = gradient[place], spread.mean[c], at.g_bias[c], at.h_bias[c]
        ordinary_step = step.ordinary[place]
        for j in range(n_shared):
            line[j] -= means[j] * pull
            ordinary_step[j] = 0.0
        for o in range(low, high):
            own_gradient[o] -= own_means[o] * pull
            own_step[o] = 0.0
        bias_step[place] = -pull / h
        decrease[place] = 0.5 * pull * pull / h
        active = active_features(spread.scale[c], weights.ordinary[c], line, penalty * factor[c])
        own = active_features(
            spread.own_scale[low:high],
            weights.own[low:high],
            own_gradient[low:high],
            np.full(high - low, penalty),
        )
        if len(active) + len(own) == 0:
            continue
        model = model_of_column(c, penalty, factor, line, active, shared, spread, weights, h)
        tree = tree_of_column(
            c, penalty, own_gradient, active, own, n_shared, nodes, spread, weights
        )
        delta, own_delta = np.zeros(len(active)), np.zeros(len(own))
        decrease[place] += tree_descent(model, tree, STEP_SWEEPS, STEP_TOLERANCE, delta, own_delta)
        for k in range(len(own)):
            own_step[low + own[k]] = own_delta[k]
            bias_step[place] -= own_means[low + own[k]] * own_delta[k]
        for a in range(len(active)):
            ordinary_step[active[a]] = delta[a]
            bias_step[place] -= means[active[a]] * delta[a]


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


@inner
def best_change(weight, slope, bend, cost):
    """Return the change of one weight that minimises slope.d + bend/2 d^2 + cost.|weight + d|."""
    target = weight - slope / bend
    cut = cost / bend
    if target > cut:
        return target - cut - weight
    if target < -cut:
        return target + cut - weight
    return -weight


@compiled
def coordinate_descent(
    model: QuadraticModel, max_sweeps: int, tolerance: float, delta: Float1
) -> float:
    """Minimise a quadratic model by coordinate descent from no change; return the decrease."""
    nodes, none = np.empty(0, np.int64), np.empty(0)
    across = np.empty((0, len(delta)), np.float32)
    tree = TreePart(nodes, across, none, none, none, 0.0, nodes, none, none)
    return tree_descent(model, tree, max_sweeps, tolerance, delta, none)


@inner
def correlated(node, parent, share, deviation, q, below, everywhere):
    """Return the sum over all nodes b of r_ab s_b d_b for a node a (see `tree_descent`)."""
    above, up = 0.0, node
    while up > 0:
        above += q[up]
        up = parent[up]
    return (share[node] * (above - everywhere) + below[node]) / deviation[node]


@inlined
def predicted_decrease(model, tree, delta, own_delta, v, own_v):
    """Return how far changes decrease a model, given the sums v of r_ab s_b d_b for each weight a."""
    total = 0.0
    for a in range(len(delta)):
        w, d = model.w[a], delta[a]
        total -= model.g[a] * d + 0.5 * model.h * model.s[a] * d * v[a]
        total += model.cost[a] * (abs(w) - abs(w + d))
    for k in range(len(own_delta)):
        node, d = tree.active[k], own_delta[k]
        w = tree.w[node]
        total -= tree.g[node] * d + 0.5 * model.h * tree.s[node] * d * own_v[k]
        total += tree.penalty * (abs(w) - abs(w + d))
    return total


@compiled
def tree_descent(
    model: QuadraticModel,
    tree: TreePart,
    max_sweeps: int,
    tolerance: float,
    delta: Float1,
    own_delta: Float1,
) -> float:
    """Minimise a quadratic model that also has the nodes of a tree; return the decrease.

    Two nodes occur together in the rows of the lower one if it is below the other, and never
    otherwise. So with q_b = s_b d_b / deviation_b the sum over all nodes b of r_ab s_b d_b is
    (share_a * sum of q above a + sum of share q below a - share_a * sum of share q) / deviation_a,
    where a is above itself: steps up the tree instead of a row of a matrix.
    """
    matrix, s, g, w, cost, h = model
    own, across, own_s, own_g, own_w, penalty, parent, share, deviation = tree
    size = len(delta)
    v, own_v = np.zeros(size), np.zeros(len(own))
    q, below = np.zeros(len(parent)), np.zeros(len(parent))
    everywhere = 0.0
    turned = np.empty((size, len(own)), np.float32)
    for k in range(len(own)):
        for b in range(size):
            turned[b, k] = across[k, b]
    first_move = 0.0
    for sweep in range(max_sweeps):
        move = 0.0
        for a in range(size):
            bend = h * s[a] * s[a]
            slope = g[a] + h * s[a] * v[a]
            change = best_change(w[a] + delta[a], slope, bend, cost[a])
            if change != 0.0:
                delta[a] += change
                move += bend * change * change
                shift = s[a] * change
                line = matrix[a]
                for b in range(size):
                    v[b] += line[b] * shift
                line = turned[a]
                for k in range(len(own)):
                    own_v[k] += line[k] * shift
        for k in range(len(own)):
            node = own[k]
            value = own_v[k] + correlated(node, parent, share, deviation, q, below, everywhere)
            bend = h * own_s[node] * own_s[node]
            slope = own_g[node] + h * own_s[node] * value
            change = best_change(own_w[node] + own_delta[k], slope, bend, penalty)
            if change != 0.0:
                own_delta[k] += change
                move += bend * change * change
                shift = own_s[node] * change
                line = across[k]
                for b in range(size):
                    v[b] += line[b] * shift
                shift /= deviation[node]
                q[node] += shift
                shift *= share[node]
                everywhere += shift
                up = parent[node]
                while up > 0:
                    below[up] += shift
                    up = parent[up]
        if sweep == 0:
            first_move = move
        if move <= tolerance * first_move:
            break
    for k in range(len(own)):
        own_v[k] += correlated(own[k], parent, share, deviation, q, below, everywhere)
    return predicted_decrease(model, tree, delta, own_delta, v, own_v)


@inner_sums
def total_of(values):
    """Add single-precision numbers up in double precision."""
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


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


@inner
def evaluate(z, change, size, y, m, cell, residual, bend):
    """Return the loss of a column that is moved; set the derivatives of its rows."""
    binary_cells(z, change, f32(size), y, m, cell, residual, bend)
    return total_of(cell)


@inlined
def place_column(c, change, size, at, cell):
    """Set the loss of a column that is moved, and its derivatives."""
    weights = at.m[c % len(at.m)]
    at.loss[c] = evaluate(at.z[c], change, size, at.y[c], weights, cell, at.residual[c], at.bend[c])
    at.g_bias[c] = total_of(at.residual[c])
    at.h_bias[c] = total_of(at.bend[c])


@compiled
def derive(at: Point) -> None:
    """Set the losses of all columns, and their derivatives."""
    cell = np.empty(at.z.shape[1], np.float32)
    for c in range(len(at.z)):
        place_column(c, at.z[c], 0.0, at, cell)


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
    """Go along each column's step, halved until the objective falls, and take the derivatives there.

    `change` has the logits that the steps add.
    """
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
