"""The orders over which the conversion averages (the paper's Section 5.2).

An order decides which tests of a feature survive: those on variables that come after the target
(Table 2; variables that come before it are fixed to their value in the base instance). Seen
cyclically from the target, the tests that one rotation keeps are a prefix of the row, so all
rotations of an order keep exactly the prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.errors import ModelError


@dataclass(frozen=True, eq=False)
class Orders:
    """A family of orders, all with the same weight."""

    # For each order, the place of every variable in it (the paper's o^-1); empty for all orders.
    ranks: tuple[IntArray, ...]
    rotations: bool = False  # whether each order stands for all of its rotations

    @property
    def everything(self) -> bool:
        """Whether the family consists of all orders."""
        return not self.ranks

    def prefix_fractions(self, ranks: IntArray, owner: IntArray, places: IntArray) -> FloatArray:
        """Return the fraction of the orders with these ranks that keep each prefix, prefixes by rows.

        `places` (orders * rows by tests) are the places of the tested variables, counted cyclically from
        the row's owner, ascending.
        """
        size = ranks.shape[1]
        lines = places.T
        if self.rotations:
            # A prefix is kept if the rotation starts between its last test and the next one, so the
            # number of such rotations is the width of the gap.
            gaps = np.empty(lines.shape)
            np.subtract(lines[1:], lines[:-1], out=gaps[:-1])
            np.subtract(size, lines[-1], out=gaps[-1])
            gaps /= size
            return gaps
        kept = (lines < (size - ranks[:, owner]).ravel()).sum(axis=0)
        return (np.arange(1, len(lines) + 1)[:, None] == kept).astype(np.float64)

    def first_of_pair(self, first: IntArray, second: IntArray) -> FloatArray:
        """Return the fraction of orders in which one variable comes before another."""
        if self.everything:
            return np.full(len(first), 0.5)
        total = np.zeros(len(first))
        for rank in self.ranks:
            gap = rank[first] - rank[second]
            total += (gap % len(rank)) / len(rank) if self.rotations else gap < 0
        return total / len(self.ranks)


def resolve_orders(
    domain: Domain, orders: str, order: Sequence[Any] | None, reverse: bool
) -> Orders:
    """Return the family of orders for the options of `convert`."""
    if orders not in ("single", "rotations", "all"):
        raise ModelError(f"unknown orders {orders!r}; use 'single', 'rotations' or 'all'")
    if orders == "all":
        if order is not None:
            raise ModelError("orders='all' averages over all orders; do not give `order` with it")
        return Orders(())
    listed: list[Sequence[Any]]
    if order is None:
        listed = [domain.names]
    elif len(order) and isinstance(order[0], str):
        listed = [order]
    else:
        listed = list(order)
        if not listed:
            raise ModelError("the list of orders is empty; give at least one order")
        if any(isinstance(names, str) or not isinstance(names, Sequence) for names in listed):
            raise ModelError(f"an order is a list of names, or a list of such lists, not {order!r}")
    ranks: list[IntArray] = []
    for names in listed:
        positions = np.array([domain.index(name) for name in names], np.int64)
        if sorted(positions.tolist()) != list(range(len(domain))):
            raise ModelError(
                f"an order must name each of the {len(domain)} variables once; this one has "
                f"{len(positions)} names, {len(set(positions.tolist()))} of them different"
            )
        rank = np.argsort(positions)
        ranks.append(rank)
        if reverse:
            ranks.append(len(domain) - 1 - rank)
    return Orders(tuple(ranks), orders == "rotations")
