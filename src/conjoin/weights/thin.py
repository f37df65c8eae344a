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

AT_ONCE = 64
"""So many pairs are linked at a time; if that is too much, half of them, and so on."""

WORK = 1 << 28
"""Looking for orders may read so many words of 64 bits, which takes seconds; then no more are tried."""


def thin(
    model: Network,
    table: Table | None = None,
    *,
    max_cells: float = MAX_CELLS,
    least: float = 0.0,
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
    least : float
        Stop early if less than this part of all squared strengths can be kept.

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
    >>> forecast(dense).largest, forecast(thinned).largest <= 100
    (4096, True)
    >>> len(thinned.features) < len(dense.features)
    True
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
    squares = pairs.strength**2
    grown = _Grown(cards, max_cells)
    count = min(len(pairs), CANDIDATES * len(cards))
    spare = (1 - least) * squares.sum() - squares[count:].sum()
    for low in range(0, count, AT_ONCE):
        some = slice(low, min(low + AT_ONCE, count))
        refused = grown.link(pairs.left[some], pairs.right[some])
        spare -= squares[some][refused].sum()
        if spare < 0 or grown.work > WORK:
            break
    cliques = grown.cliques
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


class _Grown:
    """A graph that grows by pairs as long as the tables of an elimination order stay small.

    Attributes
    ----------
    cliques : _Cliques
        Those of the graph.
    work : int
        What looking for orders has cost, in words that were read.
    """

    def __init__(self, cards: IntArray, max_cells: float) -> None:
        self.linked = np.zeros((len(cards), len(cards)), bool)
        self.log_size, self.max_cells = np.log2(cards), max_cells
        self.work = 0
        alone = np.eye(len(cards), dtype=bool)
        self.cliques = _Cliques(float(cards.sum()), alone)

    def link(self, left: IntArray, right: IntArray) -> BoolArray:
        """Link the pairs that fit, the first ones first; tell which do not."""
        new = ~self.linked[left, right]
        self.linked[left, right] = self.linked[right, left] = True
        found = self._search()
        if found is not None:
            self.cliques = found
            return np.zeros(len(left), bool)
        self.linked[left[new], right[new]] = self.linked[right[new], left[new]] = False
        if len(left) == 1:
            return np.ones(1, bool)
        half = len(left) // 2
        return np.concatenate(
            [self.link(left[:half], right[:half]), self.link(left[half:], right[half:])]
        )

    def _search(self) -> _Cliques | None:
        """Return the smaller tables of two elimination orders, by fill and by size, if they fit."""
        from conjoin.kernels.elimination import eliminate

        n = len(self.log_size)
        room = np.zeros((n, 64 * ((n + 63) >> 6)), bool)
        room[:, :n] = self.linked
        packed = np.packbits(room, axis=1, bitorder="little").view(np.uint64)
        limit = np.log2(self.max_cells)
        tried = []
        for by_weight in (False, True):
            separators, order = packed.copy(), np.empty(n, np.int64)
            total, _, work = eliminate(
                separators, self.log_size, by_weight, np.uint64(1), limit, order
            )
            self.work += work
            tried.append((total, separators))
        total, separators = min(tried, key=lambda found: float(found[0]))
        if total > self.max_cells:
            return None
        bits = np.unpackbits(separators.view(np.uint8), axis=1, bitorder="little")[:, :n]
        return _Cliques(float(total), bits.astype(bool) | np.eye(n, dtype=bool))
