"""Thin networks and maximum likelihood, against sums over all states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import (
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    convert,
    forecast,
    learn,
    learn_weights,
    marginals,
    pll,
    refine,
    thin,
)
from conjoin.errors import ModelError
from conjoin.inference.plan import TooLarge
from conjoin.weights import likelihood as likelihood_module
from conjoin.weights import refine as refine_module
from conjoin.weights.likelihood import Expectations, Likelihood
from reference import all_states, feature_rows, log_potentials, normalized
from strategies import (
    generators,
    random_dependency_network,
    random_domain,
    random_features,
    random_markov_network,
)
from test_scoring import random_rows


def feature_values(features, states):
    """Each feature without its weight on each state, read test by test."""
    result = np.ones((len(states), len(features)))
    for f, (_, tests) in enumerate(feature_rows(features)):
        for var, (inside, off) in tests.items():
            result[:, f] *= np.where(np.isin(states[:, var], list(inside)), 1.0, off)
    return result


def summed(mn, rows):
    """The log-likelihood of rows, by summing over all states."""
    states = all_states(mn.domain)
    log_z = np.logaddexp.reduce(log_potentials(mn, states))
    each = log_potentials(mn, rows.codes) - log_z
    return float((each * (1 if rows.weights is None else rows.weights)).sum())


@settings(max_examples=40)
@given(generators())
def test_expected_features_are_sums_over_all_states(rng):
    mn = random_markov_network(rng, random_domain(rng, 2, 5, 4)).to_features()
    if rng.random() < 0.3:  # with off values
        mn = convert(random_dependency_network(rng, mn.domain), orders="all", base="uniform")
    if rng.random() < 0.3:
        weights = mn.features.weights.copy()
        weights[rng.integers(len(weights))] = -np.inf
        mn = MarkovNetwork(mn.domain, replace(mn.features, weights=weights))
    features, states = mn.features, all_states(mn.domain)
    log_p = log_potentials(mn, states)
    if np.isneginf(log_p).all():
        return
    want = np.exp(normalized(log_p)) @ feature_values(features, states)
    for largest in (1 << 13, 8, 0):  # all in tables, some, none
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(likelihood_module, "LARGEST", largest)
            expect = Expectations(features)
        log_z, means = expect(features.weights)
        assert log_z == pytest.approx(np.logaddexp.reduce(log_p), abs=1e-9)
        np.testing.assert_allclose(means, want, atol=1e-9)
    assert (largest == 0) == (len(expect.in_tables) == 0)


@settings(max_examples=25)
@given(generators())
def test_the_likelihood_and_its_slopes(rng):
    mn = random_markov_network(rng).to_features().merged()
    rows = random_rows(rng, mn.domain, 30, weighted=rng.random() < 0.5)
    objective = Likelihood(mn.features, rows)
    weights = rng.normal(size=len(mn.features))

    def at(w):
        return summed(MarkovNetwork(mn.domain, replace(mn.features, weights=w)), rows)

    value, gradient = objective.value_and_gradient(weights)
    assert value == pytest.approx(at(weights), rel=1e-9)
    for f in rng.choice(len(weights), min(5, len(weights)), replace=False):
        step = np.zeros(len(weights))
        step[f] = 1e-5
        slope = (at(weights + step) - at(weights - step)) / 2e-5
        assert gradient[f] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@settings(max_examples=10)
@given(generators())
def test_at_the_optimum_the_rows_hold_what_the_network_expects(rng):
    domain = random_domain(rng, 2, 4, 3)
    shape = MarkovNetwork(domain, random_features(rng, domain))
    states = all_states(domain)
    rows = Table(domain, np.concatenate([states, states[rng.integers(len(states), size=60)]]))
    mn = learn_weights(
        shape, rows, valid=rows, objective="likelihood", prior_sd=1e3, max_iterations=500,
        tolerance=1e-12, patience=100,
    )  # fmt: skip
    p = np.exp(normalized(log_potentials(mn, states)))
    seen = feature_values(mn.features, rows.codes).mean(axis=0)
    np.testing.assert_allclose(p @ feature_values(mn.features, states), seen, atol=1e-3)
    for v, card in enumerate(domain.cards):  # every state has a weight, so that marginals agree
        share = np.bincount(rows.codes[:, v], minlength=card) / len(rows)
        np.testing.assert_allclose(np.bincount(states[:, v], p, card), share, atol=1e-3)


def test_all_features_give_the_rows_own_distribution():
    domain = Domain({"a": [0, 1], "b": [0, 1, 2]})
    terms = [(0.0, {"a": 1, "b": s}) for s in range(3)]
    counts = [9, 1, 30, 25, 10, 5]
    rows = Table(domain, np.repeat(all_states(domain), counts, axis=0))
    shape = MarkovNetwork(domain, Features.from_terms(domain, terms))
    mn = learn_weights(
        shape, rows, valid=rows, objective="likelihood", prior_sd=1e4, tolerance=1e-13, patience=9
    )
    p = np.exp(normalized(log_potentials(mn, all_states(domain))))
    np.testing.assert_allclose(p, np.array(counts) / 80, atol=1e-4)


def test_what_has_no_likelihood():
    domain = Domain.numbered([2] * 60)
    terms = [(0.1, {f"v{i}": 1, f"v{j}": 1}) for i in range(60) for j in range(i)]
    dense = MarkovNetwork(domain, Features.from_terms(domain, terms))
    rows = Table(domain, np.zeros((50, 60), np.uint8))
    with pytest.raises(TooLarge, match="`thin`"):
        learn_weights(dense, rows, objective="likelihood", start="model")
    small = Domain.numbered([2, 2])
    never = MarkovNetwork(small, Features.from_terms(small, [(-np.inf, {"v0": 1})]))
    with pytest.raises(ModelError, match="impossible"):
        learn_weights(
            never, Table(small, np.array([[1, 0]] * 20)), objective="likelihood", start="model"
        )
    with pytest.raises(ModelError, match="fill them in"):
        Likelihood(never.features, Table(small, np.array([[-1, 0]])))
    with pytest.raises(ModelError, match="'speed' is not known"):
        learn_weights(dense, rows, objective="speed")
    with pytest.raises(ModelError, match="convert it first"):
        thin(DependencyNetwork.from_markov_network(never))


# ---- thin networks --------------------------------------------------------------------------------


@settings(max_examples=25)
@given(generators())
def test_thin_networks_fit(rng):
    domain = random_domain(rng, 5, 8, 3)
    mn = random_markov_network(rng, domain).to_features()
    cells = int(rng.integers(int(domain.cards.sum()), 200))
    thinned = thin(mn, max_cells=cells)
    assert thinned is mn or len(thinned.features) <= len(mn.features)
    # The order that exact inference finds is at least as good as the one the graph was grown for.
    assert forecast(thinned).largest <= cells
    assert thin(thinned, max_cells=cells) is thinned
    assert thin(mn, max_cells=1e9) is mn


def test_tests_outside_the_clique_are_averaged_out():
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]})
    terms = [(3.0, {"a": 1, "b": 1}), (1.0, {"a": 1, "b": 1, "c": 2}), (0.1, {"b": 0, "c": 0})]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    # Two variables of two states fit, b and c do not.
    rows = Table(domain, np.array([[0, 0, 0], [1, 1, 2]] + [[0, 1, 1]] * 4 + [[1, 0, 1]] * 4))
    thinned = thin(mn, rows, max_cells=9)
    # Marginals are those of the rows and one more that is spread over all states.
    q_b, q_c = np.array([0.5, 0.5]), (np.array([1, 8, 1]) + 1 / 3) / 11
    found = {
        tuple(tests): weight for weight, tests in feature_rows(thinned.features) if len(tests) > 1
    }
    assert found == {(0, 1): pytest.approx(3.0 + 1.0 * q_c[2])}
    record = thinned.provenance["thin"]
    assert record["whole_features"] == 1 and record["of"] == 3
    # The strengths by hand: pair parts under the rows' marginals, as root mean squares.
    b, c = np.eye(2) - q_b, np.eye(3) - q_c
    parts = {
        "ab": (3 + q_c[2]) * np.outer(b[:, 1], b[:, 1]),
        "bc": 0.5 * np.outer(b[:, 1], c[:, 2]) + 0.1 * np.outer(b[:, 0], c[:, 0]),
        "ac": 0.5 * np.outer(b[:, 1], c[:, 2]),
    }
    ab = (np.outer(q_b, q_b) * parts["ab"] ** 2).sum()
    with_c = sum((np.outer(q_b, q_c) * parts[k] ** 2).sum() for k in ("bc", "ac"))
    assert record["strength"] == pytest.approx(ab / (ab + with_c))


# ---- refining -------------------------------------------------------------------------------------


def test_islands_of_states_get_their_share():
    rng = np.random.default_rng(0)
    a, b = (rng.random((2, 3000)) < [[0.02], [0.1]]).astype(int)
    codes = np.stack([a, b, a | b, (a | b) ^ (rng.random(3000) < 0.05)], axis=1)
    table = Table(Domain.numbered([2] * 4), codes)
    mn = convert(learn(table, "hybrid", penalty=1.0), table)
    off = [abs(marginals(mn)[f"v{v}"][1] - codes[:, v].mean()) for v in range(4)]
    assert max(off) > 0.1  # each column is predicted from the others, and still
    refined = refine(mn, table)
    for v in range(4):
        assert marginals(refined)[f"v{v}"][1] == pytest.approx(codes[:, v].mean(), abs=0.02)
    assert pll(refined, table).mean > pll(mn, table).mean - 0.01


def test_holes_that_depend_on_another_column():
    rng = np.random.default_rng(0)
    ill = rng.random(8000) < 0.1
    positive = rng.random(8000) < np.where(ill, 0.95, 0.05)
    tested = rng.random(8000) < np.where(ill, 0.9, 0.1)  # the ill are tested more often
    codes = np.stack([ill, np.where(tested, positive, -1)], axis=1)
    table = Table(Domain({"ill": [0, 1], "test": [0, 1]}), codes)
    mn = refine(convert(learn(table, "tree"), table), table)
    healthy = positive[~ill & tested].mean()
    assert marginals(mn, {"ill": 0})["test"][1] == pytest.approx(healthy, abs=0.03)
    whole = (1 - ill.mean()) * healthy + ill.mean() * positive[ill & tested].mean()
    assert marginals(mn)["test"][1] == pytest.approx(whole, abs=0.03)
    assert positive[tested].mean() > whole + 0.3  # what the known values alone would say


def test_networks_that_would_lose_too_much_stay_whole(monkeypatch):
    rng = np.random.default_rng(0)
    codes = (rng.random((400, 10)) < 0.3 + 0.4 * (rng.random((400, 1)) < 0.5)).astype(int)
    table = Table(Domain.numbered([2] * 10), codes)
    mn = convert(learn(table, "logistic"), table)
    monkeypatch.setattr(refine_module, "ENOUGH_STRENGTH", 0.0)
    thinned = refine(mn, table, max_cells=40)
    assert thinned.provenance["weights"]["objective"] == "likelihood"
    kept = thinned.provenance["thin"]["strength"]
    assert 0 < kept < 1
    monkeypatch.setattr(refine_module, "ENOUGH_STRENGTH", kept + 1e-6)
    whole = refine(mn, table, max_cells=40)
    assert whole.provenance["weights"]["objective"] == "pseudo-likelihood"
    assert len(whole.features) == len(mn.features.merged())
    again = refine(mn, table, max_cells=40, n_jobs=2)
    assert again.features.weights.tobytes() == whole.features.weights.tobytes()


def test_refined_networks_do_not_depend_on_jobs():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (300, 6))
    codes[:, 1] = np.where(rng.random(300) < 0.7, codes[:, 0], codes[:, 1])
    codes[rng.random(codes.shape) < 0.1] = -1
    table = Table(Domain.numbered([3] * 6), codes)
    mn = convert(learn(table, "tree"), table)
    one, two = (refine(mn, table, n_jobs=n) for n in (1, 2))
    assert one.features.weights.tobytes() == two.features.weights.tobytes()
    other = refine(mn, table, random_state=1)
    assert other.features.weights.tobytes() != one.features.weights.tobytes()


@settings(max_examples=25)
@given(generators())
def test_sums_of_features(rng):
    mn = random_markov_network(rng).to_features()
    if rng.random() < 0.3:
        mn = convert(random_dependency_network(rng, mn.domain), orders="all", base="uniform")
    count = int(rng.integers(0, 40))
    codes = np.stack([rng.integers(0, c, count) for c in mn.domain.cards], axis=1).astype(np.uint8)
    values = feature_values(mn.features, codes)
    np.testing.assert_allclose(mn.features.sums(codes), values.sum(axis=0), atol=1e-9)
    weights = rng.random(count)
    np.testing.assert_allclose(mn.features.sums(codes, weights), weights @ values, atol=1e-9)
