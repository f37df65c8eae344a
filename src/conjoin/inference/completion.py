"""Tables with missing values: marginals, modes, draws and log-probabilities, row by row.

Most rows of a table have their own missing values, so a plan per set of missing variables would not pay
off. If the network consists mostly of tables, all rows are answered by messages over its own junction
tree, without the variables that they know. Otherwise, a kernel puts the known values of a row into the
features and answers each component of the free variables exactly if its tables are small. Rows with other
components are answered on the junction tree of the network or, if that is too large, sampled. Equal rows
are answered once.

Rows with few missing values have a kernel of their own, which does the same and compiles in less time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, distinct
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, Table, code_dtype, with_hidden
from conjoin.errors import ModelError
from conjoin.inference.plan import MAX_MEMORY, Plan
from conjoin.inference.prepared_rows import prepared
from conjoin.inference.row_chains import RowChains, SamplingSettings
from conjoin.kernels.elimination_layouts import (
    DRAWS,
    JOINT,
    MARGINALS,
    MAXIMUM,
    MISSING,
    SUM,
    RowAnswers,
    RowFeatures,
)
from conjoin.models.network import Network
from conjoin.progress import progress

MAX_CELLS = 1 << 19
"""Components of rows of dense networks are answered exactly if they have at most this number of cells."""

BLOCK_ROWS = 1 << 10
"""Number of rows that are passed to the kernel at a time."""

FEW_ROWS = 64
"""While learning, up to this number of rows with many missing values are drawn as separate queries."""

FEW_VALUES = 1 << 14
"""While learning, a network whose tables have at most this number of values counts as features."""


@dataclass(eq=False)
class Answers:
    """The answers for some rows.

    Attributes
    ----------
    rows : array of int
        The positions of the rows among the distinct rows.
    log_sum : array of float
        Log of the summed potentials of the instances that agree with a row; NaN if not known.
    marginals : array of float
        The probabilities of all states of all variables, side by side.
    filled : array of codes, shape (rows, draws, variables)
        Modes or draws.
    exact : array of bool
        Which rows were not sampled.
    """

    rows: IntArray
    log_sum: FloatArray
    marginals: FloatArray
    filled: Codes
    exact: BoolArray

    @property
    def arrays(self) -> RowAnswers:
        """The arrays that kernels write to."""
        return RowAnswers(self.log_sum, self.marginals, self.filled)

    def select(self, which: IntArray) -> Answers:
        """Return a copy of some of the answers."""
        return Answers(*(getattr(self, field.name)[which] for field in fields(self)))

    def write(self, which: IntArray, part: Answers) -> None:
        """Replace some of the answers."""
        for field in fields(self):
            getattr(self, field.name)[which] = getattr(part, field.name)


class Completion:
    """Answers for the rows of one table.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    codes : array of codes
        The rows; a code that is not a state is a missing value. Hidden variables may be left out, and
        are left out of completed rows.
    random_state : int
        The seed. The draws for a row depend on it and on the row, not on the row's position.
    max_cells : int
        Components whose tables have more cells are sampled, in a dense network.
    max_network_cells : float
        A network is dense if its junction tree, without evidence, has more cells than this, or more
        than `PreparedRows` allows.
    settings : SamplingSettings, optional
        How components are sampled.
    few_rows : int
        Up to this number of rows of a thin network with many missing values are drawn as separate
        queries, and the values of small tables count as features, which compiles less. Draws then
        depend on the number of these rows.
    """

    def __init__(
        self,
        model: Network,
        codes: Codes,
        random_state: int = 0,
        *,
        max_cells: int = MAX_CELLS,
        max_network_cells: float = np.inf,
        settings: SamplingSettings | None = None,
        few_rows: int = 0,
    ) -> None:
        self.few_rows = few_rows
        self.model, self.domain = model, model.domain
        self.prepared = prepared(model)
        self.shown = slice(len(self.domain.observed))
        self.max_cells, self.max_network_cells = max_cells, max_network_cells
        self.settings = SamplingSettings() if settings is None else settings
        cards = self.domain.cards
        rows = np.where(cards == 1, 0, with_hidden(self.domain, codes)).astype(np.uint16)
        rows = np.where(rows >= cards, MISSING, rows)
        self.first, self.inverse = distinct_rows(rows)
        self.rows = np.ascontiguousarray(rows[self.first])
        self.free: BoolArray = self.rows >= cards
        self.counters = _hashes(self.rows, random_state)
        self.state_first = (np.cumsum(cards) - cards).astype(np.int64)

    def log_sums(self) -> tuple[FloatArray, BoolArray]:
        """Return the log of the summed potentials that agree with each row, and which are exact."""
        from conjoin.inference.engines import log_partition

        result, exact = np.empty(len(self.rows)), np.ones(len(self.rows), bool)
        for block in self._answers(SUM, np.arange(len(self.rows))):
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

    def log_joints(self, target: int) -> FloatArray:
        """Return the log of the summed potentials that agree with each row and each state of a variable.

        The variable is missing in all rows.
        """
        everything = np.arange(len(self.rows))
        plan = self._tree_plan(JOINT, everything)
        if plan is None or not plan.eliminates_last(target):
            posterior, total = self.marginals(target)[0], self.log_sums()[0]
            with np.errstate(divide="ignore"):
                return total[:, None] + np.log(posterior)
        wanted = np.zeros(len(self.domain), bool)
        wanted[target] = True
        result = np.empty((len(self.rows), int(self.domain.cards[target])))
        for block in self._answers(JOINT, everything, wanted=wanted):
            result[block.rows] = block.marginals
        return result[self.inverse]

    def marginals(self, target: int) -> tuple[FloatArray, BoolArray]:
        """Return the distribution of a variable in each row, and which are exact."""
        card, low = int(self.domain.cards[target]), self.state_first[target]
        result = np.zeros((len(self.rows), card))
        exact = np.ones(len(self.rows), bool)
        wanted = np.zeros(len(self.domain), bool)
        wanted[target] = True
        hidden = self.free[:, target]
        known = np.flatnonzero(~hidden)
        result[known, self.rows[known, target]] = 1.0
        for block in self._answers(MARGINALS, np.flatnonzero(hidden), wanted=wanted):
            result[block.rows] = block.marginals[:, low : low + card]
            exact[block.rows] = block.exact
        return result[self.inverse], exact[self.inverse]

    def likely(self) -> tuple[Codes, BoolArray]:
        """Return the rows with each missing value replaced by its own most probable state."""
        result = self.rows.copy()
        exact = np.ones(len(self.rows), bool)
        for block in self._answers(MARGINALS, self._incomplete()):
            for v, card in enumerate(self.domain.cards.tolist()):
                low = self.state_first[v]
                best = block.marginals[:, low : low + card].argmax(axis=1)
                hole = self.free[block.rows, v]
                result[block.rows[hole], v] = best[hole]
            exact[block.rows] = block.exact
        return self._full(result)[self.inverse][:, self.shown], exact[self.inverse]

    def modes(self) -> tuple[Codes, BoolArray]:
        """Return the most probable completion of each row, and which are exact."""
        filled, exact = self._filled(MAXIMUM, np.arange(len(self.rows)), 1)
        return filled[:, 0][self.inverse][:, self.shown], exact[self.inverse]

    def draws(self, count: int) -> Codes:
        """Return completions drawn from the distribution given each row: draws by rows by variables.

        Equal rows have their own draws.
        """
        repeats = np.bincount(self.inverse, minlength=len(self.rows))
        order = np.argsort(self.inverse, kind="stable")
        rank = np.empty(len(order), np.int64)
        starts = np.cumsum(repeats) - repeats
        rank[order] = np.arange(len(order)) - starts[self.inverse[order]]
        incomplete = self._incomplete()
        result = self._full(self.rows)[self.inverse][None].repeat(count, axis=0)
        room = 1 << np.ceil(np.log2(repeats)).astype(np.int64)
        for size in distinct(room[incomplete]).tolist():
            # Rows that occur about equally often are drawn for together.
            chosen = incomplete[room[incomplete] == size]
            filled, _ = self._filled(DRAWS, chosen, count * size)
            back = np.full(len(self.rows), -1, np.int64)
            back[chosen] = np.arange(len(chosen))
            at = np.flatnonzero(back[self.inverse] >= 0)
            for d in range(count):
                result[d, at] = filled[back[self.inverse[at]], d * size + rank[at]]
        return result[:, :, self.shown]

    def _incomplete(self) -> IntArray:
        return np.flatnonzero(self.free.any(axis=1))

    def _full(self, rows: Codes) -> Codes:
        return rows.astype(code_dtype(self.domain.cards))

    def _filled(self, mode: int, chosen: IntArray, count: int) -> tuple[Codes, BoolArray]:
        """Return some rows, each completed several times, and which are exact."""
        result = self._full(self.rows[chosen])[:, None].repeat(count, axis=1)
        exact = np.ones(len(chosen), bool)
        place = np.empty(len(self.rows), np.int64)
        place[chosen] = np.arange(len(chosen))
        todo = chosen[self.free[chosen].any(axis=1)]
        for block in self._answers(mode, todo, count):
            result[place[block.rows]] = block.filled
            exact[place[block.rows]] = block.exact
        return result, exact

    def _answers(
        self, mode: int, todo: IntArray, count: int = 1, wanted: BoolArray | None = None
    ) -> Iterator[Answers]:
        """Answer rows, block by block; in mode SUM, rows that are too large stay open."""
        if not len(todo):
            return
        size = max(1, min(BLOCK_ROWS, (1 << 24) // max(1, count * len(self.domain))))
        parts = [
            (answer, rows[low : low + size])
            for answer, rows in self._methods(mode, todo, wanted)
            for low in range(0, len(rows), size)
        ]
        for answer, rows in progress(parts, "completing rows"):
            block = self._room(rows, mode, count, wanted)
            answer(block)
            wrong = np.flatnonzero(block.log_sum == -np.inf)
            if len(wrong):
                number = int(self.first[block.rows[wrong]].min()) + 1
                raise ModelError(
                    f"row {number} is impossible: the model gives its known values probability 0"
                )
            yield block

    def _methods(
        self, mode: int, todo: IntArray, wanted: BoolArray | None
    ) -> list[tuple[Callable[[Answers], None], IntArray]]:
        """Divide rows by how they are answered."""
        plan = self._tree_plan(mode, todo, wanted)
        if plan is not None:
            return [(lambda block: self._pass_messages(block, mode, plan, wanted), todo)]
        from conjoin.kernels.row_elimination import WHOLE, answer_rows, answer_small_rows

        # A sum needs all features; otherwise only those that test a free variable matter.
        hidden: Any = self.free[todo].any(axis=0)
        features = self.prepared.about(hidden | (mode == SUM))

        def eliminate(kernel: Any) -> Callable[[Answers], None]:
            return lambda block: self._eliminate(block, mode, wanted, features, kernel)

        cells = np.where(self.free[todo], np.log2(self.domain.cards), 0.0).sum(axis=1)
        large = cells > np.log2(min(WHOLE, self.max_cells)) + 1e-9
        few = mode == DRAWS and large.sum() <= self.few_rows and self.is_thin
        return [
            (eliminate(answer_small_rows), todo[~large]),
            (self._draw if few else eliminate(answer_rows), todo[large]),
        ]

    def _tree_plan(self, mode: int, todo: IntArray, wanted: BoolArray | None = None) -> Plan | None:
        """Return the plan of the network if rows are answered on its junction tree."""
        as_features = self.few_rows > 0 and self.prepared.n_values <= FEW_VALUES
        if not self.is_thin or not self.prepared.has_large_tables or as_features:
            return None
        # Draws, and modes that tie, must not depend on which other rows there are.
        alone = mode in (MAXIMUM, DRAWS) or (mode == MARGINALS and wanted is None)
        hidden: Any = None if alone else self.free[todo].any(axis=0)
        return self.prepared.plan(hidden, mode in (SUM, JOINT))

    @property
    def is_thin(self) -> bool:
        """Whether every row can be answered on the junction tree of the network."""
        order = self.prepared.order
        return order is not None and order.total <= self.max_network_cells

    def _room(
        self, rows: IntArray, mode: int, count: int, wanted: BoolArray | None = None
    ) -> Answers:
        width = int(self.domain.cards.sum()) if mode == MARGINALS else 0
        if mode == JOINT:
            width = int(self.domain.cards[wanted].sum())
        draws = count if mode in (MAXIMUM, DRAWS) else 0
        return Answers(
            rows,
            np.full(len(rows), np.nan),
            np.zeros((len(rows), width)),
            np.repeat(self.rows[rows][:, None], draws, axis=1),
            np.ones(len(rows), bool),
        )

    def _pass_messages(
        self, block: Answers, mode: int, plan: Plan, wanted: BoolArray | None = None
    ) -> None:
        """Answer rows by messages over the junction tree of the network."""
        from conjoin.kernels.row_messages import answer_rows_on_tree

        free = np.flatnonzero(plan.place >= 0)
        first = self.state_first[free]
        if mode == JOINT and wanted is not None:
            first = np.where(wanted[free], 0, -1)
        answer_rows_on_tree(
            mode, self.rows[block.rows], self.counters[block.rows], free, first,
            plan.tree, plan.program, plan.terms, block.arrays,
        )  # fmt: skip

    def _draw(self, block: Answers) -> None:
        """Draw each row as a query."""
        for i, r in enumerate(block.rows.tolist()):
            known = np.flatnonzero(~self.free[r])
            codes = self.rows[r, known].astype(np.int64)
            plan = self.prepared.compiled.plan(tuple(known.tolist()), MAX_MEMORY)
            rng = np.random.default_rng(int(self.counters[r]))
            uniform = rng.random((block.filled.shape[1], max(1, plan.n_cliques)))
            block.log_sum[i], states = plan.draw(plan.slots(codes)[0], uniform)
            free = np.flatnonzero(plan.place[: len(self.domain)] >= 0)
            block.filled[i][:, free] = states[:, plan.place[free]]

    def _eliminate(
        self,
        block: Answers,
        mode: int,
        wanted: BoolArray | None,
        features: RowFeatures,
        kernel: Any,
    ) -> None:
        """Answer each component of each row; those that are too large in another way."""
        left = np.zeros((len(block.rows), len(self.domain)), bool)
        asked = np.ones(len(self.domain), bool) if wanted is None else wanted
        kernel(
            mode, self.rows[block.rows], self.counters[block.rows], asked, features, self.max_cells,
            left, block.arrays,
        )  # fmt: skip
        block.log_sum += self.prepared.form.constant
        large = np.flatnonzero(left.any(axis=1))
        if len(large) and self.is_thin:
            part = block.select(large)
            self._pass_messages(part, mode, self.prepared.plan())
            block.write(large, part)
        elif len(large):
            block.exact[large] = False
            if mode != SUM:
                self._sample(block, mode, left)

    def _sample(self, block: Answers, mode: int, left: BoolArray) -> None:
        """Sample the components that are too large."""
        for i in np.flatnonzero(~block.exact).tolist():
            r, asked = block.rows[i], np.flatnonzero(left[i])
            chains = RowChains(
                self.prepared.form, self.rows[r], asked, int(self.counters[r]), self.settings
            )
            if mode == MARGINALS:
                states = np.repeat(left[i], self.domain.cards)
                block.marginals[i, states] = chains.marginals()[states]
            elif mode == MAXIMUM:
                block.filled[i, 0, asked] = chains.mode()
            else:
                block.filled[i][:, asked] = chains.draws(block.filled.shape[1])


def completed(model: Network, table: Table, random_state: int = 0) -> Table:
    """Return a table with its missing values drawn from a model, as in Monte Carlo EM."""
    table = table.over(model.domain.observed)
    if not (table.codes == table.missing).any():
        return table
    codes = Completion(model, table.codes, random_state, few_rows=FEW_ROWS).draws(1)[0]
    return Table.adopt(table.domain, codes, table.weights)


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
