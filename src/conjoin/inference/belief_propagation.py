"""Loopy belief propagation and max-product; the cost of a conjunction is linear in its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.inference.instances import no_dependency_network, score
from conjoin.inference.results import Assignment, LogValue, Marginals, Run
from conjoin.inference.terms import as_markov_network, tables_and_features, with_dense_tables
from conjoin.models.feature_tables import scope_tables
from conjoin.models.features import Features
from conjoin.models.hidden_states import log_sum
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.network import Network

SHARE = 0.5
"""Each step updates about this share of the terms, drawn at random: all at once, they would oscillate."""

MAX_SOFT_TABLE = 1 << 12
"""Maximum size of a table that replaces a feature with off values."""


class _Graph:
    """The terms of a network and their entries, one per variable of a term: tables, then conjunctions.

    Messages and beliefs are log-values, entries or variables by states; -inf beyond a variable's states.
    """

    def __init__(self, mn: MarkovNetwork) -> None:
        tables, features = _without_soft(*with_dense_tables(*tables_and_features(mn)))
        empty = features.lengths == 0
        self.constant = float(features.weights[empty].sum())
        self.constant += sum(float(t.table) for t in tables if not t.variables)
        self.features = features.select(np.flatnonzero(~empty))
        tables = [t for t in tables if t.variables]
        by_shape: dict[tuple[int, ...], list[TableFactor]] = {}
        for table in tables:
            by_shape.setdefault(table.table.shape, []).append(table)
        # Of the tables of each shape: their entries, tables by axes, and their values
        self.tables: list[tuple[IntArray, FloatArray]] = []
        var: list[int] = []
        lengths: list[int] = []
        for shape, alike in by_shape.items():
            entries = len(var) + np.arange(len(alike) * len(shape)).reshape(-1, len(shape))
            self.tables.append((entries, np.stack([t.table for t in alike])))
            var += [v for t in alike for v in t.variables]
            lengths += [len(shape)] * len(alike)
        self.n_table_entries = len(var)
        self.var = np.concatenate([np.array(var, np.int64), self.features.entry_var])
        lengths += self.features.lengths.tolist()
        self.term, self.n_terms = np.repeat(np.arange(len(lengths)), lengths), len(lengths)
        cards = mn.domain.cards
        self.inside: BoolArray = np.arange(int(cards.max(initial=1))) < cards[:, None]
        tests = self.features.tests
        self.holds = tests.members(card=self.inside.shape[1])[self.features.indices]

    def is_forest(self) -> bool:
        """Whether variables and terms form no cycle: there are fewer edges than nodes by a tree."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        n = len(self.inside)
        ends = (self.var, n + self.term)
        edges = coo_array((np.ones(len(self.var)), ends), shape=(n + self.n_terms,) * 2)
        return len(self.var) == n + self.n_terms - connected_components(edges, directed=False)[0]

    def beliefs(self, messages: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sum of each variable's messages, and for each entry the sum of all but its own."""
        finite = messages > -np.inf
        known = np.where(finite, messages, 0.0)
        sums, zeros = np.zeros(self.inside.shape), np.zeros(self.inside.shape, np.int64)
        np.add.at(sums, self.var, known)
        np.add.at(zeros, self.var, ~finite)
        others = np.where(zeros[self.var] > ~finite, -np.inf, sums[self.var] - known)
        others[~self.inside[self.var]] = -np.inf
        return np.where(self.inside & (zeros == 0), sums, -np.inf), others

    def messages(self, others: FloatArray, maximise: bool) -> tuple[FloatArray, float]:
        """Return the messages of all entries and the sum of the terms' log-norms."""
        new, norm = np.full(others.shape, -np.inf), 0.0
        for entries, values in self.tables:
            for axis, card in enumerate(values.shape[1:]):
                total = values
                for other, states in enumerate(values.shape[1:]):
                    if other != axis:
                        shape = np.ones(values.ndim, np.int64)
                        shape[[0, 1 + other]] = len(values), states
                        total = total + others[entries[:, other], :states].reshape(shape)
                lines = np.moveaxis(total, 1 + axis, 1).reshape(len(values), card, -1)
                message = lines.max(axis=2) if maximise else log_sum(lines)
                new[entries[:, axis], :card] = message
            norm += float(log_sum(message + others[entries[:, -1], : values.shape[-1]]).sum())
        if len(self.features):
            update = self._maxima if maximise else self._mixtures
            inside, norms = update(others[self.n_table_entries :])
            new[self.n_table_entries :] = np.where(self.holds, inside[:, None], 0.0)
            norm += float(norms.sum())
        new[~self.inside[self.var]] = -np.inf
        return new, norm

    def _mixtures(self, others: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the messages of conjunctions for states in which their tests hold, and log-norms."""
        weights, feature = self.features.weights, self.features.entry_feature
        p = np.minimum((np.exp(others) * self.holds).sum(axis=1), 1.0)
        rest, whole = self._sums_of_others(np.log(p))
        return _mixture(weights[feature], np.exp(rest)), _mixture(weights, np.exp(whole))

    def _maxima(self, others: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same of max-product; the best states of other variables count 0."""
        starts, feature = self.features.indptr[:-1], self.features.entry_feature
        rest, _ = self._sums_of_others(np.where(self.holds, others, -np.inf).max(axis=1))
        broken = np.where(self.holds, -np.inf, others).max(axis=1)  # the best where the test fails
        entry = np.arange(len(broken))
        most = np.maximum.reduceat(broken, starts)
        is_most = broken == most[feature]
        first = np.minimum.reduceat(np.where(is_most, entry, len(entry)), starts)[feature] == entry
        second = np.maximum.reduceat(np.where(first, -np.inf, broken), starts)
        best = np.where(first, second[feature], most[feature])
        return np.maximum(best, self.features.weights[feature] + rest), np.zeros(len(starts))

    def _sums_of_others(self, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sum over the other entries of a conjunction, and over all of them."""
        starts, feature = self.features.indptr[:-1], self.features.entry_feature
        zero = np.isneginf(logs)
        known = np.where(zero, 0.0, logs)
        sums, zeros = (np.add.reduceat(x, starts) for x in (known, zero.astype(np.int64)))
        rest = np.where(zeros[feature] > zero, -np.inf, sums[feature] - known)
        return rest, np.where(zeros > 0, -np.inf, sums)


def _mixture(weight: FloatArray, p: FloatArray) -> FloatArray:
    """Return log((1 - p) + p exp(weight))."""
    p = np.minimum(p, 1.0)
    low, high = np.minimum(weight, 0.0), np.maximum(weight, 0.0)
    return np.where(
        weight > 0, high + np.log1p((1 - p) * np.expm1(-high)), np.log1p(p * np.expm1(low))
    )


class _FixedPoint:
    """A fixed point of belief propagation, or the state in which it was given up."""

    @np.errstate(divide="ignore", invalid="ignore")
    def __init__(
        self,
        model: Network,
        given: Mapping[str, Any] | None,
        maximise: bool,
        damping: float,
        max_updates: int,
        tolerance: float,
    ) -> None:
        no_dependency_network(model, "bp")
        self.domain, self.given = model.domain, dict(given or {})
        reduced = as_markov_network(model).condition(self.given)
        graph = _Graph(reduced)
        if not graph.constant > -np.inf:
            raise impossible(self.given)
        messages = np.where(graph.inside[graph.var], 0.0, -np.inf)
        change, rounds = np.inf, 0.0
        rng = np.random.default_rng(0)
        while rounds < max_updates and not change < tolerance:
            others = self._scaled(graph.beliefs(messages)[1], maximise)
            new = self._scaled(graph.messages(others, maximise)[0], True)
            both = np.isfinite(new) & np.isfinite(messages)
            jumped = (np.isfinite(new) != np.isfinite(messages)).any()
            change = np.inf if jumped else np.abs(new[both] - messages[both]).max(initial=0.0)
            new = np.where(both, (1 - damping) * new + damping * messages, new)
            chosen = (rng.random(graph.n_terms) < SHARE)[graph.term]
            messages, rounds = np.where(chosen[:, None], new, messages), rounds + SHARE
        beliefs, others = graph.beliefs(messages)
        others = self._scaled(others, maximise)
        self._scaled(beliefs, maximise)
        self.log_z = graph.constant + log_sum(beliefs).sum() - log_sum(others + messages).sum()
        self.log_z += graph.messages(others, maximise)[1]
        known = self.domain.encode_partial(self.given)
        self.free = [v for v in range(len(self.domain)) if v not in known]
        cards = reduced.domain.cards.tolist()
        self.per_variable = [x[:card] for x, card in zip(beliefs, cards, strict=True)]
        converged = bool(change < tolerance)
        exact = converged and graph.is_forest()
        note = f"converged after {rounds:.1f} rounds"
        if not converged:
            note = f"not converged, messages still change by {change:.1g}"
        note += ", exact on this tree" if exact else ""
        name = "max_product" if maximise else "bp"
        self.run = Run(name, exact=exact, converged=converged, note=note)

    def _scaled(self, logs: FloatArray, maximise: bool) -> FloatArray:
        """Scale distributions to a maximum, or a sum, of 1; reject those without a possible state."""
        top = logs.max(axis=1) if maximise else log_sum(logs)
        if (top == -np.inf).any():
            raise impossible(self.given)
        return logs - top[:, None]


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
                "convert with a larger max_length, or use "
                "method='mean_field' or 'annealing'"
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
    beliefs = _FixedPoint(model, given, False, damping, max_updates, tolerance)
    domain = model.domain
    arrays: list[FloatArray] = [np.zeros(card) for card in domain.cards.tolist()]
    for name, state in beliefs.given.items():
        arrays[domain.index(name)][domain[name].index(state)] = 1.0
    for v, log_belief in zip(beliefs.free, beliefs.per_variable, strict=True):
        p = np.exp(log_belief - log_belief.max())
        arrays[v] = p / p.sum()
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
    beliefs = _FixedPoint(model, given, False, damping, max_updates, tolerance)
    return LogValue(float(beliefs.log_z), beliefs.run, given=beliefs.given)


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    damping: float = 0.1,
    max_updates: int = 200,
    tolerance: float = 1e-8,
) -> Assignment:
    """Return the states that max-product prefers; the parameters are as for `marginals`.

    Where beliefs tie, variables are decided one after another, so that the states fit together.
    """
    decided: dict[str, Any] = dict(given or {})
    beliefs = _FixedPoint(model, decided, True, damping, max_updates, tolerance)
    run = beliefs.run
    while True:
        best = dict(zip(beliefs.free, beliefs.per_variable, strict=True))
        ties = [v for v, x in best.items() if len(x) > 1 and np.ptp(np.sort(x)[-2:]) < 1e-6]
        for v in ties[:1] or best:
            variable = model.domain.variables[v]
            decided[variable.name] = variable.states[int(best[v].argmax())]
        if not ties:
            break
        beliefs = _FixedPoint(model, decided, True, damping, max_updates, tolerance)
    row = np.array(model.domain.encode(decided), np.int64)
    return Assignment(model.domain.decode(row), score(model, row), run)
