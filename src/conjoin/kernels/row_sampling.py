"""Gibbs sampling of rows whose exact answer would need tables that are too large.

Only conjunctions without off values are supported, with finite weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.elimination_layouts import MARGINALS, MAXIMUM, RowFeatures, SamplingSettings
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Bool2, Float2, Half2, Half3, Word1
from conjoin.kernels.random_numbers import STEP, uniform
from conjoin.kernels.row_elimination import component, reduce_row, room_for_rows, root_of

CLIMBING_SWEEPS = 1000
"""Maximum number of sweeps that improve a mode after annealing."""


class Chain(NamedTuple):
    """The state of the chain of one component.

    Attributes
    ----------
    column_first, column : int64
        For each variable, where its entries start and end; an entry is a feature and its literal.
    failing : int64, (features,)
        The number of failing tests of each feature.
    field, chances : float64, (variables, states)
        The log-odds of each state given the other variables, and the probabilities.
    stale : bool, (variables,)
        Whether the probabilities must be computed again.
    state : int64, (variables,)
        The current state.
    """

    column_first: np.ndarray
    column: np.ndarray
    failing: np.ndarray
    field: np.ndarray
    chances: np.ndarray
    stale: np.ndarray
    state: np.ndarray


@inner
def _chain_for(features):
    n, widest = len(features.cards), np.int64(1)
    for v in range(n):
        widest = max(widest, features.cards[v])
    return Chain(
        np.zeros((n, 2), np.int64),
        np.empty((len(features.literal), 2), np.int64),
        np.empty(len(features.weight), np.int64),
        np.empty((n, widest)),
        np.empty((n, widest)),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
    )


@inner
def _holds(literal, state, features):
    return features.numbers[features.literal_first[literal] + state] != 0


@inner
def _list_columns(members, chosen, features, room, chain):
    """List the features of each variable, with its literals."""
    first, column = chain.column_first, chain.column
    for v in members:
        first[v, 1] = 0
    for f in chosen:
        for e in range(room.first[f], room.first[f + 1]):
            first[features.literal_var[room.literal[e]], 1] += 1
    at = 0
    for v in members:
        count = first[v, 1]
        first[v] = at
        at += count
    for f in chosen:
        for e in range(room.first[f], room.first[f + 1]):
            v = features.literal_var[room.literal[e]]
            column[first[v, 1], 0] = f
            column[first[v, 1], 1] = room.literal[e]
            first[v, 1] += 1


@inner
def _add_weight(literal, weight, features, chain):
    """Add a weight to the states in which a test holds."""
    v = features.literal_var[literal]
    for s in range(features.cards[v]):
        if _holds(literal, s, features):
            chain.field[v, s] += weight


@inner
def _start(members, chosen, features, room, chain):
    """Count the failing tests of each feature, and sum the log-odds of each state."""
    for v in members:
        chain.field[v, : features.cards[v]] = 0.0
        chain.stale[v] = True
    for f in chosen:
        failing = 0
        for e in range(room.first[f], room.first[f + 1]):
            literal = room.literal[e]
            failing += not _holds(literal, chain.state[features.literal_var[literal]], features)
        chain.failing[f] = failing
        for e in range(room.first[f], room.first[f + 1]):
            literal = room.literal[e]
            own = not _holds(literal, chain.state[features.literal_var[literal]], features)
            if failing - own == 0:
                _add_weight(literal, room.weight[f], features, chain)


@inner
def _move(v, new, features, room, chain):
    """Change the state of a variable, and the log-odds of those that share a feature with it."""
    old = chain.state[v]
    chain.state[v] = new
    for c in range(chain.column_first[v, 0], chain.column_first[v, 1]):
        f, own = chain.column[c, 0], chain.column[c, 1]
        after = _holds(own, new, features)
        if _holds(own, old, features) == after:
            continue
        chain.failing[f] += -1 if after else 1
        others = chain.failing[f] - (not after)
        if others > 1:
            continue
        change = room.weight[f] if after else -room.weight[f]
        for e in range(room.first[f], room.first[f + 1]):
            literal = room.literal[e]
            u = features.literal_var[literal]
            if u != v and (others == 0 or not _holds(literal, chain.state[u], features)):
                _add_weight(literal, change, features, chain)
                chain.stale[u] = True


@inner
def _set_chances(field, beta, chances):
    """Turn log-odds into probabilities, at an inverse temperature."""
    top = field[0]
    for s in range(1, len(chances)):
        top = max(top, field[s])
    total = 0.0
    for s in range(len(chances)):
        chances[s] = np.exp(beta * (field[s] - top))
        total += chances[s]
    for s in range(len(chances)):
        chances[s] /= total


@inner
def _sweep(members, beta, counter, features, room, chain):
    """Draw the state of every variable once; return the counter of random numbers."""
    for v in members:
        chances = chain.chances[v, : features.cards[v]]
        if chain.stale[v] or beta != 1:
            _set_chances(chain.field[v], beta, chances)
            chain.stale[v] = False
        counter += STEP
        u = uniform(counter)
        drawn = 0
        while drawn < len(chances) - 1 and u >= chances[drawn]:
            u -= chances[drawn]
            drawn += 1
        if drawn != chain.state[v]:
            _move(v, drawn, features, room, chain)
    return counter


@inner
def _climb(members, features, room, chain):
    """Move variables to their best states until no move improves the score."""
    for _ in range(CLIMBING_SWEEPS):
        moved = False
        for v in members:
            field = chain.field[v, : features.cards[v]]
            better = np.argmax(field)
            if field[better] > field[chain.state[v]] + 1e-9:
                _move(v, better, features, room, chain)
                moved = True
        if not moved:
            break


@inner
def _randomize(members, counter, features, chain):
    for v in members:
        counter += STEP
        card = features.cards[v]
        chain.state[v] = min(card - 1, np.int64(uniform(counter) * card))
    return counter


@inner
def _find_mode(members, chosen, features, room, chain, counter, settings, filled):
    """Write the best state that annealing finds, from an inverse temperature of 1 to 5."""
    top = -np.inf
    for _ in range(settings.starts):
        counter = _randomize(members, counter, features, chain)
        _start(members, chosen, features, room, chain)
        for sweep in range(settings.annealing):
            beta = 5.0 ** (sweep / max(1, settings.annealing - 1))
            counter = _sweep(members, beta, counter, features, room, chain)
        _climb(members, features, room, chain)
        score = 0.0
        for f in chosen:
            if chain.failing[f] == 0:
                score += room.weight[f]
        if score > top:
            top = score
            for v in members:
                filled[0, v] = chain.state[v]


@inner
def _run_chain(mode, members, chosen, features, room, chain, counter, settings, marginals, filled):
    """Average the conditional distributions over the sweeps of a chain, or write draws from it."""
    counter = _randomize(members, counter, features, chain)
    _start(members, chosen, features, room, chain)
    for _ in range(settings.burn_in):
        counter = _sweep(members, 1.0, counter, features, room, chain)
    if mode == MARGINALS:
        for _ in range(settings.sweeps):
            counter = _sweep(members, 1.0, counter, features, room, chain)
            for v in members:
                for s in range(features.cards[v]):
                    share = chain.chances[v, s] / settings.sweeps
                    marginals[features.state_first[v] + s] += share
        return
    for d in range(len(filled)):
        for _ in range(settings.thin):
            counter = _sweep(members, 1.0, counter, features, room, chain)
        for v in members:
            filled[d, v] = chain.state[v]


@compiled
def sample_rows(
    mode: int,
    rows: Half2,
    counters: Word1,
    features: RowFeatures,
    left: Bool2,
    settings: SamplingSettings,
    marginals: Float2,
    filled: Half3,
) -> None:
    """Sample the components of rows that `answer_rows` found too large.

    Parameters
    ----------
    mode, rows, counters, features, marginals, filled
        As for `answer_rows`; weights must be finite.
    left : array of bool, shape (rows, variables)
        The variables of the components to be sampled.
    settings : SamplingSettings
        The numbers of sweeps.
    """
    room, chain = room_for_rows(features), _chain_for(features)
    for r in range(len(rows)):
        row = rows[r]
        count, _ = reduce_row(row, features, room, r)
        counter = counters[r]
        for v in range(len(features.cards)):
            if row[v] < features.cards[v] or root_of(room.parent, v) != v:
                continue
            counter += STEP * np.uint64(1 << 32)
            if not left[r, v]:
                continue
            size, many = component(row, v, count, features, room)
            members, chosen = room.members[:size], room.chosen[:many]
            _list_columns(members, chosen, features, room, chain)
            if mode == MAXIMUM:
                _find_mode(members, chosen, features, room, chain, counter, settings, filled[r])
            else:
                _run_chain(
                    mode, members, chosen, features, room, chain, counter, settings, marginals[r],
                    filled[r],
                )  # fmt: skip
