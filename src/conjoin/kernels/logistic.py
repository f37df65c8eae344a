"""L1-regularised logistic regression: losses, steps by coordinate descent, and line searches.

Arrays have one row a binary target, called a column of the regression. `columns` lists those that take
part; arrays of what they do in this step, such as `step`, have a row for each of these alone.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.functions import LOWEST, exp32, f32, log1p32
from conjoin.kernels.jit import compiled, inner, inner_fused, inner_sums


@compiled
def steps(
    penalty,
    columns,
    factor,
    gradient,
    mean,
    scale,
    own_mean,
    own_scale,
    g_bias,
    h_bias,
    weights,
    shared,
    own_gradient,
    own_weights,
    own_first,
    parent,
    share,
    deviation,
    cross,
    cross_first,
    step,
    own_step,
    bias_step,
    decrease,
    max_sweeps,
    tolerance,
):
    """Minimise, for each column, the quadratic model of its loss plus the penalty.

    The model's Hessian is h_bias[c] * s_j r_jk s_k with a correlation matrix r: `shared` among the
    ordinary features, `cross` between these and the features of the column's own (its tree's paths);
    those among the latter follow from the tree, from the share of the rows in each node and its
    `deviation`. Features of scale 0 take no part. `factor` multiplies the penalty of ordinary features.
    The bias moves along: its best value for each step is put into the gradients. `step` and `bias_step`
    get the changes, `decrease` the decrease that the model predicts.
    """
    n_shared = shared.shape[0]
    for place in range(len(columns)):
        c = columns[place]
        low, high = own_first[c], own_first[c + 1]
        line, means, pull, h = gradient[place], mean[c], g_bias[c], h_bias[c]
        for j in range(n_shared):
            line[j] -= means[j] * pull
        for o in range(low, high):
            own_gradient[o] -= own_mean[o] * pull
        # The active set: weights that are not 0, and those whose gradient exceeds the penalty.
        active = np.empty(n_shared, np.int64)
        own = np.empty(high - low, np.int64)
        size, n_own = 0, 0
        for j in range(n_shared):
            step[place, j] = 0.0
            if scale[c, j] > 0 and (
                weights[c, j] != 0 or abs(gradient[place, j]) > penalty * factor[c, j]
            ):
                active[size] = j
                size += 1
        for o in range(low, high):
            own_step[o] = 0.0
            if own_scale[o] > 0 and (own_weights[o] != 0 or abs(own_gradient[o]) > penalty):
                own[n_own] = o - low
                n_own += 1
        bias_step[place] = -pull / h
        decrease[place] = 0.5 * pull * pull / h
        if size + n_own == 0:
            continue
        active, own = active[:size], own[:n_own]
        matrix = np.empty((size, size), np.float32)
        across = np.empty((n_own, size), np.float32)
        s = scale[c][active]
        g = gradient[place][active]
        w = weights[c][active]
        cost = penalty * factor[c][active]
        for a in range(size):
            row = shared[active[a]]
            for b in range(size):
                matrix[a, b] = row[active[b]]
        for k in range(n_own):
            row = cross[cross_first[c] + own[k] * n_shared :]
            for b in range(size):
                across[k, b] = row[active[b]]
        delta = np.zeros(size)
        own_delta = np.zeros(n_own)
        decrease[place] += tree_descent(
            matrix, s, g, w, cost, across, own, own_scale[low:high], own_gradient[low:high],
            own_weights[low:high], penalty, parent[low:high], share[low:high],
            deviation[low:high], h, max_sweeps, tolerance, delta, own_delta,
        )  # fmt: skip
        for k in range(n_own):
            own_step[low + own[k]] = own_delta[k]
            bias_step[place] -= own_mean[low + own[k]] * own_delta[k]
        for a in range(size):
            step[place, active[a]] = delta[a]
            bias_step[place] -= means[active[a]] * delta[a]


@compiled
def deviations(
    columns, sums, own_sums, h_bias, factor, usable, own_first, mean, scale, own_mean, own_scale
):
    """Set the means and deviations of features from their sums; 0 for those that take no part."""
    for place in range(len(columns)):
        c = columns[place]
        for j in range(sums.shape[1]):
            m = min(max(sums[place, j] / h_bias[c], 0.0), 1.0)
            deviation = np.sqrt(m * (1.0 - m))
            mean[c, j] = m
            scale[c, j] = deviation if deviation >= 1e-6 and factor[c, j] >= 0.0 else 0.0
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
def coordinate_descent(matrix, s, g, w, cost, h, max_sweeps, tolerance, delta):
    """Minimise g.d + h/2 (s d)' matrix (s d) + cost.|w + d| over d; return the decrease."""
    across = np.empty((0, len(delta)), np.float32)
    nodes, none = np.empty(0, np.int64), np.empty(0)
    return tree_descent(
        matrix, s, g, w, cost, across, nodes, none, none, none, 0.0, nodes, none, none, h,
        max_sweeps, tolerance, delta, none,
    )  # fmt: skip


@inner
def correlated(node, parent, share, deviation, q, below, everywhere):
    """Return the sum over all nodes b of r_ab s_b d_b for a node a (see `tree_descent`)."""
    above, up = 0.0, node
    while up > 0:
        above += q[up]
        up = parent[up]
    return (share[node] * (above - everywhere) + below[node]) / deviation[node]


@compiled
def tree_descent(
    matrix, s, g, w, cost, across, own, own_s, own_g, own_w, penalty, parent, share, deviation, h,
    max_sweeps, tolerance, delta, own_delta,
):  # fmt: skip
    """Do the same with indicators of a tree's nodes besides.

    Two nodes occur together in the rows of the lower one if it is below the other, and never
    otherwise. So with q_b = s_b d_b / deviation_b the sum over all nodes b of r_ab s_b d_b is
    (share_a * sum of q above a + sum of share q below a - share_a * sum of share q) / deviation_a,
    where a is above itself: steps up the tree instead of a row of a matrix.
    """
    size = len(delta)
    v = np.zeros(size)
    own_v = np.zeros(len(own))
    q = np.zeros(len(parent))
    below = np.zeros(len(parent))
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
            change = best_change(w[a] + delta[a], g[a] + h * s[a] * v[a], bend, cost[a])
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
    total = 0.0
    for a in range(size):
        total -= g[a] * delta[a] + 0.5 * h * s[a] * delta[a] * v[a]
        total += cost[a] * (abs(w[a]) - abs(w[a] + delta[a]))
    for k in range(len(own)):
        node, d = own[k], own_delta[k]
        value = own_v[k] + correlated(node, parent, share, deviation, q, below, everywhere)
        total -= own_g[node] * d + 0.5 * h * own_s[node] * d * value
        total += penalty * (abs(own_w[node]) - abs(own_w[node] + d))
    return total


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


@compiled
def derive(z, y, m, loss, residual, bend, g_bias, h_bias):
    """Set the losses of all columns, and the derivatives of their rows."""
    cell = np.empty(z.shape[1], np.float32)
    for c in range(len(z)):
        loss[c] = evaluate(z[c], z[c], 0.0, y[c], m[c % len(m)], cell, residual[c], bend[c])
        g_bias[c] = total_of(residual[c])
        h_bias[c] = total_of(bend[c])


@compiled
def move(
    penalty,
    columns,
    factor,
    z,
    change,
    y,
    m,
    weights,
    step,
    own,
    own_step,
    own_first,
    bias,
    bias_step,
    objective,
    loss,
    residual,
    bend,
    g_bias,
    h_bias,
):
    """Go along each column's step, halved until the objective falls, and take the derivatives there.

    `m` has one row for all columns, or one a column.
    """
    cell = np.empty(z.shape[1], np.float32)
    for place in range(len(columns)):
        c = columns[place]
        size = 1.0
        while True:
            value = evaluate(
                z[c], change[place], size, y[c], m[c % len(m)], cell, residual[c], bend[c]
            )
            growth = 0.0
            for j in range(weights.shape[1]):
                w, d = weights[c, j], step[place, j]
                if d != 0.0:
                    growth += factor[c, j] * (abs(w + size * d) - abs(w))
            for o in range(own_first[c], own_first[c + 1]):
                growth += abs(own[o] + size * own_step[o]) - abs(own[o])
            if size == 0.0 or value + penalty * growth <= loss[c] + 1e-8 * objective[place]:
                break
            size = size * 0.5 if size > 1e-7 else 0.0
        loss[c] = value
        g_bias[c] = total_of(residual[c])
        h_bias[c] = total_of(bend[c])
        if size == 0.0:
            continue
        bias[c] += size * bias_step[place]
        for j in range(weights.shape[1]):
            weights[c, j] += size * step[place, j]
        for o in range(own_first[c], own_first[c + 1]):
            own[o] += size * own_step[o]
        for r in range(z.shape[1]):
            z[c, r] += f32(size) * change[place, r]


@compiled
def penalised(columns, weights, factor, own, own_first, norm):
    """Set the sum of the absolute weights of each column, as far as they bear a penalty."""
    for i in range(len(columns)):
        c = columns[i]
        total = 0.0
        for j in range(weights.shape[1]):
            w = weights[c, j]
            if w != 0.0:
                total += factor[c, j] * abs(w)
        for o in range(own_first[c], own_first[c + 1]):
            total += abs(own[o])
        norm[i] = total


@compiled
def add_by_leaf(columns, values, leaf, parent, first, out):
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
def spread_to_leaves(columns, node_values, leaf, parent, first, out):
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
