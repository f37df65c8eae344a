"""Missing values summed out: value and gradient against sums over all completions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import Domain, Features, MarkovNetwork, Table
from conjoin.joint import HiddenFit, HiddenModel, HiddenTables, Parameters, Priors, fit_further
from conjoin.joint.expectations import CompleteLikelihood
from conjoin.joint.incomplete_rows import MarginalLikelihood, MarginalModel, incomplete
from reference import all_states
from strategies import generators, random_domain, random_markov_network


def lacking_rows(rng, domain, rows=12):
    codes = np.stack([rng.integers(0, c, rows) for c in domain.cards], axis=1)
    codes[rng.random(codes.shape) < 0.4] = -1
    codes[0] = -1  # nothing is known
    return Table(domain, codes, rng.integers(1, 4, rows).astype(float))


def truth(features, codes):
    """Whether each feature holds in each row, times its value elsewhere; rows by features."""
    alone = [features.select(np.array([f])).reweighted(np.ones(1)) for f in range(len(features))]
    return np.stack([one.evaluate(codes) for one in alone], axis=1)


def by_enumeration(holds, weights, table, states):
    """The log-likelihood and its gradient, every completion of every row listed."""
    log_p = holds @ weights
    log_z = np.logaddexp.reduce(log_p)
    mean = np.exp(log_p - log_z) @ holds
    value, gradient = 0.0, np.zeros(len(weights))
    for row, weight in zip(table.codes, table.weights, strict=True):
        agrees = ((states == row) | (row == table.missing)).all(axis=1)
        log_sum = np.logaddexp.reduce(log_p[agrees])
        value += weight * (log_sum - log_z)
        gradient += weight * (np.exp(log_p[agrees] - log_sum) @ holds[agrees] - mean)
    return value, gradient


@settings(max_examples=40)
@given(generators())
def test_value_and_gradient_are_those_of_all_completions(rng):
    mn = random_markov_network(rng).to_features().merged()
    features = mn.features.select(np.flatnonzero(np.isfinite(mn.features.weights)))
    table, states = lacking_rows(rng, mn.domain), all_states(mn.domain)
    weights = rng.normal(size=len(features))
    found = MarginalLikelihood(features.reweighted(weights), table)
    value, gradient = found.value_and_gradient(weights)
    expected = by_enumeration(truth(features, states), weights, table, states)
    assert value == pytest.approx(expected[0], abs=1e-9)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-9)
    assert found.value(weights) == value and (found.curvature() > 0).all()


@settings(max_examples=15)
@given(generators())
def test_complete_rows_have_the_likelihood_of_complete_rows(rng):
    mn = random_markov_network(rng).to_features().merged()
    features = mn.features.select(np.flatnonzero(np.isfinite(mn.features.weights)))
    codes = np.stack([rng.integers(0, c, 9) for c in mn.domain.cards], axis=1)
    table, weights = Table(mn.domain, codes), rng.normal(size=len(features))
    found, expected = (
        kind(features, table).value_and_gradient(weights)
        for kind in (MarginalLikelihood, CompleteLikelihood)
    )
    assert found[0] == pytest.approx(expected[0], abs=1e-9)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-9)


def chain_with_states(rng, domain):
    """A chain of pairs, and one feature per state."""
    terms = [(float(rng.normal()), {v.name: s}) for v in domain for s in v.states]
    for a, b in zip(domain.variables[:-1], domain.variables[1:], strict=True):
        terms += [(float(rng.normal()), {a.name: s, b.name: t}) for s in a.states for t in b.states]
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


@settings(max_examples=10)
@given(generators())
def test_the_gradient_of_a_hidden_column_is_that_of_all_completions(rng):
    domain = random_domain(rng) if rng.random() < 0.5 else Domain.numbered([2, 3, 4])
    tables = HiddenTables(chain_with_states(rng, domain), 3)
    table = lacking_rows(rng, domain)
    some = incomplete(table)
    table = Table(domain, table.codes[some], table.weights[some])
    single, longer = len(tables.single), len(tables.longer)
    shapes = (len(tables.features),), (3, 2), (2, single), (2, longer), (3, single), (3,)
    p = Parameters(*(rng.normal(scale=0.5, size=shape) for shape in shapes))
    exact = MarginalModel(HiddenModel(tables, Priors(2, 0.5, 0.2, 0.3)), table)
    log_z, means = tables.expectations(exact.weights(p))
    nothing = tables.rows(np.zeros((0, len(domain)), np.int64), np.zeros(0))
    value, gradient = exact.value_and_gradient(nothing, p, log_z, means)
    states = all_states(domain)
    holds = truth(tables.features, states)

    def log_likelihood(flat):
        now = p.like(flat)
        log_p = exact.weights(now) @ holds.T  # hidden states by rows
        log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
        row_p = np.logaddexp.reduce(log_p + now.log_probabilities[:, None], axis=0)
        total = 0.0
        for row, weight in zip(table.codes, table.weights, strict=True):
            agrees = ((states == row) | (row == table.missing)).all(axis=1)
            total += weight * np.logaddexp.reduce(row_p[agrees])
        return total

    assert value == pytest.approx(log_likelihood(p.flat()), abs=1e-9)
    flat, found = p.flat(), gradient.flat()
    for _ in range(5):
        direction, step = rng.normal(size=len(flat)), 1e-3
        # Differences of fourth order: their error is of the order of 1e-11.
        at = [log_likelihood(flat + k * step * direction) for k in (-2, -1, 1, 2)]
        slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
        assert found @ direction == pytest.approx(slope, abs=1e-6, rel=1e-7)
    precision = exact.precisions(p)
    fit = fit_further(HiddenFit(exact, p, log_z, iterations=1), nothing)  # without complete rows
    after = fit.parameters.flat()
    gain = log_likelihood(after) - value - 0.5 * precision @ (after**2 - flat**2)
    assert gain > 0
