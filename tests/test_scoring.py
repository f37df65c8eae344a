"""Scores of networks on tables, against conditionals read off all states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from conjoin import (
    Domain,
    Features,
    MarkovNetwork,
    Table,
    convert,
    load,
    pll,
)
from conjoin.errors import DataError, ModelError
from conjoin.scoring import ConditionalBlock, ConditionalScorer, Score, compare, signed_ranks
from reference import all_states, conditionals_of_joint, gains, log_potentials, normalized
from strategies import (
    generators,
    random_bayesian_network,
    random_dependency_network,
    random_features,
    random_markov_network,
)
from test_libra import CONVERSIONS, tables


def random_rows(rng, domain, count=90, missing=0.0, weighted=False):
    codes = np.stack([rng.integers(0, c, count) for c in domain.cards], axis=1)
    codes[rng.random(codes.shape) < missing] = -1
    return Table(domain, codes, rng.integers(0, 4, count).astype(float) if weighted else None)


def slow_pll(model, rows):
    """The score of each cell, one variable after the other."""
    every = np.arange(len(rows))
    return np.stack(
        [
            model.log_conditional(name, rows)[every, rows.codes[:, i]]
            for i, name in enumerate(model.domain.names)
        ],
        axis=1,
    )


def joint_pll(mn, rows):
    """The same from the joint distribution over all states."""
    domain = mn.domain
    log_p = normalized(log_potentials(mn, all_states(domain)))
    cells = [conditionals_of_joint(domain, log_p, i) for i in range(len(domain))]
    return np.array([[c[tuple(row)] for c in cells] for row in rows.codes])


def check(score, cells, rows):
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    by_row = cells.sum(axis=1)
    np.testing.assert_allclose(score.by_row, by_row, rtol=1e-9, atol=1e-9)
    mean = (weights * by_row).sum() / weights.sum()
    assert score.mean == pytest.approx(mean, rel=1e-9)
    assert score.normalized == pytest.approx(mean / cells.shape[1], rel=1e-9)
    spread = (weights * (by_row - mean) ** 2).sum() / (weights.sum() - 1)
    assert score.stderr == pytest.approx(math.sqrt(spread / weights.sum()), rel=1e-9)
    np.testing.assert_allclose(
        list(score.by_variable.values()), (weights @ cells) / weights.sum(), rtol=1e-9, atol=1e-12
    )


@given(generators())
def test_markov_networks(rng):
    mn = random_markov_network(rng)
    rows = random_rows(rng, mn.domain, weighted=True)
    check(pll(mn, rows), joint_pll(mn, rows), rows)


@given(generators())
def test_dependency_networks(rng):
    dn = random_dependency_network(rng)
    rows = random_rows(rng, dn.domain)
    check(pll(dn, rows), slow_pll(dn, rows), rows)


@given(generators())
def test_bayesian_networks(rng):
    bn = random_bayesian_network(rng)
    rows = random_rows(rng, bn.domain)
    check(pll(bn, rows), joint_pll(bn.to_markov_network(), rows), rows)


@given(generators())
def test_features_with_off_values(rng):
    dn = random_dependency_network(rng)
    mn = convert(dn, orders="all", base="uniform")
    rows = random_rows(rng, dn.domain)
    check(pll(mn, rows), joint_pll(mn, rows), rows)


@given(generators())
def test_impossible_states(rng):
    mn = random_markov_network(rng)
    domain = mn.domain
    hard = random_features(rng, domain)
    barred = Features(hard.tests, hard.indptr, hard.indices, np.full(len(hard), -np.inf))
    mn = MarkovNetwork(domain, Features.concatenate([mn.features, barred]), mn.factors)
    states = all_states(domain)
    possible = np.isfinite(log_potentials(mn, states))
    if not possible.any():
        return
    rows = Table(domain, states[possible])
    with np.errstate(all="ignore"):
        cells = joint_pll(mn, rows)
    np.testing.assert_allclose(pll(mn, rows).by_row, cells.sum(axis=1), rtol=1e-9, atol=1e-9)


def test_a_row_whose_rest_is_impossible_is_named():
    domain = Domain({"a": [0, 1], "b": ["no", "yes"]})
    mn = MarkovNetwork(
        domain,
        Features.from_terms(
            domain, [(-np.inf, {"a": 1, "b": "no"}), (-np.inf, {"a": 1, "b": "yes"})]
        ),
    )
    with pytest.raises(ModelError, match="row 2: .*'b'"):
        pll(mn, Table(domain, np.array([[0, 0], [1, 0]])))


@given(generators())
def test_missing_values_are_averaged_over(rng):
    """The log-potential is averaged over the missing values, each from its marginal."""
    mn = random_markov_network(rng)
    domain = mn.domain
    if rng.random() < 0.5:
        mn = convert(random_dependency_network(rng, domain), orders="all", base="uniform")
    rows = random_rows(rng, domain, count=25, missing=0.3, weighted=True)
    rows = Table(domain, rows.codes, np.append(1.0, rows.weights[1:]))
    other = random_rows(rng, domain, count=40)
    for marginals, given_rows in ((None, rows), (other, other)):
        q = given_rows.marginals()
        states = all_states(domain)
        potential = log_potentials(mn, states).reshape(domain.cards)
        score = pll(mn, rows, marginals=marginals)
        for r, row in enumerate(rows.codes):
            total = 0.0
            for i in range(len(domain)):
                if row[i] == rows.missing:
                    continue
                table = potential
                for j in reversed(range(len(domain))):
                    if j != i and row[j] == rows.missing:
                        table = np.tensordot(table, q[j], (j, 0))
                    elif j != i:
                        table = np.take(table, row[j], axis=j)
                total += normalized(table.ravel())[row[i]]
            assert score.by_row[r] == pytest.approx(total, rel=1e-9, abs=1e-9)
        assert score.cells == (rows.codes != rows.missing).sum()


def test_the_same_whatever_the_number_of_jobs():
    rng = np.random.default_rng(0)
    domain = Domain({f"x{i}": list(range(c)) for i, c in enumerate([2] * 9 + [3, 4])})
    mn = MarkovNetwork(
        domain, Features.concatenate([random_features(rng, domain) for _ in range(9)])
    )
    rows = random_rows(rng, domain, 9000)
    one, two = (pll(mn, rows, n_jobs=n).by_row for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def random_form(rng):
    """A joint distribution, with or without off values, or a dependency network."""
    kind = rng.integers(3)
    if kind == 0:
        return random_markov_network(rng).form
    dn = random_dependency_network(rng)
    return dn.form if kind == 1 else convert(dn, orders="all", base="uniform", max_length=2).form


@given(generators())
def test_gains_are_sums_over_features(rng):
    """Every group of features against the plain sum, whether pairs are a matrix or not."""
    form = random_form(rng)
    rows = random_rows(rng, form.domain, missing=0.2 if rng.random() < 0.5 else 0.0)
    marginals = rows.marginals() if (rows.codes == rows.missing).any() else None
    block = ConditionalBlock(form, rows.codes, marginals)
    tests = form.features.tests
    truth = np.zeros((len(tests), len(rows)))
    for t, var in enumerate(tests.var):
        inside = tests.members()[t]
        for r, code in enumerate(rows.codes[:, var]):
            known = code != rows.missing
            truth[t, r] = inside[code] if known else marginals[var] @ inside[: len(marginals[var])]
    np.testing.assert_allclose(block.truth()[:, : len(rows)], truth, atol=1e-12)
    for dense_share in (0.0, 0.3, 2.0):
        scorer = ConditionalScorer.of(form, dense_share)
        found = scorer.gains(block)[:, : len(rows)]
        np.testing.assert_allclose(found, gains(form, truth), atol=1e-9)


def test_tables_that_cannot_be_scored():
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    mn = MarkovNetwork(domain)
    with pytest.raises(DataError, match="no rows"):
        pll(mn, Table(domain, np.zeros((0, 2), np.uint8)))
    with pytest.raises(DataError, match="differ from the model's"):
        pll(mn, Table(Domain({"a": [0, 1], "c": [0, 1]}), np.zeros((1, 2), np.uint8)))
    one = pll(mn, Table(domain, np.zeros((1, 2), np.uint8)))
    assert one.mean == pytest.approx(2 * math.log(0.5)) and math.isnan(one.stderr)


def test_standard_errors_of_weighted_rows():
    rng = np.random.default_rng(0)
    values = rng.normal(size=12)
    plain = np.std(values, ddof=1) / math.sqrt(12)
    # Weights without a scale of their own: the scale does not matter.
    for scale in (1 / 12, 0.3, 1.0):
        score = Score("pll", values, np.full(12, scale), {}, 12)
        assert score.stderr == pytest.approx(plain, rel=1e-12)
    shares = rng.random(12)
    errors = [Score("pll", values, shares * c, {}, 12).stderr for c in (1 / shares.sum(), 0.5, 3.3)]
    assert errors == pytest.approx([errors[0]] * 3) and 0 < errors[0] < np.inf
    # Counts: a row of weight k stands for k equal rows.
    counts = rng.integers(1, 4, 12)
    expanded = np.repeat(values, counts)
    score = Score("pll", values, counts.astype(float), {}, 12)
    expected = np.std(expanded, ddof=1) / math.sqrt(len(expanded))
    assert score.stderr == pytest.approx(expected, rel=1e-12)
    assert math.isnan(Score("pll", values[:1], np.array([0.5]), {}, 1).stderr)
    other = Score("pll", values - rng.normal(size=12), np.full(12, 1 / 12), {}, 12)
    assert np.isfinite(compare(Score("pll", values, np.full(12, 1 / 12), {}, 12), other).stderr)


def test_weights_that_sum_to_one_change_nothing():
    rng = np.random.default_rng(0)
    mn = random_markov_network(rng)
    rows = random_rows(rng, mn.domain)
    shares = Table(mn.domain, rows.codes, np.full(len(rows), 1 / len(rows)))
    one, two = pll(mn, rows), pll(mn, shares)
    assert two.mean == pytest.approx(one.mean) and two.stderr == pytest.approx(one.stderr)


def test_comparisons():
    rows = np.array([-1.0, -2.0, -4.0, -4.0])
    a = Score("pll", rows, np.ones(4), {}, 4)
    b = Score("pll", rows - np.array([1.0, -1.0, 3.0, 0.0]), np.ones(4), {}, 4)
    found = compare(a, b)
    gap = [1.0, -1.0, 3.0, 0.0]
    assert found.difference == pytest.approx(0.75)
    assert found.stderr == pytest.approx(np.std(gap, ddof=1) / 2)
    assert (found.better, found.worse, found.rows) == (2, 1, 4)
    with pytest.raises(ModelError, match="different rows"):
        compare(a, Score("pll", rows[:3], np.ones(3), {}, 3))
    with pytest.raises(ModelError, match="cmll"):
        compare(a, Score("cmll", rows, np.ones(4), {}, 4))


def test_signed_ranks_by_hand():
    """Ranks of |1|, |-2|, |3|, |4|: W- = 2; of 16 sign patterns 3 have a sum of at most 2."""
    found = signed_ranks([1, 2, 3, 4, 5], [0, 4, 0, 0, 5])
    assert (found.wins, found.losses, found.ties) == (3, 1, 1)
    assert found.p_value == pytest.approx(2 * 3 / 16)
    assert signed_ranks([1.0], [1.0]).p_value == 1
    with pytest.raises(ModelError):
        signed_ranks([1.0], [])


@pytest.mark.parametrize(("source", "result", "score"), [(a, b, d) for a, b, _, d in CONVERSIONS])
def test_libra_scores(source, result, score, libra, data):
    mn = load(libra / f"{result}.mn.gz")
    _, test = tables(source, mn.domain, libra, data)
    assert pll(mn, test).mean == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize(
    ("source", "score"),
    [("nltcs.tree", -4.968301), ("nltcs.lr", -4.956364), ("car", -6.673858), ("soybean", -9.36771)],
)
def test_libra_scores_of_dependency_networks(source, score, libra, data):
    dn = load(libra / f"{source}.dn.gz")
    _, test = tables(source, dn.domain, libra, data)
    assert pll(dn, test).mean == pytest.approx(score, abs=1e-5)
