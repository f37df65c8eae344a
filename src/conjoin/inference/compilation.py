"""A model made ready for exact inference, and the plans that are made for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.inference.operands import (
    Operands,
    as_markov_network,
    chained,
    gathered,
    long_rows,
    sorted_out,
)
from conjoin.inference.plan import Order, Plan, TooLarge, find_order, size_text
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.features import Features
from conjoin.models.markov import TableFactor
from conjoin.models.network import Network

PLANS = 256
"""How many plans of a model are kept."""

WORTH_CHAINING = 1e5
"""Below this many cells no chains are tried."""

MAX_CHAINED = 5000
"""If the long conjunctions have more tests than this in all, no chains are tried."""


@dataclass(frozen=True)
class Refused:
    """A pattern of evidence for which no order fitted.

    Attributes
    ----------
    max_memory : float
        What it may have used, in bytes.
    bytes : float
        What the best order needs at least.
    variables : int, optional
        Those of its largest table.
    """

    max_memory: float
    bytes: float
    variables: int | None


class Compiled:
    """A model made ready for exact inference.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    """

    def __init__(self, model: Network) -> None:
        mn = as_markov_network(model)
        self.domain = mn.domain
        self.parts: tuple[list[TableFactor], Features] = sorted_out(mn)
        self.parents: list[tuple[int, ...]] | None = None
        if isinstance(model, BayesianNetwork) and len(self.parts[0]) == len(self.domain):
            self.parents = [cpd.blanket for cpd in model.cpds]
        self.single = np.flatnonzero(self.domain.cards == 1)
        self.plans: OrderedDict[tuple[bytes, bytes], Plan | Refused] = OrderedDict()

    @cached_property
    def scopes(self) -> tuple[IntArray, IntArray]:
        """The scopes of all parts, before any is laid out."""
        tables, features = self.parts
        lengths = np.array([len(t.variables) for t in tables], np.int64)
        var = np.array([v for t in tables for v in t.variables], np.int64)
        indptr = np.concatenate([[0], np.cumsum(lengths), len(var) + features.indptr[1:]])
        return indptr.astype(np.int64), np.concatenate([var, features.entry_var]).astype(np.int64)

    @cached_property
    def operands(self) -> Operands:
        """The parts laid out, with features that fill tables gathered into them."""
        return Operands.of(self.domain.cards, *gathered(*self.parts))

    @cached_property
    def with_helpers(self) -> list[Operands]:
        """The parts with long conjunctions taken apart, in two ways, if there are any.

        The tests of a chain come as the variables are eliminated, or the most frequent ones first, so
        that many conjunctions (the paths of a tree) begin alike.
        """
        tables, features = gathered(*self.parts)
        long = long_rows(features)
        if not 0 < features.lengths[long].sum() <= MAX_CHAINED:
            return []
        rest = Operands.of(self.domain.cards, tables, features.select(np.flatnonzero(~long)))
        rank = find_order(rest.cards, rest.indptr, rest.var, self.single, np.inf).ranks()
        used = features.select(np.flatnonzero(long)).entry_var
        frequency = np.bincount(used, minlength=len(rank))
        by_frequency = np.empty(len(rank), np.int64)
        by_frequency[np.lexsort((rank, -frequency))] = np.arange(len(rank))
        return [chained(tables, features, r) for r in (rank, by_frequency)]

    def plan(
        self,
        given: tuple[int, ...],
        max_memory: float,
        targets: Sequence[int] | None = None,
        keep_tables: bool = True,
    ) -> Plan:
        """Return the plan for a set of variables that are given; refuse one that does not fit."""
        used, dropped = self._used(given, targets)
        key = (np.array(given, np.int64).tobytes(), b"" if used is None else used.tobytes())
        plan = self.plans.get(key)
        if plan is None or (isinstance(plan, Refused) and plan.max_memory < max_memory):
            plan = self.plans[key] = self._make(given, dropped, used, max_memory)
            if len(self.plans) > PLANS:
                self.plans.popitem(last=False)
        self.plans.move_to_end(key)
        if isinstance(plan, Refused):
            raise refusal(plan.bytes, plan.variables, max_memory)
        if plan.cells * 8 > max_memory:
            forecast = plan.forecast(keep_tables)
            if forecast.bytes > max_memory:
                raise refusal(forecast.bytes, forecast.variables, max_memory)
        return plan

    def _used(
        self, given: tuple[int, ...], targets: Sequence[int] | None
    ) -> tuple[BoolArray | None, list[int]]:
        """Leave out what a Bayesian network's answer does not depend on: barren variables."""
        if targets is None or self.parents is None:
            return None, []
        used = np.zeros(len(self.parents), np.bool_)
        stack = [*targets, *given]
        while stack:
            v = stack.pop()
            if not used[v]:
                used[v] = True
                stack.extend(self.parents[v])
        return used, np.flatnonzero(~used).tolist()

    def _make(
        self,
        given: tuple[int, ...],
        dropped: list[int],
        used: BoolArray | None,
        max_memory: float,
    ) -> Plan | Refused:
        fixed = np.array(list(dict.fromkeys([*given, *self.single.tolist(), *dropped])), np.int64)
        cards = self.domain.cards
        order = find_order(cards, *self.scopes, fixed, max_memory)
        operands = None
        for finer in self.with_helpers if order.total > WORTH_CHAINING else ():
            other = find_order(finer.cards, finer.indptr, finer.var, fixed, max_memory)
            if other.total < order.total:
                order, operands = other, finer
        if order.total == np.inf:
            return Refused(max_memory, 8 * 2.0 ** min(order.largest, 1000.0), _widest(order))
        operands = self.operands if operands is None else operands
        everything = np.ones(len(operands.indptr) - 1, np.bool_)
        return Plan(operands, order, everything if used is None else used)


def _widest(order: Order) -> int | None:
    """Return the number of variables of the largest table, if all have two states."""
    return int(order.largest) if len(order.size) and (order.size == 2).all() else None


def refusal(size: float, variables: int | None, max_memory: float) -> TooLarge:
    """Return the error for what does not fit into memory: bytes needed, variables of a table."""
    over = "" if variables is None else f", a table over {variables} variables,"
    return TooLarge(
        f"exact inference would need at least {size_text(size)}{over} and may use "
        f"{size_text(max_memory)}. Give more with max_memory, give more evidence, or ask for an "
        "approximation: method='gibbs', 'bp' or 'mean_field' for marginals, 'ais' for log Z, 'ilp' or "
        "'annealing' for the most probable instance"
    )
