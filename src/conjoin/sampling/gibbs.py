"""Gibbs sampling for Markov and dependency networks (the paper's Sections 2.1 and 3)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table, code_dtype
from conjoin.errors import ConvergenceWarning, ModelError
from conjoin.jobs import run
from conjoin.models.network import Network
from conjoin.progress import progress
from conjoin.sampling.chain import Chain, Sampler, chain_seeds, variable_order
from conjoin.sampling.diagnostics import (
    MAX_R_HAT,
    MIN_ESS,
    effective_size,
    split_r_hat,
    standard_error,
)
from conjoin.sampling.rules import Rules

BATCHES = 20
"""In how many parts the sweeps of a chain are summed, for the errors."""

BLOCK = 1 << 24
"""About how many cells a block of a stream of samples has at most."""


@dataclass(frozen=True, eq=False)
class GibbsResult:
    """Marginals estimated by Gibbs chains.

    Attributes
    ----------
    domain : Domain
        The variables.
    given : dict
        The evidence, by name.
    marginals : dict
        For each variable the probability of each state: the mean of its conditional distribution
        over all sweeps (Rao-Blackwellised).
    stderr : dict
        Their Monte Carlo standard errors, in the same form.
    r_hat : dict
        For each variable the largest split R-hat of its states: how far the chains, and their halves,
        disagree. 1 is best.
    ess : dict
        For each variable the smallest effective sample size of its states.
    n_samples, chains : int
        Sweeps a chain, and how many chains.
    """

    domain: Domain
    given: dict[str, Any]
    marginals: dict[str, FloatArray]
    stderr: dict[str, FloatArray]
    r_hat: dict[str, float]
    ess: dict[str, float]
    n_samples: int
    chains: int

    def probability(self, name: str, state: Any) -> float:
        """Return the probability of one state of a variable."""
        return float(self.marginals[name][self.domain[name].index(state)])

    def worst(self) -> tuple[float, float]:
        """Return the largest R-hat and the smallest effective sample size of all variables."""
        return max(self.r_hat.values(), default=1.0), min(self.ess.values(), default=np.inf)

    def unsettled(self) -> list[str]:
        """Return the variables for which the chains disagree, or are worth few independent samples."""
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
    random_state: int = 0,
    n_jobs: int | None = None,
) -> GibbsResult:
    """Estimate the marginals of all variables given some.

    Parameters
    ----------
    model : Network
        A dependency, Markov or Bayesian network. The distribution of a dependency network is the one
        that its sweeps converge to; it may depend on the order.
    given : mapping, optional
        States of known variables, by name.
    n_samples : int
        Sweeps of each chain that count; a sweep draws every unknown variable once.
    burn_in : int
        Sweeps before them that do not.
    chains : int
        Independent chains, each from a random start.
    order : sequence of str, optional
        The order of a sweep, by default that of the variables.
    random_state : int
        The seed.
    n_jobs : int, optional
        Chains that run at once; results do not depend on it.

    Warns
    -----
    ConvergenceWarning
        If the chains disagree, or are worth few independent samples.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> features = Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})])
    >>> result = gibbs(MarkovNetwork(domain, features), {"wet": "yes"})
    >>> round(result.probability("rain", "yes"), 6)  # 1 / (1 + exp(-2))
    0.880797
    """
    result = estimate(
        model,
        given,
        n_samples,
        burn_in,
        chains,
        order=order,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    _warn(result)
    return result


def estimate(
    model: Network,
    given: Mapping[str, Any] | None,
    n_samples: int,
    burn_in: int,
    chains: int,
    *,
    order: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> GibbsResult:
    """Do the same without a warning."""
    if n_samples < 2 or chains < 1 or burn_in < 0:
        raise ModelError("n_samples must be 2 or more, chains 1 or more, burn_in not negative")
    evidence = model.domain.encode_partial(given or {})
    sums, squares, length = chain_batches(
        Rules.of(model), evidence, variable_order(model.domain, order),
        chain_seeds(random_state, chains), burn_in, n_samples, BATCHES, n_jobs,
    )  # fmt: skip
    batches, cards = sums.shape[1], model.domain.cards
    first = np.cumsum(cards) - cards
    mean = sums.sum((0, 1)) / (chains * batches * length)
    error = standard_error(sums, length)
    r_hat = split_r_hat(sums, squares, length)
    ess = effective_size(sums, squares, length)
    names = model.domain.names
    unknown = [v for v in range(len(names)) if v not in evidence]
    at = {v: slice(first[v], first[v] + cards[v]) for v in unknown}
    return GibbsResult(
        model.domain,
        dict(given or {}),
        {names[v]: mean[at[v]] for v in unknown},
        {names[v]: error[at[v]] for v in unknown},
        {names[v]: float(r_hat[at[v]].max()) for v in unknown},
        {names[v]: float(ess[at[v]].min()) for v in unknown},
        length * batches,
        chains,
    )


def _warn(result: GibbsResult) -> None:
    bad = result.unsettled()
    if bad:
        shown = ", ".join(map(repr, bad[:5])) + (", ..." if len(bad) > 5 else "")
        r_hat, ess = result.worst()
        warnings.warn(
            f"the chains have not converged for {len(bad)} of {len(result.marginals)} variables "
            f"({shown}): R-hat up to {r_hat:.3f} (at most {MAX_R_HAT} is good), effective sample "
            f"size down to {ess:.0f} (at least {MIN_ESS:.0f} is good). Use more samples and burn-in",
            ConvergenceWarning,
            stacklevel=3,
        )


def _sampler(
    model: Network, given: Mapping[str, Any] | None, order: Sequence[str] | None
) -> Sampler:
    evidence = model.domain.encode_partial(given or {})
    return Sampler(Rules.of(model), evidence, variable_order(model.domain, order))


def chain_batches(
    rules: Rules,
    given: dict[int, int],
    order: IntArray,
    seeds: list[np.random.SeedSequence],
    burn_in: int,
    n_samples: int,
    batches: int,
    n_jobs: int | None,
) -> tuple[FloatArray, FloatArray, int]:
    """Run chains; return sums of conditionals and of their squares, and the sweeps of a batch.

    The sums are chains by batches by states; the sweeps are rounded up to an even number of batches
    of one length.
    """
    batches = min(batches, n_samples // 2 * 2)
    length = -(-n_samples // batches)
    sampler = Sampler(rules, given, order)
    tasks = [(sampler, seed, burn_in, length * batches, batches) for seed in seeds]
    done = run(_chain_sums, tasks, n_jobs, what="Gibbs chains")
    sums, squares = (np.stack(parts) for parts in zip(*done, strict=True))
    return sums, squares, length


def _chain_sums(
    sampler: Sampler, seed: np.random.SeedSequence, burn_in: int, n_sweeps: int, batches: int
) -> tuple[FloatArray, FloatArray]:
    chain = sampler.chain(seed)
    chain.burn_in(burn_in)
    _, sums, squares = chain.run(n_sweeps, batches=batches)
    return sums, squares


def sample(
    model: Network,
    n: int,
    given: Mapping[str, Any] | None = None,
    *,
    burn_in: int = 100,
    thin: int = 1,
    chains: int = 4,
    order: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Table:
    """Draw joint states.

    Parameters
    ----------
    model : Network
        A dependency, Markov or Bayesian network.
    n : int
        How many rows to draw. Rows that follow each other come from one chain and are alike.
    given : mapping, optional
        States of known variables, by name; they stand in every row.
    burn_in : int
        Sweeps of each chain before its first row.
    thin : int
        Sweeps from one row of a chain to its next.
    chains : int
        Independent chains; each draws a part of the rows.
    order : sequence of str, optional
        The order of a sweep, by default that of the variables.
    random_state : int
        The seed.
    n_jobs : int, optional
        Chains that run at once; results do not depend on it.

    Returns
    -------
    Table

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> features = Features.from_terms(domain, [(2.0, {"rain": "yes", "wet": "yes"})])
    >>> table = sample(MarkovNetwork(domain, features), 10_000, {"wet": "yes"})
    >>> len(table), round(float(table.marginals()[0][1]), 1)
    (10000, 0.9)
    """
    parts = list(
        samples(
            model, n, given, burn_in=burn_in, thin=thin, chains=chains, order=order,
            random_state=random_state, n_jobs=n_jobs,
        )
    )  # fmt: skip
    if len(parts) == 1:
        return parts[0]
    empty = np.zeros((0, len(model.domain)), code_dtype(model.domain.cards))
    return Table.adopt(model.domain, np.concatenate([empty, *(part.codes for part in parts)]))


def samples(
    model: Network,
    n: int,
    given: Mapping[str, Any] | None = None,
    *,
    burn_in: int = 100,
    thin: int = 1,
    chains: int = 4,
    order: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    block: int | None = None,
) -> Iterator[Table]:
    """Draw joint states as `sample` does, as a stream of tables of bounded size.

    Parameters
    ----------
    model, n, given, burn_in, thin, chains, order, random_state, n_jobs
        As `sample` takes them. The rows are the same, whatever the block.
    block : int, optional
        The most rows of a table; by default as many as make 16 million cells.

    Yields
    ------
    Table
    """
    if n < 0 or burn_in < 0 or thin < 1 or chains < 1:
        raise ModelError("n and burn_in must not be negative; thin and chains must be 1 or more")
    if block is None:
        block = max(1, BLOCK // max(1, len(model.domain)))
    if block < 1:
        raise ModelError(f"block must be 1 or more, not {block}")
    sampler = _sampler(model, given, order)
    return _stream(sampler, n, burn_in, thin, chains, random_state, n_jobs, block)


def _stream(
    sampler: Sampler,
    n: int,
    burn_in: int,
    thin: int,
    chains: int,
    random_state: int,
    n_jobs: int | None,
    block: int,
) -> Iterator[Table]:
    """Yield the rows of one chain after those of another, a few chains at a time."""
    share, extra = divmod(n, chains)
    wanted = [share + (i < extra) for i in range(chains)]
    seeds = chain_seeds(random_state, chains)
    if n <= block:
        tasks = [
            (sampler, seed, burn_in, rows, thin)
            for seed, rows in zip(seeds, wanted, strict=True)
            if rows
        ]
        parts = run(_chain_rows, tasks, n_jobs)
        if parts:
            yield Table.adopt(sampler.domain, np.concatenate(parts))
        return
    steps = [
        (i, at, min(block, rows - at))
        for i, rows in enumerate(wanted)
        for at in range(0, rows, block)
    ]
    chain: Chain | None = None
    for i, at, rows in progress(steps, "drawing"):
        if at == 0:
            chain = sampler.chain(seeds[i])
            chain.burn_in(burn_in)
        if chain is not None:
            yield Table.adopt(sampler.domain, chain.run(rows * thin, thin=thin, draw=True)[0])


def _chain_rows(
    sampler: Sampler, seed: np.random.SeedSequence, burn_in: int, rows: int, thin: int
) -> Any:
    chain = sampler.chain(seed)
    chain.burn_in(burn_in)
    return chain.run(rows * thin, thin=thin, draw=True)[0]


def table_diagnostics(table: Table, chains: int) -> tuple[float | None, float | None]:
    """Return the largest R-hat and the smallest effective size of all states of a drawn table.

    Parameters
    ----------
    table : Table
        What `sample` returned.
    chains : int
        How many chains it came from; with one chain too, its halves are compared.

    Returns
    -------
    r_hat, ess : float or None
        None if the chains have too few rows to tell.
    """
    share = len(table) // chains
    batches = min(BATCHES, share // 2 * 2)
    if batches < 2 or share // batches < 2:
        return None, None
    length = share // batches
    extra = len(table) % chains
    starts = [share * i + min(i, extra) for i in range(chains)]
    r_hat, ess = 1.0, float(chains * batches * length)
    for i, card in enumerate(table.domain.cards.tolist()):
        parts = np.stack([table.codes[a : a + batches * length, i] for a in starts])
        seen = parts.reshape(chains, batches, length)
        sums = np.stack([(seen == s).sum(axis=2) for s in range(card)], axis=2).astype(np.float64)
        r_hat = max(r_hat, float(split_r_hat(sums, sums, length).max()))
        ess = min(ess, float(effective_size(sums, sums, length).min()))
    return r_hat, ess
