"""Dependency networks: one CPD per variable (the paper's Section 3)."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, distinct
from conjoin.data.table import codes_of
from conjoin.models.features import Features
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.network import NetworkOfCPDs
from conjoin.models.tree import cpd_features
from conjoin.models.tree_cpds import TreeBasedCPD

if TYPE_CHECKING:
    from conjoin.models.bayes import BayesianNetwork
    from conjoin.models.markov import MarkovNetwork


class DependencyNetwork(NetworkOfCPDs):
    """A conditional distribution for each variable, given others.

    Parameters
    ----------
    domain : Domain
        The variables.
    cpds : iterable of CPD
        One per variable, in any order.
    provenance : mapping, optional
        Where the network came from.

    Examples
    --------
    The consistent network of the paper's Section 4.1:

    >>> from conjoin import Domain, TableCPD
    >>> domain = Domain({"x1": ["F", "T"], "x2": ["F", "T"]})
    >>> dn = DependencyNetwork(domain, [
    ...     TableCPD.of(domain, "x1", ["x2"], {"T": 4 / 5, "F": 2 / 5}),
    ...     TableCPD.of(domain, "x2", ["x1"], {"T": 2 / 3, "F": 1 / 4}),
    ... ])
    >>> dn.blanket("x1")
    ('x2',)
    >>> dn.conditional("x2", {"x1": "F", "x2": "F"})
    array([[0.75, 0.25]])
    """

    kind = "dependency network"

    def blankets(self) -> list[tuple[int, ...]]:
        """Return the variables that each CPD depends on, by position."""
        return [cpd.blanket for cpd in self.cpds]

    def log_conditional(self, name: str, rows: Any) -> FloatArray:
        """Return log P(X = state | the rest of the row) as X's CPD states it, rows by states."""
        position = self.domain.index(name)
        codes = codes_of(self.domain, rows, ignored=position)
        return self.cpds[position].log_probabilities(codes)

    def features(self) -> tuple[Features, IntArray]:
        """Return the weighted features of all CPDs, and the target of each."""
        return self._features

    @cached_property
    def _features(self) -> tuple[Features, IntArray]:
        owners, parts = [], []
        with_trees = [cpd for cpd in self.cpds if isinstance(cpd, TreeBasedCPD)]
        if with_trees:  # the features of all trees are made together
            trees = [tree for cpd in with_trees for tree in cpd.trees]
            targets = np.array([cpd.target for cpd in with_trees for _ in cpd.trees], np.int64)
            features, owner = cpd_features(self.domain.cards, trees, targets)
            parts.append(features)
            owners.append(owner)
        for cpd in self.cpds:
            if not isinstance(cpd, TreeBasedCPD):
                parts.append(cpd.features())
                owners.append(np.full(len(parts[-1]), cpd.target, np.int64))
        if not parts:
            return Features.empty(self.domain.cards), np.zeros(0, np.int64)
        return Features.concatenate(parts), np.concatenate(owners)

    def _log_linear_form(self) -> LogLinearForm:
        return LogLinearForm.of_features(self.domain, *self._features)

    @classmethod
    def from_markov_network(cls, mn: MarkovNetwork) -> DependencyNetwork:
        """Return the exact conditionals of a Markov network: log-linear CPDs of its features."""
        features = mn.to_features().features
        cpds = []
        for i in range(len(mn.domain)):
            rows = distinct(features.entry_feature[features.entry_var == i])
            cpds.append(LogLinearCPD(i, features.select(rows)))
        return cls(mn.domain, cpds, {"conditionals_of": mn.kind})

    @classmethod
    def from_bayesian_network(cls, bn: BayesianNetwork) -> DependencyNetwork:
        """Return the exact conditionals of a Bayesian network."""
        dn = cls.from_markov_network(bn.to_markov_network())
        return cls(dn.domain, dn.cpds, {"conditionals_of": bn.kind})

    def __repr__(self) -> str:
        kinds = Counter(type(cpd).__name__ for cpd in self.cpds)
        listed = ", ".join(f"{count} {name}" for name, count in kinds.items())
        return f"<DependencyNetwork: {len(self.domain)} variables, {listed}>"
