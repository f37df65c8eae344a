"""Matrices of indicators, whole and sparse, and steps over them, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin import Domain, Table, learn
from conjoin.learning.indicator_matrix import Dense, Screened, Sparse, indicators
from conjoin.learning.logistic_features import Design, PathFeatures, joint_counts
from conjoin.learning.logistic_path import LogisticPath
from conjoin.learning.options import Limits, parent_rules


def random_indicators(seed, share):
    rng = np.random.default_rng(seed)
    x = rng.random((int(rng.integers(1, 70)), int(rng.integers(1, 40)))) < share
    return rng, x


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 0.6))
def test_both_forms_do_what_the_matrix_does(seed, share):
    rng, x = random_indicators(seed, share)
    rows, width = x.shape
    first = np.cumsum([0, *x.sum(axis=0)])
    forms = [Dense(x.astype(np.float32)), Sparse(rows, first, np.nonzero(x.T)[1].astype(np.int32))]
    columns = rng.permutation(rng.integers(1, 40))  # more and fewer than a kernel's lanes
    values = rng.normal(size=(len(columns) + 1, rows)).astype(np.float32)
    weights = np.where(rng.random((3, width)) < 0.5, rng.normal(size=(3, width)), 0.0)
    h = np.where(rng.random(rows) < 0.8, rng.random(rows), 0.0).astype(np.float32)
    some = np.flatnonzero(rng.random(width) < 0.5)
    size = int(rng.integers(1, 6))
    leaf = rng.integers(0, size, rows).astype(np.int32)
    by_leaf = np.zeros((size, width))
    np.add.at(by_leaf, leaf, h[:, None] * x)
    both = x.T @ (x * h[:, None].astype(float))
    for form in forms:
        assert form.width == width
        np.testing.assert_allclose(form.logits(weights), weights @ x.T, atol=1e-4)
        np.testing.assert_allclose(form.slopes(values, columns), values[columns] @ x, atol=1e-4)
        np.testing.assert_allclose(form.second_moments(h), both, atol=1e-4)
        np.testing.assert_allclose(
            form.second_moments(h, some), both[np.ix_(some, some)], atol=1e-4
        )
        out = np.zeros((size, width))
        form.by_leaf(leaf, h, out)
        np.testing.assert_allclose(out, by_leaf, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.sampled_from([1, 70, 5000]))
def test_screened_products_leave_out_features_that_are_not_considered(seed, rows):
    rng = np.random.default_rng(seed)
    x = rng.random((rows, int(rng.integers(1, 40)))) < 0.5
    some = rng.permutation(x.shape[1])[: int(rng.integers(1, 40))]
    x, whole = x[:, some], Dense(x.astype(np.float32)).select(some)
    considered = rng.random((5, len(some))) < 0.3
    form = whole.screened(considered)
    assert isinstance(form, Screened) == (considered.mean() <= 0.4)
    weights = np.where(considered, rng.normal(size=considered.shape), 0.0)
    np.testing.assert_allclose(form.logits(weights), weights @ x.T, atol=1e-4)
    columns = np.flatnonzero(rng.random(5) < 0.7)
    values = rng.normal(size=(5, rows)).astype(np.float32)
    found, expected = form.slopes(values, columns), values[columns].astype(float) @ x
    wanted = considered[columns]
    np.testing.assert_allclose(found[wanted], expected[wanted], atol=1e-3)
    if isinstance(form, Screened):
        assert not found[~wanted].any()


def test_few_ones_are_kept_by_their_places():
    _, x = random_indicators(1, 0.5)
    assert isinstance(indicators(list(x.T), len(x)), Dense)
    x[:, 1:] = False
    sparse = indicators(list(x.T), len(x))
    assert isinstance(sparse, Sparse)
    np.testing.assert_array_equal(sparse.row, np.flatnonzero(x[:, 0]))


def random_tree(rng, size):
    parent = np.array([-1, *(int(rng.integers(0, node)) for node in range(1, size))], np.int64)
    depth = np.zeros(size, np.int64)
    for node in range(1, size):
        depth[node] = depth[parent[node]] + 1
    return parent, depth


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_steps_over_a_tree_need_no_matrix_of_it(seed):
    """The correlations among nodes, which follow from the tree, against those of the columns."""
    from conjoin.kernels.coordinate_descent import (
        QuadraticModel,
        TreePart,
        coordinate_descent,
        tree_descent,
    )

    rng = np.random.default_rng(seed)
    rows, width, size = 60, int(rng.integers(0, 5)), int(rng.integers(2, 12))
    parent, depth = random_tree(rng, size)
    leaf = rng.integers(0, size, rows).astype(np.int32)
    path = PathFeatures(leaf, parent, depth, np.zeros(0, np.int64))
    x = rng.random((rows, width)) < 0.4
    columns = np.concatenate([x, path.members[leaf]], axis=1).astype(float)
    weights = np.full(rows, 1 / rows, np.float32)
    together, share = joint_counts(Dense(x.astype(np.float32)), path, weights)
    np.testing.assert_allclose(share, columns[:, width:].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(together, columns[:, width:].T @ x / rows, atol=1e-6)
    deviation = columns.std(axis=0)
    own = np.array([n for n in range(1, size) if deviation[width + n] > 0], np.int64)
    plain = np.flatnonzero(deviation[:width] > 0)
    kept = np.concatenate([plain, width + own])
    standard = (columns[:, kept] - columns[:, kept].mean(axis=0)) / deviation[kept]
    rho = (standard.T @ standard / rows).astype(np.float32)
    g, w = rng.normal(size=(2, len(kept)))
    w[rng.random(len(kept)) < 0.5] = 0.0
    s = rng.random(len(kept)) + 0.1
    cost = 0.1
    expected = np.zeros(len(kept))
    whole = QuadraticModel(rho, s, g, w, np.full(len(kept), cost), 2.0)
    decrease = coordinate_descent(whole, 200, 1e-12, expected)
    n = len(plain)
    got, own_got = np.zeros(n), np.zeros(len(own))
    by_node = [np.zeros(size) for _ in range(3)]
    for values, part in zip(by_node, (s, g, w), strict=True):
        values[own] = part[n:]
    model = QuadraticModel(rho[:n, :n].copy(), s[:n], g[:n], w[:n], np.full(n, cost), 2.0)
    tree = TreePart(
        own,
        rho[n:, :n].copy(),
        *by_node,
        cost,
        parent,
        columns[:, width:].mean(axis=0),
        deviation[width:],
    )
    found = tree_descent(model, tree, 200, 1e-12, got, own_got)
    assert found == pytest.approx(decrease, rel=1e-4, abs=1e-5)
    # nodes with the same rows share their weight in any way: compare what the steps do
    reached = standard * s @ np.concatenate([got, own_got])
    np.testing.assert_allclose(reached, standard * s @ expected, atol=5e-3)


def wide_table(rows=300, width=220, seed=0):
    rng = np.random.default_rng(seed)
    topic = rng.random((rows, 4)) < 0.3
    rate = np.where(rng.random((4, width)) < 0.2, 0.4, 0.02)
    p = 1 - np.prod(1 - topic[:, :, None] * rate, axis=1)
    return Table(Domain.numbered([2] * width), (rng.random((rows, width)) < p).astype(int))


def test_sparse_and_dense_designs_learn_the_same():
    table = wide_table(width=30)
    rules = parent_rules(table.domain, None, None)
    found = {}
    for limit in (0.0, 1.0):
        path = LogisticPath(table, None, rules, limits=Limits(sparse_share=limit))
        assert isinstance(path.design.x, Sparse if limit else Dense)
        path.advance_all([5.0, 2.0])
        found[limit] = log_p(path.cpds(2.0), table)
    np.testing.assert_allclose(found[0.0], found[1.0], atol=2e-3)


def log_p(cpds, table):
    return np.stack([cpd.log_probabilities(table.codes)[:, 1] for cpd in cpds])


@pytest.mark.parametrize(("targets", "batches"), [(50, 1), (100, 2)])
def test_a_worse_penalty_is_given_up_after_some_targets(targets, batches):
    """220 targets are solved in four batches of at most 64; the first of them speak for all."""
    table, valid = wide_table(), wide_table(rows=100, seed=1)
    valid = Table(table.domain, valid.codes)
    rules = parent_rules(table.domain, None, None)
    path = LogisticPath(table, valid, rules, limits=Limits(probe_targets=targets))
    assert path._probe() == batches
    assert path.advance(20.0) is not None
    solved = len(path.solutions)
    found = path.advance(0.05)
    assert found is None
    assert len(path.solutions) == solved
    chosen = learn(table, "logistic", valid=valid).provenance["learned"]
    tried = [value for value, _ in chosen["penalty_path"]]
    assert chosen["penalty"] == min(tried)  # the next one was given up before it had a score


def test_the_chosen_penalty_is_solved_to_the_end():
    table = wide_table(width=12)
    valid = Table(table.domain, table.codes[:50])
    rules = parent_rules(table.domain, None, None)
    rough, exact = (LogisticPath(table, valid, rules) for _ in range(2))
    rough.advance(10.0)
    rough.advance(1.0)
    exact.advance_all([10.0, 1.0])
    logits = [log_p(path.cpds(1.0), table) for path in (rough, exact)]
    np.testing.assert_allclose(*logits, atol=5e-3)
    scores = [path.solutions[1.0][0].score.sum() for path in (rough, exact)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)


def test_a_design_of_missing_values_has_no_indicators_for_them():
    codes = np.array([[0, 255], [1, 2], [255, 0]], np.uint8)
    design = Design.of(np.array([2, 3]), codes, np.ones(3))
    whole = np.array([[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0]])
    np.testing.assert_array_equal(design.x.logits(np.eye(4)).T, whole)
