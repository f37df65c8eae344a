"""Feature search: gains and expectations by brute force, and the properties of each method."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import conjoin
from conjoin import Domain, Features, MarkovNetwork, Table, Variable, learn_features
from conjoin.cli.main import main
from conjoin.data.table import joint_codes
from conjoin.errors import ModelError
from conjoin.feature_search.bottom_up import Generalisation
from conjoin.feature_search.candidates import CandidateSearch
from conjoin.feature_search.conjunctions import States, new_conjunctions, pair_shares, scopes
from conjoin.feature_search.generate_select import frequent, generated
from conjoin.feature_search.growing_network import GrowingNetwork
from conjoin.feature_search.task import independent_network
from conjoin.feature_search.top_down import gain
from conjoin.feature_search.weight_methods import ByLikelihood, ByPseudoLikelihood
from conjoin.joint.pseudo_likelihood import PseudoLikelihood
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


def test_gains_at_the_ends():
    p, q = np.array([0.0, 1.0, 0.0, 0.3]), np.array([0.5, 0.5, 0.0, 0.3])
    assert gain(p, q) == pytest.approx([np.log(2), np.log(2), 0, 0])


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
    exact = ByLikelihood(grown).expected(grown, candidates, table)
    codes, p = probabilities(grown.network())
    assert exact == pytest.approx(candidates.truth(codes) @ p, abs=1e-12)
    gibbs = ByPseudoLikelihood()
    draws = gibbs.draws(grown, 20_000, 0)
    assert gibbs.expected(grown, candidates, draws) == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("weighted", [False, True])
def test_shares_are_counted_as_by_hand(weighted):
    table = random_table(1, weighted=weighted)
    states = States.of(table.domain, table)
    parents = random_network(2, table.domain).features
    weights = np.ones(len(table)) if table.weights is None else table.weights
    held, seen = parents.truth(table.codes), states.matrix(table.codes)
    expected = [[weights[h & s].sum() for s in seen.T] for h in held] / weights.sum()
    assert pair_shares(parents, states, table) == pytest.approx(expected, abs=1e-6)


def test_states_leave_out_the_most_frequent_one():
    table = random_table(0)
    states = States.of(table.domain, table)
    assert len(states) == (table.domain.cards - 1).sum()
    for v, s in zip(states.var, states.state, strict=True):
        assert table.counts(v)[s] <= table.counts(v).max()


def test_new_conjunctions():
    domain = Domain.numbered([2, 2, 2])
    known = Features.from_terms(domain, [(1.0, {"v0": 1, "v1": 1})])
    found = Features.from_terms(
        domain, [(0, {"v1": 1, "v0": 1}), (0, {"v0": 1}), (0, {"v0": 1}), (0, {"v0": 0})]
    )
    assert new_conjunctions(known, found).tolist() == [1, 3]


def test_the_best_candidates_are_found():
    """With enough draws, the first candidate is the one of the highest gain of all pairs and triples."""
    table = random_table(3, rows=2000)
    grown = GrowingNetwork.of(independent_network(table))
    method = ByLikelihood(grown)
    search = CandidateSearch(grown, table, 4, 1 << 14, np.random.default_rng(0))
    found = search.listed(grown, method, gain, method.draws(grown, 1 << 14, 0), 8)
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


@pytest.mark.parametrize("objective", ["likelihood", "pseudo-likelihood"])
def test_top_down_rounds_never_decrease_the_training_score(objective):
    table = random_table(4, weighted=True)
    mn = learn_features(
        table, valid=table, objective=objective, prior_sd=1e6, batch=2, max_rounds=6
    )
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


def test_a_network_with_a_hidden_column_is_tilted():
    """The weights of the start stay, and the likelihood increases."""
    table = random_table(6, cards=(2, 2, 3))
    domain = Domain([*table.domain.variables, Variable("h", ("x", "y"), hidden=True)])
    terms = [(0.7, {"v0": 1, "h": "x"}), (-0.5, {"v1": 1, "h": "x"}), (0.4, {"v2": 2, "h": "y"})]
    start = MarkovNetwork(domain, Features.from_terms(domain, terms))
    mn = learn_features(table, start=start, valid=table)
    assert mn.domain == domain
    assert log_likelihood(mn, table).mean > log_likelihood(start, table).mean + 0.05
    kept = mn.features.weights[mn.features.lengths > 0]
    assert set(np.round([0.7, -0.5, 0.4], 9)) <= set(np.round(kept, 9))
    recorded = mn.provenance["features"]["rounds"]
    best = max(entry["held_out"] for entry in recorded)
    assert log_likelihood(mn, table).mean == pytest.approx(best, abs=1e-9)


def test_a_network_to_start_from_is_extended():
    table = random_table(7)
    start = random_network(7, table.domain)
    mn = learn_features(table, start=start, valid=table, prior_sd=100.0)
    assert log_likelihood(mn, table).mean > log_likelihood(start, table).mean
    unknown = learn_features(table, start=start)
    assert unknown.domain == table.domain


def test_staged_weights_satisfy_the_conditions_of_the_l1_penalty():
    """Gradients equal the penalty where weights are not 0, and do not exceed it elsewhere."""
    table, penalty = random_table(11, rows=1000, weighted=True), 20.0
    mn = learn_features(
        table, "staged", valid=table, penalty=penalty, tolerance=1e-12, max_iterations=2000,
        max_stages=40, draws=1 << 15,
    )  # fmt: skip
    codes, p = probabilities(mn)
    rows = table.weights.sum()

    def slopes(features):
        return features.sums(table.codes, table.weights) - rows * (features.truth(codes) @ p)

    features = mn.features
    assert len(features) > 6
    assert (features.weights != 0).all()
    assert slopes(features) == pytest.approx(penalty * np.sign(features.weights), abs=0.02)
    states = States.of(table.domain, table)
    singles = states.features()
    assert np.abs(slopes(singles)).max() <= penalty + 0.02
    for parents in (singles, features):  # whatever a search from here could still introduce
        for f in range(len(parents)):
            parent = parents.select(np.array([f]))
            free = np.flatnonzero(~np.isin(states.var, parent.entry_var))
            longer = states.extend(parents.select(np.full(len(free), f)), free)
            assert np.abs(slopes(longer)).max(initial=0) <= 1.06 * penalty


def test_a_larger_penalty_keeps_fewer_features():
    table = random_table(12)
    sizes = [len(learn_features(table, "staged", penalty=c).features) for c in (2.0, 20.0, 200.0)]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("weighted", [False, True])
def test_generated_conjunctions_are_parts_of_rows(weighted):
    table = random_table(13, cards=(2, 3, 2, 4, 2), rows=60, weighted=weighted)
    found, count = generated(table, 5000, 4, np.random.default_rng(0))
    assert len(found) == len(count)
    assert (
        np.diff(np.sort(new_conjunctions(Features.empty(table.domain.cards), found))) == 1
    ).all()
    assert found.lengths.min() >= 2
    assert found.lengths.max() <= 4
    assert found.tests.members().sum(axis=1).max() == 1  # one state per test
    assert found.truth(table.codes).any(axis=1).all()
    assert 0.5 * 5000 < count.sum() <= 5000
    few = frequent(found, count, 20, 30)
    assert 0 < len(few) <= 30
    assert len(frequent(found, count, 10**6, 30)) == 0


def test_selected_weights_satisfy_the_conditions_of_the_l1_penalty():
    table, penalty = random_table(14, rows=1000), 10.0
    mn = learn_features(
        table, "generate-select", valid=table, penalty=penalty, candidates=5000, max_iterations=2000,
        prior_sd=1e-6,
    )  # fmt: skip
    record = mn.provenance["features"]
    assert not record["learned_again"]
    assert len(mn.features) < record["candidates"] <= record["generated"]
    slope = PseudoLikelihood(mn.form, table).value_and_gradient(mn.features.weights)[1]
    single = mn.features.lengths == 1
    assert np.abs(slope[single]).max() < 1.0
    signs = np.sign(mn.features.weights)
    assert slope[~single] == pytest.approx(penalty * signs[~single], abs=1.0)


def test_generating_finds_exclusive_columns():
    """Two columns that are never 1 together: no row has the conjunction, but some have parts of it."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 2000)
    rows = np.stack([which == 0, which == 1, rng.random(2000) < 0.5], axis=1).astype(int)
    mn = learn_features(rows, "generate-select", candidates=5000)
    assert mn.conditional("v0", {"v0": 0, "v1": 1, "v2": 0})[0, 1] < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_bottom_up_gains_are_lower_bounds(seed):
    """With the other weights held, the pseudo-likelihood can increase by at least the gain."""
    table = random_table(seed, cards=(2, 3, 2, 2), rows=200)
    grown = GrowingNetwork.of(random_network(seed, table.domain))
    search = Generalisation(grown, ByPseudoLikelihood(), table)
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


def test_generalised_rows_are_parts_of_rows_and_of_neighbours():
    table = random_table(15, rows=100)
    search = Generalisation(
        GrowingNetwork.of(independent_network(table)), ByPseudoLikelihood(), table
    )
    for options in search.generalised(search.tested):
        assert not (options & ~search.tested).any()
    found = search.run(50, 5, np.random.default_rng(0))
    assert found.truth(table.codes).any(axis=1).all()
    assert found.lengths.min() >= 2


def test_bottom_up_improves_with_every_round_that_it_keeps():
    table = random_table(16, rows=2000)
    mn = learn_features(table, "bottom-up", valid=table)
    scores = [entry["held_out"] for entry in mn.provenance["features"]["rounds"]]
    assert len(scores) > 1
    assert scores[1] > scores[0]
    assert (np.diff(scores[:-1]) > 0).all()


METHODS = ["top-down", "bottom-up", "generate-select", "staged"]


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
    with pytest.raises(ModelError, match="no option 'bach'.*'batch'"):
        learn_features(table, bach=3)
    with pytest.raises(ModelError, match="max_rounds must be a number greater than 0"):
        learn_features(table, max_rounds=0)
    with pytest.raises(ModelError, match="unknown objective 'luck'"):
        learn_features(table, objective="luck")
    with pytest.raises(ModelError, match="convert it first"):
        learn_features(table, start=conjoin.learn(table, "tree"))
    with pytest.raises(ModelError, match="too few rows"):
        learn_features(Table(table.domain, table.codes[:1]))
    with pytest.raises(ModelError, match="larger max_cells"):
        learn_features(table, start=random_network(0, table.domain), max_cells=3)


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
