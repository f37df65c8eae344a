"""Classifiers read as CPDs, against the classifiers' own predictions and slow computations."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from conjoin import DependencyNetwork, Domain, Table, TableCPD, convert
from conjoin.classifiers import indicator_columns, indicators, learn_classifiers, read_classifier
from conjoin.errors import ModelError
from conjoin.jobs import TaskRunner
from conjoin.learning import parent_rules
from conjoin.models import BoostedTreesCPD, LogLinearCPD, TreeCPD
from reference import all_states, feature_rows, feature_sum, normalized

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

CARDS = [(2, 2, 2), (2, 3, 2, 4), (3, 2, 5, 2, 2), (4, 3, 3)]


@pytest.fixture(autouse=True)
def one_thread():
    """Threads that wait for each other make small fits slow on a busy machine."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def random_table(cards, seed=0, rows=250, missing=0.0, weighted=False):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 6, rows)
    columns = [
        np.where(rng.random(rows) < 0.6, (hidden + i) % card, rng.integers(0, card, rows))
        for i, card in enumerate(cards)
    ]
    codes = np.stack(columns, axis=1)
    codes[rng.random(codes.shape) < missing] = -1
    weights = rng.random(rows) * 3 if weighted else None
    domain = Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})
    return Table(domain, codes, weights)


def free(table):
    return parent_rules(table.domain, None, None)


def fitted(classifier, table, target):
    """Fit a copy; return it, its columns, and the encoded joint states. Written out by hand."""
    cards = table.domain.cards
    columns = [
        (v, s)
        for v in range(len(cards))
        if v != target
        for s in range(cards[v])
        if cards[v] > 2 or s == 1
    ]

    def encode(codes):
        return np.array([[float(row[v] == s) for v, s in columns] for row in codes])

    known = table.codes[:, target] != table.missing
    given = {} if table.weights is None else {"sample_weight": table.weights[known]}
    one = clone(classifier).fit(encode(table.codes[known]), table.codes[known, target], **given)
    return one, columns, encode(all_states(table.domain))


def own_log_proba(classifier, encoded):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.log(classifier.predict_proba(encoded).astype(float))


def check_features(cpd, domain):
    """The CPD's features must say what its probabilities say."""
    states = all_states(domain)
    got = cpd.log_probabilities(states)
    rows = feature_rows(cpd.features())
    for r in range(0, len(states), 7):
        scores = []
        for s in range(domain.cards[cpd.target]):
            state = states[r].copy()
            state[cpd.target] = s
            scores.append(feature_sum(rows, state))
        np.testing.assert_allclose(got[r], normalized(np.array(scores)), atol=1e-9)


EXACT = {
    "hist": HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5),
    "hist stopped": HistGradientBoostingClassifier(
        max_iter=30, early_stopping=True, random_state=0
    ),
    "logistic": LogisticRegression(max_iter=2000),
    "logistic no intercept": LogisticRegression(max_iter=2000, fit_intercept=False),
    "logistic l1": LogisticRegression(
        l1_ratio=1, solver="saga", C=0.1, max_iter=20000, tol=1e-3, random_state=0
    ),
}


def check_exact(classifier, cards, seed=0, weighted=False, tolerance=1e-6):
    table = random_table(cards, seed, weighted=weighted)
    for target in range(len(cards)):
        one, columns, encoded = fitted(classifier, table, target)
        cpd = read_classifier(one, table.domain.cards, target, columns)
        got = cpd.log_probabilities(all_states(table.domain))
        np.testing.assert_allclose(got, own_log_proba(one, encoded), atol=tolerance, rtol=0)
        check_features(cpd, table.domain)
        assert target not in cpd.blanket
    learned = learn_classifiers(table, classifier, rules=free(table))[target]
    learned_at = learned.log_probabilities(all_states(table.domain))
    np.testing.assert_allclose(learned_at, got, atol=1e-9)
    return cpd


@pytest.mark.parametrize("cards", CARDS)
@pytest.mark.parametrize("kind", EXACT)
def test_exact_kinds_have_the_classifiers_probabilities(kind, cards):
    cpd = check_exact(EXACT[kind], cards)
    assert isinstance(cpd, LogLinearCPD if "logistic" in kind else BoostedTreesCPD)


def test_liblinear_of_two_classes():
    check_exact(LogisticRegression(solver="liblinear", intercept_scaling=3.0), (2, 2, 2))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_logistic_regression_cv():
    check_exact(LogisticRegressionCV(Cs=3, cv=3, max_iter=2000, tol=1e-3), (2, 3, 2))


@pytest.mark.parametrize("kind", ["hist", "logistic"])
def test_weights_reach_the_classifier(kind):
    check_exact(EXACT[kind], (2, 3, 2, 4), weighted=True)
    table = random_table((2, 3, 2), weighted=True)
    plain = Table(table.domain, table.codes)
    one, other = (learn_classifiers(t, EXACT[kind], rules=free(t))[1] for t in (table, plain))
    states = all_states(table.domain)
    assert abs(one.log_probabilities(states) - other.log_probabilities(states)).max() > 1e-4


# ---- LightGBM and XGBoost -------------------------------------------------------------------------

LIGHTGBM = {
    "plain": {},
    "deep": {"num_leaves": 31, "min_child_samples": 2},
    "forest": {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1},
    "dart": {"boosting_type": "dart"},
    "zero as missing": {"zero_as_missing": True, "min_child_samples": 3},
    "no average": {"boost_from_average": False},
}


@pytest.mark.parametrize("cards", CARDS)
@pytest.mark.parametrize("kind", LIGHTGBM)
def test_lightgbm(kind, cards):
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    settings = {"n_estimators": 6, "verbose": -1, "n_jobs": 1, "random_state": 0} | LIGHTGBM[kind]
    check_exact(lightgbm.LGBMClassifier(**settings), cards, weighted=kind == "plain")


def test_lightgbm_sigmoid():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    check_exact(lightgbm.LGBMClassifier(n_estimators=5, sigmoid=0.4, verbose=-1), (2, 2, 2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"objective": "multiclassova"}, "multiclassova"), ({"linear_tree": True}, "linear_tree")],
)
def test_lightgbm_that_is_not_log_linear(settings, message):
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    table = random_table((3, 3, 3))
    classifier = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, **settings)
    with pytest.raises(ModelError, match=message):
        learn_classifiers(table, classifier, rules=free(table))


XGBOOST = {
    "plain": {},
    "deep": {"max_depth": 6, "min_child_weight": 0},
    "base score": {"base_score": 0.3},
    "parallel": {"num_parallel_tree": 3, "subsample": 0.5, "learning_rate": 0.5},
    "zero is missing": {"missing": 0.0},
    "exact": {"tree_method": "exact"},
}


@pytest.mark.parametrize("cards", CARDS)
@pytest.mark.parametrize("kind", XGBOOST)
def test_xgboost(kind, cards):
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    settings = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1} | XGBOOST[kind]
    # XGBoost computes with 32 bits.
    check_exact(xgboost.XGBClassifier(**settings), cards, weighted=kind == "plain", tolerance=2e-6)


def test_xgboost_stopped_early():
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    table = random_table((2, 3, 2, 2))
    columns = indicator_columns(table.domain.cards, [1, 2, 3])
    x, y = indicators(table.codes, columns), table.codes[:, 0]
    one = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=3, learning_rate=0.8)
    one.fit(x[:150], y[:150], eval_set=[(x[150:], y[150:])], verbose=False)
    assert one.best_iteration + 1 < one.get_booster().num_boosted_rounds()
    cpd = read_classifier(one, table.domain.cards, 0, columns)
    states = all_states(table.domain)
    own = own_log_proba(one, indicators(states, columns))
    np.testing.assert_allclose(cpd.log_probabilities(states), own, atol=2e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"booster": "gblinear"}, "gblinear"),
        ({"objective": "binary:hinge"}, "hinge"),
        ({"multi_strategy": "multi_output_tree"}, "one_output_per_tree"),
    ],
)
def test_xgboost_that_is_not_trees(settings, message):
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    table = random_table((2, 2, 2) if "objective" in settings else (3, 3, 3))
    with pytest.raises(ModelError, match=message):
        learn_classifiers(
            table, xgboost.XGBClassifier(n_estimators=2, **settings), rules=free(table)
        )


# ---- trees and forests ----------------------------------------------------------------------------


def slow_leaves(tree, encoded, labels, weights, card, at):
    """Smoothed log-probabilities of the training rows that share a leaf with each row of `at`."""
    home, where = tree.apply(encoded), tree.apply(at)
    result = np.zeros((len(at), card))
    for r, leaf in enumerate(where):
        for state in range(card):
            result[r, state] = 1 + weights[(home == leaf) & (labels == state)].sum()
    return np.log(result / result.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cards", CARDS)
@pytest.mark.parametrize(
    "classifier",
    [
        DecisionTreeClassifier(min_samples_leaf=3, random_state=0),
        DecisionTreeClassifier(max_depth=3, criterion="entropy", random_state=0),
        ExtraTreeClassifier(random_state=0),
    ],
)
def test_a_decision_tree_has_smoothed_counts(classifier, cards, weighted):
    table = random_table(cards, weighted=weighted)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    learned = learn_classifiers(table, classifier, rules=free(table))
    for target, card in enumerate(cards):
        one, columns, at = fitted(classifier, table, target)
        cpd = read_classifier(one, table.domain.cards, target, columns)
        assert isinstance(cpd, TreeCPD)
        encoded = indicators(table.codes, np.array(columns))
        slow = slow_leaves(one, encoded, table.codes[:, target], weights, card, at)
        for got in (cpd, learned[target]):
            np.testing.assert_allclose(
                got.log_probabilities(all_states(table.domain)), slow, atol=1e-6
            )
        check_features(cpd, table.domain)


@pytest.mark.parametrize("cards", CARDS)
@pytest.mark.parametrize(
    "classifier",
    [
        RandomForestClassifier(5, bootstrap=False, random_state=0),
        ExtraTreesClassifier(5, min_samples_leaf=2, random_state=0),
    ],
)
def test_a_forest_is_the_geometric_mean_of_its_trees(classifier, cards):
    table = random_table(cards)
    for target, card in enumerate(cards):
        one, columns, at = fitted(classifier, table, target)
        cpd = read_classifier(one, table.domain.cards, target, columns)
        assert isinstance(cpd, BoostedTreesCPD)
        encoded, labels = indicators(table.codes, np.array(columns)), table.codes[:, target]
        weights = np.ones(len(table))
        logs = [slow_leaves(t, encoded, labels, weights, card, at) for t in one.estimators_]
        slow = [normalized(row) for row in np.mean(logs, axis=0)]
        np.testing.assert_allclose(cpd.log_probabilities(all_states(table.domain)), slow, atol=1e-6)
        check_features(cpd, table.domain)


def test_a_bootstrapped_forest_counts_what_each_tree_drew():
    table = random_table((3, 2, 4))
    one, columns, at = fitted(RandomForestClassifier(4, random_state=0), table, 0)
    cpd = read_classifier(one, table.domain.cards, 0, columns)
    encoded, labels = indicators(table.codes, np.array(columns)), table.codes[:, 0]
    logs = []
    for tree, drawn in zip(one.estimators_, one.estimators_samples_, strict=True):
        times = np.bincount(drawn, minlength=len(table)).astype(float)
        logs.append(slow_leaves(tree, encoded, labels, times, 3, at))
    slow = [normalized(row) for row in np.mean(logs, axis=0)]
    np.testing.assert_allclose(cpd.log_probabilities(all_states(table.domain)), slow, atol=1e-6)


# ---- encoding, rules, odd targets -----------------------------------------------------------------


def test_a_missing_parent_has_no_indicator_and_a_missing_target_no_row():
    table = random_table((2, 3, 4), missing=0.2)
    for target in range(3):
        one, columns, encoded = fitted(LogisticRegression(max_iter=2000), table, target)
        cpd = learn_classifiers(table, LogisticRegression(max_iter=2000), rules=free(table))[target]
        np.testing.assert_allclose(
            cpd.log_probabilities(all_states(table.domain)), own_log_proba(one, encoded), atol=1e-6
        )
        rows = table.codes[(table.codes == table.missing).any(axis=1)]
        for row, ones in zip(rows, indicators(rows, np.array(columns)), strict=True):
            assert ones.tolist() == [float(row[v] == s) for v, s in columns]


def test_a_variable_with_many_states():
    table = random_table((2, 70, 300), rows=300)
    columns = indicator_columns(table.domain.cards, [1, 2])
    encoded = indicators(table.codes, columns)
    one = DecisionTreeClassifier(random_state=0).fit(encoded, table.codes[:, 0])
    cpd = read_classifier(one, table.domain.cards, 0, columns)
    own = slow_leaves(one, encoded, table.codes[:, 0], np.ones(300), 2, encoded)
    np.testing.assert_allclose(cpd.log_probabilities(table.codes), own, atol=1e-6)


@pytest.mark.parametrize(
    "classifier",
    [EXACT["hist"], EXACT["logistic"], DecisionTreeClassifier(random_state=0)],
)
def test_forbidden_parents_are_not_used(classifier):
    table = random_table((2, 3, 2, 4))
    rules = parent_rules(table.domain, {"x0": ["x1", "x3"], "x2": ["x0", "x1", "x3"]}, None)
    cpds = learn_classifiers(table, classifier, rules=rules)
    assert set(cpds[0].blanket) <= {2}
    assert isinstance(cpds[2], TableCPD)
    counts = np.bincount(table.codes[:, 2], minlength=2) + 1
    got = cpds[2].log_probabilities(table.codes[:1])[0]
    np.testing.assert_allclose(np.exp(got), counts / counts.sum())
    assert {1, 3} & set(cpds[0].blanket) == set()
    assert len(cpds[1].blanket) == 3


@pytest.mark.parametrize("kind", ["hist", "logistic"])
def test_a_constant_target_and_one_without_rows(kind):
    table = random_table((2, 3, 2, 2))
    codes = table.codes.astype(int)
    codes[:, 1], codes[:, 3] = 2, -1
    cpds = learn_classifiers(Table(table.domain, codes), EXACT[kind], rules=free(table))
    one = np.exp(cpds[1].log_probabilities(all_states(table.domain))[0])
    np.testing.assert_allclose(one, [1 / 253, 1 / 253, 251 / 253])
    np.testing.assert_allclose(np.exp(cpds[3].log_probabilities(table.codes[:1])), [[0.5, 0.5]])
    assert cpds[1].blanket == cpds[3].blanket == ()


def test_rows_of_weight_zero_do_not_count():
    table = random_table((2, 2, 3))
    weights = (table.codes[:, 0] == 1) * 2.0
    weighted = Table(table.domain, table.codes, weights)
    cpd = learn_classifiers(weighted, LogisticRegression(), rules=free(table))[0]
    assert isinstance(cpd, TableCPD)
    p = np.exp(cpd.log_probabilities(table.codes[:1])[0])
    np.testing.assert_allclose(
        p, [1 / (2 + weights.sum()), (1 + weights.sum()) / (2 + weights.sum())]
    )


def unseen_kinds():
    kinds = {k: EXACT[k] for k in ("hist", "logistic")}
    kinds["tree"] = DecisionTreeClassifier(random_state=0)
    kinds["forest"] = RandomForestClassifier(5, random_state=0)
    kinds["lightgbm"] = kinds["xgboost"] = None
    return kinds


def make(kind):
    if kind == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        return lightgbm.LGBMClassifier(n_estimators=4, verbose=-1)
    if kind == "xgboost":
        xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
        return xgboost.XGBClassifier(n_estimators=4, max_depth=3)
    return unseen_kinds()[kind]


@pytest.mark.parametrize("absent", [(0,), (1,), (0, 2)])
@pytest.mark.parametrize("kind", unseen_kinds())
def test_an_unseen_state_has_a_small_probability(kind, absent):
    classifier = make(kind)
    table = random_table((4, 3, 2))
    there = sorted(set(range(4)) - set(absent))
    codes = table.codes.astype(int)
    codes[:, 0] = np.array(there)[codes[:, 0] % len(there)]
    table = Table(table.domain, codes)
    cpd = learn_classifiers(table, classifier, rules=free(table))[0]
    states = all_states(table.domain)
    p = np.exp(cpd.log_probabilities(states))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p > 0).all()
    if kind not in ("tree", "forest"):
        assert (p[:, list(absent)] <= 1 / (len(table) + 4) + 1e-12).all()
        columns = indicator_columns(table.domain.cards, [1, 2])
        labels = np.searchsorted(there, table.codes[:, 0])
        one = clone(classifier).fit(indicators(table.codes, columns), labels)
        own = own_log_proba(one, indicators(states, columns))
        seen = p[:, there] / p[:, there].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.log(seen), own, atol=2e-6)
        unlikely = read_classifier(
            one, table.domain.cards, 0, columns, states=there, unseen=1e-9
        ).log_probabilities(states)
        assert (unlikely[:, list(absent)] <= np.log(1e-9) + 1e-9).all()
    check_features(cpd, table.domain)


# ---- whole networks -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", unseen_kinds())
def test_a_network_is_converted(kind):
    table = random_table((2, 3, 2, 2), rows=200)
    cpds = learn_classifiers(table, make(kind), rules=free(table), runner=TaskRunner(2))
    dn = DependencyNetwork(table.domain, cpds)
    mn = convert(dn, table)
    states = all_states(table.domain)
    log_p = normalized(mn.log_potential(states))
    data = log_p[[np.ravel_multi_index(tuple(row), table.domain.cards) for row in table.codes]]
    marginals = table.marginals()
    apart = sum(np.log(m)[table.codes[:, i]] for i, m in enumerate(marginals))
    assert np.isfinite(log_p).all()
    assert data.mean() > apart.mean()  # better than independence


def test_consistent_conditionals_give_their_joint():
    rng = np.random.default_rng(3)
    domain = Domain({"a": [0, 1], "b": [0, 1, 2]})
    table = Table(domain, np.stack([rng.integers(0, 2, 300), rng.integers(0, 3, 300)], axis=1))
    joint = np.zeros((2, 3))
    np.add.at(joint, tuple(table.codes.T), 1.0)
    joint += 1  # unpruned trees of two variables are the smoothed conditionals of the table
    tree = DecisionTreeClassifier(random_state=0)
    dn = DependencyNetwork(domain, learn_classifiers(table, tree, rules=free(table)))
    states = np.array(list(product(range(2), range(3))), np.uint8)
    got = normalized(convert(dn, table).log_potential(states))
    np.testing.assert_allclose(np.exp(got), (joint / joint.sum()).ravel(), atol=1e-9)


def test_any_number_of_jobs_gives_the_same():
    table = random_table((2, 3, 2, 4))
    forest = RandomForestClassifier(4, random_state=5)
    states = all_states(table.domain)
    one, four = (
        [
            c.log_probabilities(states)
            for c in learn_classifiers(table, forest, rules=free(table), runner=TaskRunner(n))
        ]
        for n in (1, 4)
    )
    for a, b in zip(one, four, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not hasattr(forest, "classes_")


# ---- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classifier",
    [
        SVC(),
        KNeighborsClassifier(),
        MLPClassifier(),
        make_pipeline(PolynomialFeatures(), LogisticRegression()),
        "tree",
    ],
)
def test_what_cannot_be_read_is_refused_by_name(classifier):
    table = random_table((2, 2, 2))
    with pytest.raises(ModelError) as caught:
        learn_classifiers(table, classifier, rules=free(table))
    message = str(caught.value)
    assert message.startswith(type(classifier).__name__)
    assert "HistGradientBoostingClassifier" in message
    assert "XGBClassifier" in message


def test_a_class_is_refused():
    table = random_table((2, 2, 2))
    with pytest.raises(ModelError, match=r"give a classifier: LogisticRegression\(\)"):
        learn_classifiers(table, LogisticRegression, rules=free(table))


class Unweighted(DecisionTreeClassifier):
    def fit(self, X, y):
        return super().fit(X, y)


def test_weights_that_a_classifier_cannot_take():
    table = random_table((2, 2, 2), weighted=True)
    with pytest.raises(ModelError, match="Unweighted.fit takes no sample_weight"):
        learn_classifiers(table, Unweighted(), rules=free(table))
    plain = Table(table.domain, table.codes)
    assert len(learn_classifiers(plain, Unweighted(), rules=free(table))) == 3


def test_a_fit_that_fails_names_the_variable():
    table = random_table((3, 2, 2))
    with pytest.raises(ModelError, match="could not be fitted for 'x0'"):
        learn_classifiers(table, LogisticRegression(solver="liblinear"), rules=free(table))


def test_classes_stand_for_given_states():
    table = random_table((2, 3, 2))
    cards = table.domain.cards
    _, columns, _ = fitted(LogisticRegression(max_iter=500), table, 0)
    encoded = indicators(table.codes, np.array(columns))
    named = LogisticRegression().fit(encoded, np.array(["no", "yes"])[table.codes[:, 0]])
    swapped = read_classifier(named, cards, 0, columns, states=[1, 0])
    own = own_log_proba(named, encoded)
    np.testing.assert_allclose(swapped.log_probabilities(table.codes)[:, ::-1], own, atol=1e-6)


def test_settings_that_are_not_log_linear():
    table = random_table((3, 3, 2))
    cards = table.domain.cards
    one, columns, _ = fitted(LogisticRegression(max_iter=500), table, 0)
    one.multi_class = "ovr"
    with pytest.raises(ModelError, match="one-vs-rest"):
        read_classifier(one, cards, 0, columns)
    categories = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])
    with pytest.raises(ModelError, match="categorical_features"):
        learn_classifiers(table, categories, rules=free(table))


def test_a_fit_without_any_effect_is_uniform():
    table = random_table((2, 2, 2))
    nothing = LogisticRegression(l1_ratio=1, solver="saga", C=1e-6, fit_intercept=False)
    cpds = learn_classifiers(table, nothing, rules=free(table))
    np.testing.assert_allclose(cpds[0].log_probabilities(table.codes), np.log(0.5))
    assert cpds[0].blanket == ()
    assert len(convert(DependencyNetwork(table.domain, cpds), table).features) == 0
