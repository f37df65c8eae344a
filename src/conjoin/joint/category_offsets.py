"""Categories that move the numbers: offsets of the normal scores.

A hidden column relates numbers to categories through its states alone, and a few states cannot show what
each of several categories means for each number. Some categories, the *parents*, therefore have a direct
effect: every state of a parent moves the mean of the scores, by the same offset in all hidden states.

    scores = mean of the hidden state + sum over parents of the offset of the parent's state + noise

States of a parent that move the scores alike are one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, read_only
from conjoin.joint.gaussian_mixture import GaussianRows
from conjoin.models.gaussians import Gaussians, Scores

MIN_SD = 0.02
"""The least standard deviation of the prior of an offset."""

FLOOR = 1e-2
"""What is added to the variances of scores when parents are chosen."""

PRICE = 1.0
"""The gain in log-likelihood, per coefficient, that a group of states must bring."""


class Parent(NamedTuple):
    """A category that moves the scores.

    Attributes
    ----------
    category : int
        The category.
    group : array of int, shape (states,)
        The group of each of its states.
    """

    category: int
    group: IntArray

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.group.max()) + 1


@dataclass(frozen=True, eq=False)
class Offsets:
    """The offsets of the scores by the states of some categories.

    Attributes
    ----------
    parents : tuple of Parent
        The categories.
    values : array, shape (groups of all parents, columns)
        The offset of each group.
    prior_sd : array, shape (groups of all parents, columns)
        The standard deviations of their prior.
    """

    parents: tuple[Parent, ...]
    values: FloatArray
    prior_sd: FloatArray

    def __post_init__(self) -> None:
        for name in ("values", "prior_sd"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name), np.float64)))

    @classmethod
    def start(
        cls, parents: Sequence[Parent], scores: Scores, codes: IntArray, weights: FloatArray
    ) -> Offsets:
        """Return offsets from a regression of each score on the parents."""
        design = _indicators(parents, codes)
        shape = design.shape[1], scores.middle.shape[1]
        values, prior_sd = np.zeros(shape), np.full(shape, MIN_SD)
        sizes = [parent.groups for parent in parents]
        for j in range(shape[1]):
            known = ~np.isnan(scores.middle[:, j])
            y, w = scores.middle[known, j], weights[known]
            if w.sum() > 0:
                values[:, j], prior_sd[:, j] = _regression(design[known], sizes, y, w)
        return cls(tuple(parents), values, prior_sd)

    @property
    def combinations(self) -> IntArray:
        """All combinations of groups of the parents, combinations by parents."""
        sizes = [parent.groups for parent in self.parents]
        return np.indices(sizes).reshape(len(sizes), -1).T

    def states(self, groups: IntArray) -> dict[int, BoolArray]:
        """Return which states of each parent are in some groups, one per parent."""
        pairs = zip(self.parents, groups, strict=True)
        return {parent.category: parent.group == group for parent, group in pairs}

    def of(self, groups: IntArray) -> FloatArray:
        """Return the offsets of the scores for groups of the parents, rows by parents."""
        sizes = np.array([parent.groups for parent in self.parents])
        return self.values[groups + (np.cumsum(sizes) - sizes)].sum(axis=1)

    def residuals(self, scores: Scores, codes: IntArray) -> Scores:
        """Return the scores of rows without their offsets."""
        groups = np.stack([parent.group[codes[:, parent.category]] for parent in self.parents], 1)
        return Scores(scores.middle - self.of(groups), scores.width, scores.cells)

    def improved(
        self, rows: GaussianRows, codes: IntArray, gaussians: Gaussians, posterior: FloatArray
    ) -> Offsets:
        """Return the offsets that fit best, given the posterior of the hidden states.

        `rows` are those without the present offsets.
        """
        design = _indicators(self.parents, codes)
        groups, columns = self.values.shape
        matrix = np.zeros((groups, columns, groups, columns))
        towards = np.zeros((groups, columns))
        for part in rows.parts:
            known = part.known
            precision = np.linalg.inv(gaussians.covariances[:, known[:, None], known])
            here, share = design[part.rows], posterior[part.rows]
            for z, inverse in enumerate(precision):
                weighted = here * share[:, [z]]
                sums = weighted.T @ (part.middle - gaussians.means[z, known])
                towards[:, known] += sums @ inverse
                pairs = weighted.T @ here
                matrix[:, known[:, None], :, known] += np.multiply.outer(inverse, pairs)
        prior = self.prior_sd.ravel() ** -2
        gradient = towards.ravel() - prior * self.values.ravel()
        step = np.linalg.solve(matrix.reshape(groups * columns, -1) + np.diag(prior), gradient)
        return replace(self, values=self.values + step.reshape(groups, columns))


def _indicators(parents: Sequence[Parent], codes: IntArray) -> FloatArray:
    """Return a column for each group of each parent, 1 where a row has it."""
    columns = [np.zeros((len(codes), 0))]
    for parent in parents:
        columns.append(np.eye(parent.groups)[parent.group[codes[:, parent.category]]])
    return np.concatenate(columns, axis=1)


def _regression(
    design: FloatArray, sizes: Sequence[int], y: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients of a regression on indicators, and their prior standard deviations.

    That of a parent is by how much its coefficients differ, less what they would by chance.
    """
    y = y - np.average(y, weights=w)
    count = w @ design
    products = (design * w[:, None]).T @ design
    right = design.T @ (w * y)
    rough = np.linalg.solve(products + np.eye(len(count)), right)
    variance = np.average((y - design @ rough) ** 2, weights=w)
    sd, low = np.empty(len(count)), 0
    for size in sizes:
        part = slice(low, low + size)
        share = count[part] / max(count[part].sum(), 1e-12)
        spread = share @ (rough[part] - share @ rough[part]) ** 2
        chance = share @ (variance / (count[part] + 1))
        sd[part] = np.sqrt(max(spread - chance, MIN_SD**2))
        low += size
    return np.asarray(np.linalg.solve(products + np.diag(variance / sd**2), right)), sd


def choose_parents(
    scores: Scores, codes: IntArray, cards: IntArray, weights: FloatArray, limit: int
) -> tuple[Parent, ...]:
    """Return the categories that say most about the scores, with at most `limit` combinations of groups.

    They are chosen one after another, by how much the log-likelihood of Gaussian scores grows with a
    regression on them, less the price of the coefficients.
    """
    choice = _Choice(scores, codes, weights)
    best, rest = choice.fit([])
    chosen: list[Parent] = []
    used = 1
    while True:
        left = [
            k for k in range(len(cards))
            if cards[k] > 1 and k not in [parent.category for parent in chosen]
        ]  # fmt: skip
        found = []
        for k in left:
            parent = choice.grouped(k, int(cards[k]), rest, limit // used)
            if parent is not None:
                found.append((*choice.fit([*chosen, parent]), parent))
        if not found:
            return tuple(chosen)
        value, residuals, parent = max(found, key=lambda one: one[0])
        if value <= best:
            return tuple(chosen)
        best, rest = value, residuals
        chosen.append(parent)
        used *= parent.groups


class _Choice:
    """The choice of parents for some rows."""

    def __init__(self, scores: Scores, codes: IntArray, weights: FloatArray) -> None:
        known = ~np.isnan(scores.middle)
        total = np.maximum(weights @ known, 1e-9)
        mean = (weights @ np.where(known, scores.middle, 0.0)) / total
        self.centred = np.where(known, scores.middle - mean, 0.0)
        self.codes, self.weights = codes, weights
        self.columns = self.centred.shape[1]

    def fit(self, parents: Sequence[Parent]) -> tuple[float, FloatArray]:
        """Return the log-likelihood less the price of the coefficients, and the residuals."""
        design = _indicators(parents, self.codes)
        weighted = design * self.weights[:, None]
        products = weighted.T @ design + np.eye(design.shape[1])
        rest = self.centred - design @ np.linalg.solve(products, weighted.T @ self.centred)
        size = self.columns * sum(parent.groups - 1 for parent in parents)
        log_det = np.linalg.slogdet(self._covariance(rest))[1]
        return float(-0.5 * self.weights.sum() * log_det - PRICE * size), rest

    def _covariance(self, rest: FloatArray) -> FloatArray:
        floor = FLOOR * np.eye(self.columns)
        return (rest * self.weights[:, None]).T @ rest / self.weights.sum() + floor

    def grouped(self, k: int, card: int, rest: FloatArray, limit: int) -> Parent | None:
        """Return a category with the states that move residuals alike in one group.

        The two groups whose union loses least are merged as long as that is less than the price of the
        coefficients of one, or there are too many groups. None if one group is left.
        """
        root = np.linalg.cholesky(self._covariance(rest))
        white = np.linalg.solve(root, rest.T).T
        state = np.eye(card)[self.codes[:, k]]
        count = self.weights @ state
        mean = ((state * self.weights[:, None]).T @ white) / np.maximum(count, 1e-9)[:, None]
        group = _merged_groups(count, mean, PRICE * self.columns, limit)
        return Parent(k, group) if group.max() > 0 else None


def _merged_groups(count: FloatArray, mean: FloatArray, price: float, limit: int) -> IntArray:
    """Return the group of each state, after merging groups whose union loses least.

    Parameters
    ----------
    count : array, shape (states,)
        The number of rows of each state; it is changed.
    mean : array, shape (states, columns)
        Their means; they are changed.
    price : float
        Groups are merged as long as that loses less than this,
    limit : int
        or there are more groups than this.
    """
    size = len(count)
    group, left = np.arange(size), size
    loss = np.full((size, size), np.inf)  # of pairs, the smaller group first

    def losses(one: int, others: slice) -> FloatArray:
        distance = ((mean[one] - mean[others]) ** 2).sum(axis=1)
        shared = count[one] * count[others] / np.maximum(count[one] + count[others], 1e-9)
        return np.asarray(0.5 * shared * distance)

    for i in range(size):
        loss[i, i + 1 :] = losses(i, slice(i + 1, None))
    nearest = loss.argmin(axis=1)
    while left > 1:
        least = loss[np.arange(size), nearest]
        a = int(least.argmin())
        b = int(nearest[a])
        if least[a] >= price and left <= limit:
            break
        total = max(count[a] + count[b], 1e-9)
        mean[a] = (count[a] * mean[a] + count[b] * mean[b]) / total
        count[a] += count[b]
        group[group == b] = a
        left -= 1
        loss[b], loss[:, b] = np.inf, np.inf
        above, below = np.isfinite(loss[:a, a]), np.isfinite(loss[a])
        loss[:a, a] = np.where(above, losses(a, slice(a)), np.inf)
        loss[a] = np.where(below, losses(a, slice(None)), np.inf)
        closer = loss[:a, a] < loss[np.arange(a), nearest[:a]]
        stale = (nearest == a) | (nearest == b)
        stale[:a] |= closer
        stale[a] = True
        nearest[stale] = loss[stale].argmin(axis=1)
    return np.unique(group, return_inverse=True)[1].reshape(-1)
