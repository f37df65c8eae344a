"""A network prepared for exact inference, and the plans made for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from conjoin.data.arrays import BoolArray
from conjoin.inference.free_memory import memory_limit
from conjoin.inference.plan import Plan, TooLarge, find_order, size_text
from conjoin.inference.terms import (
    as_markov_network,
    tables_and_features,
    terms_of,
    with_dense_tables,
    with_likelihoods,
)
from conjoin.kernels.elimination_layouts import Terms
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.features import Features
from conjoin.models.markov import TableFactor
from conjoin.models.network import Network

MAX_PLANS = 256
"""Maximum number of plans kept per network."""

Key = tuple[bytes, bytes, bool]
"""Variables with evidence, variables that matter, and whether there are likelihoods."""


@dataclass(frozen=True)
class Refused:
    """A set of variables with evidence for which no order fits."""

    max_memory: float  # the memory limit, in bytes
    bytes: float  # the memory that the best order needs at least
    variables: int | None  # the number of variables of its largest table, if all have two states


class Compiled:
    """A network prepared for exact inference."""

    def __init__(self, model: Network) -> None:
        mn = as_markov_network(model)
        self.domain = mn.domain
        self.parts: tuple[list[TableFactor], Features] = tables_and_features(mn)
        self.parents: list[tuple[int, ...]] | None = None
        if isinstance(model, BayesianNetwork) and len(self.parts[0]) == len(self.domain):
            self.parents = [cpd.blanket for cpd in model.cpds]
        self.single = np.flatnonzero(self.domain.cards == 1)
        self.plans: OrderedDict[Key, Plan | Refused] = OrderedDict()

    @cached_property
    def terms(self) -> Terms:
        """The terms, with features that fill tables turned into them."""
        return terms_of(*with_dense_tables(*self.parts))

    def plan(
        self,
        given: tuple[int, ...],
        max_memory: float | None,
        targets: Sequence[int] | None = None,
        keep_tables: bool = True,
        soft: Iterable[int] = (),
    ) -> Plan:
        """Return the plan for a set of variables with evidence, if it fits into memory.

        With `soft`, variables of which a likelihood is known, it has room for one of every variable.
        """
        soft = tuple(soft)
        used, dropped = self._used((*given, *soft), targets)
        kept = b"" if used is None else used.tobytes()
        key = (np.array(given, np.int64).tobytes(), kept, bool(soft))
        plan = self.plans.get(key)
        max_memory = memory_limit(max_memory)
        if plan is None or (isinstance(plan, Refused) and plan.max_memory < max_memory):
            plan = self.plans[key] = self._make(given, dropped, used, max_memory, bool(soft))
            if len(self.plans) > MAX_PLANS:
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
        """Leave out variables of a Bayesian network that the answer does not depend on."""
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
        soft: bool,
    ) -> Plan | Refused:
        fixed = np.array(list(dict.fromkeys([*given, *self.single.tolist(), *dropped])), np.int64)
        order = find_order(self.domain.cards, self.terms.first, self.terms.var, fixed, max_memory)
        if order.total == np.inf:
            binary = len(order.size) and (order.size == 2).all()
            widest = int(order.largest) if binary else None
            return Refused(max_memory, 8 * 2.0 ** min(order.largest, 1000.0), widest)
        terms = self.terms
        if soft:
            terms = with_likelihoods(terms, self.domain.cards)
            used = None if used is None else np.concatenate([used, np.ones(len(used), np.bool_)])
        return Plan(terms, order, used)


_compiled: WeakKeyDictionary[Network, Compiled] = WeakKeyDictionary()


def compiled(model: Network) -> Compiled:
    """Return a network prepared for exact inference; it is prepared once."""
    ready = _compiled.get(model)
    if ready is None:
        ready = _compiled[model] = Compiled(model)
    return ready


def refusal(size: float, variables: int | None, max_memory: float) -> TooLarge:
    """Return the error for a plan that does not fit into memory."""
    over = "" if variables is None else f", a table over {variables} variables,"
    return TooLarge(
        f"exact inference would need at least {size_text(size)}{over} and may use "
        f"{size_text(max_memory)}. Raise the limit with max_memory, give more evidence, or use an "
        "approximation: method='gibbs' or 'bp' for marginals, 'ais' for log Z, 'annealing' for the most "
        "probable instance"
    )
