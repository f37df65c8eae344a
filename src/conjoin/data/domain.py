"""`Variable`, a column with named states, and `Domain`, the variables of a table or model."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import IntArray, read_only
from conjoin.data.label_values import (
    ABSENT,
    as_float,
    is_missing,
    is_number,
    plain,
    typed_key,
)
from conjoin.errors import DataError, UnknownColumnError, did_you_mean

if TYPE_CHECKING:
    from conjoin.data.number_scale import NumberScale
    from conjoin.data.number_states import NumberStates

MAX_STATES = 65_534
"""Maximum number of states of a variable of a model: codes have 16 bits, and one code means missing."""

MAX_LABELS = 2**31 - 2
"""Maximum number of distinct values of a column."""


class Variable:
    """A discrete variable: a name and its states, in order.

    Parameters
    ----------
    name : str
        The variable's name.
    states : sequence of hashable
        Its state labels, all different. Types count: 1 is not "1".
    hidden : bool
        Whether the variable is one that no table has: a model sums over it, and never shows it.
    ordered : bool, optional
        Whether the order of the states has a meaning, so that learning may test whether a state is at
        most another one. By default it has if the states are intervals or ascending numbers. Variables
        that differ only in this are equal.
    numbers : NumberStates, optional
        What the states of a column of numbers are; see `Variable.of_numbers`.

    Examples
    --------
    >>> light = Variable("light", ["red", "amber", "green"])
    >>> light.index("amber")
    1
    >>> len(light)
    3
    >>> light.ordered, Variable("grade", ["low", "middle", "high"], ordered=True).ordered
    (False, True)
    """

    __slots__ = ("_index", "hidden", "name", "numbers", "ordered", "states")

    def __init__(
        self,
        name: str,
        states: Iterable[Hashable],
        *,
        hidden: bool = False,
        ordered: bool | None = None,
        numbers: NumberStates | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise DataError(f"a variable's name must be a non-empty string, not {name!r}")
        self.name, self.hidden, self.numbers = name, bool(hidden), numbers
        if not isinstance(states, Iterable):
            raise DataError(f"variable {name!r} needs a list of states, not {states!r}")
        self.states: tuple[Any, ...] = tuple(plain(s) for s in states)
        if not 1 <= len(self.states) <= MAX_LABELS:
            raise DataError(
                f"variable {name!r} has {len(self.states)} states; 1 to {MAX_LABELS} are allowed"
            )
        self.ordered = self.order_shows if ordered is None else bool(ordered)
        self._index: dict[Hashable, int] = {}
        seen: dict[Hashable, Any] = {}
        for code, state in enumerate(self.states):
            if is_missing(state):
                raise DataError(
                    f"variable {name!r}: {state!r} means a missing value and cannot be a state"
                )
            try:
                known = self._index.setdefault(typed_key(state), code)
            except TypeError:
                raise DataError(f"variable {name!r}: state {state!r} is not hashable") from None
            if known != code:
                raise DataError(f"variable {name!r} has the state {state!r} twice")
            if (equal := seen.setdefault(state, state)) is not state:
                raise DataError(
                    f"variable {name!r} has the states {equal!r} and {state!r}, which are equal; "
                    "merge them, or write them as text"
                )

    @classmethod
    def of_numbers(cls, numbers: NumberStates) -> Variable:
        """Return a column of numbers as a variable."""
        return cls(numbers.scale.name, numbers.labels(), numbers=numbers)

    @property
    def absent(self) -> bool:
        """Whether the last state is that there is no value."""
        return bool(self.states[-1] == ABSENT)

    @property
    def values(self) -> tuple[Any, ...]:
        """The states that are values."""
        return self.states[:-1] if self.absent else self.states

    def with_absent(self) -> Variable:
        """Return the variable with one more state: that there is no value."""
        if self.numbers is not None:
            return Variable.of_numbers(replace(self.numbers, absent=True))
        return Variable(self.name, (*self.states, ABSENT), hidden=self.hidden, ordered=self.ordered)

    def renamed(self, name: str) -> Variable:
        """Return a variable with the same states and another name."""
        twin = copy.copy(self)
        twin.name = name
        return twin

    @property
    def order_shows(self) -> bool:
        """Whether the states are intervals or ascending numbers."""
        if self.numbers is not None:
            return True
        numbers = all(is_number(state) for state in self.values)
        return numbers and all(a < b for a, b in pairwise(self.values))

    @property
    def holds_numbers(self) -> bool:
        """Whether the values are numbers, as such or as states, and not dates or text."""
        if self.numbers is not None:
            return self.numbers.scale.kind == "number"
        return all(map(is_number, self.values))

    def index(self, state: Any) -> int:
        """Return the code of a state label, or of the interval that a number belongs to."""
        state = plain(state)
        if (code := self._code_of_number(state)) is not None:
            return code
        try:
            return self._index[typed_key(state)]
        except (KeyError, TypeError):
            code = self.by_number(state) if is_number(state) else None
            if code is not None:
                return code
            twin = [s for s in self.states if str(s) == str(state)]
            kind = f" (a {type(state).__name__})" if twin else ""
            raise DataError(
                f"variable {self.name!r} has no state {state!r}{kind}. "
                + did_you_mean(state, self.states)
            ) from None

    def number(self, value: Any) -> float | None:
        """Return the number that a value of a column of numbers stands for; None if it is none."""
        assert self.numbers is not None
        try:
            number = self.numbers.scale.number(value)
        except DataError:
            return None
        return number if math.isfinite(number) else None

    def _code_of_number(self, value: Any) -> int | None:
        """Return the state of a value of a column of numbers; None if it is none."""
        number = None if self.numbers is None else self.number(value)
        if self.numbers is None or number is None:
            return None
        return int(self.numbers.codes(np.array([number]))[0])

    def by_number(self, number: float) -> int | None:
        """Return the code of the state that equals a number (1 for 1.0); None if there is none."""
        return next((c for c, s in enumerate(self.states) if is_number(s) and s == number), None)

    def find_all(self, labels: Iterable[Any]) -> list[int]:
        """Return the code of the state that each label of a file or a frame stands for, -1 if none.

        A label stands for the state of the same type and value, or else for the state that is written
        alike ("true" and "false" in any case), or else, as a number, for the state of that value.
        """
        by_text: dict[str, int] = {}
        for code, state in enumerate(self.states):
            by_text.setdefault(str(state), code)
        return [self._find(label, by_text) for label in labels]

    def _find(self, label: Any, by_text: Mapping[str, int]) -> int:
        if (code := self._code_of_number(label)) is not None:
            return code
        known = self._index.get(typed_key(label), by_text.get(str(label)))
        if known is not None:
            return known
        truth = {"true": True, "false": False}.get(str(label).lower())
        if truth is not None and typed_key(truth) in self._index:
            return self._index[typed_key(truth)]
        if not isinstance(label, str | int | float):
            return -1
        with suppress(ValueError, OverflowError):
            code = self.by_number(as_float(float(label)))
        return -1 if code is None else code

    def indices(self, states: Any) -> list[int]:
        """Return the codes of one state, or of a list, set or tuple of states."""
        several = isinstance(states, list | set | frozenset)
        if isinstance(states, tuple):
            several = typed_key(states) not in self._index
        codes = [self.index(s) for s in (states if several else [states])]
        if not codes:
            raise DataError(f"no state of {self.name!r} is given; a condition needs at least one")
        return codes

    def __len__(self) -> int:
        return len(self.states)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Variable):
            return NotImplemented
        alike = self.name == other.name and self.hidden == other.hidden
        return alike and list(self._index) == list(other._index)

    def __hash__(self) -> int:
        return hash((self.name, self.hidden, tuple(self._index)))

    def __repr__(self) -> str:
        hidden = ", hidden=True" if self.hidden else ""
        return f"Variable({self.name!r}, {list(self.states)!r}{hidden})"


class Domain:
    """An ordered set of variables.

    Parameters
    ----------
    variables : mapping or iterable
        A mapping of names to states, or `Variable` objects.

    Attributes
    ----------
    names : tuple of str
        The variables' names.
    cards : array of int
        The number of states of each.
    hidden : array of bool
        Which variables are hidden (see `Variable`).
    ordered : array of bool
        Of which variables the order of the states has a meaning.

    Examples
    --------
    >>> domain = Domain({"rain": ["no", "yes"], "light": ["red", "amber", "green"]})
    >>> domain.encode({"rain": "yes", "light": "red"})
    [1, 0]
    >>> domain.decode([1, 2])
    {'rain': 'yes', 'light': 'green'}
    """

    def __init__(self, variables: Mapping[str, Iterable[Hashable]] | Iterable[Variable]) -> None:
        if isinstance(variables, Mapping):
            variables = [Variable(name, states) for name, states in variables.items()]
        self.variables: tuple[Variable, ...] = tuple(variables)
        for variable in self.variables:
            if not isinstance(variable, Variable):
                raise DataError(
                    f"a domain is made of variables, or of a mapping of names to states, "
                    f"not {variable!r}"
                )
        self.names: tuple[str, ...] = tuple(v.name for v in self.variables)
        self._position = {name: i for i, name in enumerate(self.names)}
        if len(self._position) != len(self.names):
            twice = next(n for i, n in enumerate(self.names) if self._position[n] != i)
            raise DataError(f"two variables are called {twice!r}; names must differ")
        self.cards = read_only(np.array([len(v) for v in self.variables], np.int64))
        self.hidden = read_only(np.array([v.hidden for v in self.variables], bool))
        self.ordered = read_only(np.array([v.ordered for v in self.variables], bool))

    @classmethod
    def numbered(cls, cards: Iterable[int]) -> Domain:
        """Return a domain for formats without names: variables v0, v1, ... with states 0, 1, ..."""
        alike: dict[int, Variable] = {}
        variables = []
        for i, card in enumerate(map(int, cards)):
            if card not in alike:
                alike[card] = Variable("v", range(card), ordered=False)  # codes, not numbers
            variables.append(alike[card].renamed(f"v{i}"))
        return cls(variables)

    @property
    def is_numbered(self) -> bool:
        """Whether names and states are those that a format without names would imply."""
        return self == Domain.numbered(self.cards)

    @cached_property
    def observed(self) -> Domain:
        """The domain of the variables that are not hidden: the columns of a table."""
        return self.subset(np.flatnonzero(~self.hidden)) if self.hidden.any() else self

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(v.name for v in self.variables if v.numbers is not None)

    @property
    def scales(self) -> tuple[NumberScale, ...]:
        """The scales of the columns of numbers."""
        return tuple(v.numbers.scale for v in self.variables if v.numbers is not None)

    def numbers(self, name: str) -> NumberStates:
        """Return what the states of a column of numbers are."""
        found = self[name].numbers
        if found is None:
            raise DataError(f"column {name!r} has states, not numbers")
        return found

    def scale(self, name: str) -> NumberScale:
        """Return the scale of a column of numbers."""
        return self.numbers(name).scale

    def index(self, name: str) -> int:
        """Return the position of a variable."""
        try:
            return self._position[name]
        except (KeyError, TypeError):
            raise UnknownColumnError(name, self.observed.names) from None

    def encode(self, instance: Mapping[str, Any]) -> list[int]:
        """Return the codes of a complete instance, in the order of the domain."""
        absent = [name for name in self.names if name not in instance]
        if absent:
            raise DataError(f"the instance has no value for {', '.join(map(repr, absent))}")
        given = self.encode_partial(instance)
        return [given[position] for position in range(len(self))]

    def encode_partial(self, evidence: Mapping[str, Any]) -> dict[int, int]:
        """Return {position: code} of the given variables."""
        return {
            (i := self.index(name)): self.variables[i].index(state)
            for name, state in evidence.items()
        }

    def decode(self, codes: Sequence[int] | npt.NDArray[Any]) -> dict[str, Any]:
        """Return the labels of a row of codes."""
        return {v.name: v.states[int(c)] for v, c in zip(self.variables, codes, strict=True)}

    def subset(self, positions: Iterable[int]) -> Domain:
        """Return the domain of some of the variables."""
        return Domain(self.variables[i] for i in positions)

    def reordered(self, names: Sequence[str]) -> Domain:
        """Return the domain with its variables in another order; hidden ones stay last."""
        hidden = self.hidden_names
        if sorted(set(names).difference(hidden)) != sorted(self.observed.names):
            raise DataError("a domain can only be reordered by all of its own names")
        shown = [name for name in names if name not in hidden]
        return self.subset(self.index(name) for name in (*shown, *hidden))

    @property
    def hidden_names(self) -> tuple[str, ...]:
        """The names of the hidden variables."""
        return tuple(v.name for v in self.variables if v.hidden)

    def state_order(self, other: Domain) -> IntArray:
        """Return the places of all states, side by side, as another domain orders the variables."""
        first = np.cumsum(self.cards) - self.cards
        at = [self.index(name) for name in other.names]
        places = [first[v] + np.arange(self.cards[v]) for v in at]
        return np.concatenate([np.zeros(0, np.int64), *places])

    def sorted_names(self) -> list[str]:
        """Return the names in alphabetical order, numbers within them by value; hidden ones last."""
        return [*sorted(self.observed.names, key=_natural_key), *self.hidden_names]

    def __getitem__(self, name: str) -> Variable:
        return self.variables[self.index(name)]

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self.variables == other.variables

    def __hash__(self) -> int:
        return hash(self.variables)

    def __repr__(self) -> str:
        shown = {v.name: list(v.states) for v in self.variables[:6]}
        more = "" if len(self) <= 6 else f" and {len(self) - 6} more"
        return f"Domain({shown!r}{more})"


def _natural_key(name: str) -> tuple[list[tuple[str, int, str]], str]:
    """Return a sorting key that compares the numbers within a name by value."""
    parts = [*re.split(r"([0-9]+)", name), ""]  # text, number, text, number, ...
    digits = [number.lstrip("0") for number in parts[1::2]]
    return [(text, len(n), n) for text, n in zip(parts[::2], digits, strict=True)], name


def check_states(domain: Domain) -> None:
    """Reject variables with more states than a model can have."""
    for variable in domain:
        if len(variable) > MAX_STATES:
            raise DataError(
                f"variable {variable.name!r} has {len(variable):,} states; a model takes at most "
                f"{MAX_STATES:,}; leave it out"
            )
