"""Which columns go together overall, and where the explorer's graph puts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.inference import exact
from conjoin.models.network import Network
from conjoin.reports.layout import MAX_VARIABLES, arrange, chosen_links, shortened, text_width
from conjoin.reports.links import pair_joints

MAX_SECONDS = 60.0
"""Forecast time up to which all pairs are computed exactly; beyond it they are counted in drawn rows."""

DRAWS = 20_000
"""Number of rows that are drawn then."""

MAX_PAIRS = 300
"""Maximum number of pairs that the page lists."""

ASPECT, SPACE = 0.55, 2.2
"""The shape of the graph, width by height, and its area divided by that of its boxes."""

MAX_LETTERS = 16
"""Longer names are shortened in the graph."""

SMALLEST = 1e-4
"""Pairs that share fewer bits than this are not listed."""


@dataclass(frozen=True, eq=False)
class Associations:
    """The mutual information of pairs of columns.

    Attributes
    ----------
    bits : array, shape (columns, columns)
        In bits, symmetric; the diagonal holds the entropies.
    exact : bool
        Whether it is computed from the model, rather than counted in rows.
    """

    bits: FloatArray
    exact: bool

    def strongest(self, count: int = MAX_PAIRS) -> IntArray:
        """Return the pairs that share most, as rows (column, column)."""
        left, right = np.triu_indices(len(self.bits), 1)
        found = self.bits[left, right]
        order = np.argsort(-found, kind="stable")[:count]
        order = order[found[order] >= SMALLEST]
        return np.stack([left[order], right[order]], axis=1)


def associations(model: Network) -> Associations:
    """Measure how much any two visible columns of a model tell about each other."""
    cards = model.domain.observed.cards
    if exact.forecast(model).seconds * float(cards.sum()) > MAX_SECONDS:
        return Associations(counted(exact.sample(model, DRAWS)), False)
    return Associations(_bits(pair_joints(model), cards), True)


def counted(table: Table) -> FloatArray:
    """Return the mutual information of the columns of a table, in bits; missing values are left out."""
    cards = table.domain.cards
    first = np.cumsum(cards) - cards
    weights = np.ones(len(table)) if table.weights is None else table.weights
    held = np.zeros((len(table), int(cards.sum())), np.float32)
    codes = table.codes.astype(np.int64)
    for v, card in enumerate(cards.tolist()):
        known = np.flatnonzero(codes[:, v] < card)
        held[known, first[v] + codes[known, v]] = 1.0
    joints = (held * weights[:, None].astype(np.float32)).T @ held
    return _bits(joints.astype(np.float64), cards)


def _bits(joints: FloatArray, cards: IntArray) -> FloatArray:
    """Return mutual information from the joint weights of any two states of all columns."""
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
    found: Associations, names: tuple[str, ...], linked: list[tuple[int, ...]]
) -> dict[str, Any]:
    """Return the picture of the graph: places of the columns, and the links between them.

    Parameters
    ----------
    found : Associations
        How strongly columns go together.
    names : tuple of str
        The columns.
    linked : list of tuple of int
        For each column those that share a factor with it: their links are direct.
    """
    n = len(names)
    pairs = found.strongest(n * (n - 1) // 2)
    shown = np.arange(n)
    if n > MAX_VARIABLES:
        by_link = dict.fromkeys([*pairs.ravel().tolist(), *range(n)])
        shown = np.array(sorted(list(by_link)[:MAX_VARIABLES]), np.int64)
    place = np.full(n, -1, np.int64)
    place[shown] = np.arange(len(shown))
    ends = place[pairs].reshape(-1, 2)
    ends = ends[(ends >= 0).all(axis=1)]
    ends = ends[chosen_links(ends, len(shown))]
    labels = [shortened(names[v], MAX_LETTERS) for v in shown]
    width = np.array([text_width(label) + 1.4 for label in labels])
    centre, size = arrange(width, ends, np.random.default_rng(0), ASPECT, SPACE)
    largest = max((float(found.bits[shown[a], shown[b]]) for a, b in ends), default=1.0)
    return {
        "size": [round(x, 2) for x in size],
        "nodes": [
            {"column": int(v), "label": label, "x": round(float(x), 2), "y": round(float(y), 2),
             "width": round(float(w), 2)}
            for v, label, (x, y), w in zip(shown, labels, centre, width, strict=True)
        ],
        "links": [
            {"ends": [int(a), int(b)],
             "strength": round(float(found.bits[shown[a], shown[b]]) / largest, 4),
             "direct": int(shown[b]) in linked[shown[a]]}
            for a, b in ends
        ],
    }  # fmt: skip
