"""Steps of L1-regularised logistic regression: coordinate descent on a quadratic model of the loss.

The weights of a model are those of a column's ordinary features, with their correlations in a matrix, and
those of the nodes of its tree (see `conjoin.kernels.logistic`), whose correlations follow from the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.kernel import compiled, inlined, inner
from conjoin.kernels.layouts import Float1, Float2, Int1, Single2
from conjoin.kernels.logistic import PathNodes, Point, Spread, Weights
from conjoin.kernels.signatures import layout

STEP_SWEEPS = 20
"""The maximum number of sweeps of coordinate descent per step."""
STEP_TOLERANCE = 1e-3
"""A step is done when a sweep changes less than this part of what the first one did."""


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
