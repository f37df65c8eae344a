"""Thinning and refining: the order of columns, search budgets, few rows, kinds of tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from conjoin import (
    Domain,
    Features,
    MarkovNetwork,
    Table,
    convert,
    learn_conditionals,
    log_partition,
    pll,
    refine,
)
from conjoin.errors import DataError, ModelError
from conjoin.joint import learn_weights, thin
from reference import all_states, feature_rows, log_potentials, normalized
from strategies import (
    generators,
    random_dependency_network,
    random_domain,
    random_markov_network,
)


def permuted(mn, rng):
    """A network with its variables, and its features, in another order."""
    order = rng.permutation(len(mn.domain))
    domain = Domain([mn.domain.variables[v] for v in order])
    features = mn.form.features.moved(domain.cards, np.argsort(order))
    features = features.select(rng.permutation(len(features)))
    return MarkovNetwork(domain, features), order


def log_likelihood(mn, table):
    """The mean log-likelihood of the rows, by exact inference."""
    return float(mn.log_potential(table).mean() - log_partition(mn).value)


@given(generators())
def test_reordered_features_are_the_same_function(rng):
    mn = random_markov_network(rng).to_features()
    if rng.random() < 0.4:
        mn = convert(random_dependency_network(rng, mn.domain), orders="all", max_length=1)
    other, order = permuted(mn, rng)
    states = all_states(mn.domain)
    expected = log_potentials(mn, states) - mn.form.constant
    np.testing.assert_allclose(log_potentials(other, states[:, order]), expected, atol=1e-9)
    by_name = other.in_canonical_order()
    assert list(by_name.domain.names) == sorted(mn.domain.names)
    back = by_name.reordered(other.domain.names)
    assert back.domain == other.domain
    np.testing.assert_allclose(log_potentials(back, states[:, order]), expected, atol=1e-9)
    shuffled = by_name.features.select(rng.permutation(len(by_name.features)))
    assert feature_rows(shuffled.sorted()) == feature_rows(by_name.features)


@settings(max_examples=25)
@given(generators())
def test_thinning_does_not_depend_on_the_order_of_columns(rng):
    """Equal weights everywhere, so that the search is full of ties."""
    domain = Domain.numbered([2] * 8)
    scopes = [rng.choice(8, int(rng.integers(2, 4)), replace=False) for _ in range(20)]
    terms = [(1.0, {f"v{v}": 1 for v in scope.tolist()}) for scope in scopes]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms)).merged()
    other, order = permuted(mn, rng)
    codes = rng.integers(0, 2, (30, 8))
    one = thin(mn, Table(domain, codes), max_cells=40)
    two = thin(other, Table(other.domain, codes[:, order]), max_cells=40)
    states = all_states(domain)
    np.testing.assert_allclose(
        log_potentials(one, states), log_potentials(two, states[:, order]), atol=1e-9
    )
    assert ("thin" in one.provenance) == ("thin" in two.provenance)


def test_refining_does_not_depend_on_the_order_of_columns():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (300, 7))
    for v in range(1, 7):
        codes[:, v] = np.where(rng.random(300) < 0.5, codes[:, v - 1], codes[:, v])
    holes = np.where(rng.random(codes.shape) < 0.05, -1, codes)
    domain = Domain.numbered([3] * 7)
    table, complete = Table(domain, holes), Table(domain, codes)
    mn = convert(learn_conditionals(table, "tree"), table)
    one = refine(mn, table, max_cells=60)
    expected = log_likelihood(one, complete)
    for _ in range(3):
        other, order = permuted(mn, rng)
        two = refine(other, Table(other.domain, holes[:, order]), max_cells=60)
        assert two.domain.observed == other.domain
        found = log_likelihood(two, Table(other.domain, codes[:, order]))
        assert found == pytest.approx(expected, abs=1e-9)
        assert two.provenance["refined"]["chosen"] == one.provenance["refined"]["chosen"]


def crowded(hard):
    """Many variables, each linked to many others, with a few hard constraints."""
    domain = Domain.numbered([2] * 30)
    terms = [(1 / (1 + i - j), {f"v{i}": 1, f"v{j}": 1}) for i in range(30) for j in range(i)]
    terms += [(-np.inf, {f"v{i}": 1, f"v{i + 1}": 1, f"v{i + 2}": 1}) for i in range(hard)]
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


def test_an_exhausted_search_says_so():
    mn = crowded(10)
    with pytest.raises(ModelError, match="of 10 hard constraints.* larger max_work"):
        thin(mn, max_cells=200, max_work=1000)
    with pytest.raises(ModelError, match="hard constraints alone .* larger max_cells"):
        thin(mn, max_cells=70)
    assert thin(mn, max_cells=2000).provenance["thin"]["search"] == "complete"
    soft = crowded(0)
    record = thin(soft, max_cells=200, max_work=1000).provenance["thin"]
    assert record["search"] == "stopped: max_work was reached"
    assert record["cells"] <= 200


def test_few_rows_leave_the_weights_as_they_are():
    rng = np.random.default_rng(0)
    table = Table(Domain.numbered([2] * 4), rng.integers(0, 2, (49, 4)))
    mn = convert(learn_conditionals(table, "tree"), table)
    same = refine(mn, table)
    assert same.features.weights.tobytes() == mn.features.weights.tobytes()
    record = same.provenance["weights"]
    assert record["objective"] == "closed form" and "49 rows" in record["reason"]
    more = refine(mn, table, min_rows=49)
    assert "refined" in more.provenance


def test_arrays_frames_and_generators():
    rng = np.random.default_rng(0)
    domain = Domain.numbered([2, 3, 2])
    codes = np.stack([rng.integers(0, c, 80) for c in domain.cards], axis=1)
    codes[:, 2] = np.where(rng.random(80) < 0.7, codes[:, 0], codes[:, 2])
    table = Table(domain, codes)
    frame = pd.DataFrame(codes[:, ::-1], columns=domain.names[::-1])
    mn = convert(learn_conditionals(table, "tree"), table)
    for function in (refine, learn_weights):
        for seed in (lambda: 3, lambda: np.random.default_rng(3)):
            expected = function(mn, table, random_state=seed()).log_potential(table)
            for data in (codes, frame):
                found = function(mn, data, random_state=seed()).log_potential(table)
                assert found.tobytes() == expected.tobytes()
    for data in (codes, frame):
        assert thin(mn, data, max_cells=9).provenance == thin(mn, table, max_cells=9).provenance
        assert pll(mn, data).mean == pll(mn, table).mean
    wrong = Table(Domain.numbered([2, 2]), codes[:, [0, 2]])
    for function in (refine, thin, learn_weights):
        with pytest.raises(DataError, match="differ from the model's"):
            function(mn, wrong)
    with pytest.raises(ModelError, match="convert it first"):
        refine(learn_conditionals(table, "tree"), table)


@settings(max_examples=15)
@given(generators())
def test_refined_networks_are_over_the_given_columns(rng):
    domain = random_domain(rng, 3, 5, 3)
    names = [f"x{i}" for i in rng.permutation(len(domain))]
    domain = Domain({n: v.states for n, v in zip(names, domain.variables, strict=True)})
    mn = random_markov_network(rng, domain)
    p = np.exp(normalized(log_potentials(mn, all_states(domain))))
    rows = Table(domain, all_states(domain)[rng.choice(len(p), 400, p=p)])
    refined = refine(mn, rows)
    assert refined.domain.observed == domain
    q = np.exp(normalized(refined.log_potential(all_states(domain))))
    for v, card in enumerate(domain.cards):
        share = np.bincount(rows.codes[:, v], minlength=card) / len(rows)
        np.testing.assert_allclose(np.bincount(all_states(domain)[:, v], q, card), share, atol=0.1)
