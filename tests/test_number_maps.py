"""The map between values and normal scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from conjoin import Domain, Table, Variable
from conjoin.data import (
    MapChoice,
    NumberScale,
    NumberStates,
    choose_map,
    learn_map,
    log_mass,
    with_telling_edges,
)


@pytest.mark.parametrize("choice", [MapChoice(4, False), MapChoice(32, False), MapChoice(8, True)])
def test_the_probabilities_of_recorded_values_add_up(choice):
    rng = np.random.default_rng(0)
    values = np.round(rng.gamma(2, 15, 500))
    mapped = learn_map(values, np.ones(500), 1.0, np.zeros(0), choice)
    grid = np.arange(-2000, 3000.0)
    low, high = mapped.cell(grid)
    total = np.sum(stats.norm.cdf(high) - stats.norm.cdf(low))
    assert total == pytest.approx(1, abs=1e-9)
    assert (np.diff(mapped.values) > 0).all()
    assert (np.diff(mapped.scores) > 0).all()


ONE_SIDED = {
    "counts": lambda rng: rng.poisson(2, 200).astype(float),
    "positive": lambda rng: np.round(rng.gamma(2, 15, 80) + 1),
    "spread": lambda rng: np.round(rng.uniform(3, 9000, 60)),
    "fractions": lambda rng: rng.random(100),
    "scaled": lambda rng: (x := rng.random(100) - 0.3, (x - x.min()) / np.ptp(x))[1],
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ONE_SIDED)
def test_tails_of_values_on_one_side_of_zero_end_there(kind, sign):
    values = sign * ONE_SIDED[kind](np.random.default_rng(0))
    scale_ = NumberScale.of("x", values.tolist())
    mapped = learn_map(values, np.ones(len(values)), scale_.step, np.zeros(0), MapChoice(8, False))
    assert (np.diff(mapped.values) > 0).all() and (np.diff(mapped.scores) > 0).all()
    scores = np.linspace(-7.99, 7.99, 4001)
    drawn = np.asarray(scale_.rounded(mapped.to_values(scores)))
    assert (sign * drawn >= 0).all() and (np.diff(drawn) >= 0).all()
    # recorded values are where they were; beyond 0 the map goes on, for evidence that is impossible
    np.testing.assert_allclose(mapped.to_values(mapped.to_scores(values)), values, atol=1e-9)
    assert 5 < np.abs(mapped.to_scores(np.array([-sign * np.ptp(values)]))[0]) < 1000
    ends = mapped.values[[0, -1]] + [-20 * np.ptp(values), 20 * np.ptp(values)]
    knots = np.unique(np.concatenate([mapped.values, ends]))
    at = mapped.to_scores(knots)
    assert stats.norm.cdf(at[-1]) - stats.norm.cdf(at[0]) == pytest.approx(1, abs=1e-12)


def test_other_tails_are_lines():
    rng = np.random.default_rng(0)
    choice, none = MapChoice(8, False), np.zeros(0)
    both, far = np.round(rng.normal(0, 20, 300)), np.round(rng.normal(900, 20, 300))
    for values, signed in ((both, True), (far, True), (np.abs(both), False)):
        mapped = learn_map(values, np.ones(300), 1.0, none, choice, signed=signed)
        # a line shifts with the values
        shifted = learn_map(values + 1e5, np.ones(300), 1.0, none, choice)
        np.testing.assert_allclose(mapped.values + 1e5, shifted.values, atol=1e-6)
        np.testing.assert_allclose(mapped.scores, shifted.scores)


def test_recorded_values_are_chosen_where_they_help():
    rng = np.random.default_rng(0)
    heaped = np.where(rng.random(2000) < 0.7, 10 * np.rint(rng.normal(50, 15, 2000) / 10),
                      np.rint(rng.normal(50, 15, 2000)))  # fmt: skip
    smooth = np.round(rng.normal(500, 150, 2000))
    none = np.zeros(0)
    train, held = slice(0, 1500), slice(1500, 2000)
    assert choose_map(heaped[train], np.ones(1500), 1.0, none, heaped[held]).recorded
    choice = choose_map(smooth[train], np.ones(1500), 1.0, none, smooth[held])
    assert not choice.recorded
    best = log_mass(learn_map(smooth[train], np.ones(1500), 1.0, none, choice), smooth[held])
    assert best > stats.norm.logpdf(smooth[held], 500, 150).mean() - 0.05


def test_telling_edges():
    """Edges move to where other columns change; atoms, missing and absent values keep their states."""
    rng = np.random.default_rng(1)
    x = np.where(rng.random(9000) < 0.2, 0.0, np.round(rng.gamma(2.0, 50.0, 9000), 1))
    x[rng.random(9000) < 0.1] = np.nan
    group = np.searchsorted([37.0, 120.5], np.nan_to_num(x))
    states = NumberStates.learn(NumberScale.of("x", x[~np.isnan(x)]), x)
    domain = Domain([Variable.of_numbers(states), Variable("group", ["a", "b", "c"])])
    table = Table.of_values(domain, np.stack([states.codes(x), group], axis=1), x[:, None])
    moved = with_telling_edges(table)
    found = moved.domain.numbers("x")
    assert len(found) == len(states) and found.map.atoms.tolist() == states.map.atoms.tolist()
    for cut in (37.0, 120.5):  # intervals are divided into eighths, each of about 1 unit here
        assert np.abs(found.edges - cut).min() < 1 < np.abs(states.edges - cut).min()
    assert (moved.holes == table.holes).all()
    shuffled = with_telling_edges(table.select(rng.permutation(9000)))
    np.testing.assert_array_equal(shuffled.domain.numbers("x").edges, found.edges)
    few = table.select(slice(2000))
    assert with_telling_edges(few) is few
    absent = with_telling_edges(table.with_absent(["x"]))
    assert (absent.absent[:, 0] == np.isnan(x)).all()
