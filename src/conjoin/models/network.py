"""The base class of the three kinds of network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain, check_states
from conjoin.data.rules import Rule
from conjoin.errors import ModelError
from conjoin.models.cpd import CPD, one_cpd_per_variable
from conjoin.models.loglinear import LogLinearForm


def no_hidden_variables(model: Network, action: str) -> None:
    """Reject a network with hidden variables where they have no meaning."""
    if model.domain.hidden.any():
        raise ModelError(f"a network with hidden columns cannot be {action}; learn it anew instead")


def network_of(model: Any) -> Any:
    """Return the network of a fitted estimator, and any other model as it is."""
    return model._known(None)[0] if hasattr(model, "_known") else model


def conditionals_of(model: Any) -> Any:
    """Return the dependency network of a fitted estimator, and any other model as it is."""
    if not hasattr(model, "_known"):
        return model
    model._known(None)  # raises if it is not fitted
    if model.network_ is None:
        raise ModelError("this model has no conditionals; use `learn_conditionals`")
    return model.network_


F = TypeVar("F", bound=Callable[..., Any])


def takes_estimators(function: F) -> F:
    """Let the first argument of a function be a fitted estimator (see `network_of`)."""

    @wraps(function)
    def call(model: Any, *arguments: Any, **options: Any) -> Any:
        return function(network_of(model), *arguments, **options)

    return cast(F, call)


class Network:
    """A model over a domain, with its provenance: plain values under short names, kept in native files.

    Networks are immutable, because engines cache what they compute from a network: an attribute can be
    set only once, by the constructor. The rules of a network (see `data.rules`) are kept in the rows that
    it draws and fills in; they do not change probabilities.
    """

    kind: str
    rules: tuple[Rule, ...] = ()

    def __init__(self, domain: Domain, provenance: Mapping[str, Any] | None = None) -> None:
        check_states(domain)
        if domain.hidden[: len(domain.observed)].any():
            raise ModelError("hidden variables come after all others in the domain of a network")
        if domain.hidden.any() and self.kind != "Markov network":
            raise ModelError(f"a {self.kind} cannot have hidden variables; a Markov network can")
        self.domain = domain
        self.provenance: dict[str, Any] = dict(provenance or {})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(
                f"networks are immutable; make a new {type(self).__name__} with other {name}"
            )
        super().__setattr__(name, value)

    def with_provenance(self, provenance: Mapping[str, Any]) -> Self:
        """Return the network with another provenance."""
        twin = copy.copy(self)
        twin.__dict__["provenance"] = dict(provenance)
        return twin

    def with_rules(self, rules: Iterable[Rule]) -> Self:
        """Return the network with other rules."""
        twin = copy.copy(self)
        twin.__dict__["rules"] = tuple(rules)
        for rule in twin.rules:
            rule.check(self.domain.observed)
        return twin

    @cached_property
    def form(self) -> LogLinearForm:
        """The network as weighted features, which all engines start from."""
        return self._log_linear_form()

    def _log_linear_form(self) -> LogLinearForm:
        raise NotImplementedError

    def blanket(self, name: str) -> tuple[str, ...]:
        """Return the Markov blanket of a variable: given these, it is independent of all others.

        A hidden variable is never known, so all of its neighbours take its place.
        """
        linked, hidden = self.blankets(), self.domain.hidden
        reached = {start := self.domain.index(name)}
        todo = [start]
        while todo:
            new = set(linked[todo.pop()]) - reached
            reached |= new
            todo += [v for v in new if hidden[v]]
        return tuple(self.domain.names[v] for v in sorted(reached - {start}) if not hidden[v])

    def blankets(self) -> list[tuple[int, ...]]:
        """Return the Markov blanket of every variable, by position."""
        raise NotImplementedError

    def log_conditional(self, name: str, rows: Any) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states, for the variable of this name.

        Rows are a Table, an array of codes, or mappings, and complete except for X; their values of X are
        ignored. Hidden variables are summed over.
        """
        raise NotImplementedError

    def reordered(self, names: Sequence[str]) -> Self:
        """Return the same model with its variables in another order; hidden ones stay last."""
        domain = self.domain.reordered(names)
        if domain == self.domain:
            return self
        position = np.array([domain.index(name) for name in self.domain.names], np.int64)
        return self._moved(domain, position)

    def _moved(self, domain: Domain, position: IntArray) -> Self:
        """Return the model over a reordered domain, given the new position of each variable."""
        raise NotImplementedError

    def conditional(self, name: str, rows: Any) -> FloatArray:
        """Return P(X = state | the rest of the row), rows by states."""
        return np.exp(self.log_conditional(name, rows))

    def save(self, path: str | Path) -> None:
        """Write the model to a file, in the format that its ending names."""
        from conjoin.formats.model_files import save

        save(self, path)


class NetworkOfCPDs(Network):
    """A model with one CPD per variable."""

    def __init__(
        self, domain: Domain, cpds: Iterable[CPD], provenance: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(domain, provenance)
        self.cpds = one_cpd_per_variable(domain, cpds)

    def _moved(self, domain: Domain, position: IntArray) -> Self:
        cpds = [cpd.moved(domain.cards, position) for cpd in self.cpds]
        return type(self)(domain, cpds, self.provenance)
