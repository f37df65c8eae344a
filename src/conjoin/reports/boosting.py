"""A rival for the predictions: gradient boosting, trained for one column at a time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.mixed_table import MixedTable
from conjoin.progress import progress
from conjoin.reports.subject import evenly

MAX_COLUMNS = 5
"""Maximum number of columns that a rival is trained for."""

MAX_SECONDS = 20.0
"""No further column is begun after this time."""

MAX_ROWS = 20_000
"""Maximum number of rows that it is trained on."""

MAX_CLASSES = 50
"""Columns with more states are left out."""


@dataclass(frozen=True)
class Rival:
    """How well gradient boosting predicts some columns.

    Attributes
    ----------
    name : str
        The library.
    scores : dict
        {column: share of right predictions, or the root mean square error of a number}.
    """

    name: str
    scores: dict[str, float]


def rival(train: MixedTable, test: MixedTable, names: Sequence[str]) -> Rival | None:
    """Train gradient boosting with its default settings; None if no library for it is installed.

    Parameters
    ----------
    train, test : MixedTable
        The rows to learn from, and to predict.
    names : sequence of str
        The columns to predict, each from all others.
    """
    library = _library()
    if library is None:
        return None
    name, classifier, regressor = library
    rows = train.select(evenly(len(train), MAX_ROWS))
    began, scores = time.monotonic(), {}
    for target in progress(names, "gradient boosting"):
        if time.monotonic() - began > MAX_SECONDS:
            break
        number = target in rows.domain.numeric
        if not number and len(rows.domain.categories[target]) > MAX_CLASSES:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _score(regressor if number else classifier, rows, test, target)
        if found is not None:
            scores[target] = found
    return Rival(name, scores)


def chosen_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that a rival is trained for: the last one, and others evenly spaced.

    Examples
    --------
    >>> chosen_columns("abcdefghijk")
    ['a', 'c', 'f', 'h', 'k']
    """
    return [names[k] for k in evenly(len(names), MAX_COLUMNS).tolist()]


def _library() -> tuple[str, Any, Any] | None:
    try:
        import lightgbm

        made: dict[str, Any] = {"n_jobs": 1, "random_state": 0, "verbose": -1}
        return (
            f"LightGBM {lightgbm.__version__}",
            lightgbm.LGBMClassifier(**made),
            lightgbm.LGBMRegressor(**made),
        )
    except (ImportError, OSError):  # a library that it needs may be missing
        pass
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


def _score(method: Any, train: MixedTable, test: MixedTable, target: str) -> float | None:
    """Return the accuracy or the error of predictions; None if there is nothing to learn."""
    number = target in train.domain.numeric
    (x, y), (x_test, y_test) = (_arrays(rows, target) for rows in (train, test))
    if len(np.unique(y)) < 2 or not len(y_test):
        return None
    guess = np.asarray(method.fit(x, y).predict(x_test))
    if number:
        return float(np.sqrt(np.mean((guess - y_test) ** 2)))
    return float(np.mean(guess == y_test))


def _arrays(rows: MixedTable, target: str) -> tuple[FloatArray, FloatArray]:
    """Return the other columns, and a column, of the rows that know it.

    A column of more than two states becomes one column per state.
    """
    parts, y = [], np.empty(len(rows))
    for name in rows.names:
        if name in rows.domain.numeric:
            column = rows.column(name)
        else:
            i = rows.categories.domain.index(name)
            codes = rows.categories.codes[:, i].astype(np.float64)
            column = np.where(rows.categories.codes[:, i] == rows.categories.missing, np.nan, codes)
        if name == target:
            y = column
            continue
        card = 2 if name in rows.domain.numeric else len(rows.domain.categories[name])
        if 2 < card <= MAX_CLASSES:
            parts += [np.where(np.isnan(column), np.nan, column == k) for k in range(card)]
        else:
            parts.append(column)
    known = ~np.isnan(y)
    x = np.stack(parts, axis=1) if parts else np.zeros((len(rows), 1))
    return x[known], y[known]
