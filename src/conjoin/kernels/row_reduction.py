"""Features given the known values of a row: what remains of them, and the components they fall into."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.kernel import inner
from conjoin.kernels.random_numbers import STEP, scatter

FAILS, HOLDS, FREE, SOFT = 0, 1, 2, 3
"""What a row says of a literal."""


class Reduced(NamedTuple):
    """The features of one row, given its known values, and memory to find them.

    Attributes
    ----------
    known : uint8, (literals,)
        What the row says of each literal: FAILS, HOLDS, FREE or, for another off value, SOFT.
    factor : float64, (literals,)
        The number of each literal in the row, unless it is free.
    parent : int64, (variables,)
        A forest that links free variables that share a feature.
    first, literal : int64
        The remaining literals of each remaining feature.
    weight : float64
        The weights of the remaining features.
    bucket, key, stamp : arrays
        A hash table of these features; entries with the stamp of the row are in use.
    members, place : int64, (variables,)
        The variables of one component, and the position of each among them.
    chosen : int64, (features,)
        The features of one component.
    axes : int64, (4, 64)
        Memory for the table of one scope: the sizes of its axes, and loop counters.
    partial : float64, (64,)
        Partial products of a feature.
    """

    known: np.ndarray
    factor: np.ndarray
    parent: np.ndarray
    first: np.ndarray
    literal: np.ndarray
    weight: np.ndarray
    bucket: np.ndarray
    key: np.ndarray
    stamp: np.ndarray
    members: np.ndarray
    place: np.ndarray
    chosen: np.ndarray
    axes: np.ndarray
    partial: np.ndarray


@inner
def room_for_rows(features):
    """Return memory for the reduction of one row after another."""
    n, count = len(features.cards), len(features.weight)
    size = 16
    while size < 2 * count:
        size *= 2
    return Reduced(
        np.empty(len(features.literal_var), np.uint8),
        np.empty(len(features.literal_var)),
        np.empty(n, np.int64),
        np.zeros(count + 1, np.int64),
        np.empty(len(features.literal), np.int64),
        np.empty(count),
        np.empty(size, np.int64),
        np.empty(size, np.uint64),
        np.full(size, -1, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(count, np.int64),
        np.empty((4, 64), np.int64),
        np.empty(64),
    )


@inner
def root_of(parent, v):
    """Follow a path to its root, and shorten it."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@inner
def _set_factors(row, features, room):
    """Write what a row says of each literal."""
    parent, known, factor, literal_var = room.parent, room.known, room.factor, features.literal_var
    cards, numbers, literal_first = features.cards, features.numbers, features.literal_first
    for v in range(len(parent)):
        parent[v] = v
    for k in range(len(known)):
        v = literal_var[k]
        state = np.int64(row[v])
        if state >= cards[v]:
            known[k] = FREE
            continue
        number = numbers[literal_first[k] + state]
        factor[k] = number
        known[k] = HOLDS if number == 1 else FAILS if number == 0 else SOFT


@inner
def reduce_row(row, features, room, number):
    """Put the known values of a row into the features; equal remainders are merged.

    Returns the number of remaining features, and the sum of those that test no free variable. `number`
    is the stamp of the row.
    """
    _set_factors(row, features, room)
    # Local names: every access to a member of a named tuple in the loop would cost time.
    first, literals, skip = features.first, features.literal, features.skip
    weights, literal_var, known, factor, parent = (
        features.weight, features.literal_var, room.known, room.factor, room.parent,
    )  # fmt: skip
    left_first, left_literal, left_weight = room.first, room.literal, room.weight
    bucket, key, stamp = room.bucket, room.key, room.stamp
    last = np.uint64(len(bucket) - 1)
    count, end, certain = 0, 0, 0.0
    following = 0
    while following < len(weights):
        f = following
        following += 1
        start, weight, mine = end, weights[f], np.uint64(0)
        for e in range(first[f], first[f + 1]):
            literal = literals[e]
            says = known[literal]
            if says == FAILS:
                weight = 0.0
                following = skip[e]
                break
            if says == FREE:
                left_literal[end] = literal
                mine += scatter(STEP * np.uint64(literal + 1))
                end += 1
            elif says == SOFT:
                weight *= factor[literal]
        if weight == 0:
            end = start
            continue
        if end == start:
            certain += weight
            continue
        at = (mine ^ (mine >> np.uint64(32))) & last
        while stamp[at] == number and key[at] != mine:
            at = (at + np.uint64(1)) & last
        if stamp[at] == number:
            left_weight[bucket[at]] += weight
            end = start
            continue
        stamp[at] = number
        key[at] = mine
        bucket[at] = count
        left_weight[count] = weight
        count += 1
        left_first[count] = end
        root = root_of(parent, literal_var[left_literal[start]])
        for k in range(start + 1, end):
            parent[root_of(parent, literal_var[left_literal[k]])] = root
    return count, certain


@inner
def component(row, v, count, features, room):
    """Write the free variables that are linked with v, and their features; return their numbers."""
    cards, parent, members = features.cards, room.parent, room.members
    place, chosen = room.place, room.chosen
    first, literal, literal_var = room.first, room.literal, features.literal_var
    size = 0
    for w in range(len(cards)):
        if row[w] >= cards[w] and root_of(parent, w) == v:
            members[size] = w
            place[w] = size
            size += 1
    mine = 0
    for f in range(count):
        if root_of(parent, literal_var[literal[first[f]]]) == v:
            chosen[mine] = f
            mine += 1
    return size, mine
