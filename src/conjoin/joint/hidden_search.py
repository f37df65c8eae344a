"""The search for a hidden column over one thin network.

Fits with few states are made first, for every kind of prior and on few rows. Their best mixture, by the
likelihood of held-out rows, tells which priors suit the table. If it has many rows, only these get more
states, as long as that helps. The thin network itself and the maximum-likelihood tree take part in the
mixture, each as one more hidden state: few rows tell more about one simple network than about many
states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes
from conjoin.joint.batches import batches
from conjoin.joint.hidden_column import HiddenModel, Priors
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
    Part,
    stacked,
    stacking_weights,
    tree_part,
)
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress

MIN_GAIN = 1e-3
"""More states must predict held-out rows better by this, in nats per row."""

MIN_SHARE = 0.05
"""Priors whose fit has a smaller share of the best mixture get no fit with more states, in tables of many
rows."""

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

Rows = tuple[Codes, FloatArray]
"""Distinct rows and their weights."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Networks over the tables of one thin network, and their shares of the mixture."""

    fits: list[HiddenFit]  # the fits, which come first
    shares: FloatArray  # the shares of the fits, of the thin network and of the tree
    log_density: FloatArray  # the log-probability of each held-out row

    @property
    def states(self) -> int:
        """The number of hidden states of each fit."""
        return self.fits[0].model.tables.states

    def network(
        self,
        base: MarkovNetwork,
        tree: MarkovNetwork,
        rows: Rows | None,
        name: str,
        steps: int,
        rng: np.random.Generator,
    ) -> MarkovNetwork:
        """Return the mixture as one network with a hidden column.

        `base` and `tree`: the thin network and the tree, learned from all rows. `rows`: all rows,
        from which the fits are learned further. `steps`: the number of batches that the fits were
        learned from, if there are many rows.
        """
        tables = self.fits[0].model.tables
        parts: list[Part] = []
        everything = None if rows is None else tables.rows(*rows)
        for fit, share in zip(self.fits, self.shares, strict=False):
            final = fit
            if everything is not None and share > 0:
                if _in_batches(everything.codes):
                    final = fit_further_batches(fit, everything, rng, -(-steps // 4))
                else:
                    final = fit_further(fit, everything)
            parts.append(final.part())
        parts += [tables.part(base), tree_part(tables, tree)]
        return stacked(tables, parts, self.shares, name)


class HiddenSearch:
    """The search over one thin network.

    `steps`: the number of batches of rows to learn from, if there are many. `max_states`: the
    maximum number of hidden states of all fits of a size together.
    """

    def __init__(
        self,
        base: MarkovNetwork,
        sizes: Sequence[int],
        settings: Sequence[Priors],
        steps: int,
        rng: np.random.Generator,
        max_states: int | None = None,
    ) -> None:
        self.base, self.sizes, self.settings = base, sizes, list(settings)
        self.steps, self.rng, self.max_states = steps, rng, max_states

    def best(self, train: Rows, held: Rows, others: Sequence[FloatArray]) -> Mixture | None:
        """Return the mixture that predicts held-out rows best, None if no hidden column helps.

        `train` and `held`: rows to learn from and rows to choose by. `others`: the
        log-probabilities of the held-out rows under the thin network and the tree.
        """
        weights = held[1] / held[1].sum()
        best, reached = None, max(float(weights @ density) for density in others)
        for fits in self._fits(train, held):
            found = self._mixed(fits, held, others)
            score = float(weights @ found.log_density)
            if score < reached + MIN_GAIN:
                break
            best, reached = found, score
            if len(train[0]) > TRIAL_ROWS:
                self._drop_settings(found, 1 if len(train[0]) > MANY_ROWS else len(found.fits))
        return best

    def _drop_settings(self, found: Mixture, most: int) -> None:
        """Keep only the priors whose fits have a large share of the mixture, a maximum number of them."""
        shares = found.shares[: len(found.fits)]
        order = np.argsort(-shares, kind="stable")[:most]
        kept = [i for i in order.tolist() if shares[i] >= MIN_SHARE] or order[:1].tolist()
        self.settings = [found.fits[i].model.priors for i in sorted(kept)]

    def _fits(self, train: Rows, held: Rows) -> Iterator[list[HiddenFit]]:
        """Yield the fits of each size, for the settings that are left by then."""
        few: HiddenRows | None = None
        reached = -np.inf
        wide = len(train[0]) <= MANY_ROWS and _in_batches(train[0])
        max_steps = TRIAL_STEPS if len(train[0]) > TRIAL_ROWS else MAX_ITERATIONS
        # In a part of the rows, more states may not help though they do in all of them.
        sizes = self.sizes if len(train[0]) <= TRIAL_ROWS else [self.sizes[0], self.sizes[-1]]
        last = 0
        for size in sizes:
            states = self._states(size)
            if states <= max(last, MIN_STATES - 1):
                continue
            last, tables = states, HiddenTables(self.base, states)
            if few is None:
                whole, few, stopping = (
                    tables.rows(*train),
                    tables.rows(*self._some(train, TRIAL_ROWS // (2 if wide else 1))),
                    tables.rows(*self._some(held, STOPPING_ROWS)),
                )
            most = states >= self._states(sizes[-1])
            fits: list[HiddenFit] = []
            for priors in progress(self.settings, f"hidden columns of {states} states"):
                model = HiddenModel(tables, priors)
                if most and _in_batches(train[0]):
                    fits.append(fit_batches(model, whole, self.rng, self.steps))
                    continue
                rows, steps = (whole, MAX_ITERATIONS) if most else (few, max_steps)
                fits.append(fit_hidden(model, rows, stopping, self.rng, steps, reached))
                reached = max(fits[-1].score(stopping), reached)
            yield fits

    def _states(self, size: int) -> int:
        """Return the number of states of each fit, so that all of them together have not too many."""
        if self.max_states is None:
            return size
        return min(size, self.max_states // len(self.settings))

    def _some(self, rows: Rows, count: int) -> Rows:
        """Return about a number of distinct rows, drawn in proportion to their weights."""
        codes, weights = rows
        if len(codes) <= count:
            return rows
        total = float(weights.sum())
        draws = round(count * max(1.0, total / len(codes)))
        drawn = np.bincount(next(batches(weights, draws, self.rng)), minlength=len(codes))
        some = np.flatnonzero(drawn)
        return codes[some], drawn[some].astype(np.float64) * (total / draws)

    def _mixed(self, fits: list[HiddenFit], held: Rows, others: Sequence[FloatArray]) -> Mixture:
        rows = fits[0].model.tables.rows(*held)
        densities = [fit.log_density(rows) for fit in fits]
        densities += list(others)
        shares = stacking_weights(densities, rows.weights)
        shares = np.where(shares > 1e-3, shares, 0.0)
        shares /= shares.sum()
        with np.errstate(divide="ignore"):
            logs = np.log(shares)
        mixed: Any = np.logaddexp.reduce(np.stack(densities, axis=1) + logs, axis=1)
        return Mixture(fits, shares, mixed)


def _in_batches(codes: Codes | IntArray) -> bool:
    """Return whether fits with many states are learned from batches of these rows."""
    return len(codes) > (TRIAL_ROWS if codes.size > MANY_VALUES else MANY_ROWS)
