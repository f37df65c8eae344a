"""Networks and tables with their columns sorted by name.

Searches break ties by position, and random numbers are drawn column by column. Results do not depend on
the order of the columns if the columns are sorted first, and so are the features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conjoin.conversion.sub_features import sorted_tests
from conjoin.data.arrays import IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class SortedColumns:
    """The variables of a domain sorted by name, and the way back.

    Attributes
    ----------
    given : Domain
        The variables in the given order.
    order : array of int
        The given positions of the sorted variables.
    domain : Domain
        The variables, sorted.
    """

    given: Domain
    order: IntArray
    domain: Domain

    @classmethod
    def of(cls, domain: Domain) -> SortedColumns:
        """Sort the variables of a domain."""
        order = sorted(range(len(domain)), key=lambda v: domain.names[v])
        return cls(domain, np.array(order, np.int64), Domain([domain.variables[v] for v in order]))

    def network(self, model: MarkovNetwork) -> MarkovNetwork:
        """Return a network over the sorted variables, its distinct features in a fixed order."""
        features = sorted_features(reordered(model.form.features.merged(), self.order))
        return MarkovNetwork(self.domain, features, provenance=model.provenance)

    def table(self, table: Table) -> Table:
        """Return a table with its columns sorted."""
        return Table(self.domain, table.codes[:, self.order], table.weights)

    def restored(self, model: MarkovNetwork) -> MarkovNetwork:
        """Return a network over the sorted variables with the variables in the given order."""
        features = reordered(model.features, np.argsort(self.order))
        return MarkovNetwork(self.given, features, provenance=model.provenance)


def reordered(features: Features, order: IntArray) -> Features:
    """Return features after a permutation of the variables.

    Parameters
    ----------
    features : Features
        The features.
    order : array of int
        The old position of the variable at each new position.

    Examples
    --------
    >>> domain = Domain({"a": [0, 1], "b": [0, 1, 2]})
    >>> features = Features.from_terms(domain, [(1.0, {"a": 1, "b": 2})])
    >>> reordered(features, np.array([1, 0])).describe(Domain({"b": [0, 1, 2], "a": [0, 1]}))
    ['1  b=2 ∧ a=1']
    """
    tests = features.tests
    vocabulary, number = Vocabulary.unique(
        tests.cards[order], np.argsort(order)[tests.var], tests.mask
    )
    return sorted_tests(replace(features, tests=vocabulary, indices=number[features.indices]))


def sorted_features(features: Features) -> Features:
    """Sort features by length, then by tests, off values and weight."""
    off = features.off_values()
    order = []
    for rows, entry in features.by_length():
        keys = [*features.indices[entry].T, *off[entry].T, features.weights[rows]]
        order.append(rows[np.lexsort(keys[::-1])])
    return features.select(np.concatenate([np.zeros(0, np.int64), *order]))
