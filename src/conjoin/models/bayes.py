"""Bayesian networks: CPDs over an acyclic graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes, codes_of
from conjoin.errors import ModelError
from conjoin.models.cpd import CPD, MAX_AXES, MAX_TABLE, check_sums, log_normalized
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.markov import Factor, MarkovNetwork, TableFactor
from conjoin.models.network import NetworkOfCPDs
from conjoin.models.rule_cpd import RuleCPD
from conjoin.models.table_cpd import TableCPD
from conjoin.models.tree_cpds import TreeCPD

SMALL_TABLE = 1 << 10
"""Other CPDs than tables and trees have small factors up to this number of cells."""


class BayesianNetwork(NetworkOfCPDs):
    """A joint distribution as the product of one CPD per variable given its parents.

    Parameters
    ----------
    domain : Domain
        The variables.
    cpds : iterable of CPD
        One per variable; the parents are the variables that the CPD depends on. Zeros are allowed.
    provenance : mapping, optional
        Where the network came from.

    Examples
    --------
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> bn = BayesianNetwork(domain, [
    ...     TableCPD.of(domain, "rain", [], 0.2),
    ...     TableCPD.of(domain, "wet", ["rain"], {"no": 0.1, "yes": 0.9}),
    ... ])
    >>> bn.conditional("rain", {"rain": "no", "wet": "yes"}).round(3)
    array([[0.308, 0.692]])
    """

    kind = "Bayesian network"

    def __init__(
        self, domain: Domain, cpds: Iterable[CPD], provenance: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(domain, cpds, provenance)
        for cpd in self.cpds:
            if isinstance(cpd, TableCPD | RuleCPD):
                check_sums(cpd.table, domain.names[cpd.target])
            elif isinstance(cpd, TreeCPD):
                check_sums(cpd.tree.value, domain.names[cpd.target])
        try:
            TopologicalSorter({cpd.target: cpd.blanket for cpd in self.cpds}).prepare()
        except CycleError as error:
            names = ", ".join(repr(domain.names[i]) for i in sorted(set(error.args[1]))[:6])
            raise ModelError(
                f"the parents form a cycle among {names}; a Bayesian network must be acyclic. "
                "Conditionals with cycles form a dependency network (.dn)"
            ) from None

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the names of a variable's parents."""
        return tuple(self.domain.names[p] for p in self.cpds[self.domain.index(name)].blanket)

    @cached_property
    def _children(self) -> list[list[int]]:
        """The variables that depend on each variable."""
        children: list[list[int]] = [[] for _ in self.cpds]
        for cpd in self.cpds:
            for parent in cpd.blanket:
                children[parent].append(cpd.target)
        return children

    @cached_property
    def has_small_factors(self) -> bool:
        """Whether the CPDs are tables or trees, or depend on few variables."""
        return all(
            isinstance(cpd, TableCPD | TreeCPD)
            or np.prod(cpd.cards[[*cpd.blanket, cpd.target]], dtype=float) <= SMALL_TABLE
            for cpd in self.cpds
        )

    def _log_linear_form(self) -> LogLinearForm:
        return self.to_markov_network().form

    def to_markov_network(self) -> MarkovNetwork:
        """Return the same distribution as a Markov network with one factor per CPD (so Z is 1)."""
        factors: list[Factor] = []
        for cpd in self.cpds:
            factor = cpd_as_factor(cpd)
            if factor is None:
                raise ModelError(
                    f"the {type(cpd).__name__} of variable {cpd.target} has "
                    f"{len(cpd.blanket)} parents: too many for a table; use a tree or a table CPD"
                )
            factors.append(factor)
        return MarkovNetwork(self.domain, factors=factors, provenance=self.provenance)

    def blankets(self) -> list[tuple[int, ...]]:
        """Return each variable's parents, children and the children's other parents."""
        return self.to_markov_network().blankets()

    def log_conditional(self, name: str, rows: Any) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states.

        Only the CPDs of X and its children matter.
        """
        position = self.domain.index(name)
        codes = codes_of(self.domain, rows, ignored=position).copy()
        codes[:, position] = 0
        result = self.cpds[position].log_probabilities(codes)
        for state in range(result.shape[1]):
            codes[:, position] = state
            for child in self._children[position]:
                result[:, state] += _chosen(self.cpds[child], codes)
        return log_normalized(result)

    def log_likelihood(self, rows: Any) -> FloatArray:
        """Return log P of each complete row."""
        codes = codes_of(self.domain, rows)
        total = np.zeros(len(codes))
        for cpd in self.cpds:
            total += _chosen(cpd, codes)
        return total

    def __repr__(self) -> str:
        edges = sum(len(cpd.blanket) for cpd in self.cpds)
        return f"<BayesianNetwork: {len(self.domain)} variables, {edges} edges>"


def _chosen(cpd: CPD, codes: Codes) -> FloatArray:
    """Return the log-probability of the target's own state in each row."""
    return cpd.log_probabilities(codes)[np.arange(len(codes)), codes[:, cpd.target]]


def cpd_as_factor(cpd: CPD) -> Factor | None:
    """Return log P(x_i | its blanket) as a factor, None if that would be too large a table."""
    if isinstance(cpd, TableCPD):
        return TableFactor((*cpd.parents, cpd.target), log_normalized(cpd.table))
    if isinstance(cpd, TreeCPD):
        return cpd.to_factor()
    scope = (*cpd.blanket, cpd.target)
    if np.prod(cpd.cards[list(scope)], dtype=float) > MAX_TABLE or len(scope) > MAX_AXES:
        return None

    factor = TableFactor.tabulated(scope, cpd.cards, partial(_chosen, cpd))
    if np.isnan(factor.table).any():
        raise ModelError(
            f"the {type(cpd).__name__} of variable {cpd.target} makes all its states impossible in some "
            "states of its parents; every row must be a distribution"
        )
    return factor
