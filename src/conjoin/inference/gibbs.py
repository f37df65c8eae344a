"""Marginals by Gibbs sampling, with diagnostics (the paper's Sections 2.1 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.errors import ModelError
from conjoin.inference.chain import Sampler, variable_order
from conjoin.inference.random_state import RandomState, streams
from conjoin.inference.results import Marginals, Run, of_all_variables
from conjoin.jobs import run
from conjoin.models.network import Network

BATCHES = 20
"""Number of parts in which the sweeps of a chain are summed, for standard errors."""

MAX_R_HAT = 1.05
"""Chains with a larger R-hat disagree."""

MIN_ESS = 100.0
"""Estimates with a smaller effective sample size are not trusted."""


@dataclass(frozen=True, eq=False)
class GibbsResult:
    """Marginals estimated by Gibbs chains."""

    domain: Domain  # the variables
    given: dict[str, Any]  # the evidence, by name
    # For each variable the probability of each state: the mean of its conditional distribution over
    # all sweeps (Rao-Blackwellised)
    marginals: dict[str, FloatArray]
    stderr: dict[str, FloatArray]  # their Monte Carlo standard errors, in the same form
    # For each variable the largest split R-hat of its states: how far the chains, and their halves,
    # disagree. 1 is best
    r_hat: dict[str, float]
    ess: dict[str, float]  # for each variable the smallest effective sample size of its states
    # n_samples, chains: the number of sweeps per chain and the number of chains
    n_samples: int
    chains: int

    def probability(self, name: str, state: Any) -> float:
        """Return the probability of one state of a variable."""
        return float(self.marginals[name][self.domain[name].index(state)])

    def worst(self) -> tuple[float, float]:
        """Return the largest R-hat and the smallest effective sample size of all variables."""
        return max(self.r_hat.values(), default=1.0), min(self.ess.values(), default=np.inf)

    def unsettled(self) -> list[str]:
        """Return the variables whose chains disagree or have a small effective sample size."""
        return [
            name
            for name in self.marginals
            if self.r_hat[name] > MAX_R_HAT or self.ess[name] < MIN_ESS
        ]

    def __repr__(self) -> str:
        r_hat, ess = self.worst()
        return (
            f"<GibbsResult: {len(self.marginals)} variables, {self.chains} chains of "
            f"{self.n_samples:,} sweeps, R-hat at most {r_hat:.3f}, effective size at least "
            f"{ess:,.0f}>"
        )


def gibbs(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    n_samples: int = 1000,
    burn_in: int = 100,
    chains: int = 4,
    order: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> GibbsResult:
    """Estimate the marginals of all variables given evidence.

    `model`: a dependency, Markov or Bayesian network. The distribution of a dependency network is
    the one that its sweeps converge to; it may depend on the order. `n_samples`: number of sweeps
    per chain; a sweep draws every unknown variable once. `chains`: number of independent chains,
    each from a random start. `order`: the order of a sweep, by default the order of the domain.
    `targets`: hidden variables to include. `n_jobs`: number of chains that run in parallel; results do
    not depend on it. Whether chains disagree is told by the result (see `GibbsResult.unsettled`).

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> features = Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})])
    >>> result = gibbs(MarkovNetwork(domain, features), {"wet": "yes"})
    >>> round(result.probability("rain", "yes"), 6)  # 1 / (1 + exp(-2))
    0.880797
    """
    if n_samples < 2 or chains < 1 or burn_in < 0:
        raise ModelError("n_samples must be 2 or more, chains 1 or more, burn_in not negative")
    domain = model.domain
    evidence = domain.encode_partial(given or {})
    batches = min(BATCHES, n_samples // 2 * 2)
    length = -(-n_samples // batches)  # sweeps are rounded up to whole batches
    sampler = Sampler(model.form, evidence, variable_order(domain, order))
    seeds = streams(random_state, chains)
    tasks = [(sampler, seed, burn_in, length * batches, batches) for seed in seeds]
    done = run(_chain_sums, tasks, n_jobs, "Gibbs chains")
    sums, squares = (np.stack(parts) for parts in zip(*done, strict=True))
    first = np.concatenate([[0], np.cumsum(domain.cards)])
    mean = sums.sum((0, 1)) / (chains * batches * length)
    error = standard_error(sums, length)
    r_hat = split_r_hat(sums, squares, length)
    ess = effective_size(sums, squares, length)
    shown = {*domain.observed.names, *(targets or ())}
    at = {
        name: slice(first[v], first[v + 1])
        for v, name in enumerate(domain.names)
        if v not in evidence and name in shown
    }
    return GibbsResult(
        domain,
        dict(given or {}),
        {name: mean[states] for name, states in at.items()},
        {name: error[states] for name, states in at.items()},
        {name: float(r_hat[states].max()) for name, states in at.items()},
        {name: float(ess[states].min()) for name, states in at.items()},
        length * batches,
        chains,
    )


def _chain_sums(
    sampler: Sampler, seed: np.random.SeedSequence, burn_in: int, n_sweeps: int, batches: int
) -> tuple[FloatArray, FloatArray]:
    trace = sampler.chain(seed, burn_in).run(n_sweeps, batches=batches)
    return trace.sums, trace.squares


def marginals(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] | None = None,
    n_samples: int = 1000,
    burn_in: int = 100,
    chains: int = 4,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> Marginals:
    """Return the distribution of each variable as Gibbs chains estimate it."""
    estimated = gibbs(
        model, given, n_samples=n_samples, burn_in=burn_in, chains=chains, targets=targets,
        random_state=random_state, n_jobs=n_jobs,
    )  # fmt: skip
    domain = model.domain
    free = {domain.index(name): p for name, p in estimated.marginals.items()}
    arrays = of_all_variables(domain, free, domain.encode_partial(given or {}))
    asked = set(targets or estimated.stderr)
    error = max((float(e.max()) for n, e in estimated.stderr.items() if n in asked), default=0.0)
    unsettled, (r_hat, _) = estimated.unsettled(), estimated.worst()
    note = f"{estimated.chains} chains of {estimated.n_samples:,} sweeps "
    if unsettled:
        note += (
            f"disagree on {len(unsettled)} of {len(estimated.marginals)} variables (R-hat up to "
            f"{r_hat:.3g}): do not trust them"
        )
    else:
        note += f"agree (R-hat up to {r_hat:.3f}), standard errors up to {error:.2g}"
    how = Run("gibbs", converged=not unsettled, note=note, error=error)
    return Marginals(domain, arrays, how, targets)


def split_r_hat(sums: FloatArray, squares: FloatArray, length: int) -> FloatArray:
    """Return the potential scale reduction of halves of chains (Gelman et al., Bayesian Data Analysis).

    `sums`, `squares`: of the values of each batch; the number of batches is even.
    """
    chains, batches, quantities = sums.shape
    halves = sums.reshape(chains * 2, batches // 2, quantities).sum(1)
    half_squares = squares.reshape(chains * 2, batches // 2, quantities).sum(1)
    n = length * (batches // 2)
    if n < 2:
        return np.full(quantities, np.nan)
    means = halves / n
    within = (np.maximum(half_squares - n * means**2, 0.0) / (n - 1)).mean(0)
    between = means.var(axis=0, ddof=1)
    tiny = 1e-14
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt((n - 1) / n + between / within)
    # A quantity that never changes has converged, unless the chains disagree about it.
    r_hat[within <= tiny] = 1.0
    r_hat[(within <= tiny) & (between > tiny)] = np.inf
    return r_hat


def standard_error(sums: FloatArray, length: int) -> FloatArray:
    """Return the Monte Carlo standard error of the mean, from the spread of the batch means."""
    means = sums.reshape(-1, sums.shape[2]) / length
    return np.sqrt(means.var(axis=0, ddof=1) / len(means))


def effective_size(sums: FloatArray, squares: FloatArray, length: int) -> FloatArray:
    """Return the number of independent values that would have the same standard error.

    It is never larger than the number of values, although chains can do better than independent
    draws.
    """
    count = sums.shape[0] * sums.shape[1] * length
    mean = sums.sum((0, 1)) / count
    variance = np.maximum(squares.sum((0, 1)) - count * mean**2, 0.0) / max(1, count - 1)
    error = standard_error(sums, length) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(error <= 1e-30, float(count), variance / error)
    return np.minimum(size, float(count))
