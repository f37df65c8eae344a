"""Cut points of numeric variables, for cutting several tables in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import is_number
from conjoin.data.table import Table
from conjoin.errors import DataError


@dataclass(frozen=True)
class Discretizer:
    """Cut points and bin labels of some numeric variables.

    Make one with `discretize`, then use it on later tables of the same columns. A table's domain keeps
    the cut points, and so does a model that is learned from it: `Discretizer.of(model.domain)`.

    Parameters
    ----------
    cuts : mapping of str to sequence of float
        For each variable, ascending numbers, one more than it has bins. Bin k holds the values
        from `cuts[k]` up to but not including `cuts[k + 1]`. The first and the last number are the
        extremes of the data; values beyond them belong to the outermost bins.
    labels : mapping of str to sequence of str
        For each variable, the labels of its bins, all different.

    Examples
    --------
    >>> ages = Discretizer({"age": [17, 30, 40, 90]}, {"age": ["17-29", "30-39", "40-90"]})
    >>> table = Table(Domain({"age": [12, 30, 39, 40]}), [[0], [1], [2], [3], [-1]])
    >>> binned = ages.apply(table)
    >>> binned.domain
    Domain({'age': ['17-29', '30-39', '40-90']})
    >>> binned.codes.ravel().tolist()
    [0, 1, 1, 2, 255]
    """

    cuts: Mapping[str, tuple[float, ...]]
    labels: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        if set(self.cuts) != set(self.labels):
            odd = sorted(set(self.cuts) ^ set(self.labels), key=str)[0]
            raise DataError(f"column {odd!r} needs both cut points and labels")
        cuts = {name: tuple(float(c) for c in given) for name, given in self.cuts.items()}
        labels = {name: tuple(self.labels[name]) for name in cuts}
        for name in cuts:
            Variable(name, labels[name], cuts[name])  # raises an error if they do not fit
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "labels", labels)

    def apply(self, table: Table) -> Table:
        """Return a table with the bins as the states of these variables."""
        table = table.as_states([name for name in table.domain.numeric if name in self.labels])
        codes, variables = table.signed_codes(), list(table.domain)
        for name, labels in self.labels.items():
            position = table.domain.index(name)
            if variables[position].states != labels:
                bins = Variable(name, labels, self.cuts[name])
                places = [self._place(bins, state) for state in variables[position].states]
                codes[:, position] = np.array([*places, -1])[codes[:, position]]
                variables[position] = bins
        domain = Domain(variables)
        if domain == table.domain:
            return table
        return Table.adopt(domain, codes, table.weights, table.numbers)

    def _place(self, bins: Variable, state: Any) -> int:
        """Return the bin of a state."""
        if is_number(state) or state in bins.states:
            return bins.index(state)
        raise DataError(
            f"column {bins.name!r}: state {state!r} is not a number, nor one of the "
            f"bins {', '.join(map(repr, bins.states[:12]))}; correct it or mark it as missing"
        )

    @classmethod
    def of(cls, domain: Domain) -> Discretizer:
        """Return the cut points and labels of those variables of a domain whose states are bins."""
        cut = [v for v in domain if v.cuts is not None and v.numbers is None]
        return cls({v.name: v.cuts for v in cut if v.cuts}, {v.name: v.states for v in cut})
