"""Learning where numbers lie within their states: `FineNumbers`, by expectation maximisation.

The means of normal scores are ridge regressions on the states of all columns. Along the order of a
column of numbers, effects are shrunk towards a line. The effects of each class are shrunk towards those
of all rows together, and its covariance towards theirs. Held-out rows choose the number of classes and
the shrinkage. All steps are sums over rows: counts of pairs of states, and sums of scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.inference.fine_answers import FineTerms, fine_terms, with_usual_masses
from conjoin.inference.joint_rows import JointRows
from conjoin.inference.number_distribution import log_masses
from conjoin.models.fine_numbers import FineNumbers, scored_columns
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress


class Setting(NamedTuple):
    """How much the fine part may vary."""

    classes: int
    common: float  # the precision of effects that all classes share, in rows
    own: float  # the precision of what a class adds
    # The precision of the slope of effects along the order of a column of numbers; None if effects are
    # shrunk towards 0 like all others, so that a number also tells of other columns what its state tells
    line: float | None


CLASSES, LINES = (1, 4, 16), (1.0, None)
OWN, COMMON_OF_ONE, COMMON = 100.0, 100.0, 30.0
SIMPLE = Setting(1, COMMON_OF_ONE, OWN, LINES[0])
"""What held-out rows choose from. Effects that all classes share are shrunk more if there is only one."""

BROADER = (1.0, 1.5, 2.25)
"""Factors of covariances that held-out rows choose from: numbers of a row can be too sure together."""

ENOUGH_ROWS, MOST_CLASSES = 12_000, 64
"""If the maximum number of classes was the best choice, from this number of rows on there are more."""

MOST_NUMBERS = 100
"""With more columns of numbers than this, only intervals count: covariances would take too long."""

ROWS_PER_CLASS = 60
"""Minimum number of rows per class."""

STEPS, LAST_STEPS = 10, 6
"""Number of steps of expectation maximisation, and of those from all rows after a fit to some of them."""

CHOOSING_ROWS = 10_000
"""Maximum number of rows from which settings are learned to choose among them."""

CHOOSING_PARTS = 2
"""Maximum number of parts that settings are chosen by."""

JUDGING_ROWS, KEEPING_ROWS, MANY_NUMBERS = 1_600, 600, 12
"""Maximum number of rows of a part that judge settings, and which numbers are kept; maximum number of
numbers that are left out one by one."""

USUAL_ROWS = 4_000
"""Maximum number of rows from which the usual masses of intervals are learned."""

LOWEST, MIN_GAIN = -14.0, 1e-2
"""The lowest log-probability of a state that counts, and what leaving out a number must gain, in nats."""

GATE_ROWS = 5.0
"""The number of rows that the usual probability of a state counts for in that of a class."""

SMALLEST_SHARE = 1e-3
"""A class does not learn from rows that it explains by less than this."""

SMALLEST_VARIANCE = 1e-8
"""What is added to the variance of every score."""

SMALLEST_SIZE = 1e-6
"""The smallest eigenvalue of correlations of pairs."""

LARGEST_CELL = 0.05
"""Maximum variance of a score within the step of its column that covariances allow for."""

BROAD = 9.0
"""The first class is a background: the covariance of all rows, times this."""


def learn_fine(
    table: Table,
    part: IntArray | None = None,
    networks: Sequence[MarkovNetwork] = (),
    *,
    random_state: int | np.random.Generator = 0,
) -> FineNumbers | None:
    """Learn the fine part of a joint.

    `table`: complete states, and numbers of which some may be missing. `networks`: distributions of the
    states, each of which has not learned from one part of the rows, which chooses settings by it. `part`:
    the number of the part that each row belongs to. Without networks, nothing is chosen.
    """
    names = tuple(scored_columns(table.domain))
    if not names or len(names) > MOST_NUMBERS:
        return None
    rows = ScoredRows.of(table, names)
    if part is None:
        return _usual(fit(rows, SIMPLE), rows)
    rng = np.random.default_rng(random_state)
    judges = [_Judge.of(rows, part == k, network, rng) for k, network in enumerate(networks)]
    best = _best(judges[:CHOOSING_PARTS])
    best.fits.extend(Trial.of(best.setting, judges[CHOOSING_PARTS:]).fits)
    setting, fits = best.setting, best.fits
    if setting.classes == CLASSES[-1] and len(rows.codes) >= ENOUGH_ROWS:
        setting = setting._replace(classes=MOST_CLASSES)
    if setting != best.setting or any(judge.learned_from_some for judge in judges):
        fits = [_usual(fit(judge.rest, setting), judge.rest) for judge in judges]
    worse = tuple(np.flatnonzero(_gains(judges, fits) < 0).tolist())
    if worse:
        rows = replace(rows, dropped=worse)
        judges = [judge.without(worse) for judge in judges]
        fits = [_usual(fit(judge.rest, setting), judge.rest) for judge in judges]
    judges = [judge.by_fewer_rows() for judge in judges]

    def broader(factor: float) -> list[FineNumbers]:
        return [replace(fine, covariances=factor * fine.covariances) for fine in fits]

    factor = max(BROADER, key=lambda factor: _gains(judges, broader(factor)).sum())
    kept = _kept_numbers(judges, broader(factor))
    if not kept:
        return None
    fine = fits[0] if len(judges) == 1 else fit(rows, setting, fits[0])
    fine = replace(fine, covariances=factor * fine.covariances)
    return _usual(fine.of_numbers(kept).in_single_precision(), rows)


def _usual(fine: FineNumbers, rows: ScoredRows) -> FineNumbers:
    """Return the fine part with the usual masses of intervals, from some of the rows."""
    some = rows.select(np.arange(min(len(rows.codes), USUAL_ROWS)))
    return with_usual_masses(fine, some.codes, some.scores_of(fine.names), some.weights)


class Trial(NamedTuple):
    """Fits with one setting, one for each part that is held out."""

    setting: Setting
    fits: list[FineNumbers]
    gain: float  # how much better held-out rows are predicted

    @classmethod
    def of(cls, setting: Setting, judges: Sequence[_Judge]) -> Trial:
        """Return the fits, and how good they are."""
        fits = [_usual(fit(judge.learned, setting), judge.learned) for judge in judges]
        return cls(setting, fits, float(_gains(judges, fits).sum()) if fits else 0.0)


def _gains(judges: Sequence[_Judge], fits: Sequence[FineNumbers]) -> FloatArray:
    """Return the gains of all columns; those of numbers that get worse are 0: they can be left out."""
    pairs = zip(judges, fits, strict=True)
    gains = np.mean([judge.gains(fine) for judge, fine in pairs], axis=0)
    numbers = np.array([variable.numbers is not None for variable in fits[0].domain], bool)
    return np.asarray(np.where(numbers, np.maximum(gains, 0.0), gains))


def _best(judges: Sequence[_Judge]) -> Trial:
    """Return the setting by whose fits held-out rows are predicted best.

    More classes are tried as long as that helps, with effects along a line and without.
    """
    most = max(1, min(len(judge.learned.codes) for judge in judges) // ROWS_PER_CLASS)
    best: Trial | None = None
    for classes in progress([count for count in CLASSES if count <= most], "fitting numbers"):
        common = COMMON_OF_ONE if classes == 1 else COMMON
        trials = [Trial.of(Setting(classes, common, OWN, line), judges) for line in LINES]
        better = max(trials, key=lambda trial: trial.gain)
        if best is not None and better.gain < best.gain:
            break
        best = better
    assert best is not None
    return best


def _kept_numbers(judges: Sequence[_Judge], fits: Sequence[FineNumbers]) -> list[int]:
    """Return the numbers of which more than the state counts: others make predictions worse."""

    def gain(places: list[int]) -> float:
        return float(_gains(judges, [fine.of_numbers(places) for fine in fits]).sum())

    every = list(range(len(fits[0].names)))
    whole, kept = gain(every), every
    if len(every) in range(2, MANY_NUMBERS + 1):
        without = [gain([k for k in every if k != j]) for j in every]
        kept = [j for j in every if without[j] <= whole + MIN_GAIN]
        if kept and len(kept) < len(every):
            left = gain(kept)
            whole, kept = (left, kept) if left > whole else (whole, every)
    return kept if whole > 0 else []


@dataclass(frozen=True, eq=False)
class _Judge:
    """How much better held-out rows are predicted with known scores: states, and numbers within them.

    A Gaussian can be too sure of a state, so the likelihood of all scores together is no guide to that.
    """

    learned: ScoredRows  # some of the rows that are not held out
    rest: ScoredRows  # all of these
    held: ScoredRows
    logs: list[FloatArray]  # the log-probabilities of the states of each column, numbers apart

    @classmethod
    def of(
        cls, rows: ScoredRows, held: BoolArray, network: MarkovNetwork, rng: np.random.Generator
    ) -> _Judge:
        """Return the judge by held-out rows and a network that has not learned from these."""
        kept = rows.select(np.flatnonzero(held)[:JUDGING_ROWS])
        others = rng.permutation(np.flatnonzero(~held))
        learned, rest = rows.select(others[:CHOOSING_ROWS]), rows.select(others)
        answers = JointRows(network, Table(rows.domain, kept.codes))
        with np.errstate(divide="ignore"):
            logs = [np.log(answers.states(name)) for name in rows.domain.names]
        return cls(learned, rest, kept, logs)

    @property
    def learned_from_some(self) -> bool:
        """Whether there are more rows than settings are learned from."""
        return len(self.learned.codes) < len(self.rest.codes)

    def by_fewer_rows(self) -> _Judge:
        """Return the same with fewer held-out rows."""
        few = slice(KEEPING_ROWS)
        return replace(
            self, held=self.held.select(np.arange(len(self.held.codes))[few]),
            logs=[log[few] for log in self.logs],
        )  # fmt: skip

    def without(self, columns: tuple[int, ...]) -> _Judge:
        """Return the same for fits in which numbers do not depend on some columns."""
        learned, rest = (replace(rows, dropped=columns) for rows in (self.learned, self.rest))
        return replace(self, learned=learned, rest=rest)

    def gains(self, fine: FineNumbers) -> FloatArray:
        """Return the gain of the log-probability of the state of each column."""
        held, at = self.held, np.arange(len(self.held.codes))
        found = np.zeros(len(held.domain))
        scores = held.scores_of(fine.names)
        for v, own in enumerate(held.codes.T):
            terms = fine_terms(fine, held.codes, scores, v)
            logs = self.logs[v]
            after = logs + terms.log_likelihood
            after -= np.logaddexp.reduce(after, axis=1)[:, None]
            left = np.maximum(after[at, own], LOWEST) - np.maximum(logs[at, own], LOWEST)
            found[v] = held.weights @ (left + self._within(v, fine, terms))
        return found / held.weights.sum()

    def _within(self, v: int, fine: FineNumbers, terms: FineTerms) -> FloatArray:
        """Return the gain of the log-density of a number within its interval, 0 for other columns."""
        held, result = self.held, np.zeros(len(self.held.codes))
        variable = held.domain.variables[v]
        if variable.name not in fine.names or variable.numbers is None:
            return result
        scores = held.scores[:, held.names.index(variable.name)]
        rows = np.flatnonzero(~np.isnan(scores))
        code, y = held.codes[rows, v], scores[rows, None]
        mean, sd = terms.means[rows, code], terms.sds[rows]
        ends = variable.numbers.ends[:, code, None]
        with np.errstate(divide="ignore"):
            logs = np.log(terms.shares[rows, code]) - 0.5 * ((y - mean) / sd) ** 2 - np.log(sd)
        cut = np.logaddexp.reduce(logs - log_masses(mean, sd, ends), axis=1)
        zero = np.zeros((len(rows), 1))
        usual = -0.5 * y[:, 0] ** 2 - log_masses(zero, zero + 1.0, ends)[:, 0]
        result[rows] = np.maximum(cut - usual, LOWEST)
        return result


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows as the fits need them."""

    domain: Domain
    names: tuple[str, ...]  # the columns that have scores
    codes: IntArray  # complete
    scores: FloatArray  # NaN where a number has none
    weights: FloatArray
    centers: list[FloatArray | None]  # of the states of each column of numbers, in normal scores
    cells: FloatArray  # the variance of each score within a step of its column
    dropped: tuple[int, ...] = ()  # columns that no mean depends on

    @classmethod
    def of(cls, table: Table, names: tuple[str, ...]) -> ScoredRows:
        """Return the normal scores of numbers, and what the states of columns stand for."""
        from scipy.special import ndtri

        domain, codes = table.domain, table.codes.astype(np.int64)
        weights = np.ones(len(table)) if table.weights is None else table.weights
        scores, cells = np.empty((len(codes), len(names))), np.zeros(len(names))
        for j, name in enumerate(names):
            states, values = domain.numbers(name), table.column(name)
            scores[:, j] = states.scores(values)
            inside = np.flatnonzero(~np.isnan(scores[:, j]))
            low, high = states.map.cell(values[inside])
            if len(inside):
                cells[j] = min(float(np.mean((high - low) ** 2)) / 12, LARGEST_CELL)
        centers: list[FloatArray | None] = []
        for v, variable in enumerate(domain):
            count = np.bincount(codes[:, v], weights, minlength=len(variable)) + 0.5
            count = count[: len(variable.values)]
            middle = (np.cumsum(count) - count / 2) / count.sum()
            center = np.append(ndtri(middle), np.zeros(int(variable.absent)))
            centers.append(center if variable.ordered else None)
        return cls(domain, names, codes, scores, weights, centers, cells)

    def select(self, rows: IntArray) -> ScoredRows:
        """Return some of the rows."""
        return ScoredRows(
            self.domain, self.names, self.codes[rows], self.scores[rows], self.weights[rows],
            self.centers, self.cells, self.dropped,
        )  # fmt: skip

    def scores_of(self, names: Sequence[str]) -> FloatArray:
        """Return the scores of some of the numbers."""
        return self.scores[:, [self.names.index(name) for name in names]]

    def indicators(self) -> Any:
        """Return which states hold, rows by states of all columns."""
        from scipy.sparse import csr_array

        first = np.cumsum(self.domain.cards) - self.domain.cards
        used = np.setdiff1d(np.arange(len(self.domain)), self.dropped)
        places = (self.codes + first)[:, used].ravel()
        starts = np.arange(len(self.codes) + 1) * len(used)
        shape = len(self.codes), int(self.domain.cards.sum())
        return csr_array((np.ones(len(places)), places, starts), shape=shape)

    def precision(self, strength: float, line: float | None) -> FloatArray:
        """Return the precision of effects, or of their deviations from a line."""
        result = np.eye(int(self.domain.cards.sum())) * strength
        if line is None:
            return result
        first = np.cumsum(self.domain.cards) - self.domain.cards
        for low, center in zip(first.tolist(), self.centers, strict=True):
            if center is not None:
                part = slice(low, low + len(center))
                scale = strength**2 / (line + strength * float(center @ center))
                result[part, part] -= scale * np.outer(center, center)
        return result


def fit(rows: ScoredRows, setting: Setting, start: FineNumbers | None = None) -> FineNumbers:
    """Fit the fine part with given settings, from an earlier fit to some of the rows if there is one."""
    return _Fit(rows, setting, np.random.default_rng(0)).run(start)


class _Fit:
    """Expectation maximisation; scores that are missing are drawn anew in every step."""

    def __init__(self, rows: ScoredRows, setting: Setting, rng: np.random.Generator) -> None:
        self.rows, self.setting, self.rng = rows, setting, rng
        self.x = rows.indicators()
        self.holes = np.isnan(rows.scores)
        self.total = float(rows.weights.sum())

    def run(self, start: FineNumbers | None) -> FineNumbers:
        """Return the fine part."""
        fine, y = self._common()
        if self.setting.classes == 1:
            return fine
        shares = self._start(y) if start is None else self._shares(start, y)
        for _ in range(STEPS if start is None else LAST_STEPS):
            new = self._maximised(fine, y, shares)
            shares = self._shares(new, y)
            y = self._filled(new, y, shares)
        return new

    def _shares(self, fine: FineNumbers, y: FloatArray) -> FloatArray:
        """Return how probable each class is in each row."""
        logs = fine.log_densities(self.rows.codes, y)
        return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]))

    def _common(self) -> tuple[FineNumbers, FloatArray]:
        """Return the fit with one class, by known scores, and the scores with missing ones drawn."""
        rows, weights = self.rows, self.rows.weights
        known = ~self.holes
        y = np.where(known, rows.scores, 0.0)
        counts = np.maximum(weights @ known, 1e-9)
        middle = (weights @ y) / counts
        effects = np.zeros((self.x.shape[1], y.shape[1]))
        patterns, group = np.unique(known, axis=1, return_inverse=True)
        precision = rows.precision(self.setting.common, self.setting.line)
        for k, pattern in enumerate(patterns.T):
            numbers, used = np.flatnonzero(group.ravel() == k), np.flatnonzero(pattern)
            target = y[np.ix_(used, numbers)] - middle[numbers]
            effects[:, numbers] = _ridge(self.x[used], target, weights[used], precision)
        residual = np.where(known, y - middle - self.x @ effects, 0.0)
        fine = FineNumbers(
            rows.domain, rows.names, np.zeros(1), np.zeros((1, len(effects))), middle[None],
            effects[None], self._covariance(residual, known)[None],
        )  # fmt: skip
        return fine, self._filled(fine, y, np.ones((len(y), 1)))

    def _covariance(self, residual: FloatArray, known: BoolArray) -> FloatArray:
        """Return the covariance of residuals, which are 0 where they are not known."""
        weights, prior = self.rows.weights, len(self.rows.names) + 2.0
        spread = (residual * weights[:, None]).T @ residual
        both = (known * weights[:, None]).T @ known
        sds = np.sqrt(np.diag(spread) / np.maximum(np.diag(both), 1e-9) + SMALLEST_VARIANCE)
        correlation = spread / (both + prior) / np.outer(sds, sds)
        np.fill_diagonal(correlation, 1.0)
        if self.holes.any():  # correlations of pairs need not belong to one covariance
            size, axes = np.linalg.eigh(correlation)
            correlation = (axes * np.maximum(size, SMALLEST_SIZE)) @ axes.T
        covariance = correlation * np.outer(sds, sds) + np.diag(self.rows.cells)
        return np.asarray((covariance + covariance.T) / 2)

    def _start(self, y: FloatArray) -> FloatArray:
        """Return shares of the classes in each row: clusters of rows with similar numbers."""
        count = self.setting.classes
        centers = y[self.rng.choice(len(y), count, replace=False)]
        for _ in range(15):
            distance = (centers**2).sum(axis=1) - 2 * y @ centers.T
            nearest = distance.argmin(axis=1)
            size = np.bincount(nearest, minlength=count)
            for z in np.flatnonzero(size).tolist():
                centers[z] = y[nearest == z].mean(axis=0)
        return np.asarray(0.9 * np.eye(count)[nearest] + 0.1 / count)

    def _gates(self, weighted: FloatArray) -> FloatArray:
        """Return what states add to the log-odds of classes.

        They are half as sure as a naive Bayes classifier, because columns repeat each other.
        """
        count = (self.x.T @ weighted).T
        usual = np.maximum(count.sum(axis=0), 1e-9) / self.total
        size = weighted.sum(axis=0)[:, None]
        ratio = (count + GATE_ROWS * usual) / ((size + GATE_ROWS) * usual)
        return np.asarray(np.where(count.sum(axis=0) > 0, 0.5 * np.log(ratio), 0.0))

    def _maximised(self, common: FineNumbers, y: FloatArray, shares: FloatArray) -> FineNumbers:
        """Return the classes that explain their shares of the rows best."""
        rows, count, numbers = self.rows, self.setting.classes, y.shape[1]
        effects = np.repeat(common.effects, count, axis=0)
        intercepts = np.repeat(common.intercepts, count, axis=0)
        covariances = np.repeat(common.covariances, count, axis=0)
        covariances[0] *= BROAD
        line = self.setting.line
        precision = rows.precision(self.setting.own, None if line is None else 10 * line)
        weighted = shares * rows.weights[:, None]
        size = weighted.sum(axis=0)
        for z in range(1, count):
            used = np.flatnonzero(shares[:, z] > SMALLEST_SHARE)
            left = y[used] - common.means(rows.codes[used])[0]
            shift = (weighted[used, z] @ left) / (size[z] + 1.0)
            added = _ridge(self.x[used], left - shift, weighted[used, z], precision)
            effects[z] += added
            intercepts[z] += shift
            residual = left - self.x[used] @ added - shift
            spread = (residual * weighted[used, z][:, None]).T @ residual + size[z] * np.diag(
                rows.cells
            )
            prior = numbers + 2.0
            covariance = (spread + prior * common.covariances[0]) / (size[z] + prior)
            covariances[z] = (covariance + covariance.T) / 2
        log_shares = np.log((size + 1) / (size.sum() + count))
        return FineNumbers(
            rows.domain, rows.names, log_shares, self._gates(weighted), intercepts, effects, covariances,
        )  # fmt: skip

    def _filled(self, fine: FineNumbers, y: FloatArray, shares: FloatArray) -> FloatArray:
        """Return the scores with missing ones drawn given the others of their row."""
        lacking = np.flatnonzero(self.holes.any(axis=1))
        if not len(lacking):
            return y
        y = y.copy()
        drawn = (shares[lacking].cumsum(axis=1) > self.rng.random((len(lacking), 1))).argmax(axis=1)
        for z in np.unique(drawn).tolist():
            own = lacking[drawn == z]
            mean = fine.means(self.rows.codes[own])[z]
            precision = np.linalg.inv(fine.covariances[z])
            for j in np.flatnonzero(self.holes[own].any(axis=0)).tolist():
                at = np.flatnonzero(self.holes[own, j])
                residual = y[own[at]] - mean[at]
                residual[:, j] = 0.0
                center = mean[at, j] - residual @ precision[j] / precision[j, j]
                y[own[at], j] = center + self.rng.normal(size=len(at)) / np.sqrt(precision[j, j])
        return y


def _ridge(x: Any, y: FloatArray, weights: FloatArray, precision: FloatArray) -> FloatArray:
    """Return the effects of states in a weighted ridge regression."""
    weighted = x.multiply(weights[:, None]).tocsr()
    gram = (x.T @ weighted).toarray() + precision
    return np.asarray(cho_solve(cho_factor(gram, overwrite_a=True), weighted.T @ y))
