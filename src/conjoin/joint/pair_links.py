"""How strongly pairs of variables interact, in networks with hidden columns, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.conversion.interactions import Interactions, pair_interactions
from conjoin.data.arrays import FloatArray
from conjoin.inference.compilation import compiled
from conjoin.inference.plan import MAX_MEMORY
from conjoin.kernels.elimination_layouts import MARGINALS
from conjoin.models.hidden_states import log_sum
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.network import Network, takes_estimators

MAX_PAIRS = 20_000
"""Maximum number of pairs that are measured if there are hidden columns: those that share most."""


@takes_estimators
def interactions(
    model: Network,
    table: Any = None,
    *,
    base: Mapping[str, Mapping[Any, float]] | str | None = None,
) -> Interactions:
    """Measure how strongly each pair of variables of a network interacts.

    The strength of a pair is the root mean square, in nats, of the part of the log-potential that belongs
    to it; in a dependency network, of the mean of both CPDs' parts. In a network with hidden columns, all
    pairs may depend on each other through these. There the logarithm of the pair's joint distribution,
    computed exactly, takes the place of that part; of more than 20,000 pairs, those with the largest
    mutual information are measured.

    Parameters
    ----------
    model : Network or JointModel
        The model; its columns of numbers are variables of intervals.
    table : Table, 2-dimensional array, or frame, optional
        Data whose marginals are the distribution under which strengths are measured.
    base : None, 'marginals', 'uniform', mapping
        That distribution, as for `convert`; by default uniform if there is no table.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"], "wind": ["no", "yes"]})
    >>> terms = [(2.0, {"rain": "yes", "wet": "yes"}), (-0.5, {"wet": "yes", "wind": "yes"})]
    >>> print(interactions(MarkovNetwork(domain, Features.from_terms(domain, terms))))
    0.500  rain=yes and wet=yes go together (odds × 7.4)
    0.125  wet=yes and wind=yes avoid each other (odds ÷ 1.6)
    """
    if model.domain.hidden.any():
        model = _pair_network(model)
    return pair_interactions(model, table, base)


def _pair_network(model: Network) -> MarkovNetwork:
    """Return a network whose factors are the logarithms of the joint distributions of pairs."""
    domain = model.domain.observed
    joints = pair_joints(model)
    first = np.concatenate([[0], np.cumsum(domain.cards)])
    single = joints.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = joints * np.log(joints / np.outer(single, single))
    shared[np.isnan(shared)] = 0.0
    information = np.add.reduceat(np.add.reduceat(shared, first[:-1], axis=0), first[:-1], axis=1)
    left, right = np.triu_indices(len(domain), 1)
    order = np.argsort(-information[left, right], kind="stable")[:MAX_PAIRS]
    factors = []
    with np.errstate(divide="ignore"):
        for i, j in zip(left[order].tolist(), right[order].tolist(), strict=True):
            block = joints[first[i] : first[i + 1], first[j] : first[j + 1]]
            factors.append(TableFactor((i, j), np.log(block)))
    return MarkovNetwork(domain, factors=factors)


def pair_joints(model: Network) -> FloatArray:
    """Return the exact joint probability of any two states of visible variables.

    States of all variables are numbered one after another; the diagonal holds their own probabilities.
    """
    domain, ready = model.domain.observed, compiled(model)
    first = np.concatenate([[0], np.cumsum(domain.cards)])
    joints = np.zeros((first[-1], first[-1]))
    for i, card in enumerate(domain.cards.tolist()):
        plan = ready.plan((i,) if card > 1 else (), MAX_MEMORY)
        slots = plan.slots(np.arange(card)[:, None] if card > 1 else [], card)
        log_z, flat, _ = plan.run(slots, MARGINALS)
        p = np.exp(log_z - log_sum(log_z[None])[0])
        flat[p == 0] = 0.0
        own = slice(first[i], first[i + 1])
        joints[own, own] = np.diag(p)
        for j in range(len(domain)):
            at = plan.place[j]
            if at >= 0:
                part = flat[:, plan.marginal_first[at] : plan.marginal_first[at + 1]]
                joints[own, first[j] : first[j + 1]] = p[:, None] * part
            elif j != i:  # it has a single state
                joints[own, first[j]] = p
    return joints
