"""CPDs whose logits are a tree, or a sum of trees, over the other variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.cpd import log_normalized
from conjoin.models.features import Features
from conjoin.models.tree import Tree, cpd_features


class TreeBasedCPD:
    """A CPD whose logits are a sum of trees over the other variables."""

    cards: IntArray
    target: int
    trees: tuple[Tree, ...]

    def __init__(self, cards: IntArray, target: int, trees: Sequence[Tree]) -> None:
        self.cards, self.target, self.trees = cards, int(target), tuple(trees)
        shape = (int(cards[target]),)
        if not self.trees:
            raise ModelError("a CPD needs a tree")
        for tree in self.trees:
            if tree.value.shape[1:] != shape:
                raise ModelError(
                    f"leaves must hold {shape[0]} numbers, one per state of the target"
                )
            if self.target in tree.variables:
                raise ModelError("a CPD's tree must not split on its own target")

    @property
    def blanket(self) -> tuple[int, ...]:
        """The positions of the variables that the distribution depends on."""
        return tuple(sorted({v for tree in self.trees for v in tree.variables}))

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        return log_normalized(np.sum([tree.evaluate(codes) for tree in self.trees], axis=0))

    def features(self) -> Features:
        """Return one feature per leaf and state, except for a reference state."""
        targets = np.full(len(self.trees), self.target, np.int64)
        return cpd_features(self.cards, self.trees, targets)[0]


class TreeCPD(TreeBasedCPD):
    """A probabilistic decision tree: its leaves hold the target's log-probabilities.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    tree : Tree
        Leaves of shape (states of the target,).

    Examples
    --------
    >>> from conjoin import Domain
    >>> domain = Domain({"wet": ["no", "yes"], "sky": ["sun", "cloud", "rain"]})
    >>> leaf = {"dry": np.log([0.9, 0.1]), "wet": np.log([0.1, 0.9])}
    >>> tree = Tree.grow("sky", lambda node: leaf.get(node, (1, ["dry", "dry", "wet"])))
    >>> cpd = TreeCPD(domain.cards, 0, tree)
    >>> print(*cpd.features().describe(domain), sep="\\n")
    -2.19722  wet=yes ∧ sky≠rain
    2.19722  wet=yes ∧ sky=rain
    """

    def __init__(self, cards: IntArray, target: int, tree: Tree) -> None:
        super().__init__(cards, target, [tree])

    def moved(self, cards: IntArray, position: IntArray) -> TreeCPD:
        """Return the CPD over reordered variables, given the new position of each."""
        return TreeCPD(cards, position[self.target], self.tree.renumbered(position))

    @property
    def tree(self) -> Tree:
        """The tree."""
        return self.trees[0]

    def to_factor(self) -> Tree:
        """Return a tree that splits on the target below each leaf, with single numbers as leaves."""
        tree, states = self.tree, range(int(self.cards[self.target]))
        value = log_normalized(tree.value)

        def visit(token: Any) -> object:
            node, state = token
            if state is not None:
                return value[tree.ptr[node], state]
            if tree.var[node] < 0:
                return self.target, [(node, s) for s in states]
            return int(tree.var[node]), [(c, None) for c in tree.children(node, self.cards)]

        return Tree.grow((0, None), visit)

    @classmethod
    def from_factor(cls, cards: IntArray, target: int, factor: Tree) -> TreeCPD:
        """Build from a tree that also splits on the target and has single numbers as leaves."""
        var, ptr, child = factor.var.tolist(), factor.ptr.tolist(), factor.child.tolist()
        value, ways = factor.value.tolist(), cards.tolist()
        states = range(ways[target])

        def below(node: int) -> list[int]:
            return child[ptr[node] : ptr[node] + ways[var[node]]]

        def settle(node: int, state: int) -> int:
            while var[node] == target:
                node = child[ptr[node] + state]
            return node

        def visit(token: Any) -> object:
            # A node of the new tree holds the node of the old tree that each state of the target has
            # reached: one number while they are the same, a tuple once they differ.
            if isinstance(token, int):
                if var[token] >= 0 and var[token] != target:
                    return var[token], below(token)
                token = (token,) * len(states)
            nodes = [settle(node, state) for node, state in zip(token, states, strict=True)]
            split = next((var[node] for node in nodes if var[node] >= 0), None)
            if split is None:
                return [value[ptr[node]] for node in nodes]
            moved = {n: below(n) if var[n] == split else [n] * ways[split] for n in set(nodes)}
            return split, [tuple(moved[n][s] for n in nodes) for s in range(ways[split])]

        return cls(cards, target, Tree.grow(0, visit, max_leaves=100 * len(var) + 1000))


class BoostedTreesCPD(TreeBasedCPD):
    """A sum of trees: the leaves hold scores, which are added and normalised.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    trees : sequence of Tree
        Leaves of shape (states of the target,).
    """

    def moved(self, cards: IntArray, position: IntArray) -> BoostedTreesCPD:
        """Return the CPD over reordered variables, given the new position of each."""
        trees = [tree.renumbered(position) for tree in self.trees]
        return BoostedTreesCPD(cards, position[self.target], trees)
