"""Networks thin enough for exact inference: the strongest interactions that fit into small tables.

A converted network may have too many interactions for exact inference, and if columns nearly determine
each other, a sampler hardly moves. A network that keeps only the features inside the cliques of one
junction tree allows exact inference and learning by maximum likelihood.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from conjoin.conversion.interactions import pair_interactions
from conjoin.data.arrays import BoolArray, FloatArray, IntArray, distinct
from conjoin.data.frames import as_table
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, names_lack_of_memory
from conjoin.inference.plan import MAX_VARIABLES, find_order
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.models.features import Features, segment_reduce
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network, no_hidden_variables, takes_estimators

MAX_CELLS = 1 << 17
"""Default of the maximum number of cells of all tables of exact inference."""

MAX_WORK = 1 << 28
"""Default of the maximum number of 64-bit words to read in the search, which takes seconds."""

CANDIDATES_PER_VARIABLE = 8
"""Number of candidate pairs per variable; the strongest pairs are the candidates."""

PAIRS_AT_ONCE = 64
"""Number of pairs that are linked together; if they do not fit, each half is tried, and so on."""

ENTRIES_AT_ONCE = 1 << 22
"""About how many pairs of tests of a feature are compared at a time."""


@takes_estimators
@names_lack_of_memory
def thin(
    model: Network,
    table: Any = None,
    *,
    max_cells: float = MAX_CELLS,
    max_work: float = MAX_WORK,
    tree: tuple[IntArray, IntArray] | None = None,
) -> MarkovNetwork:
    """Remove features until exact inference needs only small tables.

    Pairs of variables are linked as long as an elimination order keeps within `max_cells`: first the
    pairs of hard constraints, then those of the table's maximum-likelihood tree, then all others, the
    strongest first (see `interactions`). Each feature keeps the tests that are together in one clique of
    the junction tree; its weight is multiplied by the probability of the other tests, as if they were
    independent. Hard constraints stay whole. The weights are best learned again afterwards
    (`learn_weights` with objective="likelihood"). The result does not depend on the order of the
    columns.

    Parameters
    ----------
    model : MarkovNetwork
        The network.
    table : Table, array or frame, optional
        Data for the tree, and whose marginals are the distribution under which strengths are measured.
    max_cells : float
        The approximate maximum of the number of cells of all tables of exact inference together.
    max_work : float
        The maximum number of 64-bit words to read while searching for elimination orders. Pairs that
        have not been tried by then are left out; hard constraints must all be placed within it.
    tree : pair of arrays, optional
        The pairs of columns of the table's tree, by their positions in canonical order (see
        `in_canonical_order`), if they are known already.

    Returns
    -------
    MarkovNetwork
        The network itself if it is thin enough. Otherwise its provenance records the number of features
        that lost no test, the cells of exact inference, the share of all squared strengths between
        variables that share a clique, and whether the search was complete.

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
        raise ModelError(
            f"only Markov networks can be made thin, not a {model.kind}; convert it first"
        )
    no_hidden_variables(model, "made thin")
    if len(model.domain) > MAX_VARIABLES:
        raise ModelError(f"networks of more than {MAX_VARIABLES:,} variables cannot be made thin")
    if not max_cells > 0:
        raise ModelError(f"max_cells must be more than 0, not {max_cells}")
    rows = None
    if table is not None:
        rows = as_table(table, model.domain)
        codes_of(model.domain, rows, complete=False)
    whole = model.in_canonical_order()
    if _fits_already(whole, max_cells):
        return model
    if rows is not None:
        rows = rows.reordered(whole.domain.names)
    if tree is None and rows is not None:
        tree = dependence_tree(rows)
    return _thinned(whole, rows, tree, max_cells, max_work).reordered(model.domain.names)


def _fits_already(model: MarkovNetwork, max_cells: float) -> bool:
    features = model.features
    scopes = (features.indptr.astype(np.int64), features.entry_var.astype(np.int64))
    order = find_order(model.domain.cards, *scopes, np.zeros(0, np.int64), 8.0 * max_cells)
    return bool(order.total <= max_cells)


def _thinned(
    model: MarkovNetwork,
    rows: Table | None,
    tree: tuple[IntArray, IntArray] | None,
    max_cells: float,
    max_work: float,
) -> MarkovNetwork:
    """Thin a network whose columns are in canonical order."""
    graph = ThinGraph(model.domain.cards, max_cells, max_work)
    _link_hard_constraints(model, graph)
    if tree is not None:
        graph.link(*tree)
    pairs = pair_interactions(model, rows)
    candidates = min(len(pairs), CANDIDATES_PER_VARIABLE * len(model.domain))
    for low in range(0, candidates, PAIRS_AT_ONCE):
        some = slice(low, min(low + PAIRS_AT_ONCE, candidates))
        graph.link(pairs.left[some], pairs.right[some])
    features, near = model.features, graph.near
    kept, whole = _cut(features, near, features.tests.probability(pairs.marginals))
    together = near[pairs.left, pairs.right] | near[pairs.right, pairs.left]
    squares = pairs.strength**2
    record = {
        "whole_features": whole,
        "of": len(features),
        "cells": graph.cells,
        "strength": float(squares[together].sum() / squares.sum()) if len(pairs) else 1.0,
        "search": "stopped: max_work was reached" if graph.exhausted else "complete",
    }
    return MarkovNetwork(model.domain, kept, provenance={**model.provenance, "thin": record})


def _link_hard_constraints(model: MarkovNetwork, graph: ThinGraph) -> None:
    features, hard = model.features, np.flatnonzero(model.form.hard)
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


def _cut(features: Features, near: BoolArray, q: FloatArray) -> tuple[Features, int]:
    """Keep the tests of each feature in the clique with most of them; average out the others.

    The clique of the first variable to be eliminated holds all others that the feature keeps, so only
    the cliques of the feature's own variables need to be compared.

    Returns `features`, the features, equal ones merged; `whole`, the number of features that lost
    no test.
    """
    keep = np.ones(len(features.indices), bool)
    var = features.entry_var
    for _, entries in features.by_length():
        step = max(1, ENTRIES_AT_ONCE // max(1, entries.shape[1]) ** 2)
        for low in range(0, len(entries) if entries.shape[1] > 1 else 0, step):
            entry = entries[low : low + step]
            inside = near[var[entry][:, :, None], var[entry][:, None, :]]
            best = inside.sum(axis=2).argmax(axis=1)
            keep[entry] = inside[np.arange(len(entry)), best]
    off = features.off_values()
    lost_factor = np.where(keep, 1.0, off + (1 - off) * q[features.indices])
    factor = segment_reduce(np.multiply, lost_factor, features.indptr)
    whole = len(features) - len(distinct(features.entry_feature[~keep]))
    scaled = features.without_entries(~keep)
    return scaled.reweighted(features.weights * factor).merged(), whole


class ThinGraph:
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

    def copy(self) -> ThinGraph:
        """Return a graph that can grow separately."""
        other = copy(self)
        other.linked = self.linked.copy()
        return other

    def link(self, left: IntArray, right: IntArray) -> BoolArray:
        """Link the pairs that fit, earlier ones first, and return which do not."""
        if not len(left):
            return np.zeros(0, bool)
        if self.exhausted or self.max_cells < self.smallest:
            return np.ones(len(left), bool)
        if self.link_all(left, right):
            return np.zeros(len(left), bool)
        if len(left) == 1:
            return np.ones(1, bool)
        half = len(left) // 2
        return np.concatenate(
            [self.link(left[:half], right[:half]), self.link(left[half:], right[half:])]
        )

    def link_all(self, left: IntArray, right: IntArray) -> bool:
        """Link all of some pairs if they fit together, and return whether they do."""
        new = ~self.linked[left, right]
        if not new.any():
            return True
        if self.exhausted or self.max_cells < self.smallest:
            return False
        self.linked[left, right] = self.linked[right, left] = True
        if self._fits():
            return True
        self.linked[left[new], right[new]] = self.linked[right[new], left[new]] = False
        return False

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
