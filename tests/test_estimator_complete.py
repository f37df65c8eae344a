"""`JointModel` as an estimator among others: files, updates, classes, interactions, certainty."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn.base
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score

import conjoin
from conjoin import ConjoinError, JointModel, load, marginals, pll, probability, read_table, save
from conjoin.cli.main import main
from conjoin.errors import FormatError, ModelError
from conjoin.inference import JointRows
from conjoin.joint import interactions
from conjoin.models import Joint
from conjoin.scoring import log_likelihood
from conjoin.views.reports import write_report


def trips(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    rain = rng.random(rows) < 0.4
    bus = rng.random(rows) < np.where(rain, 0.8, 0.2)
    return pd.DataFrame({
        "rain": rain,
        "by": pd.Categorical(np.where(bus, "bus", "bike"), ["bike", "bus", "car"]),
        "stops": np.where(bus, rng.integers(1, 4, rows), 0),
        "late": np.where(rng.random(rows) < 0.2 + 0.5 * rain, "yes", "no"),
    })  # fmt: skip


def timed(rows=300, seed=0):
    frame = trips(rows, seed)
    rng = np.random.default_rng(seed)
    frame["minutes"] = rng.normal(20 + 15 * frame["rain"], 4, rows).round(1)
    frame["day"] = np.datetime64("2024-01-01") + rng.integers(0, 300, rows)
    return frame


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "array", "table"])
@pytest.mark.parametrize("numbers", [False, True])
def test_whole_models_survive_a_file(kind, numbers, tmp_path):
    frame = timed() if numbers else trips()
    if kind == "array":
        frame = frame.drop(columns=["by", "late"] + ["day"] * numbers).astype(float).to_numpy()
    given = {
        "pandas": lambda t: t,
        "polars": pl.from_pandas,
        "arrow": lambda t: pa.Table.from_pandas(t, preserve_index=False),
        "array": lambda t: t,
        "table": lambda t: conjoin.data.as_table(t[["rain", "late"]]),
    }[kind](frame)
    model = JointModel(effort="quick", unseen="missing", target=0 if kind == "array" else "late")
    model.fit(given)
    path = tmp_path / "m.conjoin"
    model.save(path)
    again = JointModel.load(path)
    assert again.get_params() == model.get_params()
    assert repr(again) == repr(model) and again.n_features_in_ == model.n_features_in_
    assert np.array_equal(again.score_samples(given), model.score_samples(given))
    assert np.array_equal(again.predict_proba(given), model.predict_proba(given))
    assert again.target_ == model.target_
    one, other = model.sample(9, random_state=1), again.sample(9, random_state=1)
    if kind == "pandas":
        pd.testing.assert_frame_equal(one, other)
    elif kind == "polars":
        assert one.equals(other) and one.schema == other.schema
    elif kind == "arrow":
        assert one.equals(other)
    elif kind == "array":
        assert np.array_equal(one, other) and one.dtype == other.dtype
    inner = load(path)  # only the network
    assert isinstance(inner, Joint) and bool(inner.domain.numeric) == (numbers and kind != "table")
    again.save(tmp_path / "twice.conjoin")
    assert (tmp_path / "twice.conjoin").read_bytes() == path.read_bytes()
    with pytest.raises(ModelError, match="no rows, and cannot be updated"):
        again.update(given)


def test_an_estimator_of_what_the_command_learned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = trips()
    frame.to_csv("trips.csv", index=False)
    assert main(["learn", "trips.csv", "--effort", "quick"]) == 0
    model, network = JointModel.load("trips.conjoin"), load("trips.conjoin")
    assert model.n_rows_ == len(frame)
    rows = read_table("trips.csv", network.domain)
    expected = JointRows(network, rows).states("late")
    given = pd.read_csv("trips.csv")
    np.testing.assert_allclose(model.predict_proba(given, target="late"), expected)
    assert model.predict(given, target="by")[0] in ("bike", "bus")
    assert f"{len(frame):,} rows" in model._repr_html_()


def test_files_of_other_things(tmp_path, capsys):
    model = JointModel(effort="quick").fit(trips())
    save(model, tmp_path / "m.conjoin")  # the function, too
    assert main(["query", str(tmp_path / "m.conjoin"), "--given", "rain=true"]) == 0
    assert "bus 0.8" in capsys.readouterr().out
    save(model.network_, tmp_path / "n.conjoin")
    with pytest.raises(FormatError, match="holds a dependency network, and no joint distribution"):
        JointModel.load(tmp_path / "n.conjoin")
    with pytest.raises(FormatError, match="a JointModel is written as .conjoin"):
        model.save(tmp_path / "m.mn")
    with pytest.raises(ValueError, match="not fitted"):
        JointModel().save(tmp_path / "x.conjoin")


def test_damaged_files_of_estimators(tmp_path):
    JointModel(effort="quick").fit(timed()).save(tmp_path / "m.conjoin")
    raw = (tmp_path / "m.conjoin").read_bytes()
    end = int.from_bytes(raw[8:16], "little") + 16
    rng = np.random.default_rng(0)
    bad = tmp_path / "bad.conjoin"
    for _ in range(150):
        data = bytearray(raw)
        for _ in range(rng.integers(1, 4)):
            data[int(rng.integers(16, end))] = int(rng.integers(32, 127))
        bad.write_bytes(data)
        try:
            JointModel.load(bad)
        except FormatError as error:
            assert str(bad) in str(error)
        except ConjoinError as error:
            pytest.fail(f"an error without a place: {error}")


# ---- everything that takes a network -------------------------------------------------------------


def test_functions_of_networks_take_estimators(tmp_path):
    frame = trips()
    model = JointModel(effort="quick").fit(frame)
    network = model.model_
    assert marginals(model, {"rain": True})["by"] == marginals(network, {"rain": True})["by"]
    assert float(probability(model, "late=yes")) == float(probability(network, "late=yes"))
    assert pll(model, frame).mean == pll(network, frame).mean
    assert log_likelihood(model, frame).mean == pytest.approx(model.score(frame))
    assert [i.variables for i in interactions(model)] == [
        i.variables for i in interactions(network)
    ]
    assert len(conjoin.sample(model, 5)) == 5
    write_report(model, tmp_path / "r.html")
    mixed = JointModel(effort="quick").fit(timed())
    assert len(interactions(mixed)) > 0


# ---- scikit-learn --------------------------------------------------------------------------------


def test_classes_and_scores_of_classifiers():
    frame = trips(300)
    y = (frame["late"] == "yes").to_numpy()
    model = JointModel("tree", target="late")
    with pytest.raises(AttributeError):
        _ = model.classes_
    assert sklearn.base.is_classifier(model)
    model.fit(frame)
    assert model.classes_.tolist() == ["no", "yes"]
    auc = cross_val_score(model, frame, frame["late"], scoring="roc_auc", cv=3)
    p = cross_val_predict(model, frame, frame["late"], cv=3, method="predict_proba")
    assert auc.mean() == pytest.approx(roc_auc_score(y, p[:, 1]), abs=0.05) and auc.min() > 0.55
    calibrated = CalibratedClassifierCV(model, cv=3).fit(frame, frame["late"])
    q = calibrated.predict_proba(frame)
    assert q.shape == (300, 2) and roc_auc_score(y, q[:, 1]) > 0.6
    assert not sklearn.base.is_classifier(JointModel())
    number = JointModel(effort="quick", target="minutes").fit(timed(150))
    assert sklearn.base.is_regressor(number) and not hasattr(number, "classes_")


def test_classifiers_of_tables_with_numbers():
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, 240).astype(float)
    late = np.where(rng.random(240) < 1 / (1 + np.exp((50 - age) / 6)), "yes", "no")
    day = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 240), unit="D")
    age[:15] = np.nan
    X = pd.DataFrame({"age": age, "day": day, "by": rng.choice(["bus", "tram"], 240)})
    model = JointModel(effort="quick", target="late")
    assert cross_val_score(model, X, late, scoring="roc_auc", cv=3).min() > 0.75
    for table in (X, X.assign(late=late)):
        calibrated = CalibratedClassifierCV(model, cv=3).fit(table, late)
        p = calibrated.predict_proba(table)
        assert calibrated.classes_.tolist() == ["no", "yes"]
        assert roc_auc_score(late == "yes", p[:, 1]) > 0.8


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_the_target_may_come_separately(kind):
    frame = trips(300)
    X, y = frame.drop(columns="late"), frame["late"]
    if kind == "array":
        X = X.drop(columns="by").to_numpy(float)
    model = JointModel("tree", target="late").fit(X, y)
    assert model.n_features_in_ == X.shape[1]
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.predict(X) == y).mean() > 0.6
    assert cross_val_score(model, X, y, scoring="roc_auc", cv=3).min() > 0.5
    assert len(model.sample(3)) == 3
    assert model.marginals()["late"]["yes"] == pytest.approx((y == "yes").mean(), abs=0.05)


# ---- updates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [trips, timed])
def test_updates_are_fits_of_all_rows(make):
    both = make(300)
    model = JointModel(effort="quick").fit(both.head(200))
    assert model.update(both.tail(100)) is model
    whole = JointModel(effort="quick").fit(both)
    assert model.n_rows_ == 300
    assert np.array_equal(model.score_samples(both), whole.score_samples(both))


def test_updates_with_weights_and_new_states():
    model = JointModel("tree", unseen="error").fit(trips(100))
    new = trips(50, 1)
    model.update(new, sample_weight=np.full(50, 2))
    assert model.n_rows_ == 200
    with pytest.raises(ConjoinError, match="row 1, column 'late': 'maybe' is not a state"):
        model.update(pd.DataFrame({"late": ["maybe"]}))
    model.update(pd.DataFrame({"late": ["yes"]}))  # the other columns are missing
    assert model.n_rows_ == 201


# ---- interactions --------------------------------------------------------------------------------


def test_required_and_forbidden_interactions():
    frame = trips()
    free = JointModel("tree", refine=False).fit(frame)
    forced = JointModel("tree", refine=False, required=[("stops", "late")]).fit(frame)
    barred = JointModel("tree", forbidden=[("rain", "by")]).fit(frame)

    def linked(model, a, b):
        domain, blankets = model.network_.domain, model.network_.blankets()
        return domain.index(b) in blankets[domain.index(a)]

    assert linked(free, "rain", "by") and not linked(barred, "rain", "by")
    assert linked(forced, "stops", "late")
    with pytest.raises(ModelError, match="a pair of two columns"):
        JointModel("tree", required=[("rain", "rain")]).fit(frame)
    with pytest.raises(ConjoinError, match="there is no variable 'rian'"):
        JointModel("tree", forbidden=[("rian", "by")]).fit(frame)


# ---- missing and unseen --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [("pandas", False), ("pandas", True), ("polars", False), ("array", False), ("array", True)],
)
def test_values_that_the_model_does_not_know_are_kept(kind, numbers):
    frame = (timed() if numbers else trips()).drop(columns=["by", "rain"])
    frame["stops"] = frame["stops"].astype(str)
    rows = frame[:4].assign(stops=["many", None, "0", "many"], late=["perhaps", "no", None, None])
    if numbers:
        rows["minutes"] = np.array(["long", None, 20.0, 30.0], object)
        rows["day"] = frame["day"][0]
    if kind == "array":
        frame, rows = frame.to_numpy(object), rows.to_numpy(object)
    if kind == "polars":
        frame, rows = pl.from_pandas(frame), pl.from_pandas(rows)
    model = JointModel(effort="quick", unseen="missing").fit(frame)
    for filled in (
        model.impute(rows),
        model.impute(rows, by="cell"),
        model.impute(rows, draws=1)[0],
    ):
        full = filled if isinstance(filled, np.ndarray) else filled.to_numpy()
        before = rows if isinstance(rows, np.ndarray) else rows.to_numpy()
        known = ~pd.isna(before)
        assert (full[known] == before[known]).all() and not pd.isna(full).any()


def test_a_column_can_be_predicted_from_nothing():
    frame = timed()[["minutes"]]
    model = JointModel(effort="quick").fit(frame)
    mean = marginals(model)["minutes"].mean()
    for rows in (frame[:2], pd.DataFrame({"other": [1, 2]}), pd.DataFrame(index=range(2))):
        np.testing.assert_allclose(model.predict(rows, "minutes"), mean)


@pytest.mark.parametrize("make", [trips, timed])
@pytest.mark.parametrize("kind", ["none", "nan", "unseen"])
def test_columns_that_are_entirely_missing(make, kind):
    frame = make()
    model = JointModel(effort="quick", unseen="missing").fit(frame)
    rows = frame.head(20).copy()
    rows["late"] = {"none": None, "nan": np.nan, "unseen": "perhaps"}[kind]
    without = frame.head(20).drop(columns="late")
    for target in ("late", "by"):
        assert model.predict_proba(rows, target) == pytest.approx(
            model.predict_proba(without, target)
        )
    kept = {"perhaps"} if kind == "unseen" else {"yes", "no"}
    assert set(model.impute(rows)["late"]) <= kept
    if make is timed:
        rows["minutes"] = "soon"
        gone = without.drop(columns="minutes")
        assert model.predict(rows, "minutes") == pytest.approx(model.predict(gone, "minutes"))


def test_booleans_come_back_as_booleans():
    frame = trips()
    model = JointModel("tree").fit(frame)
    assert model.predict(frame, "rain").dtype == np.bool_
    assert model.sample(5)["rain"].dtype == np.bool_
    assert model.states("rain") == [False, True]


# ---- certainty -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_shrink_with_more_rows_and_cover():
    inside = []
    widths = {}
    for rows in (60, 600):
        for seed in range(4):
            model = JointModel("tree", target="late", effort="quick").fit(trips(rows, seed))
            p, low, high = model.predict_proba(pd.DataFrame({"rain": [True, False]}), interval=0.9)
            assert ((low <= p) & (p <= high)).all()
            inside += [bool(low[0, 1] <= 0.7 <= high[0, 1]), bool(low[1, 1] <= 0.2 <= high[1, 1])]
            widths.setdefault(rows, []).append((high - low)[:, 1].mean())
    assert np.mean(widths[600]) < 0.6 * np.mean(widths[60])
    assert np.mean(inside) >= 0.8
    learned = model.resampled_
    again = model.predict_proba(pd.DataFrame({"rain": [True, False]}), interval=0.9)
    assert model.resampled_ is learned and np.array_equal(again, (p, low, high))
    assert model.fit(trips(60)).resampled_ == ()
    with pytest.raises(ModelError, match="interval must be a number between 0 and 1"):
        model.predict_proba(trips(3), interval=90)
