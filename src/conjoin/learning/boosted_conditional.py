"""Learning the conditional of one column by boosting: trees with a value for each of its states.

A tree that serves all states of the target costs as much for many states as for few, so numbers that are
cut into intervals can be targets, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes
from conjoin.kernels.layouts import TreeNodes, packed
from conjoin.models.conditional_chain import LARGEST_RANK, VALUE_UNIT, BoostedConditional


class Boosting(NamedTuple):
    """How trees are grown and added up."""

    rounds: int = 150  # maximum number of trees
    rate: float = 0.2  # the factor of the values of each tree
    leaves: int = 31  # maximum number of leaves per tree
    least: float = 5.0  # minimum number of rows per leaf
    ridge: float = 3.0  # added to the Hessian of each value
    min_gain: float = 0.1  # of a split, twice the log-likelihood in nats
    patience: int = 8  # rounds without a gain on the rows that tell when to stop


MANY_ROWS, SHARE = 8_000, 0.5
"""With more rows than this, each tree is grown from a random share of them."""

PSEUDO_ROWS, RARE = 1.0, 10
"""The number of rows that each state has before any are counted, and below which a state is rare."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Complete rows of states, and how often they count."""

    domain: Domain
    codes: IntArray
    weights: FloatArray

    def select(self, rows: IntArray | BoolArray) -> CodedRows:
        """Return some of the rows."""
        return CodedRows(self.domain, self.codes[rows], self.weights[rows])


class Boosted(NamedTuple):
    """A conditional, and how well it predicts the rows that told when to stop."""

    conditional: BoostedConditional
    log_probabilities: FloatArray  # of the state of each of these rows

    @property
    def rounds(self) -> int:
        """The number of trees."""
        return len(self.conditional.roots)


def learn_boosted_conditional(
    rows: CodedRows,
    target: int,
    parents: IntArray,
    stopping: CodedRows | None,
    settings: Boosting,
) -> Boosted:
    """Learn the conditional of a column given some others.

    `stopping`: the rows that tell when to stop; None to use all rounds.
    """
    ranks = state_ranks(rows, target, parents)
    states = int(rows.domain.cards[target])
    sizes = np.bincount(rows.codes[:, target], rows.weights, states) + PSEUDO_ROWS
    start = np.log(sizes / sizes.sum())
    scored = _ScoredRows.of(rows, target, parents, ranks, start)
    judged = None if stopping is None else _ScoredRows.of(stopping, target, parents, ranks, start)
    log_p = np.zeros(0) if judged is None else judged.log_probabilities()
    best, kept = -np.inf if judged is None else float(judged.weights @ log_p), 0
    trees: list[tuple[TreeNodes, Float32Array]] = []
    for tree, values in _boosting(scored, settings) if len(parents) else ():
        trees.append((tree, values))
        if judged is None:
            kept = len(trees)
            continue
        judged.add(tree, values)
        now = judged.log_probabilities()
        if (score := float(judged.weights @ now)) > best:
            best, kept, log_p = score, len(trees), now
        elif len(trees) >= kept + settings.patience:
            break
    return Boosted(_joined(start, ranks, parents, trees[:kept], states), log_p)


def _boosting(rows: _ScoredRows, settings: Boosting) -> Iterator[tuple[TreeNodes, Float32Array]]:
    """Yield trees, and add each of them to the scores of the rows."""
    from conjoin.kernels.boosting import grow_tree, write_slopes

    count, states = rows.scores.shape
    rng, every = np.random.default_rng(0), np.arange(count)
    slopes = np.empty((count, 2, states), np.float32)
    for _ in range(settings.rounds):
        used = every if count <= MANY_ROWS else np.flatnonzero(rng.random(count) < SHARE)
        write_slopes(rows.scores, rows.target, rows.weights, used, slopes)
        tree = TreeNodes(*np.zeros((3, 2 * settings.leaves - 1), np.int64))
        values = np.zeros((settings.leaves, states), np.float32)
        leaves = grow_tree(
            rows.codes, rows.first, slopes, rows.weights, used, settings.least, settings.ridge,
            settings.min_gain, settings.rate, VALUE_UNIT, tree, values,
        )  # fmt: skip
        if leaves == 1:
            return
        tree, values = TreeNodes(*(line[: 2 * leaves - 1] for line in tree)), values[:leaves]
        rows.add(tree, values)
        yield tree, values


@dataclass(frozen=True, eq=False)
class _ScoredRows:
    """Rows as kernels need them, and the scores of the states of the target, to which trees add."""

    codes: Codes  # the ranks of the states of the parents
    first: IntArray  # where the ranks of each parent begin, side by side
    target: IntArray
    weights: FloatArray
    scores: Float32Array

    @classmethod
    def of(
        cls, rows: CodedRows, target: int, parents: IntArray, ranks: IntArray, start: FloatArray
    ) -> _ScoredRows:
        codes = np.empty((len(rows.codes), len(parents)), np.uint8)
        sizes = []
        for k, v in enumerate(parents.tolist()):
            of_states = _of_column(ranks, rows.domain, v)
            codes[:, k] = of_states[rows.codes[:, v]]
            sizes.append(int(of_states.max()) + 1)
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        states, weights = rows.codes[:, target], packed(rows.weights, np.float64)
        scores = np.tile(start.astype(np.float32), (len(codes), 1))
        return cls(codes, first, packed(states, np.int64), weights, scores)

    def add(self, tree: TreeNodes, values: Float32Array) -> None:
        """Add what a tree says."""
        from conjoin.kernels.boosting import add_tree

        add_tree(self.codes, tree, values, self.scores)

    def log_probabilities(self) -> FloatArray:
        """Return the log-probability of the state of each row."""
        from conjoin.kernels.boosting import log_losses

        losses = np.empty(len(self.target))
        log_losses(self.scores, self.target, losses)
        return -losses


def _of_column(ranks: IntArray, domain: Domain, v: int) -> IntArray:
    first = int(domain.cards[:v].sum())
    return ranks[first : first + int(domain.cards[v])]


def state_ranks(rows: CodedRows, target: int, parents: IntArray) -> IntArray:
    """Return the order of the states of all columns, side by side, in which trees may split them.

    States without an order of their own are ordered by the first axis of a correspondence analysis: those
    beside which the target is distributed similarly are neighbours. Rare states stand together in the
    middle, because an order of them would be that of the targets of single rows.
    """
    ranks = []
    for v, variable in enumerate(rows.domain):
        order = np.arange(len(variable))
        if v in parents and not variable.ordered and len(variable) > 2:
            sizes = np.bincount(rows.codes[:, v], rows.weights, len(variable))
            places = np.where(sizes < RARE, 0.0, _first_axis(rows, v, target))
            order = np.argsort(np.argsort(places, kind="stable"), kind="stable")
        ranks.append(order * (LARGEST_RANK + 1) // max(len(order), LARGEST_RANK + 1))
    return np.concatenate(ranks)


def _first_axis(rows: CodedRows, v: int, target: int) -> FloatArray:
    """Return the place of each state of a column on the axis along which the target differs most."""
    shape = int(rows.domain.cards[v]), int(rows.domain.cards[target])
    cells = rows.codes[:, v] * shape[1] + rows.codes[:, target]
    counts = np.bincount(cells, rows.weights, shape[0] * shape[1]).reshape(shape)
    usual = (counts.sum(axis=0) + PSEUDO_ROWS) / (counts.sum() + PSEUDO_ROWS * shape[1])
    size = counts.sum(axis=1, keepdims=True) + PSEUDO_ROWS
    profile = (counts + PSEUDO_ROWS * usual) / size / usual - 1.0
    axis = np.linalg.svd(profile * np.sqrt(size * usual), full_matrices=False)[2][0]
    places = profile @ (axis * np.sqrt(usual))
    return np.asarray(places * np.sign(places[np.abs(places).argmax()] or 1.0))


def _joined(
    start: FloatArray,
    ranks: IntArray,
    parents: IntArray,
    trees: list[tuple[TreeNodes, Float32Array]],
    states: int,
) -> BoostedConditional:
    """Return the trees, one after another, with the positions of columns in the domain."""
    nodes, values = [np.zeros((3, 0), np.int64)], [np.zeros((0, states), np.float32)]
    roots, size, leaves = [], 0, 0
    for tree, added in trees:
        column, threshold, below = (line.copy() for line in tree)
        split = column >= 0
        below += np.where(split, size, leaves)
        column[split] = parents[column[split]]
        roots.append(size)
        nodes.append(np.stack([column, threshold, below]))
        values.append(added)
        size, leaves = size + len(column), leaves + len(added)
    joined = np.concatenate(nodes, axis=1)
    return BoostedConditional(
        start, ranks, np.array(roots, np.int64), joined, np.concatenate(values)
    )
