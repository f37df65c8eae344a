"""Conditional probability distributions (CPDs), P(X_i | the rest): what all kinds have in common.

Each kind knows its target, its Markov blanket, the log-probabilities of given rows, and its features.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.features import Features

MAX_TABLE = 1 << 24
"""Maximum number of entries of a table."""

MAX_AXES = 64
"""Maximum number of variables of a table: NumPy's limit."""

SUM_TOLERANCE = 1e-6
"""Tolerance for the sum of probabilities: they may be rounded."""

SUM_LIMIT = 1e-4
"""Beyond this, probabilities that do not sum to 1 are an error; below it they only cause a warning."""


@runtime_checkable
class CPD(Protocol):
    """The interface of every kind of CPD."""

    target: int
    cards: IntArray

    @property
    def blanket(self) -> tuple[int, ...]:
        """The positions of the variables that the distribution depends on."""

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""

    def features(self) -> Features:
        """Return the distribution as a log-linear model over conjunctions that test the target."""

    def moved(self, cards: IntArray, position: IntArray) -> CPD:
        """Return the CPD over reordered variables, given the new position of each."""


def one_cpd_per_variable(domain: Domain, cpds: Iterable[CPD]) -> tuple[CPD, ...]:
    """Return CPDs in the order of their targets, after checking that each variable has one."""
    in_order = tuple(sorted(cpds, key=lambda cpd: cpd.target))
    counts = Counter(cpd.target for cpd in in_order)
    for i, name in enumerate(domain.names):
        if counts[i] != 1:
            wrong = "two CPDs" if counts[i] else "no CPD"
            raise ModelError(f"{name!r} has {wrong}; a network needs one per variable")
    if len(in_order) > len(domain):
        raise ModelError("there is a CPD for a variable that is not in the domain")
    for cpd in in_order:
        if cpd.cards is not domain.cards and not np.array_equal(cpd.cards, domain.cards):
            raise ModelError(f"the CPD of {domain.names[cpd.target]!r} belongs to another domain")
    return in_order


def log_normalized(logits: FloatArray) -> FloatArray:
    """Subtract from each row the logarithm of the sum of its exponentials.

    A row of nothing but -inf, for a condition that cannot arise, becomes NaN.
    """
    top = logits.max(axis=-1, keepdims=True)
    if top.size and not top.min() > -np.inf:
        top = np.where(top == -np.inf, np.nan, top)
    shifted = logits - top
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def check_sums(log_probabilities: FloatArray, name: str) -> None:
    """Reject log-probabilities with rows that are all -inf or NaN, or whose sum is far from 1."""
    sums = np.exp(log_probabilities).sum(axis=-1)
    far = np.abs(sums - 1)
    if far.size == 0 or far.max() <= SUM_TOLERANCE:
        return
    good = far <= SUM_LIMIT  # False for NaN
    if good.all():
        warnings.warn(
            f"the probabilities of {name!r} sum to {sums.ravel()[far.argmax()]:.7g} instead of 1 in a "
            "row; they are normalised",
            UserWarning,
            stacklevel=2,
        )
        return
    first = float(sums.ravel()[np.flatnonzero(~good.ravel())[0]])
    wrong = "are all 0" if first == 0 else f"sum to {first:.6g}, not to 1"
    raise ModelError(
        f"the probabilities of {name!r} {wrong} in a row; every row must be a distribution"
    )


def log_distribution(variable: Variable, given: Any) -> FloatArray:
    """Return the log-probabilities of a distribution as a user writes it.

    That is {state: probability}, the probabilities in the order of the states, or for a binary
    variable the probability of its second state.
    """
    if isinstance(given, Mapping):
        for state in given:
            variable.index(state)
        absent = [s for s in variable.states if s not in given]
        if absent:
            raise ModelError(
                f"there is no probability for {variable.name} = {absent[0]}; give one for each state"
            )
        values = [given[s] for s in variable.states]
    elif isinstance(given, int | float) and len(variable) == 2:
        values = [1 - given, given]
    else:
        values = list(given) if isinstance(given, Iterable) else [given]
        if len(values) != len(variable):
            raise ModelError(
                f"{len(values)} probabilities for the {len(variable)} states of {variable.name!r} "
                f"({', '.join(map(str, variable.states))})"
            )
    if any(isinstance(v, bool) or not isinstance(v, int | float | np.number) for v in values):
        raise ModelError(f"the probabilities of {variable.name!r} must be numbers, not {values!r}")
    try:
        p = np.array(values, np.float64)
    except OverflowError:
        p = np.array([np.inf])
    if not ((p >= 0) & (p <= 1)).all():
        raise ModelError(
            f"{values!r} are not probabilities of {variable.name!r}: 0 to 1 is allowed"
        )
    if abs(p.sum() - 1) > SUM_TOLERANCE:
        raise ModelError(
            f"the probabilities of {variable.name!r}, {values!r}, sum to {p.sum():.9g}, not to 1"
        )
    with np.errstate(divide="ignore"):
        return np.log(p / p.sum())
