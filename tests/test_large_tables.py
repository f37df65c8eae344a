"""Hybrids of large tables: samples of rows, and columns chosen for each target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.csgraph import minimum_spanning_tree

import conjoin.learning.screening as screening
from conjoin import Domain, Table, learn_conditionals, pll
from conjoin.data import sample_rows
from conjoin.learning import (
    FORBIDDEN,
    REQUIRED,
    Limits,
    LogisticPath,
    Options,
    TreePath,
    parent_rules,
)
from conjoin.learning.logistic_features import TOLERANCE, Design
from strategies import generators


def chain(rng, n=12, rows=600, cards=None, missing=0.0, weighted=False):
    """Rows in which each column mostly repeats the one before it."""
    cards = np.full(n, 2) if cards is None else np.asarray(cards)
    codes = rng.integers(0, cards, (rows, len(cards)))
    for j in range(1, len(cards)):
        copied = rng.random(rows) < 0.7
        codes[copied, j] = codes[copied, j - 1] % cards[j]
    codes[rng.random(codes.shape) < missing] = -1
    weights = rng.integers(0, 4, rows).astype(float) if weighted else None
    domain = Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})
    return Table(domain, codes, weights)


def design_of(table):
    weights = np.ones(len(table)) if table.weights is None else table.weights
    return Design.of(table.domain.cards, table.codes, weights)


def answers(dn, table):
    rows = np.where(table.codes == table.missing, 0, table.codes)
    return np.concatenate([dn.conditional(name, rows).ravel() for name in table.domain.names])


def small_limits(rows=10**9, columns=10**9, kept=4, weight_rows=10**9, **others):
    """Return limits with which small tables count as large."""
    return Limits(rows, weight_rows, columns, kept, products=0, **others)


# ---- screening ------------------------------------------------------------------------------------


@given(generators())
@settings(max_examples=20, deadline=None)
def test_information_is_that_of_the_most_telling_indicators(rng):
    table = chain(rng, cards=rng.integers(2, 5, 4), rows=80, missing=0.1, weighted=True)
    weights = table.weights / max(table.weights.sum(), 1)
    if not weights.any():
        return
    found = screening.mutual_information(design_of(table))
    first_state = (table.domain.cards == 2).astype(int)
    for i in range(4):
        for j in range(4):
            best = 0.0
            for a in range(first_state[i], table.domain.cards[i]):
                for b in range(first_state[j], table.domain.cards[j]):
                    one, two = table.codes[:, i] == a, table.codes[:, j] == b
                    total = 0.0
                    for first in (one, ~one):
                        for second in (two, ~two):
                            p = weights[first & second].sum()
                            if p > 0:
                                q = weights[first].sum() * weights[second].sum()
                                total += p * np.log(p / q)
                    best = max(best, total)
            assert found[i, j] == pytest.approx(0.0 if i == j else best, abs=1e-6)


@given(generators())
@settings(max_examples=20, deadline=None)
def test_the_strongest_tree_is_a_maximum_spanning_tree(rng):
    n = int(rng.integers(2, 12))
    information = rng.random((n, n)) + 0.01
    information = np.maximum(information, information.T)
    order, parent = screening.strongest_tree(information)
    assert sorted(order) == list(range(n))
    place = np.argsort(order)
    assert all(place[parent[v]] < place[v] for v in order[1:])
    weight = information[order[1:], parent[order[1:]]].sum()
    assert weight == pytest.approx(-minimum_spanning_tree(-information).sum())


def test_the_strongest_columns_are_considered_and_rules_are_kept():
    rng = np.random.default_rng(0)
    n = 50
    information = rng.random((n, n))
    information = np.maximum(information, information.T)
    rules = rng.choice(np.array([FORBIDDEN, 1, 1, 1, REQUIRED], np.int8), (n, n))
    np.fill_diagonal(rules, FORBIDDEN)
    parent, count = screening.strongest_tree(information)[1], 20
    kept = screening.screened_columns(information, rules, parent, count)
    for t in range(n):
        assert kept[rules[:, t] == REQUIRED, t].all()
        assert not kept[rules[:, t] == FORBIDDEN, t].any()
        allowed = np.flatnonzero(rules[:, t] != FORBIDDEN)
        strongest = allowed[np.argsort(-information[allowed, t])][:count]
        assert kept[strongest, t].all()


def test_screened_regressions_use_only_considered_columns():
    limits = small_limits(columns=5, kept=3)
    table = chain(np.random.default_rng(1), n=20, rows=2000)
    dn = learn_conditionals(table, penalty=1.0, limits=limits)
    rules = parent_rules(table.domain, None, None)
    trees = TreePath(table, None, Options(), rules)
    trees.advance(dn.provenance["learned"]["kappa"])
    kappa = dn.provenance["learned"]["kappa"]
    path = LogisticPath(table, None, rules, None, trees, kappa, exhaustive=False, limits=limits)
    _, considered = path._screen(rules, 3)
    assert considered.sum(axis=0).max() < 12
    for t, name in enumerate(table.domain.names):
        used = [table.domain.index(other) for other in dn.blanket(name)]
        assert considered[used, t].all()
        for near in (t - 1, t + 1):  # the true neighbours
            assert not 0 <= near < 20 or near in used


def test_screening_that_keeps_all_columns_changes_nothing():
    table = chain(np.random.default_rng(2), n=20, rows=800)
    rows = table.codes[:50]
    whole = answers(learn_conditionals(table, penalty=2.0), Table(table.domain, rows))
    limits = small_limits(columns=5, kept=19, large_tolerance=TOLERANCE)
    same = answers(learn_conditionals(table, penalty=2.0, limits=limits), Table(table.domain, rows))
    np.testing.assert_allclose(same, whole, atol=2e-3)


# ---- learning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hybrid", "mixed"])
def test_exhaustive_learning_is_that_of_small_tables(kind):
    table = chain(np.random.default_rng(3), cards=[2, 3, 2, 2, 4, 2], rows=300)
    valid = chain(np.random.default_rng(4), cards=[2, 3, 2, 2, 4, 2], rows=100)
    for options in ({}, {"valid": valid}):
        small = learn_conditionals(table, kind, **options)
        assert np.array_equal(
            answers(learn_conditionals(table, kind, exhaustive=True, **options), table),
            answers(small, table),
        )
    limits = small_limits(rows=50, columns=2)
    again = learn_conditionals(table, kind, exhaustive=True, limits=limits, **options)
    assert np.array_equal(answers(again, table), answers(small, table))


@pytest.mark.parametrize("given_valid", [False, True])
@pytest.mark.parametrize(
    "sizes", [{"columns": 5}, {"rows": 200, "weight_rows": 250}, {"columns": 5, "rows": 200}]
)
def test_large_tables_of_any_kind(sizes, given_valid):
    limits = small_limits(**sizes, probe_targets=4)  # so that some targets choose for all
    cards = [2, 3, 2, 2, 4, 2, 2, 2, 2, 2, 2, 2]
    table, valid = (
        chain(np.random.default_rng(seed), cards=cards, missing=0.1, weighted=True)
        for seed in (5, 6)
    )
    options = {"valid": valid if given_valid else None}
    one, two = (
        learn_conditionals(table, n_jobs=n_jobs, limits=limits, **options) for n_jobs in (1, 2)
    )
    assert np.array_equal(answers(one, table), answers(two, table))
    complete = chain(np.random.default_rng(7), cards=cards)
    whole = learn_conditionals(table, exhaustive=True, **options)
    assert pll(one, complete).mean > pll(whole, complete).mean * (1.1 if "rows" in sizes else 1.02)


@pytest.mark.parametrize("columns", [5, 10**9])
def test_paths_of_some_targets_score_these_as_paths_of_all_do(columns):
    cards = [2, 3, 2, 2, 4, 2, 2, 2, 2, 2, 2, 2]
    table, valid = (chain(np.random.default_rng(seed), cards=cards) for seed in (9, 10))
    rules, limits = parent_rules(table.domain, None, None), small_limits(columns=columns)
    found = []
    for targets in (None, range(1, 12, 3)):
        trees = TreePath(table, valid, Options(), rules, None, targets)
        by_tree = trees.advance(1e-3)
        path = LogisticPath(
            table, valid, rules, None, trees, 1e-3, 2, exhaustive=False, limits=limits,
            targets=targets,
        )  # fmt: skip
        found.append(np.stack([by_tree, path.advance(5.0)]))
    whole, some = found
    chosen = np.isin(np.arange(12), range(1, 12, 3))
    assert not some[:, ~chosen].any()
    np.testing.assert_array_equal(some[0, chosen], whole[0, chosen])
    np.testing.assert_allclose(some[1, chosen], whole[1, chosen], rtol=1e-3)


def test_some_targets_choose_kappa_and_the_penalty_of_wide_tables():
    table = chain(np.random.default_rng(11), n=24, rows=300)
    limits = small_limits(columns=20, kept=20, probe_targets=6)
    assert screening.choosing_targets(table, limits) == range(0, 24, 4)
    assert screening.choosing_targets(table, Limits(screened_columns=20, probe_targets=6)) is None
    assert screening.choosing_targets(table) is None
    record = learn_conditionals(table, "hybrid", limits=limits).provenance["learned"]
    whole = learn_conditionals(table, "hybrid", exhaustive=True).provenance["learned"]
    for setting in ("kappa_path", "penalty_path"):
        (_, few), (_, all_targets) = record[setting][0], whole[setting][0]
        assert few == pytest.approx(all_targets / 4, rel=0.3)  # sums over 6 targets, and over 24


def test_samples_keep_rows_and_weights():
    table = chain(np.random.default_rng(8), n=3, rows=50, weighted=True)
    table = Table(table.domain, table.codes, np.arange(1.0, 51.0) + 0.5)
    sample = sample_rows(table, 20, np.random.default_rng(0))
    rows = sample.weights.astype(int) - 1
    assert len(sample) == 20
    assert (np.diff(rows) > 0).all()
    assert np.array_equal(sample.codes, table.codes[rows])
    assert sample_rows(table, 50, np.random.default_rng(0)) is table


def test_weights_that_count_rows_are_sampled_as_rows():
    table = chain(np.random.default_rng(8), n=3, rows=50, weighted=True)
    table = Table(table.domain, table.codes, np.arange(1.0, 51.0))
    sample = sample_rows(table, 20, np.random.default_rng(0))
    assert sample.weights.sum() == 20
    assert (sample.weights >= 1).all()
    total = int(table.weights.sum())
    assert sample_rows(table, total, np.random.default_rng(0)) is table
