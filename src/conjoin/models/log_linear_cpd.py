"""CPDs written as weighted conjunctions: logistic and multinomial regression, and beyond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, distinct
from conjoin.data.domain import Domain
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.cpd import log_normalized
from conjoin.models.features import Features


class LogLinearCPD:
    """A log-linear CPD: weighted conjunctions, each testing the target (Section 4.2).

    Logistic and multinomial regression are the case of conjunctions of two tests.

    Parameters
    ----------
    target : int
        The target's position.
    features : Features
        Weighted conjunctions; those that do not test the target cancel out and are dropped.

    Examples
    --------
    >>> domain = Domain({"ill": ["no", "yes"], "fever": ["no", "yes"]})
    >>> cpd = LogLinearCPD.of(domain, "ill", [
    ...     (-2.0, {"ill": "yes"}), (3.0, {"ill": "yes", "fever": "yes"})])
    >>> cpd.log_probabilities(np.array([[0, 1]], np.uint8)).round(3)
    array([[-1.313, -0.313]])
    """

    def __init__(self, target: int, features: Features) -> None:
        self.target, self.cards = int(target), features.tests.cards
        tested = np.zeros(len(features), bool)
        tested[features.entry_feature[features.entry_var == target]] = True
        self._features = features if tested.all() else features.select(np.flatnonzero(tested))

    @property
    def blanket(self) -> tuple[int, ...]:
        """The positions of the variables that the distribution depends on."""
        present = distinct(self._features.entry_var).tolist()
        return tuple(v for v in present if v != self.target)

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        return log_normalized(self._features.logits(self.target, codes))

    def features(self) -> Features:
        """Return the features."""
        return self._features

    def moved(self, cards: IntArray, position: IntArray) -> LogLinearCPD:
        """Return the CPD over reordered variables, given the new position of each."""
        return LogLinearCPD(int(position[self.target]), self._features.moved(cards, position))

    @classmethod
    def of(
        cls, domain: Domain, target: str, terms: Iterable[tuple[float, Mapping[str, Any]]]
    ) -> LogLinearCPD:
        """Build by names: (weight, {variable: state or list of states}) pairs."""
        position = domain.index(target)
        listed = list(terms)
        for weight, when in listed:
            if target not in when:
                raise ModelError(
                    f"the term {weight} {dict(when)!r} does not mention {target!r}, so it has no "
                    f"effect; name a state of {target!r} in it"
                )
        return cls(position, Features.from_terms(domain, listed))
