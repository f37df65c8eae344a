"""Loopy belief propagation; the cost of a conjunction is linear in its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.inference.results import LogValue, Marginals, Run, of_all_variables
from conjoin.inference.terms import (
    as_markov_network,
    tables_and_features,
    terms_of,
    with_dense_tables,
)
from conjoin.kernels.belief_messages import Beliefs, bethe, propagate
from conjoin.kernels.elimination_layouts import Terms
from conjoin.kernels.layouts import packed
from conjoin.models.feature_tables import scope_tables
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.network import Network

MAX_SOFT_TABLE = 1 << 12
"""Maximum size of a table that replaces a feature with off values."""


class _FixedPoint:
    """A fixed point of belief propagation, or the state in which it was given up."""

    def __init__(
        self,
        model: Network,
        given: Mapping[str, Any] | None,
        damping: float,
        max_updates: int,
        tolerance: float,
    ) -> None:
        self.domain, self.given = model.domain, dict(given or {})
        reduced = as_markov_network(model).condition(self.given)
        cards = packed(reduced.domain.cards, np.int64)
        terms, constant = _terms(reduced)
        if not constant > -np.inf:
            raise impossible(self.given)
        beliefs, n_terms = _no_messages(terms, cards), len(terms.first) - 1
        self.first = beliefs.first
        limit = max_updates * max(1, n_terms)
        updates, residual = propagate(terms, damping, limit, tolerance, beliefs)
        self.values = np.where(beliefs.zeros > 0, -np.inf, beliefs.sums)
        barred = len(cards) and np.maximum.reduceat(self.values, self.first[:-1]).min() == -np.inf
        if barred or (residual == np.inf and updates < limit):
            raise impossible(self.given)
        self.log_z = constant + bethe(terms, beliefs)
        known = self.domain.encode_partial(self.given)
        self.free = [v for v in range(len(self.domain)) if v not in known]
        converged = bool(residual < tolerance)
        exact = converged and _is_forest(terms, len(cards))
        rounds = updates / max(1, n_terms)
        note = f"converged after {rounds:.1f} rounds"
        if not converged:
            note = f"not converged, messages still change by {residual:.1g}"
        note += ", exact on this tree" if exact else ""
        self.run = Run("bp", exact=exact, converged=converged, note=note)

    def per_variable(self) -> list[FloatArray]:
        """Return the log-beliefs of the free variables."""
        return np.split(self.values, self.first[1:-1]) if self.free else []


def _terms(mn: MarkovNetwork) -> tuple[Terms, float]:
    """Return the terms of a network, and the constant term."""
    tables, features = with_dense_tables(*tables_and_features(mn))
    tables, features = _without_soft(tables, features)
    empty = features.lengths == 0
    constant = float(features.weights[empty].sum())
    constant += sum(float(t.table) for t in tables if not t.variables)
    features = features.select(np.flatnonzero(~empty))
    terms = terms_of([t for t in tables if t.variables], features)
    return terms, constant


def _no_messages(terms: Terms, cards: IntArray) -> Beliefs:
    """Return the state before any message is sent."""
    first = np.concatenate([[0], np.cumsum(cards)]).astype(np.int64)
    width = cards[terms.var]
    owner = np.repeat(np.arange(len(terms.first) - 1), np.diff(terms.first))
    by_variable = np.argsort(terms.var, kind="stable")
    return Beliefs(
        cards=cards,
        first=first,
        term_first=np.searchsorted(terms.var[by_variable], np.arange(len(cards) + 1)),
        term=owner[by_variable],
        slot=(np.cumsum(width) - width).astype(np.int64),
        messages=np.zeros(int(width.sum())),
        sums=np.zeros(first[-1]),
        zeros=np.zeros(first[-1], np.int64),
        norms=np.zeros(len(terms.first) - 1),
    )


def _is_forest(terms: Terms, n: int) -> bool:
    """Whether the graph of n variables and the terms has no cycle: fewer edges than nodes by a tree."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    owner = np.repeat(np.arange(len(terms.first) - 1), np.diff(terms.first))
    size = n + len(terms.first) - 1
    edges = coo_array((np.ones(len(owner)), (terms.var, n + owner)), shape=(size, size))
    return len(owner) == size - connected_components(edges, directed=False)[0]


def _without_soft(
    tables: list[TableFactor], features: Features
) -> tuple[list[TableFactor], Features]:
    """Replace features with off values, whose messages have no closed form, by tables."""
    chosen = features.soft_rows()
    if not chosen.any():
        return tables, features
    which = np.flatnonzero(chosen)
    scopes = []
    for f in which.tolist():
        var = features.entry_var[features.indptr[f] : features.indptr[f + 1]]
        if np.prod(features.tests.cards[var], dtype=float) > MAX_SOFT_TABLE:
            raise ModelError(
                f"belief propagation cannot use a feature of {len(var)} tests with off values; "
                "convert with a larger max_length, or use method='gibbs' or 'ais'"
            )
        scopes.append(tuple(var.tolist()))
    new = scope_tables(features, scopes, [np.array([f]) for f in which])
    return tables + new, features.select(np.flatnonzero(~chosen))


def marginals(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] | None = None,
    damping: float = 0.1,
    max_updates: int = 1000,
    tolerance: float = 1e-8,
) -> Marginals:
    """Return the beliefs of all variables; they are exact if the graph has no loops.

    `damping`: the fraction of the old message that a new one keeps, 0 to 1. `tolerance`: messages
    have converged if none would change by more than this.
    """
    beliefs = _FixedPoint(model, given, damping, max_updates, tolerance)
    domain = model.domain
    p = [np.exp(log_belief - log_belief.max()) for log_belief in beliefs.per_variable()]
    free = {v: belief / belief.sum() for v, belief in zip(beliefs.free, p, strict=True)}
    arrays = of_all_variables(domain, free, domain.encode_partial(beliefs.given))
    return Marginals(domain, arrays, beliefs.run, targets)


def log_partition(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    damping: float = 0.1,
    max_updates: int = 1000,
    tolerance: float = 1e-8,
) -> LogValue:
    """Return the Bethe estimate of log Z; the parameters are as for `marginals`."""
    beliefs = _FixedPoint(model, given, damping, max_updates, tolerance)
    return LogValue(float(beliefs.log_z), beliefs.run, given=beliefs.given)
