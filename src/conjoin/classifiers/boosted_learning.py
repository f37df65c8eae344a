"""Boosted trees of LightGBM as CPDs.

Every variable gets a sum of small trees. Their number is where the validation rows score best; the
trees are then fitted once more, on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.classifiers.classifier_learning import (
    Examples,
    indicator_columns,
    learn_classifiers,
    possible_parents,
)
from conjoin.data.arrays import IntArray
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.jobs import TaskRunner
from conjoin.models.cpd import CPD

ROUNDS = 300
"""The maximum number of rounds of boosting; each adds a tree for every state of a target."""
PATIENCE = 10
"""The number of rounds without an improvement of the validation score after which boosting stops."""
LEAVES = 8
"""The maximum number of leaves per tree."""
RATE = 0.15
"""The learning rate: the factor of each tree's values."""


def learn_boosted(
    table: Table,
    split: tuple[Table, Table],
    min_leaf: float,
    rules: npt.NDArray[np.int8],
    runner: TaskRunner,
) -> tuple[list[CPD], dict[str, Any]]:
    """Learn one CPD per variable; return them, with the library and the rounds of each variable."""
    classifier = _classifier(min_leaf)
    tasks = [
        (classifier, *split, target, possible_parents(rules, target))
        for target in range(len(table.domain))
    ]
    counts = runner.run(_count_rounds, tasks, "boosted trees", [1] * len(tasks))
    rounds = [max(1, count) for count in counts]
    classifiers = [_classifier(min_leaf, number) for number in rounds]
    cpds = learn_classifiers(table, classifiers, rules, runner.labelled("all rows"))
    return cpds, {"library": f"lightgbm {version('lightgbm')}", "rounds": rounds}


def _classifier(min_leaf: float, rounds: int = ROUNDS) -> Any:
    """Return a classifier that is not fitted. Its result does not depend on the number of cores."""
    if find_spec("lightgbm") is None or find_spec("sklearn") is None:  # which has its interface
        raise ModelError("boosted trees need LightGBM; `pip install lightgbm scikit-learn`")
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=rounds,
        num_leaves=LEAVES,
        learning_rate=RATE,
        min_child_samples=max(1, round(min_leaf)),
        reg_lambda=1.0,
        random_state=0,
        n_jobs=1,
        deterministic=True,
        force_row_wise=True,
        verbose=-1,
    )


def _count_rounds(
    classifier: Any, train: Table, held: Table, target: int, parents: Sequence[int]
) -> int:
    """Return the number of rounds with the best validation score; 0 if there is nothing to learn."""
    columns: IntArray = indicator_columns(train.domain.cards, parents)
    inputs, codes, weights = Examples.of(train, target, columns)
    states, labels = np.unique(codes, return_inverse=True)
    held_inputs, held_codes, held_weights = Examples.of(held, target, columns)
    seen = np.isin(held_codes, states)  # the classifier cannot predict other states
    if len(states) < 2 or not len(columns) or not seen.any():
        return 0
    held_inputs, held_labels = held_inputs[seen], np.searchsorted(states, held_codes[seen])
    held_weights = np.ones(len(seen)) if held_weights is None else held_weights
    held_weights = held_weights[seen]
    from lightgbm import early_stopping
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits

    model = clone(classifier)
    held_rows: dict[str, Any] = {"eval_set": [(held_inputs, held_labels)]}
    if "eval_X" in signature(model.fit).parameters:  # since LightGBM 4.7
        held_rows = {"eval_X": (held_inputs,), "eval_y": (held_labels,)}
    with threadpool_limits(1):
        model.fit(
            inputs,
            labels,
            sample_weight=weights,
            eval_sample_weight=[held_weights],
            **held_rows,
            callbacks=[early_stopping(PATIENCE, verbose=False)],
        )
    return int(model.best_iteration_)
