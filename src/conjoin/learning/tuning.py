"""Choosing kappa or the penalty by the score of validation rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.holdout import deal_out, hold_out
from conjoin.data.table import Table
from conjoin.learning.checkpointed_tasks import TaskRunner
from conjoin.learning.options import check_setting
from conjoin.models.cpd import CPD


class Path(Protocol):
    """Models of all targets along a path of one setting."""

    def advance(self, value: float) -> FloatArray | None:
        """Advance to a value; return the validation score of each target.

        Returns None if some of the targets show that the value is worse than an earlier one.
        """

    def cpds(self, value: float) -> Sequence[CPD]:
        """Return the CPDs at a value that the path has advanced to."""


def split_rows(
    table: Table, valid: Table | None, holdout: float, folds: int | None, rng: np.random.Generator
) -> list[tuple[Table, Table]]:
    """Return the pairs of training and validation rows on which a setting is chosen."""
    if valid is not None:
        return [(table, valid)]
    if folds is None:
        return [hold_out(table, holdout, rng)]
    return deal_out(table, folds, rng)


def held_weight(splits: list[tuple[Table, Table]]) -> float:
    """Return the weight of all validation rows."""
    weights = (len(v) if v.weights is None else float(v.weights.sum()) for _, v in splits)
    return max(sum(weights), 1e-300)


def clearly_worse(scores: FloatArray, best: FloatArray) -> bool:
    """Return whether scores by target fell by more than the standard error of their sum.

    Examples
    --------
    >>> best = np.full(20, -100.0)
    >>> clearly_worse(best - 0.1, best), clearly_worse(best + 0.1 * (-1.0) ** np.arange(20), best)
    (True, False)
    """
    fall = best - scores
    return bool(fall.sum() > np.sqrt((fall**2).sum()))


def choose(
    make: Callable[[Table, Table | None, TaskRunner], Path],
    splits: list[tuple[Table, Table]],
    values: Sequence[float],
    given: float | None,
    name: str,
    falls: int,
    runner: TaskRunner,
    record: dict[str, Any],
    start: float | None = None,
) -> float:
    """Return the value with the best score.

    Parameters
    ----------
    make : callable
        Builds a path from training and validation rows.
    splits : list of pairs of Table
        The training and validation rows; the scores of all pairs are added.
    values : sequence of float
        The values to try, one after another; of equal scores the first wins.
    given : float, optional
        The value to use instead.
    name : str
        The name of the setting.
    falls : int
        The number of values in a row with scores below the best after which the search stops; it
        also stops after one that is clearly below it.
    runner : TaskRunner
        Runs the tasks.
    record : dict
        Receives the value and the scores.
    start : float, optional
        The value to start with, by default the first. Earlier ones are tried, backwards from it, only
        if later ones score lower.
    """
    if given is not None:
        check_setting(given, name)
        record[name] = given
        return given
    paths = [
        make(train, valid, runner.fold(i, len(splits)))
        for i, (train, valid) in enumerate(splits)
        if len(train)
    ]
    if not paths:
        record[name] = values[0]
        return values[0]
    first = values.index(start) if start in values else 0
    found = _scan(paths, values[first:], falls, {})
    if first and max(found, key=lambda v: float(found[v].sum())) == values[first]:
        found = _scan(
            paths, values[first - 1 :: -1], falls, found
        )  # the best may lie the other way
    weight = held_weight(splits)
    tried = [(v, float(found[v].sum()) / weight) for v in values if v in found]
    best = max(tried, key=lambda pair: pair[1])[0]
    record[name] = best
    record[f"{name}_path"] = [list(pair) for pair in tried]
    return best


def _scan(
    paths: Sequence[Path],
    values: Sequence[float],
    falls: int,
    found: dict[float, FloatArray],
) -> dict[float, FloatArray]:
    """Try values in order until the scores fall below the best; return all scores by target."""
    found = dict(found)
    best = max(found, key=lambda v: float(found[v].sum()), default=None)
    in_a_row = 0
    for value in values:
        parts = [path.advance(value) for path in paths]
        if any(part is None for part in parts):
            break
        found[value] = np.sum(np.stack([part for part in parts if part is not None]), axis=0)
        if best is None or found[value].sum() > found[best].sum():
            best = value
        fell = bool(found[value].sum() < found[best].sum() * (1 + 1e-9))  # log-likelihoods
        in_a_row = in_a_row + 1 if fell else 0
        if in_a_row == falls or clearly_worse(found[value], found[best]):
            break
    return found
