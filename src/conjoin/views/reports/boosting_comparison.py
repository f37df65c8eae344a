"""A rival for the predictions: gradient boosting, trained for one column at a time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Table
from conjoin.progress import progress
from conjoin.views.reports.subject import evenly

MAX_COLUMNS = 5
"""Maximum number of columns that a rival is trained for."""

MAX_SECONDS = 20.0
"""No further column is begun after this time."""

MAX_ROWS = 20_000
"""Maximum number of rows that it is trained on."""

MAX_CLASSES = 50
"""Columns with more states are left out."""


class Rival(NamedTuple):
    """How well gradient boosting predicts some columns."""

    name: str  # of the library
    scores: dict[str, float]  # the share of right predictions, or the root mean square error


def rival(train: Table, test: Table, names: Sequence[str]) -> Rival | None:
    """Train gradient boosting with its default settings; None if no library for it is installed."""
    library = _library()
    if library is None:
        return None
    name, classifier, regressor = library
    rows = train.select(evenly(len(train), MAX_ROWS))
    began, scores = time.monotonic(), {}
    for target in progress(names, "gradient boosting"):
        if time.monotonic() - began > MAX_SECONDS:
            break
        number = _is_number(rows, target)
        if not number and len(rows.domain[target]) > MAX_CLASSES:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = _score(regressor if number else classifier, rows, test, target)
        if score is not None:
            scores[target] = score
    return Rival(name, scores)


def chosen_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that a rival is trained for: the last one, and others evenly spaced."""
    return [names[k] for k in evenly(len(names), MAX_COLUMNS).tolist()]


def _library() -> tuple[str, Any, Any] | None:
    try:
        import sklearn
        from sklearn import ensemble
    except ImportError:
        return None
    return (
        f"scikit-learn {sklearn.__version__}",
        ensemble.HistGradientBoostingClassifier(random_state=0),
        ensemble.HistGradientBoostingRegressor(random_state=0),
    )


def _score(method: Any, train: Table, test: Table, target: str) -> float | None:
    """Return the accuracy or the error of predictions; None if there is nothing to learn."""
    (x, y), (x_test, y_test) = (_arrays(rows, target) for rows in (train, test))
    if len(np.unique(y)) < 2 or not len(y_test):
        return None
    guess = np.asarray(method.fit(x, y).predict(x_test))
    if _is_number(train, target):
        return float(np.sqrt(np.mean((guess - y_test) ** 2)))
    return float(np.mean(guess == y_test))


def _arrays(rows: Table, target: str) -> tuple[FloatArray, FloatArray]:
    """Return the other columns (one per state), and a column, of the rows that know it."""
    parts, y = [], np.empty(len(rows))
    for i, name in enumerate(rows.names):
        number, card = _is_number(rows, name), int(rows.domain.cards[i])
        if number:
            column = rows.column(name)
        else:
            column = np.where(rows.holes[:, i], np.nan, rows.codes[:, i].astype(np.float64))
        if name == target:
            y = column
        elif not number and 2 < card <= MAX_CLASSES:
            parts += [np.where(np.isnan(column), np.nan, column == k) for k in range(card)]
        else:
            parts.append(column)
    known = ~np.isnan(y)
    x = np.stack(parts, axis=1) if parts else np.zeros((len(rows), 1))
    return x[known], y[known]


def _is_number(rows: Table, name: str) -> bool:
    return rows.numbers is not None and name in rows.domain.numeric
