"""The search for a hidden column over one thin network.

Fits with few states are made first, for every kind of prior and on few rows. Their best mixture, by the
likelihood of held-out rows, tells which priors suit the table. If it has many rows, only these get more
states, as long as that helps. The thin network itself and the maximum-likelihood tree take part in the
mixture, each as one more hidden state: few rows tell more about one simple network than about many
states. If rows are dealt into folds, every fit is made for each fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.joint.batches import batches
from conjoin.joint.candidates import Effort, Fold
from conjoin.joint.hidden_column import HiddenModel
from conjoin.joint.hidden_fit import (
    MAX_ITERATIONS,
    HiddenFit,
    fit_batches,
    fit_further,
    fit_further_batches,
    fit_hidden,
)
from conjoin.joint.hidden_tables import (
    HiddenRows,
    HiddenTables,
    stacked,
    stacking_weights,
    tree_part,
)
from conjoin.joint.incomplete_rows import MarginalModel, incomplete
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress

MIN_GAIN = 1e-3
"""More states must predict held-out rows better by this, in nats per row."""

MIN_SHARE = 0.05
"""Priors whose fit has a smaller share of the best mixture get no fit with more states, in tables of many
rows."""

SMALLEST_SHARE = 1e-3
"""Fits with a smaller share of the mixture are left out."""

TRIAL_ROWS, STOPPING_ROWS = 1 << 12, 1 << 12
"""Maximum number of rows from which fits with few states are learned, and of those that tell when to
stop."""

TRIAL_STEPS = 50
"""Maximum number of steps of fits with few states, in tables of more rows than these."""

MANY_ROWS = 1 << 14
"""With more distinct rows than this, one fit is learned, from batches: its prior matters less."""

MANY_VALUES = 1 << 22
"""With more values than this (rows times columns), and more rows than those of fits with few states, fits
with many states are learned from batches, and those with few states from half as many rows."""

MIN_STATES = 4
"""A hidden column has at least this number of states per fit."""

MAX_SUMS = 1 << 13
"""Maximum number of times that rows are summed over their missing values to learn fits further."""

Rows = tuple[Codes, FloatArray]
"""Distinct rows and their weights."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Fits of a hidden column for each fold, and their shares of the mixture."""

    fits: list[list[HiddenFit]]  # of each fold
    shares: FloatArray  # of each kind of fit, of the thin network and of the tree
    log_density: FloatArray  # the log-probability of each held-out row

    @property
    def states(self) -> int:
        """The number of hidden states of each fit."""
        return self.fits[0][0].model.tables.states

    @property
    def fit_shares(self) -> FloatArray:
        """The shares of the fits."""
        return self.shares[: len(self.fits[0])]

    def learned_further(
        self,
        everything: Table | None,
        lacking: Table | None,
        steps: int,
        rng: np.random.Generator,
    ) -> Mixture:
        """Return the mixture with its fits learned further from all rows, if there are more of these.

        `lacking`: the same rows with their missing values. These are summed out, unless that takes too
        long. `steps`: the number of batches that fits were learned from, if there are many rows.
        """
        if everything is None:
            return self
        used = [
            fit for fits in self.fits for fit, q in zip(fits, self.fit_shares, strict=True) if q
        ]
        passes = len(used) + sum(fit.iterations for fit in used) // 4
        if lacking is None or passes * incomplete(lacking).sum() > MAX_SUMS:
            lacking = None
        else:
            everything = lacking.select(~incomplete(lacking))
        tables = self.fits[0][0].model.tables
        rows = tables.rows(*merge_rows(everything.codes, everything.weights))

        def further(fit: HiddenFit) -> HiddenFit:
            if _in_batches(rows.codes):
                return fit_further_batches(fit, rows, rng, -(-steps // 4))
            if lacking is not None:
                fit = replace(fit, model=MarginalModel(fit.model, lacking))
            return fit_further(fit, rows)

        fits = [
            [further(fit) if q else fit for fit, q in zip(fold, self.fit_shares, strict=True)]
            for fold in self.fits
        ]
        return replace(self, fits=fits)

    def network(self, base: MarkovNetwork, tree: MarkovNetwork, name: str) -> MarkovNetwork:
        """Return the fits of all folds, a thin network and the tree as one network.

        `name`: the name of the hidden column.
        """
        tables = self.fits[0][0].model.tables
        parts = [fit.part() for fits in self.fits for fit in fits]
        parts += [tables.part(base), tree_part(tables, tree)]
        shares = np.tile(self.fit_shares / len(self.fits), len(self.fits))
        return stacked(tables, parts, np.append(shares, self.shares[-2:]), name)

    def of_folds(self, bases: Sequence[MarkovNetwork], name: str) -> list[MarkovNetwork]:
        """Return the mixture of each fold; the thin network stands in for the tree."""
        shares = np.append(self.fit_shares, self.shares[-2:].sum())
        networks = []
        for fits, base in zip(self.fits, bases, strict=True):
            tables = fits[0].model.tables
            parts = [*(fit.part() for fit in fits), tables.part(base)]
            networks.append(stacked(tables, parts, shares, name))
        return networks


class HiddenSearch:
    """The search over the thin networks of all folds, which have the same features.

    `cells`: the number of cells of their tables.
    """

    def __init__(
        self,
        bases: Sequence[MarkovNetwork],
        folds: Sequence[Fold],
        effort: Effort,
        cells: int,
        rng: np.random.Generator,
    ) -> None:
        self.bases, self.folds, self.effort, self.rng = bases, folds, effort, rng
        self.settings = list(effort.settings)
        self.max_states = effort.hidden_cells // (cells * len(folds))
        self.weights = np.concatenate([fold.weights for fold in folds])
        self.train: list[Rows] = [merge_rows(f.train.codes, f.train.weights) for f in folds]
        self.rows = max(len(rows[0]) for rows in self.train)
        self.reached = [-np.inf] * len(folds)  # the best score of a fit of each fold

    def best(self, others: Sequence[FloatArray]) -> Mixture | None:
        """Return the mixture that predicts held-out rows best, None if no hidden column helps.

        `others`: the log-probabilities of the held-out rows under the thin networks and the trees.
        """
        weights = self.weights / self.weights.sum()
        best, reached = None, max(float(weights @ density) for density in others)
        for fits in self._fits():
            found = self._mixed(fits, others)
            score = float(weights @ found.log_density)
            if score < reached + MIN_GAIN or not found.fit_shares.any():
                break
            best, reached = found, score
            if self.rows > TRIAL_ROWS:
                self._drop_settings(found, 1 if self.rows > MANY_ROWS else len(self.settings))
        return best

    def _drop_settings(self, found: Mixture, most: int) -> None:
        """Keep only the priors whose fits have a large share of the mixture, a maximum number of them."""
        shares = found.fit_shares[: len(self.settings)]
        order = np.argsort(-shares, kind="stable")[:most]
        kept = [i for i in order.tolist() if shares[i] >= MIN_SHARE] or order[:1].tolist()
        self.settings = [found.fits[0][i].model.priors for i in sorted(kept)]

    def _fits(self) -> Iterator[list[list[HiddenFit]]]:
        """Yield the fits of each size, for the settings that are left by then."""
        # In a part of the rows, more states may not help though they do in all of them.
        sizes = self.effort.states
        sizes = sizes if self.rows <= TRIAL_ROWS else (sizes[0], sizes[-1])
        last = 0
        for size in sizes:
            states = min(size, self.max_states // len(self.settings))
            if states <= max(last, MIN_STATES - 1):
                continue
            most = states >= min(sizes[-1], self.max_states // len(self.settings))
            last, tables = states, HiddenTables(self.bases[0], states)
            label = f"hidden columns of {states} states"
            numbers = range(len(self.folds))
            yield [
                self._of_fold(k, tables.over(self.bases[k]), most) for k in progress(numbers, label)
            ]

    def _of_fold(self, number: int, tables: HiddenTables, most: bool) -> list[HiddenFit]:
        """Return the fits of one fold with one number of states; `most`: no more states are possible."""
        train, fold = self.train[number], self.folds[number]
        if most and _in_batches(train[0]):
            rows = tables.rows(*train)
            models = [HiddenModel(tables, priors) for priors in self.settings]
            return [fit_batches(model, rows, self.rng, self.effort.batches) for model in models]
        wide = len(train[0]) <= MANY_ROWS and _in_batches(train[0])
        some = train if most else self._some(train, TRIAL_ROWS // (2 if wide else 1))
        rows = tables.rows(*some)
        stopping = tables.rows(*self._some((fold.rows, fold.weights), STOPPING_ROWS))
        steps = TRIAL_STEPS if len(train[0]) > TRIAL_ROWS and not most else MAX_ITERATIONS
        fits: list[HiddenFit] = []
        for priors in self.settings:
            model = HiddenModel(tables, priors)
            fits.append(fit_hidden(model, rows, stopping, self.rng, steps, self.reached[number]))
            self.reached[number] = max(fits[-1].score(stopping), self.reached[number])
        return fits

    def _some(self, rows: Rows, count: int, rng: np.random.Generator | None = None) -> Rows:
        """Return about a number of distinct rows, drawn in proportion to their weights."""
        codes, weights = rows
        if len(codes) <= count:
            return rows
        total = float(weights.sum())
        draws = round(count * max(1.0, total / len(codes)))
        drawn = np.bincount(next(batches(weights, draws, rng or self.rng)), minlength=len(codes))
        some = np.flatnonzero(drawn)
        return codes[some], drawn[some].astype(np.float64) * (total / draws)

    def _mixed(self, fits: list[list[HiddenFit]], others: Sequence[FloatArray]) -> Mixture:
        by_fold = [
            [fit.log_density(_rows_of(fit, fold)) for fit in own]
            for own, fold in zip(fits, self.folds, strict=True)
        ]
        densities = [np.concatenate(kind) for kind in zip(*by_fold, strict=True)] + list(others)
        shares = stacking_weights(densities, self.weights)
        shares = np.where(shares > SMALLEST_SHARE, shares, 0.0)
        shares /= shares.sum()
        with np.errstate(divide="ignore"):
            logs = np.log(shares)
        mixed: FloatArray = np.logaddexp.reduce(np.stack(densities, axis=1) + logs, axis=1)
        return Mixture(fits, shares, mixed)


def _rows_of(fit: HiddenFit, fold: Fold) -> HiddenRows:
    return fit.model.tables.rows(fold.rows, fold.weights)


def _in_batches(codes: Codes | IntArray) -> bool:
    """Return whether fits with many states are learned from batches of these rows."""
    return len(codes) > (TRIAL_ROWS if codes.size > MANY_VALUES else MANY_ROWS)
