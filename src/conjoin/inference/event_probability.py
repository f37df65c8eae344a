"""The probability of an event, by an approximation.

An event of several conditions is a product, by the chain rule: each condition given those before it.
Gibbs sampling answers each by the mean of a conditional distribution, so that the probability may be tiny
(Heckerman et al.; the paper's Section 3).
"""

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
    from conjoin.inference.engines import log_partition

    together = known.both(event)
    if together.is_contradictory:
        return -np.inf, 0.0, Run("exact", exact=True, note="the event contradicts the evidence")
    sampled = method == "gibbs" or (method == "auto" and isinstance(model, DependencyNetwork))
    unknown = [name for name in event.given if model.domain.index(name) not in known.states]
    if sampled or (method in ("auto", "bp") and len(unknown) == 1):
        return _by_chain_rule(model, event, known, method, max_memory, options)
    settings: dict[str, Any] = {"method": method, "max_memory": max_memory}
    settings |= fitting("log_partition", method, options)
    below, above = (log_partition(model, given, **settings) for given in (known, together))
    error = float(np.hypot(above.error, below.error))
    return above.value - below.value, error, above.run


def _by_chain_rule(
    model: Network,
    event: Evidence,
    known: Evidence,
    method: str,
    max_memory: float | None,
    options: dict[str, Any],
) -> tuple[float, float, Run]:
    """Return the log-probability of conditions: of each one given those before it, from its marginal."""
    from conjoin.inference.engines import marginals

    settings: dict[str, Any] = {"method": method, "max_memory": max_memory}
    settings |= fitting("marginals", method, options)
    log, variance = 0.0, 0.0
    run, names = Run("gibbs", note="certain given the evidence"), list(event.given)
    for k, name in enumerate(names):
        v = model.domain.index(name)
        together = known.both(event.without([*names[:k], *names[k + 1 :]]))
        share = _share(known, together, v)
        if v in known.states:
            p = float(share[known.states[v]])
        else:
            answer = marginals(model, known, targets=[name], **settings)
            p, run = float(answer.array(name) @ share), answer.run
            variance += (run.error / p) ** 2 if run.error and p > 0 else 0.0
        if p == 0:
            return -np.inf, 0.0, run
        log += float(np.log(p))
        known = together
    return log, float(np.sqrt(variance)), run


def _share(known: Evidence, together: Evidence, v: int) -> FloatArray:
    """Return the probability that the event's conditions on a variable hold in each of its states."""
    with np.errstate(invalid="ignore"):
        logs = together.log_weights(v) - known.log_weights(v)
    return np.nan_to_num(np.exp(logs), nan=0.0)
