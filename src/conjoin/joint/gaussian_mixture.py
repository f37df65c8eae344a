"""Learning the Gaussians of a hidden column by EM.

Every value stands for a cell, and the rows are treated as if each value was spread evenly over its cell:
the E step uses the expected log-density, and the M step adds the variance within cells. Without that, a
Gaussian could shrink onto a single recorded value and seem to predict it with any certainty. Missing
numbers are summed out exactly in the rows with the most frequent sets of known numbers; those of other
rows are drawn anew in every step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.models.gaussians import Gaussians, Scores, drawn_states

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
    products : array, shape (rows, known columns squared)
        The products of any two scores.
    spread : array, shape (rows, known columns)
        The variance within cells.
    """

    rows: IntArray
    known: IntArray
    missing: IntArray
    middle: FloatArray
    products: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, scores: Scores, rows: IntArray, known: IntArray) -> Group:
        """Collect the rows of a group."""
        middle = scores.middle[rows][:, known]
        spread = scores.width[rows][:, known] ** 2 / 12
        products = (middle[:, :, None] * middle[:, None, :]).reshape(len(rows), -1)
        missing = np.setdiff1d(np.arange(scores.middle.shape[1]), known)
        return cls(rows, known, missing, middle, products, spread)


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
        result = np.zeros((len(self.scores), len(gaussians.means)))
        for group in self.parts:
            known = group.known
            if not len(known):
                continue
            means = gaussians.means[:, known]
            root = np.linalg.cholesky(gaussians.covariances[:, known[:, None], known])
            inverse = np.linalg.inv(root)
            precision = inverse.transpose(0, 2, 1) @ inverse
            log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
            # The expected squared distance is linear in the products and in the variance within cells.
            towards = (precision @ means[..., None])[..., 0]
            constant = (towards * means).sum(axis=1) + 2 * log_det + len(known) * np.log(2 * np.pi)
            distance = group.products @ precision.reshape(len(means), -1).T
            distance -= 2 * (group.middle @ towards.T) - constant
            distance += group.spread @ (cells * np.diagonal(precision, axis1=1, axis2=2)).T
            result[group.rows] = -0.5 * distance
        return result

    def update(
        self, gaussians: Gaussians, posterior: FloatArray, prior: GaussianPrior
    ) -> Gaussians:
        """Return the Gaussians that fit the posterior of the hidden states (the M step)."""
        states, columns = gaussians.means.shape
        count = np.zeros(states)
        first = np.zeros((states, columns))
        second = np.zeros((states, columns, columns))
        for group in self.parts:
            share = posterior[group.rows]
            found = self._moments(group, share, gaussians, prior.cells)
            count += found[0]
            first += found[1]
            second += found[2]
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

    def _moments(
        self, group: Group, share: FloatArray, gaussians: Gaussians, cells: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return counts, and expected first and second moments about the means, of a group's rows."""
        states, columns = gaussians.means.shape
        known, missing, count = group.known, group.missing, share.sum(axis=0)
        means = gaussians.means[:, known]
        sums = share.T @ group.middle
        squares = (share.T @ group.products).reshape(states, len(known), len(known))
        diagonal = np.arange(len(known))
        squares[:, diagonal, diagonal] += cells * (share.T @ group.spread)
        first = sums - count[:, None] * means
        squares = (
            squares - sums[:, :, None] * means[:, None, :] - means[:, :, None] * first[:, None, :]
        )
        if not len(missing):
            return count, first, squares
        cross = gaussians.covariances[:, missing[:, None], known]
        within = gaussians.covariances[:, known[:, None], known]
        slope = np.linalg.solve(within, cross.transpose(0, 2, 1)).transpose(0, 2, 1)
        left = gaussians.covariances[:, missing[:, None], missing] - slope @ cross.transpose(
            0, 2, 1
        )
        lift = np.zeros((states, columns, len(known)))
        lift[:, known, np.arange(len(known))] = 1.0
        lift[:, missing] = slope
        second = lift @ squares @ lift.transpose(0, 2, 1)
        second[:, missing[:, None], missing] += count[:, None, None] * left
        return count, (lift @ first[..., None])[..., 0], second
