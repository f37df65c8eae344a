"""`ConditionalChain`: the conditionals of all columns in an order, each given the columns before it.

By the chain rule, their product is a joint distribution:

    p(s) = q_1(s_1) * q_2(s_2 | s_1) * q_3(s_3 | s_1, s_2) * ...

A conditional is a softmax of sums of small trees. The chain is better than a network at rules of many
columns, but only where few columns are unknown can these be summed over. Unknown columns at the end of
the order drop out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, IntArray, read_only
from conjoin.data.domain import Domain
from conjoin.errors import ModelError
from conjoin.kernels.layouts import TreeNodes, packed

LARGEST_RANK, VALUE_UNIT = 255, 1 / 256
"""The largest rank of a state, and what values of leaves are multiples of: sums of them are exact, and
their files small."""


def log_mixture(share: float, network: FloatArray, chain: FloatArray) -> FloatArray:
    """Return the log-probabilities of a mixture in which a chain has a share; 0 is possible."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-share) + network, np.log(share) + chain)


@dataclass(frozen=True, eq=False)
class BoostedConditional:
    """The distribution of a column given columns before it: scores of its states, and their softmax."""

    start: FloatArray  # the scores without trees; shape (states,)
    # How the states of all columns of a domain, side by side, are ordered where trees split them
    ranks: IntArray
    roots: IntArray  # the first node of each tree
    # The nodes: the column that a node splits, -1 for a leaf; the last rank that goes to its first
    # child; and the place of this child, which the second one follows, or of a leaf among the values
    nodes: IntArray  # shape (3, nodes)
    values: Float32Array  # what leaves add to the scores; shape (leaves, states)

    def __post_init__(self) -> None:
        for name in ("start", "ranks", "roots", "nodes", "values"):
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name))))

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        """Ranks, start, roots, nodes and values as kernels need them."""
        return (
            packed(self.ranks, np.uint8), packed(self.start, np.float64), packed(self.roots, np.int64),
            TreeNodes(*(packed(line, np.int64) for line in self.nodes)),
            packed(self.values, np.float32, 2),
        )  # fmt: skip

    @cached_property
    def columns(self) -> IntArray:
        """The columns that it depends on."""
        return np.unique(self.nodes[0][self.nodes[0] >= 0])

    def is_sound(self, cards: IntArray, target: int) -> bool:
        """Return whether kernels can walk through all trees, and always get to a leaf."""
        column, threshold, below = self.nodes
        split, place = column >= 0, np.arange(len(column))
        inside = np.where(split, below + 1 < len(column), below < len(self.values))
        return bool(
            len(self.ranks) == cards.sum()
            and self.ranks.min(initial=0) >= 0
            and self.ranks.max(initial=0) <= LARGEST_RANK
            and self.values.shape == (len(self.values), cards[target])
            and self.start.shape == (cards[target],)
            and self.nodes.shape == (3, len(column))
            and np.isfinite(self.values).all()
            and np.isfinite(self.start).all()
            and ((column >= -1) & (column < len(cards)) & (column != target)).all()
            and (threshold >= 0).all()
            and (below >= 0).all()
            and inside.all()
            and (below > place)[split].all()
            and ((self.roots >= 0) & (self.roots < len(column))).all()
        )


@dataclass(frozen=True, eq=False)
class ConditionalChain:
    """A joint distribution as a product of conditionals, and its share of a mixture."""

    domain: Domain  # the columns, without hidden ones
    names: tuple[str, ...]  # the columns in order; those of one state are left out
    conditionals: tuple[BoostedConditional, ...]
    share: float  # its share of a mixture with a network

    def __post_init__(self) -> None:
        cards = self.domain.cards
        later = set(self.places.tolist())
        if not 0 < self.share < 1 or later != set(np.flatnonzero(cards > 1).tolist()):
            raise ModelError("a chain of conditionals has all columns, and a share between 0 and 1")
        for v, conditional in zip(self.places.tolist(), self.conditionals, strict=True):
            if not conditional.is_sound(cards, v) or later & set(conditional.columns.tolist()):
                raise ModelError(f"the conditional of {self.domain.names[v]!r} is damaged")
            later.remove(v)

    @cached_property
    def places(self) -> IntArray:
        """The positions of the columns."""
        return np.array([self.domain.index(name) for name in self.names], np.int64)

    @cached_property
    def _first(self) -> IntArray:
        return packed(np.cumsum(self.domain.cards) - self.domain.cards, np.int64)

    def log_likelihoods(self, codes: IntArray, v: int, count: int | None = None) -> FloatArray:
        """Return the log-probability of each row with each state of a column: rows by states.

        `count`: how many conditionals count, the first ones; by default all. Columns after these need not
        be known.
        """
        width = int(self.domain.cards[v]) if v >= 0 else 1
        codes, result = packed(codes, np.int64, 2), np.zeros((len(codes), width))
        for k in range(len(self.names) if count is None else count):
            result += self._of_column(k, codes, v)
        return result

    def _of_column(self, k: int, codes: IntArray, v: int) -> FloatArray:
        """Return what the conditional of a column says of each row with each state of a column."""
        from conjoin.kernels.tree_sums import add_log_conditionals

        conditional, place = self.conditionals[k], int(self.places[k])
        varies = v == place or v in conditional.columns
        result = np.zeros((len(codes), int(self.domain.cards[v]) if varies else 1))
        ranks, *trees = conditional.arrays
        add_log_conditionals(codes, ranks, self._first, *trees, place, v if varies else -1, result)
        return result

    def log_likelihood(self, codes: IntArray, count: int | None = None) -> FloatArray:
        """Return the log-probability of each row."""
        return self.log_likelihoods(codes, -1, count)[:, 0]

    def counting(self, needed: BoolArray) -> IntArray:
        """Return how many conditionals count in each row: all up to the last column that is needed.

        `needed`: whether a column is known, asked about or summed over for another reason; shape (rows,
        columns). The sum over the states of the last of the others is 1.
        """
        number = np.arange(1, len(self.names) + 1)
        return np.asarray(np.where(needed[:, self.places], number, 0).max(axis=1, initial=0))

    def sample(self, count: int, rng: np.random.Generator) -> IntArray:
        """Return complete rows, drawn one column after another."""
        codes = np.zeros((count, len(self.domain)), np.int64)
        for k, v in enumerate(self.places.tolist()):
            logs = self._of_column(k, codes, v)
            cumulative = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
            codes[:, v] = (cumulative > rng.random((count, 1)) * cumulative[:, -1:]).argmax(axis=1)
        return codes

    def reordered(self, domain: Domain) -> ConditionalChain:
        """Return the same for the same columns in another order."""
        order = self.domain.state_order(domain)
        moved = np.array([domain.index(name) for name in self.domain.names], np.int64)

        def renumbered(conditional: BoostedConditional) -> BoostedConditional:
            column = conditional.nodes[0]
            column = np.where(column >= 0, moved[column], -1)
            nodes = np.stack([column, *conditional.nodes[1:]])
            return replace(conditional, ranks=conditional.ranks[order], nodes=nodes)

        return replace(self, domain=domain, conditionals=tuple(map(renumbered, self.conditionals)))
