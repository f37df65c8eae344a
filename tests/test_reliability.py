"""Conditionals that speak more or less loudly, against the sum over all interactions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import (
    ConjoinError,
    DependencyNetwork,
    Domain,
    MarkovNetwork,
    Table,
    convert,
    load,
    pll,
)
from conjoin.cli.main import main
from conjoin.conversion import Instances, Product
from conjoin.errors import ModelError
from conjoin.research import PairOpinions, Say, learn_say, weighted_conversion
from conjoin.research import say_learning as module
from reference import all_states, converted, interactions, product_bases
from strategies import (
    generators,
    random_bayesian_network,
    random_dependency_network,
    random_domain,
    random_marginals,
    random_markov_network,
)
from test_conversion import (
    ORDERS,
    assert_same_function,
    log_conditionals,
    random_orders,
    random_pairwise,
)


def random_say(rng, domain):
    """Shares as `convert` takes them, and as a function of a pair."""
    n = len(domain)
    if rng.random() < 0.5:
        reliability = rng.gamma(1.0, size=n) + 0.01
        named = dict(zip(domain.names, reliability.tolist(), strict=True))
        if rng.random() < 0.5:  # a variable that is not named counts as 1
            del named[domain.names[0]]
            reliability[0] = 1.0
        return named, lambda i, j: reliability[i] / (reliability[i] + reliability[j])
    every = [(i, j) for i in range(n) for j in range(i + 1, n)]
    chosen = [pair for pair in every if rng.random() < 0.8]
    share = rng.random(len(chosen))
    order = rng.permutation(len(chosen))
    pairs = np.array([chosen[k] for k in order], np.int64).reshape(-1, 2)
    by_pair = dict(zip(chosen, share.tolist(), strict=True))
    return Say(pairs, share[order]), lambda i, j: by_pair.get((i, j), 0.5)


def by_hand(dn, marginals, share):
    """The sum of all interactions, each the weighted mean of what its variables' CPDs say."""
    domain, total = dn.domain, 0.0
    for i, log_p in enumerate(log_conditionals(dn)):
        for b, part in interactions(domain, marginals, log_p, i).items():
            weight = 1 / len(b)
            if len(b) == 2:
                weight = share(*b) if i == b[0] else 1 - share(*b)
            total = total + weight * np.broadcast_to(part, domain.cards)
    return total.ravel()


@given(generators())
def test_against_the_sum_over_all_interactions(rng):
    dn = random_dependency_network(rng, random_domain(rng, high=4))
    marginals = random_marginals(rng, dn.domain)
    say, share = random_say(rng, dn.domain)
    options = {"base": Product(marginals), "orders": "all"}
    expected = by_hand(dn, marginals, share)
    assert_same_function(weighted_conversion(dn, None, say, **options), expected)
    assert_same_function(weighted_conversion(dn, None, say, **options, max_length=1), expected)


@pytest.mark.parametrize("order_kind", ORDERS)
@given(rng=generators())
def test_pairs_of_any_orders(rng, order_kind):
    """Equation 4 with the pairs' interactions replaced."""
    dn = random_dependency_network(rng, random_domain(rng, high=3))
    marginals = random_marginals(rng, dn.domain)
    options, orders = random_orders(rng, dn.domain, order_kind)
    say, share = random_say(rng, dn.domain)
    logs = log_conditionals(dn)
    expected = converted(dn.domain, logs, product_bases(dn.domain, marginals), orders)
    for i, log_p in enumerate(logs):
        for b, part in interactions(dn.domain, marginals, log_p, i).items():
            if len(b) == 2:
                j = b[0] + b[1] - i
                before = np.mean([order.index(i) < order.index(j) for order in orders])
                after = share(*b) if i == b[0] else 1 - share(*b)
                expected += ((after - before) * np.broadcast_to(part, dn.domain.cards)).ravel()
    found = weighted_conversion(dn, None, say, base=Product(marginals), **options)
    assert_same_function(found, expected)


@given(generators())
def test_consistent_networks_are_converted_exactly_whatever_the_shares(rng):
    source = random_markov_network(rng) if rng.random() < 0.5 else random_bayesian_network(rng)
    if isinstance(source, MarkovNetwork):
        dn, mn = DependencyNetwork.from_markov_network(source), source
    else:
        dn, mn = DependencyNetwork.from_bayesian_network(source), source.to_markov_network()
    say, _ = random_say(rng, dn.domain)
    base = Product(random_marginals(rng, dn.domain))
    options, _ = random_orders(rng, dn.domain, str(rng.choice(ORDERS)))
    found = weighted_conversion(dn, None, say, base=base, **options)
    assert_same_function(found, mn.log_potential(all_states(dn.domain)))


@given(generators())
def test_equal_reliabilities_are_the_average_over_all_orders(rng):
    dn = random_dependency_network(rng)
    base = Product(random_marginals(rng, dn.domain))
    states = all_states(dn.domain)
    alike = dict.fromkeys(dn.domain.names, 3.5)
    mean = convert(dn, base=base, orders="all")
    assert_same_function(
        weighted_conversion(dn, None, alike, base=base, orders="all"), mean.log_potential(states)
    )
    pairwise = random_pairwise(
        rng, 4
    )  # two opposite orders, their rotations and all orders coincide
    rotations = convert(pairwise).log_potential(all_states(pairwise.domain))
    alike = dict.fromkeys(pairwise.domain.names, 0.2)
    assert_same_function(weighted_conversion(pairwise, None, alike, orders="all"), rotations)


def random_rows(rng, domain, count, holes=0.0):
    codes = np.stack([rng.integers(0, c, count) for c in domain.cards], axis=1).astype(np.uint8)
    codes[rng.random(codes.shape) < holes] = np.iinfo(np.uint8).max
    weights = rng.integers(1, 4, count).astype(float)
    return Table(domain, codes, weights)


@given(generators())
@settings(max_examples=20)
def test_the_objective_is_the_pll_of_the_converted_network(rng):
    dn = random_dependency_network(rng, random_domain(rng, high=4))
    base = Product(random_marginals(rng, dn.domain))
    rows = random_rows(rng, dn.domain, 12, holes=0.2 if rng.random() < 0.5 else 0.0)
    opinions = PairOpinions.of(dn.form, base)
    mean = convert(dn, base=base, orders="all").form
    objective = module._Objective.of(opinions, mean, rows)
    share = rng.random(len(opinions.pairs))
    mn = weighted_conversion(dn, None, Say(opinions.pairs, share), base=base, orders="all")
    score = pll(mn, rows)
    expected = float(score.by_row @ score.weights)
    value, gradient = objective.value_and_gradient(share)
    np.testing.assert_allclose([value, objective.value(share)], expected, atol=1e-8)
    for k in range(len(share)):
        step = np.zeros(len(share))
        step[k] = 1e-6
        slope = (objective.value(share + step) - objective.value(share - step)) / 2e-6
        np.testing.assert_allclose(gradient[k], slope, atol=1e-4, rtol=1e-5)


def unequal_network(rng, domain):
    """Conditionals of a joint distribution, and the same with some of them replaced by noise."""
    truth = random_markov_network(rng, domain)
    sound = DependencyNetwork.from_markov_network(truth)
    noise = random_dependency_network(rng, domain, kinds=("table",))
    some = [noise.cpds[i] if i % 2 else sound.cpds[i] for i in range(len(domain))]
    return truth, DependencyNetwork(domain, some)


def drawn(rng, truth, count):
    states = all_states(truth.domain)
    p = np.exp(truth.log_potential(states))
    return states[rng.choice(len(states), count, p=p / p.sum())]


def test_sound_conditionals_speak_louder_than_noise():
    better = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        domain = Domain.numbered([2, 3, 2, 2])
        truth, dn = unequal_network(rng, domain)
        train, held, test = (Table(domain, drawn(rng, truth, 400)) for _ in range(3))
        say = learn_say(dn, train, held)
        assert ((say.share >= 0) & (say.share <= 1)).all()
        mean = convert(dn, train, orders="all")
        weighed = weighted_conversion(dn, train, say, orders="all")
        assert weighed.provenance["conversion"]["say"] == "learned"
        assert pll(weighed, held).mean >= pll(mean, held).mean - 1e-9
        better += pll(weighed, test).mean > pll(mean, test).mean
    assert better >= 8


def test_order_of_rows_and_columns_does_not_matter():
    rng = np.random.default_rng(5)
    domain = Domain({"b": [0, 1], "a": [0, 1, 2], "c": [0, 1]})
    truth, dn = unequal_network(rng, domain)
    rows = drawn(rng, truth, 200)
    say = learn_say(dn, Table(domain, rows), Table(domain, rows))
    again = learn_say(dn, Table(domain, rows), Table(domain, rows[::-1]))
    np.testing.assert_array_equal(again.share, say.share)

    position = [1, 2, 0]
    moved = Domain({name: domain.variables[domain.index(name)].states for name in ("a", "c", "b")})
    source = (
        DependencyNetwork.from_markov_network
    )  # log-linear CPDs can be moved with their network
    network = MarkovNetwork(domain, dn.features()[0])
    here = source(network)
    there = source(network._moved(moved, np.array([2, 0, 1])))
    first = learn_say(here, Table(domain, rows), Table(domain, rows))
    second = learn_say(there, Table(moved, rows[:, position]), Table(moved, rows[:, position]))
    shares = {
        tuple(domain.names[v] for v in pair): s
        for pair, s in zip(first.pairs.tolist(), first.share.tolist(), strict=True)
    }
    for pair, s in zip(second.pairs.tolist(), second.share.tolist(), strict=True):
        names = tuple(moved.names[v] for v in pair)
        expected = shares[names] if names in shares else 1 - shares[names[::-1]]
        assert s == pytest.approx(expected, abs=1e-6)


def test_wrong_arguments_are_named():
    rng = np.random.default_rng(0)
    dn = random_dependency_network(rng, Domain.numbered([2, 2]))
    rows = Table(dn.domain, [[0, 1], [1, 1]])
    for say, options, message in [
        ({"v0": -1.0}, {}, "reliability of 'v0' must be positive"),
        ({"v9": 1.0}, {}, "v9"),
        (3, {}, "must map names"),
        ({}, {"base": Instances(rows.codes)}, "product of marginals"),
    ]:
        with pytest.raises(ConjoinError, match=message):
            weighted_conversion(dn, None, say, orders="all", **options)
    with pytest.raises(ConjoinError, match="two held-out rows"):
        learn_say(dn, rows, Table(dn.domain, [[0, 1]]))
    with pytest.raises(ModelError, match="this is a Bayesian network"):
        learn_say(random_bayesian_network(rng), rows, rows)
    with pytest.raises(ModelError, match="up to 1 states"):
        learn_say(dn, rows, rows, max_states=1)


def test_a_sample_of_many_rows():
    rng = np.random.default_rng(1)
    truth, dn = unequal_network(rng, Domain.numbered([2, 2, 2]))
    rows = Table(dn.domain, drawn(rng, truth, 500))
    share = learn_say(dn, rows, rows, max_rows=100).share
    assert np.isfinite(share).all() and (share != 0.5).any()


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    truth, dn = unequal_network(rng, Domain.numbered([2, 3, 2]))
    rows = Table(dn.domain, drawn(rng, truth, 100))
    dn.save("model.conjoin")
    for name in ("train.csv", "held.csv"):
        lines = [",".join(dn.domain.names), *(",".join(map(str, r)) for r in rows.codes.tolist())]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    words = ["convert", "model.conjoin", "-o", "out.conjoin"]
    all_orders = ["--data", "train.csv", "--orders", "all", "--held-out", "held.csv"]
    assert main([*words, *all_orders]) == 0
    say = learn_say(dn, rows, rows)
    expected = weighted_conversion(dn, rows, say, orders="all").log_potential(all_states(dn.domain))
    assert_same_function(load("out.conjoin"), expected)
    capsys.readouterr()
    for wrong, message in [
        ([*all_orders[:2], *all_orders[4:], "--no-reverse"], "the default order and its reverse"),
        (["--orders", "all", "--held-out", "held.csv"], "--held-out needs --data"),
        ([*all_orders, "--base", "uniform"], "--held-out needs --base marginals"),
    ]:
        assert main([*words, *wrong]) == 1
        assert message in capsys.readouterr().err
