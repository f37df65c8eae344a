"""The form of a network that all samplers share: weighted features, and whose log-odds they enter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.data.domain import Domain
from conjoin.errors import ModelError
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network


@dataclass(frozen=True, eq=False)
class Rules:
    """The features of a network, ready to be sampled from.

    P(x_i | the rest) is proportional to the exponential of the sum of the features that enter i's
    log-odds: those that test i in a Markov network, those of i's own CPD in a dependency network.

    Attributes
    ----------
    domain : Domain
        The variables.
    features : Features
        Their weights are finite: -inf is replaced by `hard`.
    owner : array of int, optional
        The variable whose log-odds each feature enters; None if it enters those of all it tests.
    hard : float
        A weight so low that one such feature outweighs all others together. So a chain that starts in
        an impossible state goes to one that breaks fewer rules, and never back.
    """

    domain: Domain
    features: Features
    owner: IntArray | None
    hard: float

    @classmethod
    def of(cls, model: Network) -> Rules:
        """Return the rules of a network of any kind."""
        owner = None
        if isinstance(model, BayesianNetwork):
            model = model.to_markov_network()
        if isinstance(model, MarkovNetwork):
            features = model.to_features().features
        elif isinstance(model, DependencyNetwork):
            features, owner = model.features()
            features, owner = _own(features, owner)
        else:
            raise ModelError(f"there is no sampler for a {type(model).__name__}")
        keep = np.flatnonzero((features.weights != 0) & (features.lengths > 0))
        if len(keep) < len(features):
            features = features.select(keep)
            owner = None if owner is None else owner[keep]
        endless = np.isneginf(features.weights)
        hard = -4.0 * (1e3 + float(np.abs(features.weights[~endless]).sum()))
        if endless.any():
            features = replace(features, weights=np.where(endless, hard, features.weights))
            if features.off is not None:  # anything but 0 times -inf is -inf
                features = _without_entries(
                    features, endless[features.entry_feature] & (features.off != 0)
                )
        return cls(model.domain, features, owner, hard)

    @property
    def breaking(self) -> float:
        """Weights below this one stand for -inf, even if others were added to them."""
        return self.hard / 2

    @property
    def joint(self) -> bool:
        """Whether the conditionals are those of one joint distribution for sure."""
        return self.owner is None

    def condition(self, given: dict[int, int]) -> Rules:
        """Return the rules of the other variables, given some; positions stay what they are."""
        if not given:
            return self
        features, kept = self.features.conditioned(given)
        owner = None if self.owner is None else self.owner[kept]
        fixed = np.zeros(len(self.domain), bool)
        fixed[list(given)] = True
        keep = features.lengths > 0
        if owner is not None:
            keep &= ~fixed[owner]
        features = features.select(np.flatnonzero(keep))
        if owner is None:
            features = features.merged().nonzero()
        else:
            owner = owner[keep]
        return replace(self, features=features, owner=owner)

    def check(self, given: dict[int, int]) -> None:
        """Raise an error if what is given breaks a rule by itself."""
        if not self.joint or not (self.features.weights < self.breaking).any():
            return
        features, _ = self.features.conditioned(given)
        if (features.weights[features.lengths == 0] < self.breaking).any():
            variables = self.domain.variables
            shown = ", ".join(
                f"{variables[v].name}={variables[v].states[s]}" for v, s in given.items()
            )
            raise ModelError(f"the evidence {shown} has probability 0 in this network")


def _own(features: Features, owner: IntArray) -> tuple[Features, IntArray]:
    """Leave out features that do not test their owner: they cancel."""
    tested = np.zeros(len(features), bool)
    feature = features.entry_feature
    tested[feature[features.entry_var == owner[feature]]] = True
    if tested.all():
        return features, owner
    keep = np.flatnonzero(tested)
    return features.select(keep), owner[keep]


def _without_entries(features: Features, dropped: BoolArray) -> Features:
    indptr = np.concatenate([[0], np.cumsum(~dropped)])[features.indptr]
    off = None if features.off is None else features.off[~dropped]
    return Features(features.tests, indptr, features.indices[~dropped], features.weights, off)
