"""Answers from one component of a mixed network for one case of evidence.

In a case, each number of which something is known is one of its atoms, a point, or in an interval; of
categories, the state or a likelihood per state is known. A Gaussian component is asked once for the joint
distribution of categories and hidden states; the numbers re-weight the hidden states. In a binned
component, an interval is a likelihood of the bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.inference.compilation import compiled
from conjoin.inference.completion import Completion
from conjoin.inference.component_answers import as_codes
from conjoin.inference.exact import log_partition, split_marginals
from conjoin.inference.hidden_joints import HiddenJoints, hidden_joints
from conjoin.inference.number_evidence import between
from conjoin.inference.plan import Plan
from conjoin.inference.weighted_networks import weighted_markov_network
from conjoin.kernels.elimination_layouts import MARGINALS
from conjoin.models.gaussian_boxes import (
    Box,
    BoxPoints,
    box_points,
    conditional_parts,
    drawn_scores,
    log_box,
)
from conjoin.models.gaussians import Gaussians, Scores
from conjoin.models.hidden_states import log_sum
from conjoin.models.mixed import BinnedComponent, GaussianComponent, MixedNetwork

NEGLIGIBLE = 1e-14
"""Hidden states with less probability are left out of the distributions of numbers."""


@dataclass(frozen=True, eq=False)
class Case:
    """What is known in one case.

    Attributes
    ----------
    states : mapping
        The states of categories, by name.
    logs : mapping
        The log-likelihoods of the states of other categories, by name.
    atoms : mapping
        The numbers that are one of their atoms, by position.
    boxes : mapping
        The scores of other numbers, by position.
    log_weight : float
        The log-likelihood of the evidence in this case.
    groups : mapping
        The range, or group of states, of each column that has a new marginal.
    """

    states: Mapping[str, int] = field(default_factory=dict)
    logs: Mapping[str, FloatArray] = field(default_factory=dict)
    atoms: Mapping[int, int] = field(default_factory=dict)
    boxes: Mapping[int, Box] = field(default_factory=dict)
    log_weight: float = 0.0
    groups: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NumberParts:
    """The distribution of a number: atoms, and a mixture of (cut) Gaussians of its normal score."""

    atoms: FloatArray
    weights: FloatArray
    means: FloatArray
    sds: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class GaussianCase:
    """Answers from a Gaussian component."""

    model: MixedNetwork
    component: GaussianComponent
    case: Case

    @cached_property
    def _states(self) -> dict[int, int]:
        """The known states of the network, by position."""
        domain, case = self.component.network.domain, self.case
        states = {domain.index(name): code for name, code in case.states.items()}
        for j in (*case.atoms, *case.boxes):
            rest = len(self.model.maps[j].atoms)
            if rest:
                states[domain.index(self.model.numbers[j])] = case.atoms.get(j, rest)
        return states

    @cached_property
    def _logs(self) -> dict[int, FloatArray]:
        domain = self.component.network.domain
        return {domain.index(name): logs for name, logs in self.case.logs.items()}

    @cached_property
    def _joints(self) -> HiddenJoints:
        return hidden_joints(self.component.network, self._states, self._logs)

    @cached_property
    def _numbers(self) -> FloatArray:
        """The log-likelihood of each hidden state, from what is known of numbers."""
        gaussians, boxes = self.component.gaussians, self.case.boxes
        return log_box(gaussians, boxes) if boxes else np.zeros(len(gaussians.means))

    @cached_property
    def log_mass(self) -> float:
        """The log-probability of the case; points count by their density times their width."""
        return float(log_sum(self._joints.log_states + self._numbers))

    @cached_property
    def _posterior(self) -> FloatArray:
        return np.exp(self._joints.log_states + self._numbers - self.log_mass)

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category."""
        v = self.component.network.domain.index(name)
        return np.asarray(self._joints.given_state[v] @ self._posterior)

    @cached_property
    def _points(self) -> tuple[IntArray, Gaussians, BoxPoints]:
        """The hidden states that matter, their Gaussians, and points of the known numbers."""
        used = np.flatnonzero(self._posterior > NEGLIGIBLE)
        whole = self.component.gaussians
        part = Gaussians(whole.means[used], whole.covariances[used])
        return used, part, box_points(part, self.case.boxes)

    def number(self, j: int) -> NumberParts:
        """Return the distribution of a number that is not known."""
        atoms, p = np.zeros(0), self._posterior
        if len(self.model.maps[j].atoms):
            v = self.component.network.domain.index(self.model.numbers[j])
            joint = self._joints.given_state[v] * p
            atoms, p = joint[:-1].sum(axis=1), joint[-1]
        used, gaussians, points = self._points
        weights, means, sds = conditional_parts(gaussians, points, j, p[used])
        cut = np.full(len(weights), np.inf)
        return NumberParts(atoms, weights, means, sds, -cut, cut)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Return drawn states of the visible variables, and drawn normal scores."""
        network = self.component.network
        p, gaussians = self._posterior, self.component.gaussians
        state = rng.choice(len(p), n, p=p / p.sum())
        codes = np.full((n, len(network.domain)), -1)
        codes[:, -1] = state
        for v, own in self._states.items():
            codes[:, v] = own
        if len(network.domain) > 1:
            weighted = weighted_markov_network(network, self._logs) if self._logs else network
            rows = as_codes(network.domain, codes)
            codes = Completion(weighted, rows, int(rng.integers(2**31))).draws(1)[0]
        known = drawn_scores(gaussians, self.case.boxes, state, rng)
        middle = gaussians.drawn(Scores(known, np.ones_like(known)), state, rng)
        return codes.astype(np.int64), middle


@dataclass(frozen=True, eq=False)
class BinnedCase:
    """Answers from a binned component; properties and methods as those of `GaussianCase`."""

    model: MixedNetwork
    component: BinnedComponent
    case: Case

    def _ends(self, j: int) -> tuple[FloatArray, FloatArray]:
        """Return the scores at which the bins of a number start and end."""
        cuts = self.component.cuts[j]
        return np.append(-np.inf, cuts), np.append(cuts, np.inf)

    @cached_property
    def _evidence(self) -> tuple[dict[int, int], dict[int, FloatArray], float]:
        """The known states, the log-likelihoods of others, and a log-factor for known points."""
        domain, case, factor = self.component.network.domain, self.case, 0.0
        states = {domain.index(name): code for name, code in case.states.items()}
        logs = {domain.index(name): own for name, own in case.logs.items()}
        for j, atom in case.atoms.items():
            states[domain.index(self.model.numbers[j])] = atom
        for j, box in case.boxes.items():
            v, atoms = domain.index(self.model.numbers[j]), len(self.model.maps[j].atoms)
            low, high = self._ends(j)
            whole = np.maximum(between(low, high), 1e-300)
            if box.is_point:
                k = int(np.searchsorted(self.component.cuts[j], box.low, side="right"))
                states[v] = atoms + k
                factor += float(np.log(box.width / whole[k])) - 0.5 * box.low**2
                factor -= 0.5 * float(np.log(2 * np.pi))
                continue
            first = np.clip(box.low, low, high)
            inside = between(first, np.clip(box.high, first, high))
            with np.errstate(divide="ignore"):
                logs[v] = np.log(np.append(np.zeros(atoms), inside / whole))
        return states, logs, factor

    @property
    def _plan(self) -> tuple[Plan, IntArray, FloatArray]:
        """A plan, and the evidence as it takes it."""
        domain, (states, logs, _) = self.component.network.domain, self._evidence
        plan = compiled(self.component.network).plan(tuple(states), None, soft=range(len(domain)))
        tilt, first = np.zeros(int(domain.cards.sum())), np.cumsum(domain.cards) - domain.cards
        for v, own in logs.items():
            tilt[first[v] : first[v] + len(own)] = own
        return plan, plan.slots(list(states.values())), tilt

    @cached_property
    def _run(self) -> tuple[float, list[FloatArray]]:
        """The log-probability of the case, and the distribution of each variable."""
        network, factor = self.component.network, self._evidence[2]
        plan, slots, tilt = self._plan
        log_z, flat, _ = plan.run(slots, MARGINALS, tilt)
        found = float(log_z[0]) + factor - log_partition(network).value
        return found, split_marginals(network.domain, plan, self._evidence[0], flat[0])

    @property
    def log_mass(self) -> float:
        """The log-probability of the case; points count by their density times their width."""
        return self._run[0]

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category."""
        return self._run[1][self.component.network.domain.index(name)]

    def number(self, j: int) -> NumberParts:
        """Return the distribution of a number that is not known."""
        found = self.category(self.model.numbers[j])
        atoms, weights = np.split(found, [len(self.model.maps[j].atoms)])
        zeros = np.zeros_like(weights)
        return NumberParts(atoms, weights, zeros, zeros + 1, *self._ends(j))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Return drawn states of the visible variables, and drawn normal scores."""
        from scipy.special import ndtr, ndtri

        domain, (plan, slots, tilt) = self.component.network.domain, self._plan
        _, found = plan.draw(slots[0], rng.random((n, max(1, plan.n_cliques))), tilt)
        drawn = np.zeros((n, len(domain.observed)), np.int64)
        for v in range(drawn.shape[1]):
            place = int(plan.place[v])
            drawn[:, v] = found[:, place] if place >= 0 else self._evidence[0].get(v, 0)
        middle = np.empty((n, len(self.model.numbers)))
        for j, name in enumerate(self.model.numbers):
            bin_ = drawn[:, domain.index(name)] - len(self.model.maps[j].atoms)
            low, high = (ends[np.maximum(bin_, 0)] for ends in self._ends(j))
            box = self.case.boxes.get(j, Box(-np.inf, np.inf))
            low, high = np.clip(box.low, low, high), np.clip(box.high, low, high)
            first, last = ndtr(low), ndtr(high)
            share = np.clip(first + (last - first) * rng.random(n), 1e-12, 1 - 1e-12)
            middle[:, j] = np.clip(ndtri(share), low, high)
        return drawn, middle


def component_case(
    model: MixedNetwork, component: GaussianComponent | BinnedComponent, case: Case
) -> GaussianCase | BinnedCase:
    """Return the answers from a component for a case."""
    if isinstance(component, GaussianComponent):
        return GaussianCase(model, component, case)
    return BinnedCase(model, component, case)
