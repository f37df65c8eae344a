"""Learning the Gaussians of a hidden column by EM.

Every value stands for a cell, and the rows are treated as if each value was spread evenly over its cell:
the E step uses the expected log-density, and the M step adds the variance within cells. Without that, a
Gaussian could shrink onto a single recorded value and seem to predict it with any certainty. Missing
numbers are summed out exactly in the rows with the most frequent sets of known numbers; those of other
rows are drawn anew in every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.models.gaussians import NOT_POSITIVE, Gaussians, Scores, drawn_states

MAX_PATTERNS = 24
"""Maximum number of sets of known numbers that are summed over exactly."""


class GaussianPrior(NamedTuple):
    """How strongly covariances are shrunk.

    Attributes
    ----------
    rows : float
        The weight, in rows, of the covariance within all hidden states together.
    floor : float
        What is added to every variance.
    mean_rows : float
        The weight, in rows, of the mean of all rows.
    cells : float
        The share of the variance within cells that counts. Less than 1 suits columns that are functions
        of the recorded values of others, not of what these stand for.
    """

    rows: float
    floor: float
    mean_rows: float = 0.5
    cells: float = 1.0


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that know the same numbers.

    Attributes
    ----------
    rows, known, missing : arrays of int
        The rows, the columns that they know, and the others.
    middle : array, shape (rows, known columns)
    spread : array, shape (rows, known columns)
        The variance within cells.
    """

    rows: IntArray
    known: IntArray
    missing: IntArray
    middle: FloatArray
    spread: FloatArray
    _features: dict[float, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, scores: Scores, rows: IntArray, known: IntArray) -> Group:
        """Collect the rows of a group."""
        middle = scores.middle[rows][:, known]
        spread = scores.width[rows][:, known] ** 2 / 12
        missing = np.setdiff1d(np.arange(scores.middle.shape[1]), known)
        return cls(rows, known, missing, middle, spread)

    def features(self, cells: float) -> FloatArray:
        """Return 1, the scores, and their products, as kernels expect them (see `gaussian_states`).

        The share `cells` of the variance within cells is added to the squares.
        """
        if cells not in self._features:
            size = len(self.known)
            found = np.ones((len(self.rows), 1 + size + size * (size + 1) // 2))
            found[:, 1 : 1 + size] = self.middle
            at = 1 + size
            for i in range(size):
                products = found[:, at : at + size - i]
                np.multiply(self.middle[:, [i]], self.middle[:, i:], out=products)
                products[:, 0] += cells * self.spread[:, i]
                at += size - i
            self._features[cells] = found
        return self._features[cells]


class GaussianRows:
    """Rows of normal scores, prepared for EM.

    Parameters
    ----------
    scores : Scores
        The scores.
    weights : array, shape (rows,)
        The weights of the rows.
    max_patterns : int
        Maximum number of sets of known numbers that are summed over exactly.
    """

    def __init__(
        self, scores: Scores, weights: FloatArray, max_patterns: int = MAX_PATTERNS
    ) -> None:
        self.scores, self.weights = scores, weights
        self.columns = scores.middle.shape[1]
        patterns = scores.patterns
        self.groups = [Group.of(scores, rows, known) for known, rows in patterns[:max_patterns]]
        rare = [rows for _, rows in patterns[max_patterns:]]
        self.rare = np.sort(np.concatenate(rare)) if rare else np.zeros(0, np.int64)
        self._filled: Group | None = None

    @property
    def parts(self) -> list[Group]:
        """All groups, with the rows whose numbers were drawn."""
        return [*self.groups, self._filled] if self._filled is not None else self.groups

    def fill(self, gaussians: Gaussians, posterior: FloatArray, rng: np.random.Generator) -> None:
        """Draw the missing numbers of the rows whose set of known numbers is rare."""
        if not len(self.rare):
            return
        part = self.scores[self.rare]
        state = drawn_states(posterior[self.rare], rng)
        filled = gaussians.drawn(part, state, rng)
        width = np.where(np.isnan(part.middle), 0.0, part.width)
        rows, everything = np.arange(len(filled)), np.arange(self.columns)
        group = Group.of(Scores(filled, width), rows, everything)
        self._filled = replace(group, rows=self.rare)

    def start(self, states: int, prior: GaussianPrior, rng: np.random.Generator) -> Gaussians:
        """Return Gaussians around random rows, and forget draws."""
        self._filled = None
        middle = self.scores.middle
        known = ~np.isnan(middle)
        weight = self.weights[:, None] * known
        total = np.maximum(weight.sum(axis=0), 1e-9)
        mean = np.where(known, middle * weight, 0.0).sum(axis=0) / total
        filled = np.where(known, middle, mean)
        chosen = [int(rng.choice(len(filled), p=self.weights / self.weights.sum()))]
        near = ((filled - filled[chosen[0]]) ** 2).sum(axis=1)
        for _ in range(states - 1):
            # Rows far from those chosen before are more likely to be next (k-means++).
            share = near * self.weights + 1e-12
            chosen.append(int(rng.choice(len(filled), p=share / share.sum())))
            near = np.minimum(near, ((filled - filled[chosen[-1]]) ** 2).sum(axis=1))
        covariance = np.cov(filled.T, aweights=self.weights, ddof=0).reshape(
            self.columns, self.columns
        )
        covariance = covariance * max(0.1, states ** (-2 / max(1, self.columns)))
        covariance = covariance + max(prior.floor, 1e-3) * np.eye(self.columns)
        return Gaussians(filled[chosen], np.tile(covariance, (states, 1, 1)))

    def log_densities(self, gaussians: Gaussians, cells: float = 1.0) -> FloatArray:
        """Return the expected log-density of the cells of each row given each hidden state.

        The share `cells` of the variance within cells counts.
        """
        from conjoin.kernels.gaussian_states import density_coefficients

        result = np.zeros((len(self.scores), len(gaussians.means)))
        for group in self.parts:
            features = group.features(cells)
            coefficients = np.empty((len(gaussians.means), features.shape[1]))
            _checked(
                density_coefficients(
                    gaussians.means, gaussians.covariances, group.known, coefficients
                )
            )
            result[group.rows] = features @ coefficients.T
        return result

    def update(
        self, gaussians: Gaussians, posterior: FloatArray, prior: GaussianPrior
    ) -> Gaussians:
        """Return the Gaussians that fit the posterior of the hidden states (the M step)."""
        from conjoin.kernels.gaussian_states import add_moments

        states, columns = gaussians.means.shape
        count = posterior.sum(axis=0)
        first = np.zeros((states, columns))
        second = np.zeros((states, columns, columns))
        for group in self.parts:
            sums = posterior[group.rows].T @ group.features(prior.cells)
            _checked(
                add_moments(
                    sums, gaussians.means, gaussians.covariances, group.known, group.missing, first,
                    second,
                )
            )  # fmt: skip
        # Moments are about the old means.
        total = np.maximum(count.sum(), 1e-300)
        overall = (first + count[:, None] * gaussians.means).sum(axis=0) / total
        pull = prior.mean_rows
        shifted = first + pull * (overall - gaussians.means)
        shift = shifted / (count + pull)[:, None]
        scatter = second - shift[:, :, None] * first[:, None, :]
        scatter -= first[:, :, None] * shift[:, None, :]
        scatter += count[:, None, None] * shift[:, :, None] * shift[:, None, :]
        pooled = scatter.sum(axis=0) / total
        covariance = (scatter + prior.rows * pooled) / (count + prior.rows)[:, None, None]
        covariance = (covariance + covariance.transpose(0, 2, 1)) / 2
        covariance += prior.floor * np.eye(columns)
        return Gaussians(gaussians.means + shift, covariance)


def _checked(is_positive: bool) -> None:
    """Raise an error unless all covariances are positive definite."""
    if not is_positive:
        raise np.linalg.LinAlgError(NOT_POSITIVE)
