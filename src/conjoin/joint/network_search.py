"""The search for the network that predicts held-out rows best.

Many rows are split into rows to learn from and a part that is held out. A tenth of a few hundred rows is
too few to choose by, so these are dealt into folds: for each fold, networks with the same features are
learned from all other rows. The probabilities of all held-out rows, each under the networks that did not
learn from it, decide between networks and about their shares in a mixture. The result has the networks
of all folds: the mean of their weights, or a hidden column with the states of all of them, which predicts
better than each (Breiman's bagging, 1996). A part that is held out is the case of one fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table
from conjoin.inference.engines import log_partition
from conjoin.joint.candidates import Candidate, Effort, Fold, hidden_name
from conjoin.joint.dependence_tree import tree_network
from conjoin.joint.directed_network import fitted, learn_structure
from conjoin.joint.directed_search import Parents
from conjoin.joint.expectations import Expectations
from conjoin.joint.hidden_column import SETTINGS, Priors
from conjoin.joint.hidden_search import HiddenSearch
from conjoin.joint.incomplete_rows import incomplete
from conjoin.joint.missing_values import joined
from conjoin.joint.thin_weights import with_weights
from conjoin.joint.thinning import thin
from conjoin.joint.weight_learning import learn_weights
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress

MAX_DIRECTED = 512
"""Bayesian networks are tried for at most this number of columns."""

MAX_WIDTH, CELLS_PER_ROW = 64, 64
"""Several sizes of thin networks are tried for at most this number of columns, and cells per row."""

SUMMED_ROWS = 1 << 8
"""Maximum number of rows whose missing values are summed out to learn thin networks further."""

MAX_FURTHER = 20
"""Maximum number of steps of the weights of thin networks with missing values summed out."""


MANY_ROWS = {
    "quick": Effort((1 << 12,), (), (), 0),
    "default": Effort((1 << 11, 1 << 15), (8, 32, 256), SETTINGS, 9 << 18, 128),
    "thorough": Effort(
        (1 << 12, 1 << 17), (8, 32, 128, 512), (*SETTINGS, *SETTINGS), 1 << 23, 1024
    ),
}
FEW_PRIORS = (Priors(8, 0.2, 0.1, 0.3), Priors(16, 0.5, 0.1, 0.5))
FEW_ROWS = {
    "quick": MANY_ROWS["quick"],
    "default": Effort((1 << 13,), (8, 64), FEW_PRIORS, 5 << 17, errors=1.0),
    "thorough": Effort((1 << 13, 1 << 17), (8, 64), FEW_PRIORS, 1 << 22, errors=1.0),
}
"""The settings of `effort`, for tables that are dealt into folds and for others."""

LEAST_HIDDEN_CELLS, HIDDEN_CELLS_PER_ROW = 3 << 17, 800
"""Networks of few rows may have this number of cells with their hidden column, or more with more rows."""


class NetworkSearch:
    """The search for the best network.

    `model`: the converted network, in canonical order. `everything`: all complete rows that the final
    network may learn from. `lacking`: for each fold, the rows to learn from and those held out with
    their missing values, if these are to be summed out.
    """

    def __init__(
        self,
        model: MarkovNetwork,
        folds: Sequence[Fold],
        everything: Table,
        effort: Effort,
        rng: np.random.Generator,
        lacking: Sequence[tuple[Table, Table]] | None = None,
    ) -> None:
        self.model, self.folds, self.everything, self.effort = model, folds, everything, effort
        if len(folds) > 1:
            cells = max(LEAST_HIDDEN_CELLS, HIDDEN_CELLS_PER_ROW * len(everything))
            self.effort = effort._replace(hidden_cells=min(cells, effort.hidden_cells))
        self.rng, self.lacking = rng, lacking
        self.weights = np.concatenate([fold.weights for fold in folds])
        self.may_learn_further = everything is not folds[0].train

    @cached_property
    def tree(self) -> MarkovNetwork:
        """The maximum-likelihood tree of all rows."""
        return tree_network(self.everything)

    def run(self, max_cells: int | None = None) -> tuple[MarkovNetwork, list[MarkovNetwork]]:
        """Return the best network, and for each fold one like it that has not learned from its rows."""
        trees = [tree_network(fold.train) for fold in self.folds]
        tree = Candidate("tree", self._density(trees), lambda: self.tree, lambda: trees)
        edges = [f.variables for f in self.tree.factors if len(f.variables) == 2]
        left, right = np.array(edges, np.int64).reshape(-1, 2).T
        candidates = self._thin_candidates(tree, left, right, max_cells)
        best = candidates[0]
        for candidate in sorted(candidates[1:], key=lambda c: c.hidden):  # hidden columns come last
            better = candidate.beats(best, self.weights, self.effort.errors)
            best = candidate if better else best
        best, counted = self._or_counted(best, tree)
        scores = {c.name: c.score(self.weights) for c in (tree, *candidates)} | counted
        record: dict[str, Any] = {"chosen": best.name, "held_out": scores}
        if len(self.folds) > 1:
            record["folds"] = len(self.folds)
        network = best.finish()
        provenance = {**network.provenance, **self.model.provenance, "refined": record}
        final = MarkovNetwork(network.domain, network.features, network.factors, provenance)
        return final, best.honest()

    def _thin_candidates(
        self, tree: Candidate, left: IntArray, right: IntArray, max_cells: int | None
    ) -> list[Candidate]:
        """Return thin networks of several sizes, with and without a hidden column."""
        cards = self.model.domain.cards
        needed = int((cards[left] * cards[right]).sum())
        sizes = self.effort.cells if max_cells is None else (max_cells,)
        found: list[Candidate] = []
        thinned = None
        for cells in progress(sorted({max(size, needed) for size in sizes}), "sizes of networks"):
            if found and (thinned is self.model or not self._worth_trying(cells, tree, found)):
                break
            thinned = thin(self.model, self.everything, max_cells=cells, tree=(left, right))
            bases = self._with_weights(thinned, left, right)
            base = Candidate(
                f"thin, {cells:,} cells", self._density(bases), partial(self._finished, bases),
                partial(list, bases),
            )  # fmt: skip
            best = max((c.score(self.weights) for c in found), default=-np.inf)
            found.append(base)
            if base.score(self.weights) >= best:
                # A larger network must be better than the smaller one with its hidden column to get one.
                found += self._hidden(bases, base, tree)
        return found

    def _worth_trying(self, cells: int, tree: Candidate, found: Sequence[Candidate]) -> bool:
        """Return whether tables larger than necessary may pay off.

        They do not for wide tables or few rows, nor if a hidden column gains more over the smaller thin
        network than that network gains over the tree.
        """
        train = self.folds[0].train
        weight = float(len(train) if train.weights is None else train.weights.sum())
        if len(self.model.domain) > MAX_WIDTH or cells > CELLS_PER_ROW * weight:
            return False
        plain, small, *hidden = (c.score(self.weights) for c in (tree, *found))
        return max(hidden, default=small) <= 2 * small - plain

    def _with_weights(
        self, thinned: MarkovNetwork, left: IntArray, right: IntArray
    ) -> list[MarkovNetwork]:
        """Return a thin network with the weights learned for each fold, pairs of columns included."""
        return [
            with_weights(thinned, left, right, fold.train, fold.held, self.everything)
            for fold in progress(self.folds, "weights of folds")
        ]

    def _finished(self, bases: Sequence[MarkovNetwork]) -> MarkovNetwork:
        """Return the thin network of all rows: learned further from them, or the mean of all folds."""
        if len(bases) == 1:
            if not self.may_learn_further:
                return bases[0]
            return learn_weights(
                bases[0], self.everything, valid=self.everything, objective="likelihood", start="model",
                prior_sd=bases[0].provenance["weights"]["prior_sd"], max_iterations=100, patience=100,
                tolerance=1e-6,
            )  # fmt: skip
        if self.lacking is not None:
            bases = [
                summed_out(network, *rows)
                for network, rows in zip(bases, self.lacking, strict=True)
            ]
        return mean_network(bases)

    def _hidden(
        self, bases: Sequence[MarkovNetwork], without: Candidate, tree: Candidate
    ) -> list[Candidate]:
        """Return the best mixture of fits of a hidden column over a thin network, if any helps."""
        cells = max(
            1, Expectations(bases[0].form.features).plan.cells
        )  # 0: all columns are constant
        log_size = np.log(bases[0].domain.cards).sum()
        if not self.effort.states or log_size <= np.log(cells):
            return []  # every joint state of the columns has a cell of its own
        search = HiddenSearch(bases, self.folds, self.effort, cells, self.rng)
        mixture = search.best([without.log_density, tree.log_density])
        if mixture is None:
            return []

        def finish() -> MarkovNetwork:
            lacking = None
            if self.lacking is not None:
                lacking = joined(*(held for _, held in self.lacking))
            everything = self.everything if self.may_learn_further else None
            fits = mixture.learned_further(everything, lacking, self.effort.batches, self.rng)
            return fits.network(self._finished(bases), self.tree, hidden_name(self.model.domain))

        def honest() -> list[MarkovNetwork]:
            return mixture.of_folds(bases, hidden_name(self.model.domain))

        count = int(np.count_nonzero(mixture.fit_shares)) * len(self.folds)
        name = f"{without.name}, {count} x {mixture.states} hidden states"
        return [Candidate(name, mixture.log_density, finish, honest, hidden=True)]

    def _or_counted(self, best: Candidate, tree: Candidate) -> tuple[Candidate, dict[str, float]]:
        """Return a Bayesian network or the tree instead, unless a network is worth its tuning.

        The search for a Bayesian network takes long, so that only the first fold compares it, and it is
        cut short if its first result is far from the best network. Its score is returned, too: that of
        the best other network, less the difference between both in this fold.
        """
        fold = self.folds[0]
        here, plain = (c.first(len(fold.rows)) for c in (best, tree))
        directed, scores = None, {}
        if self.effort.directed and len(self.model.domain) <= MAX_DIRECTED:
            directed = self._directed(fold, here, plain)
            behind = here.score(fold.weights) - directed.score(fold.weights)
            scores = {directed.name: best.score(self.weights) - behind}
            ahead = directed.score(fold.weights) > plain.score(fold.weights)
            if ahead and not here.is_worth_tuning(directed, fold.weights):
                return directed, scores
        return best if best.is_worth_tuning(tree, self.weights) else tree, scores

    def _directed(self, fold: Fold, best: Candidate, tree: Candidate) -> Candidate:
        def candidate(parents: list[Parents]) -> Candidate:
            density = fitted(fold.train, parents).log_likelihood(fold.rows)

            def counted(table: Table) -> MarkovNetwork:
                return fitted(table, parents).to_markov_network()

            return Candidate(
                "Bayesian network", density, lambda: counted(self.everything),
                lambda: [counted(each.train) for each in self.folds],
            )  # fmt: skip

        def promising(parents: list[Parents]) -> bool:
            return candidate(parents).may_win(best, tree, fold.weights)

        rng = np.random.default_rng(0)
        return candidate(learn_structure(self.model, fold.train, rng, promising=promising))

    def _density(self, networks: Sequence[MarkovNetwork]) -> FloatArray:
        """Return the log-probability of each fold's rows under the network of this fold."""
        pairs = zip(networks, self.folds, strict=True)
        return np.concatenate([n.log_potential(f.rows) - log_partition(n).value for n, f in pairs])


def summed_out(network: MarkovNetwork, train: Table, held: Table) -> MarkovNetwork:
    """Learn the weights further with missing values summed out, as long as held-out rows gain."""
    if np.count_nonzero(incomplete(train)) > SUMMED_ROWS:
        return network
    return learn_weights(
        network, train, valid=held, objective="likelihood", start="model",
        prior_sd=network.provenance["weights"]["prior_sd"], max_iterations=MAX_FURTHER,
    )  # fmt: skip


def mean_network(networks: Sequence[MarkovNetwork]) -> MarkovNetwork:
    """Return the network with the mean of the weights of networks with the same features."""
    first = networks[0]
    weights = np.mean([network.features.weights for network in networks], axis=0)
    features = first.features.reweighted(weights)
    return MarkovNetwork(first.domain, features, provenance=first.provenance)
