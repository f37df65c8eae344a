"""CPDs and networks against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin import (
    BayesianNetwork,
    ConjoinError,
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    TableCPD,
    convert,
    inconsistency,
)
from conjoin.errors import DataError, ModelError
from conjoin.models import CPD, BoostedTreesCPD, LogLinearCPD, RuleCPD, Tree, TreeCPD
from reference import (
    all_states,
    conditionals_of_joint,
    feature_rows,
    log_potentials,
    normalized,
    walk,
)
from strategies import (
    CPD_KINDS,
    generators,
    logistic_cpd,
    random_bayesian_network,
    random_cpd,
    random_dependency_network,
    random_domain,
    random_markov_network,
)


@given(generators(), st.sampled_from(CPD_KINDS))
def test_features_say_what_the_cpd_says(rng, kind):
    domain = random_domain(rng)
    target = int(rng.integers(len(domain)))
    cpd = random_cpd(rng, domain, target, kind)
    assert isinstance(cpd, CPD)
    states = all_states(domain)
    direct = cpd.log_probabilities(states)
    np.testing.assert_allclose(np.exp(direct).sum(axis=1), 1, atol=1e-12)
    features = cpd.features()
    assert all(target in tests for _, tests in feature_rows(features))
    through = LogLinearCPD(target, features).log_probabilities(states)
    np.testing.assert_allclose(through, direct, atol=1e-9)
    # The blanket is right: nothing else matters, and the target itself does not.
    other = [i for i in range(len(domain)) if i not in cpd.blanket]
    moved = states.copy()
    moved[:, other] = 0
    np.testing.assert_allclose(cpd.log_probabilities(moved), direct, atol=1e-12)


@given(generators())
def test_tree_cpd_by_walking(rng):
    domain = random_domain(rng)
    cpd = random_cpd(rng, domain, 0, "tree")
    states = all_states(domain)
    expected = [walk(cpd.tree, s) for s in states]
    np.testing.assert_allclose(cpd.log_probabilities(states), expected, atol=1e-12)
    factor = cpd.to_factor()
    by_state = [walk(factor, s) for s in states]
    chosen = cpd.log_probabilities(states)[np.arange(len(states)), states[:, 0]]
    np.testing.assert_allclose(by_state, chosen, atol=1e-12)
    back = TreeCPD.from_factor(domain.cards, 0, factor)
    np.testing.assert_allclose(back.log_probabilities(states), expected, atol=1e-12)


@given(generators())
def test_rules_apply_in_order(rng):
    domain = random_domain(rng)
    cpd = random_cpd(rng, domain, 0, "rules")
    for state in all_states(domain):
        rule = next(
            r
            for r, when in enumerate(cpd.conditions)
            if all(state[v] in states for v, states in when.items())
        )
        np.testing.assert_allclose(
            cpd.log_probabilities(state[None])[0], cpd.table[rule], atol=1e-12
        )
        np.testing.assert_allclose(walk(cpd.trees[0], state), cpd.table[rule], atol=1e-12)


@given(generators())
def test_markov_network(rng):
    mn = random_markov_network(rng)
    states = all_states(mn.domain)
    reference = log_potentials(mn, states)
    np.testing.assert_allclose(mn.log_potential(states), reference, atol=1e-9)
    np.testing.assert_allclose(mn.to_features().log_potential(states), reference, atol=1e-9)
    merged = mn.to_features().merged()
    np.testing.assert_allclose(merged.log_potential(states), reference, atol=1e-9)
    for i, name in enumerate(mn.domain.names):
        expected = conditionals_of_joint(mn.domain, reference, i).ravel()
        got = mn.log_conditional(name, states)[np.arange(len(states)), states[:, i]]
        np.testing.assert_allclose(got, expected, atol=1e-9)


@given(generators())
def test_markov_blankets(rng):
    mn = random_markov_network(rng)
    n = len(mn.domain)
    linked = {i: set() for i in range(n)}
    scopes = [set(tests) for _, tests in feature_rows(mn.features)]
    scopes += [set(f.variables) for f in mn.factors]
    for scope in scopes:
        for i in scope:
            linked[i] |= scope - {i}
    assert [set(b) for b in mn.blankets()] == [linked[i] for i in range(n)]


@given(generators())
def test_conditioning_a_markov_network(rng):
    mn = random_markov_network(rng)
    chosen = [v for v in mn.domain if rng.random() < 0.5]
    evidence = {v.name: v.states[int(rng.integers(len(v)))] for v in chosen}
    smaller = mn.condition(evidence)
    assert smaller.domain.names == tuple(n for n in mn.domain.names if n not in evidence)
    for state in all_states(smaller.domain) if len(smaller.domain) else [np.zeros(0, np.uint8)]:
        instance = {**smaller.domain.decode(state), **evidence}
        small = smaller.log_potential(np.array([state], np.uint8).reshape(1, -1))
        assert small[0] == pytest.approx(mn.log_potential(instance)[0], abs=1e-9)


@given(generators())
def test_dn_of_a_markov_network_has_its_conditionals(rng):
    mn = random_markov_network(rng)
    dn = DependencyNetwork.from_markov_network(mn)
    states = all_states(mn.domain)
    for name in mn.domain.names:
        np.testing.assert_allclose(
            dn.log_conditional(name, states), mn.log_conditional(name, states), atol=1e-9
        )


@given(generators())
def test_bayesian_network(rng):
    bn = random_bayesian_network(rng)
    states = all_states(bn.domain)
    joint = np.zeros(len(states))
    for cpd in bn.cpds:
        for r, s in enumerate(states):
            joint[r] += cpd.table[tuple(s[p] for p in (*cpd.parents, cpd.target))]
    assert np.exp(joint).sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(bn.log_likelihood(states), joint, atol=1e-12)
    np.testing.assert_allclose(bn.to_markov_network().log_potential(states), joint, atol=1e-12)
    dn = DependencyNetwork.from_bayesian_network(bn)
    for i, name in enumerate(bn.domain.names):
        expected = conditionals_of_joint(bn.domain, joint, i).ravel()
        for model in (bn, dn):
            got = model.log_conditional(name, states)[np.arange(len(states)), states[:, i]]
            np.testing.assert_allclose(got, expected, atol=1e-9)


@given(generators())
def test_bayesian_network_of_other_cpds(rng):
    domain = random_domain(rng, low=3, high=3)
    root = random_cpd(rng, domain.subset([0]), 0, "table")
    cpds = [TableCPD(domain.cards, 0, (), root.table)]
    for target, kind in ((1, "tree"), (2, "loglinear")):
        while True:
            cpd = random_cpd(rng, domain, target, kind)
            if all(p < target for p in cpd.blanket):
                cpds.append(cpd)
                break
    bn = BayesianNetwork(domain, cpds)
    states = all_states(domain)
    log_p = bn.to_markov_network().log_potential(states)
    np.testing.assert_allclose(normalized(log_p), log_p, atol=1e-9)
    np.testing.assert_allclose(bn.log_likelihood(states), log_p, atol=1e-9)


def test_impossible_states_of_a_bayesian_network():
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    bn = BayesianNetwork(
        domain,
        [TableCPD.of(domain, "a", [], 0.3), TableCPD.of(domain, "b", ["a"], {0: 0.0, 1: 0.4})],
    )
    dn = DependencyNetwork.from_bayesian_network(bn)
    for model in (bn, dn):
        assert model.conditional("a", {"a": 0, "b": 1}).tolist() == [[0.0, 1.0]]
        p = model.conditional("a", {"a": 0, "b": 0})[0]
        assert p == pytest.approx([0.7 / (0.7 + 0.3 * 0.6), 0.18 / 0.88])


def test_logistic():
    domain = Domain.numbered([2, 2, 2])
    cpd = logistic_cpd(domain, 1, -0.5, {0: 2.0, 2: -1.0})
    for state in all_states(domain):
        logit = -0.5 + 2.0 * state[0] - 1.0 * state[2]
        assert np.exp(cpd.log_probabilities(state[None]))[0, 1] == pytest.approx(
            1 / (1 + np.exp(-logit))
        )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda d: TableCPD.of(d, "a", ["b"], {"x": 0.5}), "no row for b = y"),
        (lambda d: TableCPD.of(d, "a", ["b"], {"x": 0.5, "z": 0.5}), "no state 'z'"),
        (lambda d: TableCPD.of(d, "a", [], [0.5, 0.6]), "sum to 1.1"),
        (lambda d: TableCPD.of(d, "a", [], {"x": 0.5}), "no probability for a = y"),
        (lambda d: TableCPD.of(d, "c", [], [0.5, 0.5]), "2 probabilities for the 3 states"),
        (lambda d: TableCPD.of(d, "a", [], [1.5, -0.5]), "0 to 1 is allowed"),
        (lambda d: TableCPD.of(d, "a", ["a"], {"x": 0.5, "y": 0.5}), "must differ"),
        (
            lambda d: TreeCPD(d.cards, 0, Tree.complete([0], d.cards, np.zeros((2, 2)))),
            "its own target",
        ),
        (lambda d: RuleCPD.of(d, "a", [({"b": "x"}, 0.5)]), "last rule"),
        (lambda d: LogLinearCPD.of(d, "a", [(1.0, {"b": "x"})]), "does not mention 'a'"),
        (lambda d: DependencyNetwork(d, [TableCPD.of(d, "a", [], 0.5)]), "'b' has no CPD"),
        (
            lambda d: BayesianNetwork(
                Domain({"a": "xy", "b": "xy"}),
                [
                    TableCPD.of(Domain({"a": "xy", "b": "xy"}), "a", ["b"], {"x": 0.5, "y": 0.2}),
                    TableCPD.of(Domain({"a": "xy", "b": "xy"}), "b", ["a"], {"x": 0.5, "y": 0.2}),
                ],
            ),
            "cycle among 'a', 'b'",
        ),
    ],
)
def test_mistakes_are_named(build, message):
    domain = Domain({"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y", "z"]})
    with pytest.raises(ValueError, match=message):
        build(domain)


def test_rules_that_overlap_too_much(monkeypatch):
    monkeypatch.setattr("conjoin.models.rule_cpd.MAX_LEAVES", 8)
    domain = Domain.numbered([2] * 9)
    rules = [({f"v{i}": 1, f"v{i + 1}": 0}, 0.1 * i) for i in range(1, 8)]
    with pytest.raises(ModelError, match="overlap in more than 8 ways"):
        RuleCPD.of(domain, "v0", [*rules, ({}, 0.5)])


@given(generators())
def test_features_of_a_network_are_those_of_its_cpds(rng):
    dn = random_dependency_network(rng)
    features, owner = dn.features()
    states = all_states(dn.domain)
    for i, cpd in enumerate(dn.cpds):
        mine = LogLinearCPD(i, features.select(np.flatnonzero(owner == i)))
        np.testing.assert_allclose(
            mine.log_probabilities(states), cpd.log_probabilities(states), atol=1e-9
        )


def test_empty_markov_network_is_uniform():
    mn = MarkovNetwork(Domain.numbered([2, 3]))
    assert mn.log_potential(all_states(mn.domain)).tolist() == [0] * 6
    np.testing.assert_allclose(mn.conditional("v1", {"v0": 0, "v1": 0}), [[1 / 3] * 3])
    assert mn.blankets() == [(), ()]


def test_networks_are_immutable():
    domain = Domain.numbered([2, 2])
    features = Features.from_terms(domain, [(1.0, {"v0": 1, "v1": 1})])
    mn = MarkovNetwork(domain, features)
    for name in ("features", "factors", "domain", "provenance"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(mn, name, getattr(mn, name))
    for array in (mn.features.weights, mn.features.indptr, mn.features.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@given(generators())
def test_reordered_networks_are_the_same_distribution(rng):
    models = [
        random_dependency_network(rng), random_markov_network(rng), random_bayesian_network(rng),
    ]  # fmt: skip
    models.append(DependencyNetwork.from_markov_network(models[1]))
    for model in models:
        names = rng.permutation(model.domain.names).tolist()
        other = model.reordered(names)
        assert list(other.domain.names) == names and type(other) is type(model)
        rows = Table(model.domain, all_states(model.domain))
        for name in names:
            np.testing.assert_allclose(
                other.log_conditional(name, rows.reordered(names)),
                model.log_conditional(name, rows),
                atol=1e-9,
            )
        back = other.reordered(model.domain.names)
        assert back.domain == model.domain
    with pytest.raises(DataError, match="reordered by all of its own names"):
        models[0].reordered(["nobody"])


def test_soft_features_can_be_reordered():
    rng = np.random.default_rng(0)
    dn = random_dependency_network(rng, Domain.numbered([3, 2, 3]), kinds=("table",))
    mn = convert(dn, orders="all", max_length=0)
    rows = Table(mn.domain, all_states(mn.domain))
    other = mn.reordered(["v2", "v0", "v1"])
    assert mn.features.soft_rows().any()
    np.testing.assert_allclose(
        other.log_potential(rows.reordered(other.domain.names)), mn.log_potential(rows), atol=1e-12
    )


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_weights_are_numbers(wrong):
    domain = Domain.numbered([2, 2])
    with pytest.raises(ModelError, match="must be a number"):
        LogLinearCPD.of(domain, "v0", [(wrong, {"v0": 1})])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda d: BoostedTreesCPD(d.cards, 0, []), "needs a tree"),
        (lambda d: TableCPD.of(d, "a", ["b"], [[0.1, 0.9]]), "must be a mapping"),
        (lambda d: RuleCPD.of(d, "a", [({}, 0.5), ({}, 0.5)]), "put it last"),
        (lambda d: RuleCPD.of(d, "a", [({"b": []}, 0.5), ({}, 0.5)]), "needs at least one"),
        (lambda d: Domain({"a": 2}), "needs a list of states"),
        (lambda d: Domain(["a", "b"]), "made of variables"),
        (lambda d: convert(MarkovNetwork(d)), "expected a dependency network"),
        (lambda d: inconsistency(MarkovNetwork(d)), "expected a dependency network"),
        (lambda d: Table(d, np.array([[0, 0, 1000]])), "state number 1000"),
    ],
)
def test_what_constructors_refuse(build, message):
    with pytest.raises(ConjoinError, match=message):
        build(Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]}))


def test_other_domains_are_refused():
    small, large = Domain.numbered([2]), Domain.numbered([2, 3])
    cpds = [TableCPD.of(large, "v0", [], 0.5), TableCPD.of(large, "v1", [], [0.2, 0.3, 0.5])]
    with pytest.raises(ModelError, match="another domain"):
        BayesianNetwork(Domain.numbered([2, 2]), cpds)
    with pytest.raises(ModelError, match="not in the domain"):
        DependencyNetwork(small, cpds)


def test_logistic_beside_a_variable_of_many_states():
    domain = Domain.numbered([2, 2, 100])
    cpd = logistic_cpd(domain, 0, -1.0, {1: 2.0})
    p = np.exp(cpd.log_probabilities(np.array([[0, 1, 99]], np.uint8)))
    assert p[0, 1] == pytest.approx(1 / (1 + np.exp(-1)))


def test_conditional_needs_no_value_of_its_own():
    domain = Domain({"a": ["x", "y"], "b": ["x", "y"]})
    cpds = [
        TableCPD.of(domain, "a", ["b"], {"x": 0.2, "y": 0.6}),
        TableCPD.of(domain, "b", [], 0.5),
    ]
    dn = DependencyNetwork(domain, cpds)
    assert dn.conditional("a", {"b": "y"})[0].tolist() == pytest.approx([0.4, 0.6])
    for model in (dn, convert(dn)):
        without, given = {"b": "y"}, {"a": "x", "b": "y"}
        assert model.conditional("a", without).tolist() == model.conditional("a", given).tolist()
        with pytest.raises(DataError, match="no value for 'b'"):
            model.conditional("a", {"a": "x"})
