"""Drawing joint states: exactly where that fits into memory, otherwise by Gibbs chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from conjoin.data.domain import Domain
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import ModelError, did_you_mean, names_lack_of_memory
from conjoin.inference import ancestral, exact
from conjoin.inference.chain import Chain, Sampler, variable_order
from conjoin.inference.engines import known_of, states_only
from conjoin.inference.evidence import Given, evidence_of
from conjoin.inference.gibbs import BATCHES, effective_size, split_r_hat
from conjoin.inference.joint_rows import with_values
from conjoin.inference.plan import TooLarge
from conjoin.inference.random_state import RandomState, seed_sequence
from conjoin.inference.rule_keeping import with_rules_kept
from conjoin.jobs import run
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.conditional_chain import ConditionalChain
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.left_out import names_left_out
from conjoin.models.network import Network, network_of, takes_estimators
from conjoin.progress import progress

METHODS = ("auto", "exact", "gibbs")

BLOCK_CELLS = 1 << 24
"""Maximum number of cells of a table in a stream of samples, unless the caller sets its rows."""


@names_left_out
@names_lack_of_memory
def sample(
    model: Any,
    n: int,
    given: Given = None,
    *,
    method: str = "auto",
    burn_in: int = 100,
    sweeps_per_row: int = 1,
    chains: int = 4,
    order: Sequence[str] | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> Any:
    """Draw joint states.

    Hidden columns are drawn, too, and dropped. Given evidence that leaves too much unknown for the chain
    of a joint, its network draws all rows. Rows that break a rule of the model are mended or drawn again
    (see `rule_keeping`).

    Parameters
    ----------
    model : Network or JointModel
        The model.
    n : int
        Number of rows.
    given : mapping or str, optional
        The evidence: {variable: state or condition}, or conditions as text. Every row agrees with it.
    method : str
        "exact" draws independent rows, by exact inference, or from a Bayesian network by drawing
        parents before children; "gibbs" takes them from Gibbs chains, where consecutive rows are
        correlated; "auto" is exact if that fits into memory, and Gibbs
        sampling otherwise and for dependency networks (see `sampling_method`).
    burn_in : int
        Number of sweeps of each chain before its first row; for Gibbs sampling, like the next three.
    sweeps_per_row : int
        Number of sweeps between two rows of a chain.
    chains : int
        Number of independent chains; each draws a part of the rows.
    order : sequence of str, optional
        The order of a sweep, by default the order of the domain.
    random_state : int or Generator
        The random numbers.
    n_jobs : int, optional
        Number of chains that run in parallel; results do not depend on it.

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
    network, known = known_of(model, given)
    source = network_of(model)

    def draw(count: int, seed: RandomState) -> Table:
        states = samples(
            network, count, known, method=method, burn_in=burn_in, sweeps_per_row=sweeps_per_row,
            chains=chains, order=order, random_state=seed, n_jobs=n_jobs,
        )  # fmt: skip
        rows = _all_of(states, network.domain.observed)
        rng = np.random.default_rng(int(seed_sequence(seed).generate_state(1)[0]))
        chain = getattr(source, "chain", None)
        if chain is not None and known.by_network and not len(known):
            rows = _partly_from_chain(chain, rows, rng)
        return with_values(source, rows, known.values, rng, known.ranges)

    drawn = draw(n, random_state)
    if not source.rules:
        return drawn
    seeds = seed_sequence(random_state).generate_state(4).tolist()
    return with_rules_kept(
        source.rules,
        drawn,
        known,
        lambda attempt, count: draw(count, np.random.SeedSequence([*seeds, attempt])),
    )


def _partly_from_chain(chain: ConditionalChain, rows: Table, rng: np.random.Generator) -> Table:
    """Return rows of a network with a share of them drawn from a chain instead."""
    codes = rows.codes.copy()
    other = np.flatnonzero(rng.random(len(rows)) < chain.share)
    codes[other] = chain.sample(len(other), rng)
    return Table.adopt(rows.domain, codes)


def _all_of(tables: Iterator[Table], domain: Domain) -> Table:
    """Return the rows of a stream of tables as one table."""
    rows = list(tables)
    empty = np.zeros((0, len(domain)), code_dtype(domain.cards))
    codes = rows[0].codes if len(rows) == 1 else np.concatenate([empty, *(t.codes for t in rows)])
    return Table.adopt(domain, codes)


def sampling_method(model: Network, given: Given = None) -> str:
    """Return the method that `sample` chooses by itself: "exact" or "gibbs"."""
    if isinstance(model, DependencyNetwork):
        return "gibbs"
    if ancestral.can_draw(model, evidence_of(model.domain, given)):
        return "exact"
    try:
        exact.forecast(model, given)
    except TooLarge:
        return "gibbs"
    return "exact"


@takes_estimators
def samples(
    model: Network,
    n: int,
    given: Given = None,
    *,
    method: str = "auto",
    burn_in: int = 100,
    sweeps_per_row: int = 1,
    chains: int = 4,
    order: Sequence[str] | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    block: int | None = None,
) -> Iterator[Table]:
    """Draw joint states as `sample` does, as a stream of tables; the rows are the same for any size.

    `block`: the maximum number of rows per table, by default as many as make 16 million cells.
    """
    if n < 0 or burn_in < 0 or sweeps_per_row < 1 or chains < 1:
        raise ModelError(
            "n and burn_in must not be negative; sweeps_per_row and chains must be 1 or more"
        )
    if method not in METHODS:
        raise ModelError(f"there is no method {method!r}. " + did_you_mean(method, METHODS))
    if block is None:
        block = max(1, BLOCK_CELLS // max(1, len(model.domain)))
    if block < 1:
        raise ModelError(f"block must be 1 or more, not {block}")
    sweep = variable_order(model.domain, order)
    if method == "auto":
        method = sampling_method(model, given)
    seed = seed_sequence(random_state)
    if method == "exact":
        return _exact_stream(model, n, given, np.random.default_rng(seed), block)
    weighted, certain = states_only(model, evidence_of(model.domain, given), None)
    sampler = Sampler(weighted.form, model.domain.encode_partial(certain), sweep)
    share, extra = divmod(n, chains)
    parts = [(s, share + (i < extra)) for i, s in enumerate(seed.spawn(chains))]
    return _gibbs_stream(sampler, parts, burn_in, sweeps_per_row, n_jobs, block)


def _exact_stream(
    model: Network,
    n: int,
    given: Given,
    rng: np.random.Generator,
    block: int,
) -> Iterator[Table]:
    """Yield independent rows: one generator draws them all, in order."""
    known = evidence_of(model.domain, given)
    for low in range(0, n, block):
        size = min(block, n - low)
        if isinstance(model, BayesianNetwork) and ancestral.can_draw(model, known):
            yield ancestral.sample(model, size, known, rng)
        else:
            yield exact.sample(model, size, given, random_state=rng)


def _gibbs_stream(
    sampler: Sampler,
    parts: list[tuple[np.random.SeedSequence, int]],
    burn_in: int,
    sweeps_per_row: int,
    n_jobs: int | None,
    block: int,
) -> Iterator[Table]:
    """Yield the rows of each chain (its seed and number of rows) after those of the one before."""
    if sum(rows for _, rows in parts) <= block:
        tasks = [(sampler, seed, burn_in, rows, sweeps_per_row) for seed, rows in parts if rows]
        drawn = run(_chain_rows, tasks, n_jobs)
        if drawn:
            yield Table(sampler.domain, np.concatenate(drawn)).over(sampler.domain.observed)
        return
    steps = [
        (seed, at, min(block, rows - at)) for seed, rows in parts for at in range(0, rows, block)
    ]
    chain: Chain | None = None
    for seed, at, rows in progress(steps, "drawing"):
        if chain is None or at == 0:
            chain = sampler.chain(seed, burn_in)
        yield Table(sampler.domain, chain.draw(rows, sweeps_per_row)).over(sampler.domain.observed)


def _chain_rows(
    sampler: Sampler, seed: np.random.SeedSequence, burn_in: int, rows: int, sweeps_per_row: int
) -> Codes:
    return sampler.chain(seed, burn_in).draw(rows, sweeps_per_row)


def table_diagnostics(table: Table, chains: int) -> tuple[float | None, float | None]:
    """Return the largest R-hat and the smallest effective size of all states of a drawn table."""
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
