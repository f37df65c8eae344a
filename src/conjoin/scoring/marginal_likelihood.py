"""Conditional marginal log-likelihood (the paper's Section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.frames import as_table
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, with_hidden
from conjoin.errors import DataError, ModelError, names_lack_of_memory
from conjoin.inference.chain import Sampler
from conjoin.inference.completion import MAX_CELLS, Completion
from conjoin.inference.random_state import RandomState, seed_sequence
from conjoin.jobs import run
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network, takes_estimators
from conjoin.scoring.result import Score

BATCHES = 25
"""Number of parts in which the sweeps of a chain are summed, for standard errors."""

ROWS_PER_TASK = 256
"""Number of rows of evidence that one task answers, whatever the number of jobs."""

Sets = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class CMLL(Score):
    """The conditional marginal log-likelihood of a network on a table.

    The score of a row is the sum over its variables of log P(x_i | the variables of other sets).
    """

    mc_stderr: (
        float  # the part of the error of the mean that comes from sampling; 0 if all is exact
    )
    exact: float  # the fraction of the log marginals that are exact
    sets: Sets  # the sets of variables that were used

    def report(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        more = {"mc_stderr": self.mc_stderr, "exact": self.exact, "sets": self.sets}
        return {**super().report(), **more}

    def notes(self) -> list[str]:
        """Return the sampling error and the sets, one sentence per line."""
        lines = [f"{self.exact:.2%} exact; sampling adds an error of {self.mc_stderr:.6f}"]
        lines = [] if self.exact == 1 else lines
        return lines + [f"set {k}: {', '.join(part)}" for k, part in enumerate(self.sets, 1)]

    def __repr__(self) -> str:
        return (
            f"<CMLL: {self.mean:.4f} ± {self.stderr:.4f} on {self.rows:,} rows, "
            f"{len(self.sets)} sets, Monte Carlo error {self.mc_stderr:.4f}, "
            f"{self.exact:.0%} exact>"
        )


def random_sets(domain: Domain, count: int = 4, random_state: RandomState = 0) -> Sets:
    """Return a random partition of the variables into sets of about the same size.

    Examples
    --------
    >>> sets = random_sets(Domain.numbered([2] * 7), 3)
    >>> [len(part) for part in sets], len(set().union(*sets))
    ([3, 2, 2], 7)
    """
    if count < 1:
        raise ModelError(f"the number of sets must be 1 or more, not {count}")
    mixed = np.random.default_rng(seed_sequence(random_state)).permutation(len(domain))
    parts = [sorted(mixed[k::count].tolist()) for k in range(count)]
    return tuple(tuple(domain.names[v] for v in part) for part in parts if part)


def as_sets(
    domain: Domain,
    sets: int | Mapping[str, Any] | Iterable[Iterable[str]],
    random_state: RandomState = 0,
) -> Sets:
    """Return sets of variables given as a number, as {name: set}, or as lists of names."""
    if isinstance(sets, int):
        return random_sets(domain, sets, random_state)
    if isinstance(sets, Mapping):
        labels = list(dict.fromkeys(sets.values()))
        listed = [tuple(n for n, at in sets.items() if at == label) for label in labels]
    else:
        listed = [tuple(part) for part in sets]
    names = [name for part in listed for name in part]
    for name in names:
        domain.index(name)
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise DataError(f"{twice[0]!r} is in two sets; each variable must be in one")
    absent = sorted(set(domain.names) - set(names))
    if absent:
        raise DataError(f"{absent[0]!r} is in no set; each variable must be in one")
    return tuple(part for part in listed if part)


@takes_estimators
@names_lack_of_memory
def cmll(
    model: Network,
    data: Any,
    *,
    sets: int | Mapping[str, Any] | Iterable[Iterable[str]] = 4,
    burn_in: int = 100,
    samples: int = 1000,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> CMLL:
    """Score a network by the marginals of a quarter of the variables given the others, in each row.

    The variables are divided into sets. The score of a row is the sum over its variables of the log
    of the variable's marginal probability given the values of all variables in other sets. Marginals
    are averages of conditional distributions over Gibbs sweeps. They are exact for variables that
    depend on no other free variable and, if the network is a joint distribution, for components of few
    states, which are enumerated. In a network with hidden columns, which are summed out, all are exact.

    Parameters
    ----------
    model : Network or JointModel
        A dependency, Markov or Bayesian network.
    data : Table, array or frame
        The rows. Missing values are not scored; they are free variables whatever their set.
    sets : int, mapping or lists of names
        The number of sets into which the variables are divided at random, the set of each variable, or
        the sets.
    burn_in, samples : int
        Number of Gibbs sweeps that are discarded, and of those that count, for each row and set.
    random_state : int or Generator
        The random numbers of the partition and of the chains.
    n_jobs : int, optional
        Number of blocks of rows that are scored in parallel; results do not depend on it.

    Returns
    -------
    CMLL

    Examples
    --------
    >>> from conjoin import Features, MarkovNetwork, Table
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 1})]))
    >>> result = cmll(mn, Table.from_rows(domain, [(1, 1)]), sets=[["a"], ["b"]])
    >>> round(result.mean, 4), result.exact  # 2 log sigmoid(1)
    (-0.6265, 1.0)
    """
    domain = model.domain.observed
    table = as_table(data, domain).over(domain)
    seed = seed_sequence(random_state)
    chosen = as_sets(domain, sets, seed)
    sweeps = _Sweeps.of(burn_in, samples)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    if not weights.sum() > 0:
        raise DataError("the table has no rows of positive weight to score")
    lacking = table.codes == table.missing
    cells = np.zeros(table.codes.shape)
    variance, exact = 0.0, 0
    for part, part_seed in zip(chosen, seed.spawn(len(chosen)), strict=True):
        at = np.array([domain.index(name) for name in part], np.int64)
        evidence = table.codes.copy()
        evidence[:, at] = table.missing
        first, evidence_of = distinct_rows(evidence)  # rows with equal evidence share an answer
        evidence = with_hidden(model.domain, evidence[first])
        p, sampled = _exact_marginals(model, evidence, sweeps.max_cells(len(at)))
        seeds = part_seed.spawn(len(first))
        members = np.argsort(evidence_of, kind="stable")
        bounds = np.searchsorted(evidence_of[members], np.arange(len(first) + 1))
        tasks, places = [], []
        for low in range(0, len(first), ROWS_PER_TASK):
            some = slice(low, low + ROWS_PER_TASK)
            rows = members[bounds[low] : bounds[min(some.stop, len(first))]]
            tasks.append(
                (
                    model, sweeps, evidence[some], seeds[some], p[some], sampled[some],
                    evidence_of[rows] - low, table.codes[rows], weights[rows], at,
                )
            )  # fmt: skip
            places.append(np.ix_(rows, at))
        scored = run(_score, tasks, n_jobs, "scoring")
        for place, (logs, part_variance, part_exact) in zip(places, scored, strict=True):
            cells[place] = logs
            variance += part_variance
            exact += part_exact
    by_variable = (weights @ cells) / np.maximum(weights @ ~lacking, 1e-300)
    count = int((~lacking).sum())
    return CMLL(
        "cmll",
        cells.sum(axis=1),
        weights,
        dict(zip(domain.names, by_variable.tolist(), strict=True)),
        count,
        float(np.sqrt(variance) / weights.sum()),
        exact / count if count else 1.0,
        chosen,
    )


class _Sweeps(NamedTuple):
    """How many sweeps count, in how many parts, after a burn-in."""

    burn_in: int
    samples: int
    batches: int

    @classmethod
    def of(cls, burn_in: int, samples: int) -> _Sweeps:
        """Round the sweeps up to whole batches."""
        if burn_in < 0 or samples < 2:
            raise ModelError("burn_in must not be negative, samples must be 2 or more")
        batches = min(BATCHES, samples)
        return cls(burn_in, -(-samples // batches) * batches, batches)

    def max_cells(self, variables: int) -> int:
        """Return the number of cells up to which exact answers are no slower than sampling."""
        return (self.burn_in + self.samples) * variables // 4


def _exact_marginals(
    model: Network, evidence: Codes, max_cells: int
) -> tuple[FloatArray, BoolArray]:
    """Return the distributions of missing values, side by side, and which of them must be sampled."""
    cards = model.domain.cards
    if isinstance(model, DependencyNetwork):
        p, sampled = np.zeros((len(evidence), int(cards.sum()))), (evidence >= cards) & (cards > 1)
    else:
        limit = MAX_CELLS if model.domain.hidden.any() else max_cells
        p, sampled = Completion(model, evidence, max_cells=limit).exact_marginals()
    p[:, (np.cumsum(cards) - cards)[cards == 1]] = 1.0
    return p, sampled


def _score(
    model: Network,
    sweeps: _Sweeps,
    evidence: Codes,
    seeds: list[np.random.SeedSequence],
    p: FloatArray,
    sampled: BoolArray,
    evidence_of: IntArray,
    codes: Codes,
    weights: FloatArray,
    at: IntArray,
) -> tuple[FloatArray, float, int]:
    """Score the variables `at` of rows; `evidence_of` says which row of evidence each of them has.

    Returns log marginals, the variance of their weighted sum, and how many are exact.
    """
    cards = model.domain.cards
    known = codes[:, at] < cards[at]
    state = (np.cumsum(cards) - cards)[at] + np.where(known, codes[:, at], 0)
    variance = 0.0
    for e in np.flatnonzero(sampled.any(axis=1)).tolist():
        sums, sampled[e] = _sample(model, sweeps, evidence[e], sampled[e], seeds[e])
        drawn = sums.any(axis=0)
        p[e, drawn] = sums[:, drawn].sum(axis=0) / sweeps.samples
        # The error of a sum of logs of means, to first order, from the batch means; rows with the same
        # evidence share it.
        rows = np.flatnonzero(evidence_of == e)
        means = p[e, state[rows]]
        counts = known[rows] & sampled[e, at] & (means > 0)
        scale = np.where(counts, weights[rows, None], 0.0) / np.where(counts, means, 1.0)
        pulls = (sums[:, state[rows]] * scale).sum(axis=(1, 2)) * sweeps.batches / sweeps.samples
        variance += float(pulls.var(ddof=1)) / sweeps.batches
    with np.errstate(divide="ignore"):
        logs = np.where(known, np.log(p[evidence_of[:, None], state]), 0.0)
    return logs, variance, int((known & ~sampled[evidence_of][:, at]).sum())


def _sample(
    model: Network, sweeps: _Sweeps, row: Codes, drawn: BoolArray, seed: np.random.SeedSequence
) -> tuple[FloatArray, BoolArray]:
    """Return sums of conditionals, batches by states, and which variables depend on others drawn."""
    cards = model.domain.cards
    fixed = np.flatnonzero((row < cards) | (cards == 1))
    given = dict(zip(fixed.tolist(), np.where(cards == 1, 0, row)[fixed].tolist(), strict=True))
    sampler = Sampler(model.form, given, np.flatnonzero(drawn))
    chain = sampler.chain(seed, sweeps.burn_in)
    depends = np.zeros(len(cards), bool)
    for features in (sampler.plain, sampler.soft):
        of, own = features.entry_feature, features.own
        together = np.diff(features.first)[of] > 1
        counts = together & ((own[of] < 0) | (own[of] == np.arange(len(of))))
        depends[features.test_var[features.test[counts]]] = True
    return chain.run(sweeps.samples, batches=sweeps.batches).sums, drawn & depends
