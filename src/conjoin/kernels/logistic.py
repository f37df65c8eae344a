"""The quadratic step of L1-regularised logistic regression: coordinate descent over active sets."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled


@compiled
def steps(
    penalty,
    gradient,
    scale,
    curvature,
    weights,
    shared,
    own_gradient,
    own_scale,
    own_weights,
    own_first,
    cross,
    cross_first,
    inner,
    inner_first,
    step,
    own_step,
    decrease,
    max_sweeps,
    tolerance,
):
    """Minimise, for each column c, the quadratic model of its loss plus the penalty.

    The model's Hessian is curvature[c] * s_j r_jk s_k with a correlation matrix r: `shared` among the
    ordinary features, `cross` and `inner` for the features of the column's own (its tree's paths).
    Features of scale 0 take no part. `step` gets the change of each weight, `decrease` the
    decrease that the model predicts.
    """
    n_shared, n_columns = gradient.shape
    for c in range(n_columns):
        low, high = own_first[c], own_first[c + 1]
        n_own = high - low
        # The active set: weights that are not 0, and those whose gradient exceeds the penalty.
        active = np.empty(n_shared + n_own, np.int64)
        size = 0
        for j in range(n_shared):
            if scale[j, c] > 0 and (weights[j, c] != 0 or abs(gradient[j, c]) > penalty):
                active[size] = j
                size += 1
        n_first = size
        for j in range(n_own):
            o = low + j
            if own_scale[o] > 0 and (own_weights[o] != 0 or abs(own_gradient[o]) > penalty):
                active[size] = n_shared + j
                size += 1
        for j in range(n_shared):
            step[j, c] = 0.0
        for o in range(low, high):
            own_step[o] = 0.0
        decrease[c] = 0.0
        if size == 0:
            continue
        matrix = np.empty((size, size))
        s = np.empty(size)
        g = np.empty(size)
        w = np.empty(size)
        for a in range(size):
            j = active[a]
            if a < n_first:
                s[a], g[a], w[a] = scale[j, c], gradient[j, c], weights[j, c]
                for b in range(n_first):
                    matrix[a, b] = shared[j, active[b]]
            else:
                o = low + j - n_shared
                s[a], g[a], w[a] = own_scale[o], own_gradient[o], own_weights[o]
                row = cross_first[c] + (j - n_shared) * n_shared
                for b in range(n_first):
                    matrix[a, b] = cross[row + active[b]]
                    matrix[b, a] = matrix[a, b]
                row = inner_first[c] + (j - n_shared) * n_own
                for b in range(n_first, size):
                    matrix[a, b] = inner[row + active[b] - n_shared]
        h = curvature[c]
        delta = np.zeros(size)
        v = np.zeros(size)
        first_move = 0.0
        for sweep in range(max_sweeps):
            move = 0.0
            for a in range(size):
                bend = h * s[a] * s[a]
                slope = g[a] + h * s[a] * v[a]
                target = w[a] + delta[a] - slope / bend
                cut = penalty / bend
                if target > cut:
                    new = target - cut
                elif target < -cut:
                    new = target + cut
                else:
                    new = 0.0
                change = new - w[a] - delta[a]
                if change != 0.0:
                    delta[a] += change
                    move += bend * change * change
                    shift = s[a] * change
                    line = matrix[a]
                    for b in range(len(v)):
                        v[b] += line[b] * shift
            if sweep == 0:
                first_move = move
            if move <= tolerance * first_move:
                break
        total = 0.0
        for a in range(size):
            total -= g[a] * delta[a] + 0.5 * h * s[a] * delta[a] * v[a]
            total += penalty * (abs(w[a]) - abs(w[a] + delta[a]))
            j = active[a]
            if a < n_first:
                step[j, c] = delta[a]
            else:
                own_step[low + j - n_shared] = delta[a]
        decrease[c] = total


@compiled
def add_by_leaf(values, leaf, parent, first, out):
    """Add the values of each node's rows, column by column: those of its leaves, handed up.

    Row r of column c ends in node leaf[r, c]; the nodes of column c are first[c] to first[c + 1] of
    `parent` and `out`, children after their parents.
    """
    out[:] = 0.0
    for r in range(values.shape[0]):
        for c in range(values.shape[1]):
            out[first[c] + leaf[r, c]] += values[r, c]
    for c in range(values.shape[1]):
        low = first[c]
        for node in range(first[c + 1] - low - 1, 0, -1):
            out[low + parent[low + node]] += out[low + node]


@compiled
def spread_to_leaves(node_values, leaf, parent, first, out):
    """Add to each cell the values of all nodes on the path to its leaf."""
    total = node_values.copy()
    for c in range(out.shape[1]):
        low = first[c]
        for node in range(1, first[c + 1] - low):
            total[low + node] += total[low + parent[low + node]]
    for r in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[r, c] += np.float32(total[first[c] + leaf[r, c]])
