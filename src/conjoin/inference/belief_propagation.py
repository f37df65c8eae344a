"""Loopy belief propagation and max-product; a message of a conjunction costs its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.inference.instances import no_dependency_network, score
from conjoin.inference.operands import Operands, gathered, sorted_out
from conjoin.inference.operands import as_markov_network as joint_of
from conjoin.inference.results import Assignment, LogValue, Marginals, Run
from conjoin.models.features import Features
from conjoin.models.markov import TableFactor, scope_tables
from conjoin.models.network import Network

MAX_SOFT_WEIGHT = 20.0
"""Beyond this the power series of a feature with off values loses its precision."""

MAX_SOFT_TABLE = 1 << 12
"""The largest table that stands for a feature with off values."""


class _Beliefs:
    """A fixed point of belief propagation, or where it was given up."""

    def __init__(
        self,
        model: Network,
        given: Mapping[str, Any] | None,
        maximise: bool,
        damping: float,
        max_updates: int,
        tolerance: float,
    ) -> None:
        from conjoin.kernels.beliefs import bethe, propagate

        no_dependency_network(model, "bp")
        self.domain, self.given = model.domain, dict(given or {})
        reduced = joint_of(model).condition(self.given)
        cards = reduced.domain.cards
        tables, features = gathered(*sorted_out(reduced))
        tables, features = _without_strong(tables, features, maximise)
        empty = features.lengths == 0
        constant = float(features.weights[empty].sum())
        constant += sum(float(t.table) for t in tables if not t.variables)
        if not constant > -np.inf:
            raise impossible(self.given)
        features = features.select(np.flatnonzero(~empty))
        operands = Operands.of(cards, [t for t in tables if t.variables], features)
        flat = (
            cards.astype(np.int64), operands.indptr, operands.var, operands.arg, operands.n_tables,
            operands.values, operands.bases, operands.weights, operands.numbers,
        )  # fmt: skip
        width = cards[operands.var]
        slot = (np.cumsum(width) - width).astype(np.int64)
        self.first = np.concatenate([[0], np.cumsum(cards)]).astype(np.int64)
        messages = np.zeros(int(width.sum()))
        sums, zeros = np.zeros(self.first[-1]), np.zeros(self.first[-1], np.int64)
        norms = np.zeros(len(operands.indptr) - 1)
        limit = max_updates * max(1, len(norms))
        updates, residual = propagate(
            flat, features.soft_rows(), maximise, damping, limit, tolerance, self.first, slot,
            messages, sums, zeros, norms,
        )  # fmt: skip
        self.values = np.where(zeros > 0, -np.inf, sums)
        barred = len(cards) and np.maximum.reduceat(self.values, self.first[:-1]).min() == -np.inf
        if barred or (residual == np.inf and updates < limit):
            raise impossible(self.given)
        self.log_z = np.nan
        if not maximise:
            self.log_z = constant + bethe(flat, self.first, slot, messages, sums, zeros, norms)
        self.free = [v for v, name in enumerate(self.domain.names) if name not in self.given]
        rest = residual < tolerance
        tree = len(operands.var) - len(norms) < len(cards) and _is_forest(operands)
        rounds = updates / max(1, len(norms))
        note = (
            f"at rest after {rounds:.1f} rounds" if rest else f"not at rest, moves {residual:.1g}"
        )
        note += ", exact on this tree" if tree and rest else ""
        name = "max_product" if maximise else "bp"
        self.run = Run(name, exact=bool(tree and rest), converged=bool(rest), note=note)

    def per_variable(self) -> list[FloatArray]:
        """Return the log-beliefs of the free variables."""
        return np.split(self.values, self.first[1:-1]) if self.free else []


def _is_forest(operands: Operands) -> bool:
    """Whether the graph of variables and operands has no cycle."""
    parent = list(range(len(operands.cards) + len(operands.indptr) - 1))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    owner = np.repeat(np.arange(len(operands.indptr) - 1), np.diff(operands.indptr))
    for o, v in zip(owner.tolist(), operands.var.tolist(), strict=True):
        a, b = root(v), root(len(operands.cards) + o)
        if a == b:
            return False
        parent[a] = b
    return True


def _without_strong(
    tables: list[TableFactor], features: Features, maximise: bool
) -> tuple[list[TableFactor], Features]:
    """Write features with off values that messages cannot be worked out for as tables."""
    chosen = features.soft_rows()
    if not maximise:
        chosen &= np.abs(features.weights) > MAX_SOFT_WEIGHT
    if not chosen.any():
        return tables, features
    which = np.flatnonzero(chosen)
    scopes = []
    for f in which.tolist():
        var = features.entry_var[features.indptr[f] : features.indptr[f + 1]]
        if np.prod(features.tests.cards[var], dtype=float) > MAX_SOFT_TABLE:
            raise ModelError(
                f"belief propagation cannot use a feature of {len(var)} tests with off values and "
                f"weight {features.weights[f]:.3g}; convert with a larger max_length, or use "
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

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    given : mapping, optional
        The evidence.
    targets : sequence of str, optional
        The variables that are asked for; by default all.
    damping : float
        How much of the old message a new one keeps, 0 to 1.
    max_updates : int
        When to give up, in updates a factor.
    tolerance : float
        Messages rest when none would change by more than this.
    """
    beliefs = _Beliefs(model, given, False, damping, max_updates, tolerance)
    domain = model.domain
    arrays: list[FloatArray] = [np.zeros(card) for card in domain.cards.tolist()]
    for name, state in beliefs.given.items():
        arrays[domain.index(name)][domain[name].index(state)] = 1.0
    for v, log_belief in zip(beliefs.free, beliefs.per_variable(), strict=True):
        p = np.exp(log_belief - log_belief.max())
        arrays[v] = p / p.sum()
    return Marginals(domain, arrays, beliefs.run, None if targets is None else tuple(targets))


def log_partition(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    damping: float = 0.1,
    max_updates: int = 1000,
    tolerance: float = 1e-8,
) -> LogValue:
    """Return the Bethe estimate of log Z; parameters are those of `marginals`."""
    beliefs = _Beliefs(model, given, False, damping, max_updates, tolerance)
    return LogValue(float(beliefs.log_z), beliefs.run)


def most_probable(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    damping: float = 0.1,
    max_updates: int = 200,
    tolerance: float = 1e-8,
) -> Assignment:
    """Return the states that max-product prefers; parameters are those of `marginals`.

    The variables are decided one after the other where beliefs tie, so that the states fit together.
    """
    given = dict(given or {})
    decided: dict[str, Any] = dict(given)
    beliefs = _Beliefs(model, decided, True, damping, max_updates, tolerance)
    run = beliefs.run
    while True:
        tied: str | None = None
        for v, values in zip(beliefs.free, beliefs.per_variable(), strict=True):
            variable = model.domain.variables[v]
            order = np.sort(values)
            if len(values) > 1 and order[-1] - order[-2] < 1e-6 and tied is None:
                tied = variable.name
                decided[tied] = variable.states[int(values.argmax())]
        if tied is None:
            break
        beliefs = _Beliefs(model, decided, True, damping, max_updates, tolerance)
    for v, values in zip(beliefs.free, beliefs.per_variable(), strict=True):
        variable = model.domain.variables[v]
        decided[variable.name] = variable.states[int(values.argmax())]
    row = np.array(model.domain.encode(decided), np.int64)
    states = model.domain.decode(row)
    return Assignment(states, score(model, row), run)
