"""The answers of all engines: names, states, and how certain the answer is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.answer_html import Bar, Cell, answer_html, state_rows
from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.data.labels import shown, statement
from conjoin.inference.condition_text import conditions_text

SHOWN, MOST_STATES = 20, 8
"""Maximum number of columns that are printed, and of states of each in a notebook."""

MAX_CROSS_TABLE = 12
"""Two variables with at most this number of states each are printed as a table."""


@dataclass(frozen=True)
class Run:
    """How an answer was found."""

    method: str  # the engine
    exact: bool = False  # whether the answer is exact up to rounding
    converged: bool = True  # whether an iteration converged, or a search was completed
    note: str = ""  # further information on how certain the answer is
    # The largest standard error of the probabilities, if they were sampled
    error: float | None = None
    # Whether too much is unknown for the chain of a joint, so that its network answered
    by_network: bool = False

    def __str__(self) -> str:
        return f"{self.method}: {self.note}" if self.note else self.method


class Marginals(Mapping[str, Any]):
    """The distribution of each variable: {state: probability}, or a `NumberDistribution`.

    Hidden variables are among them only if they were asked for by name.

    Attributes
    ----------
    domain : Domain
        The variables.
    run : Run
        How they were found.

    Examples
    --------
    >>> domain = Domain({"rain": ["no", "yes"]})
    >>> answer = Marginals(domain, [np.array([0.8, 0.2])], Run("exact", exact=True))
    >>> answer["rain"]["yes"]
    0.2
    >>> answer
    rain  no 0.8, yes 0.2
    (exact)
    """

    def __init__(
        self,
        domain: Domain,
        arrays: list[FloatArray],
        run: Run,
        names: Sequence[str] | None = None,
    ) -> None:
        self.domain, self.run = domain, run
        self._arrays = arrays
        self._names = domain.observed.names if names is None else tuple(names)
        self.numbers: Mapping[str, Any] = {}  # the distributions of columns of numbers

    def array(self, name: str) -> FloatArray:
        """Return the probabilities of one variable, in the order of its states."""
        return self._arrays[self.domain.index(name)]

    def arrays(self) -> list[FloatArray]:
        """Return the probabilities of all variables of the domain that are not hidden."""
        return self._arrays[: len(self.domain.observed)]

    def __getitem__(self, name: str) -> Any:
        if name in self.numbers:
            return self.numbers[name]
        states = self.domain[name].states
        return dict(zip(states, self.array(name).tolist(), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        first = list(self)[:SHOWN]
        width = max((len(shown(name)) for name in first), default=0)
        lines = [f"{shown(name):<{width}}  {distribution_words(self[name])}" for name in first]
        if len(self) > len(first):
            lines.append(f"... and {len(self) - len(first)} more")
        return "\n".join([*lines, f"({self.run})"])

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = []
        for name in list(self)[:SHOWN]:
            found = self[name]
            if isinstance(found, Mapping):
                rows += state_rows(name, found, MOST_STATES)
            else:
                rows.append([shown(name), "", distribution_words(found)])
        more = f"; {len(self) - SHOWN} more columns" if len(self) > SHOWN else ""
        return answer_html("", rows, f"{self.run}{more}")


def of_all_variables(
    domain: Domain, free: Mapping[int, FloatArray], known: Mapping[int, int]
) -> list[FloatArray]:
    """Return the distributions of all variables: known ones are certain, those in neither are NaN."""
    arrays = [np.full(card, np.nan) for card in domain.cards.tolist()]
    for v, p in free.items():
        arrays[v] = p
    for v, state in known.items():
        arrays[v] = np.zeros(len(arrays[v]))
        arrays[v][state] = 1.0
    return arrays


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines: the first column to the left, others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])])
        for first, *rest in rows
    ]


def distribution_words(found: Any) -> str:
    """Return the probabilities of states, or the mean of a number and its 90% interval."""
    if isinstance(found, Mapping):
        return ", ".join(f"{shown(state)} {p:.4g}" for state, p in found.items())
    low, high = found.interval(0.9)
    ends = [found.scale.text(found.scale.number(end), 12) for end in (low, high)]
    if found.absent == 1:
        return "absent"
    absent = f"absent {found.absent:.2g}, otherwise " if found.absent else ""
    return f"{absent}mean {found.scale.short(found.mean())}, 90% between {ends[0]} and {ends[1]}"


@dataclass(frozen=True)
class LogValue:
    """The logarithm of a partition function, log Z.

    Examples
    --------
    >>> LogValue(1.5, Run("ais"), 0.01)
    log Z = 1.5 ± 0.01 (ais)
    >>> LogValue(0.5, Run("exact", exact=True), given={"rain": "yes"})
    log Z(rain=yes) = 0.5 (exact)
    """

    value: float  # the natural logarithm
    run: Run  # how it was found
    error: float = 0.0  # its standard error; 0 if it is exact
    # The evidence: the sum is over the instances that agree with it
    given: Mapping[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        given = f"({shown(conditions_text(self.given, 8))})" if self.given else ""
        error = f" ± {self.error:.2g}" if self.error else ""
        return f"log Z{given} = {self.value:.6g}{error} ({self.run})"


class Probability(float):
    """A probability: a number that knows its logarithm, its error and how it was found.

    `log_error`: the standard error of the logarithm: about the relative error of the probability.
    `query` and `given`: the question: the states whose probability this is, and the evidence.

    Examples
    --------
    >>> p = Probability(np.log(0.25), Run("exact", exact=True), query={"a": 1}, given={"b": 0})
    >>> p
    P(a=1 | b=0) = 0.25 (exact)
    >>> 1 - p
    0.75
    """

    log: float
    run: Run
    log_error: float
    query: dict[str, Any]
    given: dict[str, Any]

    def __new__(
        cls,
        log: float,
        run: Run,
        log_error: float = 0.0,
        query: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> Probability:
        """Make the number from its logarithm."""
        self = super().__new__(cls, np.exp(log))
        self.log, self.run, self.log_error = float(log), run, float(log_error)
        self.query, self.given = dict(query or {}), dict(given or {})
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.log, self.run, self.log_error, self.query, self.given

    @property
    def error(self) -> float:
        """The standard error of the probability; 0 if it is exact."""
        return float(self) * self.log_error

    def __repr__(self) -> str:
        given = f" | {shown(conditions_text(self.given, 8))}" if self.given else ""
        error = f" ± {self.error:.2g}" if self.log_error else ""
        event = shown(conditions_text(self.query, 8))
        return f"P({event}{given}) = {float(self):.4g}{error} ({self.run})"

    __str__ = __repr__


@dataclass(frozen=True)
class Assignment(Mapping[str, Any]):
    """A state for each variable: a mapping of names to states."""

    states: dict[str, Any]  # the states, including the evidence
    score: float  # the log-potential of this instance
    run: Run  # how it was found
    # Upper bound of the score of any instance that agrees with the evidence; infinite if unknown
    bound: float = field(default=np.inf)

    @property
    def gap(self) -> float:
        """The difference between the bound and the score, in nats."""
        return self.bound - self.score

    def __getitem__(self, name: str) -> Any:
        return self.states[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        text = ", ".join(f"{shown(n)}={shown(s)}" for n, s in list(self.states.items())[:20])
        more = f" and {len(self) - 20} more" if len(self) > 20 else ""
        return f"{text}{more}\nscore {self.score:.6g} ({self.run})"

    def _repr_html_(self) -> str:
        rows = [[shown(name), shown(value)] for name, value in self.states.items()]
        return answer_html("Most probable", rows, f"score {self.score:.6g} ({self.run})")


@dataclass(frozen=True, eq=False)
class JointProbabilities:
    """The joint distribution of a few variables."""

    domain: Domain  # these variables, in the order of the axes
    table: FloatArray  # probabilities
    run: Run  # how they were found

    def __getitem__(self, states: Any) -> float:
        if not isinstance(states, tuple):
            states = (states,)
        index = tuple(v.index(s) for v, s in zip(self.domain, states, strict=True))
        return float(self.table[index])

    def _cross_table(self) -> str:
        """Return two variables as a table, the first by rows and the second by columns."""
        rows, columns = self.domain.variables
        name = f"{shown(rows.name)} \\ {shown(columns.name)}"
        lines = [[name, *map(shown, columns.states)]]
        for state, p in zip(rows.states, self.table.tolist(), strict=True):
            lines.append([shown(state), *(f"{x:.4g}" for x in p)])
        return "\n".join([*aligned(lines), f"({self.run})"])

    def _repr_html_(self) -> str:
        top = max(float(self.table.max()), 1e-300)
        if self.table.ndim == 2 and max(self.table.shape) <= MAX_CROSS_TABLE:
            down, across = self.domain.variables
            rows: list[list[Cell]] = [
                [shown(state), *(Bar(x / top, f"{x:.4g}") for x in p)]
                for state, p in zip(down.states, self.table.tolist(), strict=True)
            ]
            names = [f"{shown(down.name)} \\ {shown(across.name)}", *map(shown, across.states)]
            return answer_html("", rows, str(self.run), names)
        listed: list[list[Cell]] = [[words, Bar(p / top, f"{p:.4g}")] for p, words in self._cells()]
        return answer_html("", listed, str(self.run))

    def _cells(self) -> Iterator[tuple[float, str]]:
        """Yield the most probable cells, with their states in words."""
        for cell in np.argsort(-self.table, axis=None, kind="stable")[:SHOWN]:
            codes = np.unravel_index(cell, self.table.shape)
            states = zip(self.domain, codes, strict=True)
            yield float(self.table[codes]), ", ".join(statement(v, int(c)) for v, c in states)

    def __repr__(self) -> str:
        if self.table.ndim == 2 and max(self.table.shape) <= MAX_CROSS_TABLE:
            return self._cross_table()
        lines = [f"{p:.4g}  {words}" for p, words in self._cells()]
        if self.table.size > SHOWN:
            lines.append(f"... and {self.table.size - SHOWN} more")
        return "\n".join([*lines, f"({self.run})"])
