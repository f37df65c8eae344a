"""The meaning of a fitted classifier's 0/1 columns, and trees over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.models.tree import Tree


@dataclass(frozen=True, eq=False)
class Frame:
    """The meaning of the columns and the classes of a classifier."""

    cards: IntArray
    target: int
    columns: IntArray
    states: IntArray
    unseen: float

    @property
    def card(self) -> int:
        """The number of states of the target."""
        return int(self.cards[self.target])

    def scores(self, outputs: int, scale: float) -> tuple[FloatArray, FloatArray]:
        """Return the map, matrix and constant, from a classifier's raw scores to the states'.

        A single raw score is the log-odds of the second class, up to the scale.
        """
        classes = len(self.states)
        if classes < 2 or outputs not in ({1, 2} if classes == 2 else {classes}):
            raise ModelError(
                f"{outputs} scores cannot be read for {classes} classes; fit the classifier on rows "
                "with two states of the target or more"
            )
        matrix, constant = np.zeros((self.card, outputs)), np.zeros(self.card)
        if outputs == 1:
            matrix[self.states[1], 0] = scale
        else:
            matrix[self.states, np.arange(outputs)] = scale
        other = np.setdiff1d(np.arange(self.card), self.states)
        matrix[other] = matrix[self.states].mean(axis=0)
        constant[other] = np.log(classes * self.unseen)
        return matrix, constant


@dataclass(frozen=True, eq=False)
class Splits:
    """A binary tree over indicator columns."""

    column: list[int]  # the column that each node tests, -1 for a leaf. Node 0 is the root
    # low, high: the next node where the indicator is 0, and where it is 1
    low: list[int]
    high: list[int]
    value: FloatArray  # the values of the leaves; those of other nodes are not used

    @classmethod
    def of(
        cls,
        column: npt.ArrayLike,
        left: npt.ArrayLike,
        right: npt.ArrayLike,
        zero_left: npt.ArrayLike,
        one_left: npt.ArrayLike,
        value: npt.ArrayLike,
    ) -> Splits:
        """Build from left and right children, and whether a 0 and a 1 go left."""
        return cls(
            np.asarray(column).astype(np.int64).tolist(),
            np.where(zero_left, left, right).astype(np.int64).tolist(),
            np.where(one_left, left, right).astype(np.int64).tolist(),
            np.asarray(value, np.float64),
        )

    def at_zero(self) -> float:
        """Return the value where all indicators are 0."""
        node = 0
        while self.column[node] >= 0:
            node = self.low[node]
        return float(self.value[node])

    def grow(self, frame: Frame, leaves: FloatArray) -> Tree:
        """Return the tree over the variables, given the leaf of each node: nodes by states.

        A test whose result follows from the path is omitted.
        """
        pairs = [(int(v), int(s)) for v, s in frame.columns]
        ways = {v: int(frame.cards[v]) for v, _ in pairs}

        def visit(token: Any) -> object:
            node, known = token
            allowed = dict(
                known
            )  # the states of each tested variable that are still possible, as bits
            while (column := self.column[node]) >= 0:
                var, state = pairs[column]
                left, bit = allowed.get(var, (1 << ways[var]) - 1), 1 << state
                if not left & bit or self.low[node] == self.high[node]:
                    node = self.low[node]
                elif left == bit:
                    node = self.high[node]
                else:
                    rest = tuple(item for item in known if item[0] != var)
                    yes = (self.high[node], (*rest, (var, bit)))
                    no = (self.low[node], (*rest, (var, left & ~bit)))
                    return var, [yes if s == state else no for s in range(ways[var])]
            return leaves[node]

        return Tree.grow((0, ()), visit)


def sklearn_splits(tree: Any, value: FloatArray) -> Splits:
    """Read a tree of scikit-learn: up to the threshold is left."""
    column = np.where(tree.children_left < 0, -1, tree.feature)
    zero, one = tree.threshold >= 0, tree.threshold >= 1
    return Splits.of(column, tree.children_left, tree.children_right, zero, one, value)
