"""Tables with missing values: marginals, modes, draws and log-probabilities, row by row.

Most rows of a table have their own missing values, so a plan per set of missing variables would not pay
off. If the junction tree of the network is small, all rows are answered by messages over it, without the
variables that they know. Otherwise, a kernel puts the known values of a row into the features and answers
each component of the free variables exactly if its tables are small; larger components are sampled. Equal
rows are answered once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, distinct
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, Table, code_dtype, with_hidden
from conjoin.errors import ModelError
from conjoin.inference.chain import Sampler
from conjoin.inference.plan import Plan
from conjoin.inference.prepared_rows import prepared
from conjoin.inference.terms import as_markov_network
from conjoin.kernels.elimination_layouts import (
    DRAWS,
    MARGINALS,
    MAXIMUM,
    MISSING,
    SUM,
    AnswerArrays,
    Terms,
)
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.network import Network
from conjoin.progress import progress

MAX_CELLS = 1 << 19
"""Components of rows of dense networks are answered exactly if they have at most this number of cells."""

BLOCK_ROWS = 1 << 10
"""Number of rows that are passed to the kernel at a time."""


BURN_IN, SWEEPS, SWEEPS_PER_ROW = 50, 400, 10
"""Number of sweeps that do not count, that marginals are averaged over, and between two drawn rows."""

STARTS, ANNEALING, CLIMBING_SWEEPS = 5, 10, 1000
"""A mode is the best of the first number of starts, each annealed for the second number of sweeps, and
improved in at most the third."""


class AnsweredRows(NamedTuple):
    """Some of the distinct rows, their answers, and which of their values were sampled."""

    rows: IntArray
    answers: AnswerArrays
    sampled: BoolArray  # rows by variables

    @property
    def exact(self) -> BoolArray:
        """Which rows are exact."""
        return np.asarray(~self.sampled.any(axis=1))


class Completion:
    """Answers for the rows of one table.

    A code that is not a state is a missing value. Hidden variables may be left out of the rows, and are
    left out of completed rows. The draws for a row depend on the seed and on the row, not on its
    position. A network is dense, so that components of more than `max_cells` cells are sampled, if its
    junction tree has more cells than `max_network_cells`, or more than `PreparedRows` allows.
    """

    def __init__(
        self,
        model: Network,
        codes: Codes,
        random_state: int = 0,
        *,
        max_cells: int = MAX_CELLS,
        max_network_cells: float = np.inf,
    ) -> None:
        self.model, self.domain = model, model.domain
        self.prepared = prepared(model)
        self.shown = slice(len(self.domain.observed))
        order = self.prepared.order
        self.is_thin = order is not None and order.total <= max_network_cells
        self.max_cells = max_cells
        cards = self.domain.cards
        rows = np.where(cards == 1, 0, with_hidden(self.domain, codes)).astype(np.uint16)
        rows = np.where(rows >= cards, MISSING, rows)
        self.first, self.inverse = distinct_rows(rows)
        self.rows = np.ascontiguousarray(rows[self.first])
        self.free: BoolArray = self.rows >= cards
        self.counters = _hashes(self.rows, random_state)
        self.state_first = (np.cumsum(cards) - cards).astype(np.int64)

    def log_sums(self, *, strict: bool = True) -> tuple[FloatArray, BoolArray]:
        """Return the log of the summed potentials that agree with each row, and which are exact."""
        from conjoin.inference.engines import log_partition

        log_sums, exact = np.empty(len(self.rows)), np.ones(len(self.rows), bool)
        for block in self._blocks(SUM, np.arange(len(self.rows)), sample=False):
            log_sums[block.rows] = block.answers.log_sum
            exact[block.rows] = block.exact
        if strict:
            self._check_possible(np.flatnonzero(log_sums == -np.inf))
        for r in np.flatnonzero(~exact):
            known = np.flatnonzero(~self.free[r])
            given = {
                self.domain.names[v]: self.domain.variables[v].states[self.rows[r, v]]
                for v in known.tolist()
            }
            log_sums[r] = log_partition(
                self.model, given, method="ais", random_state=int(self.counters[r])
            ).value
        return log_sums[self.inverse], exact[self.inverse]

    def marginals(self, target: int) -> tuple[FloatArray, BoolArray]:
        """Return the distribution of a variable in each row, and which are exact."""
        card, low = int(self.domain.cards[target]), self.state_first[target]
        p = np.zeros((len(self.rows), card))
        exact = np.ones(len(self.rows), bool)
        hidden = self.free[:, target]
        known = np.flatnonzero(~hidden)
        p[known, self.rows[known, target]] = 1.0
        for block in self._blocks(MARGINALS, np.flatnonzero(hidden), target=target):
            p[block.rows] = block.answers.marginals[:, low : low + card]
            exact[block.rows] = block.exact
        return p[self.inverse], exact[self.inverse]

    def all_marginals(self) -> tuple[FloatArray, BoolArray]:
        """Return the distributions of all columns that a row lacks, side by side, and which are exact."""
        p, sampled = self._all_marginals(sample=True)
        return p, np.asarray(~sampled.any(axis=1))

    def exact_marginals(self) -> tuple[FloatArray, BoolArray]:
        """Return the same, and which values would have to be sampled: rows by variables."""
        return self._all_marginals(sample=False)

    def _all_marginals(self, *, sample: bool) -> tuple[FloatArray, BoolArray]:
        p = np.zeros((len(self.rows), int(self.domain.cards.sum())))
        sampled = np.zeros(self.rows.shape, bool)
        for block in self._blocks(MARGINALS, self._incomplete(), sample=sample):
            p[block.rows] = block.answers.marginals
            sampled[block.rows] = block.sampled
        return p[self.inverse], sampled[self.inverse]

    def likely(self) -> tuple[Codes, BoolArray]:
        """Return the rows with each missing value replaced by its own most probable state."""
        rows = self.rows.copy()
        exact = np.ones(len(self.rows), bool)
        for block in self._blocks(MARGINALS, self._incomplete()):
            for v, card in enumerate(self.domain.cards.tolist()):
                low = self.state_first[v]
                best = block.answers.marginals[:, low : low + card].argmax(axis=1)
                hole = self.free[block.rows, v]
                rows[block.rows[hole], v] = best[hole]
            exact[block.rows] = block.exact
        return self._as_codes(rows)[self.inverse][:, self.shown], exact[self.inverse]

    def modes(self) -> tuple[Codes, BoolArray]:
        """Return the most probable completion of each row, and which are exact."""
        rows = self._as_codes(self.rows)
        exact = np.ones(len(self.rows), bool)
        for block in self._blocks(MAXIMUM, self._incomplete()):
            rows[block.rows] = block.answers.filled[:, 0]
            exact[block.rows] = block.exact
        return rows[self.inverse][:, self.shown], exact[self.inverse]

    def draws(self, count: int) -> Codes:
        """Return completions drawn from the distribution given each row: draws by rows by variables."""
        repeats = np.bincount(self.inverse, minlength=len(self.rows))
        order = np.argsort(self.inverse, kind="stable")
        rank = np.empty(len(order), np.int64)  # of each row among those that are equal to it
        starts = np.cumsum(repeats) - repeats
        rank[order] = np.arange(len(order)) - starts[self.inverse[order]]
        incomplete = self._incomplete()
        completed_rows = self._as_codes(self.rows)[self.inverse][None].repeat(count, axis=0)
        # Rows that occur about equally often are drawn for together.
        sizes = 1 << np.ceil(np.log2(repeats)).astype(np.int64)
        for size in distinct(sizes[incomplete]).tolist():
            chosen = incomplete[sizes[incomplete] == size]
            for block in self._blocks(DRAWS, chosen, count * size):
                place = np.full(len(self.rows), -1, np.int64)
                place[block.rows] = np.arange(len(block.rows))
                at = np.flatnonzero(place[self.inverse] >= 0)
                for d in range(count):
                    drawn = block.answers.filled[place[self.inverse[at]], d * size + rank[at]]
                    completed_rows[d, at] = drawn
        return completed_rows[:, :, self.shown]

    def _incomplete(self) -> IntArray:
        return np.flatnonzero(self.free.any(axis=1))

    def _as_codes(self, rows: Codes) -> Codes:
        return rows.astype(code_dtype(self.domain.cards))

    def _blocks(
        self,
        mode: int,
        todo: IntArray,
        count: int = 1,
        target: int | None = None,
        *,
        sample: bool = True,
    ) -> Iterator[AnsweredRows]:
        """Answer rows, block by block; if asked to, sample the components that are too large."""
        if not len(todo):
            return
        answer: Callable[[AnsweredRows], None]
        if self.is_thin:
            answer = partial(self._pass_messages, mode, self._plan(mode, todo, target))
        else:
            # A sum needs all features; otherwise only those that test a free variable matter.
            hidden: Any = self.free[todo].any(axis=0)
            terms = self.prepared.about(hidden | (mode == SUM))
            answer = partial(self._eliminate, mode, target, terms)
        size = max(1, min(BLOCK_ROWS, (1 << 24) // max(1, count * len(self.domain))))
        parts = [todo[low : low + size] for low in range(0, len(todo), size)]
        for rows in progress(parts, "completing rows"):
            block = self._empty_block(rows, mode, count)
            answer(block)
            if mode != SUM:
                self._check_possible(rows[block.answers.log_sum == -np.inf])
            if sample:
                self._sample(block, mode)
            yield block

    def _check_possible(self, impossible: IntArray) -> None:
        if len(impossible):
            number = int(self.first[impossible].min()) + 1
            raise ModelError(
                f"row {number} is impossible: the model gives its known values probability 0"
            )

    def _empty_block(self, rows: IntArray, mode: int, count: int) -> AnsweredRows:
        width = int(self.domain.cards.sum()) if mode == MARGINALS else 0
        draws = count if mode in (MAXIMUM, DRAWS) else 0
        answers = AnswerArrays(
            np.full(len(rows), np.nan),
            np.zeros((len(rows), width)),
            np.repeat(self.rows[rows][:, None], draws, axis=1),
        )
        return AnsweredRows(rows, answers, np.zeros((len(rows), len(self.domain)), bool))

    def _plan(self, mode: int, todo: IntArray, target: int | None = None) -> Plan:
        """Return a plan over the junction tree of the network for all these rows."""
        # Draws, and modes that tie, must not depend on which other rows there are.
        alone = mode in (MAXIMUM, DRAWS) or (mode == MARGINALS and target is None)
        hidden: Any = None if alone else self.free[todo].any(axis=0)
        return self.prepared.plan(hidden, mode == SUM)

    def _pass_messages(self, mode: int, plan: Plan, block: AnsweredRows) -> None:
        """Answer rows by messages over the junction tree of the network."""
        from conjoin.kernels.row_messages import answer_rows_on_tree

        free = np.flatnonzero(plan.place >= 0)
        answer_rows_on_tree(
            mode, self.rows[block.rows], self.counters[block.rows], free, self.state_first[free],
            plan.tree, plan.program, plan.terms, block.answers,
        )  # fmt: skip

    def _eliminate(self, mode: int, target: int | None, terms: Terms, block: AnsweredRows) -> None:
        """Reduce the features to the missing variables of each row, and answer each component."""
        from conjoin.kernels.row_elimination import answer_rows

        wanted = np.full(len(self.domain), target is None)
        if target is not None:
            wanted[target] = True
        answer_rows(
            mode, self.rows[block.rows], self.counters[block.rows], wanted, self.domain.cards,
            self.state_first, terms, self.max_cells, block.sampled, block.answers,
        )  # fmt: skip
        block.answers.log_sum[:] += self.prepared.form.constant

    def _sample(self, block: AnsweredRows, mode: int) -> None:
        """Sample the components that are too large."""
        answers = block.answers
        for i in np.flatnonzero(~block.exact).tolist():
            row, asked = self.rows[block.rows[i]], np.flatnonzero(block.sampled[i])
            known = np.flatnonzero(row != MISSING)
            given = dict(zip(known.tolist(), row[known].tolist(), strict=True))
            sampler = Sampler(self.prepared.form, given, asked)
            seeds = np.random.SeedSequence(int(self.counters[block.rows[i]])).spawn(STARTS)
            if mode == MAXIMUM:
                answers.filled[i, 0, asked] = _annealed(sampler, seeds)[asked]
                continue
            chain = sampler.chain(seeds[0], BURN_IN)
            if mode == MARGINALS:
                states = np.repeat(block.sampled[i], self.domain.cards)
                sums = chain.run(SWEEPS, batches=1).sums[0]
                answers.marginals[i, states] = sums[states] / SWEEPS
            else:
                drawn = chain.draw(answers.filled.shape[1], SWEEPS_PER_ROW)
                answers.filled[i][:, asked] = drawn[:, asked]


def _annealed(sampler: Sampler, seeds: list[np.random.SeedSequence]) -> IntArray:
    """Return the best state that annealing finds, from an inverse temperature of 1 to 5."""
    cooling = 5.0 ** np.linspace(0, 1, ANNEALING)
    betas = np.append(cooling, np.full(CLIMBING_SWEEPS, np.inf))
    chains = [sampler.chain(seed) for seed in seeds]
    for chain in chains:
        chain.run(betas)
    return max(chains, key=lambda chain: chain.log_potential).state


def completed(model: Network, table: Table, random_state: int = 0) -> Table:
    """Return a table with its missing values drawn from a model, as in Monte Carlo EM."""
    table = table.over(model.domain.observed)
    if not (table.codes == table.missing).any():
        return table
    codes = Completion(model, table.codes, random_state).draws(1)[0]
    return Table.adopt(table.domain, codes, table.weights)


def row_log_sums(
    model: Network, codes: Codes, random_state: int = 0, *, strict: bool = True
) -> tuple[FloatArray, BoolArray]:
    """Return the log of the summed potentials that agree with each row, and which are exact.

    `codes`: the rows; a code that is not a state is a missing value. `random_state`: the seed, for
    rows that have to be estimated. `strict`: whether impossible rows with missing values are an error.
    """
    holes = (codes >= model.domain.observed.cards).any(axis=1)
    sums, exact = np.empty(len(codes)), np.ones(len(codes), bool)
    if isinstance(model, BayesianNetwork):
        sums[~holes] = model.log_likelihood(codes[~holes])
    else:
        sums[~holes] = as_markov_network(model).log_potential(codes[~holes])
    if holes.any():
        rows = Completion(as_markov_network(model), codes[holes], random_state)
        sums[holes], exact[holes] = rows.log_sums(strict=strict)
    return sums, exact


def row_log_joints(
    model: Network, codes: Codes, target: int, random_state: int = 0
) -> tuple[FloatArray, BoolArray]:
    """Return the same with each state of a variable in place of what the rows say of it."""
    card = int(model.domain.cards[target])
    whole = np.repeat(codes, card, axis=0)
    whole[:, target] = np.tile(np.arange(card), len(codes))
    logs, exact = row_log_sums(model, whole, random_state, strict=False)
    return logs.reshape(-1, card), np.asarray(exact.reshape(-1, card).all(axis=1))


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
