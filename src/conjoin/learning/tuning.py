"""Choosing kappa or the penalty by the score of validation rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.holdout import hold_out
from conjoin.data.table import Table
from conjoin.jobs import TaskRunner
from conjoin.learning.options import check_setting

if TYPE_CHECKING:
    from conjoin.learning.logistic_path import LogisticPath
    from conjoin.learning.tree_path import TreePath

    Path = TreePath | LogisticPath


def split_rows(
    table: Table, valid: Table | None, holdout: float, rng: np.random.Generator
) -> tuple[Table, Table]:
    """Return the training and the validation rows on which a setting is chosen."""
    return hold_out(table, holdout, rng) if valid is None else (table, valid)


def clearly_worse(scores: FloatArray, best: FloatArray) -> bool:
    """Return whether scores by target fell by more than the standard error of their sum."""
    fall = best - scores
    return bool(fall.sum() > np.sqrt((fall**2).sum()))


def choose(
    make: Callable[[Table, Table | None, TaskRunner], Path],
    split: tuple[Table, Table],
    values: Sequence[float],
    given: float | None,
    name: str,
    falls: int,
    runner: TaskRunner,
    record: dict[str, Any],
    start: float | None = None,
) -> float:
    """Return the value with the best score.

    `split`: the training and the validation rows. `values`: the values to try, one after another; of
    equal scores the first wins. `falls`: the number of values
    in a row with scores below the best after which the search stops; it also stops after one that
    is clearly below it. `start`: the value to start with, by default the first. Earlier ones are
    tried, backwards from it, only if later ones score lower.
    """
    if given is not None:
        check_setting(given, name)
        record[name] = given
        return given
    train, valid = split
    if not len(train):
        record[name] = values[0]
        return values[0]
    path = make(train, valid, runner)
    first = 0 if start is None else values.index(start)
    scores: dict[float, FloatArray] = {}
    _scan(path, values[first:], falls, scores)
    if first and max(scores, key=lambda v: float(scores[v].sum())) == values[first]:
        _scan(path, values[first - 1 :: -1], falls, scores)  # the best may lie the other way
    weight = len(valid) if valid.weights is None else max(float(valid.weights.sum()), 1e-300)
    tried = [(v, float(scores[v].sum()) / weight) for v in values if v in scores]
    best = max(tried, key=lambda pair: pair[1])[0]
    record[name] = best
    record[f"{name}_path"] = [list(pair) for pair in tried]
    return best


def _scan(path: Path, values: Sequence[float], falls: int, scores: dict[float, FloatArray]) -> None:
    """Try values in order until the scores fall below the best; add all scores by target."""
    best = max(scores, key=lambda v: float(scores[v].sum()), default=None)
    in_a_row = 0
    for value in values:
        found = path.advance(value)
        if found is None:
            break
        scores[value] = found
        if best is None or scores[value].sum() > scores[best].sum():
            best = value
        fell = bool(scores[value].sum() < scores[best].sum() * (1 + 1e-9))  # log-likelihoods
        in_a_row = in_a_row + 1 if fell else 0
        if in_a_row == falls or clearly_worse(scores[value], scores[best]):
            break
