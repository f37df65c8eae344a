"""A model for the engines that change one variable at a time: all of it as features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.errors import ModelError
from conjoin.inference.exact import impossible
from conjoin.inference.terms import as_markov_network, terms_of
from conjoin.kernels.elimination_layouts import Terms
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.network import Network


@dataclass(frozen=True, eq=False)
class Sites:
    """The features that each free variable looks at, in flat arrays.

    Attributes
    ----------
    domain : Domain
        The variables.
    given : dict
        The evidence: {position: state}.
    free : array of int
        The other variables.
    arrays : tuple
        What the kernels take.
    """

    domain: Domain
    given: dict[int, int]
    free: IntArray
    arrays: tuple[Any, ...]

    @classmethod
    def of(cls, model: Network, given: Mapping[str, Any] | None, hard: float = -np.inf) -> Sites:
        """Lay out a model.

        Parameters
        ----------
        model : Network
            Any kind. In a dependency network a variable looks only at the features of its own CPD.
        given : mapping, optional
            The evidence, by names.
        hard : float
            What stands for a weight of -inf.

        Raises
        ------
        ModelError
            If the evidence alone makes a feature of weight -inf hold.
        """
        domain = model.domain
        codes = domain.encode_partial(given or {})
        owner = None
        if isinstance(model, DependencyNetwork):
            features, owner = model.features()
        else:
            features = as_markov_network(model).to_features().features
        operands = terms_of([], features)
        if owner is None and _broken(features, operands, codes):
            raise impossible(given or {})
        free = np.array([v for v in range(len(domain)) if v not in codes], np.int64)
        entry_feature = features.entry_feature

        def listed(entries: IntArray) -> tuple[IntArray, IntArray]:
            entries = entries[np.argsort(operands.var[entries], kind="stable")]
            columns = [entries, entry_feature[entries], operands.arg[entries]]
            first = np.searchsorted(operands.var[entries], np.arange(len(domain) + 1))
            return first.astype(np.int64), np.stack(columns, axis=1).astype(np.int64)

        every = listed(np.arange(len(operands.var)))
        touch = every
        if owner is not None:
            touch = listed(np.flatnonzero(operands.var == owner[entry_feature]))
        arrays = (
            domain.cards.astype(np.int64), operands.first, operands.var, operands.arg,
            np.maximum(operands.weights, hard), operands.numbers, *touch, free, *every,
        )  # fmt: skip
        return cls(domain, codes, free, arrays)

    @property
    def first(self) -> IntArray:
        """Where the states of each variable start in an array over all of them."""
        return np.concatenate([[0], np.cumsum(self.domain.cards)])

    def row(self, rng: np.random.Generator | None = None) -> IntArray:
        """Return an instance that agrees with the evidence, random or of first states."""
        x = np.zeros(len(self.domain), np.int64)
        if rng is not None:
            x = rng.integers(0, self.domain.cards)
        x[list(self.given)] = list(self.given.values())
        return x

    def distributions(self, rng: np.random.Generator | None = None) -> FloatArray:
        """Return a distribution a variable, even or random; that of the evidence is certain."""
        first = self.first
        q = np.concatenate(
            [
                np.full(c, 1 / c) if rng is None else rng.dirichlet(np.ones(c))
                for c in self.domain.cards.tolist()
            ]
            or [np.zeros(0)]
        )
        for v, state in self.given.items():
            q[first[v] : first[v + 1]] = 0.0
            q[first[v] + state] = 1.0
        return q

    def split(self, q: FloatArray) -> list[FloatArray]:
        """Cut an array over all states into one a variable."""
        return np.split(q, self.first[1:-1]) if len(self.domain) else []


def _broken(features: Features, operands: Terms, codes: Mapping[int, int]) -> bool:
    """Tell whether evidence makes a feature of weight -inf hold, whatever the other variables are."""
    endless = np.isneginf(features.weights)
    if not endless.any():
        return False
    known = np.full(len(features.tests.cards), -1, np.int64)
    known[list(codes)] = list(codes.values())
    state = known[operands.var]
    open_ = (state < 0) | (operands.numbers[operands.arg + np.maximum(state, 0)] == 0)
    endless[features.entry_feature[open_]] = False
    return bool(endless.any())


def score(model: Network, row: IntArray) -> float:
    """Return the log-potential of an instance, of a dependency network the sum of log conditionals."""
    codes = row[None, :].astype(np.uint16)
    if isinstance(model, DependencyNetwork):
        return float(sum(cpd.log_probabilities(codes)[0, row[cpd.target]] for cpd in model.cpds))
    return float(as_markov_network(model).log_potential(codes)[0])


def no_dependency_network(model: Network, method: str) -> None:
    """Refuse a dependency network where only a joint distribution will do."""
    if isinstance(model, DependencyNetwork):
        raise ModelError(
            f"method={method!r} needs a joint distribution, and a dependency network states "
            "conditionals; `convert` it first"
        )
