"""`JointModel` in scikit-learn's tools, with ordinary tables: targets, scores, rare levels, searches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from conjoin import ConjoinError, JointModel, surprises


def shop(rows=200, seed=0):
    """Orders: categories with a rare level, numbers with holes, a category and a number to predict."""
    rng = np.random.default_rng(seed)
    express = rng.random(rows) < 0.4
    weight = rng.gamma(4, 2, rows).round(1)
    price = (3 + weight * 1.5 + 8 * express + rng.normal(0, 1, rows)).round(2)
    late = np.where(rng.random(rows) < np.where(express, 0.1, 0.7), "late", "on time")
    depot = rng.choice(["north", "south"], rows).astype(object)
    depot[[3, rows // 2]] = ["east", "west"]  # levels that one fold alone has
    weight[rng.random(rows) < 0.1] = np.nan
    way = np.where(express, "air", "road")
    return pd.DataFrame({"way": way, "depot": depot, "weight": weight}), pd.DataFrame(
        {"price": price, "late": late}
    )


@pytest.fixture(scope="module")
def orders():
    return shop()


# ---- the target ----------------------------------------------------------------------------------


def quick(**options):
    return JointModel(effort="quick", **options)


@pytest.mark.parametrize(
    ("y", "name"),
    [
        (lambda y: y, "late"),
        (lambda y: y.rename(None), "y"),
        (lambda y: y.rename("depot"), "depot_"),
        (lambda y: y.to_list(), "y"),
        (lambda y: y.to_numpy(), "y"),
        (lambda y: y.astype("category"), "late"),
        (lambda y: y.to_frame(), "late"),
        (lambda y: pl.Series("late", y.to_list()), "late"),
        (lambda y: pa.array(y.to_list()), "y"),
    ],
)
def test_y_is_the_target(orders, y, name):
    X, late = orders[0], orders[1]["late"]
    model = quick().fit(X, y(late))
    assert model.target_ == name == model.domain_.names[-1]
    assert model.classes_.tolist() == ["late", "on time"]
    assert is_classifier(model) and not is_regressor(model)
    assert not is_classifier(clone(model)) and not is_regressor(clone(model))
    predicted = model.predict(X)
    assert set(predicted) == {"late", "on time"}
    assert predicted.tolist() == quick(target="goal").fit(X, late.tolist()).predict(X).tolist()
    assert model.predict_proba(X).shape == (200, 2)
    assert model.score(X, y(late)) == accuracy_score(late, predicted)


def test_columns_of_arrays_have_other_names_than_y():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (80, 2))
    model = quick().fit(X, pd.Series(X[:, 0] ^ (rng.random(80) < 0.1), name="v1"))
    assert model.target_ == "v1_" and model.n_features_in_ == 2
    assert model.predict(X).tolist() == X[:, 0].tolist()


def test_y_that_is_a_column_of_the_table(orders):
    X, late = orders[0], orders[1]["late"]
    whole = X.assign(late=late)
    alike = [
        quick().fit(whole, late),
        quick(target="late").fit(whole),
        quick(target="late").fit(whole, late),
    ]
    for model in alike:
        assert model.target_ == "late" and model.domain_.names == tuple(whole)
        assert model.score(whole) == model.score(X, late) == model.score(whole, late)
    # A target written in another way, as by ensembles, takes the place of the column.
    coded = quick(target="late").fit(whole, (late == "late").to_numpy())
    assert coded.classes_.tolist() == [False, True] and coded.domain_.names == tuple(whole)
    assert coded.predict(X).tolist() == (alike[0].predict(X) == "late").tolist()


def test_numbers_are_always_kept_as_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.argsort(np.argsort(X[:, 0]))  # whole numbers, all different, as an identifier has
    model = quick().fit(X, y)
    assert is_regressor(model) and not hasattr(model, "classes_")
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X)))
    assert model.score(X, y) > 0.8


def test_what_is_wrong_with_y(orders):
    X, y = orders[0], orders[1]["late"]
    model = quick(target="late")
    for wrong in (y[:20], np.full(200, np.nan), np.zeros((200, 2)), []):
        with pytest.raises(ConjoinError, match=r"y should be a 1d array of 200 values|0 sample"):
            model.fit(X, wrong)
    with pytest.raises(ConjoinError, match="no variable 'late'"):
        model.fit(X)
    with pytest.raises(ConjoinError, match="X does not have the target 'late'; give its true"):
        model.fit(X, y).score(X)
    with pytest.raises(ConjoinError, match="no row has a value of 'late'"):
        model.score(X.assign(late=None))


def test_targets_survive_files_and_pickles(orders, tmp_path):
    X, y = orders[0], orders[1]["late"]
    model = quick().fit(X, y)
    model.save(tmp_path / "m.conjoin")
    again = JointModel.load(tmp_path / "m.conjoin")
    assert again.target_ == "late" and is_classifier(again)
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.score(X, y) == model.score(X, y)


# ---- scores --------------------------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn(orders):
    X, targets = orders
    w = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    for name, expected in (("late", accuracy_score), ("price", r2_score)):
        y = targets[name]
        model = quick(target=name).fit(X, y)
        predicted = model.predict(X)
        assert model.score(X, y) == pytest.approx(expected(y, predicted))
        weighted = expected(y, predicted, sample_weight=w)
        assert model.score(X, y, sample_weight=w) == pytest.approx(weighted)
        known = np.arange(len(X)) % 3 > 0
        assert model.score(X, y.where(known)) == pytest.approx(expected(y[known], predicted[known]))
        ll = model.score_samples(X)
        assert model.score(X, y, metric="ll") == pytest.approx(ll.mean())
        assert model.score(X, y, w, metric="ll") == pytest.approx(np.average(ll, weights=w))
    assert quick().fit(X).score(X) == pytest.approx(quick().fit(X).score_samples(X).mean())


def test_levels_of_y_that_were_never_seen_are_wrong(orders):
    X, y = orders[0], orders[1]["late"]
    model = quick().fit(X, y)
    right = (model.predict(X) == y).to_numpy()
    other = y.where(np.arange(len(y)) >= 50, "lost")
    assert model.score(X, other) == pytest.approx(right[50:].sum() / len(y))
    with pytest.raises(ConjoinError, match="row 1, column 'price': 'dear' is not a finite number"):
        quick().fit(X, orders[1]["price"]).score(X, ["dear"] * len(X))


def test_constant_numbers_are_scored_as_scikit_learn_does():
    X, y = np.random.default_rng(0).normal(size=(60, 1)), np.arange(60) / 7
    model = quick().fit(X, y)
    assert model.score(X[:5], np.full(5, 2.0)) == 0.0 == r2_score(np.full(5, 2.0), np.arange(5))


def test_kinds_tell_a_regressor_before_fit():
    counts = quick(target="n", kinds={"n": "number"})
    assert is_regressor(counts) and is_classifier(quick(target="n"))
    assert not is_classifier(quick()) and not is_regressor(quick())
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), rng.integers(0, 4, 90)
    assert is_regressor(counts.fit(X, y)) and is_classifier(quick().fit(X, y))


# ---- values that were never seen -----------------------------------------------------------------


def test_unseen_values_count_as_missing_and_are_found(orders):
    X, y = orders[0], orders[1]["late"]
    model = quick().fit(X, y)
    rows = X.head(4).assign(depot=["mars", None, "north", "north"], weight=["heavy", None, 2, 3])
    p = model.predict_proba(rows)
    assert p[0] == pytest.approx(model.predict_proba(rows.assign(depot=None, weight=None))[0])
    found = {(cell.row, cell.column): cell for cell in surprises(model, rows)}
    assert found[0, "depot"].probability == 0 and found[0, "depot"].value == "mars"
    with pytest.raises(ConjoinError, match="row 1, column 'depot': 'mars' is not a state"):
        quick(unseen="error").fit(X, y).predict(rows.assign(weight=1.0))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_question_marks_in_a_column_of_numbers(orders, kind):
    X, y = orders[0], orders[1]["late"]
    text = ["?" if np.isnan(x) else str(x) for x in X["weight"]]
    frame = kind({"way": X["way"].to_list(), "weight": text})
    model = quick().fit(frame, y)
    number = quick().fit(X[["way", "weight"]], y)
    assert model.domain_.numeric == ("weight",)
    assert model.predict_proba(frame) == pytest.approx(number.predict_proba(X[["way", "weight"]]))
    gaps = [i for i, x in enumerate(text) if x == "?"]
    for rows in (frame, frame[gaps[0] : gaps[0] + 1] if kind is not pa.table else frame):
        full = model.impute(rows)
        cells = full["weight"].to_pylist() if kind is pa.table else full["weight"].to_list()
        assert "?" not in cells and all(isinstance(x, str) and float(x) > 0 for x in cells)
    drawn = model.sample(5)
    assert type(drawn) is type(frame)
    schema = "dtypes" if kind is pd.DataFrame else "schema"
    assert list(getattr(drawn, schema)) == list(getattr(frame, schema))
    cells = [cell for cell in surprises(model, frame) if cell.column == "weight"]
    assert len(cells) == len(text) - len(gaps)


# ---- scikit-learn's tools; a warning is an error in these tests ----------------------------------


def tried(X, y, name, kinds=None):
    """Every tool of scikit-learn once; a list of what must be finite numbers."""
    model = quick(target=name, kinds=kinds)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    columns = make_column_transformer(
        (encoder, make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    search = GridSearchCV(model, {"cpd": ["tree", "mixed"]}, cv=2, error_score="raise")
    fitted = quick().fit(X, y)
    found = {
        "y": cross_val_score(quick(), X, y, cv=3, error_score="raise"),
        "target": cross_val_score(model, X, y, cv=3, error_score="raise"),
        "in X": cross_val_score(model, X.assign(**{name: y}), y, cv=3, error_score="raise"),
        "no y": cross_val_score(quick(), X, cv=3, error_score="raise"),
        "search": search.fit(X, y).cv_results_["mean_test_score"],
        "pipeline": cross_val_score(make_pipeline(columns, quick()), X, y, cv=3, error_score="raise"),
        "importance": permutation_importance(
            fitted, X, y, n_repeats=2, random_state=0
        ).importances_mean,
        "curve": learning_curve(
            model, X, y, train_sizes=[0.7, 1.0], cv=3, error_score="raise"
        )[2],
    }  # fmt: skip
    if is_classifier(fitted):
        found["calibrated"] = CalibratedClassifierCV(model, cv=2).fit(X, y).predict_proba(X)
    for what, values in found.items():
        assert np.isfinite(values).all(), what
    return found


@pytest.mark.parametrize("name", ["late", "price"])
def test_tools_of_scikit_learn(name):
    X, targets = shop(150, 1)
    found = tried(X, targets[name], name)
    assert found["target"].mean() > 0.65
    assert found["importance"].argmax() == (0 if name == "late" else 2)  # the way; the weight


def test_rare_levels_of_the_target():
    X, targets = shop(150, 1)
    y = targets["late"].copy()
    y[140:] = [f"lost {i}" for i in range(10)]  # one fold of three has them
    scores = cross_val_score(quick(), X, y, cv=3, error_score="raise")
    assert np.isfinite(scores).all() and scores[2] <= 0.8 < 1


def test_votes_with_other_classifiers():
    X, targets = shop(150, 1)
    X, y = X[["weight"]].fillna(0.0), targets["late"]
    models = [("joint", quick(target="late")), ("linear", LogisticRegression())]
    for table in (X, X.assign(late=y == "late")):  # classes are coded as 0 and 1 for its members
        vote = VotingClassifier(models, voting="soft").fit(table[["weight"]], y)
        assert set(vote.predict(table[["weight"]])) <= {"late", "on time"}
        assert np.isfinite(vote.predict_proba(table[["weight"]])).all()


REAL = {
    "vote": "category",
    "car": "category",
    "credit_approval": "category",
    "abalone": "number",
    "autos": "number",
    "pima_diabetes": "category",
}


@pytest.mark.slow
# A number beyond the range of its training rows is warned of, which is right: credit_approval has some.
@pytest.mark.filterwarnings("ignore:.*is far outside the values:conjoin.errors.DataWarning")
@pytest.mark.parametrize("name", REAL)
def test_tools_of_scikit_learn_on_real_tables(name, data):
    frame = pd.read_csv(data / "tables" / f"{name}.csv.gz")
    target = "price" if name == "autos" else frame.columns[-1]
    if REAL[name] == "number":
        frame[target] = pd.to_numeric(frame[target], errors="coerce")
        frame = frame[frame[target].notna()]
    frame = frame.sample(min(len(frame), 200), random_state=0)
    X, y = frame.drop(columns=target), frame[target]
    found = tried(X, y, target, {target: REAL[name]})
    common = y.value_counts(normalize=True).max() if REAL[name] == "category" else 0
    assert found["target"].mean() > min(common, 0.7)
