"""The weights of a thin network by maximum likelihood, as `refine` learns them."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.joint.dependence_tree import COUNTED_CELLS
from conjoin.joint.expectations import Expectations
from conjoin.joint.weight_learning import learn_weights
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.vocabulary import mask_words, state_masks

PRIOR_SDS = (0.1, 0.5, 2.0, 8.0)
"""Standard deviations of the prior around converted weights, to choose from."""


def with_weights(
    thinned: MarkovNetwork,
    left: Any,
    right: Any,
    train: Table,
    held: Table,
    everything: Table | None = None,
) -> MarkovNetwork:
    """Learn the weights of a thin network by maximum likelihood, those of pairs of columns included.

    `train` and `held`: complete rows to learn from, and to choose the prior by. `everything`: the
    rows whose joint states have features in pairs with many of them; by default `train`.
    """
    domain = thinned.domain
    pairs = _pair_features(train if everything is None else everything, left, right)
    features = Features.concatenate([thinned.form.features, pairs]).merged()
    features = _cells_instead(domain, features)
    network = MarkovNetwork(domain, features, provenance=thinned.provenance)
    return learn_weights(
        network, train, valid=held, objective="likelihood", start="model",
        prior_sd=PRIOR_SDS, max_iterations=300, patience=20, tolerance=1e-6,
    )  # fmt: skip


def _pair_features(table: Table, left: Any, right: Any) -> Features:
    """Return features of weight 0 for the joint states of pairs of columns, first states left out.

    A pair with many joint states has features for those that occur.
    """
    domain, terms = table.domain, []
    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        one, other = domain.variables[a], domain.variables[b]
        if len(one.states) * len(other.states) <= COUNTED_CELLS:
            states = [(s, t) for s in one.states[1:] for t in other.states[1:]]
        else:
            found = np.unique(table.codes[:, [a, b]].astype(np.int64), axis=0).tolist()
            states = [(one.states[s], other.states[t]) for s, t in found]
        terms += [(0.0, {one.name: s, other.name: t}) for s, t in states]
    return Features.from_terms(domain, terms)


def _cells_instead(domain: Domain, features: Features) -> Features:
    """Return one feature per cell of the tables of exact inference, if there are more features.

    They express the same networks. Long conjunctions over few columns can outnumber the joint states.
    """
    expectations = Expectations(features)
    tables = expectations.tables.tables(features.weights)
    if len(expectations.outside) or len(features) <= sum(table.table.size for table in tables):
        return features
    owner, var, state, first = [], [], [], 0
    for factor in tables:
        cells = np.indices(factor.table.shape).reshape(len(factor.variables), -1).T
        owner.append(np.repeat(first + np.arange(len(cells)), cells.shape[1]))
        var.append(np.tile(factor.variables, len(cells)))
        state.append(cells.ravel())
        first += len(cells)
    masks = state_masks(np.concatenate(state), mask_words(domain.cards))
    weights = np.concatenate([factor.table.ravel() for factor in tables])
    places = np.concatenate(owner), np.concatenate(var)
    return Features.from_tests(domain.cards, *places, masks, weights).merged()
