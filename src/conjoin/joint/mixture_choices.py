"""Which fits of a hidden column are made for a table of numbers and categories.

They differ in the number of hidden states, in their priors, and in how categories and numbers go
together: through the hidden column alone, with categories that move the numbers directly, or with hidden
states that differ in their categories first. Held-out rows decide which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence

from conjoin.joint.category_offsets import choose_parents
from conjoin.joint.gaussian_mixture import GaussianPrior
from conjoin.joint.mixture_fit import FitSettings, MixedRows

ROWS_PER_STATE, FEW_STATES = 10, 16
"""A hidden column has at most one state for this number of rows, or this number of states."""

FEW_ROWS = FitSettings(1, GaussianPrior(30, 1e-2))
"""The only fit if there are too few rows to hold some out."""

BACKGROUND = FitSettings(1, GaussianPrior(30, 1.0))
"""A wide fit that is always stacked, with the share that one more held-out row would give it: no row is
impossible because it breaks a rule that all rows so far have kept."""

PRIORS = (GaussianPrior(30, 3e-3), GaussianPrior(12, 1e-4), GaussianPrior(4, 1e-5, cells=0.1))
"""Priors from strong to weak."""

FLOOR_ROWS = 3.0
"""The strongest prior adds at least this number over the number of rows to every variance."""

SIZES = ((1, 1), (4, 0), (8, 0), (16, 0), (16, 2), (32, 1), (32, 2), (64, 1))
"""Numbers of hidden states, and priors."""

CATEGORIES = ((0.8, 1.0), (2.0, 0.6))
"""How two fits of one size differ: the prior of the shifts, and the share of the thin network."""

LARGE = 64
"""With this number of hidden states there is one fit instead of two."""

MOVED_SIZES, MAX_MOVED = ((4, 0), (8, 0), (16, 0), (16, 2)), 256
"""The same for fits in which categories move the numbers, and the maximum number of hidden states of such
a fit, multiplied by the combinations of the categories' states."""

DISTINCT_SIZES, DISTINCT_SD, EMPHASIS = ((16, 2), (64, 2)), 3.0, 16.0
"""The same for fits whose hidden states differ in their categories, the prior of their shifts, and how
often all categories together count."""


def priors_for(rows: int) -> tuple[GaussianPrior, ...]:
    """Return the priors for a number of rows; with fewer rows, the strongest is stronger.

    Examples
    --------
    >>> [round(priors_for(rows)[0].floor, 3) for rows in (100, 500, 1_000, 100_000)]
    [0.03, 0.006, 0.003, 0.003]
    """
    strongest, *others = PRIORS
    floor = max(strongest.floor, FLOOR_ROWS / max(1, rows))
    return strongest._replace(floor=floor), *others


def settings_for(train: MixedRows) -> list[FitSettings]:
    """Return the fits to make, all but `BACKGROUND`."""
    priors = priors_for(len(train))
    most = max(FEW_STATES, len(train) // ROWS_PER_STATE)
    found = [
        FitSettings(states, priors[prior], *how)
        for states, prior in SIZES
        for how in (CATEGORIES if 1 < states < LARGE else CATEGORIES[:1])
        if states <= most
    ]
    count = len(train.cards)
    if count:
        sizes = [size for size in MOVED_SIZES if size[0] <= most]
        found += _moved(train, priors, sizes)
        found += [
            FitSettings(states, priors[prior], DISTINCT_SD, emphasis=max(1.0, EMPHASIS / count))
            for states, prior in DISTINCT_SIZES
            if states <= len(train)
        ]
    return found


def _moved(
    train: MixedRows, priors: Sequence[GaussianPrior], sizes: Sequence[tuple[int, int]]
) -> list[FitSettings]:
    """Return the fits in which categories move the numbers."""
    limits = {MAX_MOVED // states for states, _ in sizes}
    parents = {
        limit: choose_parents(train.scores, train.codes, train.cards, train.weights, limit)
        for limit in limits
    }
    return [
        FitSettings(states, priors[prior], *CATEGORIES[0], parents[MAX_MOVED // states])
        for states, prior in sizes
        if parents[MAX_MOVED // states]
    ]
