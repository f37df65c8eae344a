"""The precision of the solvers of logistic regression, and their solutions."""

from __future__ import annotations

from dataclasses import dataclass

from conjoin.data.arrays import FloatArray

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

    The solution for the next penalty starts from here, and depends on nothing else that was learned.
    """

    tolerance: float
    weights: FloatArray
    bias: FloatArray
    own: FloatArray
    score: FloatArray
