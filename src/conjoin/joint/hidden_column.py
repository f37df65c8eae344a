"""A hidden column: one latent variable that every column of a thin network depends on.

A thin network keeps few interactions; in a wide table everything depends a little on everything. A
hidden column Z with many states carries the rest. Given its state z, the columns follow the thin network
with shifted weights,

    log p(x | z) = (w + c + g_z T) . f(x) + e_z . s(x) - log Z_z,

where w are the weights of the thin network, f its features and s the features that test one state of one
column. Each hidden state is a point g_z in a space of few dimensions, and T maps points to shifts of
weights; e_z is what a single hidden state adds, strongly shrunk. All parameters are learned together,
by L-BFGS on the marginal likelihood of the rows, with Gaussian priors. Exact inference treats Z as a
variable like any other, so one pass gives the expectations for all hidden states.

Fits that differ in priors and random starts are stacked: their states together are the states of one
hidden column, and each fit is weighted by how well it predicts held-out rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import Float32Array, FloatArray
from conjoin.joint.hidden_tables import Chunk, HiddenRows, HiddenTables

EM_STEPS, PSEUDO_ROWS = 12, 2.0
"""The mixture that a fit starts from: steps of EM, and rows' worth of shrinkage to the marginals."""


class Priors(NamedTuple):
    """The shape of a fit: the dimensions of the latent space, and the standard deviations of priors."""

    dimensions: int  # the number of dimensions of the points g_z
    single_sd: float  # of the rows of T, on features that test one state
    longer_sd: float  # of the rows of T, on longer features; 0 to leave these alone
    state_sd: float  # of e_z


SETTINGS = (
    Priors(8, 0.5, 0.0, 0.1),
    Priors(8, 0.2, 0.1, 0.3),
    Priors(16, 0.5, 0.1, 0.5),
    Priors(16, 0.1, 0.03, 0.3),
    Priors(16, 0.2, 0.0, 0.2),
)
"""The fits that are stacked. None is best for all tables; together they are better than each."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a fit."""

    # c: what all hidden states add to the weights of the thin network; shape (features,)
    common: FloatArray
    points: FloatArray  # g: the point of each hidden state; shape (states, dimensions)
    # single, longer: t, on the features that test a single state and on the longer ones; shape
    # (dimensions, features of that kind)
    single: FloatArray
    longer: FloatArray
    # e: what each hidden state adds; shape (states, features that test a single state)
    own: FloatArray
    # The logarithms of the probabilities of the hidden states, up to a constant; shape (states,)
    log_shares: FloatArray

    @property
    def parts(self) -> tuple[FloatArray, ...]:
        """All arrays, in the order of the attributes."""
        return (self.common, self.points, self.single, self.longer, self.own, self.log_shares)

    def flat(self) -> FloatArray:
        """Return all parameters as one vector."""
        return np.concatenate([part.ravel() for part in self.parts])

    def like(self, flat: FloatArray) -> Parameters:
        """Return parameters of the same shapes from a vector."""
        bounds = np.cumsum([part.size for part in self.parts])[:-1]
        pieces = np.split(flat, bounds)
        return Parameters(*(p.reshape(q.shape) for p, q in zip(pieces, self.parts, strict=True)))

    @property
    def log_probabilities(self) -> FloatArray:
        """The logarithms of the probabilities of the hidden states."""
        return self.log_shares - np.logaddexp.reduce(self.log_shares)


class HiddenModel:
    """The distributions with a hidden column over one thin network, as functions of their parameters.

    `tables`: the thin network and the number of hidden states.
    """

    def __init__(self, tables: HiddenTables, priors: Priors) -> None:
        self.tables, self.priors = tables, priors
        self.longer = tables.longer if priors.longer_sd else tables.longer[:0]

    def weights(self, p: Parameters) -> FloatArray:
        """Return the weights of all features given each hidden state."""
        weights = p.points @ self._mapping(p) + (self.tables.features.weights + p.common)
        weights[:, self.tables.single] += self._smoothed(p.own)
        return weights

    def _smoothed(self, effects: FloatArray) -> FloatArray:
        """Return the effects of single states, which are similar for similar numbers."""
        return effects @ self.tables.along_order.T

    def _mapping(self, p: Parameters) -> FloatArray:
        """Return T on all features."""
        mapping = np.zeros((p.points.shape[1], len(self.tables.features)))
        mapping[:, self.tables.single] = self._smoothed(p.single)
        mapping[:, self.longer] = p.longer
        return mapping

    def log_density(self, rows: HiddenRows, p: Parameters, log_z: FloatArray) -> FloatArray:
        """Return the log-probability of each row, the hidden column summed out."""
        result = np.empty(len(rows.codes))
        for chunk, scores, _ in self._scores(rows, p, log_z):
            result[chunk.rows] = _log_sums(scores)
        differences, usual = rows.relative(self.tables.matrix @ self._common(p))
        for chunk in rows.chunks:
            result[chunk.rows] += chunk.cells @ differences + usual
        return result

    def mean_log_density(self, rows: HiddenRows, p: Parameters, log_z: FloatArray) -> float:
        """Return the mean log-probability of the rows."""
        value = rows.total(self._common(p))
        for chunk, scores, _ in self._scores(rows, p, log_z):
            value += float(chunk.weights @ _log_sums(scores))
        return value / rows.count

    def _common(self, p: Parameters) -> FloatArray:
        """Return the part of the weights that all states share."""
        return self.tables.features.weights + p.common

    def _scores(
        self, rows: HiddenRows, p: Parameters, log_z: FloatArray
    ) -> Iterator[tuple[Chunk, Float32Array, Float32Array | None]]:
        """Yield log p(row, hidden state) without what all states share, and T f of the longer features.

        The latter is None if the longer features have no part in it.
        """
        shift = np.empty((p.own.shape[1] + 1, self.tables.states), np.float32)
        shift[:-1] = self._smoothed(p.points @ p.single + p.own).T
        shift[-1] = p.log_probabilities - log_z
        if not len(self.longer):
            for chunk in rows.chunks:
                yield chunk, chunk.single @ shift, None
            return
        points = np.ascontiguousarray(p.points.T, np.float32)
        by_cell = self.tables.longer_matrix @ np.ascontiguousarray(p.longer.T, np.float32)
        differences, usual = rows.relative(by_cell)
        for chunk in rows.chunks:
            mapped = chunk.cells @ differences
            mapped += usual
            scores = chunk.single @ shift
            scores += mapped @ points
            yield chunk, scores, mapped

    def value_and_gradient(
        self, rows: HiddenRows, p: Parameters, log_z: FloatArray, means: FloatArray
    ) -> tuple[float, Parameters]:
        """Return the log-likelihood of the rows, and its gradient.

        The gradient of a weight given a hidden state is the sum of its feature over the rows, each
        weighted by the posterior of that state, less the expectation of this sum.
        """
        single, longer = self.tables.single, self.longer
        value = rows.total(self._common(p))
        points32 = p.points.astype(np.float32)
        held = np.zeros((self.tables.states, len(single) + 1))
        mapped_sums = np.zeros_like(p.points)
        located = np.zeros((self.tables.cells, p.points.shape[1] if len(longer) else 0))
        for chunk, scores, mapped in self._scores(rows, p, log_z):
            top = scores.max(axis=1, keepdims=True)
            scores -= top
            posterior = np.exp(scores, out=scores)
            total = posterior.sum(axis=1, keepdims=True)
            value += float(chunk.weights @ (top + np.log(total))[:, 0])
            posterior *= (chunk.weights[:, None] / total).astype(np.float32)
            held += (chunk.single.T @ posterior).T
            if mapped is not None:
                located += chunk.cells.T @ (posterior @ points32)
                mapped_sums += posterior.T @ mapped
        count = held[:, -1]
        own = held[:, :-1] - count[:, None] * means[:, single]
        points = held[:, :-1] @ self._smoothed(p.single).T + mapped_sums
        points -= count[:, None] * (means @ self._mapping(p).T)
        towards_longer = np.zeros_like(p.longer)
        if len(longer):
            rows.complete(located, count @ p.points)
            expected = (count[:, None] * p.points).T @ means
            towards_longer = (self.tables.longer_matrix.T @ located).T - expected[:, longer]
        shares = count - count.sum() * np.exp(p.log_probabilities)
        own = own @ self.tables.along_order
        gradient = Parameters(
            rows.sums - count @ means, points, p.points.T @ own, towards_longer, own, shares
        )
        return value, gradient

    def start(self, rows: HiddenRows, rng: np.random.Generator) -> tuple[Parameters, FloatArray]:
        """Return parameters to start from, and log Z of each hidden state under them."""
        p = self._from_mixture(rows, rng)
        found = self.tables.expectations(self.weights(p))
        assert found is not None, "the weights of a thin network are not extreme"
        return p, found[0]

    def _from_mixture(self, rows: HiddenRows, rng: np.random.Generator) -> Parameters:
        """Return parameters read off a mixture of independent columns, by its singular vectors."""
        tables = self.tables
        log_ratio, shares = mixture(rows, tables, rng)
        shift = np.clip(0.5 * log_ratio, -3, 3)
        shift -= shares @ shift
        root = np.sqrt(shares)[:, None]
        left, singular, right = np.linalg.svd(root * shift, full_matrices=False)
        used = min(self.priors.dimensions, max(1, int((singular > 1e-9).sum())))
        points = left[:, :used] / root
        size = np.sqrt(shares @ points**2)
        size[size == 0] = 1.0
        points /= size
        mapping = singular[:used, None] * right[:used] * size[:, None]
        own = 0.3 * (shift - points @ mapping)
        mapping, own = (np.linalg.solve(tables.along_order, x.T).T for x in (mapping, own))
        longer = np.zeros((used, len(self.longer)))
        common = np.zeros(len(tables.features))
        return Parameters(common, np.clip(points, -4, 4), mapping, longer, own, np.log(shares))

    def precisions(self, p: Parameters) -> FloatArray:
        """Return the precision of the prior of every parameter."""
        priors = self.priors
        sds = (1.0, 1.0, priors.single_sd, priors.longer_sd or 1.0, priors.state_sd, 10.0)
        pairs = zip(p.parts, sds, strict=True)
        return np.concatenate([np.full(part.size, sd**-2) for part, sd in pairs])

    def curvature(self, p: Parameters, log_z: FloatArray, rows: HiddenRows) -> Parameters:  # noqa: ARG002
        """Return an approximate Hessian diagonal of the negative log-likelihood."""
        return self._curvature(p, rows.count, rows.sums)

    def _curvature(self, p: Parameters, count: float, sums: FloatArray) -> Parameters:
        """Return it for a number of rows, and the sums of the features over them."""
        mean = sums / count
        variance = np.maximum(mean * (1 - mean), 1e-3) * count
        shares = np.exp(p.log_probabilities)[:, None]
        single, longer = variance[self.tables.single], variance[self.longer]
        along = single @ self.tables.along_order**2
        ones = np.ones((len(p.single), 1))
        return Parameters(
            variance, shares * (self._smoothed(p.single) ** 2 @ single), ones * along, ones * longer,
            shares * along,
            shares.ravel() * count,
        )  # fmt: skip


def _log_sums(scores: Float32Array) -> Float32Array:
    """Return the logarithm of the sum of each row's exponentials; the scores are overwritten."""
    top = scores.max(axis=1, keepdims=True)
    scores -= top
    found: Float32Array = top[:, 0] + np.log(np.exp(scores, out=scores).sum(axis=1))
    return found


def mixture(
    rows: HiddenRows, tables: HiddenTables, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Fit a mixture of independent columns by EM.

    Returns `log_ratio`, how the log-probability of each state given a hidden state differs from
    that of its column, centred; for columns with two states, the difference of their log-odds;
    `shares`, the probabilities of the hidden states.
    """
    column, state = tables.single_states
    cards = tables.network.domain.cards
    two = cards[column] == 2  # only one of the states has a feature here
    marginal = (rows.sums[tables.single] + 0.5) / (rows.count + 0.5 * cards[column])

    def logs(p: FloatArray) -> FloatArray:
        return np.log(p) - np.where(two, np.log1p(-np.where(two, p, 0.0)), 0.0)

    chosen = rng.choice(len(rows.codes), tables.states, p=rows.weights / rows.count)
    given = 0.5 * (rows.codes[chosen][:, column] == state) + 0.5 * marginal
    shares = np.full(tables.states, 1 / tables.states)
    weights = np.empty((len(column) + 1, tables.states), np.float32)
    for _ in range(EM_STEPS):
        weights[:-1] = logs(given).T
        weights[-1] = np.log(shares) + np.log1p(-given[:, two]).sum(axis=1)
        held = np.zeros(weights.shape)
        for chunk in rows.chunks:
            scores = chunk.single @ weights
            scores -= scores.max(axis=1, keepdims=True)
            posterior = np.exp(scores, out=scores)
            total = posterior.sum(axis=1, keepdims=True)
            posterior *= (chunk.weights[:, None] / total).astype(np.float32)
            held += chunk.single.T @ posterior
        count = held[-1]
        given = (held[:-1].T + PSEUDO_ROWS * marginal) / (count + PSEUDO_ROWS)[:, None]
        given = np.clip(given, 1e-5, np.where(two, 1 - 1e-5, 1.0))
        shares = (count + 0.1) / (count + 0.1).sum()
    ratio = logs(given) - logs(marginal)
    centre = np.zeros((tables.states, len(cards)))
    np.add.at(centre.T, column, np.where(two, 0.0, ratio).T)
    return ratio - (centre / cards)[:, column], shares
