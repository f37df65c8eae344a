"""Plans of exact inference: an elimination order, its junction tree, and the cost of running it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.kernels.elimination_layouts import (
    DRAWS,
    EXPECTATIONS,
    MARGINALS,
    MAXIMUM,
    JunctionTree,
    Program,
    Terms,
)
from conjoin.kernels.elimination_order import greedy_order, link_scopes, lower_bound
from conjoin.kernels.junction_tree import junction_tree, schedule
from conjoin.kernels.message_passing import answer

_NOTHING = np.empty(0)
"""Where a kernel puts results that are not wanted."""

MAX_MEMORY = 4 << 30
"""Memory for the tables of exact inference while a network is learned, in bytes."""

MAX_VARIABLES = 20_000
"""Maximum number of variables of a graph for which an order is searched."""

SECONDS_PER_OPERAND = 1e-9
"""Cost of adding one term to one cell of a table."""

SECONDS_PER_EXPONENTIAL = 8e-9
"""Cost of summing one cell."""

SECONDS_PER_WORD = 2e-9
"""Cost of the search for an order, per 64-bit word that it reads."""

SEARCH_SECONDS = 0.3
"""Maximum time of a search for an order; it also takes no longer than running the plan should."""


class TooLarge(ModelError):  # noqa: N818
    """Exact inference would exceed its memory limit."""


@dataclass(frozen=True)
class Forecast:
    """The time and memory that exact inference will need."""

    seconds: float  # the approximate time for one row of evidence
    bytes: int  # the memory of its tables
    largest: int  # the number of cells of its largest table
    variables: int  # the number of variables of its largest clique

    def __str__(self) -> str:
        return (
            f"about {self.seconds:.2g} s and {size_text(self.bytes)}; the largest table is over "
            f"{self.variables} variables, {self.largest:,} cells"
        )


def size_text(size: float) -> str:
    """Return a number of bytes as text."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    step = 0
    while size >= 1024 and step < len(units) - 1:
        size, step = size / 1024, step + 1
    return f"{size:.3g} {units[step]}" if size < 1e6 else f"10^{np.log10(size):.0f} {units[step]}"


@dataclass(frozen=True, eq=False)
class Order:
    """An elimination order of the free variables, or the result of a search that found none."""

    # For each variable its number among the free ones, or -1 - slot if it has evidence
    place: IntArray
    size: IntArray  # the number of states of each free variable
    order: IntArray  # the free variables, as they are eliminated
    # For each, the bit set of its neighbours when it is eliminated
    separators: npt.NDArray[np.uint64]
    # total, largest: the number of cells of all tables, and log2 of the largest. `total` is infinite
    # if no order within the limit was found; `largest` is then a lower bound, or the best that was found
    total: float
    largest: float

    def ranks(self) -> IntArray:
        """Return when each variable is eliminated; variables with evidence come last."""
        rank = np.full(len(self.place), len(self.order))
        rank[np.flatnonzero(self.place >= 0)[self.order]] = np.arange(len(self.order))
        return rank


def find_order(
    cards: IntArray,
    first: IntArray,
    var: IntArray,
    given: IntArray,
    max_memory: float,
) -> Order:
    """Search for a cheap elimination order.

    Greedy orders by fill and by table size are tried, with ties broken in several ways, as long as the
    search costs less than running the plan is expected to.

    `first` and `var`: the scopes whose variables are linked: where each starts, and the variables.
    `given`: the variables with evidence, in the order of their slots.
    """
    place = np.zeros(len(cards), np.int64)
    place[given] = -1 - np.arange(len(given))
    free = np.flatnonzero(place >= 0)
    n = len(free)
    if n > MAX_VARIABLES:
        raise TooLarge(f"exact inference plans up to {MAX_VARIABLES:,} variables, not {n:,}")
    place[free] = np.arange(n)
    size = cards[free].astype(np.int64)
    adjacency = np.zeros((n, (n + 63) >> 6), np.uint64)
    link_scopes(first, var, place, adjacency)
    log_size = np.log2(size)
    limit = np.log2(max_memory / 8)
    order = np.empty(n, np.int64)
    best = Order(place, size, order, adjacency, np.inf, np.inf)
    if n > 64:
        bound = lower_bound(adjacency, log_size)
        if bound > limit:
            return Order(place, size, order, adjacency, np.inf, bound)
    tried, wanted, spent = 0, 2, 0.0
    smallest = np.inf
    while tried < wanted:
        separators = adjacency.copy()
        seed = np.uint64(0x9E3779B97F4A7C15 + 0xBF58476D1CE4E5B9 * tried & (1 << 64) - 1)
        by_weight = tried % 2 == 1
        total, largest, work = greedy_order(separators, log_size, by_weight, seed, limit, order)
        smallest = min(smallest, largest)
        if total < best.total:
            best = Order(place, size, order, separators, total, largest)
            order = np.empty(n, np.int64)
        tried += 1
        spent += work * SECONDS_PER_WORD
        if tried == 2 and n:
            run = min(best.total, max_memory) * SECONDS_PER_EXPONENTIAL
            wanted = int(min(max(2 * min(run, SEARCH_SECONDS) / spent, 2), 200))
    if best.total == np.inf:
        return Order(place, size, order, adjacency, np.inf, smallest)
    return best


class Plan:
    """A program of messages for one set of variables with evidence; their states are arguments."""

    def __init__(self, terms: Terms, order: Order, used: BoolArray | None = None) -> None:
        if used is None:
            used = np.ones(len(terms.first) - 1, np.bool_)
        self.terms = terms
        self.place = order.place  # as in `Order`
        self.tree: JunctionTree = junction_tree(order.separators, order.order, order.size)
        self.program: Program = schedule(self.tree, terms, used, order.place)
        # Where the probabilities of each free variable start in the marginals.
        self.marginal_first = np.zeros(len(order.size) + 1, np.int64)
        np.cumsum(order.size, out=self.marginal_first[1:])

    @property
    def n_cliques(self) -> int:
        """The number of cliques."""
        return len(self.tree.parent)

    @property
    def cells(self) -> int:
        """The number of cells of all tables."""
        return int(self.tree.table_first[-1])

    def forecast(self, keep_tables: bool = True) -> Forecast:
        """Return the cost of running the plan; log Z alone does not keep its tables."""
        tree = self.tree
        operands = np.diff(self.program.first)
        passes = operands + (operands + np.diff(tree.first) if keep_tables else 0)
        seconds = (tree.cells * (SECONDS_PER_EXPONENTIAL + SECONDS_PER_OPERAND * passes)).sum()
        cells = self.cells if keep_tables else int(tree.cells.max(initial=0))
        widest = int(tree.cells.argmax()) if self.n_cliques else 0
        return Forecast(
            float(seconds) + 2e-5,
            8 * (cells + int(tree.message_first[-1])),
            int(tree.cells.max(initial=0)),
            int(np.diff(tree.first)[widest]) if self.n_cliques else 0,
        )

    def slots(self, codes: Any, rows: int = 1) -> IntArray:
        """Return room for the states of all fixed variables, with `codes` in the first slots."""
        slots = np.zeros((rows, len(self.place) - len(self.tree.size)), np.int64)
        known = np.asarray(codes, np.int64)
        slots[:, : known.shape[-1]] = known
        return slots

    def _tilted(self, tilt: FloatArray | None) -> Terms:
        """Return the terms with log-likelihoods in the tables that `with_likelihoods` added."""
        if tilt is None:
            return self.terms
        values = self.terms.values.copy()
        values[len(values) - len(tilt) :] = tilt
        return self.terms._replace(values=values)

    def run(
        self, given: IntArray, mode: int, tilt: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Answer rows of evidence, one state per slot; `tilt` is the log-likelihood of all states.

        Returns log Z of each row, or the log-potential of its best instance, and, in the modes for them,
        the marginals of the free variables and the best instance.
        """
        rows = len(given)
        log_z = np.empty(rows)
        marginals = np.empty((rows, self.marginal_first[-1] if mode == MARGINALS else 0))
        states = np.empty((rows, len(self.tree.size) if mode == MAXIMUM else 0), np.int64)
        answer(
            self.tree, self.program, self._tilted(tilt), given, mode, self.marginal_first, log_z,
            marginals, np.empty((1, 0)), states, _NOTHING, _NOTHING,
        )  # fmt: skip
        return log_z, marginals, states

    def expect(
        self,
        given: IntArray,
        values: FloatArray,
        weights: FloatArray,
        shares: FloatArray | None = None,
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return log Z, the probability of each cell of the tables, and the mean of each feature.

        `values` are the log-values of all tables, `weights` those of the features. The probabilities of
        cells are written to `shares`, if zeros are given.
        """
        terms = self.terms._replace(values=values, weights=weights)
        log_z, marginals = np.empty(1), np.empty((1, self.marginal_first[-1]))
        shares = np.zeros(len(values)) if shares is None else shares
        means = np.zeros(len(weights))
        answer(
            self.tree, self.program, terms, given[None], EXPECTATIONS, self.marginal_first, log_z,
            marginals, np.empty((1, 0)), np.empty((1, 0), np.int64), shares, means,
        )  # fmt: skip
        return float(log_z[0]), shares, means

    def draw(
        self, given: IntArray, uniform: FloatArray, tilt: FloatArray | None = None
    ) -> tuple[float, IntArray]:
        """Draw rows of the free variables given one row of evidence; return log Z, too."""
        log_z, states = np.empty(1), np.empty((len(uniform), len(self.tree.size)), np.int64)
        answer(
            self.tree, self.program, self._tilted(tilt), given[None], DRAWS, self.marginal_first, log_z,
            np.empty((1, 0)), uniform, states, _NOTHING, _NOTHING,
        )  # fmt: skip
        return float(log_z[0]), states
