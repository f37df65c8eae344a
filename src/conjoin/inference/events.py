"""The probability of an event, by an approximation."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.inference.evidence import Evidence
from conjoin.inference.methods import fitting
from conjoin.inference.results import Run
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network


def event_probability(
    model: Network,
    event: Evidence,
    known: Evidence,
    method: str,
    max_memory: float | None,
    options: dict[str, Any],
) -> tuple[float, float, Run]:
    """Return the log-probability of an event given evidence, its standard error and its run."""
    from conjoin.inference.engines import log_partition, marginals, states_only

    together = known.both(event)
    if together.is_contradictory:
        return -np.inf, 0.0, Run("exact", exact=True, note="the event contradicts the evidence")
    domain, shares = model.domain, {}
    log = 0.0
    for name in event.given:
        v = domain.index(name)
        share = _share(known, together, v)
        if v in known.states:
            with np.errstate(divide="ignore"):
                log += float(np.log(share[known.states[v]]))
        else:
            shares[name] = share
    settings: dict[str, Any] = {"method": method, "max_memory": max_memory}
    dependency = isinstance(model, DependencyNetwork)
    if (len(shares) == 1 and method in ("auto", "bp", "mean_field")) or (
        dependency and not shares and method in ("auto", "mean_field")
    ):
        asked = [*domain.observed.names, *(name for name in shares if domain[name].hidden)]
        engine_options = fitting("marginals", method, options)
        answer = marginals(model, known, targets=asked, **settings, **engine_options)
        p = 1.0
        for name, share in shares.items():
            p = float(answer.array(name) @ share)
        with np.errstate(divide="ignore"):
            return log + float(np.log(p)), _relative(answer.run.error, p), answer.run
    if method == "gibbs" or (method == "auto" and dependency):
        names = {name: together.certain[name] for name in shares if name in together.certain}
        if len(names) == len(shares):
            found_log, error, run = _by_states(
                *states_only(model, known, max_memory),
                names,
                fitting("probability", "gibbs", options),
            )
        else:
            engine_options = fitting("marginals", "gibbs", options)
            found_log, error, run = _one_by_one(model, event, known, list(shares), engine_options)
        return log + found_log, error, run
    engine_options = fitting("log_partition", method, options)
    below, above = (
        log_partition(model, given, **settings, **engine_options) for given in (known, together)
    )
    error = float(np.hypot(above.error, below.error))
    return above.value - below.value, error, above.run


def _share(known: Evidence, together: Evidence, v: int) -> FloatArray:
    """Return the probability that the event's conditions on a variable hold in each of its states."""
    with np.errstate(invalid="ignore"):
        logs = together.log_weights(v) - known.log_weights(v)
    return np.nan_to_num(np.exp(logs), nan=0.0)


def _relative(error: float | None, p: float) -> float:
    return error / p if error and p > 0 else 0.0


def _by_states(
    model: Network, given: dict[str, Any], query: dict[str, Any], options: dict[str, Any]
) -> tuple[float, float, Run]:
    """Return the log-probability of states, by the chain rule within Gibbs sampling."""
    from conjoin.inference.rare_probability import probability

    if not query:
        return 0.0, 0.0, Run("gibbs", note="certain given the evidence")
    estimate = probability(model, query, given, **options)
    exact = estimate.log_stderr == 0 and estimate.value > 0
    return estimate.log, estimate.log_stderr, Run("gibbs", note="" if exact else "sampled")


def _one_by_one(
    model: Network, event: Evidence, known: Evidence, names: list[str], options: dict[str, Any]
) -> tuple[float, float, Run]:
    """Return the log-probability of conditions: of each one given those before it, from its marginal."""
    from conjoin.inference.engines import marginals

    log, variance = 0.0, 0.0
    for k, name in enumerate(names):
        answer = marginals(model, known, targets=[name], method="gibbs", **options)
        after = known.both(event.without([*names[:k], *names[k + 1 :]]))
        p = float(answer.array(name) @ _share(known, after, model.domain.index(name)))
        if p == 0:
            return -np.inf, 0.0, answer.run
        log += float(np.log(p))
        variance += _relative(answer.run.error, p) ** 2
        known = after
    return log, float(np.sqrt(variance)), Run("gibbs", note="sampled")
