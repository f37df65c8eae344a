"""`JointModel` on tables with numbers and dates."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn.base  # noqa: F401

from conjoin import JointModel, Table, probability
from conjoin.data import as_table
from conjoin.errors import DataError, DataWarning, ModelError
from conjoin.models import Joint


def staff(rows=600, seed=0):
    """A category, integers, prices with many zeros, dates, and a boolean; age drives all."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 66, rows)
    bonus = np.where(rng.random(rows) < 0.4, 0.0, rng.normal(10 + age, 4, rows).round(2))
    since = np.datetime64("2024-01-01") - (age - 20) * 300 - rng.integers(0, 4000, rows)
    return pd.DataFrame({
        "grade": np.where(age + rng.normal(0, 5, rows) > 42, "senior", "junior"),
        "age": age,
        "bonus": bonus,
        "since": since.astype("datetime64[ns]"),
        "manages": rng.random(rows) < np.where(age > 42, 0.7, 0.1),
    })  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return JointModel(effort="quick").fit(staff())


@pytest.fixture(scope="module")
def test_rows():
    return staff(200, 1)


def test_numbers_are_predicted_as_numbers(model, test_rows):
    assert isinstance(model.model_, Joint)
    mean = model.predict(test_rows, "age")
    assert mean.dtype == np.float64
    rmse = np.sqrt(((mean - test_rows["age"]) ** 2).mean())
    assert rmse < 0.6 * test_rows["age"].std()
    median = model.predict(test_rows, "age", statistic="median")
    assert median.dtype == np.int64
    assert np.array_equal(median, model.quantiles(test_rows, 0.5, "age"))
    dates = model.predict(test_rows, "since")
    assert dates.dtype == np.dtype("datetime64[D]")
    off = np.abs(dates - test_rows["since"].to_numpy().astype("datetime64[D]"))
    assert np.median(off.astype(int)) < 1500
    assert model.predict(test_rows, "manages").dtype == np.bool_
    assert (model.predict(test_rows, "bonus", statistic="mode") == 0).mean() > 0.2
    with pytest.raises(ModelError, match="statistic must be 'mean', 'median' or 'mode'"):
        model.predict(test_rows, "age", statistic="middle")
    with pytest.raises(DataError, match="states of 'grade' are not numbers"):
        model.predict(test_rows, "grade", statistic="mean")


def test_quantiles_agree_with_the_distribution(model, test_rows):
    rows = test_rows.head(20)
    low = model.quantiles(rows, 0.1, "age")
    assert low.dtype == np.int64
    ends = model.interval(rows, 0.8, "age")
    assert ends.dtype == np.int64 and ends.shape == (20, 2)
    for i, (first, last) in enumerate(ends.tolist()):
        one = model.distribution(rows.iloc[[i]], "age")
        assert (first, last) == one.interval(0.8)
        assert one.probability(first - 1, last + 1) >= 0.8 - 1e-9
        assert one.cdf(int(low[i])) >= 0.1 - 1e-9 and one.cdf(int(low[i]) - 1) < 0.1 + 1e-9
        assert one.cdf(200) > 0.999
    one = model.distribution(rows.iloc[[0]], "age")
    grid = np.arange(-60, 180, 0.05) + 0.025  # the middles of cells
    density = np.array([one.density(x) for x in grid.tolist()])
    assert density.sum() * 0.05 == pytest.approx(1, abs=0.002)
    recorded = [one.probability(x, x) for x in range(-60, 180)]
    assert sum(recorded) == pytest.approx(1, abs=1e-6)
    mean = density @ grid / density.sum()
    assert mean == pytest.approx(model.predict(rows, "age")[0], abs=0.02)
    for x in (25, 40, 60):  # a recorded value stands for all numbers within half a step
        assert one.cdf(x) == pytest.approx(density[grid < x + 0.5].sum() * 0.05, abs=0.002)
    with pytest.raises(DataError, match="level of an interval must be between 0 and 1"):
        model.interval(rows, 90, "age")
    with pytest.raises(DataError, match="column 'grade' has states, not numbers"):
        model.quantiles(rows, target="grade")


def test_intervals_cover(model, test_rows):
    for name in ("age", "bonus", "since"):
        ends = model.interval(test_rows, 0.9, name)
        truth = test_rows[name].to_numpy()
        inside = (truth >= ends[:, 0]) & (truth <= ends[:, 1])
        assert 0.8 < inside.mean() <= 1


def test_bins_of_numbers(model, test_rows):
    rows = test_rows.head(9)
    p = model.predict_proba(rows, "age")
    labels = model.states("age")
    assert p.shape == (9, len(labels)) and p.sum(axis=1) == pytest.approx(np.ones(9))
    last = int(labels[0].split(" to ")[-1])
    below = [model.distribution(rows.iloc[[i]], "age").cdf(last) for i in range(9)]
    assert p[:, 0] == pytest.approx(below, abs=1e-9)
    own = model.predict_proba(rows, "since", bins=["2010-01-01", "2020-06-30"])
    assert own.shape == (9, 3) and own.sum(axis=1) == pytest.approx(np.ones(9))
    below = [model.distribution(rows.iloc[[i]], "since").cdf("2009-12-31") for i in range(9)]
    assert own[:, 0] == pytest.approx(below, abs=1e-9)
    with pytest.raises(ModelError, match="cut points that increase"):
        model.predict_proba(rows, "age", bins=[30, 20])


def test_one_distribution(model):
    found = model.distribution({"grade": "senior"}, "age")
    assert found.mean() > 45 and isinstance(found.median(), int)
    given = model.marginals({"grade": "senior"})
    assert given["age"].mean() == pytest.approx(found.mean())
    assert given["grade"] == {"junior": 0.0, "senior": 1.0}
    assert sum(given["manages"].values()) == pytest.approx(1)
    best = model.most_probable({"grade": "junior"})
    assert best["grade"] == "junior" and best["bonus"] == 0.0 and best["manages"] is False


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "array", "table"])
def test_holes_are_filled_with_the_column_s_own_type(kind):
    frame = staff()
    frame["age"] = frame["age"].astype("Int64")
    rng = np.random.default_rng(5)
    holes = frame.copy()
    for name in ("grade", "age", "bonus", "since"):
        holes.loc[rng.random(len(frame)) < 0.2, name] = None
    if kind == "array":
        frame, holes = (t[["age", "bonus"]].astype(float).to_numpy() for t in (frame, holes))
    as_given = {
        "pandas": lambda t: t,
        "polars": pl.from_pandas,
        "arrow": lambda t: pa.Table.from_pandas(t, preserve_index=False),
        "array": lambda t: t,
        "table": as_table,
    }[kind]
    fitted = JointModel(effort="quick").fit(as_given(frame))
    given = as_given(holes)
    if kind == "table":
        given = as_table(holes, fitted.domain_)
    results = [fitted.impute(given), *fitted.impute(given, draws=2), fitted.sample(7)]
    for number, result in enumerate(results):
        assert type(result) is type(given)
        assert len(result) == (7 if number == 3 else len(frame))
        if kind == "pandas":
            assert (result.dtypes == frame.dtypes).all() and not result.isna().any().any()
            if number < 3:
                known = holes.notna()
                assert (result[known] == holes[known]).sum().sum() == known.sum().sum()
        elif kind == "polars":
            assert result.schema == given.schema and not result.null_count().sum_horizontal()[0]
        elif kind == "arrow":
            assert result.schema.types == given.schema.types
            assert sum(c.null_count for c in result.columns) == 0
        elif kind == "array":
            assert not np.isnan(result).any()
            assert (result[:, 0] == np.rint(result[:, 0])).all()
            assert np.allclose(result[:, 1], result[:, 1].round(2))
        else:
            assert not result.holes.any()
    if kind == "pandas":
        hidden = holes["age"].isna().to_numpy()
        truth = frame["age"][hidden].to_numpy(float)
        filled = results[0]["age"][hidden].to_numpy(float)
        spread = np.sqrt(((truth - frame["age"].mean()) ** 2).mean())
        assert np.sqrt(((filled - truth) ** 2).mean()) < 0.6 * spread
        medians = fitted.impute(given, numbers="median")["age"][hidden]
        assert (medians != filled).any()


def test_some_columns_are_filled_without_the_others(model):
    part = pd.DataFrame({"age": [25, 60, 30], "grade": [None, None, "junior"]})
    assert model.impute(part)["grade"].tolist() == ["junior", "senior", "junior"]
    assert list(model.impute(part).columns) == ["age", "grade"]


def test_draws_have_the_distribution_of_the_model(model):
    drawn = model.sample(3000, {"grade": "senior"}, random_state=0)
    want = model.distribution({"grade": "senior"}, "age")
    assert (drawn["grade"] == "senior").all()
    assert drawn["age"].mean() == pytest.approx(want.mean(), abs=4 * want.sd() / np.sqrt(3000))
    zero = model.distribution({"grade": "senior"}, "bonus").cdf(0)
    assert (drawn["bonus"] <= 0).mean() == pytest.approx(zero, abs=0.04)
    assert model.sample(2, random_state=3).equals(model.sample(2, random_state=3))


def test_scores_are_log_densities(model, test_rows):
    rows = test_rows.head(50)
    whole = model.score_samples(rows)
    assert model.score(rows) == pytest.approx(whole.mean())
    without = model.score_samples(rows.assign(age=[None] * 50))
    ages = rows["age"].tolist()
    given = [model.distribution(rows.iloc[[i]], "age").density(ages[i]) for i in range(50)]
    np.testing.assert_allclose(whole - without, np.log(given), atol=1e-9)  # the chain rule
    rest = [model.score_samples(rows.assign(**{name: [None] * 50})) for name in rows.columns]
    assert model.score(rows, metric="pll") == pytest.approx((whole - rest).sum(axis=0).mean())


def test_explanations_of_a_state_by_numbers(model):
    found = model.explain({"age": 60, "bonus": None}, "grade")
    assert found.state == "senior" and list(found.contributions) == ["age"]
    p = model.marginals()["grade"]
    assert found.base == pytest.approx(np.log(p["senior"] / p["junior"]))
    assert found.row == {"age": 60}
    number = model.explain({"grade": "senior"}, "age")  # see test_explain_numbers.py
    assert number.base == pytest.approx(model.marginals()["age"].mean())


def test_pictures_show_bins(model, tmp_path):
    graph = model.to_networkx()
    assert set(graph.nodes) == set(staff().columns)
    assert graph.number_of_edges() > 2
    model.report(tmp_path / "report.html", staff(100, 3))
    assert "senior" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "5 columns (grade, age, bonus, since, manages): " in repr(model)


# ---- settings ---------------------------------------------------------------------------------------


def test_settings_of_conditionals_keep_numbers(test_rows):
    learned = JointModel("tree", refine=False).fit(staff())
    mean = learned.predict(test_rows, "age")
    assert np.sqrt(((mean - test_rows["age"]) ** 2).mean()) < 0.6 * test_rows["age"].std()
    assert learned.predict(test_rows, "since").dtype.kind == "M"
    assert learned.quantiles(test_rows, [0.1, 0.9], "bonus").shape == (200, 2)


def test_states_that_are_numbers_have_means():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"stars": rng.integers(1, 6, 300), "city": rng.choice(list("ab"), 300)})
    fitted = JointModel("tree").fit(frame)
    assert fitted.predict(frame, "stars").dtype == np.int64
    p = fitted.predict_proba(frame, "stars")
    assert fitted.predict(frame, "stars", statistic="mean") == pytest.approx(p @ np.arange(1, 6))
    median = fitted.predict(frame, "stars", statistic="median")
    assert np.array_equal(median, 1 + (np.cumsum(p, axis=1) >= 0.5).argmax(axis=1))


# ---- weights ---------------------------------------------------------------------------------------


def test_weighted_rows_are_repeated_rows():
    frame = staff(150)
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, 150)
    repeated = frame.loc[np.repeat(np.arange(150), weights)].reset_index(drop=True)
    for table in (frame, pl.from_pandas(frame)):
        one = JointModel(effort="quick").fit(table, sample_weight=weights)
        other = JointModel(effort="quick").fit(repeated)
        assert np.array_equal(one.score_samples(table), other.score_samples(table))


def test_fractions_are_weights():
    a = np.repeat([0, 1], 100)
    X = np.stack([a, a], axis=1)
    weights = np.where(a == 0, 0.3, 0.9)
    fitted = JointModel("tree").fit(X, sample_weight=weights)
    assert fitted.marginals()["v0"][1] == pytest.approx(0.75, abs=0.02)
    table = Table(fitted.domain_, X, weights)
    assert JointModel("tree").fit(table).marginals()["v0"][1] == pytest.approx(0.75, abs=0.02)


def test_evidence_far_outside_is_warned_of(model):
    """Ages are 20 to 65: far outside means below -2.5 or above 87.5."""
    said = r"age=200 is far outside the values that the model has seen \(20 to 65\)"
    rows = pd.DataFrame({"age": [30, 200, 120, None], "grade": ["junior", None, None, "senior"]})
    for ask in (
        lambda: model.marginals("age=200"),
        lambda: model.marginals({"age": 200}, targets=["grade"]),
        lambda: model.sample(2, {"age": 200}),
        lambda: model.explain({"age": 200}, "grade"),
        lambda: model.predict(pd.DataFrame({"age": [200]}), "grade"),
    ):
        with pytest.warns(DataWarning, match=said):
            ask()
    many = r"age=200 \(and 1 other values?\) is far outside"
    for ask in (lambda: model.predict_proba(rows, "grade"), lambda: model.impute(rows)):
        with pytest.warns(DataWarning, match=many):
            ask()
    for given, words in {
        "age > 90": "age > 90 is far",
        "age < -5": "age < -5 is far",
        "age in {150, 160}": r"age in \{150, 160\} is far",
        "since=1900-05-05": r"since=1900-05-05 is far outside .* \(19\d\d-\d\d-\d\d to 20",
    }.items():
        with pytest.warns(DataWarning, match=words), suppress(ModelError):  # "impossible"
            model.marginals(given, targets=["grade"])


def test_evidence_a_little_outside_is_not_warned_of(model):
    """Warnings are errors in these tests."""
    for given in ("age=87", "age=-2", "age > 60", "age < 1000", "age in {30, 500}", {"age": None}):
        model.marginals(given, targets=["grade"])
    model.predict(pd.DataFrame({"age": [300, 40], "bonus": [0, 3]}), "age")  # of no account
    model.score_samples(pd.DataFrame({"age": [300]}))
    assert float(probability(model, "age > 150")) < 0.01  # a question, not evidence
