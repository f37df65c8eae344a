"""The probability of an event, by an approximation.

Rare states are answered by Gibbs sampling with conditionals (Heckerman et al.; the paper's Section 3).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.errors import ConvergenceWarning, DataError, ModelError
from conjoin.inference.chain import possible_form, variable_order
from conjoin.inference.evidence import Evidence
from conjoin.inference.gibbs import chain_batches, check_settings
from conjoin.inference.methods import fitting
from conjoin.inference.random_state import RandomState, streams
from conjoin.inference.results import Run
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.network import Network
from conjoin.progress import progress

MAX_LOG_STDERR = 0.5
"""Estimates whose logarithm has a larger standard error come with a warning."""


@dataclass(frozen=True)
class Estimate:
    """An estimated probability."""

    value: float  # the probability
    log: float  # its logarithm, which does not underflow
    # The Monte Carlo standard error of the logarithm: about the relative error of the value
    log_stderr: float
    # For each target, its estimated probability given the targets before it and the evidence
    factors: dict[str, float]


def probability(
    model: Network,
    query: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    *,
    n_samples: int = 1000,
    burn_in: int = 100,
    chains: int = 4,
    order: Sequence[str] | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> Estimate:
    """Estimate the probability that several variables have given states at once.

    Counting the samples in which they do would take more samples than one over the probability.
    Instead, by the chain rule, the probability is a product of one factor per target given the targets
    before it; each factor is the mean of the target's conditional distribution over Gibbs sweeps with
    the earlier targets held fixed. Only the variables that a target depends on are drawn; if there are
    none, the factor is the conditional distribution itself and exact.

    `query`: {variable: state}. The targets are taken in this order.

    Examples
    --------
    Ten coins, each of which shows heads one time in ten, all show heads one time in 10^10.

    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({f"coin {i}": ["heads", "tails"] for i in range(10)})
    >>> terms = [(float(np.log(9)), {name: "tails"}) for name in domain.names]
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    >>> estimate = probability(mn, dict.fromkeys(domain.names, "heads"))
    >>> round(estimate.value * 1e10, 6), estimate.log_stderr
    (1.0, 0.0)
    """
    domain = model.domain
    evidence = domain.encode_partial(given or {})
    targets = domain.encode_partial(query)
    if not targets:
        raise ModelError("the query names no variable")
    both = sorted(set(targets) & set(evidence))
    if both:
        raise DataError(f"{domain.names[both[0]]!r} is in the query and in the evidence")
    check_settings(n_samples, burn_in, chains)
    sweep = variable_order(domain, order)
    possible_form(model.form, evidence)
    first = np.cumsum(domain.cards) - domain.cards
    log, variance = 0.0, 0.0
    factors: dict[str, float] = {}
    seeds = streams(random_state, len(targets))
    steps = list(zip(seeds, targets.items(), strict=True))
    for seed, (target, code) in progress(steps, "estimating"):
        form, needed = _relevant(model.form.condition(evidence), target)
        sums, _, length = chain_batches(
            form, evidence, sweep[needed[sweep]], seed.spawn(chains), burn_in, n_samples, n_jobs
        )
        means = sums[:, :, first[target] + code].ravel() / length
        p = float(means.mean())
        factors[domain.names[target]] = p
        if p == 0.0:
            return Estimate(0.0, -np.inf, 0.0, factors)
        log += float(np.log(p))
        variance += float(means.var(ddof=1)) / len(means) / p**2
        evidence[target] = code
    result = Estimate(float(np.exp(log)), log, float(np.sqrt(variance)), factors)
    if result.log_stderr > MAX_LOG_STDERR:
        warnings.warn(
            f"the logarithm of the probability has a standard error of {result.log_stderr:.2f}: "
            "use more samples, or another order of the targets",
            ConvergenceWarning,
            stacklevel=2,
        )
    return result


def _relevant(form: LogLinearForm, target: int) -> tuple[LogLinearForm, BoolArray]:
    """Return the features and the variables that a target's distribution depends on."""
    needed = np.zeros(len(form.domain), bool)
    needed[target] = True
    while True:
        part = form.about(needed)
        grown = needed.copy()
        grown[part.features.entry_var] = True
        if (grown == needed).all():
            return part, needed
        needed = grown


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
