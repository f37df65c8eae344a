"""Predictions of rows that a model has not seen.

If a report has only the rows that the model was learned from, a second model is learned from most of
them, with little effort, and predicts the rest: the model itself would know the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from conjoin.data.row_hashing import content_order
from conjoin.data.table import Table
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network
from conjoin.views.reports.calibration import Calibration, VariableScore, calibration
from conjoin.views.reports.markup import count
from conjoin.views.reports.subject import Subject

HELD_OUT = 0.2
"""The share of rows that the second model does not see."""

MIN_ROWS, MAX_ROWS = 50, 20_000
"""Tables with fewer rows are not divided, and the maximum number of rows of the second model."""


@dataclass(frozen=True, eq=False)
class Check:
    """How well rows are predicted that were not learned from."""

    scores: Calibration
    train: Table | None  # the rows that were learned from
    test: Table  # the rows that were predicted
    how: str  # where the predictions come from, in words

    def score(self, name: str) -> VariableScore | None:
        """Return how well a column is predicted; None if it has no known values."""
        return next((v for v in self.scores.variables if v.name == name), None)


def check_held_out(subject: Subject) -> Check | None:
    """Predict rows that were not learned from; None if there are none."""
    if subject.test is not None:
        return _check(subject.model, subject.train, subject.test, "{} that the model has not seen")
    rows = subject.train
    if rows is None:
        return None
    if not isinstance(subject.model.provenance.get("learned"), Mapping):
        return _check(subject.model, None, rows, "{} of the table")
    if len(rows) < MIN_ROWS or isinstance(subject.model, BayesianNetwork):
        return None
    return _with_second_model(subject.model, rows)


def _check(model: Network, train: Table | None, test: Table, how: str) -> Check:
    scores = calibration(model, test, train)
    return Check(scores, train, test, how.format(count(scores.rows, "row")))


def _with_second_model(model: Network, rows: Table) -> Check:
    """Learn a model of the same kind from most rows, and predict the others."""
    from conjoin.joint.joint_learning import learn_joint

    codes = rows.signed_codes().astype(np.float64)
    values = codes if rows.numbers is None else np.column_stack([codes, rows.numbers])
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    order = np.random.default_rng(0).permutation(content_order(values, weights))
    held = max(1, round(HELD_OUT * len(rows)))
    test, train = rows.select(order[:held]), rows.select(order[held : held + MAX_ROWS])
    only_conditionals = isinstance(model, DependencyNetwork)
    dn, joint = learn_joint(train, effort="quick", closed_form=only_conditionals)
    made = _check(dn if only_conditionals else joint, train, test, "{}")
    how = f"{made.how} by a second model, which was learned quickly from {count(len(train), 'other row')}"
    return replace(made, how=how)
