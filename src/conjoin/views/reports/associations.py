"""Which columns go together overall, and the picture of their graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.inference import exact
from conjoin.inference.plan import TooLarge
from conjoin.inference.sampling import sample
from conjoin.joint.dependence_tree import pair_counts
from conjoin.joint.pair_links import pair_joints
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network
from conjoin.views.reports.layout import Shape, draw

MAX_SECONDS = 60.0
"""Forecast time up to which all pairs are computed exactly; beyond it they are counted in drawn rows."""

DRAWS = 20_000
"""Number of rows that are drawn then."""

MAX_PAIRS = 300
"""Maximum number of pairs that the page lists."""


NARROW = Shape(0.55, 2.2, 16, padding=1.4)
"""The explorer's panel."""

WIDE = Shape(2.2, 2.8, 22, 0.75, padding=1.4)
"""The report, and cards in notebooks."""

SMALLEST = 1e-4
"""Pairs that share fewer bits than this are not listed."""


@dataclass(frozen=True, eq=False)
class PairJoints:
    """The joint distributions of all pairs of columns, and what any two columns share."""

    domain: Domain
    weights: FloatArray  # of any two states together; those of all columns are numbered in a row
    exact: bool  # whether the weights are computed from a model, rather than counted in rows

    @cached_property
    def bits(self) -> FloatArray:
        """The mutual information of columns, columns by columns; the diagonal holds the entropies."""
        return _bits(self.weights, self.domain.cards)

    @cached_property
    def shares(self) -> FloatArray:
        """The bits divided by the geometric mean of the entropies: 0 if independent, 1 for copies.

        Of counted rows, the bits that independent columns are expected to share by chance do not count.
        """
        entropy = self.bits.diagonal()
        chance = np.zeros_like(self.bits) if self.exact else self._chance
        scale = np.sqrt(np.outer(entropy, entropy))
        most = np.maximum(scale - chance, 0.0)
        shares = np.divide(self.bits - chance, most, out=np.zeros_like(scale), where=most > 1e-9)
        return np.clip(shares, 0.0, 1.0)

    @cached_property
    def _chance(self) -> FloatArray:
        """The bits that independent columns share on average in as many rows (Miller and Madow)."""
        first = np.cumsum(self.domain.cards) - self.domain.cards
        seen = np.add.reduceat(self.weights.diagonal() > 0, first).astype(np.float64)
        rows = np.add.reduceat(np.add.reduceat(self.weights, first, axis=0), first, axis=1)
        free = np.outer(seen - 1, seen - 1)
        return np.asarray(free / np.maximum(2 * rows * np.log(2), 1e-300))

    def strongest(self, count: int = MAX_PAIRS) -> IntArray:
        """Return the pairs that share most, as rows (column, column)."""
        left, right = np.triu_indices(len(self.bits), 1)
        bits = self.bits[left, right]
        order = np.argsort(-bits, kind="stable")[:count]
        order = order[bits[order] >= SMALLEST]
        return np.stack([left[order], right[order]], axis=1)

    def pair(self, i: int, j: int) -> FloatArray:
        """Return the joint distribution of two columns; zeros if no row knows both."""
        block = self.weights[self._states(i), self._states(j)]
        return block / max(float(block.sum()), 1e-300)

    def may_be_chance(self, i: int, j: int) -> bool:
        """Return whether independent columns could easily show as much association in as many rows.

        Twice the mutual information of n rows, in nats, has a chi-squared distribution if the columns are
        independent; up to three standard deviations above its mean it may be chance.
        """
        if self.exact:
            return False
        block = self.weights[self._states(i), self._states(j)]
        seen = [int((block.sum(axis=axis) > 0).sum()) for axis in (0, 1)]
        free = max(seen[0] - 1, 0) * max(seen[1] - 1, 0)
        nats = float(self.bits[i, j]) * np.log(2)
        return bool(2 * block.sum() * nats <= free + 3 * np.sqrt(2 * free))

    def single(self, i: int) -> FloatArray:
        """Return the distribution of a column."""
        return self.pair(i, i).diagonal()

    def _states(self, i: int) -> slice:
        last = int(self.domain.cards[: i + 1].sum())
        return slice(last - int(self.domain.cards[i]), last)


def joints_of(model: Network, max_seconds: float = MAX_SECONDS) -> PairJoints:
    """Return the joint distributions of all pairs of visible columns of a network.

    If exact ones would take more than `max_seconds`, or are unknown, drawn rows are counted.
    """
    domain = model.domain.observed
    if not isinstance(model, DependencyNetwork):
        try:
            if exact.forecast(model).seconds * float(domain.cards.sum()) <= max_seconds:
                return PairJoints(domain, pair_joints(model), True)
        except TooLarge:
            pass
    return counted_joints(sample(model, DRAWS))


def counted_joints(table: Table) -> PairJoints:
    """Count any two states in the rows of a table; rows without one of two values are left out."""
    return PairJoints(table.domain, pair_counts(table)[0], False)


def _bits(joints: FloatArray, cards: IntArray) -> FloatArray:
    """Return mutual information from the joint weights of any two states of all columns."""
    if not len(cards):
        return np.zeros((0, 0))
    first = np.cumsum(cards) - cards

    def blocks(cells: FloatArray) -> FloatArray:
        return np.add.reduceat(np.add.reduceat(cells, first, axis=0), first, axis=1)

    spread = np.repeat(np.arange(len(cards)), cards)
    total = blocks(joints)[spread][:, spread]
    rows = np.add.reduceat(joints, first, axis=1)[:, spread]
    with np.errstate(divide="ignore", invalid="ignore"):
        p = joints / total
        terms = p * np.log2(joints * total / (rows * rows.T))
    terms[~np.isfinite(terms)] = 0.0
    return np.maximum(blocks(terms), 0.0)


def graph(
    shared: PairJoints,
    names: tuple[str, ...],
    linked: list[tuple[int, ...]],
    shape: Shape = NARROW,
) -> dict[str, Any]:
    """Return the picture of the graph: places of the columns, and the links between them.

    A link is direct if `linked`, the columns with which a column shares a factor, has its other end.
    """
    pairs = shared.strongest(len(names) * (len(names) - 1) // 2)
    drawing = draw(names, pairs, shared.bits[tuple(pairs.T)], shape)
    columns = drawing.variables.tolist()
    boxes = zip(columns, drawing.labels, drawing.centre, drawing.width, strict=True)
    links = zip(drawing.pairs.tolist(), drawing.strength, strict=True)
    return {
        "size": [round(x, 2) for x in drawing.size],
        "nodes": [
            {"column": v, "label": label, "x": round(float(x), 2), "y": round(float(y), 2),
             "width": round(float(width), 2)}
            for v, label, (x, y), width in boxes
        ],
        "links": [
            {"ends": ends, "strength": round(float(strength), 4),
             "direct": columns[ends[1]] in linked[columns[ends[0]]]}
            for ends, strength in links
        ],
    }  # fmt: skip
