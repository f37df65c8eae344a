"""Rare probabilities by Gibbs sampling with conditionals (Heckerman et al.; the paper's Section 3)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray
from conjoin.errors import ConvergenceWarning, DataError, ModelError
from conjoin.inference.chain import possible_form, variable_order
from conjoin.inference.gibbs import chain_batches, check_settings
from conjoin.inference.random_state import RandomState, streams
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

    @property
    def stderr(self) -> float:
        """The Monte Carlo standard error of the value."""
        return self.value * self.log_stderr


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
