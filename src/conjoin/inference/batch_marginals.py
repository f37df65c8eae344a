"""Marginals of some variables given all others, for many rows of evidence at once.

The free variables fall into components that do not depend on each other. Components of few states are
enumerated, all others are sampled: by chains of 128 rows side by side or, if they have hard constraints
or off values, by the general chain, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, IntArray, UIntArray, distinct
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.inference.bitpacked_chains import BitpackedChains, fits
from conjoin.inference.chain import Sampler
from conjoin.inference.projection import ROWS, Projection, RowWeights
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm

BATCHES = 25
"""Number of parts in which the sweeps of a chain are summed, for standard errors."""

MAX_CELLS = 1 << 21
"""Maximum number of units times states of a component that is enumerated."""

STREAM = 0xD1342543DE82EF95
"""Distance of the random numbers of two components."""


@dataclass(frozen=True)
class Settings:
    """How chains are run.

    Attributes
    ----------
    burn_in : int
        Number of sweeps that are discarded.
    samples : int
        Number of sweeps that count; a multiple of the number of batches.
    batches : int
        Number of parts in which they are summed.
    enumerate_small : bool
        Whether components of few states are enumerated. Tests switch it off.
    """

    burn_in: int
    samples: int
    batches: int
    enumerate_small: bool = True

    @classmethod
    def of(cls, burn_in: int, samples: int, *, enumerate_small: bool = True) -> Settings:
        """Round the sweeps up to whole batches."""
        if burn_in < 0 or samples < 2:
            raise ModelError("burn_in must not be negative, samples must be 2 or more")
        batches = min(BATCHES, samples)
        return cls(burn_in, -(-samples // batches) * batches, batches, enumerate_small)

    def max_states(self, variables: int) -> int:
        """Return the number of states up to which enumerating them is no slower than sampling."""
        return (self.burn_in + self.samples) * variables // 4


class BatchResult(NamedTuple):
    """Marginals for some rows of evidence.

    Attributes
    ----------
    mean : float64, (rows, states of all free variables)
        The marginals, side by side.
    batch : float32, (batches, states, ROWS)
        Sums of the conditional probabilities by batch, where they are not exact.
    exact : bool, (rows, free variables)
        Which marginals are exact.
    """

    mean: FloatArray
    batch: Float32Array
    exact: BoolArray


@dataclass(frozen=True, eq=False)
class Component:
    """Free variables that depend on each other in some row.

    Attributes
    ----------
    members : array of int
        The variables, ascending.
    place : array of int
        Their places among the free variables.
    states : array of int
        The places of their states among those of all free variables.
    units : array of int
        The units that test them.
    order : array of int
        The order of a sweep, within the members.
    """

    members: IntArray
    place: IntArray
    states: IntArray
    units: IntArray
    order: IntArray


class BatchMarginals:
    """Marginals of free variables given rows of all the others.

    Parameters
    ----------
    form : LogLinearForm
        The network.
    free : array of int
        The free variables, ascending.
    order : array of int
        The order of a sweep, over all variables.
    settings : Settings
        How chains are run.
    """

    def __init__(
        self, form: LogLinearForm, free: IntArray, order: IntArray, settings: Settings
    ) -> None:
        self.free, self.settings = free, settings
        self.cards = form.domain.cards[free]
        self.projection = Projection.of(form, free)
        self.engines = [
            self._engine(component) for component in _components(self.projection, free, order)
        ]

    def _engine(self, component: Component) -> tuple[Component, Any]:
        sizes = self.projection.units.domain.cards[component.members]
        states = float(np.prod(sizes.astype(np.float64)))
        few = (
            self.settings.enumerate_small
            and self.projection.units.is_joint
            and states <= self.settings.max_states(len(sizes))
            and states * len(component.units) <= MAX_CELLS
        )
        if few or len(sizes) == 1:
            return component, Enumeration(self.projection.units, component)
        if fits(self.projection, component.units):
            chains = BitpackedChains(
                self.projection, component.members, component.units, component.order
            )
            return component, chains
        return component, RowChains(self.projection, component)

    def by_similarity(self, codes: Codes) -> IntArray:
        """Return an order in which rows of similar evidence follow each other.

        Rows are sorted by the variables that most features test. A block of similar rows is sampled
        faster, because fewer features are alive in any of them; the answers are the same.
        """
        known = self.projection.known
        tests = np.bincount(known.test_var[known.test], minlength=codes.shape[1])
        used = np.flatnonzero(tests)
        columns = used[np.argsort(tests[used], kind="stable")]  # the last one is the first key
        return np.lexsort(codes[:, columns].T) if len(columns) else np.arange(len(codes))

    def marginals(self, codes: Codes, counters: UIntArray) -> BatchResult:
        """Return the marginals given each of at most `ROWS` rows.

        Parameters
        ----------
        codes : array of codes, shape (rows, variables)
            The evidence; what they say of the free variables is ignored.
        counters : array of uint64, shape (rows,)
            The random numbers of each row. The answer for a row depends on the row and its counter
            only.
        """
        settings, rows = self.settings, len(codes)
        width = int(self.cards.sum())
        mean, exact = np.zeros((width, ROWS)), np.zeros((len(self.free), ROWS), bool)
        batch = np.zeros((settings.batches, width, ROWS), np.float32)
        weights = self.projection.weights(codes)
        starts = np.zeros(ROWS, np.uint64)
        starts[:rows] = counters
        for number, (component, engine) in enumerate(self.engines):
            own = starts + np.uint64(number * STREAM % 2**64)
            known, sums, sure = engine.marginals(
                weights, own, settings.burn_in, settings.samples, settings.batches
            )
            if sums is not None:
                if len(component.states) == width:
                    batch = sums
                else:
                    batch[:, component.states] = sums
                sampled = sums.sum(axis=0, dtype=np.float64) / settings.samples
                sizes = self.cards[component.place]
                known = np.where(np.repeat(sure, sizes, axis=0), known, sampled)
            mean[component.states], exact[component.place] = known, sure
        return BatchResult(np.ascontiguousarray(mean[:, :rows].T), batch, exact[:, :rows].T)


class Enumeration:
    """A component of few states: all of them, for all rows at once.

    Parameters
    ----------
    form : LogLinearForm
        The units.
    component : Component
        The variables.
    """

    def __init__(self, form: LogLinearForm, component: Component) -> None:
        cards = form.domain.cards[component.members]
        size = int(np.prod(cards))
        states = np.stack(np.unravel_index(np.arange(size), cards))
        codes = np.zeros((size, len(form.domain)), np.uint16)
        codes[:, component.members] = states.T
        self.units = component.units
        features = form.features.select(component.units)
        self.values = _values(features, codes)
        self.indicator = np.concatenate(
            [states[k] == np.arange(card)[:, None] for k, card in enumerate(cards.tolist())]
        ).astype(np.float64)
        self.n = len(cards)

    def marginals(
        self,
        weights: RowWeights,
        counters: UIntArray,  # noqa: ARG002
        burn_in: int,  # noqa: ARG002
        samples: int,  # noqa: ARG002
        batches: int,  # noqa: ARG002
    ) -> tuple[FloatArray, None, BoolArray]:
        """Return exact marginals (see `BitpackedChains.marginals`)."""
        logs = self.values.T @ weights.of_units(self.units)
        p = np.exp(logs - logs.max(axis=0))
        p /= p.sum(axis=0)
        return self.indicator @ p, None, np.ones((self.n, ROWS), bool)


def _values(features: Features, codes: Codes) -> FloatArray:
    """Return the value of each feature without its weight, features by instances."""
    holds = features.tests.truth(codes)[features.indices]
    factors = np.where(holds, 1.0, features.off_values()[:, None])
    if not len(features):
        return np.zeros((0, len(codes)))
    return np.multiply.reduceat(factors, features.indptr[:-1], axis=0)


class RowChains:
    """A component of any kind: the general chain on the units that are alive, row by row.

    Parameters
    ----------
    projection : Projection
        The network.
    component : Component
        The variables.
    """

    def __init__(self, projection: Projection, component: Component) -> None:
        self.projection, self.component = projection, component

    def marginals(
        self,
        weights: RowWeights,
        counters: UIntArray,
        burn_in: int,
        samples: int,
        batches: int,
    ) -> tuple[FloatArray, Float32Array, BoolArray]:
        """Return sampled marginals (see `BitpackedChains.marginals`)."""
        component, form = self.component, self.projection.units
        members = component.members
        units = weights.alive(component.units)
        by_row = weights.of_units(units)
        by_row[by_row < self.projection.hard_weight / 2] = -np.inf
        first = np.cumsum(form.domain.cards) - form.domain.cards
        states = np.concatenate([first[v] + np.arange(form.domain.cards[v]) for v in members])
        sums = np.zeros((batches, len(states), ROWS), np.float32)
        for r in range(weights.rows):
            alive = np.flatnonzero(by_row[:, r])
            features = form.features.select(units[alive])
            features = Features(
                features.tests, features.indptr, features.indices, by_row[alive, r], features.off
            )
            owner = None if form.owner is None else form.owner[units[alive]]
            row_form = LogLinearForm(form.domain, features, owner)
            sampler = Sampler(row_form, {}, members[component.order])
            chain = sampler.chain(np.random.SeedSequence(int(counters[r])), burn_in)
            sums[:, :, r] = chain.run(samples, batches=batches).sums[:, states]
        return np.zeros((len(states), ROWS)), sums, np.zeros((len(members), ROWS), bool)


def _components(projection: Projection, free: IntArray, order: IntArray) -> list[Component]:
    """Return the sets of free variables that depend on each other in any row."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    form = projection.units
    cards = form.domain.cards
    features, n = form.features, len(form.domain)
    entries = (np.ones(len(features.indices)), features.entry_var, features.indptr)
    graph = csr_array(entries, shape=(len(features), n))
    _, label = connected_components(graph.T @ graph, directed=False)
    unit_label = np.full(len(features), -1, np.int64)
    unit_label[features.entry_feature] = label[features.entry_var]
    first = np.cumsum(cards[free]) - cards[free]
    found = []
    for k in distinct(label[free]):
        place = np.flatnonzero(label[free] == k)
        members = free[place]
        local = np.full(n, -1, np.int64)
        local[members] = np.arange(len(members))
        sweep = local[order]
        states = np.concatenate([first[i] + np.arange(cards[free[i]]) for i in place])
        found.append(
            Component(members, place, states, np.flatnonzero(unit_label == k), sweep[sweep >= 0])
        )
    return found
