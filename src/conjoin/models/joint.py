"""`Joint`: the joint distribution of the columns of a table, numbers included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conjoin.models.fine_numbers import FineNumbers
from conjoin.models.markov import MarkovNetwork


class Joint(MarkovNetwork):
    """A Markov network over the states of all columns, and where numbers lie within their states.

        p(states, numbers) = p_network(states) * p_fine(numbers | states)

    A table without numbers has no fine part. Functions that know only Markov networks take a joint as
    the distribution of the states.

    Parameters
    ----------
    network : MarkovNetwork
        The distribution of the states.
    fine : FineNumbers, optional
        The distribution of the numbers given the states. Without it, numbers lie within their states as
        in the training table, whatever else is known.
    provenance : mapping, optional
        How it was learned; by default what the network says.
    """

    fine: FineNumbers | None

    def __init__(
        self,
        network: MarkovNetwork,
        fine: FineNumbers | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        record = network.provenance if provenance is None else provenance
        super().__init__(network.domain, network.features, network.factors, record)
        self.fine = None if fine is None else fine.reordered(network.domain.observed)

    def reordered(self, names: Sequence[str]) -> Joint:
        """Return the joint with its columns in another order."""
        network = MarkovNetwork(self.domain, self.features, self.factors, self.provenance)
        return Joint(network.reordered(names), self.fine)
