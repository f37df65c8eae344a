"""The score of a single instance, and the check that a model is one joint distribution."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import IntArray
from conjoin.errors import ModelError
from conjoin.inference.terms import as_markov_network
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network


def score(model: Network, row: IntArray) -> float:
    """Return the log-potential of an instance; of a dependency network, the sum of log conditionals."""
    codes = row[None, :].astype(np.uint16)
    if isinstance(model, DependencyNetwork):
        return float(sum(cpd.log_probabilities(codes)[0, row[cpd.target]] for cpd in model.cpds))
    return float(as_markov_network(model).log_potential(codes)[0])


def no_dependency_network(model: Network, method: str) -> None:
    """Reject a dependency network where a joint distribution is needed."""
    if isinstance(model, DependencyNetwork):
        raise ModelError(
            f"method={method!r} needs a joint distribution, and a dependency network specifies "
            "conditional distributions; `convert` it first"
        )
