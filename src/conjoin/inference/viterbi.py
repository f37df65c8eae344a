"""The instance with the highest product of a dependency network's conditionals.

For a chain this is the adaptation of the Viterbi algorithm of Toutanova et al. (2003; the paper's
Section 3): every conditional becomes a factor over a variable and its neighbours, and maximising their
product by elimination goes along the chain. It works for any network whose plan fits into memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from conjoin.errors import ModelError
from conjoin.inference import exact
from conjoin.inference.results import Assignment, Run
from conjoin.models.bayes import cpd_as_factor
from conjoin.models.cpd import CPD
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.markov import Factor, MarkovNetwork
from conjoin.models.network import Network

_products: WeakKeyDictionary[Network, MarkovNetwork] = WeakKeyDictionary()


def most_probable(
    model: Network, given: Mapping[str, Any] | None = None, *, max_memory: float | None = None
) -> Assignment:
    """Return the instance with the highest product of conditionals."""
    if not isinstance(model, DependencyNetwork):
        raise ModelError(
            f"method='viterbi' needs a dependency network; for a {model.kind} use 'exact'"
        )
    product = _products.get(model)
    if product is None:
        product = MarkovNetwork(model.domain, factors=[_factor(cpd) for cpd in model.cpds])
        _products[model] = product
    best = exact.most_probable(product, given, max_memory=max_memory)
    run = Run("viterbi", exact=True, note="the highest product of conditionals")
    return Assignment(best.states, best.score, run, bound=best.score)


def _factor(cpd: CPD) -> Factor:
    """Return log P(x_i | its blanket) as a factor."""
    factor = cpd_as_factor(cpd)
    if factor is None:
        raise ModelError(
            f"the CPD of variable {cpd.target} depends on {len(cpd.blanket)} others: too many for a "
            "table; method='viterbi' is for chains and similar networks"
        )
    return factor
