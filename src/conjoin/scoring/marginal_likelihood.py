"""Conditional marginal log-likelihood (the paper's Section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, UIntArray
from conjoin.data.domain import Domain
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, Table, codes_of
from conjoin.errors import DataError, ModelError
from conjoin.jobs import run
from conjoin.models.network import Network
from conjoin.progress import progress
from conjoin.sampling.chain import variable_order
from conjoin.sampling.engine import BLOCK, Engine, Settings
from conjoin.sampling.rows import engine_for
from conjoin.sampling.rules import Rules
from conjoin.scoring.result import Score

Sets = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class CMLL(Score):
    """The conditional marginal log-likelihood of a network on a table.

    The score of a row is the sum over its variables of log P(x_i | the variables of other sets).

    Attributes
    ----------
    mc_stderr : float
        The part of the error of the mean that comes from sampling; 0 if everything was exact.
    exact : float
        The fraction of the log marginals that are exact.
    sets : tuple of tuple of str
        The sets of variables that were used.
    """

    mc_stderr: float
    exact: float
    sets: Sets

    def report(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        more = {"mc_stderr": self.mc_stderr, "exact": self.exact, "sets": self.sets}
        return {**super().report(), **more}

    def notes(self) -> list[str]:
        """Return the error of sampling and the sets, a sentence a line."""
        lines = [f"{self.exact:.2%} exact; sampling adds an error of {self.mc_stderr:.6f}"]
        return lines + [f"set {k}: {', '.join(part)}" for k, part in enumerate(self.sets, 1)]

    def __repr__(self) -> str:
        return (
            f"<CMLL: {self.mean:.4f} ± {self.stderr:.4f} on {self.rows:,} rows, "
            f"{len(self.sets)} sets, Monte Carlo error {self.mc_stderr:.4f}, "
            f"{self.exact:.0%} exact>"
        )


def random_sets(domain: Domain, count: int = 4, random_state: int = 0) -> Sets:
    """Return a random partition of the variables into sets of about the same size.

    Examples
    --------
    >>> sets = random_sets(Domain.numbered([2] * 7), 3)
    >>> [len(part) for part in sets], len(set().union(*sets))
    ([3, 2, 2], 7)
    """
    if count < 1:
        raise ModelError(f"the number of sets must be 1 or more, not {count}")
    mixed = np.random.default_rng(random_state).permutation(len(domain))
    parts = [sorted(mixed[k::count].tolist()) for k in range(count)]
    return tuple(tuple(domain.names[v] for v in part) for part in parts if part)


def as_sets(
    domain: Domain, sets: int | Mapping[str, Any] | Iterable[Iterable[str]], random_state: int
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


def cmll(
    model: Network,
    data: Table,
    *,
    sets: int | Mapping[str, Any] | Iterable[Iterable[str]] = 4,
    burn_in: int = 100,
    samples: int = 1000,
    order: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> CMLL:
    """Score a network by its marginals given three quarters of each row.

    The variables are divided into sets. The score of a row is the sum over its variables of the log
    of the variable's marginal probability given the values of all variables in other sets. Marginals
    are averages of conditional distributions over Gibbs sweeps; components of few states, after the
    evidence is put in, are enumerated instead, if the network has a joint distribution. Where many
    variables are free only those that depend on no other are exact.

    Parameters
    ----------
    model : Network
        A dependency, Markov or Bayesian network.
    data : Table
        The rows. Values that are missing are not scored; they are drawn along with the set, whatever
        their own set is.
    sets : int, mapping or lists of names
        How many sets to divide the variables into at random, the set of each variable, or the sets.
    burn_in, samples : int
        Gibbs sweeps that do not count, and that do, for each row and set.
    order : sequence of str, optional
        The order of a sweep, by default that of the variables.
    random_state : int
        The seed of the partition and of the chains.
    n_jobs : int, optional
        Blocks of rows that are worked on at once; results do not depend on it.

    Returns
    -------
    CMLL

    Examples
    --------
    >>> from conjoin import Features, MarkovNetwork
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 1})]))
    >>> result = cmll(mn, Table.from_rows(domain, [(1, 1)]), sets=[["a"], ["b"]])
    >>> round(result.mean, 4), result.exact  # 2 log sigmoid(1)
    (-0.6265, 1.0)
    """
    domain = model.domain
    chosen = as_sets(domain, sets, random_state)
    codes = codes_of(domain, data, complete=False)
    settings = Settings.of(burn_in, samples)
    rules = Rules.of(model)
    sweep = variable_order(domain, order)
    weights = np.ones(len(codes)) if data.weights is None else data.weights
    if not weights.sum() > 0:
        raise DataError("the table has no rows of positive weight to score")
    tasks = []
    for number, part in enumerate(chosen):
        at = np.array([domain.index(name) for name in part], np.int64)
        tasks += _tasks(
            rules, codes, weights, data.missing, at, sweep, settings, (random_state, number)
        )
    by_row = np.zeros(len(codes))
    by_variable = np.zeros(len(domain))
    variance, exact, scored = 0.0, 0, 0
    step = 64
    for low in progress(range(0, len(tasks), step), "scoring"):
        chunk = tasks[low : low + step]
        for rows, scores, variables, sums, noise, sure, count in run(_block, chunk, n_jobs):
            np.add.at(by_row, rows, scores)
            by_variable[variables] += sums
            variance += noise
            exact += sure
            scored += count
    have = weights @ (codes != data.missing)
    return CMLL(
        "cmll",
        by_row,
        weights,
        dict(zip(domain.names, (by_variable / np.maximum(have, 1e-300)).tolist(), strict=True)),
        int((codes != data.missing).sum()),
        float(np.sqrt(variance) / weights.sum()),
        exact / scored if scored else 1.0,
        chosen,
    )


def _tasks(
    rules: Rules,
    codes: Codes,
    weights: FloatArray,
    missing: int,
    at: IntArray,
    sweep: IntArray,
    settings: Settings,
    seed: tuple[int, ...],
) -> list[tuple[Any, ...]]:
    """Return blocks of rows with one set of free variables, equal evidence side by side."""
    cards = rules.domain.cards
    lacking = codes == missing
    codes = np.where(cards == 1, codes.dtype.type(0), codes)  # there is no doubt about these
    tasks: list[tuple[Any, ...]] = []
    kinds, kind_of = distinct_rows(lacking.astype(np.uint8))
    for kind in range(len(kinds)):
        pattern = np.flatnonzero(kind_of == kind)
        free = np.unique(np.concatenate([at, np.flatnonzero(lacking[pattern[0]])]))
        free = free[cards[free] > 1]
        targets = at[~lacking[pattern[0]][at]]
        targets = targets[cards[targets] > 1]
        if not len(targets):
            continue
        evidence = codes[pattern]
        evidence[:, free] = 0
        first, owner_of = distinct_rows(evidence)
        members = np.argsort(owner_of, kind="stable")
        bounds = np.searchsorted(owner_of[members], np.arange(len(first) + 1))
        engine = engine_for(rules, free.tolist(), sweep, settings)
        counters = np.random.default_rng([*seed, len(tasks)]).integers(
            0, 2**64, len(first), dtype=np.uint64
        )
        for low in range(0, len(first), BLOCK):
            some = members[bounds[low] : bounds[min(low + BLOCK, len(first))]]
            rows, owner = pattern[some], owner_of[some] - low
            tasks.append(
                (engine, codes[rows], weights[rows], rows, owner, free, targets, cards,
                 counters[low : low + BLOCK], settings)
            )  # fmt: skip
    return tasks


def _block(
    engine: Engine,
    codes: Codes,
    weights: FloatArray,
    rows: IntArray,
    owner: IntArray,
    free: IntArray,
    targets: IntArray,
    cards: IntArray,
    counters: UIntArray,
    settings: Settings,
) -> tuple[Any, ...]:
    """Score a block of rows: `owner` says which evidence each has."""
    first = np.searchsorted(owner, np.arange(len(counters)))
    mean, batch, sure = engine.marginals(codes[first], counters)
    place = np.searchsorted(free, targets)
    start = (np.cumsum(cards[free]) - cards[free])[place]
    state = start + codes[:, targets]
    p = mean[owner[:, None], state]
    with np.errstate(divide="ignore"):
        logs = np.log(p)
    # The error of a sum of logs of means, to first order, from the batch means; rows with the same
    # evidence share it.
    noise = 0.0
    if not sure.all():
        from conjoin.kernels.residual import batch_pulls

        scale = np.where((p > 0) & ~sure[owner][:, place], weights[:, None], 0.0)
        scale /= np.where(p > 0, p, 1.0)
        pulls = np.zeros((len(batch), len(counters)))
        batch_pulls(batch, state, owner, scale, pulls)
        length = settings.samples // settings.batches
        noise = float((pulls.var(axis=0, ddof=1) / len(batch)).sum()) / length**2
    return (
        rows, logs.sum(axis=1), targets, weights @ logs, noise,
        int(sure[owner][:, place].sum()), logs.size,
    )  # fmt: skip
