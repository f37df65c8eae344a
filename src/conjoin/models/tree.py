"""Decision trees as flat arrays, and the conjunctions on their paths."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray, Int32Array, IntArray, UIntArray, distinct
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.features import Features, segment_index
from conjoin.models.vocabulary import Vocabulary, mask_words, state_masks


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree over discrete variables, with splits into any number of branches."""

    var: Int32Array  # the variable that each node splits on, -1 for a leaf; node 0 is the root
    ptr: Int32Array  # where the children of a split start in `child`; the row of a leaf in `value`
    child: Int32Array  # for each split, the child that each state of its variable leads to
    value: FloatArray  # the values of the leaves: numbers, or lines with one per state of a target

    @classmethod
    def grow(
        cls, root: Hashable, visit: Callable[[Hashable], object], max_leaves: int = 10_000_000
    ) -> Tree:
        """Build a tree from the root's token, without recursion.

        `visit` returns (variable, [token of the child for each state]) for the token of a split, and
        anything else as the value of a leaf. Equal tokens of a split share a child.
        """
        var: list[int] = []
        ptr: list[int] = []
        child: list[int] = []
        value: list[object] = []
        stack: list[tuple[Hashable, list[int]]] = [(root, [])]
        while stack:
            token, slots = stack.pop()
            node = len(var)
            for slot in slots:
                child[slot] = node
            leaf_or_split = visit(token)
            if isinstance(leaf_or_split, tuple):
                variable, children = leaf_or_split
                var.append(variable)
                ptr.append(len(child))
                places: dict[Hashable, list[int]] = {}
                for token_below in children:
                    places.setdefault(token_below, []).append(len(child))
                    child.append(-1)
                stack.extend(reversed(places.items()))
            else:
                var.append(-1)
                ptr.append(len(value))
                value.append(leaf_or_split)
                if len(value) > max_leaves:
                    raise ModelError(f"the tree has more than {max_leaves:,} leaves")
        return cls(
            np.array(var, np.int32),
            np.array(ptr, np.int32),
            np.array(child, np.int32),
            np.array(value, np.float64),
        )

    @classmethod
    def complete(cls, variables: Sequence[int], cards: IntArray, value: FloatArray) -> Tree:
        """Return the tree that splits on each variable in turn, with a leaf for each joint state."""
        ways = [int(cards[v]) for v in variables]
        widths = np.cumprod([1, *ways])
        inner = int(widths[:-1].sum())
        var = np.full(inner + int(widths[-1]), -1, np.int32)
        var[:inner] = np.repeat(np.array(variables, np.int32), widths[:-1])
        slots = np.repeat(np.array(ways, np.int64), widths[:-1])
        ptr = np.concatenate([np.cumsum(slots) - slots, np.arange(widths[-1])]).astype(np.int32)
        # Level by level, the children of one level are the next level in order.
        child = np.arange(1, len(var), dtype=np.int32)
        return cls(var, ptr, child, value)

    @property
    def n_leaves(self) -> int:
        """The number of leaves."""
        return len(self.value)

    @property
    def variables(self) -> tuple[int, ...]:
        """The variables that the tree splits on."""
        return tuple(distinct(self.var[self.var >= 0]).tolist())

    def evaluate(self, codes: Codes) -> FloatArray:
        """Return the leaf value of each row."""
        node = np.zeros(len(codes), np.int64)
        active = np.arange(len(codes)) if self.var[0] >= 0 else np.zeros(0, np.int64)
        while len(active):
            at = node[active]
            node[active] = self.child[self.ptr[at] + codes[active, self.var[at]]]
            active = active[self.var[node[active]] >= 0]
        return self.value[self.ptr[node]]

    def children(self, node: int, cards: IntArray) -> list[int]:
        """Return the child of a split for each state of its variable."""
        start = self.ptr[node]
        return self.child[start : start + cards[self.var[node]]].tolist()

    def condition(self, evidence: Mapping[int, int], cards: IntArray) -> Tree:
        """Fix variables to states: their splits disappear."""

        def visit(token: Hashable) -> object:
            node = int(token)  # type: ignore[call-overload]
            while (variable := int(self.var[node])) in evidence:
                node = self.children(node, cards)[evidence[variable]]
            if variable < 0:
                return self.value[self.ptr[node]]
            return variable, self.children(node, cards)

        return Tree.grow(0, visit)

    def renumbered(self, position: IntArray) -> Tree:
        """Return the tree over other positions, given the new position of each variable."""
        var = np.where(self.var >= 0, position[self.var], -1).astype(np.int32)
        return Tree(var, self.ptr, self.child, self.value)


def _paths(
    cards: IntArray, trees: Sequence[Tree], extra_var: IntArray, extra_mask: UIntArray
) -> tuple[Features, Int32Array]:
    """Return the tests on the path to each leaf as a feature, from leaf to root.

    A path may test a variable twice. Extra tests join the vocabulary; their numbers are returned, too.
    """
    sizes = np.array([len(t.var) for t in trees])
    first_node = np.repeat(np.cumsum(sizes) - sizes, sizes)
    var = np.concatenate([t.var for t in trees])
    slots = np.array([len(t.child) for t in trees])
    first_slot = np.cumsum(slots) - slots
    ptr = np.concatenate([t.ptr for t in trees]).astype(np.int64)
    inner = np.flatnonzero(var >= 0)
    start = (ptr + np.repeat(first_slot, sizes))[inner]
    ways = cards[var[inner]]
    child = np.concatenate([t.child for t in trees])[segment_index(start, ways)]
    child = child + np.repeat(first_node[inner], ways)
    state = segment_index(np.zeros(len(inner), np.int64), ways)

    parent = np.full(len(var), -1, np.int64)
    parent[child] = np.repeat(inner, ways)
    mask = np.zeros((len(var), mask_words(cards)), np.uint64)
    np.bitwise_or.at(mask, (child, state >> 6), np.uint64(1) << (state & 63).astype(np.uint64))
    below = np.flatnonzero(parent >= 0)
    tests, number = Vocabulary.unique(
        cards,
        np.concatenate([var[parent[below]], extra_var]),
        np.concatenate([mask[below], extra_mask]),
    )
    test_into = np.full(len(var), -1, np.int32)
    test_into[below] = number[: len(below)]

    leaves = np.flatnonzero(var < 0)
    counts = np.array([t.n_leaves for t in trees])
    first_leaf = np.repeat(np.cumsum(counts) - counts, sizes)
    leaf_numbers = ptr[leaves] + first_leaf[leaves]
    entries_leaf, entries_test = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    at = leaves
    while len(at):  # all leaves climb together, until they reach their roots
        climbing = parent[at] >= 0
        at, leaf_numbers = at[climbing], leaf_numbers[climbing]
        entries_leaf.append(leaf_numbers)
        entries_test.append(test_into[at])
        at = parent[at]
    leaf, test = np.concatenate(entries_leaf), np.concatenate(entries_test)
    lengths = np.bincount(leaf, minlength=counts.sum())
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    paths = Features(tests, indptr, test[np.argsort(leaf, kind="stable")], np.zeros(len(lengths)))
    return paths, number[len(below) :]


def _assemble(
    paths: Features, source: IntArray, extra: Int32Array | None, weights: FloatArray
) -> tuple[Features, IntArray]:
    """Build a feature for each leaf in `source`, with an extra test; also return which can hold."""
    chosen = paths.select(source)
    test, feature = chosen.indices, chosen.entry_feature
    if extra is not None:
        test = np.concatenate([test, extra])
        feature = np.concatenate([feature, np.arange(len(source))])
    tests = paths.tests
    places = np.arange(len(source))  # in place of the weights, to see which features are kept
    built = Features.from_tests(tests.cards, feature, tests.var[test], tests.mask[test], places)
    kept = built.weights.astype(np.int64)
    return built.reweighted(weights[kept]), kept


def factor_features(cards: IntArray, trees: Sequence[Tree]) -> Features:
    """Return one feature per leaf of trees whose leaves hold single numbers."""
    none = np.zeros(0, np.int64)
    paths, _ = _paths(cards, trees, none, np.zeros((0, mask_words(cards)), np.uint64))
    weights = np.concatenate([t.value for t in trees])
    return _assemble(paths, np.arange(len(paths)), None, weights)[0]


def cpd_features(
    cards: IntArray, trees: Sequence[Tree], targets: IntArray
) -> tuple[Features, IntArray]:
    """Return the features of trees with a number per state of a target in each leaf, and their targets.

    A leaf has one feature per state but one, the reference, whose number is subtracted: for a binary
    target its weight is the log-odds.
    """
    leaf, state, weight = [], [], []
    leaf_target = np.repeat(targets, [t.n_leaves for t in trees])
    for card in distinct(cards[targets]):
        rows = np.flatnonzero(cards[leaf_target] == card)
        value = np.concatenate(
            [t.value for t, i in zip(trees, targets, strict=True) if cards[i] == card]
        )
        # The first state is the reference unless it is impossible there.
        reference = np.where(np.isneginf(value[:, 0]), value.argmax(1), 0)
        relative = value - value[np.arange(len(value)), reference][:, None]
        others = np.arange(card) != reference[:, None]
        local, states = np.nonzero(others)
        leaf.append(rows[local])
        state.append(states)
        weight.append(relative[others])
    source, states = np.concatenate(leaf), np.concatenate(state)
    owner = leaf_target[source]
    # One extra test, X_target = state, for every pair that occurs.
    width = int(cards.max(initial=1))
    pair, which = np.unique(owner * width + states, return_inverse=True)
    extra_var, extra_state = np.divmod(pair, width)
    paths, number = _paths(cards, trees, extra_var, state_masks(extra_state, mask_words(cards)))
    features, kept = _assemble(paths, source, number[which], np.concatenate(weight))
    return features, owner[kept]
