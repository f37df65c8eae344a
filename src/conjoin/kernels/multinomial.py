"""Multinomial logistic regression of one target: losses, slopes and curvatures.

Row r has the features `feature[first[r] : first[r + 1]]`; weights and slopes are features by states,
logits and probabilities rows by states.
"""

# Loops over indices, plain branches and long argument lists are what the compiler wants.

from __future__ import annotations

import numpy as np

from conjoin.kernels.jit import compiled

FLOOR = 0.05
"""The least probability that a row's own state is taken to have in second derivatives."""
NEGLIGIBLE = 1e-4
"""States of less probability are left out there."""


@compiled
def list_features(rows, ids, usable, leaf, parent, first, feature):
    """List the features of some rows: indicators, then the nodes on the way up from a leaf of a tree.

    `ids` has the indicators of all rows, -1 where there is none; nodes are numbered after the
    indicators. `usable` says of each feature whether it takes part. Returns how many there are in all;
    `feature` may be empty to count them only.
    """
    width = len(usable) - len(parent)
    count = 0
    for i in range(len(rows)):
        r = rows[i]
        first[i] = count
        for v in range(ids.shape[1]):
            j = ids[r, v]
            if j >= 0 and usable[j]:
                if len(feature):
                    feature[count] = j
                count += 1
        node = leaf[r] if len(parent) else 0
        while node > 0:
            if usable[width + node]:
                if len(feature):
                    feature[count] = width + node
                count += 1
            node = parent[node]
    first[len(rows)] = count
    return count


@compiled
def add_logits(first, feature, weights, bias, z):
    """Add to each row's logits the weights of its features, and the bias."""
    states = len(bias)
    for r in range(len(z)):
        line = z[r]
        for k in range(states):
            line[k] += bias[k]
        for i in range(first[r], first[r + 1]):
            more = weights[feature[i]]
            for k in range(states):
                line[k] += more[k]


@compiled
def softmax(z, label, m, p):
    """Set the probabilities that logits mean; return the loss."""
    states = z.shape[1]
    loss = 0.0
    for r in range(len(z)):
        top = -np.inf
        for k in range(states):
            top = max(top, z[r, k])
        own = z[r, label[r]] - top
        total = 0.0
        for k in range(states):
            p[r, k] = np.exp(z[r, k] - top)
            total += p[r, k]
        for k in range(states):
            p[r, k] /= total
        loss += m[r] * (np.log(total) - own)
    return loss


@compiled
def derive(first, feature, p, label, m, slope, bias_slope):
    """Set the derivatives of the loss by all weights and biases."""
    states = p.shape[1]
    slope[:] = 0.0
    bias_slope[:] = 0.0
    off = np.empty(states)
    for r in range(len(p)):
        for k in range(states):
            off[k] = m[r] * p[r, k]
        off[label[r]] -= m[r]
        for k in range(states):
            bias_slope[k] += off[k]
        for i in range(first[r], first[r + 1]):
            line = slope[feature[i]]
            for k in range(states):
                line[k] += off[k]


@compiled
def spread(first, feature, place, p, label, m, least, start, own, all_states):
    """Write rows, from `start` on, whose products with each other are second derivatives of the loss.

    Those of a row's probabilities q are diag(q) - q q': the products of `own`, sqrt(q) at the places of
    its features, within each state, less those of `all_states`, q at these places. The last feature is
    the bias, which all rows have. The probabilities are a little off `p`: the state of a row is never
    taken to be all but impossible, so that steps stay finite, and what is next to impossible is left
    out, as are rows that weigh less than `least`. Returns how many rows were written, and where to go
    on.
    """
    states = p.shape[1]
    q = np.empty(states)
    count = 0
    r = start
    while r < len(p) and count < len(own):
        raised = max(p[r, label[r]], FLOOR)
        others = (1.0 - raised) / max(1.0 - p[r, label[r]], 1e-300)
        curve = 0.0
        for k in range(states):
            q[k] = raised if k == label[r] else others * p[r, k]
            q[k] = q[k] if q[k] >= NEGLIGIBLE else 0.0
            curve += q[k] * (1.0 - q[k])
        if m[r] * curve >= least:
            root = np.sqrt(m[r])
            own[count] = 0.0
            all_states[count] = 0.0
            for k in range(states):
                if q[k] == 0.0:
                    continue
                alone, with_others = root * np.sqrt(q[k]), root * q[k]
                own[count, place[-1, k]] = alone
                all_states[count, place[-1, k]] = with_others
                for i in range(first[r], first[r + 1]):
                    a = place[feature[i], k]
                    if a >= 0:
                        own[count, a] = alone
                        all_states[count, a] = with_others
            count += 1
        r += 1
    return count, r
