"""CPDs learned by classifiers with scikit-learn's interface, converted to conjunctions.

A classifier sees the other variables as 0/1 indicators, so that each of its splits and each of its
weights is a test "variable = state".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conjoin.classifiers.classifier_import import log_smoothed, read_classifier, reader_of
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.packed_table import state_ranges
from conjoin.data.parent_rules import FORBIDDEN, REQUIRED
from conjoin.data.table import Codes, Table
from conjoin.errors import ModelError
from conjoin.jobs import TaskRunner
from conjoin.models.cpd import CPD
from conjoin.models.table_cpd import TableCPD


def indicator_columns(cards: IntArray, parents: Sequence[int]) -> IntArray:
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
    """Learn one CPD per variable with copies of a classifier, or of a list of one per variable.

    Each copy is fitted on the rows where its target is known, with the table's weights, and on the
    indicators of the variables that may be parents. Its labels are the target's observed states,
    numbered in order from 0. A target with one observed state, without rows or without possible
    parents gets its smoothed marginal (add-one).

    A state that was never observed gets a positive probability: from the leaf's added count in
    trees and forests, and otherwise with odds of at most 1 / (rows + states), see `read_classifier`.
    """
    size = len(table.domain)
    classifiers = classifier if isinstance(classifier, list) else [classifier] * size
    for given in classifiers:
        reader_of(given)
    kind = type(classifiers[0]).__name__
    if (rules == REQUIRED).any():
        parent, target = (table.domain.names[i] for i in np.argwhere(rules == REQUIRED)[0])
        raise ModelError(
            f"{parent!r} is required for {target!r}, but a {kind} cannot be made "
            "to use it; leave `required` out, or learn 'tree', 'logistic' or 'hybrid' CPDs"
        )
    try:
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter
    except ImportError:
        raise ModelError(
            "learning with a classifier needs scikit-learn; `pip install scikit-learn`"
        ) from None
    if table.weights is not None and not has_fit_parameter(classifiers[0], "sample_weight"):
        raise ModelError(
            f"the table has weights, but {kind}.fit takes no sample_weight; "
            "use another classifier, or a table without weights"
        )
    tasks = [
        (clone(classifiers[target]), table, target, possible_parents(rules, target))
        for target in range(size)
    ]
    return (runner or TaskRunner()).run(_learn_one, tasks, f"copies of {kind}", [1] * size)


def possible_parents(rules: npt.NDArray[np.int8], target: int) -> list[int]:
    """Return the variables that a target may depend on."""
    return [v for v in np.flatnonzero(rules[:, target] != FORBIDDEN).tolist() if v != target]


class Examples(NamedTuple):
    """What a classifier of one target is fitted on: inputs, codes of the target, and weights if any."""

    inputs: FloatArray
    codes: Codes
    weights: FloatArray | None

    @classmethod
    def of(cls, table: Table, target: int, columns: IntArray) -> Examples:
        """Return the rows of a table that count and in which the target is known."""
        rows = table.codes[:, target] != table.missing
        if table.weights is not None:
            rows &= table.weights > 0
        weights = None if table.weights is None else table.weights[rows]
        return cls(indicators(table.codes[rows], columns), table.codes[rows, target], weights)


def _learn_one(classifier: Any, table: Table, target: int, parents: Sequence[int]) -> CPD:
    cards = table.domain.cards
    columns = indicator_columns(cards, parents)
    examples = Examples.of(table, target, columns)
    states, labels = np.unique(examples.codes, return_inverse=True)
    if len(states) < 2 or not len(columns):
        return TableCPD(cards, target, (), log_smoothed(table.counts(target)))
    weights = examples.weights
    options = {} if weights is None else {"sample_weight": weights}
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):  # some libraries start threads of their own
            classifier.fit(examples.inputs, labels, **options)
    except ValueError as error:
        raise ModelError(
            f"{type(classifier).__name__} could not be fitted for {table.domain.names[target]!r}: "
            f"{error}"
        ) from error
    weight = float(len(labels)) if weights is None else float(weights.sum())
    unseen = 1 / (weight + int(cards[target]))
    return read_classifier(classifier, cards, target, columns, states=states, unseen=unseen)
