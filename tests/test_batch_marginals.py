"""Marginals of many rows of evidence at once, against enumeration and the matrix of a sweep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as with_random
from hypothesis import settings

from conjoin import DependencyNetwork, Domain, Features, MarkovNetwork, Table
from conjoin.inference import BatchMarginals, Settings
from conjoin.scoring import cmll, random_sets
from reference import all_states, feature_rows, log_potentials, normalized
from strategies import (
    generators,
    random_dependency_network,
    random_domain,
    random_features,
    random_markov_network,
)


def binary_domain(n):
    return Domain({f"x{i}": [0, 1] for i in range(n)})


def mixed_domain(n):
    return Domain({f"x{i}": list(range(2 + i % 3)) for i in range(n)})


def random_network(rng, domain, count, longest=5):
    terms = []
    for _ in range(count):
        scope = rng.choice(len(domain), int(rng.integers(1, longest + 1)), replace=False)
        when = {}
        for v in scope.tolist():
            card = int(domain.cards[v])
            some = rng.choice(card, int(rng.integers(1, card)), replace=False)
            when[f"x{v}"] = {int(s) for s in some}
        terms.append((float(rng.normal() * 0.7), when))
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


def random_codes(rng, domain, rows):
    return np.stack([rng.integers(0, c, rows) for c in domain.cards], axis=1).astype(np.uint8)


def agreeing(domain, row, free):
    """The states that have the row's values of all variables that are not free."""
    states = all_states(domain)
    known = [v for v in range(len(domain)) if v not in free]
    return states[(states[:, known] == row[known]).all(axis=1)]


def marginals_of_joint(mn, row, free):
    """The marginals of the free variables, side by side, from the potentials of all states."""
    states = agreeing(mn.domain, row, free)
    p = np.exp(normalized(log_potentials(mn, states)))
    return np.concatenate(
        [np.bincount(states[:, v], weights=p, minlength=mn.domain.cards[v]) for v in free]
    )


def marginals_of_sweeps(dn, row, free):
    """What sweeps in ascending order converge to, from the matrix of a sweep over all states."""
    states = agreeing(dn.domain, row, free)
    number = {tuple(state): k for k, state in enumerate(states.tolist())}
    table = Table(dn.domain, states)
    steps = []
    for v in free:
        conditional = np.exp(dn.log_conditional(dn.domain.names[v], table))
        step = np.zeros((len(states), len(states)))
        for k, state in enumerate(states.tolist()):
            for s in range(int(dn.domain.cards[v])):
                step[k, number[(*state[:v], s, *state[v + 1 :])]] += conditional[k, s]
        steps.append(step)
    p = np.full(len(states), 1.0 / len(states))
    for _ in range(2000):
        for step in steps:
            p = p @ step
    parts = []
    for v, step in zip(free, steps, strict=True):
        p = p @ step
        parts.append(np.bincount(states[:, v], weights=p, minlength=dn.domain.cards[v]))
    return np.concatenate(parts)


def check(made, cards, free, codes, expected):
    """Exact values to 1e-9; sampled ones within five of their stated errors."""
    counters = np.random.default_rng(5).integers(0, 2**64, len(codes), dtype=np.uint64)
    chosen = made.settings
    mean, batch, exact = made.marginals(codes, counters)
    sure = np.repeat(exact, cards[free], axis=1)
    assert mean[sure] == pytest.approx(expected[sure], abs=1e-9)
    length = chosen.samples // chosen.batches
    means = batch[:, :, : len(codes)].transpose(0, 2, 1) / length
    assert means.mean(axis=0)[~sure] == pytest.approx(mean[~sure], abs=1e-5)
    error = means.std(axis=0, ddof=1) / np.sqrt(chosen.batches)
    assert error[~sure].max(initial=0) < 0.03
    assert (np.abs(mean - expected)[~sure] <= 5 * error[~sure] + 2e-4).all()
    return exact


SAMPLED = Settings.of(200, 10_000, enumerate_small=False)


def batch_marginals(model, free, chosen):
    return BatchMarginals(model.form, np.array(free), np.arange(len(model.domain)), chosen)


@settings(max_examples=30)
@with_random(generators())
def test_weights_of_rows(rng):
    """The weights of units are those of the conditioned features, row by row."""
    domain = random_domain(rng, 3, 5)
    features = random_features(rng, domain, count=20)
    if rng.random() < 0.5:
        shape = features.indices.shape
        off = np.where(rng.random(shape) < 0.5, rng.uniform(-0.5, 1, shape), 0.0)
        features = Features(
            features.tests, features.indptr, features.indices, features.weights, off
        )
    mn = MarkovNetwork(domain, features)
    free = np.sort(rng.choice(len(domain), 2, replace=False))
    made = batch_marginals(mn, free, SAMPLED)
    codes = random_codes(rng, domain, 7)
    found, _, _ = made.unit_weights(codes)
    names = [
        tuple(sorted((v, tuple(sorted(s)), o) for v, (s, o) in tests.items()))
        for _, tests in feature_rows(made.units.features)
    ]
    for r, row in enumerate(codes):
        given = {v: int(row[v]) for v in range(len(domain)) if v not in free}
        expected = {}
        for weight, tests in feature_rows(mn.form.features.condition(given)):
            if tests:
                key = tuple(sorted((v, tuple(sorted(s)), o) for v, (s, o) in tests.items()))
                expected[key] = expected.get(key, 0.0) + weight
        total = dict.fromkeys(names, 0.0)
        for name, weight in zip(names, found[:, r].tolist(), strict=True):
            total[name] += weight
        assert set(expected) <= set(total)
        for name, weight in total.items():
            assert weight == pytest.approx(expected.get(name, 0.0), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("make_domain", [binary_domain, mixed_domain])
@pytest.mark.parametrize("directed", [False, True])
def test_marginals_of_a_joint(seed, pairs, make_domain, directed):
    rng = np.random.default_rng(seed)
    domain = make_domain(9)
    count = 600 if pairs else 150  # most pairs of states get a weight
    mn = random_network(rng, domain, count, longest=2 if pairs else 5)
    model = DependencyNetwork.from_markov_network(mn) if directed else mn
    free = [0, 2, 3, 5, 8]
    made = batch_marginals(model, free, SAMPLED)
    different = random_codes(rng, domain, 24)
    which = np.arange(60) % 24
    codes = different[which]
    expected = np.stack([marginals_of_joint(mn, row, free) for row in different])[which]
    check(made, domain.cards, free, codes, expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("domain", [binary_domain(6), mixed_domain(5)])
def test_dependency_networks_without_a_joint(seed, domain):
    rng = np.random.default_rng(seed)
    dn = random_dependency_network(rng, domain, kinds=("tree", "table"))
    free = [0, 1, 3, 4]
    made = batch_marginals(dn, free, SAMPLED)
    codes = random_codes(rng, domain, 12)
    expected = np.stack([marginals_of_sweeps(dn, row, free) for row in codes])
    check(made, domain.cards, free, codes, expected)


@settings(max_examples=25)
@with_random(generators())
def test_small_components_are_enumerated(rng):
    mn = random_markov_network(rng, random_domain(rng, 3, 5))
    free = np.sort(rng.choice(len(mn.domain), 3, replace=False)).tolist()
    made = batch_marginals(mn, free, Settings.of(100, 1000))
    assert not len(made.order)
    codes = random_codes(rng, mn.domain, 9)
    expected = np.stack([marginals_of_joint(mn, row, free) for row in codes])
    assert check(made, mn.domain.cards, free, codes, expected).all()


@settings(max_examples=25)
@with_random(generators())
def test_variables_that_depend_on_nothing_are_exact(rng):
    domain = binary_domain(7) if rng.random() < 0.5 else mixed_domain(7)
    mn = random_network(rng, domain, 9, longest=4)
    free = [1, 3, 4, 5]
    made = batch_marginals(mn, free, Settings.of(5, 50, enumerate_small=False))
    codes = random_codes(rng, mn.domain, 5)
    mean, _, exact = made.marginals(codes, np.arange(5, dtype=np.uint64))
    for r, row in enumerate(codes):
        given = {v: int(row[v]) for v in range(len(mn.domain)) if v not in free}
        left = [tests for w, tests in feature_rows(mn.form.features.condition(given)) if w != 0]
        tied = {v for tests in left if len(tests) > 1 for v in tests}
        assert all(exact[r][k] for k, v in enumerate(free) if v not in tied)
        sure = np.repeat(exact[r], domain.cards[free])
        expected = marginals_of_joint(mn, row, free)
        assert mean[r][sure] == pytest.approx(expected[sure], abs=1e-9)


@pytest.mark.parametrize("longest", [2, 4])
@pytest.mark.parametrize("domain", [binary_domain(40), mixed_domain(40)])
def test_rows_do_not_depend_on_their_block(longest, domain):
    rng = np.random.default_rng(3)
    mn = random_network(rng, domain, 800, longest=longest)
    made = batch_marginals(mn, list(range(0, 40, 2)), Settings.of(5, 50))
    codes = random_codes(rng, domain, 64)
    counters = rng.integers(0, 2**64, 64, dtype=np.uint64)
    mean, batch, exact = made.marginals(codes, counters)
    for some in (slice(0, 1), slice(30, 37), slice(45, 64)):
        part = made.marginals(codes[some], counters[some])
        rows = some.stop - some.start
        assert part.mean.tobytes() == mean[some].tobytes()
        assert part.batch[:, :, :rows].tobytes() == batch[:, :, some].tobytes()
        assert (part.exact == exact[some]).all()


def in_groups(rng, cards, groups):
    """A network of unconnected groups of variables; the network and those of the groups."""
    domain = Domain(
        {f"{g}.{i}": list(range(c)) for g in range(groups) for i, c in enumerate(cards)}
    )
    terms, parts = [], []
    for g in range(groups):
        names = [f"{g}.{i}" for i in range(len(cards))]
        own = Domain({name: list(range(c)) for name, c in zip(names, cards, strict=True)})
        features = random_features(rng, own, count=25)
        parts.append(MarkovNetwork(own, features))
        for w, tests in feature_rows(features):
            terms.append((w, {names[v]: states for v, (states, _) in tests.items()}))
    return MarkovNetwork(domain, Features.from_terms(domain, terms)), parts


@pytest.mark.parametrize("cards", [(2, 2, 2, 2, 2), (2, 3, 2, 4)])
def test_cmll_of_many_variables(cards):
    rng = np.random.default_rng(4)
    mn, parts = in_groups(rng, cards, 40)
    table = Table(mn.domain, random_codes(rng, mn.domain, 150))
    sets = random_sets(mn.domain, 2)
    free = sorted(mn.domain.index(name) for name in sets[0])
    assert len(free) > 64
    assert not len(batch_marginals(mn, free, Settings.of(100, 1000)).order)
    result = cmll(mn, table, sets=sets)
    expected = np.zeros(len(table))
    for g, part in enumerate(parts):
        own = table.codes[:, g * len(cards) : (g + 1) * len(cards)]
        inside = [[name for name in some if name in part.domain.names] for some in sets]
        small = cmll(part, Table(part.domain, own), sets=[some for some in inside if some])
        assert small.exact == 1
        expected += small.by_row
    assert result.exact == 1  # each group is a component of few states
    assert result.by_row == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("cards", [(2, 2, 2, 2, 2), (2, 3, 2, 4)])
def test_many_variables_are_sampled_without_error(cards):
    """Groups tied by one weak chain: too many states to enumerate; the exact answer is near."""
    rng = np.random.default_rng(4)
    mn, _ = in_groups(rng, cards, 4)
    table = Table(mn.domain, random_codes(rng, mn.domain, 12))
    sets = random_sets(mn.domain, 2)
    exact = cmll(mn, table, sets=sets)
    free = np.array(sorted(mn.domain.index(name) for name in sets[0]))
    made = batch_marginals(mn, free, Settings.of(200, 5000, enumerate_small=False))
    codes = table.codes
    expected = batch_marginals(mn, free, Settings.of(100, 1000)).marginals(
        codes, np.zeros(len(codes), np.uint64)
    )
    assert exact.exact == 1 and expected.exact.all()
    check(made, mn.domain.cards, free, codes, expected.mean)


def test_hard_constraints_and_off_values_are_sampled():
    rng = np.random.default_rng(0)
    domain = binary_domain(8)
    terms = [(-np.inf, {"x0": 0, "x1": 0}), (0.5, {"x1": 1, "x2": 1}), (0.7, {"x2": 0, "x3": 1})]
    hard = Features.from_terms(domain, terms)
    off = rng.random(len(hard.indices))
    soft = Features(hard.tests, hard.indptr, hard.indices, np.ones(3), off)
    for features in (hard, soft):
        mn = MarkovNetwork(domain, features)
        free = [0, 1, 2]
        made = batch_marginals(mn, free, SAMPLED)
        codes = random_codes(rng, domain, 4)
        expected = np.stack([marginals_of_joint(mn, row, free) for row in codes])
        check(made, domain.cards, free, codes, expected)


def test_a_network_of_no_features():
    domain = binary_domain(70)
    mn = MarkovNetwork(domain, Features.empty(domain.cards))
    result = cmll(mn, Table(domain, np.zeros((2, 70), np.uint8)), sets=1)
    assert result.exact == 1
    assert result.mean == pytest.approx(70 * np.log(0.5), abs=1e-9)
