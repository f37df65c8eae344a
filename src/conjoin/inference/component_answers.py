"""Answers for rows from one component of a mixed network.

What a row knows of its numbers is a likelihood of the hidden states. Together with its known categories
it gives the posterior of the hidden states, and everything else follows: the distribution of a number is
a mixture of Gaussian conditionals, and that of a category is found on the junction tree of the network,
where the likelihood is one more table.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Codes, code_dtype
from conjoin.errors import ModelError
from conjoin.inference.completion import Completion
from conjoin.inference.engines import log_partition
from conjoin.inference.number_distribution import NumberDistributions
from conjoin.models.gaussians import Scores, drawn_states
from conjoin.models.hidden_states import log_sum
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.mixed import BinnedComponent, GaussianComponent, MixedNetwork

ROWS_AT_ONCE = 1 << 10
"""Number of rows whose likelihoods share one table."""


class GaussianAnswers:
    """Answers for rows from a Gaussian component.

    Parameters
    ----------
    model, component
        The model, and its component.
    codes : array of int, shape (rows, visible variables)
        The states of the component's network, -1 where missing.
    scores : Scores
        The normal scores.
    """

    def __init__(
        self, model: MixedNetwork, component: GaussianComponent, codes: IntArray, scores: Scores
    ) -> None:
        self.model, self.component, self.codes, self.scores = model, component, codes, scores
        self.network = component.network

    def select(self, rows: IntArray) -> GaussianAnswers:
        """Return some of the rows."""
        part = GaussianAnswers(self.model, self.component, self.codes[rows], self.scores[rows])
        for name in ("numbers", "by_state"):  # what is known already
            if name in self.__dict__:
                part.__dict__[name] = self.__dict__[name][rows]
        return part

    def without(self, name: str) -> GaussianAnswers:
        """Return the rows without what they know of a column."""
        return GaussianAnswers(
            self.model,
            self.component,
            _without(self.network, self.codes, name),
            _unknown(self.model, self.scores, name),
        )

    @cached_property
    def numbers(self) -> FloatArray:
        """The log-likelihood of each hidden state, from what each row knows of its numbers."""
        return self.component.gaussians.log_likelihoods(self.scores)

    @cached_property
    def by_state(self) -> FloatArray:
        """The log-likelihood of what each row knows, together with each hidden state."""
        return _log_states(self.network, self.codes) + self.numbers

    def log_likelihood(self) -> FloatArray:
        """Return the log-likelihood of what each row knows, per step of its numbers."""
        return log_sum(self.by_state)

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category that is missing in all rows."""
        card = len(self.network.domain[name].states)
        result = np.empty((len(self.codes), card))
        for low in range(0, len(self.codes), ROWS_AT_ONCE):
            part = slice(low, low + ROWS_AT_ONCE)
            network = _with_likelihood(self.network, self.numbers[part])
            row = np.arange(len(self.codes[part]))[:, None]
            codes = as_codes(network.domain, np.concatenate([self.codes[part], row], axis=1))
            result[part], _ = Completion(network, codes).marginals(network.domain.index(name))
        return result

    def number(self, j: int) -> NumberDistributions:
        """Return the distribution of a number that is missing in all rows."""
        name, gaussians = self.model.numbers[j], self.component.gaussians
        mapped = self.model.maps[j]
        atoms = np.zeros((len(self.codes), len(mapped.atoms)))
        if len(mapped.atoms):
            v, logs = self.network.domain.index(name), []
            for state in range(len(mapped.atoms) + 1):
                codes = self.codes.copy()
                codes[:, v] = state
                logs.append(_log_states(self.network, codes) + self.numbers)
            joint = normalized(np.concatenate(logs, axis=1)).reshape(
                len(codes), len(mapped.atoms) + 1, logs[0].shape[1]
            )
            atoms, weights = joint[:, :-1].sum(axis=2), joint[:, -1]
        else:
            weights = normalized(self.by_state)
        means, sds = np.empty_like(weights), np.empty_like(weights)
        for rows, mean, sd in gaussians.conditionals(self.scores, j):
            means[rows], sds[rows] = mean, sd
        cut = np.full(weights.shape[1], np.inf)
        scale = self.model.scale(name)
        return NumberDistributions(scale, mapped, atoms, weights, means, sds, -cut, cut)

    def draw(self, values: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Return completed states and numbers of each row."""
        state = drawn_states(normalized(self.by_state), rng)
        domain = self.network.domain
        codes = self.codes
        if len(domain.observed):
            with_state = as_codes(domain, np.concatenate([codes, state[:, None]], axis=1))
            seed = int(rng.integers(2**31))
            codes = Completion(self.network, with_state, seed).draws(1)[0].astype(np.int64)
        middle = self.component.gaussians.drawn(self.scores, state, rng)
        numbers = values.copy()
        for j, mapped in enumerate(self.model.maps):
            hole = np.isnan(values[:, j])
            drawn = mapped.to_values(middle[:, j])
            if len(mapped.atoms):
                own = codes[:, domain.index(self.model.numbers[j])]
                at = np.append(mapped.atoms, np.nan)[own]
                drawn = np.where(np.isnan(at), drawn, at)
            numbers[hole, j] = drawn[hole]
        return codes, numbers


class BinnedAnswers:
    """Answers for rows from a binned component; parameters and methods as those of `GaussianAnswers`."""

    def __init__(
        self, model: MixedNetwork, component: BinnedComponent, codes: IntArray, scores: Scores
    ) -> None:
        self.model, self.component, self.codes, self.scores = model, component, codes, scores
        self.network = component.network

    def select(self, rows: IntArray) -> BinnedAnswers:
        """Return some of the rows."""
        return BinnedAnswers(self.model, self.component, self.codes[rows], self.scores[rows])

    def without(self, name: str) -> BinnedAnswers:
        """Return the rows without what they know of a column."""
        codes = _without(self.network, self.codes, name)
        scores = _unknown(self.model, self.scores, name)
        return BinnedAnswers(self.model, self.component, codes, scores)

    @property
    def _completion(self) -> Completion:
        return Completion(self.network, as_codes(self.network.domain.observed, self.codes))

    def log_likelihood(self) -> FloatArray:
        """Return the log-likelihood of what each row knows, per step of its numbers."""
        total = self._completion.log_sums()[0] - log_partition(self.network).value
        for j in range(len(self.model.maps)):
            known = np.flatnonzero(~np.isnan(self.scores.middle[:, j]))
            total[known] += self._within_bins(j, known)
        return np.asarray(total)

    def _within_bins(self, j: int, known: IntArray) -> FloatArray:
        """Return the log-probability of known numbers, cells or points, given their bins."""
        from scipy.special import ndtr

        middle, width = self.scores.middle[known, j], self.scores.width[known, j]
        ends = np.concatenate([[-np.inf], self.component.cuts[j], [np.inf]])
        state = self.codes[known, self.network.domain.index(self.model.numbers[j])]
        bin_ = state - len(self.model.maps[j].atoms)
        low, high = ends[bin_], ends[bin_ + 1]
        # Small probabilities lie in the lower tail after a reflection.
        sign = np.where(middle > 0, -1.0, 1.0)
        whole = np.abs(ndtr(sign * high) - ndtr(sign * low))
        if self.scores.cells is None or not self.scores.cells[j]:
            logs = np.log(width) - 0.5 * middle**2 - 0.5 * np.log(2 * np.pi)
            return np.asarray(logs - np.log(np.maximum(whole, 1e-300)))
        first, last = (np.clip(middle + side * width / 2, low, high) for side in (-1, 1))
        inside = np.abs(ndtr(sign * last) - ndtr(sign * first))
        return np.asarray(np.log(np.maximum(inside, 1e-300) / whole))

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category that is missing in all rows."""
        return self._completion.marginals(self.network.domain.index(name))[0]

    def number(self, j: int) -> NumberDistributions:
        """Return the distribution of a number that is missing in all rows."""
        name, mapped = self.model.numbers[j], self.model.maps[j]
        found = self._completion.marginals(self.network.domain.index(name))[0]
        atoms, weights = found[:, : len(mapped.atoms)], found[:, len(mapped.atoms) :]
        cuts = self.component.cuts[j]
        low, high = np.append(-np.inf, cuts), np.append(cuts, np.inf)
        zeros = np.zeros_like(weights)
        scale = self.model.scale(name)
        return NumberDistributions(scale, mapped, atoms, weights, zeros, zeros + 1, low, high)

    def draw(self, values: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Return completed states and numbers of each row."""
        from scipy.special import ndtr, ndtri

        observed = self.network.domain.observed
        seed = int(rng.integers(2**31))
        rows = Completion(self.network, as_codes(observed, self.codes), seed)
        codes, numbers = rows.draws(1)[0].astype(np.int64), values.copy()
        for j, mapped in enumerate(self.model.maps):
            state = codes[:, observed.index(self.model.numbers[j])]
            ends = np.concatenate([[-np.inf], self.component.cuts[j], [np.inf]])
            bin_ = np.maximum(state - len(mapped.atoms), 0)
            low, high = ndtr(ends[bin_]), ndtr(ends[bin_ + 1])
            share = np.clip(low + (high - low) * rng.random(len(state)), 1e-12, 1 - 1e-12)
            drawn = mapped.to_values(ndtri(share))
            atom = state < len(mapped.atoms)
            drawn[atom] = mapped.atoms[state[atom]]
            hole = np.isnan(values[:, j])
            numbers[hole, j] = drawn[hole]
        return codes, numbers


def as_codes(domain: Domain, states: IntArray) -> Codes:
    """Return states as codes of some or all variables of a domain; -1 is missing."""
    dtype = code_dtype(domain.cards)
    return np.where(states < 0, np.iinfo(dtype).max, states).astype(dtype)


def _without(network: MarkovNetwork, codes: IntArray, name: str) -> IntArray:
    """Return codes in which a variable is missing, if the network has it."""
    if name not in network.domain.names:
        return codes
    codes = codes.copy()
    codes[:, network.domain.index(name)] = -1
    return codes


def _unknown(model: MixedNetwork, scores: Scores, name: str) -> Scores:
    """Return scores without what is known of a column, if it has any."""
    return scores.without(model.numbers.index(name)) if name in model.numbers else scores


def _log_states(network: MarkovNetwork, codes: IntArray) -> FloatArray:
    """Return the log-probability of the known states of rows, together with each hidden state.

    The network is normalised, and its last variable is hidden.
    """
    domain = network.domain
    hidden = len(domain) - 1
    result = np.empty((len(codes), int(domain.cards[hidden])))
    complete = np.asarray((codes >= 0).all(axis=1))
    rows = np.flatnonzero(complete)
    if not hidden:
        tables = [f.table for f in network.factors if isinstance(f, TableFactor)]
        return np.tile(np.sum(tables, axis=0), (len(codes), 1))
    if len(rows):
        full = np.concatenate([codes[rows], np.full((len(rows), 1), -1)], axis=1)
        for part, cube in network.hidden_states.log_joints(as_codes(domain, full)):
            result[rows[part]] = cube
    rows = np.flatnonzero(~complete)
    if len(rows):
        completion = Completion(network, as_codes(domain.observed, codes[rows]))
        result[rows] = completion.log_joints(hidden)
    return result


def _with_likelihood(network: MarkovNetwork, log_likelihood: FloatArray) -> MarkovNetwork:
    """Return a network with one more variable, the row, and a table of the rows' log-likelihoods.

    A row that knows its number has its own likelihood of the hidden states.
    """
    domain, hidden = network.domain, len(network.domain) - 1
    name = "(row)"
    while name in domain.names:
        name = f"({name})"
    variables = [*domain.variables[:hidden], Variable(name, range(len(log_likelihood)))]
    larger = Domain([*variables, domain.variables[hidden]])
    top = log_likelihood.max(axis=1, keepdims=True)
    factors = [TableFactor((hidden, hidden + 1), log_likelihood - top)]
    for factor in network.factors:
        assert isinstance(factor, TableFactor)
        scope = tuple(v + 1 if v == hidden else v for v in factor.variables)
        factors.append(TableFactor(scope, factor.table))
    return MarkovNetwork(larger, factors=factors)


def normalized(logs: FloatArray) -> FloatArray:
    """Return probabilities in proportion to exponentials, row by row."""
    top = logs.max(axis=1, keepdims=True)
    p = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
    total = p.sum(axis=1, keepdims=True)
    if (total == 0).any():
        row = int(np.flatnonzero(total.ravel() == 0)[0]) + 1
        raise ModelError(f"row {row} is impossible: the model gives its known values probability 0")
    return p / total
