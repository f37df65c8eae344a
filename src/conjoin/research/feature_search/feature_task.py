"""The task of a feature search: the network to start from, and distinct complete rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data import as_table
from conjoin.data.holdout import hold_out
from conjoin.data.row_hashing import in_content_order, merge_rows
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError
from conjoin.inference.completion import completed
from conjoin.joint.dependence_tree import tree_network
from conjoin.models import MarkovNetwork
from conjoin.research.feature_search.conjunctions import States

HELD_OUT = 0.1
"""The share of the rows that is held out if there are no others to choose by."""


@dataclass(frozen=True, eq=False)
class FeatureTask:
    """What a feature search works on; columns and rows are in a fixed order."""

    start: MarkovNetwork  # in which all columns are independent
    train: Table  # rows to learn from: complete, distinct, with weights
    held: Table  # rows to choose by, likewise
    everything: Table | None  # all rows, for the final weights; None if `held` was given
    rng: np.random.Generator
    n_jobs: int | None  # number of parts of the rows that are evaluated at the same time

    @classmethod
    def of(
        cls, rows: Table, valid: Any, rng: np.random.Generator, n_jobs: int | None
    ) -> FeatureTask:
        """Prepare the rows of a table; if there are no others to choose by, some are held out."""
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
        source = tree_network(rows)
        seed = int(rng.integers(2**31))
        full = _distinct(completed(source, rows, seed))
        if other is None:
            train, held = hold_out(full, HELD_OUT, rng)
            if not len(train):
                raise ModelError("the table has too few rows to hold some out; give `valid`")
            everything: Table | None = full
        else:
            train, held, everything = full, _distinct(completed(source, other, seed)), None
        return cls(independent_network(train), train, held, everything, rng, n_jobs)


def independent_network(table: Table) -> MarkovNetwork:
    """Return the network in which all columns are independent, with a weight for each rarer state."""
    states, marginals = States.of(table.domain, table), table.marginals()
    pairs = zip(states.var.tolist(), states.state.tolist(), strict=True)
    weights = [float(np.log(marginals[v][s] / marginals[v].max())) for v, s in pairs]
    return MarkovNetwork(table.domain, states.features().reweighted(np.array(weights)))


def _distinct(table: Table) -> Table:
    codes, weights = merge_rows(table.codes, table.weights)
    order = np.lexsort(codes.T[::-1])
    return Table.adopt(table.domain, np.ascontiguousarray(codes[order]), weights[order])
