"""Greedy elimination orders. Sets of variables are rows of bits, 64 per word."""

from __future__ import annotations

import numpy as np

from conjoin.kernels.kernel import compiled, inner, popcount
from conjoin.kernels.layouts import Float1, Int1, Word2


@compiled
def link_scopes(first: Int1, var: Int1, place: Int1, adjacency: Word2) -> None:
    """Link the variables of each scope. `place` renumbers variables; negative ones are left out."""
    members = np.empty(len(var) + 1, np.int64)
    for f in range(len(first) - 1):
        size = 0
        for e in range(first[f], first[f + 1]):
            at = place[var[e]]
            if at >= 0:
                members[size] = at
                size += 1
        for a in range(size):
            v = members[a]
            for b in range(size):
                u = members[b]
                if u != v:
                    adjacency[v, u >> 6] |= np.uint64(1) << np.uint64(u & 63)


@inner
def members_of(bits, out):
    """Write the members of a bit set to `out`; return their number."""
    count = 0
    for w in range(len(bits)):
        word = bits[w]
        while word:
            low = word & (~word + np.uint64(1))
            out[count] = (w << 6) + np.int64(popcount(low - np.uint64(1)))
            count += 1
            word ^= low
    return count


@compiled
def lower_bound(adjacency: Word2, log_size: Float1) -> float:
    """Return a lower bound of log2 of the largest table that any order needs.

    The variable whose table with its neighbours is smallest is removed repeatedly: the largest of these
    tables is needed by some subgraph, and therefore by the whole graph.
    """
    n = len(log_size)
    weight = log_size.copy()
    around = np.empty(n, np.int64)
    for v in range(n):
        for i in range(members_of(adjacency[v], around)):
            weight[v] += log_size[around[i]]
    gone = np.zeros(n, np.bool_)
    bound = 0.0
    for _ in range(n):
        best = -1
        for v in range(n):
            if not gone[v] and (best < 0 or weight[v] < weight[best]):
                best = v
        gone[best] = True
        bound = max(bound, weight[best])
        for i in range(members_of(adjacency[best], around)):
            weight[around[i]] -= log_size[best]
    return bound


@inner
def _fill(adjacency, v, around, count):
    """Return the number of pairs of neighbours of v that are not linked."""
    row = adjacency[v]
    linked = np.uint64(0)
    for i in range(count):
        other = adjacency[around[i]]
        for w in range(len(row)):
            linked += popcount(row[w] & other[w])
    return (count * (count - 1) - np.int64(linked)) >> 1


@inner
def _remove(adjacency, v, around, count):
    """Link the neighbours of a variable with each other, and no longer with the variable."""
    bit = np.uint64(1) << np.uint64(v & 63)
    for i in range(count):
        u = around[i]
        for w in range(adjacency.shape[1]):
            adjacency[u, w] |= adjacency[v, w]
        adjacency[u, v >> 6] &= ~bit
        adjacency[u, u >> 6] &= ~(np.uint64(1) << np.uint64(u & 63))


@compiled
def greedy_order(
    adjacency: Word2, log_size: Float1, by_weight: bool, seed: np.uint64, limit: float, order: Int1
) -> tuple[float, float, int]:
    """Find an elimination order greedily; leave in `adjacency` each variable's separator.

    The next variable is the one that links the fewest pairs of neighbours that are not linked yet or,
    with `by_weight`, the one with the smallest table. Each criterion breaks ties of the other; remaining
    ties are broken at random, by `seed`.

    Returns `total`, the sum of the sizes of all tables, infinite as soon as one exceeds `limit` (a
    log2); `largest`, log2 of the largest; `work`, the cost of the search, as the number of 64-bit
    words that were read.
    """
    n = len(log_size)
    words = adjacency.shape[1]
    work = 0
    fill, weight, noise = np.empty(n, np.int64), np.empty(n), np.empty(n, np.uint64)
    around, further = np.empty(n, np.int64), np.empty(n, np.int64)
    stale, gone = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    for v in range(n):
        seed ^= seed << np.uint64(13)
        seed ^= seed >> np.uint64(7)
        seed ^= seed << np.uint64(17)
        noise[v] = seed
    total = 0.0
    largest = 0.0
    for step in range(n):
        best = -1
        for v in range(n):
            if gone[v]:
                continue
            if stale[v]:
                count = members_of(adjacency[v], around)
                weight[v] = log_size[v]
                for i in range(count):
                    weight[v] += log_size[around[i]]
                fill[v] = _fill(adjacency, v, around, count)
                stale[v] = False
                work += (count + 1) * words
            if best < 0:
                best = v
                continue
            lighter = weight[v] - weight[best]
            if abs(lighter) < 1e-9:
                lighter = 0.0
            fewer = np.float64(fill[v] - fill[best])
            first = lighter if by_weight else fewer
            second = fewer if by_weight else lighter
            if first < 0 or (
                first == 0 and (second < 0 or (second == 0 and noise[v] < noise[best]))
            ):
                best = v
        order[step] = best
        gone[best] = True
        total += 2.0 ** weight[best]
        largest = max(largest, weight[best])
        if largest > limit:
            return np.inf, largest, work
        count = members_of(adjacency[best], around)
        work += n + 3 * count * words
        _remove(adjacency, best, around, count)
        for i in range(count):
            stale[around[i]] = True
            if fill[best] > 0:  # its neighbours may now have fewer pairs to link
                for j in range(members_of(adjacency[around[i]], further)):
                    stale[further[j]] = True
    return total, largest, work
