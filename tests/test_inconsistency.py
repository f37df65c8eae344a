"""How far conditionals disagree, against inclusion and exclusion over all states."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

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
from conjoin.conversion import Product, decompose, decomposition
from conjoin.errors import ModelError
from conjoin.joint import interactions as pair_strengths
from reference import all_states, interactions, log_potentials
from strategies import (
    generators,
    random_dependency_network,
    random_domain,
    random_marginals,
    random_markov_network,
)


def by_hand(dn, marginals):
    """Spread by variable and by set of variables, from conditionals alone."""
    domain, states = dn.domain, all_states(dn.domain)
    parts = []
    for cpd in dn.cpds:
        log_p = cpd.log_probabilities(states)[np.arange(len(states)), states[:, cpd.target]]
        parts.append(interactions(domain, marginals, log_p, cpd.target))
    q = np.array([np.prod([m[s] for m, s in zip(marginals, x, strict=True)]) for x in states])
    q = q.reshape(domain.cards)
    by_variable = np.zeros(len(domain))
    by_set = {}
    for b in {b for p in parts for b in p}:
        mean = sum(parts[i][b] for i in b) / len(b)
        squares = [float(((parts[i][b] - mean) ** 2 * q).sum()) for i in b]
        by_set[b] = np.sqrt(np.mean(squares))
        by_variable[list(b)] += squares
    return np.sqrt(by_variable), by_set


@given(generators())
def test_against_all_states(rng):
    dn = random_dependency_network(rng, random_domain(rng, high=3))
    marginals = random_marginals(rng, dn.domain)
    found = inconsistency(dn, base=Product(marginals))
    by_variable, by_set = by_hand(dn, marginals)
    assert found.complete
    np.testing.assert_allclose(list(found.by_variable.values()), by_variable, atol=1e-9)
    assert found.total == pytest.approx(np.sqrt(np.mean(by_variable**2)), abs=1e-9)
    got = {
        tuple(dn.domain.index(n) for n in item.variables): item.disagreement
        for item in found.interactions
    }
    for b, value in by_set.items():
        assert got.get(b, 0.0) == pytest.approx(value, abs=1e-9)
    values = [item.disagreement for item in found.interactions]
    assert values == sorted(values, reverse=True)


@given(generators())
def test_parts_are_added_up_with_and_without_sorting(rng):
    form = random_dependency_network(rng, random_domain(rng, high=3)).form
    if rng.random() < 0.5:
        form = random_markov_network(rng).form
    marginals = random_marginals(rng, form.domain)
    size = int(rng.integers(1, 4))
    found: list[dict] = [{}, {}]
    for tables, limit in zip(found, (0, 10**9), strict=True):
        with mock.patch.object(decomposition, "MAX_COUNTERS", limit):
            for part in decompose(form, marginals, size):
                for members, first in zip(part.sets.tolist(), part.first.tolist(), strict=True):
                    cells = int(form.domain.cards[members].prod())
                    tables[tuple(members)] = part.values[:, first : first + cells]
    assert found[0].keys() == found[1].keys()
    for members, values in found[0].items():
        np.testing.assert_allclose(values, found[1][members], atol=1e-12)


@given(generators())
def test_consistent_networks_have_none(rng):
    dn = DependencyNetwork.from_markov_network(random_markov_network(rng))
    found = inconsistency(dn, base=Product(random_marginals(rng, dn.domain)))
    assert found.total < 1e-12
    assert all(item.disagreement < 1e-12 for item in found.interactions)


def test_the_contested_pair_of_section_5():
    domain = Domain({"x1": ["T", "F"], "x2": ["T", "F"]})
    dn = DependencyNetwork(
        domain,
        [
            TableCPD.of(domain, "x1", ["x2"], {"T": [0.8, 0.2], "F": [0.2, 0.8]}),
            TableCPD.of(domain, "x2", ["x1"], {"T": [0.2, 0.8], "F": [0.8, 0.2]}),
        ],
    )
    found = inconsistency(dn)
    (pair,) = found.interactions
    # The pair part of x1's CPD is +-log(4)/2 on every state, and x2's is its opposite.
    assert pair.variables == ("x1", "x2")
    assert pair.disagreement == pytest.approx(np.log(4) / 2)
    assert pair.opinions == pytest.approx({"x1": np.log(4) / 2, "x2": -np.log(4) / 2})
    assert found.total == pytest.approx(np.log(4) / 2)


def test_blocks_and_limits(monkeypatch):
    dn = random_dependency_network(
        np.random.default_rng(3), Domain.numbered([2, 3, 2, 2]), kinds=("tree",)
    )
    marginals = [np.full(c, 1 / c) for c in dn.domain.cards]
    for size in (2, 3):
        (whole,) = decompose(dn.form, marginals, size)
        with monkeypatch.context() as context:
            context.setattr(decomposition, "ENTRIES_AT_ONCE", 8)
            pieces = list(decompose(dn.form, marginals, size))
        assert len(pieces) > 1
        found = {
            tuple(s): values
            for part in pieces
            for s, values in zip(part.sets, np.split(part.values, part.first[1:], 1), strict=True)
        }
        for s, values in zip(whole.sets, np.split(whole.values, whole.first[1:], 1), strict=True):
            np.testing.assert_allclose(found[tuple(s)], values, atol=1e-12)
        assert len(found) == len(whole.sets)
    pairs = inconsistency(dn, max_size=2)
    assert not pairs.complete
    assert all(len(i.variables) == 2 for i in pairs.interactions)
    assert "up to 2 variables" in str(pairs)
    assert inconsistency(dn, max_work=0).max_size == 2


@given(generators())
def test_parts_of_all_sizes_against_all_states(rng):
    """The tables of `decompose`, off values included, against inclusion and exclusion."""
    domain = random_domain(rng, high=3)
    mn = random_markov_network(rng, domain)
    if rng.random() < 0.5:
        mn = convert(random_dependency_network(rng, domain), orders="all", max_length=1)
    marginals = random_marginals(rng, domain)
    values = log_potentials(mn, all_states(domain))
    expected = {}
    for target in range(len(domain)):
        expected |= interactions(domain, marginals, values, target)
    found = {}
    for size in range(1, len(domain) + 1):
        for part in decompose(mn.form, marginals, size):
            tables = np.split(part.values[0], part.first[1:])
            found |= {tuple(s.tolist()): t for s, t in zip(part.sets, tables, strict=True)}
    for variables, table in expected.items():
        mine = found.pop(variables, np.zeros(table.size))
        np.testing.assert_allclose(mine, table.ravel(), atol=1e-9)
    assert not found


def test_arrays_and_frames_are_tables():
    rng = np.random.default_rng(0)
    domain = Domain.numbered([2, 3, 2])
    dn = random_dependency_network(rng, domain)
    codes = np.stack([rng.integers(0, c, 20) for c in domain.cards], axis=1)
    frame = pd.DataFrame(codes[:, ::-1], columns=domain.names[::-1])
    table = Table(domain, codes)
    for data in (codes, frame):
        assert inconsistency(dn, data).by_variable == inconsistency(dn, table).by_variable
        assert str(pair_strengths(dn, data)) == str(pair_strengths(dn, table))
        one, other = convert(dn, data).features, convert(dn, table).features
        assert one.weights.tolist() == other.weights.tolist()


@given(generators())
def test_the_order_of_pairs_does_not_depend_on_the_order_of_columns(rng):
    """All weights are equal, so that most pairs are tied."""
    n = 6
    names = [f"v{i}" for i in rng.permutation(n)]
    scopes = [rng.choice(n, int(rng.integers(2, 4)), replace=False) for _ in range(8)]
    found = []
    for order in (names, sorted(names)):
        domain = Domain({name: [0, 1] for name in order})
        terms = [(1.0, {f"v{v}": 1 for v in scope.tolist()}) for scope in scopes]
        pairs = pair_strengths(MarkovNetwork(domain, Features.from_terms(domain, terms)))
        found.append([frozenset(link.variables) for link in pairs.strongest(100)])
    assert found[0] == found[1]


def test_what_is_refused():
    dn = random_dependency_network(np.random.default_rng(3), Domain.numbered([2, 2]))
    table = Table(dn.domain, [[0, 1]])
    with pytest.raises(ModelError, match="product of marginals"):
        inconsistency(dn, table, base="data")
    with pytest.raises(ModelError, match="max_size"):
        inconsistency(dn, max_size=1)


def test_estimated_inconsistency_is_near_the_exact_one():
    rng = np.random.default_rng(4)
    dn = random_dependency_network(rng, Domain.numbered([2, 3, 2, 2]), kinds=("table",))
    exact = inconsistency(dn)
    assert exact.complete
    pairs = inconsistency(dn, max_size=2)
    # 2,048 rows: a few per cent.
    assert pairs.total == pytest.approx(exact.total, rel=0.1)
    assert pairs.by_variable == pytest.approx(exact.by_variable, rel=0.2)
    many = inconsistency(dn, max_size=2, rows=200_000)
    assert many.total == pytest.approx(exact.total, rel=0.01)
    with pytest.raises(ModelError, match="rows must be 1 or more"):
        inconsistency(dn, rows=0)


def test_inconsistency_needs_every_state():
    dn = random_dependency_network(np.random.default_rng(3), Domain.numbered([2, 2]))
    with pytest.raises(ModelError, match="every state is possible"):
        inconsistency(dn, base={"v0": 0, "v1": 0})


def test_opinions_have_the_size_of_what_is_said():
    domain = Domain({"a": [1, 2, 3], "b": [1, 2, 3]})
    one = np.outer([1, -1, 0], [1, -1, 0]).astype(float)
    two = np.outer([1, 1, -2], [1, 1, -2]) / 3
    dn = DependencyNetwork(
        domain, [TableCPD(domain.cards, 0, [1], one.T), TableCPD(domain.cards, 1, [0], two)]
    )
    (pair,) = inconsistency(dn).interactions
    # Each is already free of main effects; its size is its root mean square over the nine states.
    assert pair.opinions == pytest.approx({"a": 2 / 3, "b": 2 / 3})


@pytest.mark.parametrize("draw", [random_markov_network, random_dependency_network])
def test_large_tables_of_pairs_are_the_same(draw):
    rng = np.random.default_rng(3)
    model = draw(rng, Domain.numbered([3, 2, 4, 3]))
    expected = pair_strengths(model)
    with mock.patch.object(decomposition, "LARGE_CELLS", 6):
        found = pair_strengths(model)
    assert len(expected) > 2
    for one, other in zip(expected.strongest(9), found.strongest(9), strict=True):
        assert one.variables == other.variables
        np.testing.assert_allclose(one.table, other.table, atol=1e-9)
