"""The conversion against Equation 4, written out over all states, base instances and orders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin import (
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    TableCPD,
    convert,
    inconsistency,
)
from conjoin.conversion import Instances, Product, SubFeatures, expand_orders, resolve_orders
from conjoin.errors import ModelError
from conjoin.models import LogLinearCPD
from reference import (
    all_states,
    converted,
    feature_rows,
    orders_of,
    product_bases,
)
from strategies import (
    generators,
    logistic_cpd,
    random_bayesian_network,
    random_dependency_network,
    random_domain,
    random_marginals,
    random_markov_network,
)


def log_conditionals(dn):
    states = all_states(dn.domain)
    result = []
    for cpd in dn.cpds:
        chosen = cpd.log_probabilities(states)[np.arange(len(states)), states[:, cpd.target]]
        result.append(chosen.reshape(dn.domain.cards))
    return result


def assert_same_function(mn, expected, atol=1e-9):
    """Equal up to a constant, which only moves log Z."""
    got = mn.log_potential(all_states(mn.domain))
    np.testing.assert_allclose(got - got[0], expected - expected[0], atol=atol)


BASES = ("instance", "instances", "uniform", "marginals", "table", "data")
ORDERS = ("single", "rotations", "all")


def random_base(rng, domain, kind):
    """A base as `convert` takes it, and as explicit (probability, instance) pairs."""
    states = all_states(domain)
    if kind == "instance":
        x = states[rng.integers(len(states))]
        return {"base": domain.decode(x)}, [(1.0, tuple(x))]
    if kind == "uniform":
        return {"base": "uniform"}, [(1 / len(states), tuple(x)) for x in states]
    if kind == "marginals":
        m = random_marginals(rng, domain)
        named = {
            v.name: dict(zip(v.states, p, strict=True)) for v, p in zip(domain, m, strict=True)
        }
        return {"base": named}, product_bases(domain, m)
    weights = rng.random(7) if rng.random() < 0.5 else None
    rows = states[rng.integers(len(states), size=7)]
    table = Table(domain, rows, weights)
    if kind == "table":  # its marginals, (count + 1/d) / (N + 1)
        w = np.ones(7) if weights is None else weights
        m = [
            (np.array([w[rows[:, i] == s].sum() for s in range(c)]) + 1 / c) / (w.sum() + 1)
            for i, c in enumerate(domain.cards)
        ]
        return {"table": table}, product_bases(domain, m)
    share = np.full(7, 1 / 7) if weights is None else weights / weights.sum()
    pairs = [(float(p), tuple(x)) for p, x in zip(share, rows, strict=True)]
    if kind == "data":
        return {"table": table, "base": "data"}, pairs
    return {"base": table}, pairs


def random_orders(rng, domain, kind):
    """Orders as `convert` takes them, and as an explicit list."""
    n = len(domain)
    if kind == "all":
        return {"orders": "all", "max_length": 10}, orders_of(n, "all")
    reverse = bool(rng.random() < 0.5)
    given_orders = None
    options = {"orders": kind, "reverse": reverse}
    if rng.random() < 0.7:
        given_orders = [rng.permutation(n).tolist() for _ in range(int(rng.integers(1, 4)))]
        options["order"] = [[domain.names[i] for i in o] for o in given_orders]
    return options, orders_of(n, kind, given_orders, reverse)


@pytest.mark.parametrize("order_kind", ORDERS)
@pytest.mark.parametrize("base_kind", BASES)
@given(rng=generators())
def test_every_choice_is_equation_4(rng, base_kind, order_kind):
    dn = random_dependency_network(rng, random_domain(rng, high=3))
    base, bases = random_base(rng, dn.domain, base_kind)
    options, orders = random_orders(rng, dn.domain, order_kind)
    expected = converted(dn.domain, log_conditionals(dn), bases, orders)
    assert_same_function(convert(dn, **base, **options), expected)


@pytest.mark.parametrize("order_kind", ORDERS)
@given(rng=generators())
def test_consistent_networks_are_converted_exactly(rng, order_kind):
    source = random_markov_network(rng) if rng.random() < 0.5 else random_bayesian_network(rng)
    if isinstance(source, MarkovNetwork):
        dn, mn = DependencyNetwork.from_markov_network(source), source
    else:
        dn, mn = DependencyNetwork.from_bayesian_network(source), source.to_markov_network()
    base, _ = random_base(rng, dn.domain, str(rng.choice(BASES)))
    options, _ = random_orders(rng, dn.domain, order_kind)
    assert_same_function(convert(dn, **base, **options), mn.log_potential(all_states(dn.domain)))


@given(generators(), st.integers(0, 4))
def test_integration_equals_expansion(rng, max_length):
    dn = random_dependency_network(rng)
    m = random_marginals(rng, dn.domain)
    if rng.random() < 0.3:  # certain tests, whose complement is impossible
        m[0] = np.eye(len(m[0]))[0]
    expanded = convert(dn, base=Product(m), orders="all", max_length=99)
    mixed = convert(dn, base=Product(m), orders="all", max_length=max_length)
    assert_same_function(mixed, expanded.log_potential(all_states(dn.domain)))
    long = [len(tests) for _, tests in feature_rows(dn.features()[0]) if len(tests) > max_length]
    soft = int(mixed.features.soft_rows().sum())
    assert soft <= sum(-(-k // 2) for k in long)
    assert np.abs(mixed.features.off_values()).max(initial=0) <= 1 + 1e-12


def random_pairwise(rng, n):
    domain = Domain.numbered([2] * n)
    cpds = []
    for i in range(n):
        terms = [(float(rng.normal()), {f"v{i}": int(rng.integers(2))})]
        for j in range(n):
            if j != i and rng.random() < 0.7:
                when = {f"v{i}": int(rng.integers(2)), f"v{j}": int(rng.integers(2))}
                terms.append((float(rng.normal()), when))
        cpds.append(LogLinearCPD.of(domain, f"v{i}", terms))
    return DependencyNetwork(domain, cpds)


@pytest.mark.parametrize("order_kind", ORDERS)
@given(rng=generators())
def test_logistic_conditionals_become_pairs(rng, order_kind):
    dn = random_pairwise(rng, int(rng.integers(2, 5)))
    base, bases = random_base(rng, dn.domain, str(rng.choice(BASES)))
    options, orders = random_orders(rng, dn.domain, order_kind)
    mn = convert(dn, **base, **options)
    assert mn.features.lengths.max(initial=0) <= 2
    assert_same_function(mn, converted(dn.domain, log_conditionals(dn), bases, orders))


def test_pair_weights_are_the_mean():
    # THEORY: with both directions the pair weight is (w_ij + w_ji) / 2, whatever the family.
    domain = Domain.numbered([2, 2, 2])
    w = np.array([[0, 1.0, -2.0], [3.0, 0, 0.5], [4.0, 1.5, 0]])
    dn = DependencyNetwork(
        domain,
        [logistic_cpd(domain, i, 0.1, {j: w[i, j] for j in range(3) if j != i}) for i in range(3)],
    )
    for orders in ORDERS:
        mn = convert(dn, orders=orders)
        pairs = {
            tuple(tests): weight for weight, tests in feature_rows(mn.features) if len(tests) == 2
        }
        assert pairs == pytest.approx({(0, 1): 2.0, (0, 2): 1.0, (1, 2): 1.0})


# ---- the paper's examples -----------------------------------------------------------------------


def two_variables(p1, p2):
    domain = Domain({"x1": ["T", "F"], "x2": ["T", "F"]})
    rows = [{"T": [p, 1 - p], "F": [r, 1 - r]} for p, r in (p1, p2)]
    return DependencyNetwork(
        domain,
        [TableCPD.of(domain, "x1", ["x2"], rows[0]), TableCPD.of(domain, "x2", ["x1"], rows[1])],
    )


def joint(mn):
    p = np.exp(mn.log_potential(all_states(mn.domain)))
    return p / p.sum()


def test_section_4_1():
    dn = two_variables((4 / 5, 2 / 5), (2 / 3, 1 / 4))
    expected = [0.4, 0.2, 0.1, 0.3]
    mn = convert(
        dn, base={"x1": "T", "x2": "T"}, orders="single", order=["x1", "x2"], reverse=False
    )
    np.testing.assert_allclose(joint(mn), expected, atol=1e-12)
    for orders in ORDERS:
        np.testing.assert_allclose(joint(convert(dn, orders=orders)), expected, atol=1e-12)


@pytest.mark.parametrize(("state", "expected"), [("T", [4, 16, 1, 64]), ("F", [64, 1, 16, 4])])
def test_section_5(state, expected):
    dn = two_variables((4 / 5, 1 / 5), (1 / 5, 4 / 5))
    mn = convert(
        dn, base={"x1": state, "x2": state}, orders="single", order=["x1", "x2"], reverse=False
    )
    np.testing.assert_allclose(85 * joint(mn), expected, atol=1e-9)
    for orders in ORDERS:
        np.testing.assert_allclose(joint(convert(dn, orders=orders)), [0.25] * 4, atol=1e-12)


def test_section_4_2():
    """Three features of P(X2 | X1, X4).

    The printed example fixes X3 and X4, the variables after X2, although Section 4 and Table 2 fix
    those before the target; so the order of the example is [4, 3, 2, 1] in Table 2's terms.
    """
    domain = Domain({f"x{i}": ["F", "T"] for i in (1, 2, 3, 4)})
    w1, w2, w3 = 0.7, -1.3, 2.1
    terms = [
        (w1, {"x1": "T", "x2": "F", "x4": "T"}),
        (w2, {"x1": "T", "x2": "T"}),
        (w3, {"x2": "T", "x4": "F"}),
    ]
    cpds = [TableCPD.of(domain, n, [], 0.5) for n in ("x1", "x3", "x4")]
    cpds.append(LogLinearCPD.of(domain, "x2", terms))
    mn = convert(
        DependencyNetwork(domain, cpds),
        base=dict.fromkeys(domain.names, "T"),
        orders="single",
        order=["x4", "x3", "x2", "x1"],
        reverse=False,
    )
    rows = {frozenset((v, *s) for v, (s, _) in t.items()): w for w, t in feature_rows(mn.features)}
    # phi_2 = exp(w1 (x1 and not x2) + w2 (x1 and x2) - w2 x1)
    assert rows == pytest.approx(
        {
            frozenset({(0, 1), (1, 0)}): w1,
            frozenset({(0, 1), (1, 1)}): w2,
            frozenset({(0, 1)}): -w2,
        }
    )


def test_section_5_2_rotations():
    """The feature X4, X6, X7, X13 of X7's CPD, over all rotations of 1..n.

    The paper prints 5/n for the last case; X8 to X13 are six variables, so it is 6/n.
    """
    n = 20
    domain = Domain({f"x{i}": ["F", "T"] for i in range(1, n + 1)})
    feature = Features.from_terms(domain, [(1.0, {f"x{i}": "T" for i in (4, 6, 7, 13)})])
    sub = SubFeatures(feature.tests)
    family = resolve_orders(domain, "rotations", None, False)
    ones = Product.of_instance(domain, [1] * n).bind(feature.tests)  # every test is satisfied
    expand_orders(sub, feature, np.array([6]), ones, family)
    rows = [(w, {v + 1 for v in t}) for w, t in feature_rows(sub.collect()) if 6 in t]
    expected = {
        frozenset({4, 6, 7, 13}): 1 / n,
        frozenset({4, 7, 13}): 2 / n,
        frozenset({7, 13}): (4 + (n - 13)) / n,
        frozenset({7}): 6 / n,
    }
    assert {frozenset(t): w for w, t in rows} == pytest.approx(expected)
    assert sum(expected.values()) == pytest.approx(1)


def test_section_5_2_all_orders_by_counting():
    """(l-1)!(k-l)!/k! of the orders keep a sub-feature of l out of k tests."""
    from itertools import permutations

    domain = Domain.numbered([2] * 4)
    feature = {f"v{i}": 1 for i in range(4)}
    cpds = [TableCPD.of(domain, f"v{i}", [], 0.5) for i in range(3)]
    cpds.append(LogLinearCPD.of(domain, "v3", [(1.0, feature)]))
    mn = convert(DependencyNetwork(domain, cpds), base=dict.fromkeys(domain.names, 1), orders="all")
    counts = {}
    for order in permutations(range(4)):
        kept = frozenset(order[order.index(3) :])
        counts[kept] = counts.get(kept, 0) + 1 / 24
    got = {frozenset(t): w for w, t in feature_rows(mn.features) if 3 in t}
    assert got == pytest.approx(counts)


# ---- what is refused, and what does not matter --------------------------------------------------


def test_zero_probabilities_are_refused_by_name():
    domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    dn = DependencyNetwork(
        domain,
        [
            TableCPD.of(domain, "rain", ["wet"], {"no": 0.1, "yes": 0.5}),
            TableCPD.of(domain, "wet", ["rain"], {"no": 0.1, "yes": 1.0}),
        ],
    )
    with pytest.raises(ModelError, match="CPD of 'wet'.*0 or 1.*rain=yes"):
        convert(dn)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "marginals"}, "needs a table"),
        ({"base": "data"}, "needs a table"),
        ({"base": "marginal"}, "unknown base 'marginal'"),
        ({"base": {"x1": "T"}}, "no value for 'x2'"),
        ({"base": {"x1": {"T": 0.4, "F": 0.6}}}, "no marginal for 'x2'"),
        ({"base": {"x1": {"T": 0.4}, "x2": {"T": 1}}}, "must sum to 1"),
        ({"base": []}, "is empty"),
        ({"orders": "some"}, "unknown orders 'some'"),
        ({"orders": "all", "order": ["x1", "x2"]}, "do not give `order`"),
        ({"order": ["x1"]}, "must name each of the 2 variables"),
        ({"order": ["x1", "x3"]}, "no variable 'x3'"),
        ({"order": []}, "list of orders is empty"),
        ({"max_length": -1}, "max_length must be 0 or more"),
        ({"base": 5}, "is not a base"),
        ({"order": [0, 1]}, "list of names"),
        ({"base": {"x1": {"T": float("nan")}, "x2": {"T": 1}}}, "must sum to 1"),
        ({"base": Product([[0.5, 0.5]])}, "each variable"),
        ({"base": Instances(np.array([[5, 7]], np.uint8))}, "no state number 5"),
    ],
)
def test_wrong_options_are_named(options, message):
    dn = two_variables((4 / 5, 2 / 5), (2 / 3, 1 / 4))
    with pytest.raises(ValueError, match=message):
        convert(dn, **options)


def test_long_features_need_independent_bases():
    domain = Domain.numbered([2] * 3)
    cpds = [TableCPD.of(domain, f"v{i}", [], 0.5) for i in range(2)]
    cpds.append(LogLinearCPD.of(domain, "v2", [(1.0, {"v0": 1, "v1": 1, "v2": 1})]))
    dn = DependencyNetwork(domain, cpds)
    instances = Instances(np.zeros((1, 3), np.uint8))
    with pytest.raises(ModelError, match="max_length"):
        convert(dn, base=instances, orders="all", max_length=2)
    assert len(convert(dn, base=instances, orders="all", max_length=3).features) > 0


def test_instances_in_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    dn = random_dependency_network(rng, Domain.numbered([2] * 4), kinds=("tree",))
    table = Table(dn.domain, rng.integers(0, 2, (50, 4)))
    states = all_states(dn.domain)
    weighted = Table(dn.domain, table.codes, rng.random(50))
    for orders in ORDERS:
        for rows in (table, weighted):
            whole = convert(dn, rows, base="data", orders=orders).log_potential(states)
            with monkeypatch.context() as context:
                context.setattr("conjoin.conversion.base_distribution.BITS_AT_ONCE", 1)
                pieces = convert(dn, rows, base="data", orders=orders).log_potential(states)
            np.testing.assert_allclose(pieces, whole, atol=1e-12)


def test_same_input_same_bytes(tmp_path):
    dn = random_dependency_network(np.random.default_rng(5))
    convert(dn).save(tmp_path / "a.conjoin")
    convert(dn).save(tmp_path / "b.conjoin")
    assert (tmp_path / "a.conjoin").read_bytes() == (tmp_path / "b.conjoin").read_bytes()


def test_conditionals_with_off_values_are_not_converted_again():
    rng = np.random.default_rng(0)
    dn = random_dependency_network(rng, Domain.numbered([3, 3, 3]), kinds=("table",))
    soft = convert(dn, orders="all", max_length=0)
    again = DependencyNetwork.from_markov_network(soft)
    for refused in (convert, inconsistency):
        with pytest.raises(ModelError, match="off values"):
            refused(again)


def test_very_long_features_keep_their_length():
    n = 70_000
    domain = Domain.numbered([2] * n)
    rows = np.arange(n)
    masks = np.full((n, 1), 2, np.uint64)
    features = Features.from_tests(domain.cards, np.zeros(n, np.int64), rows, masks, [1.0])
    from conjoin.conversion import Product, SubFeatures, expand_orders, resolve_orders

    sub = SubFeatures(features.tests)
    ones = Product.of_instance(domain, [1] * n).bind(features.tests)
    expand_orders(sub, features, np.array([0]), ones, resolve_orders(domain, "single", None, False))
    assert sorted(sub.collect().lengths.tolist()) == [n - 1, n]


def test_equal_features_are_merged():
    domain = Domain.numbered([2, 2])
    cpds = [logistic_cpd(domain, i, 0.1, {1 - i: 1.0}) for i in range(2)]
    for options in ({}, {"orders": "all"}, {"orders": "single"}):
        features = convert(DependencyNetwork(domain, cpds), **options).features
        assert len(features) == len(features.merged()) and (features.weights != 0).all()


def test_instances_without_weight_are_refused():
    dn = random_dependency_network(np.random.default_rng(1), Domain.numbered([2, 2]))
    with pytest.raises(ModelError, match="all base instances are 0"):
        convert(dn, Table(dn.domain, [[0, 1]], weights=[0.0]), base="data")
    with pytest.raises(ModelError, match="with rows"):
        convert(dn, Table(dn.domain, np.zeros((0, 2), np.uint8)))


def test_all_orders_are_counted_before_they_are_written():
    n = 40
    domain = Domain.numbered([2] * n)
    cpds = [TableCPD.of(domain, f"v{i}", [], 0.5) for i in range(1, n)]
    cpds.append(LogLinearCPD.of(domain, "v0", [(1.0, {f"v{i}": 1 for i in range(n)})]))
    dn = DependencyNetwork(domain, cpds)
    with pytest.raises(ModelError, match="a smaller max_length"):
        convert(dn, orders="all", max_length=n)
    assert len(convert(dn, orders="all").features) > 0
