"""Conjunctions as candidates for features: building, extending and counting them.

Most searches start from single states and make conjunctions longer; others start from whole rows and make
them shorter. A conjunction of single states is a partial row: a state for each column that it tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from conjoin.data import Domain
from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.row_hashing import code_numbers, group_equal, row_keys
from conjoin.data.table import Codes, Table
from conjoin.models import Features
from conjoin.models.vocabulary import mask_words, state_masks

ROWS_AT_ONCE = 1 << 13


@dataclass(frozen=True, eq=False)
class States:
    """The states that conjunctions test: all but the most frequent one of each column.

    Tests of that one would add nothing, as features form sums, and the others hold in few rows.
    """

    cards: IntArray  # the number of states of each variable of the domain
    # The variable and the code of each state.
    var: IntArray
    state: IntArray

    @classmethod
    def of(cls, domain: Domain, table: Table) -> States:
        """Return the states of the columns of a table, over a domain that may have hidden columns."""
        var, state = [], []
        for i, card in enumerate(table.domain.cards.tolist()):
            rest = np.delete(np.arange(card), int(table.counts(i).argmax()))
            var.append(np.full(len(rest), i))
            state.append(rest)
        none = np.zeros(0, np.int64)
        return cls(domain.cards, np.concatenate([none, *var]), np.concatenate([none, *state]))

    def __len__(self) -> int:
        return len(self.var)

    def features(self) -> Features:
        """Return one feature of weight 0 per state."""
        masks = state_masks(self.state, mask_words(self.cards))
        return Features.from_tests(
            self.cards, np.arange(len(self)), self.var, masks, np.zeros(len(self))
        )

    def matrix(self, codes: Codes) -> BoolArray:
        """Return which states the rows have, rows by states."""
        return codes[:, self.var] == self.state

    def extend(self, parents: Features, number: IntArray) -> Features:
        """Return each conjunction with one more test, of the state with the given number."""
        rows = np.arange(len(parents))
        feature = np.concatenate([parents.entry_feature, rows])
        var = np.concatenate([parents.entry_var, self.var[number]])
        masks = state_masks(self.state[number], mask_words(self.cards))
        mask = np.concatenate([parents.tests.mask[parents.indices], masks])
        return Features.from_tests(self.cards, feature, var, mask, np.zeros(len(parents)))


def new_conjunctions(known: Features, candidates: Features) -> IntArray:
    """Return which candidates are in `known` neither, nor among the candidates before them."""
    both = Features.concatenate([known, candidates])
    keys = row_keys(both.indptr, both.indices, code_numbers(len(both.tests)))
    first = group_equal(*keys)[2]
    return np.sort(first[first >= len(known)]) - len(known)


def scopes(features: Features) -> list[tuple[int, ...]]:
    """Return the variables that each feature tests."""
    var, indptr = features.entry_var.tolist(), features.indptr.tolist()
    return [tuple(var[low:high]) for low, high in pairwise(indptr)]


def membership(features: Features) -> BoolArray:
    """Return which variables each feature tests, features by variables."""
    inside = np.zeros((len(features), len(features.tests.cards)), bool)
    inside[features.entry_feature, features.entry_var] = True
    return inside


def row_weights(table: Table) -> FloatArray:
    """Return the weights of a table's rows, 1 by default."""
    return np.ones(len(table)) if table.weights is None else table.weights


def total_weight(table: Table) -> float:
    """Return the number of rows, weighted."""
    return float(row_weights(table).sum())


def pair_shares(parents: Features, states: States, table: Table) -> FloatArray:
    """Return the share of rows in which each conjunction and each state hold, parents by states."""
    weights = row_weights(table)
    counts = np.zeros((len(parents), len(states)))
    for low in range(0, len(table), ROWS_AT_ONCE):
        rows = slice(low, low + ROWS_AT_ONCE)
        codes = table.codes[rows]
        seen = states.matrix(codes) * weights[rows, None].astype(np.float32)
        counts += parents.truth(codes).astype(np.float32) @ seen
    return counts / weights.sum()
