"""Feature search: gains and expectations by brute force, and the properties of each method."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import conjoin
from conjoin import Domain, Features, MarkovNetwork, Table
from conjoin.cli.main import main
from conjoin.data import joint_codes
from conjoin.errors import ModelError
from conjoin.joint import PseudoLikelihood
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.research import learn_features
from conjoin.research.feature_search.bottom_up import Generalisation
from conjoin.research.feature_search.conjunctions import (
    States,
    scopes,
)
from conjoin.research.feature_search.feature_candidates import CandidateSearch, expected
from conjoin.research.feature_search.feature_task import independent_network
from conjoin.research.feature_search.growing_network import GrowingNetwork, Room
from conjoin.research.feature_search.top_down import gain
from conjoin.scoring import log_likelihood


def random_table(seed, cards=(2, 3, 2, 4), rows=400, weighted=False):
    """Rows with dependent columns."""
    rng = np.random.default_rng(seed)
    codes = np.empty((rows, len(cards)), np.int64)
    for i, card in enumerate(cards):
        noise = rng.integers(0, card, rows)
        copied = codes[:, rng.integers(0, i)] % card if i else noise
        codes[:, i] = np.where(rng.random(rows) < 0.6, copied, noise)
    weights = rng.integers(1, 4, rows).astype(float) if weighted else None
    return Table(Domain.numbered(cards), codes, weights)


def random_network(seed, domain, terms=8):
    rng = np.random.default_rng(seed)
    listed = []
    for _ in range(terms):
        chosen = rng.choice(len(domain), rng.integers(1, 4), replace=False)
        when = {domain.names[v]: int(rng.integers(0, domain.cards[v])) for v in chosen}
        listed.append((float(rng.normal()), when))
    return MarkovNetwork(domain, Features.from_terms(domain, listed).merged())


def probabilities(network):
    """All joint states and their probabilities, by enumeration."""
    codes = joint_codes(network.domain.cards, range(len(network.domain)))
    potential = np.exp(network.log_potential(codes))
    return codes, potential / potential.sum()


@pytest.mark.parametrize("seed", range(5))
def test_the_gain_is_the_increase_of_the_likelihood_with_the_other_weights_held(seed):
    table = random_table(seed)
    network = random_network(seed, table.domain)
    feature = random_network(seed + 100, table.domain, terms=1).features
    codes, before = probabilities(network)
    holds = feature.truth(codes)[0]
    seen = feature.truth(table.codes)[0]

    def loss(weight):
        return np.log((before * np.exp(weight * holds)).sum()) - weight * seen.mean()

    found = minimize_scalar(loss, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9})
    p, q = np.array([seen.mean()]), np.array([before[holds].sum()])
    assert gain(p, q)[0] == pytest.approx(-found.fun, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_exact_expectations_are_those_of_enumeration(seed):
    table = random_table(seed)
    grown = GrowingNetwork.of(random_network(seed, table.domain))
    states = States.of(table.domain, table)
    parents = states.features()
    pairs = [(a, b) for a in range(len(parents)) for b in range(a)]
    pairs = [(a, b) for a, b in pairs if states.var[a] != states.var[b]]
    first, second = np.array(pairs).T
    candidates = states.extend(parents.select(first), second)
    codes, p = probabilities(grown.network())
    exact = candidates.truth(codes) @ p
    assert expected(grown, candidates) == pytest.approx(exact, abs=1e-12)


def test_the_best_candidates_are_found():
    """With enough draws, the first candidate is the one of the highest gain of all pairs and triples."""
    table = random_table(3, rows=2000)
    grown = GrowingNetwork.of(independent_network(table))
    room = Room(table.domain.cards, None, dependence_tree(table))
    search = CandidateSearch(grown, room, table, 4, 1 << 14, np.random.default_rng(0))
    found = search.listed(grown, gain, conjoin.sample(grown.network(), 1 << 14), 8)
    best = found.best(1, 0.0)
    states = search.states
    _, p = probabilities(grown.network())
    codes = joint_codes(table.domain.cards, range(4))
    gains = []
    for a in range(len(states)):
        for b in np.flatnonzero(states.var != states.var[a]):
            pair = states.extend(states.features().select(np.array([a])), np.array([b]))
            share = pair.truth(table.codes).mean()
            gains.append(gain(np.array([share]), pair.truth(codes) @ p)[0])
    assert best.score[0] == pytest.approx(max(gains), abs=1e-9)
    assert len(set(scopes(found.features))) == len(found.features)


def test_top_down_rounds_never_decrease_the_training_score():
    table = random_table(4, weighted=True)
    mn = learn_features(table, valid=table, prior_sd=1e6, batch=2, max_rounds=6)
    scores = [entry["train"] for entry in mn.provenance["features"]["rounds"]]
    assert len(scores) > 3
    assert (np.diff(scores) > -1e-6).all()


def test_top_down_approaches_the_distribution_of_many_rows():
    domain = Domain.numbered([2, 3, 2])
    truth = random_network(5, domain, terms=12)
    rows = conjoin.sample(truth, 50_000, random_state=1)
    mn = learn_features(rows)
    _, p = probabilities(truth)
    _, q = probabilities(mn)
    assert (p * np.log(p / q)).sum() < 1e-3


def test_the_budget_of_cells_is_kept():
    rng = np.random.default_rng(0)
    hidden = rng.random(500) < 0.5
    flips = rng.random((500, 12)) < 0.2
    rows = (hidden[:, None] ^ flips).astype(int)
    small = learn_features(rows, max_cells=100)
    large = learn_features(rows)
    assert (
        conjoin.inference.forecast(small).largest <= 100 < conjoin.inference.forecast(large).largest
    )
    assert log_likelihood(large, rows).mean > log_likelihood(small, rows).mean


@pytest.mark.parametrize("seed", range(3))
def test_bottom_up_gains_are_lower_bounds(seed):
    """With the other weights held, the pseudo-likelihood can increase by at least the gain."""
    table = random_table(seed, cards=(2, 3, 2, 2), rows=200)
    grown = GrowingNetwork.of(random_network(seed, table.domain))
    search = Generalisation(grown, table)
    parts = np.unique(search.generalised(search.tested)[1], axis=0)
    parts = parts[parts.sum(axis=1) >= 2]
    found = search.features(parts)
    for f, bound in enumerate(search.gains(parts)):
        longer = grown.extended(found.select(np.array([f]))).network()
        score = PseudoLikelihood(longer.form, table)
        weights = longer.features.weights.copy()

        def loss(w, score=score, weights=weights):
            return -score.value(np.append(weights[:-1], w))

        best = minimize_scalar(loss, bounds=(-20, 20), method="bounded")
        assert -1e-6 <= bound <= loss(0.0) - best.fun + 1e-4


def test_bottom_up_improves_with_every_round_that_it_keeps():
    table = random_table(16, rows=2000)
    mn = learn_features(table, "bottom-up", valid=table)
    scores = [entry["held_out"] for entry in mn.provenance["features"]["rounds"]]
    assert len(scores) > 1
    assert scores[1] > scores[0]
    assert (np.diff(scores[:-1]) > 0).all()


METHODS = ["top-down", "bottom-up"]


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_rows_and_columns_does_not_matter(method):
    table = random_table(8, cards=(2, 3, 2, 2, 3), weighted=True)
    mn = learn_features(table, method)
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(len(table)), rng.permutation(len(table.domain))
    names = [table.domain.names[i] for i in columns]
    mixed = Table(table.domain, table.codes[rows], table.weights[rows]).reordered(names)
    other = learn_features(mixed, method, n_jobs=2)
    assert other.domain.names == tuple(names)
    codes = joint_codes(table.domain.cards, range(5))
    same = Table(table.domain, codes).reordered(names)
    assert other.log_potential(same) == pytest.approx(mn.log_potential(codes), abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_missing_values_constant_columns_and_fractional_weights(method):
    table = random_table(9, cards=(2, 3, 1, 2), weighted=True)
    codes = table.codes.astype(np.int64)
    codes[np.random.default_rng(0).random(codes.shape) < 0.1] = -1
    rows = Table(table.domain, codes, table.weights / 3)
    mn = learn_features(rows, method)
    assert np.isfinite(log_likelihood(mn, table).mean)
    again = learn_features(rows, method)
    assert np.array_equal(mn.features.weights, again.features.weights)


def test_errors_say_what_to_do():
    table = random_table(0)
    with pytest.raises(ModelError, match="'top-dwon'.*'top-down'"):
        learn_features(table, "top-dwon")
    with pytest.raises(ModelError, match="too few rows"):
        learn_features(Table(table.domain, table.codes[:1]))


@pytest.mark.parametrize("method", METHODS)
def test_the_command(method, tmp_path, capsys):
    table = random_table(10)
    conjoin.write_table(table, tmp_path / "rows.csv")
    command = ["learn", str(tmp_path / "rows.csv"), "--features", method]
    assert main([*command, "-o", str(tmp_path / "a.mn"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    mn = conjoin.load(tmp_path / "a.mn")
    assert told["features"] == len(mn.features) > 0
    assert main([*command, "-o", str(tmp_path / "a.conjoin")]) == 0
    assert f"features, {method}" in capsys.readouterr().out
    assert main([*command, "-o", str(tmp_path / "a.dn")]) == 1
    assert "Markov network" in capsys.readouterr().err
    assert main([*command, "--kappa", "0.1", "-o", str(tmp_path / "a.mn")]) == 1
    assert "--kappa is for conditionals" in capsys.readouterr().err
