"""Probabilistic decision trees, grown greedily for conditional log-likelihood (Section 6.2).

A split is taken when its gain in training log-likelihood exceeds -log(kappa), counted once per split as
in the paper's own toolkit, whatever the number of the target's states. The best split of a leaf does not
depend on kappa, so the trees of all kappa are nested: one tree is grown as far as needed, and pruned
where a gain on the path is too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.packed_table import PackedTable, pack_table
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.jobs import TaskRunner, split_evenly, stop_point
from conjoin.kernels.nested_trees import visible_nodes, walk
from conjoin.kernels.trees import (
    NO,
    PARENT,
    SPLIT,
    YES,
    NodeTable,
    SplitScore,
    Target,
    TrainingRows,
    grow,
)
from conjoin.learning.options import Options
from conjoin.models.features import segment_index
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import TreeCPD

MAX_DEPTH = 60
"""The depth to which one visit of a leaf grows the tree below it."""
FIRST_NODES = 512
"""The number of nodes that a tree has room for at first: growing on with more costs a visit."""


class NestedTree:
    """The tree of one target at some threshold; it contains the trees of all larger thresholds."""

    table: NodeTable  # with room for more nodes than there are

    def __init__(self, target: int, states: int) -> None:
        self.target, self.states, self.size = target, states, 0
        self._enlarge(FIRST_NODES)

    def __getstate__(self) -> dict[str, Any]:
        size = max(self.size, 1)  # so that it can be enlarged by a factor
        return {**self.__dict__, "table": NodeTable._make(part[:size] for part in self.table)}

    def _enlarge(self, capacity: int) -> None:
        links, gains = np.full((capacity, 5), -1, np.int32), np.full(capacity, -np.inf)
        table = NodeTable(links, gains, np.zeros((capacity, self.states)))
        if self.size:
            nodes = slice(0, self.size)
            table.links[nodes], table.gains[nodes] = self.table.links[nodes], self.gains[nodes]
            table.counts[nodes] = self.table.counts[nodes]
        self.table = table

    @property
    def parent(self) -> npt.NDArray[np.int32]:
        """The parent of each node, -1 for the root."""
        return self.table.links[:, PARENT]

    @property
    def yes(self) -> npt.NDArray[np.int32]:
        """The child of each node where its split holds, -1 for a leaf."""
        return self.table.links[:, YES]

    @property
    def split(self) -> npt.NDArray[np.int32]:
        """The set of each node's best split, -1 if it has none."""
        return self.table.links[:, SPLIT]

    @property
    def gains(self) -> FloatArray:
        """The gain of that split."""
        return self.table.gains

    def grow(
        self,
        data: PackedTable,
        index: SetIndex,
        threshold: float,
        options: Options,
        rules: npt.NDArray[np.int8],
        max_depth: int = MAX_DEPTH,
    ) -> None:
        """Split every leaf whose best gain exceeds the threshold; `max_depth` bounds memory."""
        rows, target = index.rows(data), index.target(data, self.target, rules)
        score = SplitScore(float(options.min_leaf), float(options.pseudo), index.logs(self.states))
        while True:
            self.size = grow(
                float(threshold), rows, target, score, self.table, self.size, max_depth
            )
            if self.size + 2 <= len(self.gains):
                return
            self._enlarge(4 * len(self.gains))

    def leaves(self, codes: Codes, data: PackedTable, threshold: float) -> IntArray:
        """Return the leaf that each row, a column of codes, reaches in the tree of a threshold."""
        out = np.empty(codes.shape[1], np.int64)
        sets = (data.set_var, data.set_state, data.set_last)
        walk(codes, self.table, float(threshold), *sets, out)
        return out

    def score(self, rows: HeldRows, data: PackedTable, threshold: float, pseudo: float) -> float:
        """Return the log-likelihood of rows under the tree of a threshold."""
        label = rows.columns[self.target]
        known = np.flatnonzero(label < self.states)
        leaf = self.leaves(rows.columns, data, threshold)[known]
        return float(rows.weights[known] @ self.log_probabilities(pseudo)[leaf, label[known]])

    def visible(self, threshold: float) -> tuple[IntArray, IntArray]:
        """Return the nodes of the tree of a threshold, parents first, and each node's number or -1."""
        order, number = np.empty(self.size, np.int64), np.full(self.size, -1, np.int64)
        size = visible_nodes(self.table, float(threshold), order, number)
        return order[:size], number

    def log_probabilities(self, pseudo: float) -> FloatArray:
        """Return the smoothed log-distribution of every node, nodes by states."""
        counts = self.table.counts[: self.size].copy()
        counts[:, 0] -= counts[:, 1:].sum(axis=1)
        smoothed = counts + pseudo
        return np.log(smoothed / smoothed.sum(axis=1, keepdims=True))

    def to_cpd(self, data: PackedTable, threshold: float, pseudo: float) -> TreeCPD:
        """Return the tree of a threshold as a CPD."""
        order, number = self.visible(threshold)
        inner = (self.yes[order] >= 0) & (self.gains[order] > threshold)
        split, here = self.split[order[inner]], order[inner]
        ways = data.cards[data.set_var[split]]
        first = np.cumsum(ways) - ways
        child = np.repeat(number[self.table.links[here, NO]], ways)
        low, high = data.set_state[split], data.set_last[split]
        child[segment_index(first + low, high - low + 1)] = np.repeat(
            number[self.yes[here]], high - low + 1
        )
        var = np.full(len(order), -1, np.int32)
        var[inner] = data.set_var[split]
        ptr = np.empty(len(order), np.int32)
        ptr[inner], ptr[~inner] = first, np.arange(len(order) - len(here))
        value = self.log_probabilities(pseudo)[order[~inner]]
        return TreeCPD(data.cards, self.target, Tree(var, ptr, child.astype(np.int32), value))


class HeldRows(NamedTuple):
    """Rows that trees are scored on: their codes, variables by rows, and weights."""

    columns: Codes
    weights: FloatArray

    @classmethod
    def of(cls, table: Table) -> HeldRows:
        """Return the distinct rows of a table."""
        codes, weights = merge_rows(table.codes, table.weights)
        return cls(np.ascontiguousarray(codes.T), weights)


@dataclass(frozen=True, eq=False)
class SetIndex:
    """The sets of each variable, and logarithms of whole counts."""

    of: IntArray  # the set of each state, -1 if it has none; shape (variables, states)
    # The sets that add up to a variable's known rows; none if it is always known; shape (variables,
    # 2)
    known_of: IntArray
    candidate: BoolArray  # which sets can be split on
    pseudo: float  # the count added to each state
    most: int  # the largest count, if all are whole numbers and few; else 0
    _logs: dict[int, FloatArray] = field(default_factory=dict)

    @classmethod
    def build(cls, data: PackedTable, pseudo: float) -> SetIndex:
        """Index the sets of a table."""
        n = len(data.cards)
        of = np.full((n, int(data.cards.max(initial=2))), -1, np.int64)
        known_of = np.zeros((n, 2), np.int64)
        single = np.flatnonzero(data.set_state == data.set_last)
        for i, var, state in zip(single, data.set_var[single], data.set_state[single], strict=True):
            if state >= 0:
                of[var, state] = i
            else:
                known_of[var] = i, i + 1
        if data.known.shape[1]:
            for var in np.flatnonzero(data.cards != 2):
                known_of[var] = of[var, 0], of[var, data.cards[var] - 1] + 1
        most = int(data.weight) if data.whole and data.weight < 1 << 22 else 0
        return cls(of, known_of, data.set_state >= 0, pseudo, most)

    def rows(self, data: PackedTable) -> TrainingRows:
        """Return rows, these or others with the same sets, as kernels take them."""
        return TrainingRows(
            data.sets,
            data.known,
            data.set_var,
            self.candidate,
            self.known_of,
            data.segments,
            data.powers,
        )

    def target(self, data: PackedTable, position: int, allowed: npt.NDArray[np.int8]) -> Target:
        """Return a target as kernels take it; `allowed` is the rule for each possible parent."""
        state_sets = data.sets[self.of[position, 1 : data.cards[position]]]
        return Target(position, data.rows_of(position), state_sets, allowed)

    def logs(self, states: int) -> FloatArray:
        """Return c log(c + pseudo) and c log(c + pseudo * states) of whole counts c, or nothing."""
        if not self.most:
            return np.zeros((2, 0))
        if states not in self._logs:
            counts = np.arange(self.most + 1, dtype=np.float64)
            self._logs[states] = counts * np.log(
                np.stack([counts + self.pseudo, counts + self.pseudo * states])
            )
        return self._logs[states]


class TreePath:
    """The nested trees of all targets, or of some, along the path of kappa."""

    def __init__(
        self,
        table: Table,
        valid: Table | None,
        options: Options,
        rules: npt.NDArray[np.int8],
        runner: TaskRunner | None = None,
        targets: Sequence[int] | None = None,
    ) -> None:
        self.data = pack_table(table)
        self.index = SetIndex.build(self.data, options.pseudo)
        self.valid = None if valid is None else HeldRows.of(valid)
        self.options, self.rules, self.runner = options, rules, runner or TaskRunner()
        cards = table.domain.cards.tolist()
        self.trees = [NestedTree(i, card) for i, card in enumerate(cards)]
        self.targets = range(len(cards)) if targets is None else targets

    def advance(self, kappa: float) -> FloatArray:
        """Grow to a kappa; return the summed log-likelihood of the validation rows by target."""
        parts = split_evenly([self.trees[t] for t in self.targets])
        tasks = [
            (self.data, self.index, self.valid, part, self.options, self.rules, gain_needed(kappa))
            for part in parts
        ]
        stage = f"trees, kappa {kappa:g}"
        done = self.runner.run(_grow_and_score, tasks, stage, list(map(len, parts)))
        scores = np.zeros(len(self.trees))
        for trees, found in done:
            for tree, score in zip(trees, found, strict=True):
                self.trees[tree.target], scores[tree.target] = tree, score
        return scores

    def score(self, target: int, rows: HeldRows, kappa: float) -> float:
        """Return the log-likelihood of rows under one tree of a kappa that the path has advanced to."""
        return self.trees[target].score(rows, self.data, gain_needed(kappa), self.options.pseudo)

    def cpds(self, kappa: float, targets: Sequence[int] | None = None) -> list[TreeCPD]:
        """Return the trees of a kappa that the path has advanced to, of all targets or of some."""
        chosen = self.trees if targets is None else [self.trees[t] for t in targets]
        return [tree.to_cpd(self.data, gain_needed(kappa), self.options.pseudo) for tree in chosen]


def gain_needed(kappa: float) -> float:
    """Return the gain that a split must exceed."""
    return -float(np.log(kappa))


def _grow_and_score(
    data: PackedTable,
    index: SetIndex,
    valid: HeldRows | None,
    trees: list[NestedTree],
    options: Options,
    rules: npt.NDArray[np.int8],
    threshold: float,
) -> tuple[list[NestedTree], FloatArray]:
    scores = np.zeros(len(trees))
    for i, tree in enumerate(trees):
        stop_point()
        tree.grow(data, index, threshold, options, np.ascontiguousarray(rules[:, tree.target]))
        if valid is not None:
            scores[i] = tree.score(valid, data, threshold, options.pseudo)
    return trees, scores
