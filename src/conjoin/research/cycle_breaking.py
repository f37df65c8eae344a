"""Breaking the cycles of a dependency network (Hulten, Chickering and Heckerman, 2003).

An edge from j to i says that the conditional of i depends on j. It costs what that conditional loses in
score when it is learned again without j. The cheapest edge on a cycle is removed, the conditional that
lost it is learned again, and so on until no cycle is left. An edge is on a cycle if both of its ends are
in one strongly connected component of the graph. Each removal changes the costs of one variable.

Conditionals are trees here. Their score is the one that they are grown for: the log-likelihood of the
training rows, less -log(kappa) for each split. Only the columns that a tree may use are counted, which
makes growing it again cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from conjoin.data import Table
from conjoin.data.arrays import IntArray
from conjoin.data.packed_table import PackedTable, pack_table
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
        self._columns = np.unique([self.target, *self.parents])

    @cached_property
    def _data(self) -> PackedTable:
        codes = self.table.codes[:, self._columns]
        known = np.where(codes == self.table.missing, -1, codes.astype(np.int64))
        domain = self.table.domain.subset(self._columns.tolist())
        return pack_table(Table(domain, known, self.table.weights))

    @cached_property
    def _index(self) -> SetIndex:
        return SetIndex.build(self._data, self.options.pseudo)

    def _grown(self, allowed: Collection[int]) -> NestedTree:
        target = int(np.searchsorted(self._columns, self.target))
        rules = np.full(len(self._columns), FORBIDDEN, np.int8)
        rules[np.isin(self._columns, list(allowed))] = ALLOWED
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


def strong_components(parents: Sequence[Collection[int]]) -> IntArray:
    """Return the number of the strongly connected component of each variable."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    first = np.cumsum([0, *map(len, parents)])
    tails = np.array([u for some in parents for u in some], np.int32)
    graph = csr_array((np.ones(len(tails), np.int8), tails, first), shape=(len(parents),) * 2)
    component: IntArray = connected_components(graph, connection="strong")[1].astype(np.int64)
    return component


def acyclic_parents(families: Sequence[TreeFamily], parents: Sequence[Parents]) -> list[Parents]:
    """Remove the cheapest edges on cycles until no cycle is left, and return the parents.

    Of equally cheap edges the first variable's is removed, and of these that of the first parent.
    """
    fits = [family.fit(allowed) for family, allowed in zip(families, parents, strict=True)]
    costs: list[dict[int, float]] = [{} for _ in fits]  # of the edges to each variable, if known

    def without(i: int, j: int) -> Fit:
        return families[i].fit([u for u in fits[i].parents if u != j])

    while True:
        left = [fit.parents for fit in fits]
        component = strong_components(left).tolist()
        on_cycles = [
            (i, j) for i, some in enumerate(left) for j in some if component[i] == component[j]
        ]
        if not on_cycles:
            return left
        for i, j in on_cycles:
            if j not in costs[i]:
                stop_point()
                costs[i][j] = fits[i].score - without(i, j).score
        i, j = min(on_cycles, key=lambda edge: (costs[edge[0]][edge[1]], *edge))
        fits[i], costs[i] = without(i, j), {}
