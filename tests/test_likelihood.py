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
    learn_conditionals,
    marginals,
    pll,
    refine,
)
from conjoin.errors import ModelError
from conjoin.inference import TooLarge, forecast
from conjoin.joint import Expectations, learn_weights, thin
from conjoin.joint.expectations import CompleteLikelihood
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
        expect = Expectations(features, max_table=largest)
        log_z, means = expect(features.weights)
        assert log_z == pytest.approx(np.logaddexp.reduce(log_p), abs=1e-9)
        np.testing.assert_allclose(means, want, atol=1e-9)
    assert (largest == 0) == (len(expect.tables.scopes) == 0)


@settings(max_examples=25)
@given(generators())
def test_the_likelihood_and_its_slopes(rng):
    mn = random_markov_network(rng).to_features().merged()
    rows = random_rows(rng, mn.domain, 30, weighted=rng.random() < 0.5)
    objective = CompleteLikelihood(mn.features, rows)
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
    with pytest.raises(ModelError, match="impute them"):
        CompleteLikelihood(never.features, Table(small, np.array([[-1, 0]])))
    with pytest.raises(ModelError, match="unknown objective 'speed'"):
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
    assert len(thinned.features) <= len(mn.features)
    # Exact inference may look for another order; among so few variables it finds one as good.
    assert forecast(thinned).largest <= cells
    assert thin(mn, max_cells=1e9) is mn
    codes = np.stack([rng.integers(0, c, 9) for c in domain.cards], axis=1)
    table = Table(domain, codes)
    array = np.array([[domain.variables[v].states[c] for v, c in enumerate(row)] for row in codes])
    one, two = (thin(mn, rows, max_cells=cells) for rows in (table, array))
    assert log_potentials(one, all_states(domain)) == pytest.approx(
        log_potentials(two, all_states(domain))
    )


def test_hard_constraints_stay_whole():
    domain = Domain.numbered([2] * 10)
    terms = [(2.0, {f"v{i}": 1, f"v{j}": 1}) for i in range(10) for j in range(i)]
    terms.append((-np.inf, {"v0": 1, "v4": 1, "v9": 1}))
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    thinned = thin(mn, max_cells=60)
    states = all_states(domain)
    never = (states[:, [0, 4, 9]] == 1).all(axis=1)
    assert (np.isneginf(log_potentials(thinned, states)) == never).all()
    with pytest.raises(ModelError, match="hard constraints alone"):
        thin(mn, max_cells=20)
    with pytest.raises(ModelError, match="max_cells must be more than 0"):
        thin(mn, max_cells=0)


def test_what_three_do_only_together_is_not_thrown_away():
    rng = np.random.default_rng(0)
    domain = Domain.numbered([2] * 12)
    terms = []
    for _ in range(8):
        scope = rng.choice(12, 3, replace=False).tolist()
        for code in range(8):
            bits = [code >> k & 1 for k in range(3)]
            state = {f"v{v}": b for v, b in zip(scope, bits, strict=True)}
            terms.append((0.7 if sum(bits) % 2 else -0.7, state))
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    p = np.exp(normalized(log_potentials(mn, all_states(domain))))
    rows = Table(domain, all_states(domain)[rng.choice(len(p), 3000, p=p)])
    scores = refine(mn, rows).provenance["refined"]["held_out"]
    assert max(scores.values()) > scores["tree"] + 0.3  # no pair of columns shows any of it


@pytest.mark.parametrize("objective", ["pseudo-likelihood", "likelihood"])
def test_rows_that_do_not_count(objective):
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(0.5, {"a": 1, "b": 1})]))
    codes = np.repeat(all_states(domain), 15, axis=0)
    weights = np.where(np.arange(60) % 6 == 0, 1.0, 0.0)
    some = Table(domain, codes[weights > 0])
    options = {"objective": objective, "start": "model", "prior_sd": 0.5}
    found = learn_weights(mn, Table(domain, codes, weights), valid=some, **options)
    same = learn_weights(mn, some, valid=some, **options)
    assert found.features.weights == pytest.approx(same.features.weights)
    with pytest.raises(ModelError, match="no rows"):
        learn_weights(mn, Table(domain, codes, np.zeros(60)), **options)
    with pytest.raises(ModelError, match="no rows"):
        learn_weights(mn, some, valid=Table(domain, codes[:0]), **options)


def test_impossible_features_that_hold_in_part():
    domain = Domain({"a": [0, 1], "b": [0, 1, 2]})
    features = Features.from_terms(domain, [(-np.inf, {"a": 1, "b": 2}), (0.3, {"b": 1})])
    off = np.zeros(len(features.indices))
    off[1] = 0.5  # where b is not 2, the first still counts by half
    features = replace(features, off=off)
    mn = MarkovNetwork(domain, features)
    log_p = log_potentials(mn, all_states(domain))
    log_z, means = Expectations(features)(features.weights)
    assert log_z == pytest.approx(np.logaddexp.reduce(log_p), abs=1e-9)
    want = np.exp(normalized(log_p)) @ feature_values(features, all_states(domain))
    assert means == pytest.approx(want, abs=1e-9)


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
    mn = convert(learn_conditionals(table, "hybrid", penalty=1.0), table)
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
    mn = refine(convert(learn_conditionals(table, "tree"), table), table)
    healthy = positive[~ill & tested].mean()
    assert marginals(mn, {"ill": 0})["test"][1] == pytest.approx(healthy, abs=0.03)
    whole = (1 - ill.mean()) * healthy + ill.mean() * positive[ill & tested].mean()
    assert marginals(mn)["test"][1] == pytest.approx(whole, abs=0.03)
    assert positive[tested].mean() > whole + 0.3  # what the known values alone would say


def test_refined_networks_do_not_depend_on_jobs():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (300, 6))
    codes[:, 1] = np.where(rng.random(300) < 0.7, codes[:, 0], codes[:, 1])
    codes[rng.random(codes.shape) < 0.1] = -1
    table = Table(Domain.numbered([3] * 6), codes)
    mn = convert(learn_conditionals(table, "tree"), table)
    rows = np.where(codes < 0, 0, codes)
    one, two = (refine(mn, table, n_jobs=n).log_potential(rows) for n in (1, 2))
    assert one.tobytes() == two.tobytes()
    assert refine(mn, table, random_state=1).log_potential(rows).tobytes() != one.tobytes()


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
    for counted in (None, weights):  # by the cells of tables
        expect = Expectations(mn.features)
        found = expect.sums(mn.features, Table(mn.domain, codes, counted))
        np.testing.assert_allclose(found, mn.features.sums(codes, counted), atol=1e-9)


def test_islands_of_many_columns_get_their_share():
    # Two hidden switches, each copied to many columns: islands that no single change connects.
    rng = np.random.default_rng(0)
    hidden = rng.random((600, 2)) < [0.2, 0.7]
    flips = rng.random((600, 60)) < 0.05
    codes = (hidden[:, np.arange(60) % 2] ^ flips).astype(int)
    table = Table(Domain.numbered([2] * 60), codes)
    mn = convert(learn_conditionals(table, "tree"), table)
    refined = refine(mn, table, max_cells=2000)
    off = [abs(marginals(refined)[f"v{v}"][1] - codes[:, v].mean()) for v in range(60)]
    assert max(off) < 0.1
    assert codes[:, 4].mean() < 0.3 and marginals(refined, {"v0": 1, "v2": 1})["v4"][1] > 0.6
