"""The settings of `learn_conditionals`, and their checks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conjoin.errors import ModelError

KAPPAS = tuple(10.0**e for e in range(-4, 1))
"""The strengths of the structure prior to try, in this order, while the score rises."""

LAMBDAS = (1000.0, *(m * 10.0**e for e in range(2, -2, -1) for m in (5.0, 2.0, 1.0)))
"""The L1 penalties of the paper, from the largest to the smallest."""
MIDDLE = 50.0
"""The penalty to try first; larger ones are tried only if smaller ones score lower."""

WIDE = 32
"""The maximum number of states of a variable in a hybrid. One with more keeps its tree, as a column per
state is expensive, and is not used as a feature."""


@dataclass(frozen=True)
class Options:
    """Settings of the learners."""

    min_leaf: float = 10.0  # the minimum weight of the rows in each branch of a split
    pseudo: float = 1.0  # the count added to each state in a leaf

    def __post_init__(self) -> None:
        if not self.min_leaf > 0:
            raise ModelError(f"min_leaf must be positive, not {self.min_leaf}")
        if not self.pseudo > 0:
            raise ModelError(
                f"pseudo must be positive, or a leaf may have probability 0: {self.pseudo}"
            )


@dataclass(frozen=True)
class Limits:
    """The sizes from which tables are treated differently."""

    # The maximum number of rows of a large table on which kappa and the penalty are chosen
    choice_rows: int = 20_000
    # The maximum number of distinct rows of a large table from which weights are learned
    weight_rows: int = 150_000
    # The number of columns up to which every regression considers all of them, however many rows
    screened_columns: int = 100
    # The minimum number of columns with the most mutual information that a regression considers
    kept_columns: int = 32
    # The size of the matrix of indicators times columns up to which it considers more
    products: int = 400_000_000
    # The number of targets that are solved first: if they score lower than with an earlier penalty,
    # the others are not solved. In a screened table, about this number of targets chooses kappa and
    # the penalty for all
    probe_targets: int = 50
    large_tolerance: float = 3e-4  # the tolerance of regressions in large tables
    batch_cells: int = 1 << 24  # the maximum number of rows times targets that are solved together
    # The number of rows from which second derivatives of multinomial regressions are computed
    curvature_rows: int = 4096


LIMITS = Limits()


def leaf_options(min_leaf: float | None, pseudo: float) -> tuple[Options, ...]:
    """Return the candidate settings of leaves: the given ones, or leaves of 10 and of 5 rows.

    Smaller leaves go with smaller counts: both suit variables that others nearly determine.
    """
    if min_leaf is not None:
        return (Options(min_leaf, pseudo),)
    return Options(10.0, pseudo), Options(5.0, 0.3 * pseudo)


def check_setting(value: float, name: str) -> None:
    """Reject a kappa or a penalty that is not a positive number."""
    if not value > 0 or not np.isfinite(value):
        raise ModelError(f"{name} must be a positive number, not {value}")
