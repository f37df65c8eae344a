"""The log-linear form of a network: the starting point of scoring, sampling, inference and learning.

Every network is a sum of weighted conjunctive features. In a Markov network a feature enters the
log-odds of all the variables that it tests; in a dependency network it enters only those of its *owner*,
the variable whose CPD it belongs to. Apart from that, engines need not know which kind of network it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conjoin.data.arrays import BoolArray, IntArray
from conjoin.data.domain import Domain
from conjoin.kernels.layouts import FeatureArrays, packed
from conjoin.models.features import Features


@dataclass(frozen=True, eq=False)
class LogLinearForm:
    """The features of a network, and whose log-odds each of them enters.

    ``log P(x_i | the rest)`` is, up to normalisation, the sum of the features that enter the log-odds
    of variable i. A feature tests at least one variable, and its owner if it has one. Its weight is
    -inf if the conjunction is impossible (a hard constraint).
    """

    domain: Domain
    features: Features
    owner: IntArray | None = None  # None if the network is one joint distribution
    constant: float = 0.0  # the sum of the features without tests, which every instance has

    @classmethod
    def of_features(
        cls, domain: Domain, features: Features, owner: IntArray | None = None
    ) -> LogLinearForm:
        """Build the form, leaving out features that test nothing or do not test their owner."""
        if owner is None:
            used = features.lengths > 0
            constant = float(features.weights[~used].sum())
        else:  # a feature that does not test its owner cancels when the CPD is normalised
            used, constant = np.zeros(len(features), bool), 0.0
            feature = features.entry_feature
            used[feature[features.entry_var == owner[feature]]] = True
        form = cls(domain, features, owner, constant)
        return form if used.all() else form.select(used)

    @property
    def is_joint(self) -> bool:
        """Whether the conditionals come from one joint distribution."""
        return self.owner is None

    @cached_property
    def hard(self) -> BoolArray:
        """Which features are hard constraints."""
        return np.isneginf(self.features.weights)

    @cached_property
    def own_entry(self) -> IntArray:
        """The entry of each feature that tests its owner; -1 for features without an owner."""
        result = np.full(len(self.features), -1, np.int64)
        if self.owner is not None:
            feature = self.features.entry_feature
            entries = np.flatnonzero(self.features.entry_var == self.owner[feature])
            result[feature[entries]] = entries
        return result

    @cached_property
    def arrays(self) -> FeatureArrays:
        """The form as kernels read it."""
        features, tests, cards = self.features, self.features.tests, self.domain.cards
        state_first = np.concatenate([[0], np.cumsum(cards)])
        inside = tests.members()
        inside &= np.arange(inside.shape[1]) < cards[tests.var][:, None]
        which, state = np.nonzero(inside)
        numbers = np.arange(len(tests) + 1)
        by_test = np.argsort(features.indices, kind="stable")
        return FeatureArrays(
            cards=packed(cards, np.int64),
            state_first=packed(state_first, np.int64),
            test_first=packed(np.searchsorted(tests.var, np.arange(len(cards) + 1)), np.int64),
            test_var=packed(tests.var, np.int64),
            test_mask=packed(tests.mask, np.uint64, 2),
            member_first=packed(np.searchsorted(which, numbers), np.int64),
            member=packed(state_first[tests.var[which]] + state, np.int64),
            first=packed(features.indptr, np.int64),
            test=packed(features.indices, np.int64),
            entry_feature=packed(features.entry_feature, np.int64),
            off=packed(features.off_values(), np.float64),
            weight=packed(features.weights, np.float64),
            own=packed(self.own_entry, np.int64),
            column_first=packed(np.searchsorted(features.indices[by_test], numbers), np.int64),
            column_entry=packed(by_test, np.int64),
        )

    def select(self, which: BoolArray) -> LogLinearForm:
        """Return the form with some of its features."""
        rows = np.flatnonzero(which)
        owner = None if self.owner is None else self.owner[rows]
        return replace(self, features=self.features.select(rows), owner=owner)

    def nonzero(self) -> LogLinearForm:
        """Return the form without the features of weight 0."""
        used = self.features.weights != 0
        return self if used.all() else self.select(used)

    def about(self, variables: BoolArray) -> LogLinearForm:
        """Return the form with the features that enter the log-odds of the chosen variables."""
        if self.owner is not None:
            return self.select(variables[self.owner])
        touched = np.zeros(len(self.features), bool)
        touched[self.features.entry_feature[variables[self.features.entry_var]]] = True
        return self.select(touched)

    def condition(self, given: Mapping[int, int]) -> LogLinearForm:
        """Fix variables, by position, to states; variables keep their positions.

        In a joint distribution, features that test no free variable any more go into `constant`: it
        is -inf if the evidence violates a hard constraint by itself.
        """
        if not given:
            return self
        features, left = self.features.conditioned(given)
        if self.owner is None:
            form = LogLinearForm.of_features(self.domain, features.merged())
            return replace(form, constant=self.constant + form.constant)
        owner = self.owner[left]
        free = ~np.isin(owner, list(given))
        return replace(self, features=features, owner=owner).select(free)

    def with_hard_weight(self, weight: float) -> LogLinearForm:
        """Return the form with a finite weight in place of -inf, for engines that need one."""
        if not self.hard.any():
            return self
        features = self.features
        if features.off is not None:  # a hard constraint with off values never lets go of its scope
            dropped = self.hard[features.entry_feature] & (features.off != 0)
            features = features.without_entries(dropped)
        weights = np.where(self.hard, weight, features.weights)
        return replace(self, features=replace(features, weights=weights))

    @cached_property
    def overwhelming_weight(self) -> float:
        """A finite weight that outweighs all soft features together, to stand for -inf."""
        return -4.0 * (1e3 + float(np.abs(self.features.weights[~self.hard]).sum()))
