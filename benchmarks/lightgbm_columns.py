"""LightGBM as a rival: one model per column, which stops early on a tenth of the training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping

from column_scores import LEAST, Kinds, as_numbers

TREES, TREES_OF_MANY = 500, 50  # most rounds; of a column with more than MANY states
MANY = 100
PATIENCE = 20  # rounds without improvement before it stops
LEAST_HESSIAN = 1.0  # of a leaf of a category; with the default, .001, trees of many states diverge
FEW_ROWS = 20  # with fewer known rows the prediction is that of no features


def features(frame: pd.DataFrame, kinds: Kinds) -> pd.DataFrame:
    """Return categories as categoricals of the training rows' states, and numbers as floats.

    Columns are numbered, because LightGBM rejects some characters in names.
    """
    columns = {}
    for at, name in enumerate(kinds.names):
        if name in kinds.states:
            codes = kinds.codes(frame[name]).fillna(-1).astype(int)
            columns[at] = pd.Categorical.from_codes(codes, range(len(kinds.states[name])))
        else:
            columns[at] = as_numbers(frame[name])
    return pd.DataFrame(columns).rename(columns=str)


def parts(codes: np.ndarray, category: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows trees are grown on, and which decide when to stop; the former have all states."""
    stops = np.random.default_rng(0).random(len(codes)) < 0.1
    if category:
        stops &= np.isin(codes, codes[~stops])
    return np.flatnonzero(~stops), np.flatnonzero(stops)


class LightGBMColumns:
    """A model for each column given all others."""

    def __init__(self, train: pd.DataFrame, kinds: Kinds) -> None:
        self.kinds = kinds
        given = features(train, kinds)
        self.models = {name: self._fit(given, train[name]) for name in kinds.names}

    def _fit(self, given: pd.DataFrame, column: pd.Series):
        name = column.name
        category = name in self.kinds.states
        y = self.kinds.codes(column).to_numpy() if category else as_numbers(column)
        known = np.flatnonzero(~np.isnan(y))
        y = y[known]
        grown, stops = parts(y, category)
        if len(known) < FEW_ROWS or len(np.unique(y)) < 2 or not len(stops):
            return self._without_features(name, y)
        rows = given.drop(columns=str(self.kinds.names.index(name))).iloc[known]
        states = len(self.kinds.states.get(name, ()))
        options = {"min_sum_hessian_in_leaf": LEAST_HESSIAN} if category else {}
        make = LGBMClassifier if category else LGBMRegressor
        model = make(
            n_estimators=TREES_OF_MANY if states > MANY else TREES, learning_rate=0.1,
            n_jobs=1, random_state=0, verbose=-1, **options,
        )  # fmt: skip
        shift, scale = (0.0, 1.0) if category else (y.mean(), y.std())  # labels have 24 bits
        y = (y - shift) / scale
        model.fit(
            rows.iloc[grown], y[grown], eval_set=[(rows.iloc[stops], y[stops])],
            callbacks=[early_stopping(PATIENCE, verbose=False)],
        )  # fmt: skip
        return model, shift, scale

    def _without_features(self, name: str, y: np.ndarray):
        if name in self.kinds.states:
            counts = np.bincount(y.astype(int), minlength=len(self.kinds.states[name]))
            return None, counts / max(counts.sum(), 1), None
        return None, y.mean() if len(y) else np.nan, None

    def answers(self, rows: pd.DataFrame, asked: pd.DataFrame) -> dict[str, np.ndarray]:
        """Return probabilities of states, or means, of the rows of each column where `asked` is true."""
        given = features(rows, self.kinds)
        return {
            name: self._answer(name, given[asked[name].to_numpy()])
            for name in self.kinds.names
            if asked[name].any()
        }

    def _answer(self, name: str, given: pd.DataFrame) -> np.ndarray:
        model, shift, scale = self.models[name]
        if model is None:
            return np.repeat(np.asarray(shift)[None], len(given), axis=0)
        given = given.drop(columns=str(self.kinds.names.index(name)))
        if name in self.kinds.numbers:
            return model.predict(given) * scale + shift
        p = np.full((len(given), len(self.kinds.states[name])), LEAST)
        p[:, model.classes_.astype(int)] = model.predict_proba(given)
        return p
