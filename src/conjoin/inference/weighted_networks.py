"""Networks that include the likelihoods of evidence, for engines that know states alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes
from conjoin.inference.terms import as_markov_network
from conjoin.models.cpd import CPD, log_normalized
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.network import Network
from conjoin.models.vocabulary import mask_words, state_masks


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
