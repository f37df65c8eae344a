"""Fitted classifiers read as CPDs: each split and each weight is a test "variable = state".

What a library does not offer in public, the raw predictors of scikit-learn's histogram boosting, is read
from its private attributes; the tests compare every kind with the classifier's own predictions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.models.cpd import CPD, BoostedTreesCPD, LogLinearCPD, TreeCPD
from conjoin.models.features import Features
from conjoin.models.tree import Tree
from conjoin.models.vocabulary import mask_words, state_masks

UNSEEN = 1e-6
"""The most that the odds of a state which a classifier has not seen may be, unless told."""


# ---- reading ------------------------------------------------------------------------------------


def read_classifier(
    fitted: Any,
    cards: IntArray,
    target: int,
    columns: npt.ArrayLike,
    *,
    states: npt.ArrayLike | None = None,
    unseen: float = UNSEEN,
) -> CPD:
    """Return the CPD that a fitted classifier stands for.

    Boosted trees (of scikit-learn, LightGBM and XGBoost) and logistic regression are read exactly:
    the CPD has the classifier's own probabilities. A decision tree keeps its splits; its leaves get
    the class counts of the node with one added for each state, so that no probability is 0. A random
    forest or extra trees become the geometric mean of their trees, smoothed in the same way, and not
    the arithmetic mean that the forest itself predicts: a mean of distributions is not log-linear.

    One-vs-rest regression of more than two classes is refused: its normalised sigmoids are not
    log-linear either.

    Parameters
    ----------
    fitted : classifier
        DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier,
        GradientBoostingClassifier, HistGradientBoostingClassifier or LogisticRegression of
        scikit-learn, LGBMClassifier of LightGBM, or XGBClassifier of XGBoost with trees.
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    columns : array of int, shape (columns, 2)
        The (variable, state) that each column which the classifier was fitted on indicates.
    states : array of int, optional
        The state of the target that each class stands for; by default the class labels themselves.
    unseen : float
        Of boosted trees and logistic regression, what a state that is no class is given: its score is
        the mean score of the classes, plus log(classes * unseen). Its odds against all classes
        together are then `unseen` where the classes are equally likely, and less elsewhere. The odds
        among the classes do not change.
    """
    reader = reader_of(fitted)
    if not hasattr(fitted, "classes_"):
        raise ModelError(f"this {type(fitted).__name__} is not fitted; call its fit method first")
    cards = np.asarray(cards, np.int64)
    if not 0 <= target < len(cards):
        raise ModelError(f"there is no variable {target}; there are {len(cards)}, counted from 0")
    where = np.asarray(columns, np.int64).reshape(-1, 2)
    _check_columns(fitted, cards, target, where)
    if not 0 < unseen < 1:
        raise ModelError(f"unseen must be between 0 and 1, not {unseen}")
    codes = _class_states(fitted, int(cards[target]), states)
    return reader(fitted, _Frame(cards, int(target), where, codes, float(unseen)))


@dataclass(frozen=True, eq=False)
class _Frame:
    """What the columns and the classes of a classifier mean."""

    cards: IntArray
    target: int
    columns: IntArray
    states: IntArray
    unseen: float

    @property
    def card(self) -> int:
        """The number of states of the target."""
        return int(self.cards[self.target])

    def scores(self, outputs: int, scale: float) -> tuple[FloatArray, FloatArray]:
        """Return the map, matrix and constant, from a classifier's raw scores to the states'.

        One raw score is the log-odds of the second class, but for the scale.
        """
        classes = len(self.states)
        if classes < 2 or outputs not in ({1, 2} if classes == 2 else {classes}):
            raise ModelError(
                f"{outputs} scores cannot be read for {classes} classes; fit the classifier on rows "
                "with two states of the target or more"
            )
        matrix, constant = np.zeros((self.card, outputs)), np.zeros(self.card)
        if outputs == 1:
            matrix[self.states[1], 0] = scale
        else:
            matrix[self.states, np.arange(outputs)] = scale
        other = np.setdiff1d(np.arange(self.card), self.states)
        matrix[other] = matrix[self.states].mean(axis=0)
        constant[other] = np.log(classes * self.unseen)
        return matrix, constant


def _check_columns(fitted: Any, cards: IntArray, target: int, columns: IntArray) -> None:
    expected = int(getattr(fitted, "n_features_in_", len(columns)))
    if len(columns) != expected:
        raise ModelError(
            f"the classifier was fitted on {expected} columns, but {len(columns)} are described; "
            "give the (variable, state) of each"
        )
    var, state = columns[:, 0], columns[:, 1]
    if ((var < 0) | (var >= len(cards))).any() or (var == target).any():
        raise ModelError(
            "a column must indicate a state of a variable of the domain other than the target"
        )
    wrong = np.flatnonzero((state < 0) | (state >= cards[var]))
    if len(wrong):
        at = int(wrong[0])
        raise ModelError(
            f"column {at} indicates state {state[at]} of variable {var[at]}, which has "
            f"{cards[var[at]]} states, counted from 0"
        )


def _class_states(fitted: Any, card: int, states: npt.ArrayLike | None) -> IntArray:
    if isinstance(fitted.classes_, list):
        raise ModelError(
            f"this {type(fitted).__name__} has several targets; fit it on the codes of one target"
        )
    classes = np.asarray(fitted.classes_)
    given = classes if states is None else np.asarray(states)
    if given.dtype.kind not in "biu" or given.ndim != 1:
        raise ModelError(
            f"the classes {given.tolist()} are not states; fit the classifier on the codes of one "
            "target, or say with `states` which state each class is"
        )
    codes = given.astype(np.int64)
    if len(codes) != len(classes):
        raise ModelError(f"{len(codes)} states for the {len(classes)} classes of the classifier")
    if len(set(codes.tolist())) != len(codes) or ((codes < 0) | (codes >= card)).any():
        raise ModelError(
            f"the classes {codes.tolist()} are not distinct states of the target, which has {card} "
            "states, counted from 0"
        )
    return codes


def log_smoothed(counts: FloatArray) -> FloatArray:
    """Return the log-probabilities of counts with one added to each."""
    smoothed = counts + 1.0
    return np.log(smoothed / smoothed.sum(axis=-1, keepdims=True))


# ---- trees over indicators ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Splits:
    """A binary tree over indicator columns.

    Attributes
    ----------
    column : list of int
        The column that each node tests, -1 for a leaf. Node 0 is the root.
    low, high : list of int
        The next node where the indicator is 0, and where it is 1.
    value : array of float, nodes first
        What the leaves hold; the rows of other nodes do not matter.
    """

    column: list[int]
    low: list[int]
    high: list[int]
    value: FloatArray

    @classmethod
    def of(
        cls,
        column: npt.ArrayLike,
        left: npt.ArrayLike,
        right: npt.ArrayLike,
        zero_left: npt.ArrayLike,
        one_left: npt.ArrayLike,
        value: npt.ArrayLike,
    ) -> _Splits:
        """Build from left and right children, and whether a 0 and a 1 go left."""
        return cls(
            np.asarray(column).astype(np.int64).tolist(),
            np.where(zero_left, left, right).astype(np.int64).tolist(),
            np.where(one_left, left, right).astype(np.int64).tolist(),
            np.asarray(value, np.float64),
        )

    def at_zero(self) -> float:
        """Return the value where all indicators are 0."""
        node = 0
        while self.column[node] >= 0:
            node = self.low[node]
        return float(self.value[node])

    def grow(self, frame: _Frame, leaves: FloatArray) -> Tree:
        """Return the tree over the variables, given the leaf of each node: nodes by states.

        A test that the path has settled already is left out.
        """
        pairs = [(int(v), int(s)) for v, s in frame.columns]
        ways = {v: int(frame.cards[v]) for v, _ in pairs}

        def visit(token: Any) -> object:
            node, known = token
            allowed = dict(known)  # of each variable tested, its states that can still be: bits
            while (column := self.column[node]) >= 0:
                var, state = pairs[column]
                left, bit = allowed.get(var, (1 << ways[var]) - 1), 1 << state
                if not left & bit or self.low[node] == self.high[node]:
                    node = self.low[node]
                elif left == bit:
                    node = self.high[node]
                else:
                    rest = tuple(item for item in known if item[0] != var)
                    yes = (self.high[node], (*rest, (var, bit)))
                    no = (self.low[node], (*rest, (var, left & ~bit)))
                    return var, [yes if s == state else no for s in range(ways[var])]
            return leaves[node]

        return Tree.grow((0, ()), visit)


def _sklearn_splits(tree: Any, value: FloatArray) -> _Splits:
    """Read a tree of scikit-learn: up to the threshold is left."""
    column = np.where(tree.children_left < 0, -1, tree.feature)
    zero, one = tree.threshold >= 0, tree.threshold >= 1
    return _Splits.of(column, tree.children_left, tree.children_right, zero, one, value)


def _smoothed_tree(fitted: Any, frame: _Frame) -> Tree:
    """Return a decision tree with the log-probabilities of smoothed counts in the leaves."""
    tree = fitted.tree_
    share = tree.value[:, 0, : len(frame.states)]  # counts, or shares since scikit-learn 1.3
    total = np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    counts = np.zeros((len(share), frame.card))
    counts[:, frame.states] = share / total * tree.weighted_n_node_samples[:, None]
    return _sklearn_splits(tree, counts).grow(frame, log_smoothed(counts))


def _read_tree(fitted: Any, frame: _Frame) -> CPD:
    return TreeCPD(frame.cards, frame.target, _smoothed_tree(fitted, frame))


def _read_forest(fitted: Any, frame: _Frame) -> CPD:
    trees = [_smoothed_tree(tree, frame) for tree in fitted.estimators_]
    mean = [Tree(t.var, t.ptr, t.child, t.value / len(trees)) for t in trees]
    return BoostedTreesCPD(frame.cards, frame.target, mean)


# ---- boosted trees --------------------------------------------------------------------------------


def _boosted(
    frame: _Frame, base: FloatArray, trees: Sequence[tuple[int, _Splits]], scale: float = 1.0
) -> CPD:
    """Build from raw scores: a constant for each output, and trees that each add to one output."""
    matrix, constant = frame.scores(len(base), scale)
    start = matrix @ base + constant
    grown = [Tree.grow(0, lambda _: start)]
    for output, splits in trees:
        grown.append(splits.grow(frame, np.outer(splits.value, matrix[:, output])))
    return BoostedTreesCPD(frame.cards, frame.target, grown)


def _base_score(raw: npt.ArrayLike, trees: Sequence[tuple[int, _Splits]]) -> FloatArray:
    """Return what the raw scores have where all indicators are 0, apart from the trees."""
    base = np.array(raw, np.float64).reshape(-1)
    for output, splits in trees:
        base[output] -= splits.at_zero()
    return base


def _read_gradient_boosting(fitted: Any, frame: _Frame) -> CPD:
    start, outputs = fitted.init_, fitted.estimators_.shape[1]
    base = np.zeros(outputs)
    scale = 2.0 if fitted.loss == "exponential" else 1.0
    if not isinstance(start, str):
        if type(start).__name__ != "DummyClassifier" or start.strategy == "stratified":
            raise ModelError(
                f"GradientBoostingClassifier starts from init={type(start).__name__}, whose scores "
                "are not a constant; leave init out, or use init='zero'"
            )
        eps = np.finfo(np.float64).eps
        p = np.clip(start.predict_proba(np.zeros((1, len(frame.columns))))[0], eps, 1 - eps)
        base = np.log(p) if outputs > 1 else np.log(p[1:] / (1 - p[1:])) / scale
    trees = [
        (k, _sklearn_splits(one.tree_, fitted.learning_rate * one.tree_.value[:, 0, 0]))
        for stage in fitted.estimators_
        for k, one in enumerate(stage)
    ]
    return _boosted(frame, base, trees, scale)


def _read_hist_gradient_boosting(fitted: Any, frame: _Frame) -> CPD:
    if fitted.is_categorical_ is not None and np.any(fitted.is_categorical_):
        raise ModelError(
            "HistGradientBoostingClassifier with categorical_features cannot be read; leave them "
            "out: the columns are indicators already"
        )
    trees = []
    for stage in fitted._predictors:
        for k, predictor in enumerate(stage):
            nodes = predictor.nodes
            column = np.where(nodes["is_leaf"], -1, nodes["feature_idx"].astype(np.int64))
            zero, one = nodes["num_threshold"] >= 0, nodes["num_threshold"] >= 1
            value = nodes["value"]
            trees.append((k, _Splits.of(column, nodes["left"], nodes["right"], zero, one, value)))
    return _boosted(frame, np.ravel(fitted._baseline_prediction), trees)


def _read_lightgbm(fitted: Any, frame: _Frame) -> CPD:
    booster = fitted.booster_
    dump = booster.dump_model()
    objective, *settings = str(dump.get("objective", "none")).split()
    if objective not in ("binary", "multiclass"):
        raise ModelError(
            f"LGBMClassifier with objective {objective!r} cannot be read, for its scores are not "
            "log-probabilities; use 'binary' or 'multiclass'"
        )
    sigmoid = [float(s.partition(":")[2]) for s in settings if s.startswith("sigmoid:")]
    outputs = int(dump["num_tree_per_iteration"])
    listed = dump["tree_info"]
    share = outputs / len(listed) if dump.get("average_output") and listed else 1.0
    trees = [
        (i % outputs, _lightgbm_splits(info["tree_structure"], share))
        for i, info in enumerate(listed)
    ]
    # The raw scores of its random forests are sums, of which the probabilities take the mean.
    raw = share * booster.predict(np.zeros((1, len(frame.columns))), raw_score=True)
    return _boosted(frame, _base_score(raw, trees), trees, sigmoid[0] if sigmoid else 1.0)


def _lightgbm_splits(structure: dict[str, Any], share: float) -> _Splits:
    column: list[int] = []
    low: list[int] = []
    high: list[int] = []
    value: list[float] = []
    stack: list[tuple[dict[str, Any], list[tuple[list[int], int]]]] = [(structure, [])]
    while stack:
        node, slots = stack.pop()
        here = len(column)
        for children, parent in slots:
            children[parent] = here
        low.append(-1)
        high.append(-1)
        if "split_feature" not in node:
            if node.get("leaf_coeff"):
                raise ModelError("LGBMClassifier with linear_tree cannot be read; turn it off")
            column.append(-1)
            value.append(share * float(node["leaf_value"]))
            continue
        if node["decision_type"] != "<=":
            raise ModelError(
                "LGBMClassifier with categorical features cannot be read; leave them out: the "
                "columns are indicators already"
            )
        column.append(int(node["split_feature"]))
        value.append(0.0)
        threshold = float(node["threshold"])
        zero = node["default_left"] if node["missing_type"] == "Zero" else threshold >= 0
        goes: dict[bool, list[tuple[list[int], int]]] = {True: [], False: []}
        goes[bool(zero)].append((low, here))
        goes[threshold >= 1].append((high, here))
        stack.append((node["right_child"], goes[False]))
        stack.append((node["left_child"], goes[True]))
    return _Splits(column, low, high, np.array(value))


def _read_xgboost(fitted: Any, frame: _Frame) -> CPD:
    booster = fitted.get_booster()
    best = getattr(fitted, "best_iteration", None)  # of early stopping
    if best is not None:
        booster = booster[: best + 1]
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    objective, dump = learner["objective"]["name"], learner["gradient_booster"]
    if objective not in ("binary:logistic", "multi:softprob", "multi:softmax"):
        raise ModelError(
            f"XGBClassifier with objective {objective!r} cannot be read, for its scores are not "
            "log-probabilities; use 'binary:logistic' or 'multi:softprob'"
        )
    if dump["name"] not in ("gbtree", "dart"):
        raise ModelError(
            f"XGBClassifier with booster {dump['name']!r} cannot be read; use booster='gbtree', or "
            "LogisticRegression for a linear model"
        )
    model = dump["gbtree"]["model"] if "gbtree" in dump else dump["model"]
    weights = dump.get("weight_drop") or [1.0] * len(model["trees"])
    trees = [
        (int(output), _xgboost_splits(tree, fitted.missing, float(weight)))
        for output, tree, weight in zip(model["tree_info"], model["trees"], weights, strict=True)
    ]
    raw = booster.inplace_predict(
        np.zeros((1, len(frame.columns)), np.float32),
        predict_type="margin",
        missing=fitted.missing,
        validate_features=False,
    )
    return _boosted(frame, _base_score(raw, trees), trees)


def _xgboost_splits(tree: dict[str, Any], missing: float, weight: float) -> _Splits:
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise ModelError(
            "XGBClassifier with multi_strategy='multi_output_tree' cannot be read; use "
            "'one_output_per_tree'"
        )
    if any(tree.get("split_type", ())):
        raise ModelError(
            "XGBClassifier with categorical features cannot be read; leave them out: the columns "
            "are indicators already"
        )
    left = np.array(tree["left_children"], np.int64)
    condition = np.array(tree["split_conditions"], np.float32)  # a leaf's value stands here too
    default = np.array(tree["default_left"], bool)
    zero = default if missing == 0 else condition > 0
    one = default if missing == 1 else condition > 1
    column = np.where(left < 0, -1, np.array(tree["split_indices"], np.int64))
    value = weight * condition.astype(np.float64)
    return _Splits.of(column, left, tree["right_children"], zero, one, value)


# ---- logistic regression --------------------------------------------------------------------------


def _read_logistic(fitted: Any, frame: _Frame) -> CPD:
    mode = getattr(fitted, "multi_class", "auto")  # gone since scikit-learn 1.8
    if len(frame.states) > 2 and (mode == "ovr" or fitted.solver == "liblinear"):
        raise ModelError(
            "one-vs-rest LogisticRegression of more than two classes is not log-linear and cannot be "
            "read; use another solver than 'liblinear', and leave multi_class out"
        )
    coef = fitted.coef_.toarray() if hasattr(fitted.coef_, "toarray") else fitted.coef_
    softmax_of_two = mode == "multinomial" and len(frame.states) == 2
    matrix, constant = frame.scores(len(coef), 2.0 if softmax_of_two else 1.0)
    weights = matrix @ np.asarray(coef, np.float64)
    bias = matrix @ np.ravel(np.asarray(fitted.intercept_, np.float64)) + constant
    # A feature for each state, and one for each state and column whose weight is not 0.
    state, column = np.nonzero(weights)
    pair = np.arange(frame.card, frame.card + len(state))
    everyone = np.concatenate([np.arange(frame.card), state])
    words = mask_words(frame.cards)
    var = np.concatenate([np.full(len(everyone), frame.target), frame.columns[column, 0]])
    tested = np.concatenate([everyone, frame.columns[column, 1]])
    return LogLinearCPD(
        frame.target,
        Features.from_tests(
            frame.cards,
            np.concatenate([np.arange(len(everyone)), pair]),
            var,
            state_masks(tested, words),
            np.concatenate([bias, weights[state, column]]),
        ).nonzero(),
    )


# ---- which reader ---------------------------------------------------------------------------------

_READERS: dict[tuple[str, str], Callable[[Any, _Frame], CPD]] = {
    ("sklearn", "DecisionTreeClassifier"): _read_tree,
    ("sklearn", "RandomForestClassifier"): _read_forest,
    ("sklearn", "ExtraTreesClassifier"): _read_forest,
    ("sklearn", "GradientBoostingClassifier"): _read_gradient_boosting,
    ("sklearn", "HistGradientBoostingClassifier"): _read_hist_gradient_boosting,
    ("sklearn", "LogisticRegression"): _read_logistic,
    ("lightgbm", "LGBMClassifier"): _read_lightgbm,
    ("xgboost", "XGBClassifier"): _read_xgboost,
}


def reader_of(classifier: Any) -> Callable[[Any, _Frame], CPD]:
    """Return what reads a classifier, without importing its package."""
    known = ", ".join(name for _, name in _READERS)
    if isinstance(classifier, type):
        raise ModelError(
            f"{classifier.__name__} is a class; give a classifier: {classifier.__name__}()"
        )
    for kind in type(classifier).__mro__:
        reader = _READERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if reader is not None:
            return reader
    raise ModelError(
        f"{type(classifier).__name__} cannot be read as conjunctions of tests; use one of {known}, "
        "not wrapped in anything: the variables are given to it as 0/1 indicators"
    )
