"""Choosing kappa or the penalty by the score of validation rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.holdout import deal_out, hold_out
from conjoin.data.table import Table
from conjoin.jobs import TaskRunner
from conjoin.learning.options import check_setting

if TYPE_CHECKING:
    from conjoin.learning.logistic_path import LogisticPath
    from conjoin.learning.tree_path import TreePath

    Path = TreePath | LogisticPath


def split_rows(
    table: Table, valid: Table | None, holdout: float, folds: int | None, rng: np.random.Generator
) -> list[tuple[Table, Table]]:
    """Return the pairs of training and validation rows on which a setting is chosen."""
    if valid is not None:
        return [(table, valid)]
    if folds is None:
        return [hold_out(table, holdout, rng)]
    return deal_out(table, folds, rng)


def clearly_worse(scores: FloatArray, best: FloatArray) -> bool:
    """Return whether scores by target fell by more than the standard error of their sum."""
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

    `splits`: the training and validation rows; the scores of all pairs are added. `values`: the
    values to try, one after another; of equal scores the first wins. `falls`: the number of values
    in a row with scores below the best after which the search stops; it also stops after one that
    is clearly below it. `start`: the value to start with, by default the first. Earlier ones are
    tried, backwards from it, only if later ones score lower.
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
    first = 0 if start is None else values.index(start)
    scores: dict[float, FloatArray] = {}
    _scan(paths, values[first:], falls, scores)
    if first and max(scores, key=lambda v: float(scores[v].sum())) == values[first]:
        _scan(paths, values[first - 1 :: -1], falls, scores)  # the best may lie the other way
    held = (len(v) if v.weights is None else float(v.weights.sum()) for _, v in splits)
    weight = max(sum(held), 1e-300)
    tried = [(v, float(scores[v].sum()) / weight) for v in values if v in scores]
    best = max(tried, key=lambda pair: pair[1])[0]
    record[name] = best
    record[f"{name}_path"] = [list(pair) for pair in tried]
    return best


def _scan(
    paths: Sequence[Path], values: Sequence[float], falls: int, scores: dict[float, FloatArray]
) -> None:
    """Try values in order until the scores fall below the best; add all scores by target."""
    best = max(scores, key=lambda v: float(scores[v].sum()), default=None)
    in_a_row = 0
    for value in values:
        parts = [path.advance(value) for path in paths]
        if any(part is None for part in parts):
            break
        scores[value] = np.sum(np.stack([part for part in parts if part is not None]), axis=0)
        if best is None or scores[value].sum() > scores[best].sum():
            best = value
        fell = bool(scores[value].sum() < scores[best].sum() * (1 + 1e-9))  # log-likelihoods
        in_a_row = in_a_row + 1 if fell else 0
        if in_a_row == falls or clearly_worse(scores[value], scores[best]):
            break
