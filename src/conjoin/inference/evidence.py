"""Evidence: what is known of a row before a question is asked.

Every way of writing it, a text or a mapping, becomes one object: the states that are certain, a
likelihood per state for the columns of which something else is known, and new marginals (Jeffrey's
evidence), which `new_marginals` turns into likelihoods.
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
    range_weights,
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a row.

    Attributes
    ----------
    domain : Domain
        The variables.
    given : dict
        The evidence by name, as it was given: states and conditions.
    states : dict
        {position: code} of the variables whose states are certain.
    likelihoods : dict
        {position: log-likelihood of each state} of others.
    marginals : dict
        {position: new distribution} of the variables that get a new marginal.
    fitted : dict
        {position: log-likelihood of each state} that produced new marginals, as part of `likelihoods`.
    constants : dict
        {position: log-likelihood} of conditions on variables whose states are certain.
    notes : tuple of str
        What was approximated.
    numbers : mapping
        For variables whose states are bins of numbers, the remembered numbers of each bin.
    """

    domain: Domain
    given: Mapping[str, Any]
    states: dict[int, int]
    likelihoods: dict[int, FloatArray] = field(default_factory=dict)
    marginals: dict[int, NewMarginal] = field(default_factory=dict)
    fitted: dict[int, FloatArray] = field(default_factory=dict)
    constants: dict[int, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, Sequence[Any]] = field(default_factory=dict)

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
        found = _resolved(self.domain, merged, {**self.numbers, **other.numbers})
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
        return _resolved(self.domain, left, self.numbers)

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


def evidence_of(
    domain: Domain, given: Any = None, numbers: Mapping[str, Sequence[Any]] | None = None
) -> Evidence:
    """Return evidence in its one meaning, whichever way it was written.

    Parameters
    ----------
    domain : Domain
        The variables.
    given : mapping, str or Evidence, optional
        {name: state or condition}, or conditions as text (see `condition_text`).
    numbers : mapping, optional
        For variables whose states are bins, numbers of each bin that are distributed as in the data.

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
        return given if given.domain is domain else _resolved(domain, given.given, given.numbers)
    if isinstance(given, Mapping):
        read = {name: as_condition(domain[name], value) for name, value in given.items()}
        return _resolved(domain, read, numbers or {})
    if given is None:
        return Evidence(domain, {}, {})
    check_given(given)
    found: dict[str, Any] = {}
    for name, value in parse_conditions(given, domain):
        found[name] = joined(found[name], value, name) if name in found else value
    return _resolved(domain, found, numbers or {})


def check_given(given: Any) -> None:
    """Reject evidence that is neither a mapping nor a text."""
    if given is not None and not isinstance(given, str | Mapping | Evidence):
        shown = repr(given) if isinstance(given, bool | int | float) else type(given).__name__
        raise ModelError(
            "conditions are given as a mapping {variable: state} or as a text such as 'rain=yes', "
            f"not as {shown}"
        )


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


def _resolved(
    domain: Domain, given: Mapping[str, Any], numbers: Mapping[str, Sequence[Any]]
) -> Evidence:
    """Turn conditions into states and likelihoods."""
    states: dict[int, int] = {}
    likelihoods: dict[int, FloatArray] = {}
    marginals: dict[int, NewMarginal] = {}
    constants: dict[int, float] = {}
    notes: list[str] = []
    for name, value in given.items():
        v = domain.index(name)
        variable = domain.variables[v]
        if not isinstance(value, Condition):
            states[v] = variable.index(value)
            continue
        weights, target, note = states_and_likelihoods(variable, value, numbers.get(name))
        notes += note
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
    return Evidence(
        domain, given, states, likelihoods, marginals, {}, constants, tuple(notes), numbers
    )


def states_and_likelihoods(
    variable: Variable, value: Any, numbers: Sequence[Any] | None
) -> tuple[FloatArray, NewMarginal | None, list[str]]:
    """Return the likelihood of each state, a new marginal if there is one, and what was approximated."""
    weights = np.ones(len(variable))
    notes: list[str] = []
    target: NewMarginal | None = None
    by = "its values are spread evenly" if numbers is None else "by its training values"
    if not isinstance(value, Condition):
        value = OneOf(value)
    parts = value.parts()
    for part in parts:
        if isinstance(part, OneOf):
            weights = weights * part.holds(variable)
        elif isinstance(part, Not):
            weights = weights * (1 - part.holds(variable))
        elif isinstance(part, Likelihood):
            weights = weights * part.weights(variable, numbers)
            notes += [
                f"its ranges cut the bin {label} of {variable.name}, {by}"
                for label in part.cut_bins(variable, numbers)
            ]
        elif isinstance(part, Marginal):
            if target is not None:
                raise DataError(f"{variable.name!r} is given two new marginals")
            target = part.distribution(variable)
    ranges = [part for part in parts if isinstance(part, Range)]
    if ranges:
        shares, partial = range_weights(variable, ranges, numbers)
        weights = weights * shares
        for label in partial:
            share = shares[variable.index(label)]
            notes.append(f"{share:.0%} of the bin {label} of {variable.name} counts, {by}")
    return weights, target, notes


def event_of(
    domain: Domain, query: Given, numbers: Mapping[str, Sequence[Any]] | None = None
) -> Evidence:
    """Return an event: conditions that hold or do not hold."""
    event = evidence_of(domain, query, numbers)
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
