"""Weight learning: gradients by differences, optima by SciPy, the paper's baseline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize

from conjoin import (
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    TableCPD,
    convert,
    learn_conditionals,
    pll,
    read_table,
)
from conjoin.errors import ModelError
from conjoin.joint import PseudoLikelihood, descend, learn_weights
from reference import feature_rows
from strategies import (
    generators,
    random_dependency_network,
    random_features,
    random_markov_network,
)
from test_scoring import joint_pll, random_rows


def summed(mn, weights, rows):
    """The objective written out: the log conditionals of the joint, row by row."""
    network = MarkovNetwork(mn.domain, replace(mn.form.features, weights=weights))
    cells = joint_pll(network, rows)
    return float((cells.sum(axis=1) * (1 if rows.weights is None else rows.weights)).sum())


@settings(max_examples=15)
@given(generators())
def test_gradients_are_those_of_differences(rng):
    mn = random_markov_network(rng).to_features().merged()
    if rng.random() < 0.4:
        mn = convert(random_dependency_network(rng, mn.domain), orders="all", base="uniform")
    rows = random_rows(rng, mn.domain, 40, weighted=True)
    objective = PseudoLikelihood(mn.form, rows)
    weights = rng.normal(size=len(mn.form.features))
    value, gradient = objective.value_and_gradient(weights)
    assert value == pytest.approx(summed(mn, weights, rows), rel=1e-9)
    assert objective.value(weights) == pytest.approx(value, rel=1e-12)
    for f in rng.choice(len(weights), min(6, len(weights)), replace=False):
        step = np.zeros(len(weights))
        step[f] = 1e-5
        slope = (summed(mn, weights + step, rows) - summed(mn, weights - step, rows)) / 2e-5
        assert gradient[f] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@settings(max_examples=15)
@given(generators())
def test_gradients_with_missing_values(rng):
    mn = random_markov_network(rng).to_features().merged()
    rows = random_rows(rng, mn.domain, 40, missing=0.2)
    objective = PseudoLikelihood(mn.form, rows)
    weights = rng.normal(size=len(mn.form.features))
    value, gradient = objective.value_and_gradient(weights)
    score = pll(MarkovNetwork(mn.domain, replace(mn.form.features, weights=weights)), rows)
    assert value == pytest.approx(score.by_row.sum(), rel=1e-9)
    for f in rng.choice(len(weights), min(6, len(weights)), replace=False):
        step = np.zeros(len(weights))
        step[f] = 1e-5
        slope = (objective.value(weights + step) - objective.value(weights - step)) / 2e-5
        assert gradient[f] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def many_rows(variables, rows, seed=5):
    """Features over many variables, one of them of three states, and many rows."""
    rng = np.random.default_rng(seed)
    domain = Domain.numbered([3] + [2] * (variables - 1))
    terms = []
    for _ in range(4 * variables):
        chosen = rng.choice(variables, rng.integers(1, 5), replace=False)
        states = {domain.names[i]: int(rng.integers(domain.cards[i])) for i in chosen}
        terms.append((float(rng.normal()), states))
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms)).merged()
    return mn, random_rows(rng, domain, rows, weighted=True)


@pytest.mark.parametrize(("variables", "rows"), [(14, 5000), (1050, 30)])
def test_many_rows_and_many_variables(variables, rows):
    """Rows of several pieces; more variables than factors of 2 that a number can hold."""
    mn, table = many_rows(variables, rows)
    weights = mn.features.weights
    objective = PseudoLikelihood(mn.form, table)
    value, gradient = objective.value_and_gradient(weights)
    score = pll(mn, table)
    assert value == pytest.approx(score.by_row @ score.weights, rel=1e-12)
    for f in (0, len(weights) // 2, len(weights) - 1):
        step = np.zeros(len(weights))
        step[f] = 1e-5
        slope = (objective.value(weights + step) - objective.value(weights - step)) / 2e-5
        assert gradient[f] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@settings(max_examples=10)
@given(generators())
def test_the_optimum_is_scipys(rng):
    domain = Domain({f"x{i}": list(range(c)) for i, c in enumerate(rng.integers(2, 4, 4))})
    mn = MarkovNetwork(domain, random_features(rng, domain, 9)).merged()
    rows = random_rows(rng, domain, 60)
    sd = float(rng.choice([0.3, 1.0, 3.0]))

    def objective(w):
        return -summed(mn, w, rows) + (w @ w) / (2 * sd**2)

    expected = minimize(objective, np.zeros(len(mn.form.features)), method="BFGS", tol=1e-10)
    found = learn_weights(mn, rows, prior_sd=sd, tolerance=1e-12)
    assert len(found.features) == len(mn.features)
    assert objective(found.features.weights) == pytest.approx(expected.fun, rel=1e-9)
    np.testing.assert_allclose(found.features.weights, expected.x, atol=1e-3)


def test_l1_sets_weights_to_zero_and_is_optimal():
    """Against SciPy on the split w = u - v, u and v not negative, where the penalty is linear."""
    rng = np.random.default_rng(3)
    domain = Domain.numbered([2, 2, 3, 2])
    mn = MarkovNetwork(
        domain, Features.concatenate([random_features(rng, domain, 9) for _ in range(3)])
    ).merged()
    rows = random_rows(rng, domain, 80)
    size, l1, sd = len(mn.features), 3.0, 2.0

    def smooth(w):
        value, gradient = PseudoLikelihood(mn.form, rows).value_and_gradient(w)
        return w @ w / (2 * sd**2) - value, w / sd**2 - gradient

    def split(uv):
        value, gradient = smooth(uv[:size] - uv[size:])
        return value + l1 * uv.sum(), np.concatenate([gradient + l1, l1 - gradient])

    bounds = [(0, None)] * (2 * size)
    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 5000}
    expected = minimize(
        split, np.zeros(2 * size), jac=True, bounds=bounds, method="L-BFGS-B", options=options
    )
    found = learn_weights(mn, rows, prior_sd=sd, l1=l1, tolerance=1e-12).features.weights
    assert smooth(found)[0] + l1 * np.abs(found).sum() == pytest.approx(expected.fun, rel=1e-8)
    assert (found == 0).sum() == (np.abs(expected.x[:size] - expected.x[size:]) < 1e-6).sum() > 0


def test_descent_on_a_valley():
    """Rosenbrock's function: its minimum is 0 at (1, 1)."""

    def valley(x):
        a, b = 1 - x[0], x[1] - x[0] ** 2
        return float(a * a + 100 * b * b), np.array([-2 * a - 400 * x[0] * b, 200 * b])

    *_, last = descend(valley, np.array([-1.2, 1.0]), scale=np.ones(2))
    np.testing.assert_allclose(last.point, [1, 1], atol=1e-6)


def test_the_features_of_trees_are_all_states_of_their_leaves():
    domain = Domain({"a": ["x", "y", "z"], "b": [0, 1]})
    cpds = [
        TableCPD.of(domain, "a", ["b"], {0: [0.5, 0.3, 0.2], 1: [0.1, 0.1, 0.8]}),
        TableCPD.of(domain, "b", [], 0.3),
    ]
    rows = Table(domain, np.array([[0, 0], [1, 1], [2, 1], [0, 1]]))
    mn = learn_weights(DependencyNetwork(domain, cpds), rows, prior_sd=1.0)
    found = {
        frozenset((v, *sorted(s)) for v, (s, _) in t.items()) for _, t in feature_rows(mn.features)
    }
    pairs = {frozenset({(0, a), (1, b)}) for a in range(3) for b in range(2)}
    assert found == pairs | {frozenset({(1, b)}) for b in range(2)}


def test_settings_that_make_no_sense():
    domain = Domain.numbered([2, 2])
    rows = Table(domain, np.array([[0, 0], [1, 1]]))
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"v0": 1, "v1": 1})]))
    dn = DependencyNetwork.from_markov_network(mn)
    with pytest.raises(ModelError, match="convert it first"):
        learn_weights(dn, rows, start="model")
    for wrong in (
        {"start": "one"},
        {"prior_sd": 0.0},
        {"prior_sd": []},
        {"l1": -1.0},
        {"patience": 0},
        {"holdout": 1.0},
    ):
        with pytest.raises(ModelError):
            learn_weights(mn, rows, **wrong)
    with pytest.raises(ModelError, match="too few rows"):
        learn_weights(mn, Table(domain, np.array([[0, 0]])))


def test_hard_constraints_stay():
    domain = Domain.numbered([2, 2, 2])
    terms = [(-np.inf, {"v0": 1, "v1": 1}), (0.0, {"v1": 1, "v2": 1}), (0.0, {"v2": 1})]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    codes = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1]])
    found = learn_weights(mn, Table(domain, codes), prior_sd=1.0).features.weights
    assert found[0] == -np.inf and np.isfinite(found[1:]).all() and found[1] > 0
    with pytest.raises(ModelError, match="impossible"):
        bad = MarkovNetwork(
            domain, Features.from_terms(domain, [(-np.inf, {"v0": 0}), (-np.inf, {"v0": 1})])
        )
        learn_weights(bad, Table(domain, codes), prior_sd=1.0)


def test_the_same_whatever_the_number_of_jobs():
    rng = np.random.default_rng(0)
    domain = Domain.numbered([2] * 6)
    mn = MarkovNetwork(domain, random_features(rng, domain, 12)).merged()
    rows = random_rows(rng, domain, 3000)
    one, two = (learn_weights(mn, rows, random_state=1, n_jobs=n).features.weights for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_early_stopping_never_makes_the_validation_score_worse():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (400, 5))
    codes[:, 1] = codes[:, 0] ^ (rng.random(400) < 0.1)
    domain = Domain.numbered([2] * 5)
    train, valid = Table(domain, codes[:300]), Table(domain, codes[300:])
    mn = convert(learn_conditionals(train, "tree", kappa=0.9), train)
    tuned = learn_weights(mn, train, valid=valid, start="model")
    assert pll(tuned, valid).mean >= pll(mn, valid).mean
    record = tuned.provenance["weights"]
    assert record["prior_sd"] in (0.02, 0.05)
    best = max(score for _, score in record["prior_sd_path"])
    assert pll(tuned, valid).mean == pytest.approx(best, rel=1e-9)


def test_a_descent_that_is_patient_gets_over_a_dip():
    rng = np.random.default_rng(2)
    codes = np.repeat(rng.integers(0, 3, (200, 1)), 6, axis=1)
    codes = np.where(rng.random(codes.shape) < 0.02, rng.integers(0, 3, codes.shape), codes)
    domain = Domain.numbered([3] * 6)
    train, valid = Table(domain, codes[:100]), Table(domain, codes[100:])
    mn = convert(learn_conditionals(train, "hybrid", kappa=0.9, penalty=0.3), train)
    found = []
    for patience in (1, 2, 6):
        settings = {"prior_sd": (0.1, 1.0), "max_iterations": 20, "patience": patience}
        tuned = learn_weights(mn, train, valid=valid, start="model", **settings)
        found.append(pll(tuned, valid).mean)
        best = max(score for _, score in tuned.provenance["weights"]["prior_sd_path"])
        assert found[-1] == pytest.approx(best, rel=1e-9)
    assert found[0] <= found[1] <= found[2] and found[0] < found[2]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "score"), [("nltcs", -5.022), ("plants", -8.754)])
def test_the_papers_baseline(data, name, score):
    """Libra's test scores of weight learning from zero over the tree network's features."""
    folder = data / "debd" / name
    train, valid, test = (
        read_table(folder / f"{name}.{part}.data.gz") for part in ("train", "valid", "test")
    )
    dn = learn_conditionals(train, "tree", kappa={"nltcs": 0.1, "plants": 0.01}[name], n_jobs=2)
    mn = learn_weights(dn, train, valid=valid, prior_sd=0.2, n_jobs=2)
    assert pll(mn, test).mean == pytest.approx(score, abs=0.01)
    tuned = learn_weights(convert(dn, train), train, valid=valid, start="model", n_jobs=2)
    assert pll(tuned, test).mean > max(pll(mn, test).mean, pll(convert(dn, train), test).mean)
