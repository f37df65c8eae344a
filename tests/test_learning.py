"""Learners against slow, obvious ones, and against the trees that Libra learned."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import (
    Domain,
    Table,
    Variable,
    convert,
    learn_conditionals,
    load,
    read_table,
    save,
    write_table,
)
from conjoin.cli.main import main
from conjoin.data import as_table, merge_rows, pack_table
from conjoin.errors import ModelError
from conjoin.jobs import TaskRunner
from conjoin.kernels import counts
from conjoin.learning import (
    KAPPAS,
    LAMBDAS,
    Boosting,
    CodedRows,
    Limits,
    LogisticPath,
    NestedTree,
    Options,
    SetIndex,
    TreePath,
    gain_needed,
    learn_boosted_conditional,
    parent_rules,
)
from conjoin.learning.logistic_features import Solution
from conjoin.learning.logistic_multinomial import Rows
from conjoin.learning.tuning import choose
from conjoin.scoring import pll
from reference import all_states, path_members
from strategies import generators

# ---- slow references ------------------------------------------------------------------------------


def log_likelihood(counts, pseudo):
    return float((counts * np.log((counts + pseudo) / (counts.sum() + pseudo * len(counts)))).sum())


def sets_tested(card, ordered):
    """The sets of states that learning tests: single ones, and those up to one of ordered states."""
    listed = [{state} for state in (range(1, 2) if card == 2 else range(card))]
    return listed + [set(range(high)) for high in range(2, card - 1) if ordered]


def slow_tree(table, weights, target, threshold, min_leaf, pseudo, rules=None):
    """Grow a tree by the definition; returns a function of a complete row."""
    codes, cards, ordered = table.codes, table.domain.cards, table.domain.ordered
    missing = np.iinfo(codes.dtype).max

    def count(rows):
        return np.bincount(codes[rows, target], weights[rows], minlength=cards[target])

    def build(rows):
        best = (threshold, None)
        must = (-np.inf, None)
        for j in range(len(cards)):
            rule = 1 if rules is None else rules[j]
            if j == target or rule == 0:
                continue
            known = rows[codes[rows, j] != missing]
            for states in sets_tested(cards[j], ordered[j]):
                inside = np.isin(codes[known, j], list(states))
                yes, no = count(known[inside]), count(known[~inside])
                if yes.sum() < min_leaf or no.sum() < min_leaf:
                    continue
                gain = log_likelihood(yes, pseudo) + log_likelihood(no, pseudo)
                gain -= log_likelihood(count(known), pseudo)
                if gain > best[0] + 1e-9:
                    best = (gain, (j, states))
                if rule == 2 and gain > must[0] + 1e-9:
                    must = (gain, (j, states))
        split = must[1] or best[1]
        if split is None:
            smoothed = count(rows) + pseudo
            return np.log(smoothed / smoothed.sum())
        j, states = split
        known = codes[rows, j] != missing
        yes = known & np.isin(codes[rows, j], list(states))
        larger_yes = 2 * weights[rows[yes]].sum() > weights[rows[known]].sum()
        if larger_yes:
            yes = yes | ~known
        return j, states, build(rows[yes]), build(rows[~yes])

    tree = build(np.flatnonzero(codes[:, target] != missing))

    def answer(row):
        node = tree
        while isinstance(node, tuple):
            j, states, yes, no = node
            node = yes if row[j] in states else no
        return node

    return answer


def random_table(rng, n=4, rows=120, missing=0.0, weighted=None, cards=None, ordered=False):
    cards = rng.integers(2, 7 if ordered else 5, n) if cards is None else cards
    hidden = rng.integers(0, 3, rows)
    columns = []
    for card in cards:
        noise = rng.integers(0, card, rows)
        columns.append(np.where(rng.random(rows) < 0.6, hidden % card, noise))
    codes = np.stack(columns, axis=1)
    codes[rng.random(codes.shape) < missing] = -1
    weights = None
    if weighted == "whole":
        weights = rng.integers(0, 6, rows).astype(float)
    elif weighted == "any":
        weights = rng.random(rows) * 3
    states = [[f"s{k}" for k in range(card)] for card in cards]
    some = [bool(ordered and rng.random() < 0.7) for _ in cards]
    return Table(
        Domain(Variable(f"x{i}", s, ordered=some[i]) for i, s in enumerate(states)), codes, weights
    )


# ---- packing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [None, "whole", "any"])
@given(rng=generators())
def test_packed_counts_are_counts(rng, weighted):
    table = random_table(rng, rows=200, missing=0.1, weighted=weighted, ordered=True)
    packed = pack_table(table)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    tolerance = 0 if weighted != "any" else 1e-6 * weights.sum()
    assert packed.weight == pytest.approx(weights.sum(), abs=tolerance + 1e-9)
    everyone = np.stack([packed.everyone])
    out = np.zeros((len(packed.sets), 1))
    counts.count_bits(packed.sets, everyone, packed.segments, packed.powers, out)
    limits = zip(packed.set_var, packed.set_state, packed.set_last, strict=True)
    for i, (var, first, last) in enumerate(limits):
        column = table.codes[:, var]
        known = column != table.missing
        inside = known if first < 0 else known & (column >= first) & (column <= last)
        assert out[i, 0] == pytest.approx(weights[inside].sum(), abs=tolerance + 1e-9)


@given(generators())
def test_leaves_of_validation_rows_are_counted(rng):
    """The score of a path is that of its CPDs on the validation rows, one by one."""
    table = random_table(rng, rows=300, ordered=True)
    valid = random_table(rng, rows=40, cards=table.domain.cards, weighted="whole")
    rules = parent_rules(table.domain, None, None)
    path = TreePath(table, valid, Options(2.0, 1.0), rules)
    for kappa in (1e-3, 1.0):
        scores = path.advance(kappa)
        for score, cpd in zip(scores, path.cpds(kappa), strict=True):
            log_p = cpd.log_probabilities(valid.codes)[np.arange(40), valid.codes[:, cpd.target]]
            assert score == pytest.approx((valid.weights * log_p).sum(), rel=1e-9)


def test_merged_rows():
    codes = np.array([[0, 1], [1, 1], [0, 1], [0, 0]], np.uint8)
    rows, weights = merge_rows(codes, np.array([1.0, 0.0, 2.5, 1.0]))
    assert rows.tolist() == [[0, 1], [0, 0]]
    assert weights.tolist() == [3.5, 1.0]


# ---- trees ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("weighted", "ordered"), [(None, False), ("whole", False), (None, True)])
@settings(max_examples=15)
@given(rng=generators())
def test_trees_are_grown_by_the_definition(rng, missing, weighted, ordered):
    table = random_table(rng, missing=missing, weighted=weighted, ordered=ordered)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    if not weights.any():
        return
    cards = table.domain.cards
    kappa, pseudo, min_leaf = 0.3, float(rng.choice([0.5, 1.0])), 4.0
    dn = learn_conditionals(table, "tree", kappa=kappa, pseudo=pseudo, min_leaf=min_leaf)
    states = all_states(table.domain)
    for target in range(len(cards)):
        slow = slow_tree(table, weights, target, gain_needed(kappa), min_leaf, pseudo)
        expected = np.array([slow(row) for row in states])
        np.testing.assert_allclose(dn.cpds[target].log_probabilities(states), expected, atol=1e-9)


def test_trees_of_all_kappa_are_nested():
    table = random_table(np.random.default_rng(3), n=5, rows=400)
    rules = parent_rules(table.domain, None, None)
    lazily = TreePath(table, None, Options(), rules)
    for kappa in KAPPAS:
        lazily.advance(kappa)
    states = all_states(table.domain)
    for kappa in KAPPAS:
        afresh = TreePath(table, None, Options(), rules)
        afresh.advance(kappa)
        for a, b in zip(lazily.cpds(kappa), afresh.cpds(kappa), strict=True):
            assert a.tree.n_leaves == b.tree.n_leaves
            np.testing.assert_array_equal(a.log_probabilities(states), b.log_probabilities(states))


def test_small_node_tables_and_shallow_visits_change_nothing():
    table = random_table(np.random.default_rng(5), n=6, rows=600)
    states = all_states(table.domain)
    packed, options = pack_table(table), Options()
    index = SetIndex.build(packed, options.pseudo)
    allowed = parent_rules(table.domain, None, None)
    for target, card in enumerate(table.domain.cards.tolist()):
        whole, shallow = NestedTree(target, card), NestedTree(target, card)
        rules = np.ascontiguousarray(allowed[:, target])
        whole.grow(packed, index, gain_needed(0.9), options, rules)
        shallow.grow(packed, index, gain_needed(0.9), options, rules, max_depth=1)
        a, b = (tree.to_cpd(packed, gain_needed(0.9), 1.0) for tree in (whole, shallow))
        assert a.tree.n_leaves == b.tree.n_leaves
        np.testing.assert_allclose(
            a.log_probabilities(states), b.log_probabilities(states), atol=1e-12
        )


@pytest.mark.parametrize(
    ("name", "kappa", "pseudo"), [("nltcs.tree", 0.1, 1), ("car", 0.01, 0), ("soybean", 0.01, 0)]
)
def test_libra_learned_the_same_trees(name, kappa, pseudo, libra, data):
    """Libra's trees, leaf by leaf. Its multi-valued runs add 1/d to each of d states."""
    reference = load(libra / f"{name}.dn.gz")
    path = data / "debd/nltcs/nltcs.train.data.gz" if pseudo else libra / f"{name}.train.data"
    table = read_table(path, reference.domain)
    packed = pack_table(table)
    rules = parent_rules(table.domain, None, None)
    for target, card in enumerate(table.domain.cards.tolist()):
        count = pseudo or 1 / card
        tree = NestedTree(target, card)
        index = SetIndex.build(packed, count)
        tree.grow(
            packed,
            index,
            gain_needed(kappa),
            Options(pseudo=count),
            np.ascontiguousarray(rules[:, target]),
        )
        ours = tree.to_cpd(packed, gain_needed(kappa), count)
        theirs = reference.cpds[target]
        assert ours.tree.n_leaves == theirs.tree.n_leaves
        np.testing.assert_allclose(
            ours.log_probabilities(table.codes), theirs.log_probabilities(table.codes), atol=1e-5
        )


def test_required_and_forbidden_parents():
    rng = np.random.default_rng(8)
    table = random_table(rng, n=4, rows=500)
    plain = learn_conditionals(table, "tree", kappa=0.1)
    parent = plain.blanket("x0")[0]
    without = learn_conditionals(table, "tree", kappa=0.1, forbidden={"x0": [parent]})
    assert parent not in without.blanket("x0")
    assert all(
        a.blanket == b.blanket for a, b in zip(plain.cpds[1:], without.cpds[1:], strict=True)
    )
    noise = Table(
        Domain({**{v.name: v.states for v in table.domain}, "noise": [0, 1]}),
        np.column_stack([table.codes, rng.integers(0, 2, len(table))]),
    )
    assert "noise" not in learn_conditionals(noise, "tree", kappa=1e-4).blanket("x0")
    required = learn_conditionals(noise, "tree", kappa=1e-4, required={"x0": ["noise"]})
    assert required.cpds[0].tree.var[0] == noise.domain.index("noise")
    rules = parent_rules(noise.domain, None, {"x0": ["noise"]})[:, 0]
    slow = slow_tree(noise, np.ones(len(noise)), 0, gain_needed(1e-4), 10, 1.0, rules)
    states = all_states(noise.domain)
    expected = np.array([slow(row) for row in states])
    np.testing.assert_allclose(required.cpds[0].log_probabilities(states), expected, atol=1e-9)
    with pytest.raises(ModelError, match="both required and forbidden"):
        learn_conditionals(noise, forbidden={"x0": ["noise"]}, required={"x0": ["noise"]})
    logistic = learn_conditionals(table, "logistic", penalty=1.0, forbidden={"x0": [parent]})
    assert parent not in logistic.blanket("x0")


# ---- logistic regression ----------------------------------------------------------------------------


def indicators(table, target):
    """Indicator columns of the other variables, written out."""
    columns, names = [], []
    for j, card in enumerate(table.domain.cards):
        if j != target:
            for states in sets_tested(card, table.domain.ordered[j]):
                columns.append(np.isin(table.codes[:, j], list(states)))
                names.append((j, states))
    return np.stack(columns, axis=1).astype(float), names


def slow_objective(table, target, penalty, extra=None, steps=40_000):
    """The least objective that accelerated proximal gradient descent finds."""
    x, _ = indicators(table, target)
    if extra is not None:
        x = np.concatenate([x, extra], axis=1)
    keep = table.codes[:, target] != table.missing
    x, y = x[keep], table.codes[keep, target]
    m = np.ones(len(y)) if table.weights is None else table.weights[keep]
    card = int(table.domain.cards[target])
    columns = 1 if card == 2 else card
    one_hot = (y[:, None] == (np.array([1]) if card == 2 else np.arange(card))).astype(float)

    def loss_and_gradient(w, b):
        z = x @ w + b
        if columns == 1:
            p = 1 / (1 + np.exp(-z))
            loss = (m[:, None] * (np.logaddexp(0, z) - one_hot * z)).sum()
        else:
            top = z.max(axis=1, keepdims=True)
            e = np.exp(z - top)
            p = e / e.sum(axis=1, keepdims=True)
            loss = (m * (top[:, 0] + np.log(e.sum(axis=1)) - (one_hot * z).sum(axis=1))).sum()
        r = m[:, None] * (p - one_hot)
        return loss, x.T @ r, r.sum(axis=0)

    design = np.column_stack([x, np.ones(len(x))]) * np.sqrt(m)[:, None]
    bound = np.linalg.norm(design, 2) ** 2 * (0.25 if columns == 1 else 0.5)
    w, b = np.zeros((x.shape[1], columns)), np.zeros(columns)
    vw, vb, t = w, b, 1.0
    best = np.inf
    for _ in range(steps):
        _, gw, gb = loss_and_gradient(vw, vb)
        step = vw - gw / bound
        new_w = np.sign(step) * np.maximum(np.abs(step) - penalty / bound, 0)
        new_b = vb - gb / bound
        new_t = (1 + np.sqrt(1 + 4 * t * t)) / 2
        vw = new_w + (t - 1) / new_t * (new_w - w)
        vb = new_b + (t - 1) / new_t * (new_b - b)
        value = loss_and_gradient(new_w, new_b)[0] + (penalty * np.abs(new_w)).sum()
        if abs(best - value) < 1e-13 * abs(value):
            break
        w, b, t, best = new_w, new_b, new_t, min(best, value)
    return best


def objective_of(table, path, penalty, target):
    """The objective of a learned CPD, from its own probabilities and weights."""
    (cpd,) = [c for c in path.cpds(penalty) if c.target == target]
    keep = table.codes[:, target] != table.missing
    features = cpd.features()
    m = np.ones(len(table)) if table.weights is None else table.weights
    scores = features.logits(target, table.codes)
    top = scores.max(axis=1, keepdims=True)
    log_p = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
    chosen = log_p[np.flatnonzero(keep), table.codes[keep, target]]
    norm = np.abs(features.weights[features.lengths > 1]).sum()
    return -(m[keep] * chosen).sum() + penalty * norm


@pytest.mark.parametrize("penalty", [20.0, 3.0, 0.1])
@pytest.mark.parametrize(("weighted", "ordered"), [(None, False), ("any", False), (None, True)])
def test_logistic_reaches_the_optimum(penalty, weighted, ordered):
    rng = np.random.default_rng(12)
    table = random_table(rng, n=5, rows=300, weighted=weighted, ordered=ordered)
    path = LogisticPath(table, None, parent_rules(table.domain, None, None))
    path.advance(100.0)
    path.advance(penalty)
    for target in range(len(table.domain)):
        expected = slow_objective(table, target, penalty)
        got = objective_of(table, path, penalty, target)
        assert got == pytest.approx(expected, rel=2e-6)


def test_logistic_with_missing_values_leaves_their_terms_out():
    table = random_table(np.random.default_rng(2), n=4, rows=300, missing=0.1)
    path = LogisticPath(table, None, parent_rules(table.domain, None, None))
    path.advance(2.0)
    for target in range(len(table.domain)):
        expected = slow_objective(table, target, 2.0)
        assert objective_of(table, path, 2.0, target) == pytest.approx(expected, rel=2e-6)


def test_deterministic_columns_are_solved_too():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 400)
    noise = rng.integers(0, 2, (400, 3))
    codes = np.column_stack([a, a, a ^ (rng.random(400) < 0.01), noise])
    table = Table(Domain.numbered([2] * 6), codes.astype(int))
    path = LogisticPath(table, None, parent_rules(table.domain, None, None))
    for value in LAMBDAS:
        path.advance(value)
    for target in range(6):
        expected = slow_objective(table, target, 0.5)
        assert objective_of(table, path, 0.5, target) == pytest.approx(expected, rel=1e-5)


def nearly_determined(rng, cards, rows=500, noise=0.02):
    """Columns that repeat one hidden column, but for a few rows."""
    hidden = rng.integers(0, max(cards), rows)
    columns = [
        np.where(rng.random(rows) < noise, rng.integers(0, c, rows), hidden % c) for c in cards
    ]
    return Table(Domain.numbered(list(cards)), np.stack(columns, axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [5.0, 0.3])
def test_nearly_determined_columns_of_several_states_are_solved_too(penalty):
    table = nearly_determined(np.random.default_rng(1), (3, 5, 4, 6))
    expected = [slow_objective(table, target, penalty, steps=100_000) for target in range(4)]
    for curvature_rows in (5000, 60):
        limits = Limits(curvature_rows=curvature_rows)
        path = LogisticPath(table, None, parent_rules(table.domain, None, None), limits=limits)
        path.advance(penalty)
        for target in range(4):
            found = objective_of(table, path, penalty, target)
            assert found <= expected[target] * (1 + 1e-5)


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_the_optimum_is_found_from_anywhere(size):
    rng = np.random.default_rng(5)
    table = nearly_determined(rng, (2, 4, 3, 2))
    rules = parent_rules(table.domain, None, None)
    path = LogisticPath(table, None, rules)
    path.advance(1.0)
    best = [objective_of(table, path, 1.0, target) for target in range(4)]
    for i, (batch, found) in enumerate(zip(path.batches, path.solutions[1.0], strict=True)):
        weights = size * rng.normal(size=found.weights.shape)
        weights[path.design.var == batch.column_target[:, None]] = 0.0
        bias = size * rng.normal(size=len(found.bias))
        path.reached[i] = Solution(1.0, weights, bias, found.own, found.score)
    path.advance(1.0)
    for target in range(4):
        assert objective_of(table, path, 1.0, target) == pytest.approx(best[target], rel=2e-5)


@settings(max_examples=15, deadline=None)
@given(rng=generators())
def test_derivatives_of_a_multinomial_loss(rng):
    table = random_table(rng, n=5, rows=60, missing=0.1, weighted="any", cards=[3, 2, 4, 2, 3])
    rules = parent_rules(table.domain, {"x0": ["x3"]}, None)
    trees = TreePath(table, None, Options(min_leaf=3.0), rules)
    trees.advance(1.0)
    path = LogisticPath(table, None, rules, trees=trees, kappa=1.0)
    (solver,) = [batch for batch in path.batches if batch.targets == [0]]
    design, features = path.design, solver.path
    rows = Rows(solver, design, features.leaf)
    # The same as a matrix, from the definitions.
    known = np.flatnonzero(design.codes[:, 0] != design.missing)
    usable = rules[design.var, 0] > 0
    ordinary = (design.codes[known][:, design.var] == design.state) & usable
    nodes = path_members(features.parent)[features.leaf[known]] & (features.depth >= 2)
    x = np.concatenate([ordinary, nodes, np.ones((len(known), 1))], axis=1).astype(float)
    weights = rng.normal(size=(x.shape[1], 3)) * x.any(axis=0)[:, None]
    z = rows.logits(weights[:-1], weights[-1])
    np.testing.assert_allclose(z, x @ weights, atol=1e-9)
    label, m = design.codes[known, 0], design.weights[known].astype(float)
    p = np.empty_like(z)
    loss = rows.softmax(z, p)
    q = np.exp(z - z.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, q, atol=1e-12)
    assert loss == pytest.approx(-float(m @ np.log(q[np.arange(len(q)), label])))
    slope, bend = rows.derivatives(p)
    expected = x.T @ (m[:, None] * (q - np.eye(3)[label]))
    np.testing.assert_allclose(slope, expected, atol=1e-8)
    # In second derivatives a row's own state is raised, and rows that hardly count are left out.
    own = q[np.arange(len(q)), label]
    raised = np.maximum(own, 0.05)
    q *= ((1 - raised) / (1 - own))[:, None]
    q[np.arange(len(q)), label] = raised
    q[q < 1e-4] = 0
    np.testing.assert_allclose(bend, x.T @ (m[:, None] * q * (1 - q)), atol=1e-8)
    counts = m * (q * (1 - q)).sum(axis=1)
    left_out = counts < 1e-2 * float(m @ (1 - (p * p).sum(axis=1))) / len(p)
    active = np.vstack([rng.random((x.shape[1] - 1, 3)) < 0.5, np.ones((1, 3), bool)])
    state, feature = np.nonzero(active.T)
    wide = x[:, feature]
    blocks = (m * ~left_out)[:, None, None] * (
        np.eye(3)[None] * q[:, :, None] - q[:, :, None] * q[:, None, :]
    )
    second = np.einsum("ra,rb,rab->ab", wide, wide, blocks[:, state][:, :, state])
    np.testing.assert_allclose(rows.curvatures(p, active), second, atol=1e-4 * m.sum())


def test_hybrid_adds_the_paths_of_the_tree():
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 2, (600, 4))
    codes[:, 3] = (codes[:, 0] ^ codes[:, 1]) ^ (rng.random(600) < 0.1)
    # exclusive or: trees need a first split that gains something
    codes[:, 2] = codes[:, 0] ^ (rng.random(600) < 0.3)
    table = Table(Domain.numbered([2] * 4), codes)
    rules = parent_rules(table.domain, None, None)
    trees = TreePath(table, None, Options(), rules)
    trees.advance(0.9)
    path = LogisticPath(table, None, rules, trees=trees, kappa=0.9)
    path.advance(50.0)
    path.advance(2.0)
    for target in range(4):
        tree = trees.cpds(0.9)[target].tree
        leaf_sets = []  # every node at depth 2 or more, as an indicator column
        stack = [(0, np.ones(len(table), bool), 0)]
        while stack:
            node, rows, depth = stack.pop()
            if depth >= 2:
                leaf_sets.append(rows)
            if tree.var[node] >= 0:
                for child in set(tree.children(node, table.domain.cards)):
                    states = [
                        s
                        for s, c in enumerate(tree.children(node, table.domain.cards))
                        if c == child
                    ]
                    stack.append(
                        (child, rows & np.isin(codes[:, tree.var[node]], states), depth + 1)
                    )
        extra = np.stack(leaf_sets, axis=1).astype(float) if leaf_sets else None
        expected = slow_objective(table, target, 2.0, extra)
        assert objective_of(table, path, 2.0, target) == pytest.approx(expected, rel=2e-6)


def test_a_hybrid_leaves_variables_of_many_states_to_their_trees():
    rng = np.random.default_rng(4)
    city = rng.integers(0, 40, 900)
    codes = np.stack([city, city // 20 ^ (rng.random(900) < 0.1), rng.integers(0, 3, 900)], axis=1)
    table = Table(Domain.numbered([40, 2, 3]), codes)
    dn = learn_conditionals(table, "hybrid", kappa=0.1, penalty=1.0)
    trees = learn_conditionals(table, "tree", kappa=0.1)
    assert [type(cpd).__name__ for cpd in dn.cpds] == ["TreeCPD", "LogLinearCPD", "LogLinearCPD"]
    np.testing.assert_array_equal(
        dn.log_conditional("v0", table), trees.log_conditional("v0", table)
    )
    chosen = learn_conditionals(table, "hybrid", valid=table)
    best = max(score for _, score in chosen.provenance["learned"]["penalty_path"])
    rows = np.arange(len(table))
    total = sum(
        chosen.log_conditional(name, table)[rows, codes[:, i]].mean()
        for i, name in enumerate(table.domain.names)
    )
    assert total == pytest.approx(best, rel=1e-3)  # the path is solved less exactly


def test_mixed_is_hybrids_for_two_states_and_trees_for_more():
    table = random_table(np.random.default_rng(3), cards=[2, 3, 2, 4], rows=400)
    states = all_states(table.domain)
    mixed, hybrid, trees = (
        learn_conditionals(table, cpd, kappa=0.1, penalty=1.0)
        for cpd in ("mixed", "hybrid", "tree")
    )
    assert [type(cpd).__name__ for cpd in mixed.cpds] == ["LogLinearCPD", "TreeCPD"] * 2
    assert {"x1", "x3"} <= {name for v in ("x0", "x2") for name in mixed.blanket(v)}
    for i, cpd in enumerate(mixed.cpds):
        of_one_kind = (hybrid, trees)[i % 2].cpds[i]
        np.testing.assert_allclose(
            cpd.log_probabilities(states), of_one_kind.log_probabilities(states), atol=1e-3
        )
    for cards, same in (([2, 2, 2], "hybrid"), ([3, 4, 1], "tree")):
        table = random_table(np.random.default_rng(3), cards=cards, rows=400)
        one, other = learn_conditionals(table, "mixed"), learn_conditionals(table, same)
        assert one.provenance["learned"]["cpd"] == "mixed"
        states = all_states(table.domain)
        for a, b in zip(one.cpds, other.cpds, strict=True):
            np.testing.assert_array_equal(a.log_probabilities(states), b.log_probabilities(states))


@pytest.mark.parametrize("kappa", [None, 0.01])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_leaves_are_as_small_as_the_validation_rows_ask_for(kappa, noise):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 12, (2, 900))
    c = np.where(rng.random(900) < noise, rng.integers(0, 12, 900), (a + b) % 12)
    table = Table(Domain.numbered([12, 12, 12]), np.stack([a, b, c], axis=1))
    train, valid = (Table(table.domain, part) for part in (table.codes[:600], table.codes[600:]))
    settings_tried = {"min_leaf": 10.0, "pseudo": 1.0}, {"min_leaf": 5.0, "pseudo": 0.3}
    chosen = learn_conditionals(train, "tree", valid=valid, kappa=kappa, min_leaf=None)
    rows = np.arange(len(valid))
    scores = []
    for some in settings_tried:
        dn = learn_conditionals(train, "tree", valid=valid, kappa=kappa, **some)
        scores.append(
            sum(dn.log_conditional(f"v{i}", valid)[rows, valid.codes[:, i]].sum() for i in range(3))
        )
        if scores[-1] == max(scores):
            best = dn
    record = chosen.provenance["learned"]
    assert {k: record[k] for k in ("min_leaf", "pseudo")} == settings_tried[int(np.argmax(scores))]
    assert (record["min_leaf"] == 5.0) == (noise == 0.0)
    for one, other in zip(chosen.cpds, best.cpds, strict=True):
        np.testing.assert_array_equal(
            one.log_probabilities(valid.codes), other.log_probabilities(valid.codes)
        )


# ---- boosted trees -----------------------------------------------------------------------------------


def slow_scores(boosted, ranks, codes):
    """What the trees of a conditional say, node by node, of rows of codes."""
    column, threshold, below = boosted.nodes
    scores = []
    for row in codes:
        total = boosted.start.copy()
        for node in boosted.roots:
            while column[node] >= 0:
                rank = ranks[column[node]][row[column[node]]]
                node = below[node] + (rank > threshold[node])
            total += boosted.values[below[node]]
        scores.append(total - np.log(np.exp(total).sum()))
    return np.array(scores)


@pytest.mark.parametrize("forbidden", [False, True])
def test_boosted_trees_are_those_that_were_grown(forbidden):
    """With "missing" as one more state of each parent, and the number of trees that validation tells."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, 4, 500)
    ways = np.array([4, 2, 3, 2])
    codes = (
        np.where(rng.random((500, 4)) < 0.7, group[:, None], rng.integers(0, 4, (500, 4))) % ways
    )
    table = Table(Domain({name: range(n) for name, n in zip("abcd", ways, strict=True)}), codes)
    lost = np.where(rng.random(codes.shape) < 0.1, -1, codes)
    train, valid = (Table(table.domain, part) for part in (lost[:350], lost[350:]))
    rules = {"d": ["a"]} if forbidden else None
    dn = learn_conditionals(train, "boosted", valid=valid, forbidden=rules)
    target, parents = 3, np.array([1, 2] if forbidden else [0, 1, 2])
    wider = Domain({name: range(n + (name != "d")) for name, n in zip("abcd", ways, strict=True)})

    def complete(rows):
        rows = rows[rows[:, target] >= 0]
        return CodedRows(wider, np.where(rows < 0, ways, rows), np.ones(len(rows)))

    first, second = (complete(part) for part in (lost[:350], lost[350:]))
    options = Boosting(rounds=300, rate=0.1, leaves=8, patience=10, least=10.0)
    grown = learn_boosted_conditional(first, target, parents, second, options)
    assert dn.provenance["learned"]["rounds"][target] == grown.rounds > 0
    ranks = np.split(grown.conditional.ranks, np.cumsum(wider.cards)[:-1])
    states = all_states(table.domain)
    np.testing.assert_allclose(
        dn.cpds[target].log_probabilities(states),
        slow_scores(grown.conditional, ranks, states),
        atol=1e-9,
    )
    assert set(dn.blanket("d")) <= ({"b", "c"} if forbidden else {"a", "b", "c"})


def test_boosted_trees_have_no_kappa():
    table = random_table(np.random.default_rng(0), n=2, rows=30)
    with pytest.raises(ModelError, match="neither kappa nor penalty"):
        learn_conditionals(table, "boosted", kappa=0.1)


# ---- learn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid", "mixed", "boosted"])
def test_the_same_result_for_any_number_of_jobs(cpd, tmp_path):
    limits = Limits(batch_cells=4000)  # several batches
    table = random_table(np.random.default_rng(1), n=6, rows=500)
    files = []
    for jobs in (1, 2, -1):
        path = tmp_path / f"{jobs}.conjoin"
        learn_conditionals(table, cpd, n_jobs=jobs, limits=limits).save(path)
        files.append(path.read_bytes())
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid"])
def test_tuning_finds_the_best_of_the_path(cpd):
    rng = np.random.default_rng(4)
    table, valid = random_table(rng, n=5, rows=400), None
    valid = Table(table.domain, table.codes[:100])
    train = Table(table.domain, table.codes[100:])
    dn = learn_conditionals(train, cpd, valid=valid)
    record = dn.provenance["learned"]
    name = "kappa" if cpd == "tree" else "penalty"
    scores = dict(record[f"{name}_path"])
    assert record[name] == max(scores, key=scores.get)
    rows = np.arange(len(valid))
    by_hand = sum(
        dn.log_conditional(v, valid)[rows, valid.codes[:, i]].mean()
        for i, v in enumerate(table.domain.names)
    )
    rel = 1e-9 if cpd == "tree" else 1e-3  # the path is solved less exactly than its best point
    assert scores[record[name]] == pytest.approx(by_hand, rel=rel)


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid", "mixed", "boosted"])
def test_nothing_depends_on_a_constant_with_missing_values(cpd):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 400)
    c = np.where(a == 1, -1, 0)  # missing exactly where a is 1
    table = Table(Domain({"a": [0, 1], "b": [0, 1], "c": ["only"]}), np.stack([a, a, c], axis=1))
    dn = learn_conditionals(table, cpd)
    assert [dn.blanket(name) for name in "abc"] == [("b",), ("a",), ()]


@pytest.mark.parametrize(
    ("falls", "scores", "tried", "best"),
    [
        (1, [-5, -4, -4.5, -3, -2], 3, 1),
        (2, [-5, -4, -4.5, -3, -2], 5, 4),
        (2, [-5, -4, -4.5, -4.2, -2], 4, 1),
        (2, [-5, -5, -5, -5, -4], 5, 4),  # what stays the same does not fall
        (1, [-5, -5, -5, -6, -4], 4, 0),
    ],
)
def test_tuning_ends_after_falls_in_a_row(falls, scores, tried, best):
    table = random_table(np.random.default_rng(0), n=2, rows=10)
    values = [5.0, 4.0, 3.0, 2.0, 1.0]

    class Path:
        def advance(self, value):
            return np.array([scores[values.index(value)] * float(len(table))])

    record = {}
    chosen = choose(
        lambda *_: Path(), (table, table), values, None, "penalty", falls, TaskRunner(), record
    )
    assert chosen == record["penalty"] == values[best]
    path = list(zip(values, scores, strict=True))[:tried]
    np.testing.assert_allclose(record["penalty_path"], path)


def test_given_settings_are_used_as_they_are():
    table = random_table(np.random.default_rng(4), n=4, rows=300)
    valid = Table(table.domain, table.codes[:80])
    states = all_states(table.domain)
    for cpd, settings_given in (
        ("tree", {"kappa": 0.01}),
        ("logistic", {"penalty": 3.0}),
        ("hybrid", {"penalty": 3.0, "kappa": 0.01}),
    ):
        with_rows = learn_conditionals(table, cpd, valid=valid, **settings_given)
        without = learn_conditionals(table, cpd, **settings_given)
        for a, b in zip(with_rows.cpds, without.cpds, strict=True):
            np.testing.assert_allclose(
                a.log_probabilities(states), b.log_probabilities(states), atol=1e-9
            )
    tuned = learn_conditionals(table, "hybrid", valid=valid, penalty=3.0)
    assert tuned.provenance["learned"]["penalty"] == 3.0
    assert "kappa_path" in tuned.provenance["learned"]
    again = learn_conditionals(
        table, "hybrid", penalty=3.0, kappa=tuned.provenance["learned"]["kappa"]
    )
    for a, b in zip(tuned.cpds, again.cpds, strict=True):
        np.testing.assert_allclose(
            a.log_probabilities(states), b.log_probabilities(states), atol=1e-9
        )


def test_holdout_is_seeded():
    table = random_table(np.random.default_rng(9), n=4, rows=300)
    a, b, c = (
        learn_conditionals(table, "tree", random_state=s, holdout=0.2).provenance["learned"]
        for s in (0, 0, 1)
    )
    assert a == b
    assert a["kappa_path"] != c["kappa_path"]


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid", "mixed", "boosted"])
@pytest.mark.parametrize(
    "kind", ["one row", "constant", "one state", "all missing", "one variable"]
)
def test_poor_tables_have_defined_outcomes(cpd, kind):
    domain = Domain({"a": [0, 1], "b": [0, 1, 2]})
    codes = {
        "one row": [[0, 1]],
        "constant": [[0, 1]] * 30,
        "one state": [[0, 0], [1, 0]] * 30,
        "all missing": [[0, -1], [1, -1]] * 30,
        "one variable": [[0], [1], [1]] * 10,
    }[kind]
    if kind == "one state":
        domain = Domain({"a": [0, 1], "b": [0]})
    if kind == "one variable":
        domain = Domain({"a": [0, 1]})
    dn = learn_conditionals(Table(domain, codes), cpd)
    states = all_states(domain)
    for name in domain.names:
        p = dn.conditional(name, states)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1)
    if kind == "all missing":
        np.testing.assert_allclose(dn.conditional("b", states), 1 / 3, atol=1e-6)
    convert(dn, Table(domain, codes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpd": "forest"}, "unknown cpd 'forest'"),
        ({"kappa": 0.0}, "kappa must be a positive number"),
        ({"cpd": "logistic", "penalty": -1.0}, "penalty must be a positive number"),
        ({"min_leaf": None, "kappa": -1.0}, "kappa must be a positive number"),
        ({"min_leaf": 0}, "min_leaf must be positive"),
        ({"pseudo": 0}, "pseudo must be positive"),
        ({"holdout": 1.5}, "a fraction between 0 and 1"),
        ({"forbidden": {"x0": ["y"]}}, "no variable 'y'"),
    ],
)
def test_wrong_settings_are_named(options, message):
    table = random_table(np.random.default_rng(0), rows=30)
    with pytest.raises(ValueError, match=message):
        learn_conditionals(table, **options)
    with pytest.raises(ModelError, match="no rows"):
        learn_conditionals(Table(table.domain, np.zeros((0, 4), np.uint8)))


@pytest.mark.slow
def test_reference_scores(data):
    """THEORY: test scores of the tree networks before and after conversion, as Libra has them."""
    for name, before, after in (("nltcs", -4.968, -4.93), ("plants", -9.036, -9.17)):
        train, valid, test = (
            read_table(data / "debd" / name / f"{name}.{part}.data.gz")
            for part in ("train", "valid", "test")
        )
        dn = learn_conditionals(train, "tree", valid=valid)
        rows = np.arange(len(test))
        for model, expected in ((dn, before), (convert(dn, train), after)):
            score = sum(
                model.log_conditional(v, test)[rows, test.codes[:, i]].mean()
                for i, v in enumerate(test.domain.names)
            )
            assert score == pytest.approx(expected, abs=0.01)


def test_learn_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = random_table(np.random.default_rng(7), n=4, rows=300)
    write_table(table, "train.csv")
    write_table(Table(table.domain, table.codes[:50]), "valid.csv")
    for output, kind in (("m.dn", "dependency network"), ("m.mn", "Markov network")):
        assert main(["learn", "train.csv", "-o", output]) == 0
        assert f"{output}: {kind} from 300 rows of 4 variables" in capsys.readouterr().out
        assert load(output).kind == kind
        assert load(output).domain == table.domain
    for cpd in ("logistic", "hybrid"):
        arguments = [
            "learn",
            "train.csv",
            "--valid",
            "valid.csv",
            "--cpd",
            cpd,
            "-o",
            "m.conjoin",
            "--json",
        ]
        assert main(arguments) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["cpd"] == cpd
        assert report["penalty"] in LAMBDAS
        assert load("m.conjoin").provenance["learned"]["cpd"] == cpd
    for arguments, message in (
        (["learn", "nothing.csv", "-o", "x.dn"], "no such file"),
        (["learn", "train.csv", "-o", "x.toml"], "'.toml' is not the ending of a format"),
        (["learn", "train.csv", "-o", "x.dn", "--jobs", "0"], "--jobs"),
        (["learn", "train.csv", "-o", "x.dn", "--random-state", "-1"], "--random-state"),
    ):
        assert main(arguments) == 1
        assert message in capsys.readouterr().err
        assert not (tmp_path / "x.dn").exists()


def test_learn_with_a_classifier():
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(max_depth=3, random_state=0)
    table = random_table(np.random.default_rng(3), n=4, rows=200)
    dn = learn_conditionals(table, tree)
    assert dn.provenance["learned"] == {"cpd": "DecisionTreeClassifier", "rows": 200}
    states = all_states(table.domain)
    for name in table.domain.names:
        np.testing.assert_allclose(dn.conditional(name, states).sum(axis=1), 1)
    convert(dn, table)
    with pytest.raises(ModelError, match="cannot|can be read"):
        learn_conditionals(table, pytest.importorskip("sklearn.svm").SVC())


# ---- ordered columns --------------------------------------------------------------------------------


def test_which_columns_are_ordered():
    assert Variable("grade", [1, 2, 3.5]).ordered
    assert not Variable("grade", [3, 1, 2]).ordered
    assert not Variable("grade", [1, 2, 3], ordered=False).ordered
    assert not Variable("colour", ["a", "b", "c"]).ordered
    assert Variable("size", ["S", "M", "L"], ordered=True).renamed("s").ordered
    assert not Domain.numbered([4]).ordered.any()


def test_ordered_categories_of_frames_are_ordered():
    pd = pytest.importorskip("pandas")
    sizes = pd.Categorical(["S", "L", "M", "S"], ["S", "M", "L"], ordered=True)
    frame = pd.DataFrame({"size": sizes, "colour": pd.Categorical(["x", "y", "z", "x"])})
    domain = as_table(frame).domain
    assert domain["size"].states == ("S", "M", "L")
    assert domain.ordered.tolist() == [True, False]
    assert as_table(as_table(frame)).domain.ordered.tolist() == [True, False]


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid"])
def test_a_threshold_is_found_converted_and_kept_in_files(cpd, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, 3000)
    y = rng.random(3000) < np.where(x <= 5, 0.1, 0.8)
    z = np.clip(x // 3 + rng.integers(-1, 2, 3000), 0, 3)
    domain = Domain([
        Variable("x", [f"b{i}" for i in range(12)], ordered=True),
        Variable("y", ["no", "yes"]),
        Variable("z", ["a", "b", "c", "d"], ordered=True),
    ])  # fmt: skip
    table = Table(domain, np.stack([x, y, z], axis=1))
    dn = learn_conditionals(table, cpd)
    states = all_states(domain)
    given = dn.cpds[1].log_probabilities(states)[:, 1]
    low, high = given[states[:, 0] <= 5], given[states[:, 0] > 5]
    assert low.max() < np.log(0.25) < np.log(0.6) < high.min()
    if cpd == "tree":
        assert sorted(dn.cpds[1].tree.children(0, domain.cards)) == [1] * 6 + [2] * 6
    mn = convert(dn, table)
    for model, suffixes in ((dn, ("conjoin", "dn")), (mn, ("conjoin", "mn", "uai"))):
        expected = pll(model, table).mean
        for suffix in suffixes:
            path = tmp_path / f"model.{suffix}"
            save(model, path)
            again = load(path)
            assert again.domain.ordered.tolist() == [True, False, True]
            assert pll(again, table).mean == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid", "mixed", "boosted"])
def test_the_order_of_rows_and_columns_does_not_matter(cpd):
    rng = np.random.default_rng(1)
    group = rng.integers(0, 3, 400)
    codes = np.where(rng.random((400, 5)) < 0.6, group[:, None], rng.integers(0, 3, (400, 5)))
    codes[:, 3:] %= 2
    codes[rng.random(codes.shape) < 0.05] = -1
    domain = Domain({name: "xyz"[: 3 - (i > 2)] for i, name in enumerate("dabec")})
    table = Table(domain, codes, rng.random(400) + 0.5)
    rows, columns = rng.permutation(400), rng.permutation(5)
    other = Table(domain, table.codes[rows], table.weights[rows])
    other = other.reordered([domain.names[i] for i in columns])
    one, two = (
        pll(learn_conditionals(table, cpd), table),
        pll(learn_conditionals(other, cpd), table.reordered(other.domain.names)),
    )
    assert one.by_row == pytest.approx(two.by_row, abs=1e-9)
