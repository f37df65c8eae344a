"""CPDs learned by classifiers with scikit-learn's interface, converted to conjunctions.

A classifier sees the other variables as 0/1 indicators, so that each of its splits and each of its
weights is a test "variable = state".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.classifiers.classifier_import import log_smoothed, read_classifier, reader_of
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.packed_table import state_ranges
from conjoin.data.parent_rules import FORBIDDEN
from conjoin.data.table import Codes, Table
from conjoin.errors import ModelError
from conjoin.jobs import TaskRunner
from conjoin.models.cpd import CPD
from conjoin.models.table_cpd import TableCPD


def indicator_columns(cards: IntArray, parents: IntArray | Sequence[int]) -> IntArray:
    """Return the (variable, state) of each indicator column of some variables.

    There is one column per state; for a binary variable only state 1, for a constant one none.
    """
    var, state, _ = state_ranges(cards)
    chosen = np.isin(var, parents) & (cards[var] > 1)
    return np.stack([var[chosen], state[chosen]], axis=1)


def indicators(codes: Codes, columns: IntArray) -> FloatArray:
    """Return the indicator columns of rows of codes: 1 where the variable has the state.

    A missing value has no indicator: its columns are all 0.
    """
    return (codes[:, columns[:, 0]] == columns[:, 1]).astype(np.float64)


def learn_classifiers(
    table: Table,
    classifier: Any,
    rules: npt.NDArray[np.int8],
    runner: TaskRunner | None = None,
) -> list[CPD]:
    """Learn one CPD per variable with copies of a classifier.

    Each copy is fitted on the rows where its target is known, with the table's weights, and on the
    indicators of the variables that may be parents. Its labels are the target's observed states,
    numbered in order from 0. A target with one observed state, without rows or without possible
    parents gets its smoothed marginal (add-one).

    A state that was never observed gets a positive probability: from the leaf's added count in
    trees and forests, and otherwise with odds of at most 1 / (rows + states), see `read_classifier`.
    """
    reader_of(classifier)
    kind = type(classifier).__name__
    try:
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter
    except ImportError:
        raise ModelError(
            "learning with a classifier needs scikit-learn; `pip install scikit-learn`"
        ) from None
    if table.weights is not None and not has_fit_parameter(classifier, "sample_weight"):
        raise ModelError(
            f"the table has weights, but {kind}.fit takes no sample_weight; "
            "use another classifier, or a table without weights"
        )
    tasks = [
        (clone(classifier), table, target, np.flatnonzero(rules[:, target] != FORBIDDEN))
        for target in range(len(table.domain))
    ]
    return (runner or TaskRunner()).run(_learn_one, tasks, f"copies of {kind}", [1] * len(tasks))


def _learn_one(classifier: Any, table: Table, target: int, parents: IntArray) -> CPD:
    cards = table.domain.cards
    columns = indicator_columns(cards, parents)
    rows = table.codes[:, target] != table.missing
    if table.weights is not None:
        rows &= table.weights > 0
    codes = table.codes[rows]
    states, labels = np.unique(codes[:, target], return_inverse=True)
    if len(states) < 2 or not len(columns):
        return TableCPD(cards, target, (), log_smoothed(table.counts(target)))
    weights = None if table.weights is None else table.weights[rows]
    options = {} if weights is None else {"sample_weight": weights}
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):  # some libraries start threads of their own
            classifier.fit(indicators(codes, columns), labels, **options)
    except ValueError as error:
        raise ModelError(
            f"{type(classifier).__name__} could not be fitted for {table.domain.names[target]!r}: "
            f"{error}"
        ) from error
    weight = float(len(labels)) if weights is None else float(weights.sum())
    unseen = 1 / (weight + int(cards[target]))
    return read_classifier(classifier, cards, target, columns, states=states, unseen=unseen)
