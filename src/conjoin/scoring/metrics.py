"""Scores by name."""

from __future__ import annotations

from typing import Any

from conjoin.errors import ModelError, did_you_mean
from conjoin.models.network import takes_estimators
from conjoin.scoring.likelihood import log_likelihood
from conjoin.scoring.marginal_likelihood import cmll
from conjoin.scoring.pseudo_likelihood import pll
from conjoin.scoring.result import Score

METRICS = {"pll": pll, "cmll": cmll, "ll": log_likelihood}


@takes_estimators
def score(model: Any, table: Any, metric: str = "pll", **options: Any) -> Score:
    """Score a network on a table, in nats per row.

    `metric`: 'pll', 'cmll' or 'll', for the functions `pll`, `cmll` and `log_likelihood`, whose options
    may follow.

    Examples
    --------
    >>> from conjoin import Domain, MarkovNetwork, Table
    >>> coin = Domain({"coin": ["heads", "tails"]})
    >>> round(score(MarkovNetwork(coin), Table(coin, [[1]]), "ll").mean, 4)  # log(1/2)
    -0.6931
    """
    if metric not in METRICS:
        raise ModelError(f"there is no metric {metric!r}. " + did_you_mean(metric, METRICS))
    function: Any = METRICS[metric]
    result: Score = function(model, table, **options)
    return result
