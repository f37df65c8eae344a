"""Small tables: networks learned without each part of the rows, and their mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import Domain, Features, MarkovNetwork, Table, convert, learn_conditionals, refine
from conjoin.joint import tree_network
from conjoin.joint.candidates import Effort, Fold
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.joint.hidden_column import Priors
from conjoin.joint.hidden_search import HiddenSearch
from conjoin.joint.missing_values import joined
from conjoin.joint.network_search import NetworkSearch
from conjoin.joint.refinement import FOLDS, all_but
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
