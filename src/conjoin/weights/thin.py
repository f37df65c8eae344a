"""Networks thin enough for exact inference: the strongest interactions that fit into small tables.

A converted network may join so many columns that its joint can only be sampled, and where columns nearly
determine each other a sampler does not get around. A network with fewer of the features, those inside the
cliques of one junction tree, can be asked exactly, and learned by maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.frames import as_table
from conjoin.data.table import code_dtype
from conjoin.errors import ModelError
from conjoin.inference.plan import MAX_VARIABLES, find_order
from conjoin.models.features import Features, segment_product
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network
from conjoin.scoring.strengths import interactions

MAX_CELLS = 1 << 17
"""How many cells the tables of exact inference may have in all."""

ROWS = 1000
"""By so many random rows the log-potentials of a network and of what is left of it are compared."""

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
    table: Any = None,
    *,
    max_cells: float = MAX_CELLS,
    least: float = 0.0,
) -> MarkovNetwork:
    """Leave out features until exact inference takes small tables.

    Pairs of variables are linked one after another, the strongest first (see `interactions`), as long as
    an elimination order keeps within `max_cells`. Of each feature those tests are left that are together
    in a clique of the junction tree, and its weight is multiplied by the probability of the others, as if
    these were independent; hard constraints stay whole. The weights are best learned anew
    (`learn_weights` with objective="likelihood").

    Parameters
    ----------
    model : MarkovNetwork
        The network.
    table : Table, array or frame, optional
        Its marginals are the distribution that strengths are measured under.
    max_cells : float
        About how many cells the tables of exact inference may have in all.
    least : float
        Stop early if less than this part of all squared strengths can be kept.

    Returns
    -------
    MarkovNetwork
        The network itself if it is thin enough. Otherwise the provenance tells how many features are
        whole, what part of all squared strengths is between variables that share a clique, and what part
        of the variance of the log-potential under the marginals is explained by what is left.

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
        raise ModelError(f"Markov networks are made thin, not a {model.kind}; convert it first")
    if not max_cells > 0:
        raise ModelError(f"max_cells must be more than 0, not {max_cells}")
    rows = None if table is None else as_table(table, model.domain)
    whole = model.to_features()
    features, cards = whole.features, model.domain.cards
    if len(cards) > MAX_VARIABLES:
        raise ModelError(f"networks of more than {MAX_VARIABLES:,} variables are not made thin")
    scopes = (features.indptr.astype(np.int64), features.entry_var.astype(np.int64))
    if find_order(cards, *scopes, np.zeros(0, np.int64), 8.0 * max_cells).total <= max_cells:
        return model
    grown = _Grown(cards, max_cells)
    for left, right in _hard_pairs(features):
        if grown.link(left, right).any():
            raise ModelError(
                f"the hard constraints alone take tables of more than {max_cells:,.0f} cells; give more"
            )
    pairs = interactions(whole, rows)
    squares = pairs.strength**2
    count = min(len(pairs), CANDIDATES * len(cards))
    spare = (1 - least) * squares.sum() - squares[count:].sum()
    for low in range(0, count, AT_ONCE):
        some = slice(low, min(low + AT_ONCE, count))
        refused = grown.link(pairs.left[some], pairs.right[some])
        spare -= squares[some][refused].sum()
        if spare < 0 or grown.work > WORK:
            break
    near = grown.near
    together = near[pairs.left, pairs.right] | near[pairs.right, pairs.left]
    kept, whole_ones = _cut(features, near, features.tests.probability(pairs.marginals))
    strength = float(squares[together].sum() / squares.sum()) if len(pairs) else 1.0
    record = {
        "whole_features": whole_ones,
        "of": len(features),
        "cells": grown.cells,
        "strength": strength,
        "explained": _explained(features, kept, pairs.marginals) if strength >= least else strength,
    }
    provenance = {**model.provenance, "thin": record}
    return MarkovNetwork(model.domain, kept, provenance=provenance)


def _hard_pairs(features: Features) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the pairs of variables of each feature that is impossible."""
    for f in np.flatnonzero(np.isneginf(features.weights)).tolist():
        scope = features.entry_var[features.indptr[f] : features.indptr[f + 1]].astype(np.int64)
        left, right = np.triu_indices(len(scope), 1)
        if len(left):
            yield scope[left], scope[right]


def _explained(features: Features, kept: Features, marginals: list[FloatArray]) -> float:
    """Return what part of the variance of the log-potential is left, by rows of independent columns."""
    rng = np.random.default_rng(0)
    columns = [rng.choice(len(p), ROWS, p=p) for p in marginals]
    codes = np.stack(columns, axis=1).astype(code_dtype(features.tests.cards))
    before, after = features.evaluate(codes), kept.evaluate(codes)
    possible = np.isfinite(before)
    before, after = before[possible], after[possible]
    spread = before.var() if possible.any() else 0.0
    return 1 - float((before - after).var() / spread) if spread > 0 else 1.0


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
    owner, indptr = features.entry_feature, features.indptr
    step = max(1, BLOCK // (len(cliques) * max(1, int(features.lengths.max(initial=1)))))
    for low in range(0, len(features), step):
        high = min(low + step, len(features))
        part, starts = slice(indptr[low], indptr[high]), indptr[low : high + 1] - indptr[low]
        inside = cliques[:, features.entry_var[part]]
        summed = np.concatenate([np.zeros((len(cliques), 1), int), inside.cumsum(axis=1)], axis=1)
        best = (summed[:, starts[1:]] - summed[:, starts[:-1]]).argmax(axis=0)
        keep[part] = inside[best[owner[part] - low], np.arange(inside.shape[1])]
    off = features.off_values()
    factor = segment_product(np.where(keep, 1.0, off + (1 - off) * q[features.indices]), indptr)
    lost = np.bincount(owner[~keep], minlength=len(features))
    cut = Features(
        features.tests, np.concatenate([[0], np.cumsum(features.lengths - lost)]),
        features.indices[keep], features.weights * factor,
        None if features.off is None else features.off[keep],
    )  # fmt: skip
    return cut.merged(), int(np.count_nonzero(lost == 0))


class _Grown:
    """A graph that grows by pairs as long as the tables of an elimination order stay small.

    Attributes
    ----------
    cells : float
        How many cells the tables have in all.
    near : array of bool
        For each variable itself, and the others in its table when it is eliminated.
    work : int
        What looking for orders has cost, in words that were read.
    """

    def __init__(self, cards: IntArray, max_cells: float) -> None:
        self.linked = np.zeros((len(cards), len(cards)), bool)
        self.log_size, self.max_cells = np.log2(cards), max_cells
        self.work, self.least = 0, float(cards.sum())
        self.cells, self.near = self.least, np.eye(len(cards), dtype=bool)

    def link(self, left: IntArray, right: IntArray) -> BoolArray:
        """Link the pairs that fit, the first ones first; tell which do not."""
        if self.work > WORK or self.max_cells < self.least:
            return np.ones(len(left), bool)
        new = ~self.linked[left, right]
        self.linked[left, right] = self.linked[right, left] = True
        if self._fits():
            return np.zeros(len(left), bool)
        self.linked[left[new], right[new]] = self.linked[right[new], left[new]] = False
        if len(left) == 1:
            return np.ones(1, bool)
        half = len(left) // 2
        return np.concatenate(
            [self.link(left[:half], right[:half]), self.link(left[half:], right[half:])]
        )

    def _fits(self) -> bool:
        """Take the smaller tables of two elimination orders, by fill and by size, if they fit."""
        from conjoin.kernels.elimination_order import greedy_order

        n = len(self.log_size)
        room = np.zeros((n, 64 * ((n + 63) >> 6)), bool)
        room[:, :n] = self.linked
        packed = np.packbits(room, axis=1, bitorder="little").view(np.uint64)
        limit = np.log2(self.max_cells)
        tried = []
        for by_weight in (False, True):
            separators, order = packed.copy(), np.empty(n, np.int64)
            total, _, work = greedy_order(
                separators, self.log_size, by_weight, np.uint64(1), limit, order
            )
            self.work += work
            tried.append((total, separators))
        total, separators = min(tried, key=lambda found: float(found[0]))
        if total > self.max_cells:
            return False
        bits = np.unpackbits(separators.view(np.uint8), axis=1, bitorder="little")[:, :n]
        self.cells, self.near = float(total), bits.astype(bool) | np.eye(n, dtype=bool)
        return True
