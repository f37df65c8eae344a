"""Boosted trees: sums of small trees, until the validation score stops improving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.packed_table import state_ranges
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.jobs import split_evenly, stop_point
from conjoin.learning.checkpointed_tasks import TaskRunner
from conjoin.learning.options import FORBIDDEN, REQUIRED, Options
from conjoin.models.cpd import log_normalized
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import BoostedTreesCPD

ROUNDS = 300
"""The maximum number of trees per target."""
LEAVES = 8
"""The maximum number of leaves per tree."""
RATE = 0.15
"""The learning rate: the factor of each tree's values."""
RIDGE = 1.0
"""The term added to the curvature in each leaf."""
PATIENCE = 10
"""The number of trees without an improvement of the validation score after which boosting stops."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with the sets that their states belong to."""

    codes: Codes
    weights: FloatArray
    set_of: IntArray
    var: IntArray
    state: IntArray

    @classmethod
    def of(cls, table: Table) -> Rows:
        """Merge equal rows and index the states that trees may split on."""
        codes, weights = merge_rows(table.codes, table.weights)
        cards = table.domain.cards
        var, state, _ = state_ranges(cards)
        set_of = np.full((len(cards), int(cards.max(initial=2))), -1, np.int64)
        set_of[var, state] = np.arange(len(var))
        return cls(codes, weights, set_of, var, state)

    def indexed(self) -> Any:
        """Return the rows as kernels take them."""
        from conjoin.kernels.boosting import IndexedRows

        return IndexedRows(self.codes, self.set_of, self.var, self.state)


def learn_boosted(
    table: Table,
    valid: Table | None,
    options: Options,
    rules: npt.NDArray[np.int8],
    rounds: IntArray | None = None,
    runner: TaskRunner | None = None,
) -> tuple[list[BoostedTreesCPD], IntArray, FloatArray]:
    """Boost a sum of small trees for every variable.

    Parameters
    ----------
    table : Table
        The training rows; a missing parent is in none of its states.
    valid : Table, optional
        The rows on which the number of trees is chosen, for each variable by itself.
    options : Options
        The minimum weight of rows in a leaf, and the count added to each state at the start.
    rules : array of int8, variables by targets
        Which variables may be split on. The first trees split on one required parent each, and on
        nothing else; they are kept whatever their validation score.
    rounds : array of int, optional
        The number of trees of each variable, where there are no validation rows.
    runner : TaskRunner, optional
        Runs the tasks, one per group of variables.

    Returns
    -------
    cpds : list of BoostedTreesCPD
    rounds : array of int
        The number of trees of each.
    scores : array of float
        The summed log-likelihood of each on the validation rows.
    """
    rows = Rows.of(table)
    held = None if valid is None else Rows.of(valid)
    cards = table.domain.cards
    limits = np.full(len(cards), ROUNDS) if rounds is None else rounds
    parts = split_evenly(list(range(len(cards))))
    tasks = [(rows, held, cards, part, options, rules, limits[part]) for part in parts]
    found = (runner or TaskRunner()).run(_boost_some, tasks, "boosted trees", list(map(len, parts)))
    done = [one for part in found for one in part]
    return [d[0] for d in done], np.array([d[1] for d in done]), np.array([d[2] for d in done])


def _boost_some(
    rows: Rows,
    held: Rows | None,
    cards: IntArray,
    targets: list[int],
    options: Options,
    rules: npt.NDArray[np.int8],
    limits: IntArray,
) -> list[tuple[BoostedTreesCPD, int, float]]:
    return [
        _boost(rows, held, cards, t, options, rules[:, t], int(limit))
        for t, limit in zip(targets, limits, strict=True)
    ]


def _boost(
    rows: Rows,
    held: Rows | None,
    cards: IntArray,
    target: int,
    options: Options,
    rules: npt.NDArray[np.int8],
    limit: int,
) -> tuple[BoostedTreesCPD, int, float]:
    """Boost one target; return its CPD, the number of trees and the validation score."""
    from conjoin.kernels.boosting import Derivatives, SmallTree, SplitRules, grow_small, walk_small

    card = int(cards[target])
    columns = 1 if card == 2 else card
    missing = np.iinfo(rows.codes.dtype).max
    known = np.flatnonzero(rows.codes[:, target] != missing)
    y = _one_hot(rows.codes[:, target], columns)
    counts = np.bincount(rows.codes[known, target], rows.weights[known], card) + options.pseudo
    start = np.log(counts)
    base = start[1:] - start[:1] if card == 2 else start - start.mean()
    z = np.tile(base, (len(rows.codes), 1))
    trees = [_constant(base, card)]
    kept, best, score = 1, -np.inf, 0.0
    if held is not None:
        held_known = held.codes[:, target] != missing
        held_z = np.tile(base, (len(held.codes), 1))
        best = score = _score(held_z, held, target, held_known)
    size = 2 * LEAVES
    everyone = (rules != FORBIDDEN) & (cards > 1)
    first = [np.arange(len(cards)) == parent for parent in np.flatnonzero(rules == REQUIRED)]
    for number in range(max(limit, len(first)) if card > 1 else 0):
        stop_point()
        required = number < len(first)
        allowed = first[number] if required else everyone
        p = _probabilities(z)
        weight = rows.weights[:, None]
        curvature = np.maximum(p * (1 - p), 1e-9) * weight
        slopes = Derivatives((p - y) * weight, curvature, rows.weights)
        split, yes, no = (np.full(size, -1, np.int64) for _ in range(3))
        value, leaf = np.zeros((size, columns)), np.zeros(len(rows.codes), np.int64)
        tree = SmallTree(split, yes, no, value)
        splits = SplitRules(allowed, float(options.min_leaf), RIDGE)
        nodes = grow_small(known.copy(), rows.indexed(), slopes, splits, LEAVES, tree, leaf)
        if nodes == 1 and required:
            continue
        if nodes == 1:
            break  # no split is left
        value *= RATE
        z[known] += value[leaf[known]]
        trees.append(_tree(cards, rows, split, yes, no, value, card))
        if held is None:
            kept = len(trees)
            continue
        ends = np.zeros(len(held.codes), np.int64)
        walk_small(held.indexed(), tree, ends)
        held_z += value[ends]
        score = _score(held_z, held, target, held_known)
        if score > best or required:
            best, kept = score, len(trees)
        elif len(trees) - kept >= PATIENCE:
            break
    return BoostedTreesCPD(cards, target, trees[:kept]), kept - 1, float(best if held else score)


def _one_hot(codes: npt.NDArray[Any], columns: int) -> FloatArray:
    states = np.array([1]) if columns == 1 else np.arange(columns)
    return (codes[:, None] == states).astype(np.float64)


def _probabilities(z: FloatArray) -> FloatArray:
    if z.shape[1] == 1:
        return 1 / (1 + np.exp(-z))
    return np.exp(log_normalized(z))


def _score(z: FloatArray, rows: Rows, target: int, known: BoolArray) -> float:
    """Return the summed log-likelihood of the rows on which the target is known."""
    full = np.column_stack([np.zeros(len(z)), z]) if z.shape[1] == 1 else z
    states = rows.codes[known, target].astype(np.int64)
    log_p = log_normalized(full[known])[np.arange(len(states)), states]
    return float(log_p @ rows.weights[known])


def _constant(base: FloatArray, card: int) -> Tree:
    return Tree.grow(0, lambda _: _leaf(base, card))


def _leaf(value: FloatArray, card: int) -> FloatArray:
    return np.concatenate([[0.0], value]) if card == 2 else value


def _tree(
    cards: IntArray,
    rows: Rows,
    split: IntArray,
    yes: IntArray,
    no: IntArray,
    value: FloatArray,
    card: int,
) -> Tree:
    """Return a small tree with a number for each state of the target in its leaves."""

    def visit(node: Any) -> object:
        chosen = int(split[node])
        if chosen < 0:
            return _leaf(value[node], card)
        var = int(rows.var[chosen])
        children = [int(no[node])] * int(cards[var])
        children[int(rows.state[chosen])] = int(yes[node])
        return var, children

    return Tree.grow(0, visit)
