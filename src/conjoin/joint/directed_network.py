"""Bayesian networks learned from a table, as one of the networks that `refine` chooses from.

Where a table comes from a sparse network of causes and effects, tables of each column given its parents
describe it with fewer parameters than weights of interactions, and their probabilities are counted,
not fitted step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from conjoin.conversion.interactions import pair_interactions
from conjoin.data.arrays import IntArray
from conjoin.data.holdout import sample_rows
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Table
from conjoin.inference.plan import MAX_MEMORY, find_order
from conjoin.joint.dependence_tree import mutual_information
from conjoin.joint.directed_search import (
    EQUIVALENT_ROWS,
    FamilyScores,
    Parents,
    search_parents,
)
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.markov import MarkovNetwork
from conjoin.models.table_cpd import TableCPD

MAX_CELLS = 1 << 18
"""The maximum number of cells of the tables of exact inference."""

CANDIDATES, WIDE_CANDIDATES, WIDE = 10, 5, 256
"""Number of candidate parents per column, for tables of at most `WIDE` columns and for wider ones."""

MUTUAL, NEW = 3, 4
"""How many candidates come from mutual information, and how many replace others for a second search."""

SEARCH_WORK = 5e7
"""About how many values are read to score structures; larger tables are sampled."""

SCREENED_ROWS = 2_000
"""Number of rows by which new candidates are chosen."""


def learn_structure(
    model: MarkovNetwork,
    table: Table,
    rng: np.random.Generator,
    max_cells: int | None = MAX_CELLS,
    promising: Callable[[list[Parents]], bool] | None = None,
) -> list[Parents]:
    """Return the parents of each column in the best structure found.

    `model`: the converted network; the strongest interactions of a column are candidate parents.
    `rng`: draws the rows to score structures by, if there are many, and the orders to start from.
    `max_cells`: maximum number of cells of all tables of exact inference; None for any number.
    `promising`: returns whether the result of the first search is worth a second one; by default it
    always is.
    """
    cards, size = table.domain.cards, len(table.domain)
    wide = size > WIDE
    count = WIDE_CANDIDATES if wide else CANDIDATES
    sets = count * count
    sample = sample_rows(table, max(SCREENED_ROWS, int(SEARCH_WORK / (sets * size))), rng)
    scores = FamilyScores(*merge_rows(sample.codes, sample.weights), cards)
    candidates = _first_candidates(model, sample, count)
    parents, order = search_parents(scores, candidates, rng)
    if not wide and (promising is None or promising(parents)):
        few = sample_rows(sample, SCREENED_ROWS, rng)
        screen = FamilyScores(*merge_rows(few.codes, few.weights), cards)
        candidates = _new_candidates(screen, parents, candidates)
        parents, _ = search_parents(scores, candidates, rng, order)
    return parents if max_cells is None else _within(parents, scores, cards, max_cells)


def fitted(table: Table, parents: Sequence[Parents]) -> BayesianNetwork:
    """Return the network with the given parents and probabilities counted from complete rows.

    The prior is worth a few rows, spread evenly over the joint states of a column and its parents.
    """
    cards = table.domain.cards
    weights = np.ones(len(table)) if table.weights is None else table.weights
    count, cpds = FamilyScores(table.codes, weights, cards).counts, []
    for child, own in enumerate(parents):
        counts = count(child, own)
        counts += EQUIVALENT_ROWS / counts.size
        log_p = np.log(counts / counts.sum(axis=1, keepdims=True))
        cpds.append(TableCPD(cards, child, own, log_p.reshape(cards[[*own, child]])))
    return BayesianNetwork(table.domain, cpds)


def _first_candidates(model: MarkovNetwork, table: Table, count: int) -> list[list[int]]:
    """Return the columns that each column interacts with most, or has most information about."""
    size = len(table.domain)
    pairs = pair_interactions(model, table)
    strength, information = np.zeros((size, size)), mutual_information(table)
    strength[pairs.left, pairs.right] = strength[pairs.right, pairs.left] = pairs.strength
    np.fill_diagonal(information, -np.inf)
    candidates = []
    for v in range(size):
        by_strength = np.argsort(-strength[v], kind="stable")[: count - MUTUAL]
        chosen = by_strength[strength[v][by_strength] > 0].tolist()
        by_information = np.argsort(-information[v], kind="stable").tolist()
        chosen += [u for u in by_information if u != v and u not in chosen][: count - len(chosen)]
        candidates.append(sorted(chosen))
    return candidates


def _new_candidates(
    scores: FamilyScores, parents: Sequence[Parents], candidates: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return parents, children and the columns that would improve the score most as one more parent."""
    size = len(parents)
    linked = [set(own) for own in parents]
    for child, own in enumerate(parents):
        for u in own:
            linked[u].add(child)
    found = []
    for v, own in enumerate(parents):
        others = [u for u in range(size) if u != v and u not in linked[v]]
        gain = dict(zip(others, scores.with_one_more(v, own, others), strict=True))
        new = sorted(others, key=lambda u: (-gain[u], u))[:NEW]
        near = sorted(linked[v], key=lambda u: (u not in own, u))
        kept = [u for u in candidates[v] if u not in linked[v] and u not in new]
        found.append(sorted([*near, *new, *kept][:CANDIDATES]))
    return found


def _within(
    parents: Sequence[Parents], scores: FamilyScores, cards: IntArray, max_cells: int
) -> list[Parents]:
    """Return the structure without the edges that matter least, until exact inference is cheap."""
    edges = [(u, v) for v, own in enumerate(parents) for u in own]
    loss = [scores(v, parents[v]) - scores(v, _without(parents[v], u)) for u, v in edges]
    weakest = sorted(range(len(edges)), key=lambda e: (loss[e], edges[e]))

    def left(dropped: int) -> list[Parents]:
        gone = {edges[e] for e in weakest[:dropped]}
        return [tuple(u for u in own if (u, v) not in gone) for v, own in enumerate(parents)]

    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2 if low else 0  # most structures fit as they are
        if cells(left(middle), cards) <= max_cells:
            high = middle
        else:
            low = middle + 1
    return left(low)


def _without(parents: Parents, one: int) -> Parents:
    return tuple(u for u in parents if u != one)


def cells(parents: Sequence[Parents], cards: IntArray) -> float:
    """Return the number of cells that exact inference needs."""
    scopes = [(*own, child) for child, own in enumerate(parents)]
    first = np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(np.int64)
    members = np.array([v for s in scopes for v in s], np.int64)
    order = find_order(cards, first, members, np.zeros(0, np.int64), MAX_MEMORY)
    return float(order.total)
