"""The search for parents: scores, the best order against brute force, and the network that results."""

from __future__ import annotations

from graphlib import TopologicalSorter
from itertools import combinations, permutations
from math import lgamma

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import Domain, Table, convert, learn_conditionals, log_partition
from conjoin.joint import (
    EQUIVALENT_ROWS,
    FamilyScores,
    directed_network,
    fitted,
    learn_joint,
    learn_structure,
    search_parents,
)
from strategies import generators


def random_rows(rng, size, count=200):
    """Rows in which each column depends on some of those before it."""
    cards = rng.integers(2, 4, size)
    codes = np.zeros((count, size), np.int64)
    for v in range(size):
        above = codes[:, rng.permutation(v)[: int(rng.integers(0, 3))]]
        noise = rng.integers(0, cards[v], count)
        codes[:, v] = np.where(rng.random(count) < 0.6, above.sum(axis=1) % cards[v], noise)
    return codes[:, rng.permutation(size)], cards


def slow_score(codes, weights, cards, child, parents):
    """BDeu, one joint state of the parents at a time."""
    states = [tuple(row[list(parents)]) for row in codes]
    configurations = int(np.prod(cards[list(parents)]))
    total = 0.0
    for state in set(states):
        here = np.array([s == state for s in states])
        prior = EQUIVALENT_ROWS / configurations
        total += lgamma(prior) - lgamma(prior + weights[here].sum())
        for k in range(cards[child]):
            count = weights[here & (codes[:, child] == k)].sum()
            total += lgamma(prior / cards[child] + count) - lgamma(prior / cards[child])
    return total


@settings(max_examples=30)
@given(generators())
def test_scores_against_the_definition(rng):
    codes, _ = random_rows(rng, 4, 50)
    cards = codes.max(axis=0) + 1
    weights = rng.uniform(0.1, 3, 50)
    scores = FamilyScores(codes, weights, cards)
    child, *others = rng.permutation(4).tolist()
    parents = tuple(sorted(others[: int(rng.integers(0, 4))]))
    expected = slow_score(codes, weights, cards, child, parents)
    assert scores(child, parents) == pytest.approx(expected, abs=1e-8)


@settings(max_examples=30)
@given(generators())
def test_equivalent_structures_have_equal_scores(rng):
    """Reversing the only edge changes nothing, as the prior is the same for both."""
    codes, _ = random_rows(rng, 2)
    scores = FamilyScores(codes, np.ones(len(codes)), codes.max(axis=0) + 1)
    forward, backward = scores(0, ()) + scores(1, (0,)), scores(1, ()) + scores(0, (1,))
    assert forward == pytest.approx(backward, abs=1e-8)


def best_by_brute_force(scores, size):
    """The best score of all orders, each column with its best parents among all before it."""
    subsets = {
        (v, frozenset(s)): scores(v, s)
        for v in range(size)
        for k in range(size)
        for s in combinations([u for u in range(size) if u != v], k)
    }
    best = -np.inf
    for order in permutations(range(size)):
        total = 0.0
        for place, v in enumerate(order):
            before = frozenset(order[:place])
            total += max(value for (w, s), value in subsets.items() if w == v and s <= before)
        best = max(best, total)
    return best


@settings(max_examples=10, deadline=None)
@given(generators())
def test_the_search_finds_the_best_structure(rng):
    size = int(rng.integers(2, 6))
    codes, _ = random_rows(rng, size)
    scores = FamilyScores(codes, np.ones(len(codes)), codes.max(axis=0) + 1)
    others = [[u for u in range(size) if u != v] for v in range(size)]
    parents, order = search_parents(scores, others, rng)
    place = np.argsort(order)
    assert all(place[u] < place[v] for v, own in enumerate(parents) for u in own)
    total = sum(scores(v, own) for v, own in enumerate(parents))
    assert total == pytest.approx(best_by_brute_force(scores, size), abs=1e-8)
    assert total >= sum(scores(v, ()) for v in range(size)) - 1e-8


@settings(max_examples=10, deadline=None)
@given(generators())
def test_only_candidates_become_parents_and_there_is_no_cycle(rng):
    codes, _ = random_rows(rng, 12)
    scores = FamilyScores(codes, np.ones(len(codes)), codes.max(axis=0) + 1)
    candidates = [sorted(np.delete(np.arange(12), v)[rng.permutation(11)[:4]]) for v in range(12)]
    parents, _ = search_parents(scores, candidates, rng)
    assert all(set(own) <= set(some) for own, some in zip(parents, candidates, strict=True))
    TopologicalSorter(dict(enumerate(parents))).prepare()  # raises an error if there is a cycle


def chain_of(size, count, rng):
    """Rows of a chain in which every second column depends on the two before it."""
    codes = rng.integers(0, 2, (count, size))
    for v in range(2, size):
        source = codes[:, v - 1] ^ codes[:, v - 2] if v % 2 else codes[:, v - 1]
        codes[:, v] = np.where(rng.random(count) < 0.85, source, codes[:, v])
    return Table(Domain.numbered([2] * size), codes)


def test_an_effect_of_two_parents_together_is_found():
    """No two of these columns depend on each other."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (2000, 12))
    codes[:, 9] = codes[:, 2] ^ codes[:, 5] ^ (rng.random(2000) < 0.1)
    table = Table(Domain.numbered([2] * 12), codes)
    parents = learn_structure(convert(learn_conditionals(table, "tree"), table), table, rng)
    assert any({2, 5, 9} - {v} <= set(parents[v]) for v in (2, 5, 9))


def test_probabilities_are_counted():
    table = Table(Domain.numbered([2, 3]), [[0, 0], [0, 1], [0, 1], [1, 2]], [1.0, 2.0, 1.0, 1.0])
    network = fitted(table, [(), (0,)])
    p = np.exp(network.cpds[1].table)
    prior = EQUIVALENT_ROWS / 6
    np.testing.assert_allclose(p[0], np.array([1 + prior, 3 + prior, prior]) / (4 + 3 * prior))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert log_partition(network.to_markov_network()).value == pytest.approx(0, abs=1e-12)


def test_a_structure_that_is_too_dense_loses_its_weakest_edges():
    rng = np.random.default_rng(1)
    table = chain_of(20, 3000, rng)
    model = convert(learn_conditionals(table, "tree"), table)
    whole = learn_structure(model, table, np.random.default_rng(0))
    small = learn_structure(model, table, np.random.default_rng(0), max_cells=100)
    assert all(set(few) <= set(many) for few, many in zip(small, whole, strict=True))
    cells = directed_network.cells
    assert cells(small, table.domain.cards) <= 100 < cells(whole, table.domain.cards)


def test_rows_of_a_sparse_network_are_described_by_a_bayesian_network():
    """The candidate is chosen, and its answers are those of the true network."""
    rng = np.random.default_rng(0)
    table = chain_of(9, 4000, rng)
    _, joint = learn_joint(table)
    assert joint.provenance["refined"]["chosen"] == "Bayesian network"
    test = chain_of(9, 2000, rng)
    found = joint.log_potential(test) - log_partition(joint).value
    one = np.log([0.925, 0.075])  # the source with probability 0.85, or else by chance
    odd = np.arange(9) % 2
    source = test.codes.copy()
    source[:, 2:] = np.where(odd[2:], test.codes[:, 1:-1] ^ test.codes[:, :-2], test.codes[:, 1:-1])
    expected = one[(test.codes != source)[:, 2:].astype(int)].sum(axis=1) + 2 * np.log(0.5)
    assert float((expected - found).mean()) < 0.01


def test_the_network_does_not_depend_on_the_order_of_columns():
    rng = np.random.default_rng(2)
    table = chain_of(9, 1500, rng)
    order = rng.permutation(9)
    moved = table.reordered([table.domain.names[v] for v in order])
    one, two = (learn_joint(rows, cpd="tree", effort="quick")[1] for rows in (table, moved))
    assert one.provenance["refined"]["chosen"] == two.provenance["refined"]["chosen"]
    assert one.provenance["refined"]["chosen"] == "Bayesian network"
    np.testing.assert_allclose(one.log_potential(table), two.log_potential(moved), atol=1e-9)
