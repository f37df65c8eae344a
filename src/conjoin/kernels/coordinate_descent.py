"""Steps of L1-regularised logistic regression: coordinate descent on a quadratic model of the loss.

The weights of a model are those of a column's ordinary features and those of the nodes of its tree (see
`conjoin.kernels.logistic`), whose correlations with each other follow from the tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.kernel import compiled, inlined, inner
from conjoin.kernels.layouts import Float1, Float2, Int1, Single2
from conjoin.kernels.logistic import PathNodes, Point, Spread, Weights

STEP_SWEEPS = 20
"""The maximum number of sweeps of coordinate descent per step."""
STEP_TOLERANCE = 1e-3
"""A step is done when a sweep changes less than this part of what the first one did."""


class QuadraticModel(NamedTuple):
    """g.d + h/2 (s d)' matrix (s d) + cost.|w + d|, a function of the changes d of some weights w."""

    matrix: Single2
    s: Float1
    g: Float1
    w: Float1
    cost: Float1
    h: float


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


@compiled
def correlate_nodes(
    own: Int1, parent: Int1, share: Float1, deviation: Float1, matrix: Single2
) -> None:
    """Set the correlations of some nodes of a tree, the last rows and columns of a matrix.

    Two nodes occur together in the rows of the lower one if it is below the other, and never otherwise.
    """
    first = len(matrix) - len(own)
    place = np.full(len(parent), -1, np.int64)
    for k in range(len(own)):
        place[own[k]] = first + k
    for k in range(len(own)):
        a = own[k]
        for j in range(len(own)):
            b = own[j]
            matrix[first + k, first + j] = -share[a] * share[b] / (deviation[a] * deviation[b])
        above = a
        while above > 0:
            at = place[above]
            if at >= 0:
                both = share[a] / (deviation[a] * deviation[above])
                matrix[first + k, at] += both
                if above != a:
                    matrix[at, first + k] += both
            above = parent[above]


@inlined
def model_of_column(
    c, penalty, factor, gradient, own_gradient, active, own, shared, nodes, spread, weights, h
):
    """Return the quadratic model of a column in its active features, ordinary ones and own."""
    low, high = nodes.first[c], nodes.first[c + 1]
    size, n_shared = len(active), len(shared)
    matrix = np.empty((size + len(own), size + len(own)), np.float32)
    for a in range(size):
        row = shared[active[a]]
        for b in range(size):
            matrix[a, b] = row[active[b]]
    cross, start = nodes.cross, nodes.cross_first[c]
    for k in range(len(own)):
        row = cross[start + own[k] * n_shared :]
        for b in range(size):
            matrix[size + k, b] = matrix[b, size + k] = row[active[b]]
    parent, share = nodes.parent[low:high], nodes.share[low:high]
    correlate_nodes(own, parent, share, nodes.deviation[low:high], matrix)
    return QuadraticModel(
        matrix,
        np.concatenate((spread.scale[c][active], spread.own_scale[low:high][own])),
        np.concatenate((gradient[active], own_gradient[low:high][own])),
        np.concatenate((weights.ordinary[c][active], weights.own[low:high][own])),
        np.concatenate((penalty * factor[c][active], np.full(len(own), penalty))),
        h,
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
        model = model_of_column(
            c, penalty, factor, line, own_gradient, active, own, shared, nodes, spread, weights, h
        )
        delta = np.zeros(len(active) + len(own))
        decrease[place] += coordinate_descent(model, STEP_SWEEPS, STEP_TOLERANCE, delta)
        for a in range(len(active)):
            ordinary_step[active[a]] = delta[a]
            bias_step[place] -= means[active[a]] * delta[a]
        for k in range(len(own)):
            own_step[low + own[k]] = delta[len(active) + k]
            bias_step[place] -= own_means[low + own[k]] * delta[len(active) + k]


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
    matrix, s, g, w, cost, h = model
    size = len(delta)
    v = np.zeros(size)  # the sums of matrix_ab s_b d_b
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
        if sweep == 0:
            first_move = move
        if move <= tolerance * first_move:
            break
    total = 0.0
    for a in range(size):
        d = delta[a]
        total -= g[a] * d + 0.5 * h * s[a] * d * v[a]
        total += cost[a] * (abs(w[a]) - abs(w[a] + d))
    return total
