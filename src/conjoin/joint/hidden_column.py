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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import Float32Array, FloatArray, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Codes
from conjoin.inference.plan import MAX_MEMORY, Plan, find_order
from conjoin.inference.terms import terms_of
from conjoin.joint.batches import adam, batches
from conjoin.joint.lbfgs import descend
from conjoin.joint.likelihood import Expectations
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor

MAX_ITERATIONS, PATIENCE = 150, 8
"""Number of steps of a fit, and number of steps without a better validation score before it stops."""

STRIDE, STRIDES_TO_COME = 10, 3
"""A fit stops if even this multiple of its gain in the last steps would not make it the best."""

EM_STEPS, PSEUDO_ROWS = 12, 2.0
"""The mixture that a fit starts from: steps of EM, and rows' worth of shrinkage to the marginals."""

START_ROWS = 1 << 13
"""Maximum number of distinct rows that this mixture is learned from."""

BATCH_ROWS, RATE = 1 << 11, 0.1
"""Number of rows of a batch, if there are many rows, and how far parameters move in a step."""

SCORES_AT_ONCE = 1 << 17
"""About how many scores (rows times hidden states) are computed at a time: they stay in the cache."""

SMALLEST_SHARE = 1e-250
"""Hidden states below this probability are rescaled before their expectations are read off."""


class Priors(NamedTuple):
    """The shape of a fit: the dimensions of the latent space, and the standard deviations of priors.

    Attributes
    ----------
    dimensions : int
        The number of dimensions of the points g_z.
    single_sd : float
        Of the rows of T, on features that test one state.
    longer_sd : float
        Of the rows of T, on longer features; 0 to leave these alone.
    state_sd : float
        Of e_z.
    """

    dimensions: int
    single_sd: float
    longer_sd: float
    state_sd: float


SETTINGS = (
    Priors(8, 0.5, 0.0, 0.1),
    Priors(8, 0.5, 0.0, 0.3),
    Priors(8, 0.2, 0.1, 0.3),
    Priors(16, 0.5, 0.1, 0.5),
)
"""The fits that are stacked. None is best for all tables; together they are better than each."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of a fit.

    Attributes
    ----------
    common : array, shape (features,)
        c: what all hidden states add to the weights of the thin network.
    points : array, shape (states, dimensions)
        g: the point of each hidden state.
    single, longer : arrays, shape (dimensions, features of that kind)
        T, on the features that test a single state and on the longer ones.
    own : array, shape (states, features that test a single state)
        e: what each hidden state adds.
    log_shares : array, shape (states,)
        The logarithms of the probabilities of the hidden states, up to a constant.
    """

    common: FloatArray
    points: FloatArray
    single: FloatArray
    longer: FloatArray
    own: FloatArray
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


class HiddenTables:
    """A thin network with a hidden column, as tables over its columns and the hidden one.

    Parameters
    ----------
    network : MarkovNetwork
        The thin network, over features; every state of every column has a feature of its own.
    states : int
        The number of states of the hidden column.
    """

    def __init__(self, network: MarkovNetwork, states: int) -> None:
        self.network, self.states = network, states
        features = network.features
        self.features = features.select(np.flatnonzero(features.lengths > 0))
        base = Expectations(self.features, max_table=MAX_MEMORY)
        self.tables = base.tables
        self.matrix = base.tables.matrix
        self.transposed = self.matrix.T.tocsr()
        hidden = len(network.domain)
        cards = np.append(network.domain.cards, states)
        axes = zip(self.tables.scopes, self.tables.shapes, strict=True)
        empty = [TableFactor((*scope, hidden), np.zeros((*shape, states))) for scope, shape in axes]
        empty.append(TableFactor((hidden,), np.zeros(states)))
        terms = terms_of(empty, Features.empty(cards))
        fixed = np.flatnonzero(cards == 1)
        self.plan = Plan(terms, find_order(cards, terms.first, terms.var, fixed, MAX_MEMORY))
        self._evidence = np.zeros(len(fixed), np.int64)
        self._offset = np.zeros(states)

    @property
    def cells(self) -> int:
        """The number of cells of the tables, per hidden state."""
        return int(self.tables.first[-1])

    @cached_property
    def single(self) -> IntArray:
        """The features that test a single state; of columns with two states, one of both."""
        tests, cards = self.features.tests, self.network.domain.cards
        alone = np.flatnonzero(self.features.lengths == 1)
        test = self.features.indices[self.features.indptr[alone]]
        sizes = np.bitwise_count(tests.mask[test]).sum(axis=1)
        first = (tests.mask[test, 0] & np.uint64(1)).astype(bool)
        return alone[(sizes == 1) & ~((cards[tests.var[test]] == 2) & first)]

    @cached_property
    def longer(self) -> IntArray:
        """The features of several tests."""
        return np.flatnonzero(self.features.lengths > 1)

    @cached_property
    def single_states(self) -> tuple[IntArray, IntArray]:
        """The column and the state that each of the `single` features tests."""
        tests = self.features.tests
        test = self.features.indices[self.features.indptr[self.single]]
        state = tests.members(test).argmax(axis=1)
        return tests.var[test].astype(np.int64), state.astype(np.int64)

    def expectations(self, weights: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return log Z and the means of the features for each hidden state.

        Parameters
        ----------
        weights : array, shape (states, features)
            The weights given each hidden state.

        Returns
        -------
        log_z : array, shape (states,)
        means : array, shape (states, features)
            None instead of both if the weights are so extreme that floats cannot hold the result.
        """
        count, offset = self.cells * self.states, self._offset
        values = np.empty(count + self.states)
        values[:count] = (self.matrix @ weights.T).ravel()
        for _ in range(8):
            # The hidden states are weighed so that all have about the same probability: then none of
            # them underflows. The last weights are nearly right for the next ones.
            values[count:] = -offset
            log_z, cell_shares, _ = self.plan.expect(self._evidence, values, np.zeros(0))
            if not np.isfinite(log_z):
                return None
            shares = cell_shares[count:]
            if (shares > SMALLEST_SHARE).all():
                found = np.log(shares) + log_z + offset
                given_state = cell_shares[:count].reshape(-1, self.states) / shares
                self._offset = found
                return found, (self.transposed @ given_state).T
            offset = offset + np.log(np.maximum(shares, SMALLEST_SHARE))
        return None

    def part(self, network: MarkovNetwork) -> Part:
        """Return the thin network itself, possibly with other weights, as a mixture of one state."""
        base = Expectations(self.features, max_table=MAX_MEMORY)
        features = network.features
        weights = features.weights[features.lengths > 0]
        return Part(self.matrix @ weights[:, None], np.array([-base(weights)[0]]))

    def rows(self, codes: Codes | IntArray, weights: FloatArray) -> HiddenRows:
        """Return rows as the fit needs them."""
        from scipy import sparse

        cell = np.ascontiguousarray(self.tables.cells_of(codes).T)
        starts = np.arange(len(codes) + 1) * cell.shape[1]
        ones = np.ones(cell.size, np.float32)
        cells = sparse.csr_array((ones, cell.ravel(), starts), shape=(len(codes), self.cells))
        column, state = self.single_states
        single = np.ones((len(codes), len(column) + 1), np.float32)
        np.equal(codes[:, column], state, out=single[:, :-1], casting="unsafe")
        return HiddenRows(codes, weights, cells, cells.T.tocsr(), single)


class Part(NamedTuple):
    """A mixture of networks over the same tables, as part of a larger mixture.

    Attributes
    ----------
    values : array, shape (cells, states)
        The log-values of all cells.
    log_shares : array, shape (states,)
        The log-probabilities of the hidden states, less the log Z of their networks.
    """

    values: FloatArray
    log_shares: FloatArray


class HiddenRows(NamedTuple):
    """Rows of a table, distinct ones only.

    Attributes
    ----------
    codes : array, shape (rows, columns)
    weights : array, shape (rows,)
        How often each row occurs.
    cells, by_cell : sparse arrays
        Rows by cells, 1 for the cell of each table that a row is in; and its transpose.
    single : array of float32, shape (rows, features that test a single state, and 1)
        Which of these features hold, and a column of ones.
    """

    codes: Codes | IntArray
    weights: FloatArray
    cells: Any
    by_cell: Any
    single: Float32Array


class HiddenFit:
    """One fit of a hidden column.

    Parameters
    ----------
    tables : HiddenTables
        The thin network and the number of hidden states.
    priors : Priors
        The shape of the fit.

    Attributes
    ----------
    parameters : Parameters
        The parameters with the best validation score.
    log_z : array, shape (states,)
        The log Z of each hidden state under them.
    iterations : int
        The number of steps that it took to get there.
    """

    parameters: Parameters
    log_z: FloatArray
    iterations: int

    def __init__(self, tables: HiddenTables, priors: Priors) -> None:
        self.tables, self.priors = tables, priors
        self.longer = tables.longer if priors.longer_sd else tables.longer[:0]
        self._longer32 = tables.matrix[:, self.longer].astype(np.float32).tocsr()
        self._longer_transposed = self._longer32.T.tocsr()

    def part(self) -> Part:
        """Return the fit as part of a larger mixture."""
        weights = self.weights(self.parameters)
        return Part(self.tables.matrix @ weights.T, self.parameters.log_probabilities - self.log_z)

    def weights(self, p: Parameters) -> FloatArray:
        """Return the weights of all features given each hidden state."""
        weights = p.points @ self._mapping(p) + (self.tables.features.weights + p.common)
        weights[:, self.tables.single] += p.own
        return weights

    def _mapping(self, p: Parameters) -> FloatArray:
        """Return T on all features."""
        mapping = np.zeros((p.points.shape[1], len(self.tables.features)))
        mapping[:, self.tables.single] = p.single
        mapping[:, self.longer] = p.longer
        return mapping

    def log_density(self, rows: HiddenRows, p: Parameters, log_z: FloatArray) -> FloatArray:
        """Return the log-probability of each row, the hidden column summed out."""
        result = self._common(rows, p)
        for some, scores in self._scores(rows, p, log_z, self._longer_mapped(rows, p)):
            top = scores.max(axis=1, keepdims=True)
            total = np.exp(scores - top).sum(axis=1)
            result[some] += top[:, 0] + np.log(total)
        return result

    def _common(self, rows: HiddenRows, p: Parameters) -> FloatArray:
        """Return the part of the log-potential of each row that all states share."""
        by_cell = self.tables.matrix @ (self.tables.features.weights + p.common)
        return (rows.cells @ by_cell).astype(np.float64)

    def _longer_mapped(self, rows: HiddenRows, p: Parameters) -> Float32Array | None:
        """Return T f of the rows' longer features, None if these have no part in it."""
        if not len(self.longer):
            return None
        return rows.cells @ (self._longer32 @ p.longer.T.astype(np.float32))

    def _scores(
        self, rows: HiddenRows, p: Parameters, log_z: FloatArray, mapped: Float32Array | None
    ) -> Iterator[tuple[slice, Float32Array]]:
        """Yield log p(row, hidden state) without what all states share, some rows at a time."""
        shift = np.empty((p.own.shape[1] + 1, self.tables.states), np.float32)
        shift[:-1] = (p.points @ p.single + p.own).T
        shift[-1] = p.log_probabilities - log_z
        points = np.ascontiguousarray(p.points.T, np.float32)
        step = max(64, SCORES_AT_ONCE // self.tables.states)
        for low in range(0, len(rows.single), step):
            some = slice(low, min(low + step, len(rows.single)))
            scores = rows.single[some] @ shift
            if mapped is not None:
                scores += mapped[some] @ points
            yield some, scores

    def fit(
        self,
        train: HiddenRows,
        valid: HiddenRows,
        rng: np.random.Generator,
        max_steps: int = MAX_ITERATIONS,
        reached: float = -np.inf,
    ) -> float:
        """Learn the parameters; return the mean log-probability of the validation rows.

        Parameters
        ----------
        train, valid : HiddenRows
            Rows to learn from, and rows that tell when to stop: where they score best, or where that
            will clearly stay below the score that another fit has reached.
        rng : Generator
            Draws the starting point.
        max_steps : int
            The maximum number of steps.
        reached : float
            The score of the best other fit.
        """
        best, scores = -np.inf, []
        for step, (p, log_z) in enumerate(self._descent(train, self._start(train, rng)), 1):
            scores.append(
                float(np.average(self.log_density(valid, p, log_z), weights=valid.weights))
            )
            if scores[-1] > best:
                best, self.parameters, self.log_z, self.iterations = scores[-1], p, log_z, step
            if step >= min(max_steps, self.iterations + PATIENCE):
                break
            gain = best - scores[-STRIDE - 1] if step > STRIDE else np.inf
            if best + STRIDES_TO_COME * gain < reached:
                break
        return best

    def fit_all(self, rows: HiddenRows) -> None:
        """Continue on all rows, for a quarter of the steps that were taken on most of them."""
        steps = self._descent(rows, self.parameters)
        for p, log_z in islice(steps, -(-self.iterations // 4)):
            self.parameters, self.log_z = p, log_z

    def fit_batches(
        self,
        codes: Codes,
        weights: FloatArray,
        rng: np.random.Generator,
        steps: int,
        further: bool = False,
    ) -> None:
        """Learn the parameters from batches of rows, if there are many.

        Parameters
        ----------
        codes, weights : arrays
            The rows and their weights.
        rng : Generator
            Draws the batches.
        steps : int
            The number of batches.
        further : bool
            Whether to continue from the parameters reached so far, in short steps.
        """
        tables, total = self.tables, float(weights.sum())
        drawn, ones = batches(weights, BATCH_ROWS, rng), np.ones(BATCH_ROWS)
        if not further:
            some = next(batches(weights, min(START_ROWS, len(weights)), rng))
            self.parameters = self._start(tables.rows(codes[some], np.ones(len(some))), rng)
        p = self.parameters
        precision = self._precisions(p) / total

        def gradient(flat: FloatArray) -> FloatArray:
            now = p.like(flat)
            found = tables.expectations(self.weights(now))
            if found is None:
                return np.zeros_like(flat)
            self.parameters, self.log_z = now, found[0]
            rows = tables.rows(codes[next(drawn)], ones)
            sums = tables.transposed @ (rows.by_cell @ rows.weights)
            _, likelihood = self._log_likelihood(rows, sums, now, *found)
            return precision * flat - likelihood.flat() / BATCH_ROWS

        gradient(adam(gradient, p.flat(), steps, RATE / 4 if further else RATE))

    def _descent(
        self, rows: HiddenRows, start: Parameters
    ) -> Iterator[tuple[Parameters, FloatArray]]:
        """Yield the parameters that each step reaches, and log Z of each hidden state."""
        tables, log_z = self.tables, np.zeros(self.tables.states)
        sums = tables.transposed @ (rows.by_cell @ rows.weights)
        precision = self._precisions(start)

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            nonlocal log_z
            p = start.like(flat)
            found = tables.expectations(self.weights(p))
            if found is None:
                return np.inf, np.zeros_like(flat)
            log_z, means = found
            value, gradient = self._log_likelihood(rows, sums, p, log_z, means)
            prior = flat * precision
            return 0.5 * float(prior @ flat) - value, prior - gradient.flat()

        scale = self._curvature(start, rows, sums).flat() + precision
        for step in descend(objective, start.flat(), scale=scale):
            yield start.like(step.point), log_z

    def _log_likelihood(
        self,
        rows: HiddenRows,
        sums: FloatArray,
        p: Parameters,
        log_z: FloatArray,
        means: FloatArray,
    ) -> tuple[float, Parameters]:
        """Return the log-likelihood of the rows, and its gradient.

        The gradient of a weight given a hidden state is the sum of its feature over the rows, each
        weighted by the posterior of that state, less the expectation of this sum.
        """
        single, longer = self.tables.single, self.longer
        common = self._common(rows, p)
        value = float(rows.weights @ common)
        mapped = self._longer_mapped(rows, p)
        points32 = p.points.astype(np.float32)
        held = np.zeros((self.tables.states, rows.single.shape[1]))
        located = np.empty((len(rows.single), p.points.shape[1] if len(longer) else 0), np.float32)
        mapped_sums = np.zeros_like(p.points)
        for some, scores in self._scores(rows, p, log_z, mapped):
            top = scores.max(axis=1, keepdims=True)
            scores -= top
            posterior = np.exp(scores, out=scores)
            total = posterior.sum(axis=1, keepdims=True)
            value += float(rows.weights[some] @ (top + np.log(total))[:, 0])
            posterior *= (rows.weights[some, None] / total).astype(np.float32)
            held += posterior.T @ rows.single[some]
            if mapped is not None:
                located[some] = posterior @ points32
                mapped_sums += posterior.T @ mapped[some]
        count = held[:, -1]
        own = held[:, :-1] - count[:, None] * means[:, single]
        points = held[:, :-1] @ p.single.T + mapped_sums
        points -= count[:, None] * (means @ self._mapping(p).T)
        towards_longer = np.zeros_like(p.longer)
        if mapped is not None:
            towards_longer = (self._longer_transposed @ (rows.by_cell @ located)).T
            towards_longer = towards_longer - ((count[:, None] * p.points).T @ means)[:, longer]
        shares = count - count.sum() * np.exp(p.log_probabilities)
        gradient = Parameters(
            sums - count @ means, points, p.points.T @ own, towards_longer, own, shares
        )
        return value, gradient

    def _start(self, rows: HiddenRows, rng: np.random.Generator) -> Parameters:
        """Return parameters read off a mixture of independent columns, by its singular vectors."""
        tables = self.tables
        log_ratio, shares = mixture(rows, tables.network.domain.cards, tables.states, rng)
        column, state = tables.single_states
        cards = tables.network.domain.cards
        shift = np.clip(0.5 * log_ratio[:, (np.cumsum(cards) - cards)[column] + state], -3, 3)
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
        longer = np.zeros((used, len(self.longer)))
        common = np.zeros(len(tables.features))
        return Parameters(common, np.clip(points, -4, 4), mapping, longer, own, np.log(shares))

    def _precisions(self, p: Parameters) -> FloatArray:
        """Return the precision of the prior of every parameter."""
        priors = self.priors
        sds = (1.0, 1.0, priors.single_sd, priors.longer_sd or 1.0, priors.state_sd, 10.0)
        pairs = zip(p.parts, sds, strict=True)
        return np.concatenate([np.full(part.size, sd**-2) for part, sd in pairs])

    def _curvature(self, p: Parameters, rows: HiddenRows, sums: FloatArray) -> Parameters:
        """Return an approximate Hessian diagonal of the negative log-likelihood."""
        count = float(rows.weights.sum())
        mean = sums / count
        variance = np.maximum(mean * (1 - mean), 1e-3) * count
        shares = np.exp(p.log_probabilities)[:, None]
        single, longer = variance[self.tables.single], variance[self.longer]
        ones = np.ones((len(p.single), 1))
        return Parameters(
            variance, shares * (p.single**2 @ single), ones * single, ones * longer, shares * single,
            shares.ravel() * count,
        )  # fmt: skip


def mixture(
    rows: HiddenRows, cards: IntArray, states: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Fit a mixture of independent columns by EM.

    Returns
    -------
    log_ratio : array, shape (hidden states, states of all columns)
        How the log-probability of each state given a hidden state differs from that of its column,
        centred; for columns with two states, the difference of their log-odds.
    shares : array, shape (hidden states,)
        The probabilities of the hidden states.
    """
    first = np.cumsum(cards) - cards
    column = np.repeat(np.arange(len(cards)), cards)
    codes, row_weights = rows.codes, rows.weights
    if len(codes) > START_ROWS:
        some = np.sort(rng.choice(len(codes), START_ROWS, replace=False))
        codes, row_weights = codes[some], row_weights[some]
    held = np.zeros((len(codes), int(cards.sum())), np.float32)
    held[np.arange(len(held))[:, None], first + codes] = 1
    weights = row_weights.astype(np.float32)
    marginal = weights @ held + 0.5
    marginal = (marginal / np.bincount(column, marginal)[column]).astype(np.float64)
    chosen = rng.choice(len(held), states, p=row_weights / row_weights.sum())
    given = 0.5 * held[chosen] + 0.5 * marginal
    shares = np.full(states, 1 / states)
    for _ in range(EM_STEPS):
        score = held @ np.log(given).T.astype(np.float32) + np.log(shares).astype(np.float32)
        score -= score.max(axis=1, keepdims=True)
        posterior = np.exp(score, out=score)
        posterior *= weights[:, None] / posterior.sum(axis=1, keepdims=True)
        count = posterior.sum(axis=0, dtype=np.float64)
        given = (posterior.T @ held + PSEUDO_ROWS * marginal) / (count + PSEUDO_ROWS)[:, None]
        given = np.maximum(given, 1e-5)
        shares = (count + 0.1) / (count + 0.1).sum()
    ratio = np.log(given / marginal)
    centre = np.zeros((states, len(cards)))
    np.add.at(centre.T, column, ratio.T)
    ratio -= (centre / cards)[:, column]
    return np.where(cards[column] == 2, 2 * ratio, ratio), shares


def stacking_weights(
    log_densities: Sequence[FloatArray], weights: FloatArray, steps: int = 300
) -> FloatArray:
    """Return the weights of a mixture of models that maximise the likelihood of held-out rows.

    Examples
    --------
    >>> better, worse = np.log([0.5, 0.5, 0.1]), np.log([0.1, 0.1, 0.6])
    >>> stacking_weights([better, worse], np.ones(3)).round(3)  # 2 (.4) / (.1 + .4 q) = .5 / (.6 - .5 q)
    array([0.717, 0.283])
    """
    scores = np.stack(log_densities, axis=1)
    density = np.exp(scores - scores.max(axis=1, keepdims=True))
    share = np.full(scores.shape[1], 1 / scores.shape[1])
    for _ in range(steps):
        posterior = density * share
        posterior /= posterior.sum(axis=1, keepdims=True)
        share = weights @ posterior / weights.sum()
    return share


def tree_part(tables: HiddenTables, tree: MarkovNetwork) -> Part:
    """Return the maximum-likelihood tree, whose pairs all lie within tables of the thin network."""
    values = np.zeros(tables.cells)
    layout = tables.tables
    for factor in tree.factors:
        assert isinstance(factor, TableFactor)
        pair = [v for v, n in zip(factor.variables, factor.table.shape, strict=True) if n > 1]
        if not pair:
            continue  # columns of one state, which have probability 1
        host = next((i for i, s in enumerate(layout.scopes) if set(pair).issubset(s)), None)
        assert host is not None, "the thin network has all pairs of the tree"
        scope = layout.scopes[host]
        table = factor.table.squeeze().transpose([pair.index(v) for v in scope if v in pair])
        shape = [n if v in pair else 1 for v, n in zip(scope, layout.shapes[host], strict=True)]
        some = slice(layout.first[host], layout.first[host + 1])
        values[some] += np.broadcast_to(table.reshape(shape), layout.shapes[host]).ravel()
    return Part(values[:, None], np.zeros(1))  # its log Z is 0


def stacked(
    tables: HiddenTables, parts: Sequence[Part], shares: FloatArray, name: str
) -> MarkovNetwork:
    """Return one Markov network whose hidden column has the states of several mixtures.

    Parameters
    ----------
    tables : HiddenTables
        The tables that all of them are over.
    parts : sequence of Part
        The mixtures; those with share 0 are left out.
    shares : array, shape (parts,)
        Their shares.
    name : str
        The name of the hidden column.
    """
    used = [(part, share) for part, share in zip(parts, shares, strict=True) if share > 0]
    table = np.concatenate([part.values for part, _ in used], axis=1)
    prior = np.concatenate([np.log(share) + part.log_shares for part, share in used])
    states = table.shape[1]
    network = tables.network
    hidden = Variable(name, range(states), hidden=True)
    domain = Domain([*network.domain.variables, hidden])
    first = tables.tables.first
    factors = [
        TableFactor((*scope, len(network.domain)), table[low:high].reshape(*shape, states))
        for scope, shape, low, high in zip(
            tables.tables.scopes, tables.tables.shapes, first[:-1], first[1:], strict=True
        )
    ]
    factors.append(TableFactor((len(network.domain),), prior))
    return MarkovNetwork(domain, factors=factors, provenance=network.provenance)
