"""Gibbs sampling: against enumeration, against the exact sweep, and its edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as with_random
from hypothesis import settings

from conjoin import (
    BayesianNetwork,
    ConjoinError,
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    TableCPD,
    convert,
    probability,
    sample,
)
from conjoin.inference import (
    effective_size,
    samples,
    sampling_method,
    split_r_hat,
    standard_error,
    table_diagnostics,
)
from conjoin.inference.gibbs import gibbs
from conjoin.models import TableFactor
from reference import all_states, conditionals_of_joint, log_potentials, normalized
from strategies import (
    generators,
    random_bayesian_network,
    random_dependency_network,
    random_domain,
    random_features,
    random_markov_network,
)


def exact_marginals(domain, p, states):
    return {
        name: np.array([p[states[:, i] == s].sum() for s in range(domain.cards[i])])
        for i, name in enumerate(domain.names)
    }


def posterior(mn, given):
    """All joint states and their probabilities given evidence, by enumeration."""
    states = all_states(mn.domain)
    logs = log_potentials(mn, states)
    for name, state in given.items():
        i = mn.domain.index(name)
        logs[states[:, i] != mn.domain[name].index(state)] = -np.inf
    return states, np.exp(normalized(logs))


def check(result, expected, given=()):
    """Within five stated standard errors (and rounding) of what enumeration says."""
    for name, p in expected.items():
        if name in given:
            assert name not in result.marginals
            continue
        error = np.abs(result.marginals[name] - p)
        assert (error <= 5 * result.stderr[name] + 1e-9).all(), (name, error, result.stderr[name])
        assert result.stderr[name].max() < 0.02
        assert result.marginals[name].sum() == pytest.approx(1)


def sweep_matrix(domain, conditionals, order):
    """The transition matrix of one sweep over all joint states, brute force."""
    states = all_states(domain)
    place = {tuple(s): k for k, s in enumerate(states.tolist())}
    total = np.eye(len(states))
    for i in order:
        step = np.zeros((len(states), len(states)))
        for k, row in enumerate(states.tolist()):
            for s in range(domain.cards[i]):
                to = list(row)
                to[i] = s
                step[k, place[tuple(to)]] = np.exp(conditionals[i][k, s])
        total = total @ step
    return total


def stationary(matrix):
    p = np.full(len(matrix), 1 / len(matrix))
    for _ in range(2000):
        p = p @ matrix
    return p


@settings(max_examples=15)
@with_random(generators())
def test_marginals_of_a_markov_network(rng):
    mn = random_markov_network(rng, random_domain(rng, 2, 5))
    given = {}
    if rng.random() < 0.5:
        name = str(rng.choice(mn.domain.names))
        given[name] = mn.domain[name].states[int(rng.integers(len(mn.domain[name])))]
    result = gibbs(mn, given, n_samples=4000)
    states, p = posterior(mn, given)
    check(result, exact_marginals(mn.domain, p, states), given)


def test_marginals_of_a_larger_network():
    rng = np.random.default_rng(3)
    domain = Domain({f"x{i}": list(range(2 + (i % 5 == 0))) for i in range(14)})
    mn = MarkovNetwork(domain, random_features(rng, domain, count=40))
    given = {"x0": 2, "x3": 1}
    states, p = posterior(mn, given)
    check(gibbs(mn, given, n_samples=5000), exact_marginals(domain, p, states), given)


@settings(max_examples=15)
@with_random(generators())
def test_dependency_networks_follow_their_order(rng):
    dn = random_dependency_network(rng, random_domain(rng, 2, 3))
    order = rng.permutation(dn.domain.names).tolist()
    states = all_states(dn.domain)
    conditionals = [dn.log_conditional(name, states) for name in dn.domain.names]
    matrix = sweep_matrix(dn.domain, conditionals, [dn.domain.index(n) for n in order])
    p = stationary(matrix)
    # The rows of a sample are states at the end of sweeps.
    table = sample(dn, 40_000, order=order, chains=4)
    place = np.ravel_multi_index(table.codes.T.astype(np.int64), dn.domain.cards)
    counts = np.bincount(place, minlength=len(p)) / len(table)
    # The error of each cell from the spread over 40 parts of 1,000 rows.
    parts = np.stack([np.bincount(x, minlength=len(p)) / 1000 for x in place.reshape(40, 1000)])
    error = parts.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(counts - p) <= 5.5 * error + 1e-3).all()


def test_the_order_of_an_inconsistent_network_matters():
    """The paper's Section 3: the stationary distribution may depend on the order."""
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    dn = DependencyNetwork(
        domain,
        [
            TableCPD.of(domain, "a", ["b"], {0: [0.95, 0.05], 1: [0.2, 0.8]}),
            TableCPD.of(domain, "b", ["c"], {0: [0.9, 0.1], 1: [0.1, 0.9]}),
            TableCPD.of(domain, "c", ["a"], {0: [0.3, 0.7], 1: [0.85, 0.15]}),
        ],
    )
    states = all_states(domain)
    conditionals = [dn.log_conditional(name, states) for name in domain.names]
    joint = {}
    for order in ("abc", "cba"):
        p = stationary(sweep_matrix(domain, conditionals, ["abc".index(x) for x in order]))
        table = sample(dn, 60_000, order=list(order))
        place = np.ravel_multi_index(table.codes.T.astype(np.int64), domain.cards)
        joint[order] = p
        assert np.bincount(place, minlength=8) / len(table) == pytest.approx(p, abs=0.015)
    assert np.abs(joint["abc"] - joint["cba"]).max() > 0.05


@settings(max_examples=10)
@with_random(generators())
def test_bayesian_networks(rng):
    bn = random_bayesian_network(rng)
    mn = bn.to_markov_network()
    states, p = posterior(mn, {})
    assert isinstance(bn, BayesianNetwork)
    check(gibbs(bn, n_samples=4000), exact_marginals(mn.domain, p, states))


@settings(max_examples=10)
@with_random(generators())
def test_features_with_off_values(rng):
    domain = random_domain(rng, 3, 5)
    dn = random_dependency_network(rng, domain, kinds=("table", "tree"))
    mn = convert(dn, orders="all", max_length=1)
    states, p = posterior(mn, {})
    check(gibbs(mn, n_samples=4000), exact_marginals(domain, p, states))


def endless():
    """Three variables, not all different pairs allowed: -inf weights."""
    domain = Domain({"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1], "lone": ["only"]})
    terms = [
        (-np.inf, {"a": 0, "b": 0}),
        (-np.inf, {"a": [1, 2], "b": 2, "c": 1}),
        (1.5, {"a": 2, "c": 1}),
        (-0.5, {"b": [0, 1]}),
    ]
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_impossible_states_are_never_drawn(method):
    mn = endless()
    states, p = posterior(mn, {})
    check(gibbs(mn, n_samples=5000), exact_marginals(mn.domain, p, states))
    drawn = sample(mn, 5000, method=method)
    assert np.isfinite(mn.log_potential(drawn)).all()


def test_impossible_evidence_is_told():
    mn = endless()
    with pytest.raises(ConjoinError, match=r"probability is 0\): a=0, b=0"):
        gibbs(mn, {"a": 0, "b": 0})
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    never = TableFactor((0, 1), np.full((2, 2), -np.inf))
    with pytest.raises(ConjoinError, match="no state of positive probability"):
        sample(MarkovNetwork(domain, factors=[never]), 3, method="gibbs")


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_a_chain_finds_its_way_to_possible_states(method):
    """Twelve variables that must all agree with their neighbour, and one end fixed."""
    domain = Domain({f"x{i}": [0, 1] for i in range(12)})
    terms = [(-np.inf, {f"x{i}": s, f"x{i + 1}": 1 - s}) for i in range(11) for s in (0, 1)]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    table = sample(mn, 8, {"x0": 1}, method=method)
    assert (table.codes == 1).all()


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_what_is_known_stays(method):
    rng = np.random.default_rng(5)
    mn = random_markov_network(rng, Domain({"a": [0, 1], "b": ["x", "y", "z"], "c": [True, False]}))
    table = sample(mn, 50, {"b": "y"}, method=method)
    assert (table.codes[:, 1] == 1).all()
    everything = {"a": 1, "b": "z", "c": False}
    table = sample(mn, 3, everything, method=method)
    assert table.codes.tolist() == [[1, 2, 1]] * 3
    assert gibbs(mn, everything).marginals == {}


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_nothing_to_draw(method):
    domain = Domain({"a": ["only"], "b": ["one"]})
    mn = MarkovNetwork(domain)
    assert sample(mn, 2, method=method).codes.tolist() == [[0, 0], [0, 0]]
    assert gibbs(mn).marginals["a"].tolist() == [1.0]
    assert len(sample(mn, 0, method=method)) == 0
    assert len(sample(MarkovNetwork(Domain({})), 3, method=method)) == 3


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_the_same_whatever_the_jobs_and_blocks(method):
    rng = np.random.default_rng(8)
    mn = random_markov_network(rng, random_domain(rng, 6, 6))
    one = sample(mn, 1003, n_jobs=1, method=method)
    two = sample(mn, 1003, n_jobs=2, method=method)
    assert one.codes.tobytes() == two.codes.tobytes()
    blocks = list(samples(mn, 1003, block=100, method=method))
    assert max(map(len, blocks)) <= 100
    assert np.concatenate([b.codes for b in blocks]).tobytes() == one.codes.tobytes()
    assert sample(mn, 1003, random_state=1, method=method).codes.tobytes() != one.codes.tobytes()
    a, b = gibbs(mn, n_jobs=1), gibbs(mn, n_jobs=2)
    for name in mn.domain.names:
        assert a.marginals[name].tobytes() == b.marginals[name].tobytes()
        assert a.r_hat[name] == b.r_hat[name]


def test_the_method_that_is_chosen():
    rng = np.random.default_rng(5)
    small = random_markov_network(rng, random_domain(rng, 4, 4))
    assert sampling_method(small) == "exact"
    assert sampling_method(DependencyNetwork.from_markov_network(small)) == "gibbs"
    exact = sample(small, 50, method="exact")
    assert sample(small, 50).codes.tobytes() == exact.codes.tobytes()
    domain = Domain.numbered([2] * 60)
    pairs = [(0.1, {f"v{i}": 1, f"v{j}": 1}) for i in range(60) for j in range(i)]
    dense = MarkovNetwork(domain, Features.from_terms(domain, pairs))
    assert sampling_method(dense) == "gibbs"
    assert sampling_method(dense, {f"v{i}": 0 for i in range(50)}) == "exact"


def test_wrong_arguments():
    mn = endless()
    for bad, words in (
        ({"given": {"nobody": 0}}, "no variable 'nobody'"),
        ({"given": {"a": 7}}, "no state 7"),
        ({"n_samples": 1}, "n_samples"),
        ({"chains": 0}, "chains"),
        ({"random_state": -1}, "random_state"),
        ({"order": ["a", "b"]}, "order must name"),
    ):
        with pytest.raises(ConjoinError, match=words):
            gibbs(mn, **bad)
    for bad, words in (
        ({"sweeps_per_row": 0}, "sweeps_per_row"),
        ({"block": 0}, "block"),
        ({"method": "gibs"}, "Did you mean .gibbs."),
        ({"burn_in": -1}, "burn_in"),
    ):
        with pytest.raises(ConjoinError, match=words):
            samples(mn, 3, **bad)


# ---- diagnostics --------------------------------------------------------------------------------


def batched(values, batches):
    """Chains of values as sums and sums of squares by batch."""
    chains = np.asarray(values, np.float64)
    parts = chains.reshape(len(chains), batches, -1)
    return parts.sum(2)[:, :, None], (parts**2).sum(2)[:, :, None], parts.shape[2]


def test_r_hat_by_hand():
    """Halves [0 2], [0 2], [4 6], [4 6]: W = 2, B/n = var(1, 1, 5, 5) = 16/3, n = 2."""
    sums, squares, length = batched([[0, 2, 0, 2], [4, 6, 4, 6]], 2)
    assert split_r_hat(sums, squares, length) == pytest.approx(np.sqrt(0.5 + (16 / 3) / 2))
    # Batch means 1, 1, 5, 5: variance 16/3 over 4.
    assert standard_error(sums, length) == pytest.approx(np.sqrt(16 / 3 / 4))
    # All eight values: mean 3, squares 0 4 0 4 16 36 16 36 = 112, variance (112 - 72) / 7.
    assert effective_size(sums, squares, length) == pytest.approx((40 / 7) / (4 / 3))


def test_values_that_never_change():
    sums, squares, length = batched([[1, 1, 1, 1], [1, 1, 1, 1]], 2)
    assert split_r_hat(sums, squares, length) == 1
    assert effective_size(sums, squares, length) == 8
    sums, squares, length = batched([[1, 1, 1, 1], [0, 0, 0, 0]], 2)
    assert split_r_hat(sums, squares, length) == np.inf


def test_autocorrelation_shrinks_the_effective_size():
    """An autoregression with coefficient 0.9 is worth (1 - 0.9) / (1 + 0.9) of its length."""
    rng = np.random.default_rng(0)
    x = np.zeros((4, 20_000))
    for t in range(1, x.shape[1]):
        x[:, t] = 0.9 * x[:, t - 1] + rng.normal(size=4)
    sums, squares, length = batched(x, 20)
    assert effective_size(sums, squares, length) == pytest.approx(80_000 / 19, rel=0.35)
    assert 1 <= split_r_hat(sums, squares, length) < 1.02


def test_chains_that_do_not_mix_are_told():
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    terms = [(14.0, {"a": s, "b": s}) for s in (0, 1)]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    result = gibbs(mn, chains=8, n_samples=200)
    assert result.unsettled() == ["a", "b"]
    assert result.worst()[0] > 1.5
    assert "8 chains of 200 sweeps" in repr(result)


def test_diagnostics_of_a_table():
    rng = np.random.default_rng(4)
    domain = Domain({"a": [0, 1], "b": [0, 1, 2]})
    mn = MarkovNetwork(domain, random_features(rng, domain))
    r_hat, ess = table_diagnostics(sample(mn, 4002, method="gibbs"), 4)
    assert 1 <= r_hat < 1.01
    assert 500 < ess <= 4000
    assert table_diagnostics(sample(mn, 7, method="gibbs"), 4) == (None, None)


# ---- rare probabilities -----------------------------------------------------------------------


def test_a_probability_under_one_in_a_million():
    rng = np.random.default_rng(12)
    domain = Domain({f"x{i}": [0, 1] for i in range(12)})
    terms = [(-3.0, {name: 1}) for name in domain.names]
    terms += [(float(rng.normal()), {f"x{i}": 1, f"x{j}": 1}) for i in range(12) for j in range(i)]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    query = dict.fromkeys([f"x{i}" for i in range(8)], 1)
    given = {"x11": 1}
    states, p = posterior(mn, given)
    exact = p[(states[:, :8] == 1).all(axis=1)].sum()
    assert 0 < exact < 1e-6
    estimate = probability(mn, query, given, method="gibbs")
    assert abs(estimate.log - np.log(exact)) <= 5 * estimate.log_error
    assert estimate.log_error < 0.1
    # Counting as many samples has a relative error of more than 1 / sqrt(n p) > 5.
    drawn = sample(mn, 8 * 4000, given, method="gibbs")
    assert not (drawn.codes[:, :8] == 1).all(axis=1).any()
    assert 1 / np.sqrt(8 * 4000 * exact) > 50 * estimate.log_error


@settings(max_examples=10)
@with_random(generators())
def test_probabilities_of_small_networks(rng):
    mn = random_markov_network(rng, random_domain(rng, 3, 4))
    names = mn.domain.names
    query = {names[0]: mn.domain[names[0]].states[-1], names[2]: mn.domain[names[2]].states[0]}
    states, p = posterior(mn, {})
    exact = p[(states[:, 0] == mn.domain.cards[0] - 1) & (states[:, 2] == 0)].sum()
    estimate = probability(mn, query, method="gibbs", n_samples=4000)
    assert abs(estimate.log - np.log(exact)) <= 5 * estimate.log_error + 1e-9


def test_a_target_with_all_its_parents_known_is_exact():
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    dn = DependencyNetwork(
        domain,
        [
            TableCPD.of(domain, "a", [], [0.75, 0.25]),
            TableCPD.of(domain, "b", ["a"], {0: [0.5, 0.5], 1: [0.9, 0.1]}),
            TableCPD.of(domain, "c", ["b"], {0: [0.2, 0.8], 1: [0.6, 0.4]}),
        ],
    )
    estimate = probability(dn, {"a": 1, "b": 1, "c": 0})
    assert estimate == pytest.approx(0.25 * 0.1 * 0.6, rel=1e-12)
    assert estimate.log_error == pytest.approx(0, abs=1e-12)


def test_impossible_queries():
    mn = endless()
    assert probability(mn, {"a": 0, "b": 0}, method="gibbs") == 0
    assert probability(mn, {"a": 0}, {"a": 1}, method="gibbs") == 0
    assert probability(mn, {}, method="gibbs") == 1


def test_conditionals_of_the_reference():
    """The matrix of sweeps keeps the joint of a consistent network: a check of the checker."""
    rng = np.random.default_rng(2)
    mn = random_markov_network(rng, Domain({"a": [0, 1], "b": [0, 1, 2]}))
    states, p = posterior(mn, {})
    tables = [conditionals_of_joint(mn.domain, np.log(p), i) for i in range(2)]
    rows = [np.moveaxis(t, i, -1) for i, t in enumerate(tables)]
    conditionals = [
        np.array([rows[i][tuple(np.delete(s, i))] for s in states.tolist()]) for i in range(2)
    ]
    assert stationary(sweep_matrix(mn.domain, conditionals, [0, 1])) == pytest.approx(p)
