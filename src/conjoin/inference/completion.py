"""Whole tables with holes: marginals, modes, draws and log-probabilities, row by row.

Most rows of a table have holes of their own, so plans for patterns of holes would not pay. A kernel puts
what a row knows into the features and eliminates the free variables, one component after another, if that
takes small tables. Other rows are asked exactly, with a plan that all rows with the same holes share, if
there are enough of them; or else sampled. Equal rows are asked once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.packing import distinct_rows
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import ModelError
from conjoin.inference.exact import compiled
from conjoin.inference.operands import as_markov_network
from conjoin.inference.plan import Plan, TooLarge
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.network import Network
from conjoin.progress import progress

STATES = 1 << 17
"""How many cells the tables may have by which a component of a row is answered exactly."""

CELLS = 1 << 19
"""Plans for the other rows may have so many."""

PLANS = 32
"""For so many patterns of holes plans are made, those of most rows; the others are sampled."""

ALIKE = 8
"""A plan is made for so many rows with the same holes, or more: fewer are sampled in less time than it
takes."""

BLOCK = 1 << 10
"""Rows that the kernel is asked for at a time."""

BURN_IN, SWEEPS, THIN = 50, 400, 10
"""How rows are sampled that exact answers would cost too much for."""

STARTS, ANNEALED = 5, 10
"""A mode is then the best that annealing finds from so many starts, in so many sweeps from each."""


@dataclass(frozen=True, eq=False)
class Ready:
    """A model made ready for rows.

    Attributes
    ----------
    form : LogLinearForm
        The features, with -inf replaced.
    breaking : float
        Weights below this one stand for -inf.
    constant : float
        What features without tests add to every log-potential.
    soft : bool
        Whether features have off values, which the kernel does not know.
    """

    form: LogLinearForm
    breaking: float
    constant: float
    soft: bool

    @classmethod
    def of(cls, model: Network) -> Ready:
        """Prepare a Markov or Bayesian network."""
        form = as_markov_network(model).form.nonzero()
        hard = form.overwhelming_weight
        form = form.with_hard_weight(hard)
        return cls(form, hard / 2, form.constant, form.features.off is not None)

    def about(self, variables: BoolArray) -> tuple[Any, ...]:
        """Return the arrays of the features that test some of these variables."""
        features = self.form.features
        touched = features.weights < self.breaking  # what is impossible matters always
        touched[features.entry_feature[variables[features.entry_var]]] = True
        features = features.select(np.flatnonzero(touched))
        order, skip = _by_tests(features)
        features = features.select(order)
        tests = features.tests
        return (
            tests.var.astype(np.int64), tests.mask, features.indptr.astype(np.int64),
            features.indices.astype(np.int64), skip, features.weights,
        )  # fmt: skip


_ready: WeakKeyDictionary[Network, Ready] = WeakKeyDictionary()


def ready_for(model: Network) -> Ready:
    """Return a model made ready; models are taken not to change."""
    found = _ready.get(model)
    if found is None:
        found = _ready[model] = Ready.of(model)
    return found


@dataclass(eq=False)
class Block:
    """The answers for some rows.

    Attributes
    ----------
    rows : array of int
        Their positions among the distinct rows.
    log_sum : array of float
        Log of the summed potentials of the instances that agree with a row; NaN if not known.
    marginals : array of float
        Of all states of all variables, side by side.
    filled : array of codes, shape (rows, draws, variables)
        Modes or draws.
    exact : array of bool
        Which rows were not sampled.
    left : array of bool, shape (rows, variables)
        What elimination left.
    """

    rows: IntArray
    log_sum: FloatArray
    marginals: FloatArray
    filled: Codes
    exact: BoolArray
    left: BoolArray


class Completion:
    """Answers for the rows of one table.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    codes : array of codes
        The rows; a code that is not a state is a hole.
    random_state : int
        The seed. What is drawn for a row depends on this and on the row, not on its place.
    """

    def __init__(self, model: Network, codes: Codes, random_state: int = 0) -> None:
        self.model, self.domain = model, model.domain
        self.ready = ready_for(model)
        cards = self.domain.cards
        rows = np.where(cards == 1, 0, codes).astype(np.uint16)
        rows = np.where(rows >= cards, np.uint16(np.iinfo(np.uint16).max), rows)
        first, self.inverse = distinct_rows(rows)
        self.first = first
        self.rows = np.ascontiguousarray(rows[first])
        self.free: BoolArray = self.rows >= cards
        self.counters = _hashes(self.rows, random_state)
        self.plans_left = PLANS
        self.slot = (np.cumsum(cards) - cards).astype(np.int64)

    def log_sums(self) -> tuple[FloatArray, BoolArray]:
        """Return the log of the summed potentials that agree with each row, and whether it is exact."""
        from conjoin.inference.engines import log_partition

        result, exact = np.empty(len(self.rows)), np.ones(len(self.rows), bool)
        for block in self._blocks(0, 1, None, sampling=False):
            result[block.rows] = block.log_sum
            exact[block.rows] = block.exact
        for r in np.flatnonzero(~exact):
            known = np.flatnonzero(~self.free[r])
            given = {
                self.domain.names[v]: self.domain.variables[v].states[self.rows[r, v]]
                for v in known.tolist()
            }
            result[r] = log_partition(
                self.model, given, method="ais", random_state=int(self.counters[r])
            ).value
        return result[self.inverse], exact[self.inverse]

    def marginals(self, target: int) -> tuple[FloatArray, BoolArray]:
        """Return the distribution of a variable in each row, and which are exact."""
        card = int(self.domain.cards[target])
        result = np.zeros((len(self.rows), card))
        exact = np.ones(len(self.rows), bool)
        wanted = np.zeros(len(self.domain), bool)
        wanted[target] = True
        low = self.slot[target]
        known = np.flatnonzero(~self.free[:, target])
        result[known, self.rows[known, target]] = 1.0
        for block in self._blocks(0, 1, wanted):
            hole = self.free[block.rows, target]
            result[block.rows[hole]] = block.marginals[hole, low : low + card]
            exact[block.rows] = block.exact
        return result[self.inverse], exact[self.inverse]

    def likely(self) -> tuple[Codes, BoolArray]:
        """Return the rows with each hole filled by its own most probable state."""
        result = self.rows.copy()
        exact = np.ones(len(self.rows), bool)
        for block in self._blocks(0, 1, None):
            for v, card in enumerate(self.domain.cards.tolist()):
                best = block.marginals[:, self.slot[v] : self.slot[v] + card].argmax(axis=1)
                hole = self.free[block.rows, v]
                result[block.rows[hole], v] = best[hole]
            exact[block.rows] = block.exact
        return self._full(result)[self.inverse], exact[self.inverse]

    def modes(self) -> tuple[Codes, BoolArray]:
        """Return the most probable completion of each row, and which are exact."""
        filled, exact = self._filled(1, 1)
        return filled[:, 0][self.inverse], exact[self.inverse]

    def draws(self, count: int) -> Codes:
        """Return completions drawn from the distribution given each row: draws by rows by variables.

        Equal rows are given draws of their own.
        """
        repeats = np.bincount(self.inverse, minlength=len(self.rows))
        order = np.argsort(self.inverse, kind="stable")
        rank = np.empty(len(order), np.int64)
        starts = np.cumsum(repeats) - repeats
        rank[order] = np.arange(len(order)) - starts[self.inverse[order]]
        holes = self.free.any(axis=1)
        result = self._full(self.rows)[self.inverse][None].repeat(count, axis=0)
        room = 1 << np.ceil(np.log2(repeats)).astype(np.int64)
        for size in np.unique(room[holes]).tolist():
            # Rows that occur about equally often are drawn for together.
            chosen = np.flatnonzero(holes & (room == size))
            filled, _ = self._filled(2, count * size, chosen)
            back = np.full(len(self.rows), -1, np.int64)
            back[chosen] = np.arange(len(chosen))
            at = np.flatnonzero(back[self.inverse] >= 0)
            for d in range(count):
                result[d, at] = filled[back[self.inverse[at]], d * size + rank[at]]
        return result

    def _full(self, rows: Codes) -> Codes:
        return rows.astype(code_dtype(self.domain.cards))

    def _filled(
        self, mode: int, count: int, chosen: IntArray | None = None
    ) -> tuple[Codes, BoolArray]:
        size = len(self.rows) if chosen is None else len(chosen)
        result = np.empty((size, count, len(self.domain)), code_dtype(self.domain.cards))
        exact = np.ones(size, bool)
        place = np.arange(len(self.rows))
        if chosen is not None:
            place[chosen] = np.arange(size)
        result[:] = (self.rows if chosen is None else self.rows[chosen])[:, None]
        for block in self._blocks(mode, count, None, chosen=chosen):
            result[place[block.rows]] = block.filled
            exact[place[block.rows]] = block.exact
        return result, exact

    def _blocks(
        self,
        mode: int,
        count: int,
        wanted: BoolArray | None,
        *,
        sampling: bool = True,
        chosen: IntArray | None = None,
    ) -> Iterator[Block]:
        """Answer block after block of rows; with `sampling=False` rows that are too large stay open."""
        ask = self.free if wanted is None else self.free & wanted
        self.plans_left = PLANS
        todo = np.flatnonzero(ask.any(axis=1)) if mode or wanted is not None else None
        if todo is None:
            todo = np.arange(len(self.rows))
        if chosen is not None:
            todo = np.intersect1d(todo, chosen)
        if not len(todo):
            return
        everything = np.ones(len(self.domain), bool)
        # A sum needs all features; otherwise those on variables that are free somewhere matter.
        about: Any = self.free[todo].any(axis=0) if sampling else everything
        arrays = self.ready.about(about)
        asked = everything if wanted is None else wanted
        size = max(1, min(BLOCK, (1 << 24) // max(1, count * len(self.domain))))
        for low in progress(range(0, len(todo), size), "completing rows"):
            rows = todo[low : low + size]
            block = self._open(rows, mode, count)
            large = self._eliminate(block, mode, asked, arrays)
            left = large
            if len(large):
                each = not sampling or self._tractable()
                left = self._planned(block, large, mode, count, 1 if each else ALIKE)
            if len(left):
                block.exact[left] = False
                if sampling:
                    self._sample(block, left, mode, arrays)
            yield block

    def _open(self, rows: IntArray, mode: int, count: int) -> Block:
        width = int(self.domain.cards.sum()) if mode == 0 else 0
        filled = np.repeat(self.rows[rows][:, None], count if mode else 0, axis=1)
        return Block(
            rows,
            np.full(len(rows), np.nan),
            np.zeros((len(rows), width)),
            filled,
            np.ones(len(rows), bool),
            np.zeros((len(rows), len(self.domain)), bool),
        )

    def _eliminate(self, block: Block, mode: int, asked: BoolArray, arrays: Any) -> IntArray:
        """Answer rows by elimination; return those with components that are too large for it."""
        from conjoin.kernels.completion import complete_rows

        if self.ready.soft:
            return np.arange(len(block.rows))
        status = np.zeros(len(block.rows), np.int8)
        kernel: Any = complete_rows
        kernel(
            mode, self.rows[block.rows], self.counters[block.rows], asked, self.domain.cards,
            self.slot, *arrays, self.ready.breaking, STATES, status, block.left, block.log_sum,
            block.marginals, block.filled,
        )  # fmt: skip
        block.log_sum += self.ready.constant
        wrong = np.flatnonzero(status == 2)
        if len(wrong):
            self._impossible(block.rows[wrong])
        return np.flatnonzero(status == 1)

    def _impossible(self, rows: IntArray) -> None:
        number = int(self.first[rows].min()) + 1
        raise ModelError(
            f"row {number} is impossible: the model gives its known values probability 0"
        )

    def _sample(self, block: Block, left: IntArray, mode: int, arrays: Any) -> None:
        """Sample what elimination left of some rows."""
        from conjoin.kernels.completion import sample_rows

        if self.ready.soft:
            raise ModelError(
                "rows with so many missing values cannot be completed with features that have off "
                'values; convert with orders="rotations", or give more values'
            )
        rows, marginals, filled = block.rows[left], block.marginals[left], block.filled[left]
        kernel: Any = sample_rows
        kernel(
            mode, self.rows[rows], self.counters[rows], self.domain.cards, self.slot, *arrays,
            block.left[left], ANNEALED if mode == 1 else BURN_IN, SWEEPS, THIN, STARTS, marginals,
            filled,
        )  # fmt: skip
        block.marginals[left], block.filled[left] = marginals, filled

    def _planned(
        self, block: Block, large: IntArray, mode: int, count: int, alike: int
    ) -> IntArray:
        """Answer rows exactly, those with the same holes together; return those that are left.

        So are those with the same holes of which there are fewer than `alike`.
        """
        ready = compiled(self.model)
        patterns = distinct_rows(self.free[block.rows[large]].astype(np.uint8))[1]
        left = []
        for pattern in np.argsort(-np.bincount(patterns), kind="stable").tolist():
            which = large[patterns == pattern]
            rows = block.rows[which]
            known = np.flatnonzero(~self.free[rows[0]])
            few = len(which) < alike or (alike > 1 and self.plans_left == 0)
            if few and not self.ready.soft:
                left.append(which)
                continue
            self.plans_left = max(0, self.plans_left - 1)
            try:
                plan = ready.plan(tuple(known.tolist()), 8.0 * CELLS)
            except TooLarge:
                left.append(which)
                continue
            self._run(plan, block, which, known, mode, count)
        return np.concatenate(left) if left else np.zeros(0, np.int64)

    def _tractable(self) -> bool:
        """Tell whether the model takes small tables with nothing known: then every row does."""
        try:
            compiled(self.model).plan((), 8.0 * CELLS)
        except TooLarge:
            return False
        return True

    def _run(
        self, plan: Plan, block: Block, which: IntArray, known: IntArray, mode: int, count: int
    ) -> None:
        rows = block.rows[which]
        slots = np.zeros((len(rows), len(plan.place) - len(plan.size)), np.int64)
        slots[:, : len(known)] = self.rows[rows][:, known]
        holes = np.flatnonzero(plan.place[: len(self.domain)] >= 0)
        if mode == 2:
            for k, (i, r) in enumerate(zip(which.tolist(), rows.tolist(), strict=True)):
                rng = np.random.default_rng([int(self.counters[r]), 1])
                uniform = rng.random((count, max(1, plan.n_cliques)))
                value, states = plan.draw(slots[k], uniform)
                if value == -np.inf:
                    self._impossible(np.array([r]))
                block.filled[i][:, holes] = states[:, plan.place[holes]]
            return
        log_z, flat, states = plan.run(slots, 2 if mode else 1)
        if (log_z == -np.inf).any():
            self._impossible(rows[log_z == -np.inf])
        if mode:
            block.filled[which[:, None], 0, holes] = states[:, plan.place[holes]]
            return
        block.log_sum[which] = log_z
        for v in holes.tolist():
            p, low = plan.place[v], self.slot[v]
            first, end = plan.marginal_first[p], plan.marginal_first[p + 1]
            block.marginals[which, low : low + (end - first)] = flat[:, first:end]


def completed(model: Network, table: Table, random_state: int = 0) -> Table:
    """Return a table with its holes filled by draws from a model, as in one step of Monte Carlo EM."""
    if not (table.codes == table.missing).any():
        return table
    codes = Completion(model, table.codes, random_state).draws(1)[0]
    return Table(table.domain, codes, table.weights)


def _by_tests(features: Features) -> tuple[IntArray, IntArray]:
    """Sort features by their tests, the first one first.

    Returns
    -------
    order : array of int
        The features in that order.
    skip : array of int
        For each test of each, in that order, the next one that does not begin with the same tests up
        to it.
    """
    lengths = features.lengths
    widest = int(lengths.max(initial=1))
    padded = np.full((len(features), widest), -1, np.int64)
    column = np.arange(features.indptr[-1]) - np.repeat(features.indptr[:-1], lengths)
    padded[features.entry_feature, column] = features.indices
    order = np.lexsort(padded.T[::-1])
    padded = padded[order]
    skip = np.empty_like(padded)
    differs = np.ones(len(features), bool)
    differs[:-1] = False  # from the next one, in the tests so far
    numbers = np.arange(1, len(features) + 1)
    for k in range(widest):
        differs[:-1] |= padded[1:, k] != padded[:-1, k]
        ends = np.where(differs, numbers, len(features))
        skip[:, k] = np.minimum.accumulate(ends[::-1])[::-1]
    return order, skip[padded >= 0]


def _hashes(rows: Codes, random_state: int) -> Any:
    """Return 64 bits for each row, from its codes and the seed."""
    rng = np.random.default_rng(random_state)
    odd = rng.integers(0, 2**63, (2, rows.shape[1] + 1), dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    mixed = rows.astype(np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = mixed * odd[0, 1:]
        mixed = (mixed ^ (mixed >> np.uint64(29))) * odd[1, 1:]
        total = mixed.sum(axis=1, dtype=np.uint64) + odd[0, 0]
        return (total ^ (total >> np.uint64(32))) * odd[1, 0]
