"""A Markov network as operands: tables read through strides, and features as they are.

A conjunction stays a list of tests: it is added to the few cells of a clique's table on which it
holds. Features that fill most of a table over their scope are gathered into that table, which is never
larger than a few times their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor, scope_tables
from conjoin.models.tree import factor_features

DENSE = 4
"""How many cells a feature or leaf a table may have that stands for features or a tree."""

SMALL_TABLE = 256
"""A tree is always written as a table up to this size."""

CHAINED = 4
"""Conjunctions of at least as many tests can be taken apart into chains."""


@dataclass(frozen=True, eq=False)
class Operands:
    """The log-values that a network adds up, in flat arrays.

    Attributes
    ----------
    cards : array of int
        The states of each variable; helper variables come after those of the model.
    indptr, var, arg : arrays of int
        The scope of each operand, tables first. For each entry its stride in `values`, or where the
        numbers of its test start in `numbers`.
    n_tables : int
        How many of the operands are tables.
    values, bases : arrays
        The log-values of all tables, and where each starts.
    weights : array of float
        The weight of each feature.
    numbers : array of float
        For each test one number a state: 1 where it holds, else its off value.
    """

    cards: IntArray
    indptr: IntArray
    var: IntArray
    arg: IntArray
    n_tables: int
    values: FloatArray
    bases: IntArray
    weights: FloatArray
    numbers: FloatArray

    @classmethod
    def of(cls, cards: IntArray, tables: Iterable[TableFactor], features: Features) -> Operands:
        """Lay out tables and features."""
        var: list[int] = []
        stride: list[int] = []
        ends = [0]
        flat: list[FloatArray] = []
        for table in tables:
            values = np.ascontiguousarray(table.table).reshape(table.table.shape)
            var += table.variables
            stride += [s // 8 for s in values.strides]
            ends.append(len(var))
            flat.append(values.ravel())
        bases = np.cumsum([0] + [len(f) for f in flat])[:-1]
        values = np.concatenate(flat) if flat else np.zeros(0)
        # A parents' state that cannot arise has no distribution; it counts as impossible.
        values = np.where(np.isnan(values), -np.inf, values)
        numbers, entry = _test_numbers(features)
        return cls(
            cards,
            np.concatenate([np.array(ends), len(var) + features.indptr[1:]]).astype(np.int64),
            np.concatenate([np.array(var, np.int64), features.entry_var]).astype(np.int64),
            np.concatenate([np.array(stride, np.int64), entry]),
            len(flat),
            values,
            bases.astype(np.int64),
            features.weights.astype(np.float64),
            numbers,
        )


def _test_numbers(features: Features) -> tuple[FloatArray, IntArray]:
    """Return one number a state for every test, and where those of each entry start."""
    cards = features.tests.cards
    pair = np.stack([features.indices.astype(np.float64), features.off_values()])
    distinct, which = np.unique(pair, axis=1, return_inverse=True)
    test = distinct[0].astype(np.int64)
    inside = features.tests.members(test)
    numbers = np.where(inside, 1.0, distinct[1][:, None])
    width = cards[features.tests.var[test]] if len(test) else np.zeros(0, np.int64)
    keep = np.arange(inside.shape[1]) < width[:, None]
    starts = np.cumsum(width) - width
    return numbers[keep], starts[which.ravel()].astype(np.int64)


def sorted_out(mn: MarkovNetwork) -> tuple[list[TableFactor], Features]:
    """Return the network as tables and features; a small tree is a table, another its paths."""
    cards = mn.domain.cards
    tables, trees = [], []
    for factor in mn.factors:
        if isinstance(factor, TableFactor):
            tables.append(factor)
            continue
        cells = np.prod(cards[list(factor.variables)], dtype=float)
        if cells <= max(SMALL_TABLE, DENSE * factor.splits.n_leaves):
            tables.append(TableFactor.tabulated(factor.variables, cards, factor.evaluate))
        else:
            trees.append(factor)
    features = mn.features
    if trees:
        paths = factor_features(cards, [tree.splits for tree in trees])
        features = Features.concatenate([features, paths])
    return tables, features


def gathered(tables: list[TableFactor], features: Features) -> tuple[list[TableFactor], Features]:
    """Make tables of the features that fill a good part of one."""
    cards = features.tests.cards
    scopes: dict[bytes, list[int]] = {}
    var, indptr = features.entry_var, features.indptr.tolist()
    flat, width = var.tobytes(), var.itemsize
    for f in range(len(features)):
        key = flat[indptr[f] * width : indptr[f + 1] * width]
        scopes.setdefault(key, []).append(f)
    chosen, rows = [], []
    for key, which in scopes.items():
        scope = np.frombuffer(key, var.dtype)
        if len(scope) < 40 and np.prod(cards[scope], dtype=float) <= DENSE * len(which):
            chosen.append(tuple(scope.tolist()))
            rows.append(np.array(which))
    if not chosen:
        return tables, features
    gone = np.zeros(len(features), bool)
    gone[np.concatenate(rows)] = True
    tables = tables + scope_tables(features, chosen, rows)
    return tables, features.select(np.flatnonzero(~gone))


def chained(tables: list[TableFactor], features: Features, rank: IntArray) -> Operands:
    """Take long conjunctions apart, with helper variables, so that no clique holds one whole.

    The conjunction t1 ∧ t2 ∧ ... becomes a chain: a helper is t1 ∧ t2, the next is that and t3, and so
    on, each a table over three variables; the weight goes to the last two. Conjunctions that begin
    alike share their helpers.

    Parameters
    ----------
    tables, features
        The network; features with off values stay as they are.
    rank : array of int
        The order in which the tests of a chain follow one another, by variable.
    """
    long = long_rows(features)
    cards = features.tests.cards.tolist()
    result = list(tables)
    members = features.tests.members()
    helpers: dict[tuple[int, ...], int] = {}
    yes = np.array([False, True])
    for f in np.flatnonzero(long).tolist():
        tests = features.indices[features.indptr[f] : features.indptr[f + 1]]
        tests = tests[np.argsort(rank[features.tests.var[tests]], kind="stable")]
        scope = features.tests.var[tests].tolist()
        holds = [members[t, : cards[v]] for t, v in zip(tests, scope, strict=True)]
        before, truth = scope[0], holds[0]
        begun = tuple(tests[:1].tolist())
        for test, v, hold in zip(tests[1:-1].tolist(), scope[1:-1], holds[1:-1], strict=True):
            begun = (*begun, test)
            if begun not in helpers:
                same = (truth[:, None] & hold)[:, :, None] == yes
                scope_of = (before, v, len(cards))
                result.append(TableFactor(scope_of, np.where(same, 0.0, -np.inf)))
                helpers[begun] = len(cards)
                cards.append(2)
            before, truth = helpers[begun], yes
        joint = truth[:, None] & holds[-1]
        result.append(TableFactor((before, scope[-1]), np.where(joint, features.weights[f], 0.0)))
    short = features.select(np.flatnonzero(~long))
    return Operands.of(np.array(cards, np.int64), result, short)


def long_rows(features: Features) -> BoolArray:
    """Return which features can be taken apart into chains."""
    return (features.lengths >= CHAINED) & ~features.soft_rows()


def as_markov_network(model: object) -> MarkovNetwork:
    """Return the joint distribution that a model states."""
    from conjoin.errors import ModelError
    from conjoin.models.bayes import BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork

    if isinstance(model, MarkovNetwork):
        return model
    if isinstance(model, BayesianNetwork):
        return model.to_markov_network()
    if isinstance(model, DependencyNetwork):
        raise ModelError(
            "a dependency network states conditionals, not one joint distribution; `convert` it "
            "first, or ask it with method='mean_field', 'gibbs', 'icm' or 'viterbi'"
        )
    raise ModelError(f"a model is needed, not {type(model).__name__}")
