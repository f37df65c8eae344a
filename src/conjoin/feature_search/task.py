"""The task of a feature search: the network to start from, and distinct complete rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.bayesian.dependence_tree import tree_network
from conjoin.data.frames import as_table
from conjoin.data.holdout import hold_out
from conjoin.data.row_hashing import in_content_order, merge_rows
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError
from conjoin.feature_search.conjunctions import States
from conjoin.inference.completion import completed
from conjoin.models.markov import MarkovNetwork


@dataclass(frozen=True, eq=False)
class FeatureTask:
    """What a feature search works on; columns and rows are in a fixed order.

    Attributes
    ----------
    start : MarkovNetwork
        The network to start from; by default all columns are independent.
    given : bool
        Whether it was given, rather than estimated from the rows.
    train, held : Table
        Rows to learn from and to choose by: complete, distinct, with weights.
    everything : Table, optional
        All rows, to learn the final weights from; None if the rows to choose by are a table of their own.
    rng : Generator
        The random numbers.
    n_jobs : int, optional
        Number of parts of the rows that are evaluated at the same time.
    """

    start: MarkovNetwork
    given: bool
    train: Table
    held: Table
    everything: Table | None
    rng: np.random.Generator
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        rows: Table,
        valid: Any,
        holdout: float,
        start: MarkovNetwork | None,
        rng: np.random.Generator,
        n_jobs: int | None,
    ) -> FeatureTask:
        """Prepare the rows of a table; if there are no others to choose by, some are held out."""
        if start is not None:
            codes_of(start.domain, rows, complete=False)
        names = rows.domain.sorted_names()
        rows = in_content_order(rows.reordered(names))
        if not len(rows.domain):
            raise ModelError("the table has no columns")
        other = None
        if valid is not None:
            other = in_content_order(as_table(valid, rows.domain).reordered(names))
            codes_of(rows.domain, other, complete=False)
        if not len(rows) or (other is not None and not len(other)):
            raise ModelError("the table has no rows to learn from, or none to choose by")
        source = tree_network(rows) if start is None else start.in_canonical_order()
        seed = int(rng.integers(2**31))
        full = _distinct(completed(source, rows, seed))
        if other is None:
            train, held = hold_out(full, holdout, rng)
            if not len(train):
                raise ModelError("the table has too few rows to hold some out; give `valid`")
            everything: Table | None = full
        else:
            train, held, everything = full, _distinct(completed(source, other, seed)), None
        network = independent_network(train) if start is None else source
        return cls(network, start is not None, train, held, everything, rng, n_jobs)


def independent_network(table: Table) -> MarkovNetwork:
    """Return the network in which all columns are independent, with a weight for each rarer state.

    Examples
    --------
    >>> from conjoin import Domain
    >>> rows = Table(Domain({"a": [0, 1]}), np.array([[0], [0], [0], [1]]))
    >>> independent_network(rows).conditional("a", {"a": 0}).round(2).tolist()
    [[0.7, 0.3]]
    """
    states, marginals = States.of(table.domain, table), table.marginals()
    pairs = zip(states.var.tolist(), states.state.tolist(), strict=True)
    weights = [float(np.log(marginals[v][s] / marginals[v].max())) for v, s in pairs]
    return MarkovNetwork(table.domain, states.features().reweighted(np.array(weights)))


def _distinct(table: Table) -> Table:
    """Return the distinct rows with their weights, sorted."""
    codes, weights = merge_rows(table.codes, table.weights)
    order = np.lexsort(codes.T[::-1])
    return Table.adopt(table.domain, np.ascontiguousarray(codes[order]), weights[order])
