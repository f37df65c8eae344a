"""Ancestral sampling: every variable of a Bayesian network is drawn after its parents.

The rows are independent and exact. No junction tree is needed, so any network can be drawn from. Evidence
is allowed where it comes first: on variables whose ancestors are all known, too.
"""

from __future__ import annotations

from graphlib import TopologicalSorter

import numpy as np

from conjoin.data.table import Codes, Table, code_dtype
from conjoin.inference.evidence import Evidence
from conjoin.inference.exact import impossible
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.network import Network

BLOCK_ROWS = 1 << 14
"""Number of rows that are drawn together."""


def can_draw(model: Network, known: Evidence) -> bool:
    """Return whether rows can be drawn in the order of the graph, given the evidence."""
    if not isinstance(model, BayesianNetwork) or known.likelihoods or known.marginals:
        return False
    return all(set(model.cpds[v].blanket) <= set(known.states) for v in known.states)


def sample(model: BayesianNetwork, size: int, known: Evidence, rng: np.random.Generator) -> Table:
    """Draw independent rows, given evidence that `can_draw` allows."""
    domain = model.domain
    codes = np.zeros((size, len(domain)), code_dtype(domain.cards))
    codes[:, list(known.states)] = list(known.states.values())
    if known.states:
        row: Codes = np.zeros_like(codes, shape=(1, len(domain)))
        row[:, list(known.states)] = list(known.states.values())
        for v, state in known.states.items():
            if model.cpds[v].log_probabilities(row)[0, state] == -np.inf:
                raise impossible(known.given)
    graph = {cpd.target: cpd.blanket for cpd in model.cpds}
    order = [v for v in TopologicalSorter(graph).static_order() if v not in known.states]
    for low in range(0, size, BLOCK_ROWS):
        block = codes[low : low + BLOCK_ROWS]
        uniform = rng.random(block.shape)
        for v in order:
            above = np.exp(model.cpds[v].log_probabilities(block)).cumsum(axis=1)
            passed = uniform[:, v, None] * above[:, -1:] >= above[:, :-1]
            block[:, v] = passed.sum(axis=1)
    return Table.adopt(domain, codes)
