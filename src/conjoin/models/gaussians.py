"""Gaussian distributions of normal scores, one per hidden state, for rows with missing numbers.

Rows that know the same numbers are treated together. What is known of a number is a point or a cell. A
point has a density, and densities obey the chain rule in any order of the columns: answers are given
points. A cell has a probability. That of a row of cells is the product of the probabilities of its cells,
each given the middles of the columns before it (points first, then by name): learning compares fits by
it, because a density could grow without bounds. Ranges are integrated in `gaussian_boxes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, distinct, read_only
from conjoin.kernels.layouts import packed

NOT_POSITIVE = "a covariance is not positive definite"
"""What is wrong with Gaussians that have no density."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Normal scores of rows.

    Attributes
    ----------
    middle : array, shape (rows, columns)
        The middle of each value's cell, or the point; NaN if it is missing or an atom.
    width : array, shape (rows, columns)
        The width of the cell; of a point, that of a step of the column.
    cells : array of bool, shape (columns,), optional
        The columns of which a cell is known, and not a point.
    """

    middle: FloatArray
    width: FloatArray
    cells: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.middle)

    def __getitem__(self, rows: IntArray | BoolArray | slice) -> Scores:
        return Scores(self.middle[rows], self.width[rows], self.cells)

    def without(self, column: int) -> Scores:
        """Return the scores without what is known of a column."""
        middle = self.middle.copy()
        middle[:, column] = np.nan
        return Scores(middle, self.width, self.cells)

    @cached_property
    def patterns(self) -> list[tuple[IntArray, IntArray]]:
        """The columns that rows know and the rows that know just these, the most frequent first."""
        known = ~np.isnan(self.middle)
        distinct, inverse, count = np.unique(known, axis=0, return_inverse=True, return_counts=True)
        order = np.argsort(inverse.ravel(), kind="stable")
        parts = np.split(order, np.cumsum(count)[:-1])
        ranked = np.argsort(-count, kind="stable").tolist() if len(known) else []
        return [(np.flatnonzero(distinct[k]), parts[k]) for k in ranked]


@dataclass(frozen=True, eq=False)
class Gaussians:
    """A Gaussian distribution of the normal scores per hidden state.

    Attributes
    ----------
    means : array, shape (states, columns)
    covariances : array, shape (states, columns, columns)
    """

    means: FloatArray
    covariances: FloatArray

    def __post_init__(self) -> None:
        for name in ("means", "covariances"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.float64)))

    def log_masses(self, scores: Scores) -> FloatArray:
        """Return the log-probability of the cells of each row given each hidden state."""
        return self._logs(scores, np.ones(self.means.shape[1], bool))

    def log_likelihoods(self, scores: Scores) -> FloatArray:
        """Return the log-likelihood of each hidden state: of points their density times their width."""
        none = np.zeros(self.means.shape[1], bool)
        return self._logs(scores, none if scores.cells is None else scores.cells)

    def _logs(self, scores: Scores, cells: BoolArray) -> FloatArray:
        from conjoin.kernels.gaussian_cells import log_masses

        result = np.zeros((len(scores), len(self.means)))
        for columns, rows in scores.patterns:
            if not len(columns):
                continue
            known = columns[np.argsort(cells[columns], kind="stable")]
            points = int((~cells[known]).sum())
            is_positive = log_masses(
                packed(scores.middle, np.float64, 2), packed(scores.width, np.float64, 2),
                self.means, self.covariances, rows, known, points, result,
            )  # fmt: skip
            if not is_positive:
                raise np.linalg.LinAlgError(NOT_POSITIVE)
        return result

    def conditionals(
        self, scores: Scores, column: int
    ) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Yield the distribution of a column's score given the others: rows, means, sds per state.

        Means are rows by states. What a row knows of the column itself is not used.
        """
        rest = scores.without(column)
        for known, rows in rest.patterns:
            cross = self.covariances[:, column, known]
            if len(known):
                within = self.covariances[:, known[:, None], known]
                slope = np.linalg.solve(within, cross[..., None])[..., 0]
            else:
                slope = cross
            variance = self.covariances[:, column, column] - (slope * cross).sum(axis=1)
            start = self.means[:, column] - (slope * self.means[:, known]).sum(axis=1)
            yield rows, rest.middle[rows][:, known] @ slope.T + start, np.sqrt(variance)

    def drawn(self, scores: Scores, state: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return scores with missing ones drawn given the others and the row's hidden state."""
        from conjoin.kernels.gaussian_states import condition_draws

        noise = rng.standard_normal(scores.middle.shape)
        draws = self.means[state]
        roots = np.linalg.cholesky(self.covariances)
        for number in distinct(state):
            rows = np.flatnonzero(state == number)
            draws[rows] += noise[rows] @ roots[number].T
        # A draw from the conditional is an unconditional draw, corrected by what the row knows.
        middle = packed(scores.middle, np.float64, 2)
        if not condition_draws(middle, packed(state, np.int64), self.covariances, draws):
            raise np.linalg.LinAlgError(NOT_POSITIVE)
        return draws


def drawn_states(p: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return a state drawn from each row of probabilities, which need not add up to 1."""
    cumulative = np.cumsum(p, axis=1)
    pick = rng.random(len(p))[:, None] * cumulative[:, -1:]
    return (cumulative <= pick).sum(axis=1).clip(max=p.shape[1] - 1)


def log_cell(z: FloatArray, width: FloatArray) -> FloatArray:
    """Return the log-probability that a standard normal number is within half a width of z."""
    from conjoin.kernels.gaussian_cells import log_cells

    z, width = np.broadcast_arrays(z, width)
    result = np.empty(z.shape)
    log_cells(packed(z.ravel(), np.float64), packed(width.ravel(), np.float64), result.reshape(-1))
    return result
