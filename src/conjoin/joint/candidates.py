"""Networks that `refine` compares on held-out rows, and the rules of the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.joint.hidden_column import Priors
from conjoin.models.markov import MarkovNetwork

MIN_GAIN = 1e-3
"""A larger network must predict held-out rows better by this, in nats per row."""

TUNING_GAIN = 10.0
"""How much better all held-out rows together are under networks whose settings they chose, in nats."""

MAX_LACKING = 0.25
"""How much a Bayesian network may lack of the best network, as a share of its gain over the tree."""


class Effort(NamedTuple):
    """How large the networks are that are tried."""

    cells: tuple[
        int, ...
    ]  # of the tables of thin networks; wide tables need 4 per state of a column
    states: tuple[int, ...]  # numbers of hidden states, tried one after another while they help
    settings: tuple[Priors, ...]  # the fits that are stacked for the best of these numbers
    hidden_cells: int  # the maximum number of cells of a network with its hidden column
    batches: int = 0  # of rows that a hidden column is learned from, if there are many rows
    errors: float = 2.0  # by how many standard errors a larger network must be better
    directed: bool = True  # whether to search for a Bayesian network


class Fold(NamedTuple):
    """Complete rows to learn from, and others to choose by."""

    train: Table
    held: Table
    rows: Codes  # the distinct rows of `held`
    weights: FloatArray  # and how often they occur

    @classmethod
    def of(cls, train: Table, held: Table) -> Fold:
        """Return the fold of complete rows."""
        return cls(train, held, *merge_rows(held.codes, held.weights))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A network in the making."""

    name: str  # what it is, for the provenance
    log_density: FloatArray  # the log-probability of each distinct held-out row
    # Learns it further on all rows, if some were held out, and returns the network
    finish: Callable[[], MarkovNetwork]
    # Returns for each fold a network like it that has not learned from the rows of the fold
    honest: Callable[[], list[MarkovNetwork]]
    hidden: bool = False  # whether it has a hidden column

    def beats(self, other: Candidate, weights: FloatArray, errors: float) -> bool:
        """Return whether it is better by more than the choice among candidates gains by chance.

        `errors`: the number of standard errors that it must be better by.
        """
        mean, error = self._gain(other, weights)
        return mean > max(MIN_GAIN, errors * error)

    def is_worth_tuning(self, counted: Candidate, weights: FloatArray) -> bool:
        """Return whether it beats a network that is counted from the rows, without settings to choose."""
        mean, error = self._gain(counted, weights)
        return mean > max(MIN_GAIN, TUNING_GAIN / float(weights.sum()), error)

    def may_win(self, best: Candidate, tree: Candidate, weights: FloatArray) -> bool:
        """Return whether a network that is counted from the rows may become the best by a longer search.

        It may not if the best one is worth its tuning, and what it lacks of that is more than a share of
        what it gains over the tree.
        """
        score = self.score(weights)
        lacking, gained = best.score(weights) - score, score - tree.score(weights)
        return lacking <= MAX_LACKING * gained or not best.is_worth_tuning(self, weights)

    def first(self, rows: int) -> Candidate:
        """Return the same as far as some held-out rows tell."""
        return replace(self, log_density=self.log_density[:rows])

    def _gain(self, other: Candidate, weights: FloatArray) -> tuple[float, float]:
        """Return the mean gain over another candidate, and its standard error."""
        return mean_gain(self.log_density - other.log_density, weights)

    def score(self, weights: FloatArray) -> float:
        """Return the mean log-probability of a held-out row."""
        return float(np.average(self.log_density, weights=weights))


def mean_gain(gain: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the mean of what rows gain, and its standard error."""
    count = float(weights.sum())
    mean = float(weights @ gain) / count
    return mean, float(np.sqrt(weights @ (gain - mean) ** 2)) / count


def hidden_name(domain: Domain) -> str:
    """Return a name for the hidden column that no other column has."""
    name = "(hidden)"
    while name in domain.names:
        name = f"({name})"
    return name
