"""Elimination orders, and the junction tree that an order gives, over bit sets of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.kernels.kernel import compiled, inner, popcount
from conjoin.kernels.layouts import Float1, Int1, Word2


@compiled
def link(indptr: Int1, var: Int1, place: Int1, adjacency: Word2) -> None:
    """Join the variables of each scope. `place` renumbers variables, -1 for those left out."""
    members = np.empty(len(var) + 1, np.int64)
    for f in range(len(indptr) - 1):
        size = 0
        for e in range(indptr[f], indptr[f + 1]):
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
def _neighbours(row, out):
    """Write the members of a bit set to `out`; return how many there are."""
    count = 0
    for w in range(len(row)):
        bits = row[w]
        while bits:
            low = bits & (~bits + np.uint64(1))
            out[count] = (w << 6) + np.int64(popcount(low - np.uint64(1)))
            count += 1
            bits ^= low
    return count


@compiled
def least_width(adjacency: Word2, log_size: Float1) -> Any:
    """Return a lower bound of log2 of the largest table that any order needs.

    Take away the variable whose table with its neighbours is smallest, again and again: the largest
    of these tables is needed by some subgraph, and so by the whole.
    """
    n = len(log_size)
    weight = log_size.copy()
    around = np.empty(n, np.int64)
    for v in range(n):
        for i in range(_neighbours(adjacency[v], around)):
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
        for i in range(_neighbours(adjacency[best], around)):
            weight[around[i]] -= log_size[best]
    return bound


@inner
def _fill(adjacency, v, around, count):
    """Return how many pairs of neighbours of v are not linked, and the log-size of its table."""
    row = adjacency[v]
    linked = np.uint64(0)
    for i in range(count):
        other = adjacency[around[i]]
        for w in range(len(row)):
            linked += popcount(row[w] & other[w])
    return (count * (count - 1) - np.int64(linked)) >> 1


@compiled
def eliminate(
    adjacency: Word2, log_size: Float1, by_weight: bool, seed: np.uint64, limit: float, order: Int1
) -> Any:
    """Find an elimination order greedily; leave in `adjacency` each variable's separator.

    The next variable is the one that links the fewest pairs of neighbours that were not, or with
    `by_weight` the one with the smallest table; each breaks the ties of the other, and what is left is
    broken by the random state `seed`.

    Returns
    -------
    total : float
        The sum of the sizes of all tables, infinite as soon as one exceeds `limit` (a log2).
    largest : float
        log2 of the largest.
    work : int
        What looking cost, in words of 64 bits that were read.
    """
    n = len(log_size)
    words = adjacency.shape[1]
    work = 0
    fill = np.empty(n, np.int64)
    weight = np.empty(n)
    noise = np.empty(n, np.uint64)
    around = np.empty(n, np.int64)
    further = np.empty(n, np.int64)
    stale = np.ones(n, np.bool_)
    gone = np.zeros(n, np.bool_)
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
                count = _neighbours(adjacency[v], around)
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
        count = _neighbours(adjacency[best], around)
        grew = fill[best] > 0
        work += n + 3 * count * words
        bit = np.uint64(1) << np.uint64(best & 63)
        for i in range(count):
            u = around[i]
            for w in range(words):
                adjacency[u, w] |= adjacency[best, w]
            adjacency[u, best >> 6] &= ~bit
            adjacency[u, u >> 6] &= ~(np.uint64(1) << np.uint64(u & 63))
            stale[u] = True
        if grew:  # the neighbours of neighbours may now have fewer pairs to link
            for i in range(count):
                for j in range(_neighbours(adjacency[around[i]], further)):
                    stale[further[j]] = True
    return total, largest, work


@compiled
def cliques(
    adjacency: Word2,
    order: Int1,
    size: Int1,
    clique_of: Int1,
    first: Int1,
    var: Int1,
    residual: Int1,
    parent: Int1,
    clique_size: Int1,
) -> Any:
    """Gather the tables of an order into the cliques of a junction tree.

    A variable whose table is its child's separator joins the child's clique. The variables of a
    clique are written as they are eliminated, so that its own, its residual, come first and its
    separator last.

    Returns
    -------
    count : int
        The number of cliques.
    """
    n = len(order)
    place = np.empty(n, np.int64)
    for i in range(n):
        place[order[i]] = i
    around = np.empty(n, np.int64)
    width = np.empty(n, np.int64)
    above = np.full(n, -1, np.int64)  # the first of the separator to be eliminated
    for v in range(n):
        width[v] = _neighbours(adjacency[v], around)
        for i in range(width[v]):
            if above[v] < 0 or place[around[i]] < place[above[v]]:
                above[v] = around[i]
    # The cliques, each known by the last variable that it eliminates.
    top = np.full(n, -1, np.int64)
    for i in range(n):
        v = order[i]
        if top[v] >= 0:
            continue
        last = v
        while above[last] >= 0 and top[above[last]] < 0 and width[last] == width[above[last]] + 1:
            last = above[last]
            top[last] = last
        u = v
        while u != last:
            top[u] = last
            u = above[u]
        top[last] = last
    # Numbered by it, so that children come before their parents.
    count = 0
    for i in range(n):
        if top[order[i]] == order[i]:
            clique_of[order[i]] = count
            count += 1
    for v in range(n):
        clique_of[v] = clique_of[top[v]]
    last_of = np.empty(count, np.int64)
    for v in range(n):
        last_of[clique_of[v]] = top[v]
    top = last_of
    # A clique's members: what it eliminates, and the separator of the last of that.
    for i in range(n):
        residual[i] = 1
    for c in range(count):
        parent[c] = clique_of[above[top[c]]] if above[top[c]] >= 0 else -1
    members = np.zeros(count + 1, np.int64)
    for v in range(n):
        members[clique_of[v]] += 1
        residual[clique_of[v]] *= size[v]
    first[0] = 0
    for c in range(count):
        first[c + 1] = first[c] + members[c] + width[top[c]]
    for c in range(count):
        v = top[c]
        low, high = first[c] + members[c], first[c + 1]
        for i in range(_neighbours(adjacency[v], around)):
            var[low + i] = around[i]
        part = var[low:high]
        clique_size[c] = residual[c]
        for i in range(len(part)):
            clique_size[c] *= size[part[i]]
            moved = part[i]
            j = i
            while j > 0 and place[part[j - 1]] > place[moved]:
                part[j] = part[j - 1]
                j -= 1
            part[j] = moved
    filled = first[:-1].copy()
    for i in range(n):
        c = clique_of[order[i]]
        var[filled[c]] = order[i]
        filled[c] += 1
    return count
