"""`JointModel`, and the answers for rows with holes that it is made of."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from conjoin import (
    BayesianNetwork,
    ConjoinError,
    Domain,
    Features,
    JointModel,
    MarkovNetwork,
    Table,
    TableCPD,
    convert,
    learn_conditionals,
    read_table,
    refine,
    surprises,
)
from conjoin.cli.main import main
from conjoin.data import as_table
from conjoin.errors import ConvergenceWarning, DataError, DataWarning
from conjoin.estimator import explain_row
from conjoin.inference import Completion, TooLarge, completed
from conjoin.inference import exact as exact_module
from conjoin.inference import joint_rows as rows_module
from reference import all_states, log_potentials
from strategies import random_domain, random_markov_network

HOLE = 255


def with_holes(rng, mn, rows=12, share=0.5):
    states = all_states(mn.domain)
    codes = states[rng.integers(len(states), size=rows)]
    codes[rng.random(codes.shape) < share] = HOLE
    codes[0] = HOLE
    return states, codes


def agreeing(states, row, cards):
    return ((states == row) | (row == HOLE) | (cards == 1)).all(axis=1)


def truth_of(mn, states, codes):
    """For each row, the probability of every joint state given the row, and the log of their sum."""
    weight = np.exp(log_potentials(mn, states))
    for row in codes:
        p = np.where(agreeing(states, row, mn.domain.cards), weight, 0.0)
        yield p / p.sum(), np.log(p.sum())


# On the junction tree of the network; reduced row by row; sampled.
WAYS = {
    "shared tree": {},
    "reduced": {"max_network_cells": 1},
    "sampled": {"max_cells": 1, "max_network_cells": 1},
}


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.mark.parametrize("seed", range(8))
def test_rows_with_holes_agree_with_enumeration(seed, way):
    rng = np.random.default_rng(seed)
    mn = random_markov_network(rng)
    states, codes = with_holes(rng, mn)
    rows = Completion(mn, codes, **WAYS[way])
    modes, likely, draws = rows.modes()[0], rows.likely()[0], rows.draws(4)
    sums, exact = rows.log_sums()
    marginals = [rows.marginals(v)[0] for v in range(len(mn.domain))]
    for r, (p, log_sum) in enumerate(truth_of(mn, states, codes)):
        own = [np.bincount(states[:, v], p, c) for v, c in enumerate(mn.domain.cards)]
        at = np.flatnonzero((states == modes[r]).all(axis=1))[0]
        assert p[at] == pytest.approx(p.max(), abs=1e-12)
        for drawn in draws[:, r]:
            assert p[np.flatnonzero((states == drawn).all(axis=1))[0]] > 0
        if exact[r]:
            assert sums[r] == pytest.approx(log_sum, abs=1e-9)
        for v, (found, want) in enumerate(zip(marginals, own, strict=True)):
            error = 0.15 if way == "sampled" else 1e-9
            assert found[r] == pytest.approx(want, abs=error)
            if way != "sampled":
                assert want[likely[r, v]] == pytest.approx(want.max(), abs=1e-12)
    assert exact.all() or way == "sampled"


@pytest.mark.parametrize("seed", range(6))
def test_variables_are_eliminated_along_any_graph(seed):
    """Loops, trees and several components, with tests that hold in several states, or none."""
    rng = np.random.default_rng(seed)
    domain = Domain({f"x{i}": range(int(rng.integers(2, 4))) for i in range(9)})
    terms = []
    for _ in range(25):
        scope = rng.choice(9, size=int(rng.integers(1, 4)), replace=False)
        if scope.max() - scope.min() > 4:
            continue  # so that no bucket holds all
        tests = {
            f"x{v}": np.flatnonzero(rng.random(domain.cards[v]) < 0.5).tolist() or [0]
            for v in scope.tolist()
        }
        never = len(scope) == 3 and rng.random() < 0.2
        terms.append((-np.inf if never else float(rng.normal(0, 2)), tests))
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    states = all_states(domain)
    log_weight = log_potentials(mn, states)
    codes = states[rng.choice(np.flatnonzero(log_weight > -np.inf), size=10)]
    codes[rng.random(codes.shape) < 0.7] = HOLE
    codes[0] = HOLE
    rows = Completion(mn, codes)
    modes, exact = rows.modes()
    draws, sums = rows.draws(3), rows.log_sums()[0]
    marginals = [rows.marginals(v)[0] for v in range(9)]
    assert exact.all()
    for r, (p, log_sum) in enumerate(truth_of(mn, states, codes)):
        at = np.flatnonzero((states == modes[r]).all(axis=1))[0]
        assert p[at] == pytest.approx(p.max(), abs=1e-12)
        assert sums[r] == pytest.approx(log_sum, abs=1e-9)
        for drawn in draws[:, r]:
            assert p[np.flatnonzero((states == drawn).all(axis=1))[0]] > 0
        for v, card in enumerate(domain.cards):
            want = np.bincount(states[:, v], p, card)
            assert marginals[v][r] == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_draws_have_the_right_distribution(seed, way):
    rng = np.random.default_rng(seed)
    mn = random_markov_network(rng, random_domain(rng, 3, 3, 2))
    states, codes = with_holes(rng, mn, rows=2)
    count = 1500
    draws = Completion(mn, np.repeat(codes[:1], 2, axis=0), **WAYS[way]).draws(count)
    p, _ = next(truth_of(mn, states, codes))
    for r in range(2):  # equal rows have draws of their own
        seen = np.array([(draws[:, r] == s).all(axis=1).mean() for s in states])
        error = np.sqrt(p * (1 - p) / count)
        # Thinned sweeps are correlated: twice the error of independent draws.
        assert (np.abs(seen - p) < 5 * (2 if way == "sampled" else 1) * error + 1e-12).all()
    if draws[:, 0].std(axis=0).any():
        assert (draws[:, 0] != draws[:, 1]).any()


def test_what_is_drawn_does_not_depend_on_the_other_rows():
    domain = Domain({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]})
    terms = [(1.0, {"a": 1, "b": [1, 2]}), (-0.5, {"b": 2, "c": 1}), (0.7, {"a": 0, "c": 0})]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    _, codes = with_holes(np.random.default_rng(5), mn, rows=6)
    sampled = WAYS["sampled"]
    whole = Completion(mn, codes, **sampled).marginals(0)[0]
    for r in range(6):
        alone = Completion(mn, codes[[r]], **sampled).marginals(0)[0]
        assert alone == pytest.approx(whole[[r]], abs=0)
    assert (Completion(mn, codes, 1, **sampled).marginals(0)[0] != whole).any()


def test_impossible_rows_are_errors():
    domain = Domain({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]})
    with np.errstate(divide="ignore"):
        bn = BayesianNetwork(
            domain,
            [
                TableCPD.of(domain, "a", [], 0.0),
                TableCPD.of(domain, "c", ["a"], {0: 0.3, 1: 0.5}),
                TableCPD.of(domain, "b", ["a"], {0: [0.2, 0.3, 0.5], 1: [0.1, 0.1, 0.8]}),
            ],
        )
    good = np.array([[HOLE, 1, HOLE]], np.uint8)
    assert Completion(bn, good).modes()[0].tolist() == [[0, 1, 0]]
    bad = np.array([[0, 1, 1], [HOLE, 1, HOLE], [1, HOLE, 0]], np.uint8)
    with pytest.raises(ConjoinError, match="row 3 is impossible"):
        Completion(bn, bad).modes()


# ---- explanations ------------------------------------------------------------------------------


def explained(mn, row, target, *states):
    """Explain a row of codes; the value of the target is not looked at."""
    return explain_row(mn, Table(mn.domain, row[None]), target, *states)


def brute_log_odds(mn, row, target, known, a, b):
    """Return the log-odds of two states given some columns, all others summed out."""
    states = all_states(mn.domain)
    weight = np.exp(log_potentials(mn, states))
    fits = (states[:, list(known)] == row[list(known)]).all(axis=1)
    one, other = (weight[fits & (states[:, target] == s)].sum() for s in (a, b))
    return np.log(one / other)


@pytest.mark.parametrize("seed", range(10))
def test_explanations_add_up_and_are_shapley_values(seed):
    from itertools import permutations

    rng = np.random.default_rng(seed)
    mn = random_markov_network(
        rng, Domain({f"x{i}": range(int(rng.integers(2, 4))) for i in range(4)})
    )
    row = np.array([rng.integers(c) for c in mn.domain.cards])
    found = explained(mn, row, "x0")

    def value(known):
        return brute_log_odds(mn, row, 0, known, found.state, found.against)

    orders = list(permutations((1, 2, 3)))
    for v in (1, 2, 3):
        want = np.mean([value({*o[: o.index(v)], v}) - value(set(o[: o.index(v)])) for o in orders])
        assert found.contributions.get(f"x{v}", 0.0) == pytest.approx(want, abs=1e-9)
    assert found.base == pytest.approx(value(set()), abs=1e-9)
    assert found.log_odds == pytest.approx(value({1, 2, 3}), abs=1e-9)
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.log_odds, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_missing_values_explain_nothing(seed):
    rng = np.random.default_rng(seed)
    mn = random_markov_network(rng, Domain({f"x{i}": range(2) for i in range(4)}))
    row = np.array([0, 1, -1, 0])
    found = explained(mn, row, "x3", 1, 0)
    assert found.base == pytest.approx(brute_log_odds(mn, row, 3, set(), 1, 0), abs=1e-9)
    assert found.log_odds == pytest.approx(brute_log_odds(mn, row, 3, {0, 1}, 1, 0), abs=1e-9)
    assert set(found.contributions) <= {"x0", "x1"}
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.log_odds, abs=1e-9)
    assert "missing" not in repr(found)


# ---- refining ----------------------------------------------------------------------------------


def test_refining_fills_holes_by_draws_from_the_model():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 4000)
    b = np.where(rng.random(4000) < 0.9, a, 1 - a)
    codes = np.stack([a, b], axis=1)
    codes[rng.random(4000) < 0.5, 1] = HOLE
    table = Table(Domain({"a": [0, 1], "b": [0, 1]}), codes.astype(np.uint8))
    model = JointModel("tree").fit(table)
    full = completed(model.model_, table, 0)
    lacking = codes[:, 1] == HOLE
    assert (full.codes != HOLE).all()
    assert (full.codes[~lacking] == table.codes[~lacking]).all()
    same = (full.codes[lacking, 0] == full.codes[lacking, 1]).mean()
    own = Completion(model.model_, codes[lacking].astype(np.uint8)).marginals(1)[0]
    expected = own[np.arange(len(own)), codes[lacking, 0]].mean()
    # The mode would make it 1, the marginals 0.5.
    assert same == pytest.approx(expected, abs=0.03) and expected == pytest.approx(0.9, abs=0.03)
    assert completed(model.model_, full, 0) is full


# ---- the estimator -----------------------------------------------------------------------------

# A check that looks at feature names in their order is not among these: columns are found by name.
EXPECTED_FAILURES = {
    "category": {
        "check_classifiers_regression_target": "the values of y decide whether it is a category",
    },
    "number": {
        "check_regressors_no_decision_function": "predict_proba answers for any column",
    },
}


@parametrize_with_checks(
    [
        JointModel(cpd="tree"),
        JointModel(effort="quick"),
        JointModel(effort="quick", target="y"),
        JointModel(effort="quick", target="y", kinds={"y": "number"}),
    ],
    expected_failed_checks=lambda model: (
        {} if model.target is None else EXPECTED_FAILURES[(model.kinds or {}).get("y", "category")]
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def people(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    smokes = rng.random(rows) < 0.4
    cough = rng.random(rows) < np.where(smokes, 0.8, 0.2)
    age = np.round(rng.gamma(9, 5, rows))
    height = np.round(rng.normal(1.7, 0.1, rows), 2)
    return pd.DataFrame(
        {
            "smokes": np.where(smokes, "yes", "no"),
            "cough": cough,
            "age": age.astype(int),
            "height": height,
            "visits": rng.integers(0, 4, rows) + cough,
            "clinic": pd.Categorical(np.where(age > 50, "old", "young"), ["old", "young", "none"]),
        }
    )


@pytest.fixture(scope="module")
def fitted():
    return JointModel("tree").fit(people())


def test_frames_keep_their_types(fitted):
    frame = people(50, 1)
    rng = np.random.default_rng(0)
    holes = rng.random(frame.shape) < 0.3
    lacking = frame.copy().astype({"age": "Int64", "visits": float, "cough": object})
    for i, name in enumerate(lacking):
        lacking.loc[holes[:, i], name] = None
    for given in (lacking, pl.from_pandas(lacking), pa.Table.from_pandas(lacking)):
        full = fitted.impute(given)
        assert type(full) is type(given)
        back = full if isinstance(full, pd.DataFrame) else full.to_pandas()
        if isinstance(given, pd.DataFrame):
            assert (full.dtypes == given.dtypes).all() and (full.index == given.index).all()
        elif isinstance(given, pl.DataFrame):
            assert full.schema == given.schema
        else:
            assert full.schema.types == given.schema.types
            assert full.schema.names == given.schema.names
        assert list(back.columns) == list(frame.columns)
        assert not back.isna().any().any()
        for i, name in enumerate(frame):
            kept = ~holes[:, i]
            assert (back.loc[kept, name].astype(str) == lacking.loc[kept, name].astype(str)).all()
    several = fitted.impute(lacking, draws=3)
    assert len(several) == 3 and not several[0].equals(several[1])


def test_draws_are_like_the_training_table(fitted):
    drawn = fitted.sample(300, given={"smokes": "yes"}, random_state=0)
    assert isinstance(drawn, pd.DataFrame) and (drawn.dtypes == people().dtypes).all()
    assert (drawn["smokes"] == "yes").all()
    assert drawn["cough"].mean() == pytest.approx(0.8, abs=0.12)
    assert drawn["age"].between(people()["age"].min(), people()["age"].max()).all()
    for kind in (pl.from_pandas, pa.Table.from_pandas):
        table = kind(people(100))
        again = JointModel("tree").fit(table).sample(5)
        assert type(again) is type(table) and again.schema == table.schema
    array = JointModel("tree").fit(np.random.default_rng(0).integers(0, 3, (50, 2))).sample(4)
    assert array.shape == (4, 2) and array.dtype == np.int64


def test_any_column_from_any_others(fitted):
    frame = people(30, 2)
    p = fitted.predict_proba(frame, "smokes")
    assert p.shape == (30, 2) and p.sum(axis=1) == pytest.approx(np.ones(30))
    # The column itself is not looked at, and need not be there.
    assert fitted.predict_proba(frame.drop(columns="smokes"), "smokes") == pytest.approx(p)
    part = fitted.predict_proba(frame[["cough"]], "smokes")
    want = fitted.marginals({"cough": True})["smokes"]["yes"]
    assert part[frame["cough"], 1] == pytest.approx(want)
    assert fitted.predict(frame[["cough"]], "smokes")[0] in ("yes", "no")
    assert fitted.states("visits") == [0, 1, 2, 3, 4]
    assert fitted.predict(frame, "visits").dtype == np.int64
    assert fitted.states() == ["none", "old", "young"]  # the last column
    assert fitted.predict_proba(frame, "age").shape == (30, len(fitted.states("age")))  # bins
    some = people().drop(columns=["age", "height"])
    plain = JointModel("tree", refine=False).fit(some)
    read = plain.encoding_.table(some)
    ordered = read.reordered(read.domain.sorted_names())
    mn = convert(learn_conditionals(ordered, "tree", min_leaf=None), ordered).reordered(
        read.domain.names
    )
    codes = plain.encoding_.table(frame)
    p = plain.predict_proba(frame, "smokes")
    assert p == pytest.approx(mn.conditional("smokes", codes), abs=1e-9)
    steps = refine(mn, read)
    assert "refined" in steps.provenance
    p = fitted.predict_proba(frame, "smokes")
    assert p == pytest.approx(steps.conditional("smokes", codes), abs=1e-9)


def test_scores_are_log_probabilities():
    states = all_states(Domain({"a": [0, 1], "b": [0, 1, 2]}))
    model = JointModel("tree").fit(np.repeat(states, [9, 1, 30, 25, 10, 5], axis=0))
    assert np.exp(model.score_samples(states)).sum() == pytest.approx(1.0)
    holes = np.array([[0, np.nan], [np.nan, np.nan]])
    p = np.exp(model.score_samples(states))
    assert np.exp(model.score_samples(holes)) == pytest.approx([p[:3].sum(), 1.0])
    assert model.score(states) == pytest.approx(np.log(p).mean())


def test_values_that_were_never_seen(fitted):
    frame = people(5, 3)
    frame["smokes"] = ["yes", "no", "maybe", "no", "no"]
    strict = JointModel("tree", unseen="error")
    with pytest.raises(ConjoinError, match=r"row 2, column 'v1': 7 is not a state"):
        strict.fit(np.array([[0, 1], [1, 0]] * 20)).predict(np.array([[0, 1], [1, 7]]))
    with pytest.raises(ConjoinError, match=r"row 3, column 'smokes': 'maybe' is not a state"):
        strict.fit(people()).predict(frame, "cough")
    frame["smokes"] = frame["smokes"].astype(object)
    hole = frame.copy()
    hole.loc[2, "smokes"] = None
    p = fitted.predict_proba(hole, "cough")
    assert fitted.predict_proba(frame, "cough") == pytest.approx(p)
    first = surprises(fitted, frame)[0]
    assert (first.row, first.column, first.value, first.probability) == (2, "smokes", "maybe", 0.0)
    with pytest.raises(ConjoinError, match="no variable 'cuogh'. Did you mean 'cough'"):
        fitted.predict(frame, "cuogh")
    with pytest.raises(ConjoinError, match="there is no column 'age'"):
        fitted.score(frame.drop(columns="age"), metric="pll")


def test_odd_rows_and_columns():
    X = np.array([["a", "x", None]] * 20 + [["b", "x", "u"]] * 20, object)
    model = JointModel("tree").fit(X)  # a column with one value, one with one and holes
    assert model.impute(np.array([[None, None, None]], object))[0, 1] == "x"
    assert model.predict_proba(X[:1], "v1").tolist() == [[1.0]]
    assert model.impute(X[:1]).tolist() == [["a", "x", None]]  # absent, as in all rows with an "a"
    assert model.impute(X[:1], fill_absent=True).tolist() == [["a", "x", "u"]]
    assert model.score_samples(X[:1]).shape == (1,)
    assert model.predict(X[:1], 0).tolist() == ["a"]
    low, high = np.sort(model.predict_proba({"v1": "x"}, "v0")[0])
    assert model.explain({"v1": "x"}, "v0").log_odds == pytest.approx(np.log(high / low))


def test_pipelines_searches_and_pickles():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (150, 4)).astype(float)
    X[:, 3] = np.where(rng.random(150) < 0.9, X[:, 0], 1 - X[:, 0])
    y = X[:, 0].astype(int)
    X[rng.random(X.shape) < 0.2] = np.nan
    pipeline = make_pipeline(JointModel("tree"), LogisticRegression()).fit(X, y)
    assert pipeline.score(X, y) > 0.85
    search = GridSearchCV(JointModel("tree"), {"min_leaf": [5.0, 40.0]}, cv=3).fit(X)
    assert search.best_params_["min_leaf"] in (5.0, 40.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict_proba(X), search.predict_proba(X))
    assert np.array_equal(again.impute(X), search.best_estimator_.impute(X))


def test_what_it_says_of_itself(fitted):
    assert repr(JointModel("tree")) == "JointModel(cpd='tree')"
    assert "6 columns (smokes, cough" in repr(fitted) and "400 rows" in repr(fitted)
    assert "<svg" in fitted._repr_html_()
    assert "JointModel" in JointModel()._repr_html_()
    assert fitted.most_probable({"smokes": "yes"})["cough"] is True
    found = fitted.explain({"smokes": "yes", "age": 61}, "cough", True)
    assert found.state is True and found.contributions["smokes"] > 0
    assert "cough=True" in repr(found) and "smokes=yes" in repr(found)
    with pytest.raises(ConjoinError, match="one row"):
        fitted.explain(people(2), "cough")


def test_pages_and_graphs(fitted, tmp_path):
    fitted.report(tmp_path / "page.html", people(60, 4))
    page = (tmp_path / "page.html").read_text()
    assert "conditionals disagree" in page and "smokes" in page
    graph = fitted.to_networkx()
    assert set(graph.nodes) == set(fitted.domain_.names) and graph.has_edge("smokes", "cough")
    assert fitted.plot() is not None


def test_it_works_without_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None
import numpy as np
from conjoin import JointModel
X = np.array([[0.0, 1.0], [1.0, 0.0]] * 30)
model = JointModel("tree").fit(X)
assert model.predict([[0.0, np.nan]]).tolist() == [1.0]
assert model.fit_transform(np.array([[np.nan, 0.0], *X])).tolist()[0] == [1.0, 0.0]
print(JointModel(cpd="tree").get_params()["cpd"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "tree", done.stderr


def test_scikit_learn_is_imported_only_when_needed():
    code = """
import sys
import numpy as np
from conjoin import JointModel
X = np.array([[0.0, 1.0], [1.0, 0.0]] * 30)
model = JointModel("tree", refine=False)
model.fit(X).transform(X)
try:
    JointModel().predict(X)
except ValueError as error:
    assert isinstance(error, AttributeError)
assert "sklearn" not in sys.modules and "pandas" not in sys.modules
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted
from sklearn.tree import DecisionTreeClassifier
assert clone(model).get_params() == model.get_params()
check_is_fitted(model)
for call in (check_is_fitted, lambda unfitted: unfitted.predict(X)):
    try:
        call(clone(model))
        raise AssertionError
    except NotFittedError:
        pass
with sklearn.config_context(enable_metadata_routing=True):
    weighted = clone(model).set_fit_request(sample_weight=True)
    weights = {"sample_weight": np.ones(len(X))}
    assert cross_val_score(clone(weighted), X, cv=3, params=weights).shape == (3,)
pipe = make_pipeline(clone(model)).fit(X)
assert pipe.transform(X).tolist() == X.tolist()
frame = clone(model).set_output(transform="pandas").fit(X).transform(X)
assert frame.columns.tolist() == ["x0", "x1"] and (frame.to_numpy() == X).all()
search = GridSearchCV(model, {"kappa": [0.1, 0.5]}, scoring=lambda m, X, y=None: 0.0, cv=2).fit(X)
assert search.best_params_ == {"kappa": 0.1}
nested = JointModel(DecisionTreeClassifier()).set_params(cpd__max_depth=3, refine=False)
assert nested.cpd.max_depth == 3 and nested.get_params()["cpd__max_depth"] == 3
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr


def test_equal_rows_are_answered_once(monkeypatch):
    from conjoin.kernels import row_messages as kernels

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(12)]
    domain = Domain({name: [0, 1] for name in names})
    terms = [(float(rng.normal()), {a: 1, b: 1}) for a in names for b in names if a < b]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    codes = rng.integers(0, 2, (10_000, 12)).astype(np.uint8)
    codes[:, :4] = HOLE
    answer_rows, asked = kernels.answer_rows_on_tree, []

    def counted(mode, rows, *rest):
        asked.append(len(rows))
        answer_rows(mode, rows, *rest)

    monkeypatch.setattr(kernels, "answer_rows_on_tree", counted)
    modes, exact = Completion(mn, codes).modes()
    assert exact.all() and sum(asked) == 2**8
    reduced, exact = Completion(mn, codes, max_network_cells=1).modes()
    assert exact.all()
    np.testing.assert_array_equal(reduced, modes)


# ---- what people bring --------------------------------------------------------------------------


def test_frames_with_any_index():
    frame = pd.DataFrame({"a": ["x", "y", "x", "y"] * 10, "b": ["p", "q", "q", "p"] * 10})
    plain = JointModel("tree").fit(frame)
    for index in (frame.index[::-1], [f"r{i}" for i in range(40)], [0] * 40):
        odd = frame.set_axis(index)
        model = JointModel("tree").fit(odd)
        assert model.model_.features.weights.tolist() == plain.model_.features.weights.tolist()
        assert model.predict(odd, "b").tolist() == plain.predict(frame, "b").tolist()
        holes = odd.assign(b=[None, *odd["b"].tolist()[1:]])
        filled = model.impute(holes)
        assert filled.index.equals(odd.index) and list(filled.columns) == ["a", "b"]
    named = frame.rename_axis("key")
    assert learn_conditionals(named, "tree").domain.names == ("a", "b")
    scores = cross_val_score(JointModel("tree"), frame, cv=3)
    assert np.isfinite(scores).all()


def test_types_that_cannot_hold_what_is_filled_in():
    frame = pd.DataFrame({"a": ["x", "y"] * 30, "b": [1000, 2] * 30, "c": [True, False] * 30})
    model = JointModel("tree", rules=None).fit(frame)
    lacking = frame.assign(a=np.nan)  # what read_csv makes of an empty column
    assert model.impute(lacking)["a"].tolist() == frame["a"].tolist()
    few = frame.assign(a=pd.Categorical([None, *["y"] * 59], ["y"]))
    full = model.impute(few)["a"]
    assert full.tolist()[0] == "x" and isinstance(full.dtype, pd.CategoricalDtype)
    small = frame.assign(b=pd.array([None, *[2] * 59], "Int8"))
    assert model.impute(small)["b"].tolist()[:2] == [1000, 2]
    lists = {"a": [None, "y"], "b": [1000, 2], "c": [True, False]}
    enum = pl.DataFrame(lists, schema_overrides={"a": pl.Enum(["y"])})
    assert model.impute(enum)["a"].to_list() == ["x", "y"]
    arrow = pa.table({**lists, "a": pa.array([None, "y"]), "b": pa.array([None, 2], pa.int8())})
    assert model.impute(arrow)["b"].to_pylist() == [1000, 2]


def test_intervals_are_states():
    ages = pd.Series(np.tile([5, 15, 25], 20))
    frame = pd.DataFrame({"age": pd.cut(ages, [0, 10, 20, 30]), "young": ages < 10})
    model = JointModel("tree").fit(frame)
    assert [str(s) for s in model.states("age")] == ["(0, 10]", "(10, 20]", "(20, 30]"]
    assert model.predict(frame, "young").tolist() == frame["young"].tolist()


@pytest.mark.parametrize("state", [None, np.random.default_rng(3), np.random.RandomState(3)])
def test_random_states_of_all_kinds(state):
    frame = people(80)
    model = JointModel("tree", random_state=state).fit(frame)
    assert len(model.sample(5)) == 5 and len(model.impute(frame)) == 80
    holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.5)
    (first,), (second,) = (model.impute(holes, draws=1) for _ in range(2))
    assert not first.equals(second)
    assert (model.predict_proba(holes, "smokes") == model.predict_proba(holes, "smokes")).all()


def test_every_call_draws_new_rows_unless_it_has_a_seed():
    model = JointModel("tree", random_state=5).fit(people(80))
    assert not model.sample(50).equals(model.sample(50))
    assert model.sample(50, random_state=5).equals(model.sample(50, random_state=5))
    assert not model.sample(50, random_state=6).equals(model.sample(50, random_state=5))
    with pytest.raises(ConjoinError, match="random_state must be a non-negative integer"):
        model.sample(5, random_state=-1)


def test_generators_in_the_same_state_give_the_same_rows():
    model = JointModel("tree").fit(people(80))
    rows = []
    for _ in range(2):
        rng = np.random.default_rng(4)
        rows.append([model.sample(20, random_state=rng), model.sample(20, random_state=rng)])
    assert rows[0][0].equals(rows[1][0]) and rows[0][1].equals(rows[1][1])
    assert not rows[0][0].equals(rows[0][1])


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("cpd", ["tree", "mixed"])
def test_the_order_of_columns_does_not_matter(cpd, refine):
    frame = people(120)
    frame["copy"] = frame["smokes"]  # ties
    model = JointModel(cpd, refine=refine).fit(frame)
    scores = model.score_samples(frame)
    for names in (sorted(frame), ["visits", "copy", "age", "clinic", "smokes", "height", "cough"]):
        other = JointModel(cpd, refine=refine).fit(frame[names])
        assert list(other.feature_names_in_) == names == list(other.model_.domain.names)
        assert other.score_samples(frame) == pytest.approx(scores, abs=1e-9)


def test_the_order_of_rows_of_labels_does_not_change_their_states():
    frame = people(120)
    turned = frame.iloc[::-1].astype({"smokes": "category"})
    assert JointModel("tree").fit(turned).domain_ == JointModel("tree").fit(frame).domain_


def test_mistakes_are_told():
    frame = people(80)
    model = JointModel("tree").fit(frame)
    for wrong, message in (
        (lambda: JointModel("tree", target="nope").fit(frame), "no variable 'nope'"),
        (lambda: JointModel("tree", random_state=-1).fit(frame), "random_state must be"),
        (lambda: model.sample(-1), "non-negative integer"),
        (lambda: model.sample(2.5), "non-negative integer"),
        (
            lambda: model.predict(pd.DataFrame({"foo": [1]}), "smokes"),
            "none of the columns belongs to",
        ),
        (lambda: model.marginals(metod="bp"), "no option 'metod'. Did you mean 'method'"),
        (lambda: model.most_probable(start=3), "no option 'start'"),
    ):
        with pytest.raises(ConjoinError, match=f"(?i){message}"):
            wrong()
    for ask in (lambda m: m.marginals(), lambda m: m.states(), lambda m: m.most_probable()):
        with pytest.raises(NotFittedError):
            ask(JointModel())


def test_marginals_are_those_of_the_table():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 2000)) < [[0.02], [0.1]]
    either = a | b
    frame = pd.DataFrame(
        {"a": a, "b": b, "either": either, "x": either ^ (rng.random(2000) < 0.05)}
    )
    model = JointModel().fit(frame)
    for name in frame:
        assert model.marginals()[name][True] == pytest.approx(frame[name].mean(), abs=2e-3)
    alone = sum(np.log(np.where(frame[n], frame[n].mean(), 1 - frame[n].mean())) for n in frame)
    assert model.score(frame) > alone.mean()


# ---- the commands ------------------------------------------------------------------------------


def test_numbers_and_line_breaks_as_conditions(tmp_path, capsys):
    rng = np.random.default_rng(0)
    height = rng.normal(1.7, 0.1, 200)
    table = pd.DataFrame({"height": height, "tall": height > 1.75, "n": rng.integers(0, 3, 200)})
    table["text"] = np.where(table["tall"], "x\ny", "z")
    model = str(tmp_path / "m.conjoin")
    coded = as_table(table)
    convert(learn_conditionals(coded, "tree"), coded).save(model)
    for given in ("height=1.75", "height=1.75, n=1.0", 'n=1,"text=x\ny"'):
        assert main(["query", model, "--given", given, "--target", "tall", "--json"]) == 0
        capsys.readouterr()
    for given, message in (('"n=1', "not closed"), ("text=x\nz", "no state")):
        assert main(["query", model, "--given", given]) == 1
        assert re.search(message, capsys.readouterr().err)


def test_impossible_rows_are_refused_whatever_is_asked(tmp_path, capsys):
    domain = Domain({"a": ["n", "y"], "b": ["n", "y"], "c": ["n", "y"]})
    bn = BayesianNetwork(domain, [
        TableCPD.of(domain, "a", [], 0.5),
        TableCPD.of(domain, "b", ["a"], {"n": 0.0, "y": 0.5}),
        TableCPD.of(domain, "c", [], 0.7),
    ])  # fmt: skip
    model, rows = str(tmp_path / "m.conjoin"), tmp_path / "rows.csv"
    bn.save(model)
    rows.write_text("a,b,c\ny,y,\nn,y,\n")
    for command in (["predict", model, str(rows), "--target", "c"],
                    ["impute", model, str(rows), "-o", str(tmp_path / "full.csv")]):  # fmt: skip
        assert main(command) == 1
        assert "row 2 is impossible" in capsys.readouterr().err


def test_impute_keeps_numbers_that_are_there(tmp_path, capsys):
    rng = np.random.default_rng(1)
    age = rng.integers(18, 80, 300)
    old = np.where(age > 50, "yes", "no")
    plain = tmp_path / "all.csv"
    rows = [f"{i},{a},{o}" for i, (a, o) in enumerate(zip(age, old, strict=True))]
    plain.write_text("\n".join(["id,age,old", *rows]) + "\n")
    model = str(tmp_path / "m.conjoin")
    with pytest.warns(DataWarning, match="left out: 'id'"):
        table = read_table(plain)
    learn_conditionals(table, "tree").save(model)
    holes = tmp_path / "holes.csv"
    holes.write_text('id,"age",old\n"a, b",33,\n2,,yes\n\n3,71,yes\n')
    out = tmp_path / "full.csv"
    assert main(["impute", model, str(holes), "-o", str(out)]) == 0
    header, first, second, third = out.read_text().splitlines()
    assert (header, first, third) == ('id,"age",old', '"a, b",33,no', "3,71,yes")
    assert re.fullmatch(r"2,[567]\d,yes", second)
    capsys.readouterr()


def test_impute_keeps_what_a_parquet_file_has_besides(tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(1)
    age = rng.integers(18, 80, 300)
    frame = pd.DataFrame({"age": age, "old": np.where(age > 50, "yes", "no"), "n": age // 40})
    model = str(tmp_path / "m.conjoin")
    learn_conditionals(frame, "tree").save(model)
    old = pa.DictionaryArray.from_arrays(pa.array([None, 0, 0]), pa.array(["yes"]))
    columns = {"id": ["x", "y", None], "old": old, "age": [33, 70, 71], "n": [0, None, 1]}
    holes, out = tmp_path / "holes.parquet", tmp_path / "full.parquet"
    parquet.write_table(pa.table(columns), holes)
    assert main(["impute", model, str(holes), "-o", str(out)]) == 0
    full = parquet.read_table(out)
    want = {
        "id": ["x", "y", None],
        "old": ["no", "yes", "yes"],
        "age": [33, 70, 71],
        "n": [0, 1, 1],
    }
    assert full.to_pydict() == want
    assert full.schema.field("n").type == pa.int64()
    assert pa.types.is_dictionary(full.schema.field("old").type)
    capsys.readouterr()


def test_impute_and_predict_commands(tmp_path, capsys):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 300)
    b = np.where(rng.random(300) < 0.9, a, 1 - a)
    domain = Domain({"a": ["no", "yes"], "b": ["no", "yes"]})
    table = Table(domain, np.stack([a, b], axis=1))
    dn = learn_conditionals(table, "tree")
    model = str(tmp_path / "m.conjoin")
    convert(dn, table).save(model)
    dn.save(tmp_path / "d.conjoin")
    holes = tmp_path / "holes.csv"
    holes.write_text("a,b,other\nyes,,1\n,no,2\nno,no,3\n,,4\n")
    out = tmp_path / "full.csv"
    for which in (model, str(tmp_path / "d.conjoin")):
        assert main(["impute", which, str(holes), "-o", str(out)]) == 0
        assert "4 values filled in 3 of them" in capsys.readouterr().out
        full = read_table(out, domain)
        assert full.complete
        assert full.codes[:3].tolist() == [[1, 1], [0, 0], [0, 0]]
        lines = out.read_text().splitlines()
        assert lines[:4] == ["a,b,other", "yes,yes,1", "no,no,2", "no,no,3"]
        assert lines[4].endswith(",4")
    assert main(["impute", model, str(holes), "-o", str(out), "--draw", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["filled"] == 4
    assert main(["predict", model, str(holes), "--target", "a", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["states"] == ["no", "yes"] and len(told["probabilities"]) == 4
    assert told["predicted"][1] == "no"
    part = tmp_path / "part.csv"
    part.write_text("b\nyes\nno\n")
    assert main(["predict", model, str(part), "--target", "a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a,P(no),P(yes)" and [x.split(",")[0] for x in lines[1:]] == ["yes", "no"]
    new = tmp_path / "new.csv"
    new.write_text("b\nmaybe\nno\n")
    command = ["predict", model, str(new), "--target", "a"]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "row 1, column 'b': 'maybe' is not a state" in said
    assert said.endswith("--unseen missing takes such values as missing.\n")
    assert main([*command, "--unseen", "missing", "--json"]) == 0
    unseen, known = json.loads(capsys.readouterr().out)["probabilities"]
    assert unseen == pytest.approx(told["probabilities"][3])  # where nothing is known
    assert known == pytest.approx(told["probabilities"][1])
    assert main(["predict", model, str(part), "--target", "a", "-o", str(tmp_path / "p.csv")]) == 0
    assert (tmp_path / "p.csv").read_text().splitlines() == lines
    capsys.readouterr()
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\nyes,perhaps\n")
    other = tmp_path / "other.csv"
    other.write_text("c\n1\n")
    for wrong, message in (
        (["impute", model, str(bad), "-o", str(out)], "'perhaps' is not a state"),
        (
            ["impute", model, str(holes), "-o", "x.what"],
            "'.what' is not the ending of a table file",
        ),
        (["predict", model, str(bad), "--target", "a"], "column 'b': 'perhaps'"),
        (["predict", model, str(part), "--target", "z"], "no variable 'z'"),
        (["predict", model, str(other), "--target", "a"], "none of the columns of the model"),
        (["predict", model, str(part), "--target", "a", "-o", "x.txt"], "written as .csv"),
    ):
        assert main(wrong) == 1
        assert message in capsys.readouterr().err


def test_wide_frames_are_filled_without_a_word():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (60, 130)).astype(object)
    frame = pd.DataFrame(np.where(rng.random(codes.shape) < 0.1, None, codes)).rename(columns=str)
    frame.attrs["source"] = "a survey"
    full = JointModel("tree", refine=False).fit(frame).impute(frame)  # warnings are errors here
    assert full.notna().all(axis=None) and list(full.columns) == list(frame.columns)
    known = frame.notna()
    assert (full[known] == frame[known]).to_numpy()[known].all()
    assert full.attrs == frame.attrs


def test_a_row_of_a_frame_is_explained(fitted):
    frame = people(5, 3)
    row = frame.iloc[0]
    assert str(fitted.explain(row, "smokes")) == str(fitted.explain(frame.head(1), "smokes"))


def test_columns_that_were_left_out_are_ignored_in_rows_of_every_kind():
    frame = people(60, 3).assign(id=[f"no. {i}" for i in range(60)])
    with pytest.warns(DataWarning, match="left out: 'id'"):
        model = JointModel("tree").fit(frame)
    known = frame[["smokes", "age", "id"]]
    rows = {
        "table": known.head(1),
        "row": known.iloc[0],
        "row with a column more": known.assign(note="new").iloc[0],
        "mapping": known.iloc[0].to_dict(),
        "known columns": known.iloc[0].drop("id").to_dict(),
    }
    found = {kind: str(model.explain(row, "cough")) for kind, row in rows.items()}
    assert len(set(found.values())) == 1 and "no. 0" not in found["table"]
    p = [model.predict_proba(row, "cough").tolist() for row in rows.values()]
    assert p[1:] == p[:-1]
    with pytest.raises(DataError, match="no variable 'smoke'"):
        model.explain({"smoke": "yes"}, "cough")
    with pytest.raises(DataError, match="none of the columns belongs"):
        model.explain(pd.Series({"note": "new"}), "cough")
    with pytest.raises(DataError, match="'id' was left out"):
        model.marginals({"id": "no. 0"})


@pytest.fixture
def islands():
    """Two groups of states, one as probable as the other, that no single change connects."""
    model = JointModel("tree").fit(np.repeat([[0] * 8, [1] * 8], 30, axis=0))
    names = model.domain_.names
    pairs = [(a, b) for a in names for b in names if a < b]
    terms = [(9.0, {a: s, b: s}) for a, b in pairs for s in (0, 1)]
    model.model_ = MarkovNetwork(model.domain_, Features.from_terms(model.domain_, terms))
    return model


def test_predictions_that_a_sampler_cannot_make_are_warned_of(islands, monkeypatch):
    rows = np.full((40, 8), np.nan)
    rows[:, 1] = np.arange(40) % 2
    assert islands.predict_proba(rows, "v0") == pytest.approx(
        np.eye(2)[np.arange(40) % 2], abs=1e-9
    )
    rows[:, 1] = np.nan
    assert islands.predict_proba(rows, "v0")[0] == pytest.approx([0.5, 0.5])
    monkeypatch.setattr(rows_module, "Completion", partial(Completion, **WAYS["sampled"]))
    said = r"40 of 40 rows had to be sampled.*differs by up to 1\.00"
    with pytest.warns(ConvergenceWarning, match=said):
        for seed in range(8):  # two runs may end on the same island by chance
            islands.seed_ = seed
            islands.predict_proba(rows, "v0")


def test_rows_that_a_sampler_cannot_draw_are_warned_of(islands, monkeypatch):
    drawn = islands.sample(400, random_state=0)
    assert 0.4 < drawn.mean() < 0.6

    def refuse(*_, **__):
        raise TooLarge("no")

    monkeypatch.setattr(exact_module, "sample", refuse)
    with pytest.warns(ConvergenceWarning, match="R-hat"):
        for seed in range(8):
            islands.sample(400, random_state=seed)


def test_numbers_are_found_by_their_value_in_evidence():
    frame = pd.DataFrame({"x": ["a", "b", "b"] * 30, "y": [1, 2, None] * 30})
    model = JointModel("tree").fit(frame)
    assert model.marginals({"y": 1})["x"]["a"] == model.marginals({"y": 1.0})["x"]["a"] > 0.5


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame(index=range(3)), "no columns"),
        (pd.DataFrame({"a": [1, 2]}).head(0), "no rows"),
        (pd.DataFrame({"a": [1, 2], "b": [[1], [2]]}), r"column 'b' holds \[1\], a list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
    ],
)
def test_frames_without_anything_to_learn(frame, said):
    with pytest.raises(DataError, match=said):
        JointModel("tree").fit(frame)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "array"])
def test_columns_without_values_stay_empty(kind):
    frame = pd.DataFrame(
        {"a": [1.0, 2.0, 2.0] * 30, "none": [np.nan] * 90, "b": [5.0, 7.0, 7.0] * 30}
    )
    as_given = {
        "pandas": lambda t: t,
        "polars": lambda t: pl.from_pandas(t, nan_to_null=True),
        "arrow": lambda t: pa.Table.from_pandas(t, preserve_index=False),
        "array": lambda t: t.to_numpy(),
    }[kind]
    with pytest.warns(DataWarning, match=r"left out: .* \(no values\)"):
        model = JointModel("tree").fit(as_given(frame))
    assert model.n_features_in_ == 3
    holes = frame.copy()
    holes.loc[0, "b"] = np.nan
    filled, drawn = model.impute(as_given(holes)), model.sample(4)
    for result, rows in ((filled, 90), (drawn, 4)):
        assert type(result) is type(as_given(frame))
        values = np.array(result, float) if kind == "array" else np.array(
            [np.array(result[name].to_pylist() if kind == "arrow" else result[name].to_list(), float)
             for name in frame.columns]).T  # fmt: skip
        assert values.shape == (rows, 3)
        assert np.isnan(values[:, 1]).all()
        assert not np.isnan(values[:, [0, 2]]).any()
    target = 2 if kind == "array" else "b"
    assert model.predict(as_given(holes), target=target)[:2].tolist() == [5.0, 7.0]
