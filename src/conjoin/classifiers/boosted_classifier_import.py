"""Fitted boosted trees of scikit-learn, LightGBM and XGBoost, read as CPDs.

The raw predictors of scikit-learn's histogram boosting are read from private attributes. The
tests compare every kind with the classifier's own predictions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.classifiers.classifier_trees import Frame, Splits
from conjoin.data.arrays import FloatArray
from conjoin.errors import ModelError
from conjoin.models.cpd import CPD
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import BoostedTreesCPD


def _boosted(
    frame: Frame, base: FloatArray, trees: Sequence[tuple[int, Splits]], scale: float = 1.0
) -> CPD:
    """Build from raw scores: a constant for each output, and trees that each add to one output."""
    matrix, constant = frame.scores(len(base), scale)
    start = matrix @ base + constant
    grown = [Tree.grow(0, lambda _: start)]
    for output, splits in trees:
        grown.append(splits.grow(frame, np.outer(splits.value, matrix[:, output])))
    return BoostedTreesCPD(frame.cards, frame.target, grown)


def _base_score(raw: npt.ArrayLike, trees: Sequence[tuple[int, Splits]]) -> FloatArray:
    """Return the raw scores at all indicators 0, without the contributions of the trees."""
    base = np.array(raw, np.float64).reshape(-1)
    for output, splits in trees:
        base[output] -= splits.at_zero()
    return base


def read_hist_gradient_boosting(fitted: Any, frame: Frame) -> CPD:
    """Read scikit-learn's HistGradientBoostingClassifier."""
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
            trees.append((k, Splits.of(column, nodes["left"], nodes["right"], zero, one, value)))
    return _boosted(frame, np.ravel(fitted._baseline_prediction), trees)


def read_lightgbm(fitted: Any, frame: Frame) -> CPD:
    """Read LightGBM's LGBMClassifier."""
    booster = fitted.booster_
    dump = booster.dump_model()
    objective, *settings = str(dump.get("objective", "none")).split()
    if objective not in ("binary", "multiclass"):
        raise ModelError(
            f"LGBMClassifier with objective {objective!r} cannot be read, because its scores are not "
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


def _lightgbm_splits(structure: dict[str, Any], share: float) -> Splits:
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
    return Splits(column, low, high, np.array(value))


def read_xgboost(fitted: Any, frame: Frame) -> CPD:
    """Read XGBoost's XGBClassifier."""
    booster = fitted.get_booster()
    best = getattr(fitted, "best_iteration", None)  # of early stopping
    if best is not None:
        booster = booster[: best + 1]
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    objective, dump = learner["objective"]["name"], learner["gradient_booster"]
    if objective not in ("binary:logistic", "multi:softprob", "multi:softmax"):
        raise ModelError(
            f"XGBClassifier with objective {objective!r} cannot be read, because its scores are not "
            "log-probabilities; use 'binary:logistic' or 'multi:softprob'"
        )
    if dump["name"] != "gbtree":
        raise ModelError(
            f"XGBClassifier with booster {dump['name']!r} cannot be read; use booster='gbtree', or "
            "LogisticRegression for a linear model"
        )
    model = dump["model"]
    trees = [
        (int(output), _xgboost_splits(tree, fitted.missing))
        for output, tree in zip(model["tree_info"], model["trees"], strict=True)
    ]
    raw = booster.inplace_predict(
        np.zeros((1, len(frame.columns)), np.float32),
        predict_type="margin",
        missing=fitted.missing,
        validate_features=False,
    )
    return _boosted(frame, _base_score(raw, trees), trees)


def _xgboost_splits(tree: dict[str, Any], missing: float) -> Splits:
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
    value = condition.astype(np.float64)
    return Splits.of(column, left, tree["right_children"], zero, one, value)
