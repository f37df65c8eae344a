"""Hidden columns and what goes with them: the dependence tree, the fits, stacking, refining."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import (
    Domain,
    Features,
    MarkovNetwork,
    Table,
    convert,
    learn_conditionals,
    learn_joint,
    log_partition,
    refine,
)
from conjoin.data import merge_rows
from conjoin.errors import ModelError
from conjoin.joint import (
    HiddenModel,
    HiddenTables,
    Priors,
    fit_batches,
    fit_further,
    fit_further_batches,
    fit_hidden,
    left_out_gain,
    mutual_information,
    stacked,
    stacking_weights,
    tree_network,
    tree_part,
)
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.joint.missing_values import drawn
from conjoin.joint.thin_weights import with_weights
from conjoin.scoring import log_likelihood
from reference import all_states, feature_rows, feature_sum, normalized
from strategies import generators, random_domain


def random_rows(rng, domain, rows=200):
    """Rows in which each column often copies the one before it."""
    codes = np.stack([rng.integers(0, c, rows) for c in domain.cards], axis=1)
    for v in range(1, len(domain)):
        copied = rng.random(rows) < 0.6
        codes[copied, v] = codes[copied, v - 1] % domain.cards[v]
    return Table(domain, codes)


def clustered(rng, rows=1500, columns=30):
    """Binary rows of four groups that no tree describes well."""
    centre = rng.random((4, columns)) < 0.5
    group = rng.integers(0, 4, rows)
    codes = np.where(rng.random((rows, columns)) < 0.85, centre[group], ~centre[group])
    return Table(Domain.numbered([2] * columns), codes.astype(int))


def thin_network(rng, domain):
    """A chain of pairs with every single state, as a thin network has them."""
    terms = [(float(rng.normal()), {v.name: s}) for v in domain for s in v.states]
    for a, b in zip(domain.variables[:-1], domain.variables[1:], strict=True):
        terms += [(float(rng.normal()), {a.name: s, b.name: t}) for s in a.states for t in b.states]
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


# ---- the dependence tree ------------------------------------------------------------------------


@given(generators())
def test_mutual_information_is_the_sum_over_cells(rng):
    domain = random_domain(rng)
    table = Table(domain, np.stack([rng.integers(0, c, 60) for c in domain.cards], axis=1))
    found = mutual_information(table)
    for i, j in combinations(range(len(domain)), 2):
        cells = np.full((domain.cards[i], domain.cards[j]), 0.5)
        cells /= domain.cards[i] * domain.cards[j]
        np.add.at(cells, (table.codes[:, i], table.codes[:, j]), 1.0)
        p = cells / cells.sum()
        expected = (p * np.log(p / np.outer(p.sum(axis=1), p.sum(axis=0)))).sum()
        assert found[i, j] == pytest.approx(expected, abs=1e-9)
        assert found[j, i] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20)
@given(generators())
def test_no_other_tree_has_more_information(rng):
    domain = Domain.numbered([2, 3, 2, 2])
    table = random_rows(rng, domain)
    information = mutual_information(table)
    left, right = dependence_tree(table)
    assert len(left) == 3
    best = -np.inf
    pairs = list(combinations(range(4), 2))
    for edges in combinations(pairs, 3):
        group = list(range(4))
        for a, b in edges:
            group = [group[a] if g == group[b] else g for g in group]
        if len(set(group)) == 1:
            best = max(best, sum(information[a, b] for a, b in edges))
    assert information[left, right].sum() == pytest.approx(best, abs=1e-9)


@given(generators())
def test_the_tree_network_is_normalized(rng):
    domain = random_domain(rng)
    network = tree_network(random_rows(rng, domain, 40))
    assert log_partition(network).value == pytest.approx(0.0, abs=1e-9)


# ---- one fit --------------------------------------------------------------------------------------


def brute_force(features, weights, states):
    """log Z and the mean of each feature, for one vector of weights."""
    rows = feature_rows(features)
    holds = np.array([[feature_sum([(1.0, tests)], x) for _, tests in rows] for x in states])
    log_p = holds @ weights
    p = np.exp(normalized(log_p))
    return np.logaddexp.reduce(log_p), p @ holds


@settings(max_examples=20)
@given(generators())
def test_expectations_given_each_hidden_state(rng):
    domain = Domain.numbered([2, 3, 2, 1])
    tables = HiddenTables(thin_network(rng, domain), 3)
    weights = rng.normal(size=(3, len(tables.features))) * rng.choice([1.0, 100.0])
    log_z, means = tables.expectations(weights)
    for z in range(3):
        expected = brute_force(tables.features, weights[z], all_states(domain))
        assert log_z[z] == pytest.approx(expected[0], abs=1e-8)
        np.testing.assert_allclose(means[z], expected[1], atol=1e-9)


@settings(max_examples=10)
@given(generators())
def test_hidden_states_may_be_far_apart(rng):
    """One state has all of the probability, unless the others are weighed or taken alone."""
    domain = Domain.numbered([2, 3, 2])
    tables = HiddenTables(thin_network(rng, domain), 3)
    weights = rng.normal(size=(3, len(tables.features))) * np.array([[1.0], [1e3], [1e6]])
    for shift in (0.0, 1e7, 0.0):
        log_z, means = tables.expectations(weights + np.array([[0.0], [shift], [0.0]]))
        for z in range(3):
            moved = weights[z] + (shift if z == 1 else 0.0)
            expected = brute_force(tables.features, moved, all_states(domain))
            assert log_z[z] == pytest.approx(expected[0], rel=1e-12, abs=1e-8)
            np.testing.assert_allclose(means[z], expected[1], atol=1e-8)


def test_a_fit_is_whole_though_no_step_improves_it(monkeypatch):
    monkeypatch.setattr("conjoin.joint.hidden_fit.descend", lambda *_, **__: iter(()))
    rng, domain = np.random.default_rng(0), Domain.numbered([2, 3, 2])
    tables = HiddenTables(thin_network(rng, domain), 3)
    rows = tables.rows(all_states(domain), np.ones(12))
    fit = fit_hidden(HiddenModel(tables, Priors(2, 0.5, 0.0, 0.3)), rows, rows, rng)
    assert fit.iterations == 0
    assert np.exp(fit.log_density(rows)).sum() == pytest.approx(1.0, abs=1e-5)
    assert fit_further(fit, rows) is fit


def test_a_hidden_column_keeps_what_is_impossible_impossible():
    rng, domain = np.random.default_rng(0), Domain.numbered([2, 2, 2, 2])
    codes = (rng.random((400, 4)) < rng.random((3, 4))[rng.integers(0, 3, 400)]).astype(int)
    codes[:, 1] &= codes[:, 0]
    hard = Features.from_terms(domain, [(-np.inf, {"v0": 0, "v1": 1})])
    features = Features.concatenate([thin_network(rng, domain).features, hard]).merged()
    tables = HiddenTables(MarkovNetwork(domain, features), 3)
    rows = tables.rows(*merge_rows(codes, None))
    fit = fit_hidden(HiddenModel(tables, Priors(2, 0.5, 0.2, 0.3)), rows, rows, rng)
    assert fit.iterations > 0
    states = all_states(domain)
    found = np.exp(fit.log_density(tables.rows(states, np.ones(len(states)))))
    assert found.sum() == pytest.approx(1.0, abs=1e-5)
    assert not found[(states[:, 0] == 0) & (states[:, 1] == 1)].any()


@pytest.mark.parametrize("priors", [Priors(2, 0.5, 0.0, 0.3), Priors(3, 0.5, 0.2, 0.3)])
def test_the_gradient_is_the_slope(priors):
    rng = np.random.default_rng(1)
    domain = Domain.numbered([2, 3, 2])
    tables = HiddenTables(thin_network(rng, domain), 4)
    codes = random_rows(rng, domain, 30).codes
    rows = tables.rows(codes, rng.random(len(codes)) + 0.5)
    model = HiddenModel(tables, priors)
    start, _ = model.start(rows, rng)
    flat = start.flat() + 0.3 * rng.normal(size=len(start.flat()))

    def value(point):
        p = start.like(point)
        log_z, means = tables.expectations(model.weights(p))
        return model.value_and_gradient(rows, p, log_z, means)

    gradient = value(flat)[1].flat()
    for k in rng.permutation(len(flat))[:40]:
        step = np.zeros(len(flat))
        step[k] = 3e-2
        slope = (value(flat + step)[0] - value(flat - step)[0]) / 6e-2
        assert gradient[k] == pytest.approx(slope, abs=0.02 + 0.01 * abs(slope))  # float32 sums


def test_batches_of_many_rows_lead_to_where_all_rows_lead():
    rng = np.random.default_rng(4)
    table = clustered(rng, rows=6000, columns=12)
    base = thin_network(rng, table.domain)
    tables = HiddenTables(base, 6)
    model = HiddenModel(tables, Priors(3, 0.5, 0.0, 0.3))
    rows = tables.rows(*merge_rows(table.codes[:5000], None))
    test = tables.rows(table.codes[5000:], np.ones(1000))
    scores = []
    for by_batches in (False, True):
        if by_batches:
            fit = fit_batches(model, rows, np.random.default_rng(0), 150)
            fit = fit_further_batches(fit, rows, np.random.default_rng(1), 40)
        else:
            fit = fit_hidden(model, rows, test, np.random.default_rng(0))
        found, _ = tables.expectations(model.weights(fit.parameters))
        np.testing.assert_allclose(fit.log_z, found, atol=1e-9)
        assert fit.score(test) == pytest.approx(fit.log_density(test).mean(), abs=1e-5)
        scores.append(fit.score(test))
    assert scores[1] > scores[0] - 0.02
    assert scores[1] > np.log(0.5) * 12 + 1  # no column tells much alone


@pytest.mark.slow
def test_many_rows_are_learned_in_batches(monkeypatch):
    monkeypatch.setattr("conjoin.joint.hidden_search.MANY_ROWS", 300)
    table = clustered(np.random.default_rng(0), rows=1000, columns=20)
    valid = clustered(np.random.default_rng(0), rows=1000, columns=20)
    closed = convert(learn_conditionals(table, "tree"), table)
    for held in (None, valid):
        joint = refine(closed, table, valid=held)
        assert joint.domain.hidden.any()
        scores = joint.provenance["refined"]["held_out"]
        assert max(scores.values()) > scores["tree"] + 0.1
        assert log_partition(joint).value == pytest.approx(0.0, abs=1e-8)


def test_a_stacked_network_is_the_mixture_of_its_fits():
    rng = np.random.default_rng(2)
    domain = Domain.numbered([2, 3, 2])
    tables = HiddenTables(thin_network(rng, domain), 3)
    table = random_rows(rng, domain)
    rows = tables.rows(table.codes, np.ones(len(table)))
    models = [HiddenModel(tables, Priors(2, 0.5, sd, 0.3)) for sd in (0.0, 0.2)]
    fits = [fit_hidden(model, rows, rows, rng) for model in models]
    shares = np.array([0.3, 0.7])
    network = stacked(tables, [fit.part() for fit in fits], shares, "hidden")
    assert log_partition(network).value == pytest.approx(0.0, abs=1e-9)
    states = all_states(domain)
    expected = np.zeros(len(states))
    for fit, share in zip(fits, shares, strict=True):
        weights = fit.model.weights(fit.parameters)
        p = np.exp(fit.parameters.log_probabilities)
        for z in range(3):
            holds = feature_rows(tables.features.reweighted(weights[z]))
            log_p = np.array([feature_sum(holds, x) for x in states])
            expected += share * p[z] * np.exp(normalized(log_p))
    np.testing.assert_allclose(np.exp(network.log_potential(states)), expected, atol=1e-9)
    found = np.logaddexp.reduce(
        [
            np.log(share) + fit.log_density(tables.rows(states, np.ones(len(states))))
            for fit, share in zip(fits, shares, strict=True)
        ],
        axis=0,
    )
    np.testing.assert_allclose(np.exp(found), expected, atol=1e-5)


@settings(max_examples=20)
@given(generators())
def test_thin_networks_and_trees_are_parts_of_a_mixture(rng):
    domain = random_domain(rng)
    table = random_rows(rng, domain, 60)
    tree = tree_network(table)
    left, right = dependence_tree(table)
    base = with_weights(
        MarkovNetwork(domain, Features.empty(domain.cards)), left, right, table, table
    )
    tables = HiddenTables(base, 2)
    network = stacked(
        tables, [tables.part(base), tree_part(tables, tree)], np.array([0.3, 0.7]), "h"
    )
    states = all_states(domain)
    parts = [np.exp(normalized(part.log_potential(states))) for part in (base, tree)]
    found = np.exp(network.log_potential(states))
    np.testing.assert_allclose(found, 0.3 * parts[0] + 0.7 * parts[1], atol=1e-9)


@given(generators())
def test_stacking_weights_are_the_best(rng):
    densities = np.log(rng.random((3, 20)) + 0.01)
    weights = rng.random(20) + 0.1
    found = stacking_weights(list(densities), weights, steps=3000)
    assert found.sum() == pytest.approx(1.0)

    def score(q):
        return weights @ np.log(q @ np.exp(densities))

    for other in rng.dirichlet(np.ones(3), 50):
        assert score(found) >= score(other) - 1e-3


# ---- refining -----------------------------------------------------------------------------------------


def test_groups_of_rows_get_a_hidden_column():
    table = clustered(np.random.default_rng(0))
    _, joint = learn_joint(table)
    assert joint.domain.hidden.any()
    scores = joint.provenance["refined"]["held_out"]
    assert max(scores.values()) > scores["tree"] + 0.1


@pytest.mark.slow
def test_missing_values_cost_little():
    rng = np.random.default_rng(5)
    table = clustered(rng, rows=2500)
    train, test = Table(table.domain, table.codes[:1500]), Table(table.domain, table.codes[1500:])
    holes = np.where(rng.random(train.codes.shape) < 0.3, train.missing, train.codes)
    lacking = Table(table.domain, holes.astype(np.uint8))
    scores = [
        log_likelihood(joint, test).mean
        for joint in (tree_network(train), learn_joint(lacking)[1], learn_joint(train)[1])
    ]
    assert scores[0] + 1 < scores[1] < scores[2] + 0.05
    assert scores[1] > scores[2] - 0.3


def test_draws_share_the_weight_of_their_row_and_keep_known_values():
    rng = np.random.default_rng(6)
    table = random_rows(rng, Domain.numbered([2, 3, 4]))
    codes = np.where(rng.random(table.codes.shape) < 0.3, table.missing, table.codes)
    lacking = Table(table.domain, codes.astype(np.uint8), rng.random(len(codes)))
    full = drawn(tree_network(table), lacking, 3, rng)
    by_draw = full.codes.reshape(3, *lacking.codes.shape)
    known = lacking.codes != lacking.missing
    assert full.complete and all((draw[known] == lacking.codes[known]).all() for draw in by_draw)
    np.testing.assert_allclose(full.weights.reshape(3, -1).sum(axis=0), lacking.weights)


def test_simple_tables_get_no_hidden_column():
    rng = np.random.default_rng(0)
    first = rng.random(3000) < 0.4
    codes = [first]
    for _ in range(3):  # a chain: each column depends on the one before it
        codes.append(np.where(rng.random(3000) < 0.8, codes[-1], ~codes[-1]))
    table = Table(Domain.numbered([2] * 4), np.stack(codes, axis=1).astype(int))
    _, joint = learn_joint(table)
    assert not joint.domain.hidden.any()


@pytest.mark.parametrize("effort", ["quick", "default"])
def test_refined_networks_beat_the_tree_on_held_out_rows(effort):
    rng = np.random.default_rng(3)
    domain = Domain.numbered([2, 3, 4, 2, 3])
    table, valid = random_rows(rng, domain, 600), random_rows(rng, domain, 300)
    closed = convert(learn_conditionals(table, "tree"), table)
    refined = refine(closed, table, valid=valid, effort=effort)
    scores = refined.provenance["refined"]["held_out"]
    assert max(scores.values()) >= scores["tree"]
    value = np.mean(refined.log_potential(valid) - log_partition(refined).value)
    assert value >= max(scores.values()) - 2e-3


def test_the_same_seed_gives_the_same_network_in_any_order_of_columns():
    rng = np.random.default_rng(4)
    table = clustered(rng, 400)
    names = list(table.domain.names)
    order = [names[i] for i in rng.permutation(len(names))]
    _, one = learn_joint(table, random_state=7)
    _, two = learn_joint(table.reordered(order), random_state=7)
    _, three = learn_joint(table, random_state=7, n_jobs=2)
    rows = table.codes[:50]
    expected = one.log_potential(rows)
    np.testing.assert_array_equal(three.log_potential(rows), expected)
    moved = rows[:, [names.index(n) for n in order]]
    np.testing.assert_allclose(two.log_potential(moved), expected, atol=1e-9)


def test_missing_values_and_weights():
    rng = np.random.default_rng(5)
    table = clustered(rng, 500)
    codes = np.where(rng.random(table.codes.shape) < 0.1, -1, table.codes.astype(int))
    weighted = Table(table.domain, codes, rng.random(len(codes)))
    _, joint = learn_joint(weighted)
    assert np.isfinite(log_partition(joint).value)


def test_wrong_efforts_are_named():
    table = clustered(np.random.default_rng(0), 60)
    closed = convert(learn_conditionals(table, "tree"), table)
    with pytest.raises(ModelError, match="'fast' is not known"):
        refine(closed, table, effort="fast")
    few = refine(closed, Table(table.domain, table.codes[:20]))
    assert few.provenance["weights"]["objective"] == "closed form"


@pytest.mark.parametrize("rows", [51, 3000])
def test_constant_columns_are_certain(rows):
    domain = Domain({"a": ["x"], "b": ["y"]})
    _, joint = learn_joint(Table(domain, np.zeros((rows, 2), int)))
    assert abs(log_partition(joint).value) < 1e-9
    assert joint.conditional("a", {"a": "x", "b": "y"}).tolist() == [[1.0]]


def many_states(rng, rows, units=200, groups=40):
    """A column of many states that determines another, and one of many states by chance."""
    unit = rng.integers(0, units, rows)
    codes = [unit, unit % groups, rng.integers(0, units, rows), rng.integers(0, 2, rows)]
    return Table(Domain.numbered([units, groups, units, 2]), np.stack(codes, axis=1))


def test_chance_does_not_link_columns_of_many_states():
    table = many_states(np.random.default_rng(0), 600)
    information = mutual_information(table)
    assert information[1, 2] > 1  # as it seems
    linked = {tuple(sorted(pair)) for pair in np.stack(dependence_tree(table), axis=1).tolist()}
    assert (0, 1) in linked
    assert not linked & {(0, 2), (1, 2)}
    tree = tree_network(table)
    assert abs(log_partition(tree).value) < 1e-9
    apart = tree_network(table, max_pair_cells=0)
    assert all({0, 1} != set(factor.variables) for factor in apart.factors)
    assert abs(log_partition(apart).value) < 1e-9


def test_a_row_is_predicted_from_all_others():
    counts = np.array([[3.0, 1.0], [0.0, 2.0]])
    rows = [(s, t) for s in range(2) for t in range(2) for _ in range(int(counts[s, t]))]
    gain = 0.0
    for r, (s, t) in enumerate(rows):
        others = rows[:r] + rows[r + 1 :]
        alone = (sum(b == t for _, b in others) + 0.5) / (len(others) + 1)
        here = [b for a, b in others if a == s]
        gain += np.log((here.count(t) + alone) / (len(here) + 1) / alone) / len(rows)
    assert left_out_gain(counts) == pytest.approx(gain)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [600, 3000])
def test_columns_of_many_states_stay_small_and_are_learned(rows):
    table = many_states(np.random.default_rng(1), rows)
    _, joint = learn_joint(table)
    size = sum(factor.table.size for factor in joint.factors) + len(joint.features.indices)
    assert size < 9 << 18
    rows = table.codes[:20].astype(int)
    right = [joint.conditional("v1", row[None]).ravel()[row[1]] for row in rows]
    assert np.mean(right) > 0.7
