"""Rare probabilities: sampling and conditionals combined (Heckerman et al.; the paper's Section 3)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray
from conjoin.errors import ConvergenceWarning, DataError, ModelError
from conjoin.models.network import Network
from conjoin.progress import progress
from conjoin.sampling.chain import chain_seeds, variable_order
from conjoin.sampling.gibbs import BATCHES, chain_batches
from conjoin.sampling.rules import Rules


@dataclass(frozen=True)
class Probability:
    """An estimated probability.

    Attributes
    ----------
    value : float
        The probability.
    log : float
        Its logarithm, which does not underflow.
    log_stderr : float
        The Monte Carlo standard error of the logarithm: about the relative error of the value.
    factors : dict
        For each target, its estimated probability given those before it and the evidence.
    """

    value: float
    log: float
    log_stderr: float
    factors: dict[str, float]


def gibbs_probability(
    model: Network,
    query: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    *,
    n_samples: int = 1000,
    burn_in: int = 100,
    chains: int = 4,
    order: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Probability:
    """Estimate the probability that several variables have given states at once.

    Counting the samples in which all of them do needs more samples than one over the probability.
    Instead the probability is a product, by the chain rule, of one factor a target given the targets
    before it; each factor is the mean of the target's conditional distribution over Gibbs sweeps with
    those before it held fixed. Only the variables that a target depends on are drawn; where
    there are none left, the factor is read off its conditional distribution and is exact.

    Parameters
    ----------
    model : Network
        A dependency, Markov or Bayesian network.
    query : mapping
        The states of the targets, by name. The targets are taken in this order.
    given : mapping, optional
        States of known variables, by name.
    n_samples, burn_in, chains, order, random_state, n_jobs
        As `gibbs` takes them, for each factor.

    Returns
    -------
    Probability

    Examples
    --------
    Ten coins that are heads one time in ten: all of them at once one time in 10^10.

    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({f"coin {i}": ["heads", "tails"] for i in range(10)})
    >>> terms = [(float(np.log(9)), {name: "tails"}) for name in domain.names]
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    >>> estimate = gibbs_probability(mn, dict.fromkeys(domain.names, "heads"))
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
    if n_samples < 2 or chains < 1 or burn_in < 0:
        raise ModelError("n_samples must be 2 or more, chains 1 or more, burn_in not negative")
    rules, sweep = Rules.of(model), variable_order(domain, order)
    rules.check(evidence)
    log, variance = 0.0, 0.0
    factors: dict[str, float] = {}
    for number, (target, code) in progress(list(enumerate(targets.items())), "estimating"):
        seeds = chain_seeds([random_state, number], chains)
        part, wanted = _needed(rules.condition(evidence), target)
        sums, _, length = chain_batches(
            part, evidence, sweep[wanted[sweep]], seeds, burn_in, n_samples, BATCHES, n_jobs
        )
        state = int((np.cumsum(domain.cards) - domain.cards)[target]) + code
        means = sums[:, :, state].ravel() / length
        p = float(means.mean())
        factors[domain.names[target]] = p
        if p == 0.0:
            return Probability(0.0, -np.inf, 0.0, factors)
        log += float(np.log(p))
        variance += float(means.var(ddof=1)) / len(means) / p**2
        evidence[target] = code
    result = Probability(float(np.exp(log)), log, float(np.sqrt(variance)), factors)
    if result.log_stderr > 0.5:
        warnings.warn(
            f"the logarithm of the probability has a standard error of {result.log_stderr:.2f}: "
            "use more samples, or another order of the targets",
            ConvergenceWarning,
            stacklevel=2,
        )
    return result


def _needed(rules: Rules, target: int) -> tuple[Rules, BoolArray]:
    """Return what a target's distribution depends on: rules, and variables with the target itself."""
    features = rules.features
    feature, var = features.entry_feature, features.entry_var
    needed = np.zeros(len(rules.domain), bool)
    needed[target] = True
    while True:
        if rules.owner is None:
            active = np.zeros(len(features), bool)
            active[feature[needed[var]]] = True
        else:
            active = needed[rules.owner]
        grown = needed.copy()
        grown[var[active[feature]]] = True
        if (grown == needed).all():
            break
        needed = grown
    rows = np.flatnonzero(active)
    owner = None if rules.owner is None else rules.owner[rows]
    return replace(rules, features=features.select(rows), owner=owner), needed
