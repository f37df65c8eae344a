"""The interface of the solvers of logistic regression, their precision and their solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.learning.logistic_features import Design

TOLERANCE = 1e-7
"""A target has converged when a step would gain less than this fraction of its objective."""
ROUGH = 1e-4
"""The same while penalties are only compared by their scores."""
MAX_STEPS = 100
REQUIRED_SHARE = 1e-3
"""The fraction of the penalty on the terms of required parents: enough to keep them finite."""


@dataclass(eq=False)
class Solution:
    """Weights of some targets at one penalty: columns by features, and those of path features.

    The solution for the next penalty depends on nothing else that was learned, so that a run can be
    resumed from here.
    """

    penalty: float
    tolerance: float
    weights: FloatArray
    bias: FloatArray
    own: FloatArray
    score: FloatArray


class Solver(Protocol):
    """Some targets that are solved together: a column per binary target, or per state of any other.

    Attributes
    ----------
    design, valid : Design
        The training and the validation rows; not pickled with the solver.
    targets : list of int
        The targets' positions.
    column_target, column_state : array of int
        The target and the state of each column.
    features : array of int
        The features among those of all rows that the columns of weights belong to.
    own_first : array of int
        Where the path features of each column begin.
    """

    design: Design
    valid: Design | None
    targets: list[int]
    column_target: IntArray
    column_state: IntArray
    features: IntArray
    own_first: IntArray

    def solve(self, penalties: Sequence[float], tolerance: float = TOLERANCE) -> list[Solution]:
        """Continue along the path, from the largest penalty to the smallest."""

    def go_back(self, solution: Solution) -> None:
        """Continue from a solution that was found before, here or in another process or run."""
