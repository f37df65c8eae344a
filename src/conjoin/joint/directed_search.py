"""A search for the parents of each column: the structure of a Bayesian network.

The score of a structure is a sum over columns, each given its parents: the logarithm of the probability
of the rows under a uniform Dirichlet prior (BDeu). Given an order of the columns, the best parents of
each can be chosen independently among those before it; so the search is over orders (Teyssier and
Koller, 2005). A column moves to the place in the order that improves the score most, until no move helps;
then some columns are displaced at random, and the search goes on from there, several times.

Parents are chosen among a few candidates per column. As in the sparse candidate algorithm (Friedman,
Nachman and Pe'er, 1999), the search is repeated with the columns that tell most about a column beyond
its parents as new candidates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes

Parents = tuple[int, ...]
"""The parents of a column by position, in increasing order."""

EQUIVALENT_ROWS = 4.0
"""The number of rows that the prior is worth."""

MAX_FAMILY_CELLS = 1 << 14
"""The maximum number of joint states of a column and its parents."""

MAX_PARENTS, BEAM = 6, 10
"""The maximum number of parents, and how many of the best sets of parents are extended by one more."""

RESTARTS, DISPLACED = 60, 6
"""How often columns are displaced at random, and how many of them."""


class FamilyScores:
    """The scores of columns given their parents (BDeu), for some rows.

    Examples
    --------
    >>> rows = np.array([[0, 0], [0, 0], [1, 1], [1, 1]] * 5)
    >>> scores = FamilyScores(rows, np.ones(20), np.array([2, 2]))
    >>> scores(1, (0,)) > scores(1, ())  # the second column is a copy of the first
    True
    """

    def __init__(self, codes: Codes, weights: FloatArray, cards: IntArray) -> None:
        self.columns = np.ascontiguousarray(codes.T.astype(np.int64))
        self.cards = cards.tolist()
        self.weights = None if (weights == 1).all() else weights
        self._known: dict[tuple[int, Parents], float] = {}

    def counts(self, child: int, parents: Parents) -> FloatArray:
        """Return the weight of the rows by joint state of the parents, and state of the child."""
        cell, size = self._cells((*parents, child))
        return self._counted(cell, size, child)

    def _cells(self, scope: Sequence[int]) -> tuple[IntArray, int]:
        """Number the joint states of some columns, the last one fastest: each row's, and how many."""
        cell, size = np.zeros(self.columns.shape[1], np.int64), 1
        for v in scope:
            cell *= self.cards[v]
            cell += self.columns[v]
            size *= self.cards[v]
        return cell, size

    def _counted(self, cell: IntArray, size: int, child: int) -> FloatArray:
        counts = np.bincount(cell, self.weights, minlength=size).astype(np.float64, copy=False)
        return counts.reshape(-1, self.cards[child])

    def __call__(self, child: int, parents: Parents) -> float:
        """Return the score of a column given its parents; -inf if they have too many states."""
        key = (child, parents)
        if key not in self._known:
            fits = self._size(child, parents) <= MAX_FAMILY_CELLS
            self._known[key] = _score(self.counts(child, parents)) if fits else -np.inf
        return self._known[key]

    def with_one_more(self, child: int, parents: Parents, others: Sequence[int]) -> list[float]:
        """Return the scores of a column given its parents and one of some others."""
        keys = [(child, tuple(sorted((*parents, u)))) for u in others]
        new = [u for u, key in zip(others, keys, strict=True) if key not in self._known]
        if new and self._size(child, parents) <= MAX_FAMILY_CELLS:
            cell, size = self._cells((*parents, child))
            for u in new:
                value, larger = -np.inf, size * self.cards[u]
                if larger <= MAX_FAMILY_CELLS:
                    both = self.columns[u] * size
                    both += cell
                    value = _score(self._counted(both, larger, child))
                self._known[child, tuple(sorted((*parents, u)))] = value
        return [self._known.get(key, -np.inf) for key in keys]

    def _size(self, child: int, parents: Parents) -> float:
        return float(np.prod([self.cards[v] for v in (child, *parents)], dtype=float))


def _score(counts: FloatArray) -> float:
    """Return the BDeu score of counts by joint state of the parents, and state of the child."""
    from scipy.special import gammaln

    prior = EQUIVALENT_ROWS / counts.size
    total = counts.sum(axis=1)
    if not total.all():
        counts, total = counts[total > 0], total[total > 0]
    prior_total = prior * counts.shape[1]
    value = gammaln(counts + prior).sum() - gammaln(total + prior_total).sum()
    return float(value + len(total) * gammaln(prior_total) - counts.size * gammaln(prior))


class BestParents(NamedTuple):
    """The best parents of a column for each set of candidates that are allowed.

    Sets of candidates are written as bits: candidate j is in the set if bit j is 1.
    """

    # The score of the best parents within each set of candidates; shape (2 ** candidates,)
    score: FloatArray
    chosen: IntArray  # these parents; shape (2 ** candidates,)

    @classmethod
    def of(cls, scores: FamilyScores, child: int, candidates: Sequence[int]) -> BestParents:
        """Score sets of parents of growing size, extending only the best; others are left out."""
        count = len(candidates)
        score, chosen = np.full(1 << count, -np.inf), np.arange(1 << count)
        score[0], level = scores(child, ()), [0]
        for _ in range(min(MAX_PARENTS, count)):
            larger = set()
            for s in level:
                bits = [j for j in range(count) if not s >> j & 1 and s | 1 << j not in larger]
                more = [candidates[j] for j in bits]
                found = scores.with_one_more(child, _members(candidates, s), more)
                for j, value in zip(bits, found, strict=True):
                    score[s | 1 << j] = value
                    larger.add(s | 1 << j)
            level = sorted(larger, key=lambda s: (-score[s], s))[:BEAM]
            if level[0].bit_count() > 1 and not any(_helps(score, s) for s in larger):
                break
        for j in range(count):  # the best subset of every set
            by_bit, parents = score.reshape(-1, 2, 1 << j), chosen.reshape(-1, 2, 1 << j)
            smaller = by_bit[:, 0] >= by_bit[:, 1]
            by_bit[:, 1] = np.where(smaller, by_bit[:, 0], by_bit[:, 1])
            parents[:, 1] = np.where(smaller, parents[:, 0], parents[:, 1])
        return cls(score, chosen)


def _members(candidates: Sequence[int], bits: int) -> Parents:
    return tuple(c for j, c in enumerate(candidates) if bits >> j & 1)


def _helps(score: FloatArray, bits: int) -> bool:
    """Return whether a set of parents is better than each of its subsets with one fewer."""
    return all(
        score[bits] > score[bits & ~(1 << j)] for j in range(bits.bit_length()) if bits >> j & 1
    )


class OrderSearch:
    """The search for the best order of the columns."""

    def __init__(self, best: Sequence[BestParents], candidates: Sequence[Sequence[int]]) -> None:
        self.best, self.candidates = best, candidates
        self.tables = [b.score for b in best]
        size = len(candidates)
        self.bit = [{u: 1 << j for j, u in enumerate(own)} for own in candidates]
        related: list[set[int]] = [set(own) for own in candidates]
        for child, own in enumerate(candidates):
            for u in own:
                related[u].add(child)
        self.related = [sorted(r) for r in related]
        self.place = [0] * size
        self.arrange(range(size))

    def arrange(self, order: Sequence[int]) -> None:
        """Start from an order."""
        self.order = list(order)
        for number, v in enumerate(self.order):
            self.place[v] = number
        place = self.place
        self.allowed = [
            sum(bit for u, bit in own.items() if place[u] < place[v])
            for v, own in enumerate(self.bit)
        ]

    @property
    def score(self) -> float:
        """The score of the best structure for the present order."""
        return float(sum(t[a] for t, a in zip(self.tables, self.allowed, strict=True)))

    @property
    def parents(self) -> list[Parents]:
        """The parents of each column in this structure."""
        chosen = [int(b.chosen[a]) for b, a in zip(self.best, self.allowed, strict=True)]
        return [_members(own, s) for own, s in zip(self.candidates, chosen, strict=True)]

    def run(self, rng: np.random.Generator) -> None:
        """Search from the present order, and from variations of the best order found."""
        self.climb(rng.permutation(len(self.order)).tolist())
        size, best, order = len(self.order), self.score, list(self.order)
        for _ in range(RESTARTS if size > 2 else 0):
            moved, displaced = list(order), rng.choice(size, min(DISPLACED, size), replace=False)
            for v in displaced.tolist():
                moved.remove(v)
                moved.insert(int(rng.integers(size)), v)
            self.arrange(moved)
            self.climb([u for v in displaced.tolist() for u in (v, *self.related[v])])
            if self.score > best + 1e-9:
                best, order = self.score, list(self.order)
        self.arrange(order)

    def climb(self, columns: Sequence[int]) -> None:
        """Move columns one at a time, each to its best place, until none improves the score.

        `columns`: the columns to try first; after a move, those whose best place may have changed.
        """
        queue = deque(dict.fromkeys(columns))
        waiting = set(queue)
        while queue:
            v = queue.popleft()
            waiting.discard(v)
            passed = self._move(v)
            for u in (v, *passed) if passed else ():
                for w in self.related[u]:
                    if w not in waiting:
                        waiting.add(w)
                        queue.append(w)

    def _move(self, v: int) -> Sequence[int]:
        """Move a column to its best place in the order; return the related ones that it passes."""
        place, tables, allowed = self.place, self.tables, self.allowed
        near = sorted(self.related[v], key=place.__getitem__)
        before = [u for u in near if place[u] < place[v]][::-1]
        after = [u for u in near if place[u] > place[v]]
        own, start = self.bit[v], tables[v][allowed[v]]
        best, passed = 1e-9, before[:0]
        for way in (before, after):
            mine, gain = allowed[v], 0.0
            for number, u in enumerate(way, 1):
                mine ^= own.get(u, 0)
                bit = self.bit[u].get(v, 0)
                if bit:
                    gain += tables[u][allowed[u] ^ bit] - tables[u][allowed[u]]
                if gain + tables[v][mine] - start > best:
                    best, passed = gain + tables[v][mine] - start, way[:number]
        if not passed:
            return passed
        for u in passed:
            allowed[v] ^= own.get(u, 0)
            allowed[u] ^= self.bit[u].get(v, 0)
        there = place[passed[-1]]
        self.order.remove(v)
        self.order.insert(there, v)
        low, high = min(there, place[v]), max(there, place[v])
        for p in range(low, high + 1):
            place[self.order[p]] = p
        return passed


def search_parents(
    scores: FamilyScores,
    candidates: Sequence[Sequence[int]],
    rng: np.random.Generator,
    order: Sequence[int] | None = None,
) -> tuple[list[Parents], list[int]]:
    """Return the parents of each column in the best structure found, and an order of the columns.

    `candidates`: the columns that may be parents of each column, in increasing order; at most about
    14. Returns `parents`, the parents of each column; `order`, an order in which parents come
    before their children.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 2, (2, 500))
    >>> rows = np.stack([a, b, a ^ b], axis=1)  # each depends on the other two, but on neither alone
    >>> scores = FamilyScores(rows, np.ones(500), np.array([2, 2, 2]))
    >>> parents, _ = search_parents(scores, [[1, 2], [0, 2], [0, 1]], rng)
    >>> sorted(len(p) for p in parents)
    [0, 0, 2]
    """
    best = [BestParents.of(scores, v, own) for v, own in enumerate(candidates)]
    search = OrderSearch(best, candidates)
    search.arrange(rng.permutation(len(candidates)).tolist() if order is None else order)
    search.run(rng)
    return search.parents, search.order
