"""Categories that move numbers: offsets against a direct optimisation, and mixtures that have them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from conjoin import Domain
from conjoin.data.columns import Column
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.inference.engines import log_partition
from conjoin.inference.mixed import MixedAnswers
from conjoin.joint import mixture_fit
from conjoin.joint.category_base import independent, with_single_states
from conjoin.joint.category_offsets import Offsets, Parent, _merged_groups, choose_parents
from conjoin.joint.gaussian_mixture import GaussianPrior, GaussianRows
from conjoin.joint.mixed_learning import learn_mixed
from conjoin.joint.mixture_choices import (
    BACKGROUND,
    FEW_STATES,
    MAX_MOVED,
    MIN_PARTS,
    settings_for,
    within,
)
from conjoin.joint.mixture_fit import Bases, FitSettings, MixedRows, MixtureFit
from conjoin.joint.stacked_component import stacked_component
from conjoin.models.gaussians import Gaussians, Scores

PARENTS = (Parent(0, np.array([0, 1, 1])), Parent(2, np.array([1, 0])))
CARDS = np.array([3, 4, 2])


def some_rows(rng, rows=400, holes=0.0):
    """Scores that categories 0 and 2 move, and codes."""
    codes = np.stack([rng.integers(0, card, rows) for card in CARDS], axis=1)
    middle = rng.normal(0, 1, (rows, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    middle[:, 0] += 1.5 * (codes[:, 0] > 0)
    middle[:, 1] += 2.0 * codes[:, 2] - 1.0 * (codes[:, 0] > 0)
    middle[rng.random(middle.shape) < holes] = np.nan
    return Scores(middle, np.full(middle.shape, 0.1)), codes


@pytest.mark.parametrize("seed", range(3))
def test_offsets_are_those_of_a_direct_optimisation(seed):
    """Of the expected log-likelihood of the known numbers, and the log-prior of the offsets."""
    rng = np.random.default_rng(seed)
    scores, codes = some_rows(rng, 60, holes=0.3)
    start = Offsets.start(PARENTS, scores, codes, np.ones(60))
    root = rng.normal(0, 1, (3, 2, 2))
    gaussians = Gaussians(
        rng.normal(0, 1, (3, 2)), root @ root.transpose(0, 2, 1) + 0.3 * np.eye(2)
    )
    posterior = rng.dirichlet(np.ones(3), 60)
    rest = GaussianRows(start.residuals(scores, codes), np.ones(60))
    found = start.improved(rest, codes, gaussians, posterior)

    def loss(flat):
        values = flat.reshape(start.values.shape)
        total = 0.5 * ((values / start.prior_sd) ** 2).sum()
        for r in range(60):
            a, b = PARENTS[0].group[codes[r, 0]], PARENTS[1].group[codes[r, 2]]
            rest = scores.middle[r] - values[a] - values[2 + b]
            known = np.flatnonzero(~np.isnan(rest))
            for z in range(3):
                if len(known):
                    mean, cov = gaussians.means[z, known], gaussians.covariances[z]
                    within = cov[np.ix_(known, known)]
                    total -= posterior[r, z] * stats.multivariate_normal.logpdf(
                        rest[known], mean, within
                    )
        return total

    best = optimize.minimize(loss, start.values.ravel(), method="BFGS", options={"gtol": 1e-6})
    assert found.values.ravel() == pytest.approx(best.x, abs=1e-4)
    assert loss(found.values.ravel()) <= best.fun + 1e-7


def test_a_regression_on_one_category_finds_group_means():
    """With many rows the prior hardly counts."""
    rng = np.random.default_rng(0)
    scores, codes = some_rows(rng, 20_000)
    parent = Parent(0, np.arange(3))
    found = Offsets.start((parent,), scores, codes, np.ones(20_000))
    means = np.stack([scores.middle[codes[:, 0] == k].mean(axis=0) for k in range(3)])
    expected = means - scores.middle.mean(axis=0)
    assert found.values == pytest.approx(expected, abs=0.01)


def test_parents_are_the_categories_that_matter():
    rng = np.random.default_rng(1)
    scores, codes = some_rows(rng, 600, holes=0.1)
    found = choose_parents(scores, codes, CARDS, np.ones(600), 64)
    assert {parent.category for parent in found} == {0, 2}
    groups = {parent.category: parent.group.tolist() for parent in found}
    assert groups[0][1] == groups[0][2] != groups[0][0]  # states 1 and 2 move numbers alike
    one = choose_parents(scores, codes, CARDS, np.ones(600), 3)
    assert len(one) == 1
    assert choose_parents(scores, codes, CARDS, np.ones(600), 1) == ()


def test_without_an_effect_there_are_no_parents():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (300, 3))
    scores = Scores(rng.normal(0, 1, (300, 2)), np.full((300, 2), 0.1))
    # Each of the two coefficients gains half a nat by chance, and costs one.
    assert len(choose_parents(scores, codes, np.full(3, 2), np.ones(300), 64)) <= 1


def test_at_most_the_limit_of_combinations():
    rng = np.random.default_rng(3)
    code = rng.integers(0, 12, (3000, 1))
    middle = code.astype(float) + rng.normal(0, 0.1, (3000, 1))
    scores = Scores(middle, np.full(middle.shape, 0.1))
    (parent,) = choose_parents(scores, code, np.array([12]), np.ones(3000), 5)
    assert parent.groups == 5
    assert (np.diff(parent.group[np.argsort(np.arange(12))]) != 0).sum() == 4  # of neighbours


def moved_fit(rng):
    """A fit with offsets over three categories, and its rows."""
    scores, codes = some_rows(rng, 300)
    domain = Domain.numbered(CARDS.tolist())
    base = with_single_states(independent(Table(domain, codes)))
    rows = MixedRows(scores, codes, CARDS, np.ones(300))
    settings = FitSettings(4, GaussianPrior(10, 1e-3), parents=PARENTS)
    return MixtureFit(settings, Bases(base), rng).fit(rows), rows, domain


def test_a_component_with_offsets_is_the_fit():
    fit, rows, domain = moved_fit(np.random.default_rng(4))
    component = stacked_component([fit], np.ones(1), domain, "(hidden)")
    assert component.network.domain.cards[-1] == 4 * 2 * 2
    assert log_partition(component.network).value == pytest.approx(0.0, abs=1e-9)
    masses = component.gaussians.log_masses(rows.scores)
    joint = np.zeros(masses.shape)
    for factor in component.network.factors:
        at = tuple(rows.codes[:, v] for v in factor.variables[:-1])
        joint += factor.table[at] if at else factor.table
    found = np.logaddexp.reduce(masses + joint, axis=1)
    assert found == pytest.approx(fit.log_mass(rows), abs=1e-9)


def test_offsets_raise_the_likelihood():
    rng = np.random.default_rng(5)
    fit, rows, domain = moved_fit(rng)
    base = with_single_states(independent(Table(domain, rows.codes)))
    plain = MixtureFit(FitSettings(4, GaussianPrior(10, 1e-3)), Bases(base), rng).fit(rows)
    assert fit.score(rows) > plain.score(rows) + 0.1


def test_settings_stay_within_their_limits():
    rng = np.random.default_rng(6)
    scores, codes = some_rows(rng, 120)
    found = settings_for(MixedRows(scores, codes, CARDS, np.ones(120)), 1 << 20)
    moved = [one for one in found if one.parents]
    assert moved
    for one in moved:
        assert one.states * np.prod([p.groups for p in one.parents]) <= MAX_MOVED
    assert max(one.states for one in found if one.emphasis == 1) <= max(FEW_STATES, 12)
    none = MixedRows(scores, np.zeros((120, 0), np.int64), np.zeros(0, np.int64), np.ones(120))
    assert not any(one.parents or one.emphasis != 1 for one in settings_for(none, 1 << 20))


def test_fits_stay_within_the_size_of_a_model():
    scores, codes = some_rows(np.random.default_rng(7), 400)
    rows = MixedRows(scores, codes, CARDS, np.ones(400))
    room = 60
    settings = [*settings_for(rows, room), BACKGROUND]
    assert max(one.hidden_states for one in settings) <= room // MIN_PARTS
    shares = np.arange(1.0, len(settings) + 1)
    kept = within(settings, shares, room)
    assert kept[-1]
    assert not kept.all()
    assert sum(one.hidden_states for one, used in zip(settings, kept, strict=True) if used) <= room
    assert within(settings, shares, 1 << 20).all()


def groups_by_definition(count, mean, price, limit):
    """Merge the two groups whose union loses least, with all losses computed anew each time."""
    group = np.arange(len(count))
    while group.max() > 0:
        numbers = range(group.max() + 1)
        rows = np.array([count[group == g].sum() for g in numbers])
        means = np.array([count[group == g] @ mean[group == g] for g in numbers]) / rows[:, None]
        loss = {
            (a, b): 0.5 * rows[a] * rows[b] / (rows[a] + rows[b]) * ((means[a] - means[b]) ** 2).sum()
            for b in numbers for a in range(b)
        }  # fmt: skip
        a, b = min(loss, key=loss.__getitem__)
        if loss[a, b] >= price and len(numbers) <= limit:
            break
        group[group == b] = a
        group[group > b] -= 1
    return group


@pytest.mark.parametrize("seed", range(5))
def test_states_that_move_scores_alike_are_merged(seed):
    rng = np.random.default_rng(seed)
    count, mean = rng.integers(1, 20, 25).astype(float), rng.normal(0, 0.7, (25, 3))
    limit = int(rng.integers(2, 12))
    expected = groups_by_definition(count, mean, 3.0, limit)
    np.testing.assert_array_equal(_merged_groups(count, mean, 3.0, limit), expected)


def test_sparse_and_dense_indicators_give_the_same_fit(monkeypatch):
    rng = np.random.default_rng(8)
    scores, codes = some_rows(rng, 200)
    settings = FitSettings(4, GaussianPrior(10, 1e-3))
    found = []
    for states in (0, 1000):
        monkeypatch.setattr(mixture_fit, "SPARSE_STATES", states)
        rows = MixedRows(scores, codes, CARDS, np.ones(200))
        fit = MixtureFit(settings, None, np.random.default_rng(0)).fit_mixture(rows, rows)
        found.append(fit.log_mass(rows))
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


def test_means_given_a_category_are_those_of_the_table():
    """A gap of 35% between towns beside numbers that vary far more."""
    rng = np.random.default_rng(7)
    town, kind = rng.integers(0, 4, 1500), rng.integers(0, 3, 1500)
    area = np.exp(rng.normal(4.4 + 0.3 * kind, 0.4)).round()
    year = rng.integers(1900, 2024, 1500)
    gap = np.log([1, 1.1, 1.2, 1.35])[town]
    price = (area * np.exp(7.5 + gap + 0.002 * (year - 1960) + rng.normal(0, 0.2, 1500))).round(-2)
    tax = (price * 0.004 * np.exp(rng.normal(0, 0.1, 1500))).round()
    energy = (200 - (year - 1960) + rng.normal(0, 30, 1500)).round()
    columns = {
        "town": np.array(["a", "b", "c", "d"])[town], "kind": np.array(["x", "y", "z"])[kind],
        "area": area, "year": year, "price": price, "tax": tax, "energy": energy,
    }  # fmt: skip
    table = MixedTable.of_columns([Column.of_values(n, v) for n, v in columns.items()])
    model = learn_mixed(table, effort="quick")
    first = np.array([int(np.flatnonzero(town == k)[0]) for k in range(4)])
    codes = table.categories.codes[first].copy()
    codes[:, table.categories.domain.index("kind")] = table.categories.missing
    unknown = np.full((4, 5), np.nan)
    given = MixedTable(table.domain, Table(table.categories.domain, codes), unknown)
    found = MixedAnswers(model, given).number("price").mean()
    expected = [price[town == k].mean() for k in range(4)]
    assert found == pytest.approx(expected, rel=0.06)
    assert found[3] / found[0] > 1 + 0.7 * (expected[3] / expected[0] - 1)
