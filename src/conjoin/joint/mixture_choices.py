"""Which fits of a hidden column are made for a table of numbers and categories.

They differ in the number of hidden states, in their priors, and in how categories and numbers go
together: through the hidden column alone, with categories that move the numbers directly, or with hidden
states that differ in their categories first. Held-out rows decide which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conjoin.bayesian.dependence_tree import MAX_PAIR_CELLS
from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.joint.category_offsets import choose_parents
from conjoin.joint.gaussian_mixture import GaussianPrior
from conjoin.joint.mixture_fit import FitSettings, MixedRows

MAX_VALUES = 9 << 18
"""Maximum number of values of a model: hidden states times the cells of the network's tables and of a
covariance."""

STATES_PER_NUMBER = 16
"""Pairs of categories with large tables are linked only if this number of hidden states per column of
numbers has room besides them."""

MIN_PARTS = 2
"""A single fit may have at most one part in this number of these values."""

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

FEWER_SIZES = ((1, 1), (8, 0), (16, 0), (16, 2), (32, 1))
"""The same for tables of very many numbers, where fits take long and further ones gain nothing."""

VERY_MANY_NUMBERS = 50
"""Such tables have more columns of numbers than this."""

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


def room_for(cells: int, columns: int) -> int:
    """Return the maximum number of hidden states of all fits together.

    Parameters
    ----------
    cells : int
        The cells of the tables of the thin network.
    columns : int
        The number of columns of numbers.

    Examples
    --------
    >>> room_for(1_000, 10), room_for(100_000, 10)
    (2144, 23)
    """
    return MAX_VALUES // max(1, cells + columns**2)


def pair_cells_for(columns: int) -> int:
    """Return the maximum number of joint states of two categories that are linked.

    The more numbers there are, the more hidden states are needed, and these have no room besides large
    tables.

    Parameters
    ----------
    columns : int
        The number of columns of numbers.

    Examples
    --------
    >>> pair_cells_for(1), pair_cells_for(10)
    (131072, 14745)
    """
    return min(MAX_PAIR_CELLS, MAX_VALUES // (STATES_PER_NUMBER * columns))


def settings_for(train: MixedRows, room: int) -> list[FitSettings]:
    """Return the fits to make, all but `BACKGROUND`.

    Parameters
    ----------
    train : MixedRows
        The rows to learn from.
    room : int
        The maximum number of hidden states of all fits together.
    """
    priors = priors_for(len(train))
    largest = max(SIZES[1][0], room // MIN_PARTS)
    most = min(max(FEW_STATES, len(train) // ROWS_PER_STATE), largest)
    many = train.numbers.columns > VERY_MANY_NUMBERS
    found = [
        FitSettings(states, priors[prior], *how)
        for states, prior in (FEWER_SIZES if many else SIZES)
        for how in (CATEGORIES if 1 < states < LARGE and not many else CATEGORIES[:1])
        if states <= most
    ]
    count = len(train.cards)
    if count:
        moved = MOVED_SIZES[1::2] if many else MOVED_SIZES
        sizes = [size for size in moved if size[0] <= most]
        found += _moved(train, priors, sizes, min(MAX_MOVED, largest))
        found += [
            FitSettings(states, priors[prior], DISTINCT_SD, emphasis=max(1.0, EMPHASIS / count))
            for states, prior in (DISTINCT_SIZES[:1] if many else DISTINCT_SIZES)
            if states <= min(len(train), largest)
        ]
    return found


def _moved(
    train: MixedRows,
    priors: Sequence[GaussianPrior],
    sizes: Sequence[tuple[int, int]],
    most: int,
) -> list[FitSettings]:
    """Return the fits in which categories move the numbers, of at most a number of hidden states."""
    limits = {most // states for states, _ in sizes}
    parents = {
        limit: choose_parents(train.scores, train.codes, train.cards, train.weights, limit)
        for limit in limits
    }
    return [
        FitSettings(states, priors[prior], *CATEGORIES[0], parents[most // states])
        for states, prior in sizes
        if parents[most // states]
    ]


def within(settings: Sequence[FitSettings], shares: FloatArray, room: int) -> BoolArray:
    """Return which fits to keep, of which the last one always is.

    Fits come in the order of their shares over the square root of their hidden states, as long as they
    have room.
    """
    states = np.array([one.hidden_states for one in settings])
    kept = np.zeros(len(settings), bool)
    kept[-1] = True
    left = room - states[-1]
    for k in np.argsort(-shares[:-1] / np.sqrt(states[:-1]), kind="stable").tolist():
        kept[k] = states[k] <= left
        left -= states[k] if kept[k] else 0
    return kept
