"""The joint distribution of each category and the hidden column, given evidence on categories.

Numbers enter the network of a Gaussian component through the likelihood of its hidden states alone, so
one run over the junction tree answers every question with the same evidence on categories: whatever is
known of numbers re-weights the hidden states.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.inference.compilation import compiled
from conjoin.models.markov import MarkovNetwork, TableFactor

MAX_KEPT = 32
"""Maximum number of results kept per network."""

_Key = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, bytes], ...]]


class HiddenJoints(NamedTuple):
    """What a network says of its hidden column, given evidence.

    Attributes
    ----------
    log_states : array of float
        The log-probability of the evidence together with each hidden state.
    given_state : tuple of array, shape (states, hidden states)
        The distribution of each visible variable given the hidden state; 0 if that is impossible.
    """

    log_states: FloatArray
    given_state: tuple[FloatArray, ...]


class _WithPairs:
    """A network with a table of zeros for each visible variable and the hidden one, which is the last.

    The probabilities of the cells of these tables are the joint distributions.
    """

    def __init__(self, network: MarkovNetwork) -> None:
        cards = network.domain.cards.tolist()
        hidden = len(cards) - 1
        pairs = [TableFactor((v, hidden), np.zeros((cards[v], cards[-1]))) for v in range(hidden)]
        pairs.append(TableFactor((hidden,), np.zeros(cards[-1])))
        self.cards = cards
        self.compiled = compiled(
            MarkovNetwork(network.domain, network.features, [*pairs, *network.factors])
        )
        self.kept: OrderedDict[_Key, HiddenJoints] = OrderedDict()

    def run(self, states: Mapping[int, int], logs: Mapping[int, FloatArray]) -> HiddenJoints:
        plan = self.compiled.plan(tuple(states), None)
        values, width = plan.terms.values, self.cards[-1]
        if logs:
            values = values.copy()
        ends = np.cumsum([0, *(card * width for card in self.cards[:-1]), width]).tolist()
        for v, own in logs.items():
            values[ends[v] : ends[v + 1]] = np.repeat(own, width)
        given = plan.slots(list(states.values()))[0]
        log_z, shares, _ = plan.expect(given, values, plan.terms.weights)
        parts = [shares[a:b].reshape(-1, width) for a, b in pairwise(ends)]
        prior = parts.pop()[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_states = log_z + np.log(prior)
            given_state = tuple(np.where(prior > 0, part / prior, 0.0) for part in parts)
        return HiddenJoints(log_states, given_state)


_prepared: WeakKeyDictionary[MarkovNetwork, _WithPairs] = WeakKeyDictionary()


def hidden_joints(
    network: MarkovNetwork, states: Mapping[int, int], logs: Mapping[int, FloatArray]
) -> HiddenJoints:
    """Return the joint distributions of the hidden column, the last one, and each other variable.

    The latest results are kept.

    Parameters
    ----------
    network : MarkovNetwork
        The network, of tables.
    states : mapping
        The known states, by position.
    logs : mapping
        The log-likelihoods of the states of other variables, by position.
    """
    ready = _prepared.get(network)
    if ready is None:
        ready = _prepared[network] = _WithPairs(network)
    known = tuple(sorted(states.items()))
    key = (known, tuple((v, own.tobytes()) for v, own in sorted(logs.items())))
    found = ready.kept.get(key)
    if found is None:
        found = ready.kept[key] = ready.run(dict(known), logs)
        if len(ready.kept) > MAX_KEPT:
            ready.kept.popitem(last=False)
    ready.kept.move_to_end(key)
    return found
