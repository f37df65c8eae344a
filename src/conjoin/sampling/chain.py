"""Chains: a network conditioned on evidence, compiled once, and states that wander over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes, code_dtype
from conjoin.errors import ModelError
from conjoin.models.features import Features
from conjoin.sampling.rules import Rules

TRIES = 20
"""How often a chain is started anew if it finds no possible state."""


def variable_order(domain: Domain, order: Sequence[str] | None) -> IntArray:
    """Return the positions of an order of all variables given by name, the domain's own by default."""
    if order is None:
        return np.arange(len(domain))
    listed = [domain.index(name) for name in order]
    if sorted(listed) != list(range(len(domain))):
        raise ModelError(
            f"the order must name each of the {len(domain)} variables once; it has {len(listed)} "
            f"names, {len(set(listed))} of them different"
        )
    return np.array(listed, np.int64)


def chain_seeds(random_state: int | list[int], count: int) -> list[np.random.SeedSequence]:
    """Return independent seeds, one a chain, that do not depend on who runs which."""
    if np.min(random_state) < 0:
        raise ModelError(f"random_state must not be negative, not {random_state}")
    return np.random.SeedSequence(random_state).spawn(count)


class Sampler:
    """What all chains over one network and one evidence share.

    Parameters
    ----------
    rules : Rules
        The network.
    given : dict
        Codes of the known variables, by position.
    order : array of int
        The order of a sweep. A variable that is neither in it nor given stays in its random state, so
        no other in it may depend on it.
    """

    def __init__(self, rules: Rules, given: dict[int, int], order: IntArray) -> None:
        self.domain, self.given, self.breaking = rules.domain, given, rules.breaking
        rules.check(given)
        rules = rules.condition(given)
        cards: IntArray = np.array(self.domain.cards)
        self.cards = cards
        self.order = order[~np.isin(order, list(given))]
        self.first: IntArray = np.cumsum(cards) - cards
        self.n_states = int(cards.sum())
        soft = rules.features.soft_rows()
        self._hard_rules = rules.joint and bool((rules.features.weights < rules.breaking).any())
        plain = rules.features.select(np.flatnonzero(~soft))
        off = rules.features.select(np.flatnonzero(soft))
        owner = rules.owner
        arrays = (
            self.order, cards, self.first, *_tests(plain), *_columns(plain, _at(owner, ~soft)),
            *_soft(off, _at(owner, soft)),
        )  # fmt: skip
        # All alike in memory, so that the kernel is compiled once.
        self._arrays = tuple(np.require(a, requirements=["C", "W"]) for a in arrays)
        self._plain = plain

    def chain(self, seed: np.random.SeedSequence) -> Chain:
        """Start a chain in a random state that agrees with the evidence."""
        return Chain(self, seed)


def _at(owner: IntArray | None, which: Any) -> IntArray | None:
    return None if owner is None else owner[which]


def _tests(features: Features) -> tuple[Any, ...]:
    """Return where the tests of each variable start."""
    places = np.arange(len(features.tests.cards) + 1)
    return (np.searchsorted(features.tests.var, places).astype(np.int64),)


def _columns(features: Features, owner: IntArray | None) -> tuple[Any, ...]:
    """Return the arrays of plain features: by feature, by test, and the states of each test."""
    tests = features.tests
    index = features.indices.astype(np.int64)
    feature = features.entry_feature
    own = np.full(len(features), -1, np.int64)
    if owner is not None:
        mine = np.flatnonzero(features.entry_var == owner[feature])
        own[feature[mine]] = mine
    var = tests.var.astype(np.int64)
    first = np.cumsum(tests.cards) - tests.cards
    inside = tests.members()
    inside &= np.arange(inside.shape[1]) < tests.cards[var][:, None]
    which, state = np.nonzero(inside)
    state_ptr = np.searchsorted(which, np.arange(len(tests) + 1))
    entry = np.argsort(index, kind="stable")
    column_ptr = np.searchsorted(index[entry], np.arange(len(tests) + 1))
    return (
        features.indptr.astype(np.int64), index, features.weights, own, var, tests.mask,
        state_ptr.astype(np.int64), first[var[which]] + state, column_ptr.astype(np.int64),
        entry.astype(np.int64), feature.astype(np.int64),
    )  # fmt: skip


def _soft(features: Features, owner: IntArray | None) -> tuple[Any, ...]:
    """Return the arrays of features with off values, and the entries of each variable."""
    feature = features.entry_feature
    entries = np.arange(len(features.indices))
    if owner is not None:
        entries = entries[features.entry_var == owner[feature]]
    var = features.entry_var[entries].astype(np.int64)
    order = np.argsort(var, kind="stable")
    first = np.searchsorted(var[order], np.arange(len(features.tests.cards) + 1))
    return (
        features.indptr.astype(np.int64), features.indices.astype(np.int64), features.off_values(),
        features.weights, first.astype(np.int64), entries[order].astype(np.int64),
        feature.astype(np.int64),
    )  # fmt: skip


class Chain:
    """One Gibbs chain; it remembers its state, so that it can go on."""

    def __init__(self, sampler: Sampler, seed: np.random.SeedSequence) -> None:
        self.sampler = sampler
        count = len(sampler._plain)
        self._counter = seed.generate_state(1, np.uint64)
        self._seed = seed
        self.state = self._random_state(0)
        self._held = (
            np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(sampler.n_states),
            np.ones(len(sampler.cards), np.uint8), np.zeros(sampler.n_states),
        )  # fmt: skip

    def _random_state(self, attempt: int) -> IntArray:
        words = self._seed.generate_state(1 + (attempt + 1) * len(self.sampler.cards), np.uint32)
        words = words[1 + attempt * len(self.sampler.cards) :].astype(np.int64)
        state = words % self.sampler.cards
        for position, code in self.sampler.given.items():
            state[position] = code
        return state

    def run(
        self, n_sweeps: int, *, thin: int = 1, draw: bool = False, batches: int = 0
    ) -> tuple[Codes, FloatArray, FloatArray]:
        """Go on for a number of sweeps.

        Returns
        -------
        drawn : array of codes, shape (n_sweeps // thin, variables)
            The states, if `draw`, else without rows.
        sums, squares : arrays of float, shape (batches, states)
            Sums of the conditional probabilities, and of their squares.
        """
        from conjoin.kernels.gibbs import sweeps

        sampler = self.sampler
        rows = n_sweeps // thin if draw else 0
        drawn = np.zeros((rows, len(sampler.cards)), np.uint16)
        sums = np.zeros((batches, sampler.n_states))
        squares = np.zeros((batches, sampler.n_states))
        kernel: Any = sweeps
        kernel(
            *sampler._arrays, self.state, self._counter, *self._held, n_sweeps, thin, drawn, sums,
            squares,
        )  # fmt: skip
        return drawn.astype(code_dtype(sampler.cards)), sums, squares

    def burn_in(self, n_sweeps: int) -> None:
        """Go on without a record; end in a possible state or say that none was found."""
        self.run(n_sweeps)
        if not self.sampler._hard_rules:
            return
        for attempt in range(1, TRIES + 1):
            if self.possible():
                return
            self.run(max(n_sweeps, 10))
            if not self.possible():
                self.state = self._random_state(attempt)
                self.run(max(n_sweeps, 10))
        if not self.possible():
            raise ModelError(
                "no state of positive probability was found that agrees with the evidence; it may "
                "be impossible, or reachable only from few states"
            )

    def possible(self) -> bool:
        """Tell whether the state breaks no rule."""
        from conjoin.kernels.gibbs import broken

        plain = self.sampler._arrays
        features = self.sampler._plain
        return not broken(
            self.state,
            plain[4],
            plain[5],
            features.weights,
            plain[8],
            plain[9],
            self.sampler.breaking,
        )
