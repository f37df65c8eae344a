"""Hidden states that are the leaves of a tree.

A column may be a rule of many others. A tree finds the rule; hidden states that start from random rows
hardly do. So the hidden states of one fit are the leaves of the tree of such a column. In each leaf, rows
that do not lead to it are improbable, and all others follow the thin network: this is the thin network
itself, cut into leaves. What is then learned is by how much the probabilities of the column's states
differ in each leaf. Held-out rows choose the column for which this promises to gain most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.parent_rules import parent_rules
from conjoin.data.table import Codes, Table
from conjoin.joint.hidden_tables import HiddenTables
from conjoin.learning.options import Options
from conjoin.learning.tree_path import TreePath, gain_needed
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.tree import factor_features

MAX_LEAVES = 64
"""Maximum number of leaves of a tree."""

KAPPA, OPTIONS = 0.3, Options(min_leaf=2.0, pseudo=0.1)
"""How the trees are grown: rules have exceptions, which are leaves of few rows."""

OUTSIDE = 10.0
"""The factor by which states are less probable in leaves that they do not lead to, as a logarithm."""

MIN_GAIN, ERRORS = 5e-3, 3.0
"""Leaves are tried if they promise to gain this, in nats per row, and this number of standard errors."""

PSEUDO_ROWS = 1.0
"""The number of rows by which the gain of a leaf is shrunk."""


class Leaves(NamedTuple):
    """The leaves of the tree of a column."""

    column: int
    regions: Features  # the tests that the rows of each leaf meet

    def shifts(self, tables: HiddenTables) -> FloatArray:
        """Return shifts of the weights of single features, which keep rows in the regions of leaves."""
        tests = self.regions.tests
        members = tests.members(np.arange(len(tests)))
        column, state = tables.single_states
        two = tables.network.domain.cards[column] == 2  # only one of the states has a feature here
        shifts = np.zeros((len(self.regions), len(column)))
        for leaf, test in zip(self.regions.entry_feature, self.regions.indices, strict=True):
            tested = np.flatnonzero(column == tests.var[test])
            shifts[leaf, tested] -= OUTSIDE * ~members[test, state[tested]]
            shifts[leaf, tested] += OUTSIDE * (two[tested] & ~members[test, 0])
        return shifts


class LeafTrees:
    """The trees of all columns.

    `network`: the thin network. `codes` and `weights`: distinct rows that it was learned from.
    """

    def __init__(self, network: MarkovNetwork, codes: Codes, weights: FloatArray) -> None:
        self.network, self.codes, self.weights = network, codes, weights
        table = Table.adopt(network.domain, codes, weights)
        self.path = TreePath(table, None, OPTIONS, parent_rules(table.domain, None, None))
        self.path.advance(KAPPA)

    def gains(self, held: Codes) -> FloatArray:
        """Return how much better the leaves predict each column of held-out rows, rows by columns.

        In each leaf, the probabilities of the states given the other columns are multiplied by how often
        the states occur there, compared with what the thin network expects.
        """
        gains, columns = (
            np.empty(held.shape),
            [np.ascontiguousarray(rows.T) for rows in (self.codes, held)],
        )
        for column, name in enumerate(self.network.domain.names):
            tree, threshold = self.path.trees[column], self._threshold(column, MAX_LEAVES)
            leaf, held_leaf = (tree.leaves(codes, self.path.data, threshold) for codes in columns)
            p, held_p = (self.network.conditional(name, rows) for rows in (self.codes, held))
            observed, expected = np.full((2, tree.size, tree.states), PSEUDO_ROWS)
            np.add.at(observed, (leaf, self.codes[:, column]), self.weights)
            np.add.at(expected, leaf, self.weights[:, None] * p)
            factor = (observed / expected)[held_leaf]
            own = factor[np.arange(len(held)), held[:, column]]
            gains[:, column] = np.log(own / (held_p * factor).sum(axis=1))
        return gains

    def leaves(self, column: int, most: int) -> Leaves:
        """Return the leaves of the tree of a column, at most a number of them."""
        threshold = self._threshold(column, min(most, MAX_LEAVES))
        cpd = self.path.trees[column].to_cpd(self.path.data, threshold, OPTIONS.pseudo)
        tree = replace(cpd.trees[0], value=np.zeros(cpd.trees[0].n_leaves))
        return Leaves(column, factor_features(self.network.domain.cards, [tree]))

    def _threshold(self, column: int, most: int) -> float:
        """Return the gain that splits must exceed so that there are at most a number of leaves."""
        tree = self.path.trees[column]
        gains = tree.gains[: tree.size].copy()
        for node in range(1, tree.size):  # parents come first
            gains[node] = min(gains[node], gains[tree.parent[node]])
        splits = np.sort(gains[tree.yes[: tree.size] >= 0])[::-1]
        return max([gain_needed(KAPPA), *splits[most - 1 : most].tolist()])


def rule_column(gains: FloatArray, weights: FloatArray) -> int | None:
    """Return the column that leaves gain most for, None if none gains much.

    `gains`: of each held-out row and column; `weights`: how often the rows occur.
    """
    mean = np.average(gains, axis=0, weights=weights)
    best = int(mean.argmax())
    error = np.sqrt(weights @ (gains[:, best] - mean[best]) ** 2) / weights.sum()
    return best if mean[best] > max(MIN_GAIN, ERRORS * error) else None
