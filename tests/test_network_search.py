"""Small tables: networks learned without each part of the rows, and their mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import Domain, Features, MarkovNetwork, Table, convert, learn_conditionals, refine
from conjoin.data import merge_rows
from conjoin.inference import log_partition
from conjoin.joint import HiddenFit, HiddenModel, HiddenTables, LeafTrees, stacked, tree_network
from conjoin.joint.candidates import Effort, Fold
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.joint.hidden_column import LEAVES, Priors
from conjoin.joint.hidden_search import HiddenSearch
from conjoin.joint.missing_values import joined
from conjoin.joint.network_search import NetworkSearch
from conjoin.joint.refinement import FOLDS, all_but
from conjoin.joint.thin_weights import with_weights
from conjoin.scoring import log_likelihood
from reference import all_states, feature_rows, feature_sum, normalized
from strategies import generators


def grouped(rng, rows, cards=(2, 3, 2, 2, 3)):
    """Rows of three groups, each with its own distribution of every column."""
    group = rng.integers(0, 3, rows)
    columns = [
        np.array([rng.choice(c, p=p) for p in rng.dirichlet(np.full(c, 0.4), 3)[group]])
        for c in cards
    ]
    return Table(Domain.numbered(cards), np.stack(columns, axis=1))


def dealt(table):
    parts = np.array_split(np.arange(len(table)), FOLDS)
    return [Table(table.domain, table.codes[part]) for part in parts]


def search(rng, rows=160, cells=40):
    table = grouped(rng, rows)
    model = convert(learn_conditionals(table, "tree"), table).in_canonical_order()
    parts = dealt(table.reordered(model.domain.names))
    folds = [Fold.of(all_but(parts, k), part) for k, part in enumerate(parts)]
    priors = (Priors(8, 0.2, 0.1, 0.3), Priors(16, 0.5, 0.1, 0.5))
    effort = Effort((cells,), (4,), priors, 1 << 12, errors=1.0)
    return NetworkSearch(model, folds, joined(*parts), effort, rng)


def test_each_row_is_scored_by_networks_that_did_not_learn_from_it():
    found = search(np.random.default_rng(0))
    assert sum(len(fold.held) for fold in found.folds) == len(found.everything) == 160
    for number, fold in enumerate(found.folds):
        others = [f.held for i, f in enumerate(found.folds) if i != number]
        np.testing.assert_array_equal(joined(*others).codes, fold.train.codes)
    assert found.weights.sum() == 160


@settings(max_examples=3)
@given(generators())
def test_the_network_is_the_mixture_of_the_fits_of_all_folds(rng):
    found = search(rng)
    left, right = dependence_tree(found.everything)
    pairs = MarkovNetwork(found.model.domain, Features.empty(found.model.domain.cards))
    bases = found._with_weights(pairs, left, right)
    nothing = np.full(len(found.weights), -30.0)
    mixture = HiddenSearch(bases, found.folds, found.effort, 1, rng).best([nothing, nothing])
    assert mixture.fit_shares.sum() == pytest.approx(1.0)
    honest = [
        np.exp(n.log_potential(f.rows))
        for n, f in zip(mixture.of_folds(bases, "h"), found.folds, strict=True)
    ]
    np.testing.assert_allclose(np.concatenate(honest), np.exp(mixture.log_density), rtol=1e-5)
    mixture = mixture.learned_further(found.everything, None, 0, rng)
    network = mixture.network(bases[0], found.tree, "h")
    states = all_states(found.model.domain)
    expected = np.zeros(len(states))
    for fits in mixture.fits:
        for fit, share in zip(fits, mixture.fit_shares, strict=True):
            weights = fit.model.weights(fit.parameters)
            p = np.exp(fit.parameters.log_probabilities)
            for z in range(len(p) if share else 0):
                holds = feature_rows(fit.model.tables.features.reweighted(weights[z]))
                log_p = np.array([feature_sum(holds, x) for x in states])
                expected += share / FOLDS * p[z] * np.exp(normalized(log_p))
    np.testing.assert_allclose(np.exp(network.log_potential(states)), expected, atol=1e-9)


def test_few_rows_are_dealt_into_folds_unless_there_is_a_validation_table():
    rng = np.random.default_rng(2)
    table, test = grouped(rng, 300), grouped(np.random.default_rng(2), 300)
    closed = convert(learn_conditionals(table, "tree"), table)
    assert refine(closed, table).provenance["refined"]["folds"] == FOLDS
    for options in ({"valid": test}, {"effort": "quick"}):
        assert "folds" not in refine(closed, table, **options).provenance["refined"]


def test_missing_values_and_weights_of_few_rows():
    rng = np.random.default_rng(4)
    full = grouped(rng, 240)
    codes = np.where(rng.random(full.codes.shape) < 0.15, -1, full.codes.astype(int))
    lacking = Table(full.domain, codes, np.full(len(codes), 2.0))
    closed = convert(learn_conditionals(lacking, "tree"), lacking)
    refined = refine(closed, lacking)
    assert refined.provenance["refined"]["folds"] == FOLDS
    assert log_likelihood(refined, full).mean > log_likelihood(tree_network(full), full).mean - 0.2


def test_networks_with_impossible_states_are_refined():
    rng = np.random.default_rng(0)
    table = grouped(rng, 300, (2,) * 8)
    codes = table.codes.copy()
    codes[:, 1] &= codes[:, 0]
    table = Table(table.domain, codes)
    closed = convert(learn_conditionals(table, "tree"), table)
    hard = Features.from_terms(table.domain, [(-np.inf, {"v0": 0, "v1": 1})])
    features = Features.concatenate([closed.form.features, hard]).merged()
    refined = refine(MarkovNetwork(table.domain, features), table)
    scores = refined.provenance["refined"]["held_out"]
    assert any("hidden" in name for name in scores)
    assert np.isfinite(list(scores.values())).all()


def rule_table(rng, rows):
    """Return rows of eight independent columns and of one that is a rule of them, with a little noise."""
    cards = (3, 5, 4, 4, 3, 2, 3, 3)
    codes = np.stack([rng.integers(0, card, rows) for card in cards], axis=1)
    parents, nursery, form, children, housing, finance, social, health = codes.T
    strain, home = parents + nursery, form // 2 + housing + finance
    priority = np.where((health == 2) | (home >= 4), 3, 4)
    usual = np.where((social == 2) | (home >= 3), 3, np.where(children <= 1, 1, 2))
    decision = np.where(strain >= 5, 4, np.where(strain >= 3, priority, usual))
    decision[health == 0] = 0
    decision = np.where(rng.random(rows) < 0.02, rng.integers(0, 5, rows), decision)
    return Table(Domain.numbered((*cards, 5)), np.column_stack([codes, decision]))


def test_leaves_start_as_the_thin_network_cut_into_them():
    rng = np.random.default_rng(0)
    table, held = rule_table(rng, 1200), rule_table(rng, 400)
    left, right = dependence_tree(table)
    pairs = MarkovNetwork(table.domain, Features.empty(table.domain.cards))
    network = with_weights(pairs, left, right, table, held, table)
    codes, weights = merge_rows(table.codes, table.weights)
    trees = LeafTrees(network, codes, weights)
    gains = trees.gains(held.codes).mean(axis=0)
    assert gains.argmax() == 8 and gains[8] > 0.1
    leaves = trees.leaves(8, 30)
    assert leaves.column == 8 and 10 < len(leaves.regions) <= 30
    tables = HiddenTables(network, len(leaves.regions))
    model = HiddenModel(tables, LEAVES, leaves)
    rows = tables.rows(codes, weights)
    fit = HiddenFit(model, *model.start(rows, rng))
    expected = network.log_potential(codes) - log_partition(network).value
    np.testing.assert_allclose(fit.log_density(rows), expected, atol=5e-3)
    states = stacked(tables, [fit.part()], np.ones(1), "leaf")
    posterior = states.conditional("leaf", np.column_stack([codes, np.zeros(len(codes), int)]))
    tests = leaves.regions.tests
    met = tests.members(np.arange(len(tests)))[np.arange(len(tests)), codes[:, tests.var]]
    inside = np.stack([met[:, region].all(axis=1) for _, region in leaves.regions], axis=1)
    assert (inside.sum(axis=1) == 1).all()
    np.testing.assert_allclose(posterior, inside, atol=5e-3)


def test_rules_of_many_columns_are_learned_as_the_leaves_of_a_tree(monkeypatch):
    rng = np.random.default_rng(1)
    table, test = rule_table(rng, 1500), rule_table(rng, 2000)
    closed = convert(learn_conditionals(table, "tree"), table)
    joint = refine(closed, table)
    assert "leaves of v8" in joint.provenance["refined"]["chosen"]
    names, shuffled = test.names[::-1], table.select(rng.permutation(len(table)))
    reordered = refine(closed.reordered(names), shuffled.reordered(names))
    by_row = log_likelihood(joint, test).by_row
    np.testing.assert_allclose(
        log_likelihood(reordered, test.reordered(names)).by_row, by_row, atol=1e-9
    )
    monkeypatch.setattr("conjoin.joint.hidden_search.MAX_LEAF_COLUMNS", 0)
    without = refine(closed, table)
    assert by_row.mean() > log_likelihood(without, test).mean + 0.005
    codes = np.arange(len(test)), test.codes[:, 8]
    losses = [-net.log_conditional("v8", test)[codes].mean() for net in (joint, without)]
    assert losses[0] < losses[1] - 0.01
