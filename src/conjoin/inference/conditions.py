"""Conditions on one column: one of, not, a range, a likelihood per state, a new marginal.

A condition becomes one weight per state of its variable: the likelihood of what was observed if the
variable has that state. For "one of" and "not" it is 0 or 1. For a range of a column of
numbers it is the share of each interval that lies in the range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Variable
from conjoin.data.label_values import ABSENT, plain, typed_key
from conjoin.data.number_states import NumberStates
from conjoin.errors import DataError
from conjoin.inference.number_ranges import (
    Interval,
    as_date,
    as_number,
    state_numbers,
)

SUM_TOLERANCE = 1e-6
"""Tolerance for the sum of probabilities written by hand."""

_SPECIAL = re.compile(r'[,"={}<>!]|^\s|\s$|^$|\b(and|in|likelihood|marginal)\b')


def label_text(label: Any) -> str:
    """Return a name or a state as it is written in a condition, in double quotes where that is needed."""
    text = str(label)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


class Condition:
    """What is known of one column, other than its state."""

    def text(self, name: str) -> str:
        """Return the condition on a column as text that `given` accepts."""
        raise NotImplementedError

    def parts(self) -> tuple[Condition, ...]:
        """Return the conditions that must all hold; one, except for `AllOf`."""
        return (self,)


class _StateSet(Condition):
    """A set of states, given one by one or as one collection."""

    word = ""

    def __init__(self, *states: Hashable | Iterable[Hashable]) -> None:
        listed: Any = states
        if len(states) == 1 and isinstance(states[0], list | set | frozenset | tuple):
            listed = states[0]
        ordered = sorted(listed, key=str) if isinstance(listed, set | frozenset) else listed
        self.states = tuple(plain(s) for s in ordered)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, _StateSet)
        return {*map(typed_key, self.states)} == {*map(typed_key, other.states)}

    def __hash__(self) -> int:
        return hash((type(self), frozenset(map(typed_key, self.states))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.states))})"

    def holds(self, variable: Variable) -> FloatArray:
        """Return 1 for the states that are listed, 0 for all others.

        Of the interval that a number lies in, its own share counts.
        """
        weights = np.zeros(len(variable))
        if variable.numbers is not None:
            for state in self.states:
                weights += value_shares(variable, state)
            return np.minimum(weights, 1.0)
        weights[variable.indices(list(self.states))] = 1.0
        return weights

    def text(self, name: str) -> str:
        """Return the condition as text."""
        listed = ", ".join(map(label_text, self.states))
        return f"{label_text(name)} {self.word} {{{listed}}}"


class OneOf(_StateSet):
    """One of several states; a set or a list of states means the same.

    Examples
    --------
    >>> OneOf("red", "amber").text("light")
    'light in {red, amber}'
    """

    word = "in"


class Not(_StateSet):
    """None of some states.

    Examples
    --------
    >>> Not("red").text("light")
    'light != red'
    """

    word = "not in"

    def text(self, name: str) -> str:
        """Return the condition as text."""
        if self.states == (ABSENT,):
            return f"{label_text(name)} is known"
        if len(self.states) == 1:
            return f"{label_text(name)} != {label_text(self.states[0])}"
        return super().text(name)


@dataclass(frozen=True, repr=False)
class Range(Condition):
    """A range of numbers or dates.

    Attributes
    ----------
    above, at_least : number or date, optional
        The lower end, excluded or included.
    below, at_most : number or date, optional
        The upper end, excluded or included.

    Examples
    --------
    >>> Range(at_least=20, below=30).text("age")
    '20 <= age < 30'
    >>> Range(above=40).text("age")
    'age > 40'
    """

    above: Any = None
    at_least: Any = None
    below: Any = None
    at_most: Any = None

    def __post_init__(self) -> None:
        for one, other in (("above", "at_least"), ("below", "at_most")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise DataError(f"a range has either {one} or {other}, not both")
        if all(end is None for end in (self.above, self.at_least, self.below, self.at_most)):
            raise DataError("a range needs at least one of above, at_least, below and at_most")

    def __repr__(self) -> str:
        ends = {name: end for name, end in vars(self).items() if end is not None}
        return f"Range({', '.join(f'{name}={end!r}' for name, end in ends.items())})"

    def text(self, name: str) -> str:
        """Return the condition as text."""
        word = label_text(name)
        lower = self.above if self.at_least is None else self.at_least
        upper = self.below if self.at_most is None else self.at_most
        less = ("<" if self.at_least is None else "<=", "<" if self.at_most is None else "<=")
        if upper is None:
            return f"{word} {'>' if self.at_least is None else '>='} {lower}"
        if lower is None:
            return f"{word} {less[1]} {upper}"
        return f"{lower} {less[0]} {word} {less[1]} {upper}"

    def interval(self, variable: Variable, kind: str) -> Interval:
        """Return the range in numbers; `kind` is what `state_numbers` says."""
        ends = [
            None if end is None else _number(end, kind, variable)
            for end in (self.above, self.at_least, self.below, self.at_most)
        ]
        above, at_least, below, at_most = ends
        low = at_least if above is None else above
        high = at_most if below is None else below
        return Interval(
            -math.inf if low is None else low,
            math.inf if high is None else high,
            above is None,
            below is None,
        )


class _PerState(Condition):
    """A number per state or range."""

    word = ""

    def __init__(self, numbers: Mapping[Any, float]) -> None:
        if not isinstance(numbers, Mapping) or not numbers:
            raise DataError(
                f"{type(self).__name__} needs a number per state, {{state: number}}, not {numbers!r}"
            )
        self.numbers = {plain(state): float(x) for state, x in numbers.items()}
        for state, x in self.numbers.items():
            if not (math.isfinite(x) and x >= 0):
                raise DataError(f"the {self.word} of {state!r} must be 0 or more, not {x:g}")
        if not any(self.numbers.values()):
            raise DataError(f"the {self.word} of at least one state must be more than 0")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, _PerState)
        return self.numbers == other.numbers

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.numbers.items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.numbers!r})"

    def text(self, name: str) -> str:
        """Return the condition as text."""
        listed = ", ".join(
            f"{s.text(name) if isinstance(s, Range) else label_text(s)}: {x:.12g}"
            for s, x in self.numbers.items()
        )
        return f"{label_text(name)} {self.word} {{{listed}}}"

    def shares(self, variable: Variable) -> FloatArray:
        """Return how much of each state belongs to each key, a state or a range: keys by states."""
        shares = np.zeros((len(self.numbers), len(variable)))
        for k, key in enumerate(self.numbers):
            if isinstance(key, Range):
                shares[k] = range_weights(variable, [key])
            else:
                shares[k, variable.index(key)] = 1.0
        twice = np.flatnonzero(shares.sum(axis=0) > 1 + SUM_TOLERANCE)
        if len(twice):
            raise DataError(
                f"two numbers are given for the state {variable.states[twice[0]]!r} of "
                f"{variable.name!r}"
            )
        return shares


class Likelihood(_PerState):
    """Virtual evidence: how probable an observation is in each state, or range, of a column.

    Only the ratios count. A test that is positive for 90% of the ill and for 20% of the healthy, and was
    positive, is ``Likelihood({"ill": 0.9, "healthy": 0.2})``.

    Examples
    --------
    >>> Likelihood({"ill": 0.9, "healthy": 0.2}).text("state")
    'state likelihood {ill: 0.9, healthy: 0.2}'
    >>> Likelihood({Range(below=40): 1, Range(at_least=40): 3}).text("age")
    'age likelihood {age < 40: 1, age >= 40: 3}'
    """

    word = "likelihood"

    def weights(self, variable: Variable) -> FloatArray:
        """Return the likelihoods in the order of the states.

        An interval that lies in several ranges has the mean of their likelihoods, by its share in each.
        """
        shares = self.shares(variable)
        absent = np.flatnonzero(shares.sum(axis=0) < 1 - SUM_TOLERANCE)
        if len(absent):
            raise DataError(
                f"there is no likelihood for {variable.name} = {variable.states[absent[0]]}; give one "
                "for each state"
            )
        return np.asarray(np.array(list(self.numbers.values())) @ shares)


@dataclass(frozen=True, eq=False)
class NewMarginal:
    """A new distribution of the states of a variable, or of groups of them."""

    p: FloatArray  # the new probability of each group
    group: IntArray  # the group of each state, -1 for states that are now impossible

    @property
    def possible(self) -> BoolArray:
        """Whether each state has a probability above 0."""
        return np.asarray((self.group >= 0) & (self.p[self.group] > 0))

    def sums(self, p: FloatArray) -> FloatArray:
        """Return the probabilities of the groups, from those of the states."""
        inside = self.group >= 0
        return np.asarray(np.bincount(self.group[inside], p[inside], len(self.p)), np.float64)

    def spread(self, logs: FloatArray) -> FloatArray:
        """Return a number per group as one per state; that of impossible states is minus infinity."""
        return np.where(self.possible, logs[self.group], -np.inf)


class Marginal(_PerState):
    """Jeffrey's evidence: the distribution that a column has from now on.

    States that are not named, and lie in no range that is, have probability 0.

    Examples
    --------
    >>> Marginal({"ill": 0.7, "healthy": 0.3}).text("state")
    'state marginal {ill: 0.7, healthy: 0.3}'
    """

    word = "marginal"

    def probabilities(self, name: str) -> FloatArray:
        """Return the new probabilities in the order in which they were given."""
        values = np.array(list(self.numbers.values()))
        if abs(values.sum() - 1) > SUM_TOLERANCE:
            raise DataError(
                f"the new probabilities of {name!r} sum to {values.sum():.9g}, not to 1"
            )
        return values / values.sum()

    def distribution(self, variable: Variable) -> NewMarginal:
        """Return the new probabilities of states or groups of states."""
        shares = self.shares(variable)
        cut = np.flatnonzero(((shares > 0) & (shares < 1)).any(axis=0))
        if len(cut):
            raise DataError(
                f"the new marginal of {variable.name!r} cuts the interval {variable.states[cut[0]]}; "
                "choose ranges of whole intervals"
            )
        group = np.where(shares.any(axis=0), shares.argmax(axis=0), -1)
        return NewMarginal(self.probabilities(variable.name), group)


@dataclass(frozen=True)
class AllOf(Condition):
    """Several conditions on one column that all hold."""

    conditions: tuple[Condition, ...]

    def text(self, name: str) -> str:
        """Return the conditions as text."""
        return ", ".join(condition.text(name) for condition in self.conditions)

    def parts(self) -> tuple[Condition, ...]:
        """Return the conditions."""
        return self.conditions


def _number(end: Any, kind: str, variable: Variable) -> float:
    """Return an end of a range as a number; that of a state is its place."""
    if kind == "state":
        return variable.index(end)
    number = as_date(end) if kind == "date" else as_number(end)
    if number is None:
        example = "2024-01-31" if kind == "date" else "40"
        raise DataError(
            f"{end!r} is not a {kind}, and {variable.name!r} has {kind}s; write a {kind} such as "
            f"{example}"
        )
    return number


def range_weights(variable: Variable, ranges: Sequence[Range]) -> FloatArray:
    """Return the share of each state that lies in all of some ranges."""
    if variable.numbers is not None:
        low, high = -math.inf, math.inf
        for condition in ranges:
            first, last = edges_of(variable.numbers, condition)
            low, high = max(low, first), min(high, last)
        return variable.numbers.masses(low, high) if low < high else np.zeros(len(variable))
    kind, values = numbers_of_states(variable)
    inside = Interval(-math.inf, math.inf)
    for condition in ranges:
        inside = inside.both(condition.interval(variable, kind))
    return inside.contains(values)


def edges_of(numbers: NumberStates, part: Range) -> tuple[float, float]:
    """Return the ends of a range between recorded values.

    So "above 40" and "at least 41" are the same range of whole numbers.
    """
    scale = numbers.scale
    step = scale.step
    half = numbers.map.step / 2
    ends = {name: scale.number(end) for name, end in vars(part).items() if end is not None}
    low, high = -math.inf, math.inf
    for name, x in ends.items():
        if step is None:
            inside = name in ("at_least", "at_most")
            edge = half if inside else 0.0
            if name in ("at_least", "above"):
                low = x - edge
            else:
                high = x + edge
            continue
        place = x / step
        nearest = round(place)
        place = nearest if abs(place - nearest) < 1e-9 * max(1.0, abs(place)) else place
        first = math.ceil(place) if name in ("at_least", "below") else math.floor(place) + 1
        if name in ("at_least", "above"):
            low = first * step - half
        else:
            high = first * step - half
    return low, high


def nearest(numbers: NumberStates, value: Any) -> FloatArray:
    """Return the allowed numbers of a condition that are nearest to those of its column."""
    scale = numbers.scale
    found = np.full(1, scale.low)
    for part in value.parts() if isinstance(value, Condition) else ():
        if isinstance(part, Range):
            low, high = edges_of(numbers, part)
            found = np.clip(found, low, high)
        elif isinstance(part, OneOf):
            texts = [state for state in part.states if not isinstance(state, str)]
            if len(texts) == len(part.states):
                found = np.array([scale.number(state) for state in texts])
    return np.asarray(found)


def ends_of(numbers: NumberStates, value: Any) -> tuple[float, float] | None:
    """Return the ends of ranges and of one recorded value; None for other conditions."""
    low, high = -math.inf, math.inf
    for part in value.parts():
        if isinstance(part, Range):
            first, last = edges_of(numbers, part)
        elif type(part) is OneOf and len(part.states) == 1 and not isinstance(part.states[0], str):
            x, half = numbers.scale.number(part.states[0]), numbers.map.step / 2
            first, last = x - half, x + half
        else:
            return None
        low, high = max(low, first), min(high, last)
    return low, max(low, high)


def value_shares(variable: Variable, value: Any) -> FloatArray:
    """Return the share of each state of a column of numbers that a value, or a state, is."""
    numbers = variable.numbers
    assert numbers is not None
    x = variable.number(value)
    if x is None:
        return np.eye(len(variable))[variable.index(value)]
    half = numbers.map.step / 2
    return numbers.masses(x - half, x + half)


def numbers_of_states(variable: Variable) -> tuple[str, FloatArray]:
    """Return what `state_numbers` does; if ranges make no sense, say what to write instead."""
    kind_and_numbers = state_numbers(variable)
    if kind_and_numbers is not None:
        return kind_and_numbers
    name, states = variable.name, ", ".join(label_text(s) for s in variable.states[:3])
    raise DataError(
        f"a range of {name!r} makes no sense, because its states are in no order ({states}"
        f"{', ...' if len(variable) > 3 else ''}); choose some of them: "
        f"{label_text(name)} in {{{states}}}"
    )
