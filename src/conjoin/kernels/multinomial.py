"""Multinomial logistic regression of one target: losses, slopes and curvatures.

Row r has the features `feature[first[r] : first[r + 1]]`; weights and slopes are features by states,
logits and probabilities rows by states.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Bool1, Float1, Float2, Int1, Short1, Short2, Single2

FLOOR = 0.05
"""The minimum probability of a row's own state in second derivatives."""
NEGLIGIBLE = 1e-4
"""The probability below which states are left out of second derivatives."""


@compiled
def list_features(
    rows: Int1, ids: Short2, usable: Bool1, leaf: Int1, parent: Int1, first: Int1, feature: Short1
) -> int:
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
def add_logits(first: Int1, feature: Short1, weights: Float2, bias: Float1, z: Float2) -> None:
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
def softmax(z: Float2, label: Int1, m: Float1, p: Float2) -> float:
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


@inner
def temper(p, label, q):
    """Set the probabilities of which second derivatives are taken: a little off those of a row.

    Its own state is never taken to be all but impossible, so that steps stay finite; what is next to
    impossible is left out.
    """
    raised = max(p[label], FLOOR)
    others = (1.0 - raised) / max(1.0 - p[label], 1e-300)
    for k in range(len(p)):
        q[k] = raised if k == label else others * p[k]
        if q[k] < NEGLIGIBLE:
            q[k] = 0.0


@compiled
def derive(first: Int1, feature: Short1, p: Float2, label: Int1, m: Float1, both: Float2) -> None:
    """Add the first derivatives of the loss by all weights, and beside them the second ones by each."""
    states = p.shape[1]
    width = 2 * states
    q, more = np.empty(states), np.empty(width)
    for r in range(len(p)):
        temper(p[r], label[r], q)
        for k in range(states):
            more[k] = m[r] * p[r, k]
            more[states + k] = m[r] * q[k] * (1.0 - q[k])
        more[label[r]] -= m[r]
        total = both[-1]
        for k in range(width):
            total[k] += more[k]
        for i in range(first[r], first[r + 1]):
            total = both[feature[i]]
            for k in range(width):
                total[k] += more[k]


@compiled
def spread(
    first: Int1,
    feature: Short1,
    place: Short2,
    p: Float2,
    label: Int1,
    m: Float1,
    every: int,
    least: float,
    start: int,
    own: Single2,
    all_states: Single2,
) -> tuple[int, int]:
    """Write rows, from `start` on, whose products with each other are second derivatives of the loss.

    Those of a row's probabilities q are diag(q) - q q': the products of `own`, sqrt(q) at the places of
    its features, within each state, less those of `all_states`, q at these places. One row in `every`
    stands for all of these; rows that weigh less than `least` are left out. Returns how many rows were
    written, and where to go on.
    """
    states = p.shape[1]
    q = np.empty(states)
    count = 0
    r = start
    while r < len(p) and count < len(own):
        temper(p[r], label[r], q)
        curve = 0.0
        for k in range(states):
            curve += q[k] * (1.0 - q[k])
        if m[r] * curve >= least:
            root = np.sqrt(m[r] * every)
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
        r += every
    return count, r
