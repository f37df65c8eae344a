"""Evidence: what is known of a row before a question is asked.

Every way of writing it, a text or a mapping, becomes one object: the states that are certain, a
likelihood per state for the columns of which something else is known, and new marginals (Jeffrey's
evidence), which `soft_evidence` turns into likelihoods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import plain, typed_key
from conjoin.data.number_scale import NumberScale
from conjoin.errors import DataError, ModelError
from conjoin.inference.condition_text import conditions_text, parse_conditions
from conjoin.inference.conditions import (
    AllOf,
    Condition,
    Likelihood,
    Marginal,
    NewMarginal,
    Not,
    OneOf,
    Range,
    ends_of,
    range_weights,
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a row."""

    domain: Domain  # the variables
    given: Mapping[str, Any]  # the evidence by name, as it was given: states and conditions
    states: dict[int, int]  # {position: code} of the variables whose states are certain
    # {position: log-likelihood of each state} of others
    likelihoods: dict[int, FloatArray] = field(default_factory=dict)
    # {position: new distribution} of the variables that get a new marginal
    marginals: dict[int, NewMarginal] = field(default_factory=dict)
    # {position: log-likelihood of each state} that produced new marginals, as part of `likelihoods`
    fitted: dict[int, FloatArray] = field(default_factory=dict)
    # {position: log-likelihood} of conditions on variables whose states are certain
    constants: dict[int, float] = field(default_factory=dict)
    # {position: value} of columns of numbers whose values are known
    values: dict[int, float] = field(default_factory=dict)
    # {position: ends} of columns of numbers of which nothing but a range is known
    ranges: dict[int, tuple[float, float]] = field(default_factory=dict)
    to_states: tuple[str, ...] = ()  # columns of numbers whose values count as their states only
    by_network: bool = False  # whether too much is unknown for the chain of a joint to count

    @property
    def constant(self) -> float:
        """The log-likelihood of conditions on variables whose states are certain."""
        return sum(self.constants.values())

    @cached_property
    def certain(self) -> dict[str, Any]:
        """The states that are certain, by name."""
        variables = self.domain.variables
        return {variables[v].name: variables[v].states[s] for v, s in self.states.items()}

    def log_weights(self, position: int) -> FloatArray:
        """Return the log-likelihood of each state of a variable."""
        if position in self.states:
            log = np.full(self.domain.cards[position], -np.inf)
            log[self.states[position]] = self.constants.get(position, 0.0)
            return log
        found = self.likelihoods.get(position)
        return np.zeros(self.domain.cards[position]) if found is None else found

    def tilt(self) -> FloatArray | None:
        """Return the log-likelihoods of all states of all variables, side by side; None if all are 0."""
        if not self.likelihoods:
            return None
        first = np.cumsum(self.domain.cards) - self.domain.cards
        flat = np.zeros(int(self.domain.cards.sum()))
        for v, log_weights in self.likelihoods.items():
            flat[first[v] : first[v] + len(log_weights)] = log_weights
        return flat

    def both(self, other: Evidence) -> Evidence:
        """Return what is known if all conditions of two pieces of evidence hold.

        Likelihoods that produced new marginals stay what they are.
        """
        merged = dict(self.given)
        for name, value in other.given.items():
            merged[name] = joined(merged[name], value) if name in merged else value
        found = _resolved(self.domain, merged)
        return found.with_likelihoods(self.fitted) if self.fitted else found

    def with_likelihoods(self, fitted: dict[int, FloatArray]) -> Evidence:
        """Return the evidence with likelihoods in place of new marginals."""
        merged = dict(self.likelihoods)
        for v, log_weights in fitted.items():
            merged[v] = merged[v] + log_weights if v in merged else log_weights
        return replace(self, likelihoods=merged, marginals={}, fitted=fitted)

    def without(self, names: Sequence[str]) -> Evidence:
        """Return the evidence on all other columns."""
        left = {name: value for name, value in self.given.items() if name not in names}
        return _resolved(self.domain, left)

    @property
    def is_contradictory(self) -> bool:
        """Whether no state of some variable agrees with the conditions on it."""
        return any(np.isneginf(x).all() for x in self.likelihoods.values())

    def __len__(self) -> int:
        return len(self.given)

    def __str__(self) -> str:
        return conditions_text(self.given)


Given = Mapping[str, Any] | str | Evidence | None
"""The types of `given`: a mapping, a text, or evidence that was read before."""


def evidence_of(domain: Domain, given: Any = None) -> Evidence:
    """Return evidence in its one meaning, whichever way it was written.

    `given`: {name: state or condition}, or conditions as text (see `condition_text`).

    Examples
    --------
    >>> domain = Domain({"rain": ["no", "yes"], "age": [20, 30, 40]})
    >>> known = evidence_of(domain, "rain=yes, age > 20")
    >>> known.certain, np.exp(known.likelihoods[1]).tolist()
    ({'rain': 'yes'}, [0.0, 1.0, 1.0])
    >>> print(evidence_of(domain, {"rain": "yes", "age": {30, 40}}))
    rain=yes, age in {30, 40}
    """
    if isinstance(given, Evidence):
        return given if given.domain is domain else _resolved(domain, given.given)
    if isinstance(given, Mapping):
        read = {name: as_condition(domain[name], value) for name, value in given.items()}
        return _resolved(domain, read)
    if given is None:
        return Evidence(domain, {}, {})
    if not isinstance(given, str):
        shown = repr(given) if isinstance(given, bool | int | float) else type(given).__name__
        raise ModelError(
            "conditions are given as a mapping {variable: state} or as a text such as 'rain=yes', "
            f"not as {shown}"
        )
    found: dict[str, Any] = {}
    for name, value in parse_conditions(given, domain):
        found[name] = joined(found[name], value, name) if name in found else value
    return _resolved(domain, found)


def as_condition(variable: Variable, value: Any) -> Any:
    """Return a state as it is, and a set or a list of states as a condition."""
    if isinstance(value, Condition):
        return value
    if isinstance(value, Mapping | range | slice):
        raise no_value(variable.name, value)
    if isinstance(value, set | frozenset | list):
        try:
            known = typed_key(value) in variable._index
        except TypeError:
            known = False
        return value if known else OneOf(value)
    return value


def no_value(name: str, value: Any) -> DataError:
    """Return the error for something that is neither a value of a column nor a condition on it."""
    give = f"Range(at_least=20, below=30), or the text '20 <= {name} < 30', for a range"
    if isinstance(value, Mapping):
        give = f"Likelihood({value!r}) for what was observed, or Marginal({value!r}) for what holds now"
    return DataError(f"{value!r} is not a value of {name!r}; give {give}")


def number_value(scale: NumberScale, value: Any) -> float:
    """Return the number that a value of a column stands for; reject anything else, with what to give."""
    value = plain(value)
    if scale.kind != "number" and isinstance(value, int):
        raise DataError(f"{value!r} is not a date, and {scale.name!r} has dates; write 2024-12-31")
    try:
        return scale.number(value)
    except DataError:
        if isinstance(value, str) and not any(sign in value for sign in "<>"):
            raise
        raise no_value(scale.name, value) from None


def joined(one: Any, other: Any, name: str = "") -> Any:
    """Return the conjunction of two conditions on the same column."""
    certain = [value for value in (one, other) if not isinstance(value, Condition)]
    if name and len(certain) == 2:
        raise DataError(f"{name!r} is given twice")
    parts = [
        part
        for value in (one, other)
        for part in (value.parts() if isinstance(value, Condition) else (OneOf(value),))
    ]
    return AllOf(tuple(parts))


def _resolved(domain: Domain, given: Mapping[str, Any]) -> Evidence:
    """Turn conditions into states and likelihoods."""
    states: dict[int, int] = {}
    likelihoods: dict[int, FloatArray] = {}
    marginals: dict[int, NewMarginal] = {}
    constants: dict[int, float] = {}
    values: dict[int, float] = {}
    ranges: dict[int, tuple[float, float]] = {}
    for name, value in given.items():
        v = domain.index(name)
        variable = domain.variables[v]
        if not isinstance(value, Condition):
            if variable.numbers is not None and value not in variable.states:
                values[v] = number_value(variable.numbers.scale, value)
            states[v] = variable.index(value)
            continue
        ends = None if variable.numbers is None else ends_of(variable.numbers, value)
        if ends is not None:
            ranges[v] = ends
        weights, target = states_and_likelihoods(variable, value)
        if target is not None:
            marginals[v] = target
        possible = np.flatnonzero(weights)
        if len(possible) == 1 and v not in marginals:
            states[v] = int(possible[0])
            if weights[possible[0]] != 1:
                constants[v] = float(np.log(weights[possible[0]]))
        elif (weights != 1).any():
            with np.errstate(divide="ignore"):
                likelihoods[v] = np.log(weights)
    return Evidence(domain, given, states, likelihoods, marginals, {}, constants, values, ranges)


def states_and_likelihoods(
    variable: Variable, value: Condition
) -> tuple[FloatArray, NewMarginal | None]:
    """Return the likelihood of each state, and a new marginal if there is one."""
    weights = np.ones(len(variable))
    target: NewMarginal | None = None
    parts = value.parts()
    for part in parts:
        if isinstance(part, OneOf):
            weights = weights * part.holds(variable)
        elif isinstance(part, Not):
            weights = weights * (1 - part.holds(variable))
        elif isinstance(part, Likelihood):
            weights = weights * part.weights(variable)
        elif isinstance(part, Marginal):
            if target is not None:
                raise DataError(f"{variable.name!r} is given two new marginals")
            target = part.distribution(variable)
    ranges = [part for part in parts if isinstance(part, Range)]
    if ranges:
        weights = weights * range_weights(variable, ranges)
    return weights, target


def event_of(domain: Domain, query: Given) -> Evidence:
    """Return an event: conditions that hold or do not hold.

    That a number has a value means that it is recorded as this value.
    """
    event = evidence_of(domain, query)
    if event.values:
        names = [domain.names[v] for v in event.values]
        recorded = {n: OneOf(x) if n in names else x for n, x in event.given.items()}
        event = _resolved(domain, recorded)
    for name, value in event.given.items():
        for part in value.parts() if isinstance(value, Condition) else ():
            if isinstance(part, Likelihood | Marginal):
                raise ModelError(
                    f"{part.text(name)!r} is not an event, which holds or does not hold; use it as "
                    "evidence"
                )
    return event


def no_new_marginals(known: Evidence) -> None:
    """Reject new marginals where a probability of the evidence is needed."""
    if known.marginals:
        names = ", ".join(known.domain.names[v] for v in known.marginals)
        raise ModelError(
            f"a new marginal (of {names}) is no observation, so it has no probability and no log Z; "
            "use a likelihood per state instead"
        )
