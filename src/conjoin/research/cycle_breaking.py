"""Breaking the cycles of a dependency network (Hulten, Chickering and Heckerman, 2003).

An edge from j to i says that the conditional of i depends on j. It costs what that conditional loses in
score when it is learned again without j. The cheapest edge on a cycle is removed, the conditional that
lost it is learned again, and so on until no cycle is left. An edge is on a cycle if both of its ends are
in one strongly connected component of the graph; components only break apart, so that each removal
changes the costs of one variable and the components within one component.

Conditionals are trees here. Their score is the one that they are grown for: the log-likelihood of the
training rows, less -log(kappa) for each split. Only the columns that a tree may use are counted, which
makes growing it again cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from conjoin.data import Table
from conjoin.data.arrays import IntArray
from conjoin.data.packed_table import pack_table
from conjoin.data.parent_rules import ALLOWED, FORBIDDEN
from conjoin.jobs import stop_point
from conjoin.learning.options import Options
from conjoin.learning.tree_path import NestedTree, SetIndex, gain_needed
from conjoin.models import TreeCPD

Parents = tuple[int, ...]
"""The parents of a variable by position, in increasing order."""


class Fit(NamedTuple):
    """A conditional that was learned within some allowed parents."""

    score: float  # only differences between the fits of one variable have a meaning
    parents: Parents  # those that it uses


@dataclass
class TreeFamily:
    """The trees of one variable within any of some parents."""

    table: Table
    target: int
    parents: Collection[int]  # those that trees may use
    kappa: float
    options: Options
    _fits: dict[frozenset[int], Fit] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = sorted({self.target, *self.parents})
        codes = self.table.codes[:, columns]
        known = np.where(codes == self.table.missing, -1, codes.astype(np.int64))
        rows = Table(self.table.domain.subset(columns), known, self.table.weights)
        self._columns = np.array(columns, np.int64)
        self._place = {v: p for p, v in enumerate(columns)}
        self._data = pack_table(rows)
        self._index = SetIndex.build(self._data, self.options.pseudo)

    def _grown(self, allowed: Collection[int]) -> NestedTree:
        target = self._place[self.target]
        rules = np.full(len(self._columns), FORBIDDEN, np.int8)
        rules[[self._place[u] for u in allowed]] = ALLOWED
        tree = NestedTree(target, int(self._data.cards[target]))
        tree.grow(self._data, self._index, gain_needed(self.kappa), self.options, rules)
        return tree

    def fit(self, allowed: Collection[int]) -> Fit:
        """Grow a tree that splits on no other variables than these."""
        key = frozenset(allowed)
        if key not in self._fits:
            tree, needed = self._grown(key), gain_needed(self.kappa)
            inner = np.flatnonzero(tree.yes[: tree.size] >= 0)
            used = sorted(set(self._data.set_var[tree.split[inner]].tolist()))
            score = float((tree.gains[inner] - needed).sum())
            self._fits[key] = Fit(score, tuple(self._columns[used].tolist()))
        return self._fits[key]

    def within(self, parents: Parents, max_cells: float) -> Parents:
        """Return parents without those that cost least, until their table is small enough."""
        cards = self.table.domain.cards
        while np.prod(cards[[*parents, self.target]], dtype=float) > max_cells and parents:
            scores = {j: self.fit([u for u in parents if u != j]).score for j in parents}
            cheapest = max(parents, key=scores.__getitem__)
            parents = tuple(u for u in parents if u != cheapest)
        return parents

    def cpd(self, allowed: Collection[int]) -> TreeCPD:
        """Return the tree that splits on no other variables than these."""
        tree = self._grown(allowed)
        cpd = tree.to_cpd(self._data, gain_needed(self.kappa), self.options.pseudo)
        return cpd.moved(self.table.domain.cards, self._columns)


def strong_components(parents: Sequence[Collection[int]], members: Sequence[int]) -> IntArray:
    """Return the number of the strongly connected component of each of some variables, within these."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    place = {v: p for p, v in enumerate(members)}
    edges = [[place[u] for u in parents[v] if u in place] for v in members]
    first = np.cumsum([0, *map(len, edges)])
    heads = np.array([u for tails in edges for u in tails], np.int32)
    size = len(members)
    graph = csr_array((np.ones(len(heads), np.int8), heads, first), shape=(size, size))
    component: IntArray = connected_components(graph, connection="strong")[1].astype(np.int64)
    return component


def acyclic_parents(families: Sequence[TreeFamily], parents: Sequence[Parents]) -> list[Parents]:
    """Remove the cheapest edges on cycles until no cycle is left, and return the parents.

    Of equally cheap edges the first variable's is removed, and of these that of the first parent.
    """
    fits = [family.fit(allowed) for family, allowed in zip(families, parents, strict=True)]
    left = [fit.parents for fit in fits]
    component = strong_components(left, range(len(left)))
    version = [0] * len(left)
    largest = int(component.max(initial=0))

    def on_cycles(i: int) -> list[tuple[float, int, int, int]]:
        stop_point()
        costs = []
        for j in left[i]:
            if component[i] == component[j]:
                without = families[i].fit([u for u in left[i] if u != j])
                costs.append((fits[i].score - without.score, i, j, version[i]))
        return costs

    heap = [edge for i in range(len(left)) for edge in on_cycles(i)]
    heapify(heap)
    while heap:
        _, i, j, number = heappop(heap)
        if number != version[i] or component[i] != component[j]:
            continue  # an older cost, or no longer on a cycle
        fits[i] = families[i].fit([u for u in left[i] if u != j])
        left[i] = fits[i].parents
        version[i] += 1
        # Components only break apart: the others stay as they are.
        members = np.flatnonzero(component == component[i])
        component[members] = largest + 1 + strong_components(left, members.tolist())
        largest += 1 + len(members)
        for edge in on_cycles(i):
            heappush(heap, edge)
    return left
