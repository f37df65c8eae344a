"""Fitted classifiers converted to CPDs: each split and each weight is a test "variable = state".

The tests compare every kind with the classifier's own predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.classifiers.boosted_classifier_import import (
    read_hist_gradient_boosting,
    read_lightgbm,
    read_xgboost,
)
from conjoin.classifiers.classifier_trees import Frame, sklearn_splits
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.models.cpd import CPD
from conjoin.models.features import Features
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import BoostedTreesCPD, TreeCPD
from conjoin.models.vocabulary import mask_words, state_masks

UNSEEN = 1e-6
"""The default maximum of the odds of a state that a classifier has not seen."""


def read_classifier(
    fitted: Any,
    cards: IntArray,
    target: int,
    columns: npt.ArrayLike,
    *,
    states: npt.ArrayLike | None = None,
    unseen: float = UNSEEN,
) -> CPD:
    """Return the CPD of a fitted classifier.

    Boosted trees (of scikit-learn, LightGBM and XGBoost) and logistic regression are read exactly:
    the CPD has the classifier's own probabilities. A decision tree keeps its splits; its leaves get
    the class counts of the node with one added for each state, so that no probability is 0. A random
    forest or extra trees become the geometric mean of their trees, smoothed in the same way, and not
    the arithmetic mean that the forest itself predicts: a mean of distributions is not log-linear.

    One-vs-rest regression of more than two classes is rejected, as its normalised sigmoids are not
    log-linear either.

    `columns`: the (variable, state) that each column which the classifier was fitted on indicates.
    `states`: the state of the target that each class stands for; by default the class labels themselves.
    `unseen`: of boosted trees and logistic regression, what a state that is no class is given: its score
    is the mean score of the classes, plus log(classes * unseen). Its odds against all classes together
    are then `unseen` where the classes are equally likely, and less elsewhere. The odds among the
    classes do not change.
    """
    codes = np.asarray(fitted.classes_ if states is None else states, np.int64)
    pairs = np.asarray(columns, np.int64).reshape(-1, 2)
    frame = Frame(np.asarray(cards, np.int64), int(target), pairs, codes, unseen)
    return reader_of(fitted)(fitted, frame)


def log_smoothed(counts: FloatArray) -> FloatArray:
    """Return the log-probabilities of counts with one added to each."""
    smoothed = counts + 1.0
    return np.log(smoothed / smoothed.sum(axis=-1, keepdims=True))


def _smoothed_tree(fitted: Any, frame: Frame) -> Tree:
    """Return a decision tree with the log-probabilities of smoothed counts in the leaves."""
    tree = fitted.tree_
    share = tree.value[:, 0, : len(frame.states)]  # counts, or shares since scikit-learn 1.3
    total = np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    counts = np.zeros((len(share), frame.card))
    counts[:, frame.states] = share / total * tree.weighted_n_node_samples[:, None]
    return sklearn_splits(tree, counts).grow(frame, log_smoothed(counts))


def _read_tree(fitted: Any, frame: Frame) -> CPD:
    return TreeCPD(frame.cards, frame.target, _smoothed_tree(fitted, frame))


def _read_forest(fitted: Any, frame: Frame) -> CPD:
    trees = [_smoothed_tree(tree, frame) for tree in fitted.estimators_]
    mean = [Tree(t.var, t.ptr, t.child, t.value / len(trees)) for t in trees]
    return BoostedTreesCPD(frame.cards, frame.target, mean)


def _read_logistic(fitted: Any, frame: Frame) -> CPD:
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


_READERS: dict[tuple[str, str], Callable[[Any, Frame], CPD]] = {
    ("sklearn", "DecisionTreeClassifier"): _read_tree,
    ("sklearn", "RandomForestClassifier"): _read_forest,
    ("sklearn", "ExtraTreesClassifier"): _read_forest,
    ("sklearn", "HistGradientBoostingClassifier"): read_hist_gradient_boosting,
    ("sklearn", "LogisticRegression"): _read_logistic,
    ("lightgbm", "LGBMClassifier"): read_lightgbm,
    ("xgboost", "XGBClassifier"): read_xgboost,
}


def reader_of(classifier: Any) -> Callable[[Any, Frame], CPD]:
    """Return the reader of a classifier, without importing its package."""
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
