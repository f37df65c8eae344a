"""How well each column of a table is predicted from all others: kinds of columns, and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from conjoin import JointModel
from conjoin.errors import DataError

LEAST = 1e-6  # probabilities are at least this; a state that the training rows lack has it


@dataclass(frozen=True)
class Kinds:
    """What each column of a fitted model is; columns that it left out are none of these."""

    states: dict[str, list]  # of the categories with two or more
    numbers: list[str]  # dates are days

    @classmethod
    def of(cls, model: JointModel, train: pd.DataFrame) -> Kinds:
        left_out = set(model.left_out_)
        kept = [name for name in train.columns if name not in left_out]
        numbers = [name for name in kept if _is_number(model, train.iloc[:1], name)]
        states = {name: model.states(name) for name in kept if name not in numbers}
        return cls({name: own for name, own in states.items() if len(own) > 1}, numbers)

    @property
    def names(self) -> list[str]:
        return [*self.states, *self.numbers]

    def codes(self, column: pd.Series) -> pd.Series:
        """Return the state numbers of a category; NaN for missing and unseen values."""
        places = {state: at for at, state in enumerate(self.states[column.name])}
        return column.map(places).astype(float)


def _is_number(model: JointModel, row: pd.DataFrame, name: str) -> bool:
    try:
        model.quantiles(row, 0.5, target=name)
    except DataError:  # it has states
        return False
    return True


def as_numbers(values: pd.Series | np.ndarray) -> np.ndarray:
    """Return numbers as they are, and dates as days."""
    column = pd.Series(values)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(float)
    dates = pd.to_datetime(column, utc=True)
    return ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(float)


def log_loss(p: np.ndarray, codes: np.ndarray) -> float:
    """Return the mean log loss in nats; NaN is the code of a state that has no probability."""
    seen = ~np.isnan(codes)
    chances = np.full(len(codes), LEAST)
    chances[seen] = p[seen, codes[seen].astype(int)]
    return float(-np.log(np.clip(chances, LEAST, 1.0)).mean())


def nrmse(means: np.ndarray, truth: np.ndarray) -> float:
    """Return the root mean squared error over the deviation of the same rows."""
    return float(np.sqrt(np.mean((means - truth) ** 2)) / np.std(truth))


def column_scores(
    answers: dict[str, np.ndarray], kinds: Kinds, test: pd.DataFrame, asked: pd.DataFrame
) -> dict[str, float]:
    """Return the score of each column: log loss of a category, nRMSE of a number.

    `answers`: probabilities of states, or means, for the rows of a column where `asked` is true. Columns
    without such a row, and numbers that are constant there, have no score.
    """
    scores = {}
    for name, answer in answers.items():
        truth = test.loc[asked[name], name]
        if name in kinds.states:
            scores[name] = log_loss(answer, kinds.codes(truth).to_numpy())
        elif truth.nunique() > 1:
            scores[name] = nrmse(as_numbers(answer), as_numbers(truth))
    return scores


def mean_scores(scores: dict[str, float], kinds: Kinds) -> dict[str, float]:
    """Return the means over categories and over numbers; NaN where there are none."""
    losses = [score for name, score in scores.items() if name in kinds.states]
    errors = [score for name, score in scores.items() if name in kinds.numbers]
    return {
        "log loss": float(np.mean(losses)) if losses else np.nan,
        "nRMSE": float(np.mean(errors)) if errors else np.nan,
    }
