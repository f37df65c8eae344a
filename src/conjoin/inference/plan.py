"""Plans of exact inference: an elimination order, its junction tree, and what running it costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.inference.operands import Operands

MAX_MEMORY = 4 << 30
"""How many bytes of tables exact inference may use unless told otherwise."""

MAX_VARIABLES = 20_000
"""Graphs of more variables are not planned."""

SECONDS_A_CELL = 1e-9
"""What one operand costs a cell of a table."""

SECONDS_AN_EXPONENTIAL = 8e-9
"""What summing costs a cell."""

SECONDS_A_WORD = 2e-9
"""What looking for an order costs a word that it reads."""

SEARCH = 0.3
"""Looking for an order may take so many seconds, and no longer than running it is forecast to."""


class TooLarge(ModelError):  # noqa: N818
    """Exact inference would not fit into the memory that it may use."""


@dataclass(frozen=True)
class Forecast:
    """What a run of exact inference will take.

    Attributes
    ----------
    seconds : float
        The time of one row of evidence, roughly.
    bytes : int
        The memory of its tables.
    largest : int
        The number of cells of its largest table.
    variables : int
        The number of variables of its largest clique.
    """

    seconds: float
    bytes: int
    largest: int
    variables: int

    def __str__(self) -> str:
        return (
            f"about {self.seconds:.2g} s and {size_text(self.bytes)}; the largest table is over "
            f"{self.variables} variables, {self.largest:,} cells"
        )


def size_text(size: float) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> size_text(3 << 20)
    '3 MiB'
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    step = 0
    while size >= 1024 and step < len(units) - 1:
        size, step = size / 1024, step + 1
    return f"{size:.3g} {units[step]}" if size < 1e6 else f"10^{np.log10(size):.0f} {units[step]}"


@dataclass(frozen=True, eq=False)
class Order:
    """An elimination order over the free variables.

    Attributes
    ----------
    place : array of int
        For each variable its number among the free ones, or -1 - slot if it is given.
    size : array of int
        The states of each free variable.
    order : array of int
        The free variables as they are eliminated.
    separators : array of uint64
        For each, the bit set of its neighbours when it is eliminated.
    total, largest : float
        The cells of all tables, and log2 of the largest; infinite if the search was given up.
    """

    place: IntArray
    size: IntArray
    order: IntArray
    separators: npt.NDArray[np.uint64]
    total: float
    largest: float

    def ranks(self) -> IntArray:
        """Return when each variable is eliminated; those that are given come last."""
        rank = np.full(len(self.place), len(self.order))
        rank[np.flatnonzero(self.place >= 0)[self.order]] = np.arange(len(self.order))
        return rank


def find_order(
    cards: IntArray,
    indptr: IntArray,
    var: IntArray,
    given: IntArray,
    max_memory: float,
) -> Order:
    """Look for a cheap elimination order.

    Greedy orders by fill and by size of table are tried, with ties broken in several ways as long as
    looking costs less than running is forecast to.

    Parameters
    ----------
    cards : array of int
        The states of each variable.
    indptr, var : arrays of int
        The scopes whose variables are linked.
    given : array of int
        The variables that are given, in the order of their slots.
    max_memory : float
        In bytes; a search that exceeds it is given up.
    """
    from conjoin.kernels.elimination import eliminate, least_width, link

    place = np.zeros(len(cards), np.int64)
    place[given] = -1 - np.arange(len(given))
    free = np.flatnonzero(place >= 0)
    n = len(free)
    if n > MAX_VARIABLES:
        raise TooLarge(f"exact inference plans up to {MAX_VARIABLES:,} variables, not {n:,}")
    place[free] = np.arange(n)
    size = cards[free]
    adjacency = np.zeros((n, (n + 63) >> 6), np.uint64)
    link(indptr, var, place, adjacency)
    log_size = np.log2(size)
    limit = np.log2(max_memory / 8)
    order = np.empty(n, np.int64)
    best = Order(place, size, order, adjacency, np.inf, np.inf)
    if n > 64:
        bound = least_width(adjacency, log_size)
        if bound > limit:
            return Order(place, size, order, adjacency, np.inf, bound)
    tried, wanted, spent = 0, 2, 0.0
    widest = np.inf
    while tried < wanted:
        separators = adjacency.copy()
        seed = np.uint64(0x9E3779B97F4A7C15 + 0xBF58476D1CE4E5B9 * tried & (1 << 64) - 1)
        by_weight = tried % 2 == 1
        total, largest, work = eliminate(separators, log_size, by_weight, seed, limit, order)
        widest = min(widest, largest)
        if total < best.total:
            best = Order(place, size, order, separators, total, largest)
            order = np.empty(n, np.int64)
        tried += 1
        spent += work * SECONDS_A_WORD
        if tried == 2 and n:
            run = min(best.total, max_memory) * SECONDS_AN_EXPONENTIAL
            wanted = int(np.clip(2 * min(run, SEARCH) / spent, 2, 200))
    if best.total == np.inf:
        return Order(place, size, order, adjacency, np.inf, widest)
    return best


class Plan:
    """A schedule of messages for one pattern of evidence; any states of it can be asked.

    Parameters
    ----------
    operands : Operands
        The network.
    order : Order
        The elimination order.
    used : array of bool
        The operands that matter.
    """

    def __init__(self, operands: Operands, order: Order, used: BoolArray) -> None:
        from conjoin.kernels.elimination import cliques
        from conjoin.kernels.schedule import schedule

        self.operands = operands
        n = len(order.order)
        clique_of, parent = np.empty(n, np.int64), np.empty(n, np.int64)
        first = np.empty(n + 1, np.int64)
        residual, clique_size = np.empty(n, np.int64), np.empty(n, np.int64)
        entries = int(np.bitwise_count(order.separators).sum()) + n
        var = np.empty(entries, np.int64)
        count = cliques(
            order.separators, order.order, order.size, clique_of, first, var, residual, parent,
            clique_size,
        )  # fmt: skip
        first, parent = first[: count + 1], parent[:count]
        self.var = var[: first[-1]]
        residual, clique_size = residual[:count], clique_size[:count]
        message_first = np.zeros(count + 1, np.int64)
        np.cumsum(np.where(parent >= 0, clique_size // residual, 0), out=message_first[1:])
        self.tree = (first, order.size[self.var], residual, clique_size, message_first, parent)
        elim = np.empty(n, np.int64)
        elim[order.order] = np.arange(n)
        self.program = schedule(
            operands.indptr, operands.var, operands.arg, operands.n_tables, used, order.place,
            clique_of, first, self.var, parent, order.size, elim,
        )  # fmt: skip
        self.model = (
            operands.values, operands.bases, operands.weights, operands.numbers, operands.n_tables,
        )  # fmt: skip
        self.place, self.size = order.place, order.size
        self.table_first = np.zeros(count + 1, np.int64)
        np.cumsum(clique_size, out=self.table_first[1:])
        self.marginal_first = np.zeros(n + 1, np.int64)
        np.cumsum(order.size, out=self.marginal_first[1:])

    @cached_property
    def cells(self) -> int:
        """The number of cells of all tables."""
        return int(self.table_first[-1])

    def forecast(self, keep_tables: bool = True) -> Forecast:
        """Return what running the plan takes; log Z alone need not keep its tables."""
        first, _, _, clique_size, message_first, _ = self.tree
        operands = np.diff(self.program[0])
        passes = operands + (operands + np.diff(first) if keep_tables else 0)
        seconds = (clique_size * (SECONDS_AN_EXPONENTIAL + SECONDS_A_CELL * passes)).sum()
        cells = self.cells if keep_tables else int(clique_size.max(initial=0))
        widest = int(clique_size.argmax()) if len(clique_size) else 0
        return Forecast(
            float(seconds) + 2e-5,
            8 * (cells + int(message_first[-1])),
            int(clique_size.max(initial=0)),
            int(np.diff(first)[widest]) if len(clique_size) else 0,
        )

    def _offsets(self, keep_tables: bool) -> tuple[IntArray, int]:
        if keep_tables:
            return self.table_first, self.cells
        return np.zeros_like(self.table_first), int(self.tree[3].max(initial=0))

    def run(self, given: IntArray, mode: int) -> tuple[Any, Any, Any]:
        """Answer rows of evidence, a state for each slot; see the kernel for the modes."""
        from conjoin.kernels.propagation import answer

        rows, n = len(given), len(self.size)
        offset, space = self._offsets(mode != 0)
        log_z = np.empty(rows)
        marginals = np.empty((rows, self.marginal_first[-1] if mode == 1 else 0))
        states = np.empty((rows, n if mode == 2 else 0), np.int64)
        answer(
            self.tree, self.program, self.model, given, mode, offset, space, self.var,
            self.marginal_first, log_z, marginals, states,
        )  # fmt: skip
        return log_z, marginals, states

    def expect(self, given: IntArray) -> tuple[float, FloatArray, FloatArray]:
        """Return log Z given one row of evidence, the tables' joint probabilities, features' means."""
        from conjoin.kernels.propagation import expectations

        offset, space = self._offsets(True)
        marginals = np.empty(self.marginal_first[-1])
        shares = np.zeros(len(self.operands.values))
        means = np.zeros(len(self.operands.weights))
        log_z = expectations(
            self.tree, self.program, self.model, given, offset, space, self.var,
            self.marginal_first, marginals, shares, means,
        )  # fmt: skip
        return log_z, shares, means

    def draw(self, given: IntArray, uniform: Any) -> tuple[float, IntArray]:
        """Draw rows of the free variables given one row of evidence."""
        from conjoin.kernels.propagation import draw

        offset, space = self._offsets(True)
        states = np.empty((len(uniform), len(self.size)), np.int64)
        log_z = draw(
            self.tree, self.program, self.model, given, offset, space, self.var, uniform, states
        )
        return log_z, states

    @property
    def n_cliques(self) -> int:
        """The number of cliques."""
        return len(self.tree[5])
