"""From dependency networks to Bayesian networks."""

from __future__ import annotations

from graphlib import TopologicalSorter

import numpy as np
import pytest

from conjoin import Domain, Table, convert, learn_conditionals
from conjoin.data import joint_codes
from conjoin.errors import ModelError
from conjoin.learning import Options
from conjoin.research import TreeFamily, acyclic_parents, to_bayesian_network

KAPPA, LEAVES = 0.3, Options(3.0, 1.0)


def random_table(rng, size, count, max_card=3, missing=0.0):
    """Rows of columns that depend on up to three of those before them."""
    cards = rng.integers(2, max_card + 1, size)
    codes = np.zeros((count, size), np.int64)
    for v in range(size):
        own = rng.permutation(v)[:3]
        p = rng.dirichlet(np.full(cards[v], 0.5), 64)
        key = (codes[:, own] * rng.integers(1, 9, len(own))).sum(axis=1) % 64
        codes[:, v] = (p[key].cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)
    codes = np.where(rng.random(codes.shape) < missing, -1, codes)
    return Table(Domain.numbered(cards), codes)


def relearned(table, target, allowed):
    """Learn the tree of one variable with the public function; return its score and its parents."""
    names = table.domain.names
    others = [name for u, name in enumerate(names) if u != target and u not in allowed]
    dn = learn_conditionals(
        table,
        "tree",
        kappa=KAPPA,
        min_leaf=LEAVES.min_leaf,
        pseudo=LEAVES.pseudo,
        forbidden={names[target]: others},
    )
    cpd = dn.cpds[target]
    log_p = cpd.log_probabilities(table.codes)[np.arange(len(table)), table.codes[:, target]]
    splits = int((cpd.tree.var >= 0).sum())
    return float(log_p.sum()) + splits * np.log(KAPPA), cpd.blanket


def reachable(parents):
    """Return whether each variable (rows) is an ancestor of each other one, by repeated steps."""
    n = len(parents)
    edge = np.zeros((n, n), bool)
    for v, own in enumerate(parents):
        edge[list(own), v] = True
    found = edge.copy()
    for _ in range(n):
        found |= (found.astype(int) @ edge.astype(int)) > 0
    return found


def broken_naively(table, parents):
    """Remove the cheapest edge on a cycle, with every conditional learned anew for every cost."""
    left = list(parents)
    while True:
        above = reachable(left)
        edges = []
        for i, own in enumerate(left):
            for j in own:
                if above[i, j]:  # j -> i closes a cycle
                    full = relearned(table, i, own)[0]
                    without = relearned(table, i, set(own) - {j})[0]
                    edges.append((full - without, i, j))
        if not edges:
            return left
        _, i, j = min(edges)
        left[i] = relearned(table, i, set(left[i]) - {j})[1]


def families_of(table, parents):
    return [TreeFamily(table, v, own, KAPPA, LEAVES) for v, own in enumerate(parents)]


def trees_of(table):
    return learn_conditionals(
        table, "tree", kappa=KAPPA, min_leaf=LEAVES.min_leaf, pseudo=LEAVES.pseudo
    )


@pytest.mark.parametrize("seed", range(5))
def test_costs_and_choices_are_those_of_learning_anew(seed):
    table = random_table(np.random.default_rng(seed), 5, 120)
    parents = [cpd.blanket for cpd in trees_of(table).cpds]
    families = families_of(table, parents)
    for i, own in enumerate(parents):
        full = relearned(table, i, own)[0]
        for j in own:
            allowed = set(own) - {j}
            score, used = relearned(table, i, allowed)
            assert families[i].fit(allowed).parents == used
            found = families[i].fit(own).score - families[i].fit(allowed).score
            assert found == pytest.approx(full - score, abs=1e-9)
    found = acyclic_parents(families, parents)
    assert found == broken_naively(table, parents)
    assert not np.diag(reachable(found)).any()


@pytest.mark.parametrize("kind", ["tree", "logistic", "mixed"])
@pytest.mark.parametrize(
    ("method", "cpd"),
    [
        ("break-cycles", "auto"),
        ("break-cycles", "table"),
        ("order", "auto"),
        ("order", "table"),
        ("order", "tree"),
    ],
)
def test_the_result_is_a_distribution_over_an_acyclic_graph(kind, method, cpd):
    rng = np.random.default_rng(3)
    table = random_table(rng, 6, 300, missing=0.02)
    dn = learn_conditionals(table, kind, **({"penalty": 1.0} if kind == "logistic" else {}))
    bn = to_bayesian_network(dn, table, method, cpd=cpd)
    list(TopologicalSorter({c.target: c.blanket for c in bn.cpds}).static_order())
    everything = joint_codes(table.domain.cards, range(6))
    log_p = bn.log_likelihood(everything)
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-9)
    one_by_one = sum(
        c.log_probabilities(everything)[np.arange(len(everything)), everything[:, c.target]]
        for c in bn.cpds
    )
    np.testing.assert_allclose(log_p, one_by_one, atol=1e-12)
    record = bn.provenance["bayesian"]
    assert record["method"] == method
    assert record["edges"] == sum(len(c.blanket) for c in bn.cpds)
    assert cpd in ("auto", record["cpd"])
    if method == "break-cycles":
        allowed = [set(c.blanket) for c in dn.cpds]
        assert all(set(c.blanket) <= own for c, own in zip(bn.cpds, allowed, strict=True))


@pytest.mark.parametrize("method", ["break-cycles", "order"])
def test_the_network_does_not_depend_on_the_order_of_columns_or_repeated_rows(method):
    rng = np.random.default_rng(5)
    table = random_table(rng, 8, 400)
    names = [table.domain.names[v] for v in rng.permutation(8)]
    counted = Table(table.domain, table.codes, np.full(400, 2.0))
    twice = Table(table.domain, np.concatenate([table.codes, table.codes]))
    one = to_bayesian_network(
        learn_conditionals(table, "tree", kappa=0.1), table, method, cpd="tree", kappa=0.1
    )
    moved = table.reordered(names)
    other = to_bayesian_network(
        learn_conditionals(moved, "tree", kappa=0.1), moved, method, cpd="tree", kappa=0.1
    )
    np.testing.assert_allclose(one.log_likelihood(table), other.log_likelihood(moved), atol=1e-9)
    dn = learn_conditionals(twice, "tree", kappa=0.1)
    found = [
        to_bayesian_network(dn, rows, method, cpd="table", kappa=0.1).log_likelihood(table)
        for rows in (counted, twice)
    ]
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize("method", ["break-cycles", "order"])
def test_tables_can_be_kept_small(method):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (2000, 7))
    codes[:, 6] = (codes[:, :6].sum(axis=1) > 3) ^ (rng.random(2000) < 0.05)
    table = Table(Domain.numbered([2] * 7), codes)
    dn = learn_conditionals(table, "tree")
    whole = to_bayesian_network(dn, table, method, cpd="tree")
    assert max(len(c.blanket) for c in whole.cpds) > 2
    for cpd in ("tree", "table"):
        small = to_bayesian_network(dn, table, method, cpd=cpd, max_cells=8)
        assert max(len(c.blanket) for c in small.cpds) <= 2


@pytest.mark.parametrize("best", ["table", "tree"])
def test_the_kind_of_cpd_is_chosen_on_the_validation_rows(best):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (3000, 12))
    if best == "table":
        codes[:, 2] = codes[:, 0] ^ codes[:, 1] ^ (rng.random(3000) < 0.1)
    else:  # the first column that is 1 decides, of more columns than a table can have
        codes[:, :11] = rng.random((3000, 11)) < 0.2
        first = codes[:, :11].argmax(axis=1)
        codes[:, 11] = rng.random(3000) < np.where(first % 2, 0.02, 0.98)
    table, valid = (Table(Domain.numbered([2] * 12), part) for part in np.split(codes, 2))
    bn = to_bayesian_network(learn_conditionals(table, "tree"), table, "order", valid=valid)
    record = bn.provenance["bayesian"]
    assert record["cpd"] == best == max(record["held_out"], key=record["held_out"].get)
    assert bn.log_likelihood(valid).mean() == pytest.approx(record["held_out"][best])


def test_wrong_arguments():
    table = random_table(np.random.default_rng(0), 3, 60)
    dn = learn_conditionals(table, "tree")
    with pytest.raises(ModelError, match=r"there is no method 'orders'.*'order'"):
        to_bayesian_network(dn, table, "orders")
    with pytest.raises(ModelError, match=r"there is no kind of CPD 'trees'.*'tree'"):
        to_bayesian_network(dn, table, cpd="trees")
    with pytest.raises(ModelError, match="expected a dependency network, not MarkovNetwork"):
        to_bayesian_network(convert(dn, table), table)
    with pytest.raises(ModelError, match="no rows"):
        to_bayesian_network(dn, Table(table.domain, np.zeros((0, 3), np.uint8)))
