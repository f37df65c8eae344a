"""What solvers of logistic regression share: how exact they are, and what they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.learning.logistic_features import Design

TOLERANCE = 1e-7
"""A target is done when a step would gain less than this part of its objective."""
ROUGH = 1e-4
"""The same on the way, where penalties are only compared by their scores."""
MAX_STEPS = 100
REQUIRED_SHARE = 1e-3
"""The share of the penalty that the terms of required parents bear: enough to keep them finite."""


@dataclass(eq=False)
class Solution:
    """Weights of some targets at one penalty: columns by features, and those of path features.

    The way to the next penalty depends on nothing else that was learned, so a run can go on from here.
    """

    penalty: float
    tolerance: float
    weights: FloatArray
    bias: FloatArray
    own: FloatArray
    score: FloatArray


class Solver(Protocol):
    """Some targets that are solved together: one column a binary target, one a state of any other.

    Attributes
    ----------
    design, valid : Design
        The training and the validation rows; not kept when the solver is sent elsewhere.
    targets : list of int
        The targets' positions.
    column_target, column_state : array of int
        The target and the state of each column.
    own_first : array of int
        Where the path features of each column begin.
    """

    design: Design
    valid: Design | None
    targets: list[int]
    column_target: IntArray
    column_state: IntArray
    own_first: IntArray

    def solve(self, penalties: Sequence[float], tolerance: float = TOLERANCE) -> list[Solution]:
        """Go on along the path, from the largest penalty to the smallest."""

    def go_back(self, solution: Solution) -> None:
        """Go on from a solution that was found before, here or in an earlier run."""
