"""Sums of small trees as the CPDs of a table.

Every variable gets its own number of trees, the one with which the validation rows score best; the
trees are then grown once more, on all rows. A missing value of a parent is one more state while trees
are grown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.parent_rules import FORBIDDEN
from conjoin.data.table import Table
from conjoin.jobs import TaskRunner
from conjoin.learning.boosted_conditional import Boosting, CodedRows, learn_boosted_conditional
from conjoin.models.conditional_chain import BoostedConditional
from conjoin.models.cpd import CPD
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import BoostedTreesCPD

SETTINGS = Boosting(rounds=300, rate=0.1, leaves=8, patience=10)
"""Trees with few leaves: each leaf becomes features of the converted network."""


def learn_boosted_cpds(
    table: Table,
    split: tuple[Table, Table],
    min_leaf: float,
    rules: npt.NDArray[np.int8],
    runner: TaskRunner,
) -> tuple[list[CPD], dict[str, Any]]:
    """Learn one CPD per variable; return them, with the number of trees of each."""
    settings = SETTINGS._replace(least=min_leaf)
    cards = table.domain.cards
    tasks = [
        (
            table,
            split,
            target,
            np.flatnonzero((rules[:, target] != FORBIDDEN) & (cards > 1)),
            settings,
        )
        for target in range(len(cards))
    ]
    learned = runner.run(_learn_cpd, tasks, "boosted trees", [1] * len(tasks))
    return [cpd for cpd, _ in learned], {"rounds": [rounds for _, rounds in learned]}


def _learn_cpd(
    table: Table, split: tuple[Table, Table], target: int, parents: IntArray, settings: Boosting
) -> tuple[CPD, int]:
    """Return the CPD of one variable and the number of its trees."""
    train, held = (_rows_with_known_target(part, target) for part in split)
    boosted = learn_boosted_conditional(train, target, parents, held, settings)
    if split[0] is not table:
        rows, same = (
            _rows_with_known_target(table, target),
            settings._replace(rounds=boosted.rounds),
        )
        boosted = learn_boosted_conditional(rows, target, parents, None, same)
    return _as_cpd(boosted.conditional, table.domain.cards, target), boosted.rounds


def _rows_with_known_target(table: Table, target: int) -> CodedRows:
    """Return the rows that count, with "missing" as the last state of every other variable."""
    domain = Domain(
        Variable(v.name, range(len(v) + (k != target)), ordered=v.ordered)
        for k, v in enumerate(table.domain)
    )
    weights = np.ones(len(table)) if table.weights is None else table.weights
    known = (table.codes[:, target] != table.missing) & (weights > 0)
    codes = np.minimum(table.codes[known].astype(np.int64), table.domain.cards)
    return CodedRows(domain, codes, weights[known])


def _as_cpd(conditional: BoostedConditional, cards: IntArray, target: int) -> CPD:
    """Return trees over the states of the table; a split of no two of them disappears."""
    first = np.cumsum(cards + 1) - (cards + 1)
    first[target + 1 :] -= 1  # the target has no state for missing values
    column, threshold, below = conditional.nodes

    def visit(node: Any) -> object:
        while (variable := int(column[node])) >= 0:
            ranks = conditional.ranks[first[variable] : first[variable] + cards[variable]]
            children = (below[node] + (ranks > threshold[node])).tolist()
            if len(set(children)) > 1:
                return variable, children
            node = children[0]
        return conditional.values[below[node]]

    start = Tree.grow(0, lambda _: conditional.start)
    trees = [Tree.grow(int(root), visit) for root in conditional.roots]
    return BoostedTreesCPD(cards, target, [start, *trees])
