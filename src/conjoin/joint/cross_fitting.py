"""Small tables: every row takes part in learning and in choosing.

A tenth of a few hundred rows is too few to choose by, and to tell a fit when to stop. So the rows are
dealt into folds. For each fold, networks with the same features are learned from all other rows, and
the fold tells them when to stop. The probabilities of all rows, each under the networks that did not
learn from it, then decide between networks and about their shares in a mixture. The result has the
networks of all folds: the mean of their weights if it has no hidden column, and otherwise a hidden
column with the states of all of them, which predicts better than each (Breiman's bagging, 1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.inference.engines import log_partition
from conjoin.joint.candidates import Candidate, hidden_name
from conjoin.joint.dependence_tree import tree_network
from conjoin.joint.directed_network import fitted, learn_structure
from conjoin.joint.directed_search import Parents
from conjoin.joint.expectations import Expectations
from conjoin.joint.hidden_column import HiddenModel, Priors
from conjoin.joint.hidden_fit import HiddenFit, fit_further, fit_hidden
from conjoin.joint.hidden_search import MIN_STATES
from conjoin.joint.hidden_tables import HiddenTables, stacked, stacking_weights, tree_part
from conjoin.joint.incomplete_rows import MarginalModel, incomplete
from conjoin.joint.missing_values import joined
from conjoin.joint.thin_weights import with_weights
from conjoin.joint.thinning import thin
from conjoin.joint.weight_learning import learn_weights
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress

FOLDS = 4
"""Number of parts that the rows are dealt into."""

MAX_ROWS, MAX_COLUMNS, MAX_VALUES = 1 << 11, 64, 1 << 16
"""Tables with more columns than this, or with more rows and more values (rows times columns) than these,
are learned with one part of the rows held out."""

FEW_STATES, MANY_STATES = 8, 64
"""Number of hidden states of the plainest fit, and maximum number of the others."""

FITS = (Priors(8, 0.5, 0.0, 0.1), Priors(8, 0.2, 0.1, 0.3), Priors(16, 0.5, 0.1, 0.5))
"""The fits of each fold; the first one has few states."""

CELLS_FACTOR = 2
"""Networks may have this multiple of the cells of those of large tables: they learn from few rows."""

MIN_ERRORS = 1.0
"""A larger network, or a hidden column, must be better by this number of standard errors."""

SUMMED_ROWS = 1 << 8
"""Maximum number of rows whose missing values are summed out to learn thin networks further."""

MAX_FURTHER = 20
"""Maximum number of steps of the weights of thin networks with missing values summed out."""

MAX_SUMS = 1 << 13
"""Maximum number of times that rows are summed over their missing values to learn fits further."""

MIN_SHARE = 0.02
"""Fits with a smaller share of the mixture are left out."""


class Fold(NamedTuple):
    """A part of the rows, and all others.

    Attributes
    ----------
    train, held : Table
        The rows to learn from, and those of the fold.
    rows, weights : arrays
        The distinct rows of the fold, and how often they occur.
    """

    train: Table
    held: Table
    rows: Codes
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class FoldMixture:
    """Fits of hidden columns for every fold, and their shares.

    Attributes
    ----------
    fits : list of list of HiddenFit
        The fits of each fold.
    shares : array
        The shares of each kind of fit, of the thin network and of the tree.
    log_density : array
        The log-probability of the rows of all folds, by fits that did not learn from them.
    """

    fits: list[list[HiddenFit]]
    shares: FloatArray
    log_density: FloatArray

    def learned_further(self, complete: Table, lacking: Table | None) -> FoldMixture:
        """Return the mixture with its fits learned further from all rows.

        `complete`: all rows, missing values drawn. `lacking`: all rows, if some lack values. These are
        summed out, unless that takes too long.
        """
        used = [fit for fits in self.fits for fit, q in zip(fits, self.shares, strict=False) if q]
        passes = len(used) + sum(fit.iterations for fit in used) // 4
        if lacking is not None and passes * incomplete(lacking).sum() <= MAX_SUMS:
            complete = _select(lacking, ~incomplete(lacking))
        else:
            lacking = None
        rows = self.fits[0][0].model.tables.rows(*merge_rows(complete.codes, complete.weights))

        def further(fit: HiddenFit, share: float) -> HiddenFit:
            if not share:
                return fit
            if lacking is not None:
                fit = replace(fit, model=MarginalModel(fit.model, lacking))
            return fit_further(fit, rows)

        pairs = [zip(fits, self.shares, strict=False) for fits in self.fits]
        return replace(self, fits=[[further(*pair) for pair in fold] for fold in pairs])

    def network(self, base: MarkovNetwork, tree: MarkovNetwork, name: str) -> MarkovNetwork:
        """Return the fits of all folds, a thin network and a tree as one network.

        `name`: the name of the hidden column.
        """
        tables, kinds = self.fits[0][0].model.tables, len(self.fits[0])
        parts = [fit.part() for fits in self.fits for fit in fits]
        shares = np.tile(self.shares[:kinds] / len(self.fits), len(self.fits))
        parts += [tables.part(base), tree_part(tables, tree)]
        return stacked(tables, parts, np.append(shares, self.shares[kinds:]), name)


class CrossFitting:
    """The search for the best network of a small table.

    Parameters
    ----------
    model : MarkovNetwork
        The converted network, in canonical order.
    parts : sequence of Table
        The rows, dealt into folds.
    complete : sequence of Table
        The same with missing values drawn.
    sizes : sequence of int
        Cells of the tables of thin networks, in ascending order.
    hidden_cells : int
        The maximum number of cells of a network with its hidden column.
    rng : Generator
        Draws where fits start.
    """

    def __init__(
        self,
        model: MarkovNetwork,
        parts: Sequence[Table],
        complete: Sequence[Table],
        sizes: Sequence[int],
        hidden_cells: int,
        rng: np.random.Generator,
    ) -> None:
        self.model, self.sizes, self.hidden_cells, self.rng = model, sizes, hidden_cells, rng
        self.everything = joined(*complete)
        self.parts = parts if any(incomplete(part).any() for part in parts) else None
        self.folds = []
        for number, held in enumerate(complete):
            train = all_but(complete, number)
            self.folds.append(Fold(train, held, *merge_rows(held.codes, held.weights)))
        self.weights = np.concatenate([fold.weights for fold in self.folds])
        self.tree = tree_network(self.everything)

    def run(self) -> MarkovNetwork:
        """Return the best network."""
        trees = [tree_network(fold.train) for fold in self.folds]
        tree = Candidate("tree", self._density(trees), lambda: self.tree)
        edges = [f.variables for f in self.tree.factors if len(f.variables) == 2]
        left, right = np.array(edges, np.int64).reshape(-1, 2).T
        cards = self.model.domain.cards
        needed = int((cards[left] * cards[right]).sum())
        found: list[Candidate] = []
        thinned = None
        sizes = sorted({max(size, needed) for size in self.sizes})
        for cells in progress(sizes, "sizes of networks"):
            if thinned is self.model:
                break
            thinned = thin(self.model, self.everything, max_cells=cells, tree=(left, right))
            bases = self.weighted(thinned, left, right)
            density, name = self._density(bases), f"thin, {cells:,} cells"
            base = Candidate(name, density, partial(self._further, bases))
            if found and base.score(self.weights) <= max(c.score(self.weights) for c in found):
                break  # a larger network must be better than the smaller one with its hidden column
            found += [base, *self._hidden(bases, base, tree)]
        best = found[0]
        for candidate in sorted(found[1:], key=lambda c: c.hidden):  # hidden columns come last
            best = candidate if candidate.beats(best, self.weights, MIN_ERRORS) else best
        best, directed = self._or_counted(best, tree)
        network = best.finish()
        scores = {c.name: c.score(self.weights) for c in (tree, *found)} | directed
        record = {"chosen": best.name, "folds": len(self.folds), "held_out": scores}
        provenance = {**network.provenance, **self.model.provenance, "refined": record}
        return MarkovNetwork(network.domain, network.features, network.factors, provenance)

    def weighted(
        self, thinned: MarkovNetwork, left: IntArray, right: IntArray
    ) -> list[MarkovNetwork]:
        """Return a thin network with the weights learned for each fold, pairs of columns included."""
        return [
            with_weights(thinned, left, right, fold.train, fold.held, self.everything)
            for fold in progress(self.folds, "weights of folds")
        ]

    def _further(self, networks: Sequence[MarkovNetwork]) -> MarkovNetwork:
        """Return the mean of the networks of all folds, learned further if rows lack values."""
        if self.parts is None:
            return _mean(networks)
        return _mean(
            [
                summed_out(network, all_but(self.parts, number), self.parts[number])
                for number, network in enumerate(networks)
            ]
        )

    def _or_counted(self, best: Candidate, tree: Candidate) -> tuple[Candidate, dict[str, float]]:
        """Return a Bayesian network or the tree instead, unless a network is worth its tuning.

        The search for a Bayesian network takes long, so that only one fold compares it. Its score is
        returned, too: that of the best other network, less the difference between both in this fold.
        The search is cut short if its first result is far from that network.
        """
        fold = self.folds[0]
        here, plain = (
            replace(c, log_density=c.log_density[: len(fold.rows)]) for c in (best, tree)
        )

        def finish() -> MarkovNetwork:
            parents = learn_structure(self.model, self.everything, np.random.default_rng(0))
            return fitted(self.everything, parents).to_markov_network()

        def candidate(parents: list[Parents]) -> Candidate:
            density = fitted(fold.train, parents).log_likelihood(fold.rows)
            return Candidate("Bayesian network", density, finish)

        def promising(parents: list[Parents]) -> bool:
            return candidate(parents).may_win(here, plain, fold.weights)

        rng = np.random.default_rng(0)
        directed = candidate(learn_structure(self.model, fold.train, rng, promising=promising))
        behind = here.score(fold.weights) - directed.score(fold.weights)
        scores = {directed.name: best.score(self.weights) - behind}
        if not here.is_worth_tuning(directed, fold.weights):
            return directed, scores
        return best if best.is_worth_tuning(tree, self.weights) else tree, scores

    def _density(self, networks: Sequence[MarkovNetwork]) -> FloatArray:
        """Return the log-probability of each fold's rows under the network of this fold."""
        pairs = zip(networks, self.folds, strict=True)
        return np.concatenate([n.log_potential(f.rows) - log_partition(n).value for n, f in pairs])

    def _hidden(
        self, bases: Sequence[MarkovNetwork], without: Candidate, tree: Candidate
    ) -> list[Candidate]:
        """Return the mixture of fits with hidden columns as a candidate, if it has any."""
        mixture = self.mixture(bases, [without.log_density, tree.log_density])
        if mixture is None:
            return []

        def finish() -> MarkovNetwork:
            name = hidden_name(self.model.domain)
            lacking = None if self.parts is None else joined(*self.parts)
            final = mixture.learned_further(self.everything, lacking)
            return final.network(_mean(bases), self.tree, name)

        used = np.count_nonzero(mixture.shares[: len(FITS)]) * len(self.folds)
        states = mixture.fits[0][-1].model.tables.states
        name = f"{without.name}, {used} x {states} hidden states"
        return [Candidate(name, mixture.log_density, finish, hidden=True)] if used else []

    def mixture(
        self, bases: Sequence[MarkovNetwork], others: Sequence[FloatArray]
    ) -> FoldMixture | None:
        """Fit hidden columns over the thin networks of all folds, and return their best mixture.

        Parameters
        ----------
        bases : sequence of MarkovNetwork
            The thin network of each fold.
        others : sequence of arrays
            The log-probabilities of the rows of all folds under thin networks and trees.
        """
        cells = max(
            1, Expectations(bases[0].form.features).plan.cells
        )  # 0: all columns are constant
        allowed = CELLS_FACTOR * self.hidden_cells // (len(self.folds) * (len(FITS) - 1) * cells)
        if allowed < MIN_STATES or np.log(bases[0].domain.cards).sum() <= np.log(cells):
            return None  # too large, or every joint state of the columns has a cell of its own
        states = [min(FEW_STATES, allowed), *[min(MANY_STATES, allowed)] * (len(FITS) - 1)]
        tables = {count: HiddenTables(bases[0], count) for count in states}
        each = [tables[count] for count in states]
        pairs = list(zip(bases, self.folds, strict=True))
        fits = [self._fits(*pair, each) for pair in progress(pairs, "hidden columns of folds")]
        densities = [
            np.concatenate(
                [
                    fit.log_density(fit.model.tables.rows(fold.rows, fold.weights))
                    for fit, fold in zip(kind, self.folds, strict=True)
                ]
            )
            for kind in zip(*fits, strict=True)
        ]
        densities += others
        shares = stacking_weights(densities, self.weights)
        shares = np.where(shares > MIN_SHARE, shares, 0.0)
        shares /= shares.sum()
        with np.errstate(divide="ignore"):
            logs = np.log(shares)
        mixed: FloatArray = np.logaddexp.reduce(np.stack(densities, axis=1) + logs, axis=1)
        return FoldMixture(fits, shares, mixed)

    def _fits(
        self, base: MarkovNetwork, fold: Fold, each: Sequence[HiddenTables]
    ) -> list[HiddenFit]:
        """Return the fits of one fold."""
        fits: list[HiddenFit] = []
        reached = -np.inf
        for some, priors in zip(each, FITS, strict=True):
            tables = some.over(base)
            train = tables.rows(*merge_rows(fold.train.codes, fold.train.weights))
            held = tables.rows(fold.rows, fold.weights)
            model = HiddenModel(tables, priors)
            fits.append(fit_hidden(model, train, held, self.rng, reached=reached))
            reached = max(fits[-1].score(held), reached)
        return fits


def all_but(parts: Sequence[Table], number: int) -> Table:
    """Return the rows of all parts but one."""
    return joined(*(part for other, part in enumerate(parts) if other != number))


def summed_out(network: MarkovNetwork, train: Table, held: Table) -> MarkovNetwork:
    """Learn the weights further with missing values summed out, as long as held-out rows gain."""
    if np.count_nonzero(incomplete(train)) > SUMMED_ROWS:
        return network
    return learn_weights(
        network, train, valid=held, objective="likelihood", start="model",
        prior_sd=network.provenance["weights"]["prior_sd"], max_iterations=MAX_FURTHER,
    )  # fmt: skip


def _select(table: Table, rows: BoolArray) -> Table:
    weights = None if table.weights is None else table.weights[rows]
    return Table.adopt(table.domain, table.codes[rows], weights)


def _mean(networks: Sequence[MarkovNetwork]) -> MarkovNetwork:
    """Return the network with the mean of the weights of networks with the same features."""
    first = networks[0]
    weights = np.mean([network.features.weights for network in networks], axis=0)
    return MarkovNetwork(
        first.domain, first.features.reweighted(weights), provenance=first.provenance
    )
