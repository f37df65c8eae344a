"""A network as the terms that exact inference and belief propagation add up.

A conjunction stays a list of tests: it is added to the few cells of a clique's table on which it holds.
Features that fill most of a table over their scope become that table, which is never larger than a few
times their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.kernels.elimination_layouts import Terms
from conjoin.kernels.layouts import packed
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.feature_tables import literals, scope_tables
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.tree import factor_features

CELLS_PER_FEATURE = 4
"""Features (or the leaves of a tree) become a table of at most this number of cells for each."""

SMALL_TABLE = 256
"""Trees over at most this number of joint states always become tables."""

MAX_TABLE_AXES = 40
"""Tables made of features have fewer axes than this."""


def terms_of(tables: Iterable[TableFactor], features: Features) -> Terms:
    """Lay out tables and features for kernels."""
    var: list[int] = []
    stride: list[int] = []
    ends, bases = [0], [0]
    flat: list[FloatArray] = []
    for table in tables:
        var += table.variables
        shape = table.table.shape
        stride += [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        ends.append(len(var))
        bases.append(bases[-1] + table.table.size)
        flat.append(table.table.ravel())
    values = np.concatenate(flat) if flat else np.zeros(0)
    numbers, starts, entry = literals(features)
    return Terms(
        first=packed(np.concatenate([np.array(ends), len(var) + features.indptr[1:]]), np.int64),
        var=packed(np.concatenate([np.array(var, np.int64), features.entry_var]), np.int64),
        arg=packed(np.concatenate([np.array(stride, np.int64), starts[entry]]), np.int64),
        bases=packed(bases[:-1], np.int64),
        values=packed(values, np.float64),
        weights=packed(features.weights, np.float64),
        numbers=packed(numbers, np.float64),
    )


def with_likelihoods(terms: Terms, cards: IntArray) -> Terms:
    """Add a table of zeros for each of the first variables: room for the log-likelihood of its states.

    The new tables are the last ones, and their values are the last `cards.sum()` values.
    """
    n, last = len(cards), len(terms.bases)
    at = int(terms.first[last])  # where the features start
    return terms._replace(
        first=packed(
            np.concatenate(
                [
                    terms.first[:last],
                    at + np.arange(n + 1),
                    n + terms.first[last + 1 :],
                ]
            ),
            np.int64,
        ),
        var=packed(np.insert(terms.var, at, np.arange(n)), np.int64),
        arg=packed(np.insert(terms.arg, at, np.ones(n, np.int64)), np.int64),
        bases=packed(
            np.concatenate([terms.bases, len(terms.values) + np.cumsum(cards) - cards]), np.int64
        ),
        values=packed(np.concatenate([terms.values, np.zeros(int(cards.sum()))]), np.float64),
    )


def tables_and_features(mn: MarkovNetwork) -> tuple[list[TableFactor], Features]:
    """Return the network as tables and features; small trees become tables, others their paths."""
    cards = mn.domain.cards
    tables, trees = [], []
    for factor in mn.factors:
        if isinstance(factor, TableFactor):
            tables.append(factor)
            continue
        cells = np.prod(cards[list(factor.variables)], dtype=float)
        if cells <= max(SMALL_TABLE, CELLS_PER_FEATURE * factor.n_leaves):
            tables.append(TableFactor.tabulated(factor.variables, cards, factor.evaluate))
        else:
            trees.append(factor)
    features = mn.features
    if trees:
        paths = factor_features(cards, trees)
        features = Features.concatenate([features, paths])
    return tables, features


def with_dense_tables(
    tables: list[TableFactor], features: Features
) -> tuple[list[TableFactor], Features]:
    """Turn features that fill a good part of a table over their scope into that table."""
    cards = features.tests.cards
    dense = {
        scope: rows
        for scope, rows in features.by_scope().items()
        if len(scope) < MAX_TABLE_AXES
        and np.prod(cards[list(scope)], dtype=float) <= CELLS_PER_FEATURE * len(rows)
    }
    if not dense:
        return tables, features
    gone = np.zeros(len(features), bool)
    gone[np.concatenate(list(dense.values()))] = True
    tables = tables + scope_tables(features, list(dense), list(dense.values()))
    return tables, features.select(np.flatnonzero(~gone))


def as_markov_network(model: object) -> MarkovNetwork:
    """Return the joint distribution that a network specifies."""
    if isinstance(model, MarkovNetwork):
        return model
    if isinstance(model, BayesianNetwork):
        return model.to_markov_network()
    if isinstance(model, DependencyNetwork):
        raise ModelError(
            "a dependency network specifies conditionals, not one joint distribution; `convert` it "
            "first, or sample its marginals with method='gibbs'"
        )
    raise ModelError(f"expected a model, not {type(model).__name__}")
