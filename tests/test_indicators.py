"""Matrices of indicators, and steps over them, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin import Domain, Table, learn_conditionals
from conjoin.learning import Limits, LogisticPath, parent_rules
from conjoin.learning.logistic_features import Indicators, PathFeatures, joint_counts
from reference import path_members


def random_indicators(seed, share):
    rng = np.random.default_rng(seed)
    x = rng.random((int(rng.integers(1, 70)), int(rng.integers(1, 40)))) < share
    return rng, x


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 0.6))
def test_products_are_those_of_the_matrix(seed, share):
    rng, x = random_indicators(seed, share)
    rows, width = x.shape
    form = Indicators(x.astype(np.float32))
    columns = rng.permutation(rng.integers(1, 40))  # more and fewer than a kernel's lanes
    values = rng.normal(size=(len(columns) + 1, rows)).astype(np.float32)
    weights = np.where(rng.random((3, width)) < 0.5, rng.normal(size=(3, width)), 0.0)
    h = np.where(rng.random(rows) < 0.8, rng.random(rows), 0.0).astype(np.float32)
    size = int(rng.integers(1, 6))
    leaf = rng.integers(0, size, rows).astype(np.int32)
    by_leaf = np.zeros((size, width))
    np.add.at(by_leaf, leaf, h[:, None] * x)
    both = x.T @ (x * h[:, None].astype(float))
    assert form.width == width
    np.testing.assert_allclose(form.logits(weights), weights @ x.T, atol=1e-4)
    np.testing.assert_allclose(form.slopes(values, columns), values[columns] @ x, atol=1e-4)
    np.testing.assert_allclose(form.second_moments(h), both, atol=1e-4)
    out = np.zeros((size, width))
    form.by_leaf(leaf, h, out)
    np.testing.assert_allclose(out, by_leaf, atol=1e-4)


def random_tree(rng, size):
    parent = np.array([-1, *(int(rng.integers(0, node)) for node in range(1, size))], np.int64)
    depth = np.zeros(size, np.int64)
    for node in range(1, size):
        depth[node] = depth[parent[node]] + 1
    return parent, depth


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_correlations_of_nodes_follow_from_the_tree(seed):
    """They are those of the columns that say which rows each node has."""
    from conjoin.kernels.coordinate_descent import correlate_nodes

    rng = np.random.default_rng(seed)
    rows, width, size = 60, int(rng.integers(0, 5)), int(rng.integers(2, 12))
    parent, depth = random_tree(rng, size)
    leaf = rng.integers(0, size, rows).astype(np.int32)
    path = PathFeatures(leaf, parent, depth, np.zeros(0, np.int64))
    x = rng.random((rows, width)) < 0.4
    nodes = path_members(parent)[leaf].astype(float)
    weights = np.full(rows, 1 / rows, np.float32)
    together, share = joint_counts(Indicators(x.astype(np.float32)), path, weights)
    np.testing.assert_allclose(share, nodes.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(together, nodes.T @ x / rows, atol=1e-6)
    deviation = nodes.std(axis=0)
    own = np.array([n for n in range(1, size) if deviation[n] > 0], np.int64)
    standard = (nodes[:, own] - nodes[:, own].mean(axis=0)) / deviation[own]
    matrix = np.zeros((width + len(own), width + len(own)), np.float32)
    correlate_nodes(own, parent, nodes.mean(axis=0), deviation, matrix)
    np.testing.assert_allclose(matrix[width:, width:], standard.T @ standard / rows, atol=1e-5)


def wide_table(rows=300, width=220, seed=0):
    rng = np.random.default_rng(seed)
    topic = rng.random((rows, 4)) < 0.3
    rate = np.where(rng.random((4, width)) < 0.2, 0.4, 0.02)
    p = 1 - np.prod(1 - topic[:, :, None] * rate, axis=1)
    return Table(Domain.numbered([2] * width), (rng.random((rows, width)) < p).astype(int))


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
    chosen = learn_conditionals(table, "logistic", valid=valid).provenance["learned"]
    tried = [value for value, _ in chosen["penalty_path"]]
    assert chosen["penalty"] == min(tried)  # the next one was given up before it had a score


def test_the_chosen_penalty_is_solved_to_the_end():
    table = wide_table(width=12)
    valid = Table(table.domain, table.codes[:50])
    rules = parent_rules(table.domain, None, None)
    rough, exact = LogisticPath(table, valid, rules), LogisticPath(table, None, rules)
    for penalty in (10.0, 1.0):
        rough.advance(penalty)
        exact.advance(penalty)
    before = rough.solutions[1.0][0].score.sum()
    logits = [log_p(path.cpds(1.0), table) for path in (rough, exact)]
    np.testing.assert_allclose(*logits, atol=5e-3)
    assert rough.solutions[1.0][0].tolerance == exact.tolerance
    assert rough.solutions[1.0][0].score.sum() == pytest.approx(before, rel=2e-3)
