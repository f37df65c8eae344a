"""Networks thin enough for exact inference: the strongest interactions that fit into small tables.

A converted network may connect so many columns that its joint distribution can only be sampled, and
where columns nearly determine each other a sampler hardly moves. A network with fewer features, those
inside the cliques of one junction tree, allows exact inference and learning by maximum likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.conversion.interactions import interactions
from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.frames import as_table
from conjoin.data.table import Table, code_dtype, codes_of
from conjoin.errors import ModelError
from conjoin.inference.plan import MAX_VARIABLES, find_order
from conjoin.models.features import Features, segment_product
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network, no_hidden_variables

MAX_CELLS = 1 << 17
"""Default of the maximum number of cells of all tables of exact inference."""

MAX_WORK = 1 << 28
"""Default of the maximum number of 64-bit words to read in the search, which takes seconds."""

CANDIDATES_PER_VARIABLE = 8
"""Number of candidate pairs per variable; the strongest pairs are the candidates."""

PAIRS_AT_ONCE = 64
"""Number of pairs that are linked together; if they do not fit, each half is tried, and so on."""

COMPARED_ROWS = 1000
"""Number of random rows on which a network and its thinned version are compared."""

ENTRIES_AT_ONCE = 1 << 24
"""About how many pairs of a test and a clique are in memory at a time."""


def thin(
    model: Network,
    table: Any = None,
    *,
    max_cells: float = MAX_CELLS,
    least: float = 0.0,
    max_work: float = MAX_WORK,
) -> MarkovNetwork:
    """Remove features until exact inference needs only small tables.

    Pairs of variables are linked one after another, the strongest first (see `interactions`), as long as
    an elimination order keeps within `max_cells`. Each feature keeps the tests that are together in one
    clique of the junction tree; its weight is multiplied by the probability of the other tests, as if
    they were independent. Hard constraints stay whole. The weights are best learned again afterwards
    (`learn_weights` with objective="likelihood"). The result does not depend on the order of the
    columns.

    Parameters
    ----------
    model : MarkovNetwork
        The network.
    table : Table, array or frame, optional
        Data whose marginals are the distribution under which strengths are measured.
    max_cells : float
        The approximate maximum of the number of cells of all tables of exact inference together.
    least : float
        Stop the search as soon as less than this share of all squared strengths can be kept.
    max_work : float
        The maximum number of 64-bit words to read while searching for elimination orders. Pairs that
        have not been tried by then are left out; hard constraints must all be placed within it.

    Returns
    -------
    MarkovNetwork
        The network itself if it is thin enough. Otherwise its provenance records the number of features
        that lost no test, the share of all squared strengths between variables that share a clique, the
        share of the variance of the log-potential (under the marginals) that the thinned network
        explains, and why the search ended.

    Examples
    --------
    >>> from conjoin import Domain, Features
    >>> from conjoin.inference import forecast
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
    no_hidden_variables(model, "made thin")
    if len(model.domain) > MAX_VARIABLES:
        raise ModelError(f"networks of more than {MAX_VARIABLES:,} variables are not made thin")
    sorted_model = model.in_canonical_order()
    rows = None
    if table is not None:
        found = as_table(table, model.domain)
        codes_of(model.domain, found, complete=False)
        rows = found.reordered(sorted_model.domain.names)
    search = ThinningSearch(sorted_model, rows, max_cells, max_work)
    if search.fits:
        return model
    return search.network(least).reordered(model.domain.names)


class ThinningSearch:
    """A search for the pairs of variables to link, which can be stopped early and continued.

    Parameters
    ----------
    model : MarkovNetwork
        The network, over features only.
    rows : Table, optional
        Data whose marginals are the distribution under which strengths are measured.
    max_cells, max_work : float
        As for `thin`.

    Attributes
    ----------
    fits : bool
        Whether the network is thin enough as it is.
    """

    def __init__(
        self,
        model: MarkovNetwork,
        rows: Table | None,
        max_cells: float = MAX_CELLS,
        max_work: float = MAX_WORK,
    ) -> None:
        if not max_cells > 0:
            raise ModelError(f"max_cells must be more than 0, not {max_cells}")
        self.model = model
        features, cards = model.features, model.domain.cards
        scopes = (features.indptr.astype(np.int64), features.entry_var.astype(np.int64))
        found = find_order(cards, *scopes, np.zeros(0, np.int64), 8.0 * max_cells)
        self.fits = bool(found.total <= max_cells)
        if self.fits:
            return
        self.graph = _ThinGraph(cards, max_cells, max_work)
        self._link_hard_constraints()
        self.pairs = interactions(model, rows)
        self.squares: FloatArray = self.pairs.strength**2
        self.candidates = min(len(self.pairs), CANDIDATES_PER_VARIABLE * len(cards))
        self.tried = 0
        self.lost = float(self.squares[self.candidates :].sum())

    def network(self, least: float = 0.0) -> MarkovNetwork:
        """Search on, and return the thinned network, or the network itself if it is thin enough.

        Parameters
        ----------
        least : float
            Stop as soon as less than this share of all squared strengths can be kept.
        """
        if self.fits:
            return self.model
        self._link_pairs(least)
        pairs, near, features = self.pairs, self.graph.near, self.model.features
        together = near[pairs.left, pairs.right] | near[pairs.right, pairs.left]
        total = float(self.squares.sum())
        strength = float(self.squares[together].sum()) / total if total > 0 else 1.0
        kept, whole = _cut(features, near, features.tests.probability(pairs.marginals))
        explained = _explained(features, kept, pairs.marginals) if strength >= least else strength
        record = {
            "whole_features": whole,
            "of": len(features),
            "cells": self.graph.cells,
            "strength": strength,
            "explained": explained,
            "search": self._outcome(),
        }
        provenance = {**self.model.provenance, "thin": record}
        return MarkovNetwork(self.model.domain, kept, provenance=provenance)

    def _link_hard_constraints(self) -> None:
        features, graph = self.model.features, self.graph
        hard = np.flatnonzero(self.model.form.hard)
        for number, f in enumerate(hard.tolist()):
            scope = features.entry_var[features.indptr[f] : features.indptr[f + 1]].astype(np.int64)
            left, right = np.triu_indices(len(scope), 1)
            if not graph.link(scope[left], scope[right]).any():
                continue
            if graph.exhausted:
                raise ModelError(
                    f"the search for elimination orders ended after {number:,} of {len(hard):,} hard "
                    f"constraints, as it may read {graph.max_work:,.0f} words; give a larger max_work"
                )
            raise ModelError(
                f"the hard constraints alone need tables of more than {graph.max_cells:,.0f} cells; "
                "give a larger max_cells"
            )

    def _link_pairs(self, least: float) -> None:
        """Link candidate pairs from where the search stopped last."""
        allowed = (1 - least) * float(self.squares.sum())
        while self.tried < self.candidates and not self.graph.exhausted and self.lost <= allowed:
            some = slice(self.tried, min(self.tried + PAIRS_AT_ONCE, self.candidates))
            refused = self.graph.link(self.pairs.left[some], self.pairs.right[some])
            self.lost += float(self.squares[some][refused].sum())
            self.tried = some.stop

    def _outcome(self) -> str:
        if self.graph.exhausted:
            return "stopped: max_work was reached"
        if self.tried < self.candidates:
            return "stopped: too much would be lost"
        return "complete"


def _explained(features: Features, kept: Features, marginals: list[FloatArray]) -> float:
    """Estimate the share of the variance of the log-potential that the kept features explain.

    The variance is that over rows of independent columns.
    """
    rng = np.random.default_rng(0)
    columns = [rng.choice(len(p), COMPARED_ROWS, p=p) for p in marginals]
    codes = np.stack(columns, axis=1).astype(code_dtype(features.tests.cards))
    before, after = features.evaluate(codes), kept.evaluate(codes)
    possible = np.isfinite(before)
    before, after = before[possible], after[possible]
    spread = before.var() if possible.any() else 0.0
    return 1 - float((before - after).var() / spread) if spread > 0 else 1.0


def _cut(features: Features, cliques: BoolArray, q: FloatArray) -> tuple[Features, int]:
    """Keep the tests of each feature in the clique with most of them; average out the others.

    Returns
    -------
    features : Features
        The features, equal ones merged.
    whole : int
        The number of features that lost no test.
    """
    keep = np.zeros(len(features.indices), bool)
    owner, indptr = features.entry_feature, features.indptr
    step = max(1, ENTRIES_AT_ONCE // (len(cliques) * max(1, int(features.lengths.max(initial=1)))))
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


class _ThinGraph:
    """A graph that grows by pairs as long as the tables of an elimination order stay small.

    Attributes
    ----------
    cells : float
        The number of cells of all tables.
    near : array of bool, shape (variables, variables)
        For each variable, itself and the others in its table when it is eliminated.
    work : int
        The number of words read in the search for orders.
    """

    def __init__(self, cards: IntArray, max_cells: float, max_work: float) -> None:
        self.linked = np.zeros((len(cards), len(cards)), bool)
        self.log_size, self.max_cells, self.max_work = np.log2(cards), max_cells, max_work
        self.work, self.smallest = 0, float(cards.sum())
        self.cells, self.near = self.smallest, np.eye(len(cards), dtype=bool)

    @property
    def exhausted(self) -> bool:
        """Whether the search has reached `max_work`."""
        return self.work > self.max_work

    def link(self, left: IntArray, right: IntArray) -> BoolArray:
        """Link the pairs that fit, earlier ones first, and return which do not."""
        if not len(left):
            return np.zeros(0, bool)
        if self.exhausted or self.max_cells < self.smallest:
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
        """Keep the smaller tables of two elimination orders, by fill and by size, if they fit."""
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
