"""The general Markov chain: any network, any evidence, any schedule of inverse temperatures.

Gibbs sampling, annealed importance sampling and simulated annealing all run
this chain: a sweep draws each variable from its conditional distribution to the power of the inverse
temperature beta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes, code_dtype
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.kernels.gibbs_chain import run_chain
from conjoin.kernels.layouts import ChainArrays, packed
from conjoin.models.loglinear import LogLinearForm

MAX_RESTARTS = 20
"""Number of times a chain is restarted if it does not find a possible state."""

NO_POSSIBLE_STATE = (
    "no state of positive probability was found that agrees with the evidence; it may be impossible, "
    "or reachable only from few states"
)


def variable_order(domain: Domain, order: Sequence[str] | None) -> IntArray:
    """Return the positions of an order of all variables given by name, by default the domain's own."""
    if order is None:
        return np.arange(len(domain))
    rest = [name for name in domain.hidden_names if name not in order]
    listed = [domain.index(name) for name in (*order, *rest)]
    if sorted(listed) != list(range(len(domain))):
        raise ModelError(
            f"the order must name each of the {len(domain)} variables once; it has {len(listed)} "
            f"names, {len(set(listed))} of them different"
        )
    return np.array(listed, np.int64)


def possible_form(form: LogLinearForm, given: Mapping[int, int]) -> LogLinearForm:
    """Return a form conditioned on evidence; raise an error if the evidence is impossible by itself."""
    conditioned = form.condition(given).nonzero()
    if conditioned.constant == -np.inf:
        variables = form.domain.variables
        raise impossible({variables[v].name: variables[v].states[s] for v, s in given.items()})
    return conditioned


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of some sweeps."""

    # The number of sweeps until no variable changed, at an infinite inverse temperature; otherwise
    # one more than there were sweeps
    sweeps: int
    # The states after every `sweeps_per_row` sweeps, if they were asked for; shape (sweeps //
    # sweeps_per_row, variables)
    drawn: Codes
    # sums, squares: sums of the conditional probabilities and of their squares; shape (batches,
    # states)
    sums: FloatArray
    squares: FloatArray
    scores: FloatArray  # the log-potential before each sweep, if it was asked for; shape (sweeps,)


class Sampler:
    """A network conditioned on evidence, ready for chains.

    `order`: the order of a sweep. A variable that is neither in it nor given keeps its random
    initial state, so no variable in it may depend on it. `hard_weight`: the finite weight that
    replaces -inf. By default it is so low that one violated constraint outweighs all soft features
    together: a chain that starts in an impossible state moves to states that violate fewer
    constraints, and never back.
    """

    def __init__(
        self,
        form: LogLinearForm,
        given: Mapping[int, int],
        order: IntArray | None = None,
        hard_weight: float | None = None,
    ) -> None:
        self.domain, self.given = form.domain, dict(given)
        conditioned = possible_form(form, given)
        self.constant = conditioned.constant  # what the evidence contributes by itself
        if hard_weight is None:
            hard_weight = conditioned.overwhelming_weight
        finite = conditioned.with_hard_weight(hard_weight)
        soft: BoolArray = finite.features.soft_rows()
        self.hard = conditioned.hard[~soft]  # of the features without off values
        self.must_be_possible = form.is_joint and bool(self.hard.any())
        # The arrays of a whole form are kept by it, so a network without evidence has them already.
        self.plain = (finite.select(~soft) if soft.any() else finite).arrays
        self.soft = finite.select(soft).arrays
        sweep = np.arange(len(self.domain)) if order is None else order
        self.order = packed(sweep[~np.isin(sweep, list(given))], np.int64)

    def chain(self, seed: np.random.SeedSequence, burn_in: int | None = None) -> Chain:
        """Start a chain in a random state that agrees with the evidence; burn it in if asked to."""
        chain = Chain(self, seed)
        if burn_in is not None:
            chain.burn_in(burn_in)
        return chain


class Chain:
    """One chain. It keeps its state, so it can be continued."""

    def __init__(self, sampler: Sampler, seed: np.random.SeedSequence) -> None:
        self.sampler, self._seed = sampler, seed
        features, cards = len(sampler.plain.weight), sampler.plain.cards
        n_states = int(cards.sum())
        self.arrays = ChainArrays(
            state=packed(self._random_state(0), np.int64),
            counter=packed(seed.generate_state(1, np.uint64), np.uint64),
            failing=np.zeros(features, np.int64),
            failing_sum=np.zeros(features, np.int64),
            field=np.zeros(n_states),
            stale=np.ones(len(cards), np.uint8),
            p=np.zeros(n_states),
            log_potential=np.zeros(1),
        )

    @property
    def state(self) -> IntArray:
        """The current state of each variable."""
        return self.arrays.state

    @property
    def log_potential(self) -> float:
        """The sum of all features in the current state, without the constant."""
        return float(self.arrays.log_potential[0])

    def set_state(self, state: IntArray) -> None:
        """Move all variables at once; the evidence stays."""
        self.arrays.state[:] = state
        for position, code in self.sampler.given.items():
            self.arrays.state[position] = code

    def _random_state(self, attempt: int) -> IntArray:
        cards = self.sampler.plain.cards
        words = self._seed.generate_state(1 + (attempt + 1) * len(cards), np.uint32)
        state = words[1 + attempt * len(cards) :].astype(np.int64) % cards
        for position, code in self.sampler.given.items():
            state[position] = code
        return state

    def run(
        self,
        betas: int | FloatArray,
        *,
        sweeps_per_row: int = 1,
        draw: bool = False,
        batches: int = 0,
        score: bool = False,
    ) -> Trace:
        """Continue the chain.

        `betas`: the inverse temperature of each sweep; an integer is a number of sweeps at 1. At
        infinity each variable takes its best state, and the chain stops when none changes.
        `batches`: number of parts in which conditional probabilities are summed; 0 if they are not
        needed.
        """
        sampler = self.sampler
        schedule = packed(np.ones(betas) if isinstance(betas, int) else betas, np.float64)
        cards, n_states = sampler.plain.cards, len(self.arrays.field)
        drawn = np.zeros((len(schedule) // sweeps_per_row if draw else 0, len(cards)), np.uint16)
        sums, squares = np.zeros((batches, n_states)), np.zeros((batches, n_states))
        scores = np.zeros(len(schedule) if score else 0)
        kernel: Any = run_chain
        sweeps = kernel(
            sampler.order, sampler.plain, sampler.soft, self.arrays, schedule, sweeps_per_row, drawn,
            sums, squares, scores,
        )  # fmt: skip
        return Trace(sweeps, drawn.astype(code_dtype(cards)), sums, squares, scores)

    def draw(self, rows: int, sweeps_per_row: int = 1) -> Codes:
        """Continue the chain; return its state after every `sweeps_per_row` sweeps."""
        return self.run(rows * sweeps_per_row, sweeps_per_row=sweeps_per_row, draw=True).drawn

    def burn_in(self, n_sweeps: int) -> None:
        """Run without a record; end in a possible state, or raise an error if none was found."""
        self.run(n_sweeps)
        if not self.sampler.must_be_possible:
            return
        for attempt in range(1, MAX_RESTARTS + 1):
            if self.is_possible():
                return
            self.run(max(n_sweeps, 10))
            if not self.is_possible():
                self.set_state(self._random_state(attempt))
                self.run(max(n_sweeps, 10))
        if not self.is_possible():
            raise ModelError(NO_POSSIBLE_STATE)

    def is_possible(self) -> bool:
        """Return whether the state, after at least one `run`, violates no hard constraint."""
        return not (self.arrays.failing[self.sampler.hard] == 0).any()
