"""Conditional marginal log-likelihood (the paper's Section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray, distinct
from conjoin.data.domain import Domain
from conjoin.data.frames import as_table
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Codes, Table
from conjoin.errors import DataError, ModelError, names_lack_of_memory
from conjoin.inference.batch_marginals import ROWS, BatchMarginals, Settings
from conjoin.inference.chain import variable_order
from conjoin.inference.exact import marginal_rows
from conjoin.inference.random_state import RandomState, seed_sequence
from conjoin.jobs import run
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.network import Network, takes_estimators
from conjoin.progress import progress
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
    order: Sequence[str] | None = None,
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
    order : sequence of str, optional
        The order of a sweep, by default the order of the domain.
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
    settings = Settings.of(burn_in, samples)
    sweep = variable_order(domain, order)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    if not weights.sum() > 0:
        raise DataError("the table has no rows of positive weight to score")
    lacking = table.codes == table.missing
    cells = np.zeros(table.codes.shape)
    variance, exact, scored = 0.0, 0, 0
    if model.domain.hidden.any():
        for part in progress(chosen, "scoring"):
            _score_exactly(model, table, lacking, [domain.index(name) for name in part], cells)
    else:
        blocks: list[tuple[_Block]] = []
        for part, own_seed in zip(chosen, seed.spawn(len(chosen)), strict=True):
            at = np.array([domain.index(name) for name in part], np.int64)
            blocks += [
                (block,)
                for block in _blocks(
                    model.form, table.codes, weights, lacking, at, sweep, settings, own_seed
                )
            ]
        for score in run(_score, blocks, n_jobs, "scoring"):
            cells[score.rows[:, None], score.targets] = score.logs
            variance += score.variance
            exact += score.exact
            scored += score.logs.size
    by_variable = (weights @ cells) / np.maximum(weights @ ~lacking, 1e-300)
    return CMLL(
        "cmll",
        cells.sum(axis=1),
        weights,
        dict(zip(domain.names, by_variable.tolist(), strict=True)),
        int((~lacking).sum()),
        float(np.sqrt(variance) / weights.sum()),
        exact / scored if scored else 1.0,
        chosen,
    )


def _score_exactly(
    model: Network, table: Table, lacking: BoolArray, at: list[int], cells: FloatArray
) -> None:
    """Set the scores of a set of variables of a network with hidden columns, by exact inference."""
    evidence = table.codes.copy()
    evidence[:, at] = table.missing
    marginals = marginal_rows(model, Table.adopt(table.domain, evidence))
    for i in at:
        rows = np.flatnonzero(~lacking[:, i])
        with np.errstate(divide="ignore"):
            cells[rows, i] = np.log(marginals[i][rows, table.codes[rows, i]])


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows with the same free variables and few different rows of evidence."""

    engine: BatchMarginals
    codes: Codes
    weights: FloatArray
    rows: IntArray  # their numbers in the table
    evidence: IntArray  # which row of evidence each of them has, ascending
    targets: IntArray  # the free variables that are scored
    counters: UIntArray  # the random numbers of each row of evidence


class _BlockScore(NamedTuple):
    """The logarithms of the marginals of a block, rows by targets, and the variance of their sum."""

    rows: IntArray
    targets: IntArray
    logs: FloatArray
    variance: float
    exact: int


def _blocks(
    form: LogLinearForm,
    codes: Codes,
    weights: FloatArray,
    lacking: BoolArray,
    at: IntArray,
    sweep: IntArray,
    settings: Settings,
    seed: np.random.SeedSequence,
) -> Iterator[_Block]:
    """Yield blocks of rows for one set of variables; rows with equal evidence share an answer."""
    cards = form.domain.cards
    codes = np.where(cards == 1, codes.dtype.type(0), codes)  # there is only one possible value
    patterns, pattern_of = distinct_rows(lacking.astype(np.uint8))
    rng = np.random.default_rng(seed)
    for pattern in range(len(patterns)):
        rows = np.flatnonzero(pattern_of == pattern)
        free = distinct(np.concatenate([at, np.flatnonzero(lacking[rows[0]])]))
        free = free[cards[free] > 1]
        targets = at[~lacking[rows[0]][at]]
        targets = targets[cards[targets] > 1]
        if not len(targets):
            continue
        evidence = codes[rows]
        evidence[:, free] = 0
        engine = BatchMarginals(form, free, sweep, settings)
        first, evidence_of = distinct_rows(evidence)
        counters = rng.integers(0, 2**64, len(first), dtype=np.uint64)
        order = engine.by_similarity(evidence[first])
        evidence_of, counters = np.argsort(order)[evidence_of], counters[order]
        members = np.argsort(evidence_of, kind="stable")
        bounds = np.searchsorted(evidence_of[members], np.arange(len(first) + 1))
        for low in range(0, len(first), ROWS):
            part = members[bounds[low] : bounds[min(low + ROWS, len(first))]]
            yield _Block(
                engine, codes[rows[part]], weights[rows[part]], rows[part], evidence_of[part] - low,
                targets, counters[low : low + ROWS],
            )  # fmt: skip


def _score(block: _Block) -> _BlockScore:
    """Score the rows of a block."""
    engine, evidence = block.engine, block.evidence
    first = np.searchsorted(evidence, np.arange(len(block.counters)))
    result = engine.marginals(block.codes[first], block.counters)
    place = np.searchsorted(engine.free, block.targets)
    state = (np.cumsum(engine.cards) - engine.cards)[place] + block.codes[:, block.targets]
    p = result.mean[evidence[:, None], state]
    exact = result.exact[evidence][:, place]
    with np.errstate(divide="ignore"):
        logs = np.log(p)
    variance = 0.0
    if not exact.all():
        # The error of a sum of logs of means, to first order, from the batch means; rows with the same
        # evidence share it.
        scale = np.where((p > 0) & ~exact, block.weights[:, None], 0.0) / np.where(p > 0, p, 1.0)
        sums = result.batch[:, state, evidence[:, None]]  # batches by rows by targets
        by_row = np.einsum("brt,rt->br", sums, scale)
        pulls = np.add.reduceat(by_row, first, axis=1)
        length = engine.settings.samples // len(pulls)
        variance = float((pulls.var(axis=0, ddof=1) / len(pulls)).sum()) / length**2
    return _BlockScore(block.rows, block.targets, logs, variance, int(exact.sum()))
