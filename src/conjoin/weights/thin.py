"""Networks thin enough for exact inference: the strongest interactions that fit into small tables.

A converted network may join so many columns that its joint can only be sampled, and where columns nearly
determine each other a sampler does not get around. A network with fewer of the features, those inside the
cliques of one junction tree, can be asked exactly, and learned by maximum likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.plan import MAX_VARIABLES, find_order
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network
from conjoin.scoring.strengths import interactions

MAX_CELLS = 1 << 17
"""How many cells the tables of exact inference may have in all."""

BLOCK = 1 << 24
"""About how many pairs of a test and a clique are looked at at a time."""

CANDIDATES = 8
"""So many pairs a variable are tried, the strongest ones first."""


def thin(
    model: Network, table: Table | None = None, *, max_cells: float = MAX_CELLS
) -> MarkovNetwork:
    """Leave out features until exact inference takes small tables.

    Pairs of variables are linked one after another, the strongest first (see `interactions`), as long as
    an elimination order keeps within `max_cells`. Of each feature those tests are left that are together
    in a clique of the junction tree, and its weight is multiplied by the probability of the others, as if
    these were independent. The weights are best learned anew (`learn_weights` with
    objective="likelihood").

    Parameters
    ----------
    model : MarkovNetwork
        The network.
    table : Table, optional
        Its marginals are the distribution that strengths are measured under.
    max_cells : float
        How many cells the tables of exact inference may have in all.

    Returns
    -------
    MarkovNetwork
        The network itself if it is thin enough. Otherwise the provenance tells how many features are
        whole, and what part of all squared strengths is between variables that share a clique.

    Examples
    --------
    >>> from conjoin import Domain, Features, forecast
    >>> domain = Domain.numbered([2] * 12)
    >>> terms = [(1 / (1 + i - j), {f"v{i}": 1, f"v{j}": 1}) for i in range(12) for j in range(i)]
    >>> dense = MarkovNetwork(domain, Features.from_terms(domain, terms))
    >>> thinned = thin(dense, max_cells=100)
    >>> forecast(dense).largest, forecast(thinned).largest <= 100, len(thinned.features)
    (4096, True, 31)
    """
    if not isinstance(model, MarkovNetwork):
        raise ModelError(f"a {model.kind} has no joint to be made thin; convert it first")
    whole = model.to_features()
    features, cards = whole.features, model.domain.cards
    nothing = np.zeros(0, np.int64)
    scopes = (features.indptr.astype(np.int64), features.entry_var.astype(np.int64))
    if len(cards) > MAX_VARIABLES:
        raise ModelError(f"networks of more than {MAX_VARIABLES:,} variables are not made thin")
    if find_order(cards, *scopes, nothing, 8.0 * max_cells).total <= max_cells:
        return model
    pairs = interactions(whole, table)
    cliques = _linked(pairs.left, pairs.right, cards, max_cells)
    squares = pairs.strength**2
    together = cliques.near[pairs.left, pairs.right] | cliques.near[pairs.right, pairs.left]
    left, whole_ones = _cut(features, cliques.near, features.tests.probability(pairs.marginals))
    record = {
        "whole_features": whole_ones,
        "of": len(features),
        "cells": cliques.cells,
        "strength": float(squares[together].sum() / squares.sum()) if len(pairs) else 1.0,
    }
    provenance = {**model.provenance, "thin": record}
    return MarkovNetwork(model.domain, left, provenance=provenance)


def _cut(features: Features, cliques: BoolArray, q: FloatArray) -> tuple[Features, int]:
    """Leave of each feature the tests in one clique, the one with most; the others are averaged out.

    Returns
    -------
    features : Features
        Equal ones are made one.
    whole : int
        How many lost no test.
    """
    keep = np.zeros(len(features.indices), bool)
    step = max(1, BLOCK // (len(cliques) * max(1, int(features.lengths.max(initial=1)))))
    for low in range(0, len(features), step):
        rows = np.arange(low, min(low + step, len(features)))
        part = slice(features.indptr[rows[0]], features.indptr[rows[-1] + 1])
        inside = cliques[:, features.entry_var[part]]
        owner = features.entry_feature[part] - low
        starts = np.searchsorted(owner, np.arange(len(rows) + 1))
        summed = np.concatenate([np.zeros((len(cliques), 1), int), inside.cumsum(axis=1)], axis=1)
        best = (summed[:, starts[1:]] - summed[:, starts[:-1]]).argmax(axis=0)
        keep[part] = inside[best[owner], np.arange(inside.shape[1])]
    off = features.off_values()
    mean = np.where(keep, 1.0, off + (1 - off) * q[features.indices])
    filled = np.flatnonzero(features.lengths)
    factor = np.ones(len(features))
    if len(filled):
        factor[filled] = np.multiply.reduceat(mean, features.indptr[filled])
    lost = np.bincount(features.entry_feature[~keep], minlength=len(features))
    weights = np.where((lost > 0) & np.isinf(features.weights), 0.0, features.weights) * factor
    indptr = np.concatenate([[0], np.cumsum(features.lengths - lost)])
    cut = Features(
        features.tests, indptr, features.indices[keep], weights,
        None if features.off is None else features.off[keep],
    )  # fmt: skip
    return cut.merged(), int(np.count_nonzero(lost == 0))


@dataclass(frozen=True, eq=False)
class _Cliques:
    """The tables of an elimination order.

    Attributes
    ----------
    cells : float
        How many cells they have in all.
    near : array of bool
        For each variable itself, and the others in its table when it is eliminated.
    """

    cells: float
    near: BoolArray


def _linked(left: IntArray, right: IntArray, cards: IntArray, max_cells: float) -> _Cliques:
    """Link pairs one after another, as long as the tables stay small."""
    linked = np.zeros((len(cards), len(cards)), bool)
    log_size = np.log2(cards)
    best = _cliques(linked, log_size, max(max_cells, float(cards.sum())))
    count = CANDIDATES * len(cards)
    for i, j in zip(left[:count].tolist(), right[:count].tolist(), strict=True):
        linked[i, j] = linked[j, i] = True
        found = _cliques(linked, log_size, max_cells)
        if found is None:
            linked[i, j] = linked[j, i] = False
        else:
            best = found
    assert best is not None
    return best


def _cliques(linked: BoolArray, log_size: FloatArray, max_cells: float) -> _Cliques | None:
    """Return the smaller tables of two elimination orders, by fill and by size, if they fit."""
    from conjoin.kernels.elimination import eliminate

    n = len(log_size)
    words = (n + 63) >> 6
    room = np.zeros((n, 64 * words), bool)
    room[:, :n] = linked
    packed = np.packbits(room, axis=1, bitorder="little").view(np.uint64)
    tried = []
    for by_weight in (False, True):
        separators, order = packed.copy(), np.empty(n, np.int64)
        limit = np.log2(max_cells)
        total, _, _ = eliminate(separators, log_size, by_weight, np.uint64(1), limit, order)
        tried.append((total, separators))
    total, separators = min(tried, key=lambda found: float(found[0]))
    if total > max_cells:
        return None
    near = np.unpackbits(separators.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(bool)
    near[np.arange(n), np.arange(n)] = True
    return _Cliques(float(total), near)
