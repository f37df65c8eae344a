"""Evidence that is not certain: likelihoods as part of a network, and new marginals as likelihoods.

Given new marginals (Jeffrey's rule), the result is the distribution that is closest, in Kullback-Leibler
divergence, to the one given all other evidence, among those in which each of these columns has its new
marginal. For a single column that is Jeffrey's rule: the conditional distribution given each of its
states stays what it was. For several it is found by iterative proportional fitting: the likelihood of one
column after another is multiplied by its new marginal and divided by its current one, which exact
inference computes, until all of them fit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.inference.compilation import compiled
from conjoin.inference.evidence import Evidence
from conjoin.inference.terms import as_markov_network
from conjoin.kernels.elimination_layouts import MARGINALS
from conjoin.models.cpd import CPD, log_normalized
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.network import Network
from conjoin.models.vocabulary import mask_words, state_masks

TOLERANCE = 1e-12
"""Iterative proportional fitting ends when no probability differs by more than this."""

MAX_PASSES = 10_000
"""Maximum number of exact passes over the network."""


def with_new_marginals(model: Network, known: Evidence, max_memory: float | None) -> Evidence:
    """Return evidence without new marginals, whose likelihoods produce them."""
    if not known.marginals:
        return known
    wanted = known.marginals
    soft = [*wanted, *known.likelihoods]
    plan = compiled(model).plan(tuple(known.states), max_memory, tuple(wanted), soft=soft)
    slots = plan.slots(list(known.states.values()))
    logs = {v: new.spread(np.zeros(len(new.p))) for v, new in wanted.items()}
    off = dict.fromkeys(wanted, np.inf)
    for turn in range(MAX_PASSES):
        v = list(wanted)[turn % len(wanted)]
        tilted = known.with_likelihoods(dict(logs))
        log_z, flat, _ = plan.run(slots, MARGINALS, tilted.tilt())
        if log_z[0] == -np.inf:
            raise _unreachable(known)
        for u, new in wanted.items():
            at = plan.marginal_first[plan.place[u]] if plan.place[u] >= 0 else 0
            now = flat[0, at : at + len(new.group)] if plan.place[u] >= 0 else np.ones(1)
            sums = new.sums(now)
            off[u] = float(np.abs(sums - new.p).max())
            if u == v:
                if (sums[new.p > 0] == 0).any():
                    raise _unreachable(known)
                with np.errstate(divide="ignore", invalid="ignore"):
                    logs[u] = logs[u] + new.spread(np.log(new.p / sums))
        if max(off.values()) <= TOLERANCE:
            return tilted
        off[v] = 0.0
    raise ModelError(
        f"no distribution with the new marginals was found in {MAX_PASSES:,} passes: they contradict "
        f"each other, or nearly so ({known})"
    )


def _unreachable(known: Evidence) -> ModelError:
    names = ", ".join(known.domain.names[v] for v in known.marginals)
    return ModelError(
        f"the new marginals of {names} cannot be reached: a state of theirs is impossible given the "
        f"other evidence, or they contradict each other ({known})"
    )


class WeightedCPD:
    """A CPD times a likelihood of each state of its target."""

    def __init__(self, cpd: CPD, log_weights: FloatArray) -> None:
        self.cpd, self.log_weights = cpd, log_weights
        self.target, self.cards = cpd.target, cpd.cards

    @property
    def blanket(self) -> tuple[int, ...]:
        """The positions of the variables that the distribution depends on."""
        return self.cpd.blanket

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        return log_normalized(self.cpd.log_probabilities(codes) + self.log_weights)

    def features(self) -> Features:
        """Return the features of the CPD, and one per state."""
        states = np.flatnonzero(self.log_weights != 0)
        per_state = Features.from_tests(
            self.cards,
            np.arange(len(states)),
            np.full(len(states), self.target),
            state_masks(states, mask_words(self.cards)),
            self.log_weights[states],
        )
        return Features.concatenate([self.cpd.features(), per_state])

    def moved(self, cards: IntArray, position: IntArray) -> WeightedCPD:
        """Return the CPD over reordered variables, given the new position of each."""
        return WeightedCPD(self.cpd.moved(cards, position), self.log_weights)


def weighted_network(model: Network, log_weights: Mapping[int, FloatArray]) -> Network:
    """Return a network times a likelihood of each state of some variables.

    In a dependency network the likelihood of a variable's states enters its own conditional.
    """
    if not log_weights:
        return model
    if isinstance(model, DependencyNetwork):
        cpds = [
            WeightedCPD(cpd, log_weights[cpd.target]) if cpd.target in log_weights else cpd
            for cpd in model.cpds
        ]
        return DependencyNetwork(model.domain, cpds)
    return weighted_markov_network(as_markov_network(model), log_weights)


def weighted_markov_network(
    mn: MarkovNetwork, log_weights: Mapping[int, FloatArray]
) -> MarkovNetwork:
    """Return a Markov network times a likelihood of each state of some variables."""
    tables = [TableFactor((v,), log) for v, log in log_weights.items()]
    return MarkovNetwork(mn.domain, mn.features, [*mn.factors, *tables])
