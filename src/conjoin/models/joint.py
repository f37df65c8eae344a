"""`Joint`: the joint distribution of the columns of a table, numbers included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from conjoin.models.conditional_chain import ConditionalChain
from conjoin.models.fine_numbers import FineNumbers
from conjoin.models.markov import MarkovNetwork


class Joint(MarkovNetwork):
    """A Markov network over the states of all columns, and what says more about nearly complete rows.

        p(states, numbers) = p(states) * p_fine(numbers | states)
        p(states) = (1 - share) * p_network(states) + share * p_chain(states)

    The chain and the numbers count where few columns are unknown, so that these can be summed over;
    otherwise the network answers. A table without numbers has no fine part, and one that the network fits
    best has no chain. Functions that know only Markov networks take a joint as its network.

    Parameters
    ----------
    network : MarkovNetwork
        The distribution of the states.
    fine : FineNumbers, optional
        The distribution of the numbers given the states. Without it, numbers lie within their states as
        in the training table, whatever else is known.
    chain : ConditionalChain, optional
        Conditionals of all columns, each given the columns before it.
    provenance : mapping, optional
        How it was learned; by default what the network says.
    """

    fine: FineNumbers | None
    chain: ConditionalChain | None

    def __init__(
        self,
        network: MarkovNetwork,
        fine: FineNumbers | None = None,
        chain: ConditionalChain | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        record = network.provenance if provenance is None else provenance
        super().__init__(network.domain, network.features, network.factors, record)
        columns = network.domain.observed
        self.fine = None if fine is None else fine.reordered(columns)
        self.chain = None if chain is None else chain.reordered(columns)

    @cached_property
    def network(self) -> MarkovNetwork:
        """The network alone."""
        return MarkovNetwork(self.domain, self.features, self.factors, self.provenance)

    def reordered(self, names: Sequence[str]) -> Joint:
        """Return the joint with its columns in another order."""
        moved = Joint(self.network.reordered(names), self.fine, self.chain)
        return moved.with_rules(self.rules)
