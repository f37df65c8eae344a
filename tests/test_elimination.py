"""The elimination engine against sums over all states: random networks, evidence and orders."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import BayesianNetwork, Domain, Features, MarkovNetwork, TableCPD
from conjoin.errors import ModelError
from conjoin.inference import Completion, Plan, find_order, terms_of
from conjoin.inference.prepared_rows import prepared
from conjoin.inference.terms import tables_and_features, with_dense_tables
from conjoin.kernels.elimination_layouts import MARGINALS, MAXIMUM, SUM
from conjoin.models import TableFactor
from conjoin.models.feature_tables import feature_tables
from reference import all_states, feature_rows, log_potentials, normalized
from strategies import generators, random_domain, random_markov_network


def random_network(rng):
    """A network of tables, trees and features, some with off values, some impossible."""
    domain = random_domain(rng, 2, 5, 4)
    mn = random_markov_network(rng, domain)
    features = mn.features
    if rng.random() < 0.4:
        shape = features.indices.shape
        off = np.where(rng.random(shape) < 0.5, rng.uniform(0, 1, shape), 0.0)
        features = replace(features, off=off)
    if rng.random() < 0.4:
        weights = np.where(rng.random(len(features)) < 0.2, -np.inf, features.weights)
        features = replace(features, weights=weights)
    return MarkovNetwork(domain, features, mn.factors)


def feature_values(features, states):
    """Each feature without its weight on each state, test by test."""
    result = np.ones((len(states), len(features)))
    for f, (_, tests) in enumerate(feature_rows(features)):
        for var, (inside, off) in tests.items():
            result[:, f] *= np.where(np.isin(states[:, var], list(inside)), 1.0, off)
    return result


@settings(max_examples=60)
@given(generators())
def test_messages_agree_with_sums_over_all_states(rng):
    mn = random_network(rng)
    domain, states = mn.domain, all_states(mn.domain)
    values = log_potentials(mn, states)
    possible = np.flatnonzero(values > -np.inf)
    if not len(possible):
        return
    row = states[rng.choice(possible)].astype(np.int64)
    single = domain.cards == 1
    known = np.flatnonzero((rng.random(len(domain)) < 0.4) | single)
    agree = np.where((states[:, known] == row[known]).all(1), values, -np.inf)
    tables, features = tables_and_features(mn)
    if rng.random() < 0.5:
        tables, features = with_dense_tables(tables, features)
    terms = terms_of(tables, features)
    plan = Plan(terms, find_order(domain.cards, terms.first, terms.var, known, 1e9))
    slots = plan.slots(row[known])
    log_z = np.logaddexp.reduce(agree)
    assert plan.run(slots, SUM)[0][0] == pytest.approx(log_z, abs=1e-9)
    found, flat, _ = plan.run(slots, MARGINALS)
    assert found[0] == pytest.approx(log_z, abs=1e-9)
    best, _, chosen = plan.run(slots, MAXIMUM)
    assert best[0] == pytest.approx(agree.max(), abs=1e-9)
    p = np.exp(normalized(agree))
    free = np.flatnonzero(plan.place >= 0)
    whole = row.copy()
    whole[free] = chosen[0, plan.place[free]]
    assert agree[(states == whole).all(1)][0] == pytest.approx(agree.max(), abs=1e-9)
    for v in free.tolist():
        first = plan.marginal_first[plan.place[v]]
        want = np.bincount(states[:, v], p, domain.cards[v])
        np.testing.assert_allclose(flat[0, first : first + len(want)], want, atol=1e-9)
    log_z_again, shares, means = plan.expect(slots[0], terms.values, terms.weights)
    assert log_z_again == pytest.approx(log_z, abs=1e-9)
    np.testing.assert_allclose(means, p @ feature_values(features, states), atol=1e-9)
    for base, table in zip(terms.bases.tolist(), tables, strict=True):
        cell = np.ravel_multi_index(
            (np.zeros(len(states), np.int64), *(states[:, v] for v in table.variables)),
            (1, *table.table.shape),
        )
        want = np.bincount(cell, p, table.table.size)
        np.testing.assert_allclose(shares[base:][: want.size], want, atol=1e-9)


@settings(max_examples=5)
@given(generators())
def test_draws_have_the_frequencies_of_the_states(rng):
    mn = random_network(rng)
    domain, states = mn.domain, all_states(mn.domain)
    values = log_potentials(mn, states)
    if np.isneginf(values).all():
        return
    p = np.exp(normalized(values))
    terms = terms_of(*tables_and_features(mn))
    single = np.flatnonzero(domain.cards == 1)
    plan = Plan(terms, find_order(domain.cards, terms.first, terms.var, single, 1e9))
    uniform = np.random.default_rng(0).random((20_000, max(1, plan.n_cliques)))
    drawn = np.zeros((20_000, len(domain)), np.int64)
    free = np.flatnonzero(plan.place >= 0)
    drawn[:, free] = plan.draw(plan.slots([])[0], uniform)[1][:, plan.place[free]]
    number = np.ravel_multi_index(tuple(states.T.astype(np.int64)), domain.cards)
    place = np.empty(len(states), np.int64)
    place[number] = np.arange(len(states))
    seen = np.bincount(
        place[np.ravel_multi_index(tuple(drawn.T), domain.cards)], minlength=len(states)
    )
    error = np.sqrt(np.maximum(p * (1 - p), 1e-9) / len(drawn))
    assert (np.abs(seen / len(drawn) - p) < 6 * error + 2e-4).all() and not seen[p == 0].any()


@settings(max_examples=40)
@given(generators())
def test_rows_agree_with_sums_over_all_states(rng):
    """Every row with its own missing values, on the tree of the network and reduced row by row."""
    mn = random_network(rng)
    states = all_states(mn.domain)
    values = log_potentials(mn, states)
    possible = np.flatnonzero(values > -np.inf)
    if not len(possible):
        return
    codes = states[rng.choice(possible, 8)].astype(np.uint8)
    codes[rng.random(codes.shape) < 0.6] = 255
    target = int(rng.integers(len(mn.domain)))
    for limits in ({}, {"max_network_cells": 1}):
        rows = Completion(mn, codes, **limits)
        sums, modes, marginals = rows.log_sums()[0], rows.modes()[0], rows.marginals(target)[0]
        draws = rows.draws(2)
        for r, row in enumerate(codes):
            fits = ((states == row) | (row >= mn.domain.cards) | (mn.domain.cards == 1)).all(1)
            agree = np.where(fits, values, -np.inf)
            assert sums[r] == pytest.approx(np.logaddexp.reduce(agree), abs=1e-9)
            assert agree[(states == modes[r]).all(1)][0] == pytest.approx(agree.max(), abs=1e-9)
            p = np.exp(normalized(agree))
            want = np.bincount(states[:, target], p, mn.domain.cards[target])
            np.testing.assert_allclose(marginals[r], want, atol=1e-9)
            for drawn in draws[:, r]:
                assert agree[(states == drawn).all(1)][0] > -np.inf


def network_with_hidden_column(rng):
    """A thin network of tables that all have one more variable, the last, and a few features."""
    cards = [*rng.integers(2, 5, int(rng.integers(2, 5))).tolist(), int(rng.integers(3, 9))]
    domain = Domain({f"x{v}": range(card) for v, card in enumerate(cards)})
    last = len(cards) - 1
    scopes = [(last,)] + [
        (*rng.choice(v, min(v, 2), replace=False).tolist(), v, last) for v in range(last)
    ]
    factors = [TableFactor(s, rng.normal(0, 2, [cards[v] for v in s])) for s in scopes]
    if rng.random() < 0.5:  # impossible states
        table = factors[-1].table
        table[rng.random(table.shape) < 0.2] = -np.inf
    terms = [(rng.normal(), {"x0": 1, f"x{last}": [0, 2]}), (rng.normal(), {"x0": 0, "x1": 1})]
    return MarkovNetwork(domain, Features.from_terms(domain, terms), factors)


@settings(max_examples=40)
@given(generators())
def test_rows_of_networks_with_a_hidden_column(rng):
    mn = network_with_hidden_column(rng)
    assert prepared(mn).has_large_tables and prepared(mn).order is not None
    cards, states = mn.domain.cards, all_states(mn.domain)
    values = log_potentials(mn, states)
    codes = states[rng.choice(np.flatnonzero(values > -np.inf), 6)].astype(np.uint8)
    codes[rng.random(codes.shape) < 0.5] = 255
    codes[:, -1] = 255
    codes[1:] = np.where(rng.random(codes[1:].shape) < 0.1, codes[:1], codes[1:])  # some coincide
    rows = Completion(mn, codes)
    agree = np.array(
        [np.where(((states == r) | (r == 255)).all(1), values, -np.inf) for r in codes]
    )
    if np.isneginf(agree).all(1).any():
        with pytest.raises(ModelError, match="impossible"):
            rows.modes()
        return
    np.testing.assert_allclose(rows.log_sums()[0], np.logaddexp.reduce(agree, 1), atol=1e-9)
    p = np.exp([normalized(a) for a in agree])
    modes, likely = rows.modes()[0], rows.likely()[0]
    for v, card in enumerate(cards.tolist()):
        want = np.array([np.bincount(states[:, v], q, card) for q in p])
        np.testing.assert_allclose(rows.marginals(v)[0], want, atol=1e-9)
        np.testing.assert_allclose(want[np.arange(6), likely[:, v]], want.max(1), atol=1e-9)
    number = np.ravel_multi_index(tuple(states.T.astype(np.int64)), cards)
    place = np.argsort(number)
    at = place[np.ravel_multi_index(tuple(modes.T.astype(np.int64)), cards)]
    np.testing.assert_allclose(agree[np.arange(6), at], agree.max(1), atol=1e-9)
    draws = rows.draws(2000)[:, 0].astype(np.int64)
    seen = (
        np.bincount(place[np.ravel_multi_index(tuple(draws.T), cards)], minlength=len(states))
        / 2000
    )
    error = np.sqrt(np.maximum(p[0] * (1 - p[0]), 1e-9) / 2000)
    assert (np.abs(seen - p[0]) < 6 * error + 2e-3).all() and not seen[p[0] == 0].any()
    alone = Completion(mn, codes[:1]).draws(2)[:, 0]  # the other rows make no difference
    if (codes[1:] != codes[0]).any(1).all():
        np.testing.assert_array_equal(alone, rows.draws(2)[:, 0])


@settings(max_examples=40)
@given(generators())
def test_features_become_the_cells_of_tables(rng):
    features = random_network(rng).features
    n = len(features.tests.cards)
    rows = [f for f in range(len(features)) if rng.random() < 0.7]
    half = len(rows) // 2
    groups = [np.array(rows[:half], np.int64), np.array(rows[half:], np.int64)]
    scopes = []
    for which in groups:
        tested = {
            int(v) for f in which for v in features.entry_var[slice(*features.indptr[f : f + 2])]
        }
        scope = sorted(tested | set(rng.choice(n, 1).tolist()))
        scopes.append(tuple(rng.permutation(scope).tolist()))
    found = feature_tables(features, scopes, groups)
    dense = found.matrix.toarray()
    for i, (scope, which) in enumerate(zip(scopes, groups, strict=True)):
        states = np.zeros((int(np.prod(found.shapes[i])), n), np.int64)
        states[:, list(scope)] = np.array(list(np.ndindex(*found.shapes[i])))
        want = feature_values(features, states)
        want[:, np.setdiff1d(np.arange(len(features)), which)] = 0
        np.testing.assert_allclose(dense[found.first[i] : found.first[i + 1]], want, atol=1e-12)


@pytest.mark.parametrize("kind", ["Markov network", "Bayesian network"])
def test_what_is_kept_for_rows_goes_with_the_network(kind):
    """Answering for rows keeps plans; they must not keep the network alive."""
    domain = Domain.numbered([2, 3])
    table = TableCPD(domain.cards, 1, [0], np.log(np.full((2, 3), 1 / 3)))
    model = BayesianNetwork(domain, [TableCPD(domain.cards, 0, [], np.log([0.4, 0.6])), table])
    if kind == "Markov network":
        model = model.to_markov_network()
    Completion(model, np.array([[0, 255], [255, 255]], np.uint8)).marginals(0)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
