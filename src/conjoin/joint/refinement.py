"""`refine`: from converted weights to a joint distribution that answers any question well.

The closed form makes every conditional a good one. It does not determine the probabilities of whole
groups of states that cannot be left by changing one column at a time; the likelihood does. So the
network is made thin enough for exact inference, its weights maximise the likelihood of the rows, and a
hidden column takes over the many weak interactions that thinning loses. Rows that are held out choose
among networks of different size, with and without a hidden column. The maximum-likelihood tree and a
Bayesian network are candidates, too, so the result is never worse than these on these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.frames import as_table
from conjoin.data.holdout import deal_out, hold_out
from conjoin.data.row_hashing import in_content_order, merge_rows
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, did_you_mean, names_lack_of_memory
from conjoin.inference.engines import log_partition
from conjoin.jobs import off_main_thread, one_thread
from conjoin.joint.candidates import Candidate, hidden_name
from conjoin.joint.cross_fitting import FOLDS, MAX_COLUMNS, MAX_ROWS, MAX_VALUES, CrossFitting
from conjoin.joint.dependence_tree import tree_network
from conjoin.joint.directed_network import fitted, learn_structure
from conjoin.joint.directed_search import Parents
from conjoin.joint.expectations import Expectations
from conjoin.joint.hidden_column import SETTINGS, Priors
from conjoin.joint.hidden_search import HiddenSearch
from conjoin.joint.missing_values import joined, without_holes
from conjoin.joint.thin_weights import with_weights
from conjoin.joint.thinning import thin
from conjoin.joint.weight_learning import learn_weights
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import no_hidden_variables, takes_estimators
from conjoin.progress import progress

HELD_OUT = 0.1
"""The share of the rows that chooses among networks, if there is no validation table."""

MIN_ROWS = 50
"""Fewer rows are too few to hold some out."""

MAX_DIRECTED = 512
"""Bayesian networks are tried for at most this number of columns."""

MAX_WIDTH, CELLS_PER_ROW = 64, 64
"""Several sizes of thin networks are tried for at most this number of columns, and cells per row."""


class Effort(NamedTuple):
    """How large the networks are that `refine` tries.

    Attributes
    ----------
    cells : tuple of int
        Cells of the tables of thin networks; wide tables need 4 cells per state of a column.
    states : tuple of int
        Numbers of hidden states, tried one after another while they help.
    settings : tuple of Priors
        The fits that are stacked for the best of these numbers.
    hidden_cells : int
        The maximum number of cells of a network with its hidden column.
    batches : int
        The number of batches of rows that a hidden column is learned from, if there are many rows.
    few_rows : tuple of int
        Cells of the tables of thin networks if there are few rows, so that all of them are dealt into
        folds; empty to hold some of them out nevertheless.
    directed : bool
        Whether to search for a Bayesian network.
    """

    cells: tuple[int, ...]
    states: tuple[int, ...]
    settings: tuple[Priors, ...]
    hidden_cells: int
    batches: int
    few_rows: tuple[int, ...] = ()
    directed: bool = True


EFFORTS = {
    "quick": Effort((1 << 15,), (), (), 0, 0),
    "default": Effort((1 << 11, 1 << 15), (8, 32, 256), SETTINGS, 9 << 18, 128, (1 << 13,)),
    "thorough": Effort(
        (1 << 12, 1 << 17),
        (8, 32, 128, 512),
        (*SETTINGS, *SETTINGS),
        1 << 23,
        1024,
        (1 << 13, 1 << 17),
    ),
}
"""The settings of `effort`."""


@takes_estimators
@names_lack_of_memory
def refine(
    model: MarkovNetwork,
    table: Any,
    *,
    valid: Any = None,
    effort: str = "default",
    max_cells: int | None = None,
    min_rows: int = MIN_ROWS,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> MarkovNetwork:
    """Turn a converted network into the joint distribution that predicts held-out rows best.

    Thin networks of different size, with weights that maximise the likelihood of the rows, with and
    without a hidden column, a Bayesian network and the maximum-likelihood tree are compared on held-out
    rows. The result allows exact inference, and does not depend on the order of rows and
    columns.

    Parameters
    ----------
    model : MarkovNetwork
        The result of `convert` for conditionals that were learned from the table.
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are drawn from a first network, which is learned with values drawn from
        the maximum-likelihood tree.
    valid : Table, array or frame, optional
        Rows that choose among the networks. By default a tenth of the table's rows are held out for
        that, and the network that is chosen is then learned further on all rows. Tables with few rows
        and columns are dealt into folds instead, each of which is held out in turn.
    effort : {'quick', 'default', 'thorough'}
        How many networks are compared, and how large they are. With "quick" there is no hidden column.
    max_cells : int, optional
        The cells of the thin network's tables, instead of several sizes to choose from.
    min_rows : int
        With fewer rows the network is returned unchanged; its provenance says so.
    random_state : int or numpy Generator
        Draws the rows to hold out, missing values, and where the fits start.
    n_jobs : int, optional
        The number of parts of the rows to evaluate at the same time. It does not change the result.

    Returns
    -------
    MarkovNetwork
        Its provenance records the candidates and their scores.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import Domain, Table, convert, learn_conditionals, marginals
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((2, 3000)) < [[0.02], [0.1]]
    >>> seen = (a | b) ^ (rng.random(3000) < 0.05)
    >>> domain = Domain({"a": [0, 1], "b": [0, 1], "either": [0, 1], "seen": [0, 1]})
    >>> rows = Table(domain, np.stack([a, b, a | b, seen], axis=1).astype(int))
    >>> closed = convert(learn_conditionals(rows, "hybrid", penalty=1.0), rows)
    >>> refined = refine(closed, rows)
    >>> share = float((a | b).mean())  # 0.12
    >>> [abs(marginals(model)["either"][1] - share) < 0.02 for model in (closed, refined)]
    [False, True]
    """
    if not isinstance(model, MarkovNetwork):
        raise ModelError(
            f"only Markov networks can be refined, not a {model.kind}; convert it first"
        )
    no_hidden_variables(model, "refined")
    if effort not in EFFORTS:
        raise ModelError(f"effort {effort!r} is not known. " + did_you_mean(effort, EFFORTS))
    rows = _rows_of(model, table)
    if len(rows) < min_rows:
        reason = f"{len(rows)} rows are fewer than min_rows={min_rows}"
        record = {"objective": "closed form", "rows": len(rows), "reason": reason}
        provenance = {**model.provenance, "weights": record}
        return MarkovNetwork(model.domain, model.features, model.factors, provenance)
    rng, whole = np.random.default_rng(random_state), model.in_canonical_order()
    names = whole.domain.names
    rows = rows.reordered(names)
    settings = EFFORTS[effort]
    few = valid is None and bool(settings.few_rows) and _has_few_rows(rows)
    if few:
        parts = [fold for _, fold in deal_out(rows, FOLDS, rng)]
    elif valid is None:
        parts = list(hold_out(rows, HELD_OUT, rng))
    else:
        parts = [rows, _rows_of(model, valid).reordered(names)]

    def run() -> MarkovNetwork:
        complete = without_holes(whole, parts, partial(_first_network, whole, settings), rng)
        if few:
            sizes = settings.few_rows if max_cells is None else (max_cells,)
            return CrossFitting(whole, parts, complete, sizes, settings.hidden_cells, rng).run()
        train, held = complete
        everything = None if valid is not None else joined(train, held)
        return _Search(whole, train, held, everything, settings, rng).run(max_cells)

    with one_thread():
        refined = off_main_thread(run, n_jobs)
    hidden = [v.name for v in refined.domain if v.hidden]
    return refined.reordered([*model.domain.names, *hidden])


def _first_network(
    model: MarkovNetwork, effort: Effort, hidden: bool, train: Table, held: Table, rng: Any
) -> MarkovNetwork:
    """Return a smaller network than the final one, quickly learned, to draw missing values from."""
    fewer = effort._replace(
        cells=effort.cells[:1],
        states=effort.states[:2] if hidden else (),
        settings=effort.settings[:2],
        directed=False,
    )
    return _Search(model, train, held, None, fewer, rng).run(None)


def _counted_network(table: Table, parents: list[Parents]) -> MarkovNetwork:
    return fitted(table, parents).to_markov_network()


def _has_few_rows(table: Table) -> bool:
    """Return whether a table is small enough for fits without each part of its rows."""
    weight = float(len(table) if table.weights is None else table.weights.sum())
    columns = len(table.domain)
    few = weight <= MAX_ROWS or weight * columns <= MAX_VALUES
    return few and columns <= MAX_COLUMNS and len(table) >= FOLDS


def _rows_of(model: MarkovNetwork, table: Any) -> Table:
    rows = as_table(table, model.domain)
    codes_of(model.domain, rows, complete=False)
    return in_content_order(rows)


class _Search:
    """The search for the network that predicts held-out rows best.

    Parameters
    ----------
    model : MarkovNetwork
        The converted network, in canonical order.
    train, held : Table
        Complete rows to learn from, and to choose by.
    everything : Table, optional
        All rows, to learn the chosen network from; None if `held` is a table of its own.
    effort : Effort
        The networks to try.
    rng : Generator
        The random numbers.
    """

    def __init__(
        self,
        model: MarkovNetwork,
        train: Table,
        held: Table,
        everything: Table | None,
        effort: Effort,
        rng: np.random.Generator,
    ) -> None:
        self.model, self.train, self.held, self.everything = model, train, held, everything
        self.train_weight = float(len(train) if train.weights is None else train.weights.sum())
        self.held_rows, self.held_weights = merge_rows(held.codes, held.weights)
        self.effort, self.rng = effort, rng

    def run(self, max_cells: int | None) -> MarkovNetwork:
        """Return the best network; a larger one must be clearly better than those before it."""
        tree = tree_network(self.train)
        everything = self.train if self.everything is None else self.everything
        found = [Candidate("tree", self._log_density(tree), lambda: tree_network(everything))]
        edges = [f.variables for f in tree.factors if len(f.variables) == 2]
        left, right = np.array(edges, np.int64).reshape(-1, 2).T
        cards = self.model.domain.cards
        needed = int((cards[left] * cards[right]).sum())
        sizes = self.effort.cells if max_cells is None else (max_cells,)
        thinned: list[MarkovNetwork] = []
        for cells in progress(sorted({max(size, needed) for size in sizes}), "sizes of networks"):
            if thinned and (thinned[-1] is self.model or not self._worth_trying(cells, found)):
                break
            thinned.append(thin(self.model, self.train, max_cells=cells, tree=(left, right)))
            base = with_weights(thinned[-1], left, right, self.train, self.held)
            name = f"thin, {cells:,} cells"
            finish = partial(self._weights_of_all, base)
            found.append(Candidate(name, self._log_density(base), finish))
            if len(thinned) == 1 or self._score(found[-1]) >= max(map(self._score, found)):
                # A larger network must be better than the smaller one with its hidden column to get one.
                found += self._hidden(base, found[-1], tree)
        best = found[1]
        for candidate in sorted(found[2:], key=lambda c: c.hidden):  # hidden columns come last
            best = candidate if candidate.beats(best, self.held_weights) else best
        directed = self._directed(everything, found[0], best)
        counted = max([found[0], *directed], key=self._score)
        found += directed
        best = best if best.is_worth_tuning(counted, self.held_weights) else counted
        network = best.finish()
        record = {"chosen": best.name, "held_out": {c.name: self._score(c) for c in found}}
        provenance = {**network.provenance, **self.model.provenance, "refined": record}
        return MarkovNetwork(network.domain, network.features, network.factors, provenance)

    def _directed(self, everything: Table, tree: Candidate, best: Candidate) -> list[Candidate]:
        """Return a Bayesian network, unless there are too many columns for the search.

        The search is cut short if its first result is far from the best network.
        """
        if not self.effort.directed or len(self.model.domain) > MAX_DIRECTED:
            return []

        def candidate(parents: list[Parents]) -> Candidate:
            density = fitted(self.train, parents).log_likelihood(self.held_rows)
            finish = partial(_counted_network, everything, parents)
            return Candidate("Bayesian network", density, finish)

        def promising(parents: list[Parents]) -> bool:
            return candidate(parents).may_win(best, tree, self.held_weights)

        rng = np.random.default_rng(0)
        return [candidate(learn_structure(self.model, self.train, rng, promising=promising))]

    def _worth_trying(self, cells: int, found: Sequence[Candidate]) -> bool:
        """Return whether tables larger than necessary may pay off.

        They do not for wide tables or few rows, nor if a hidden column gains more over the smaller thin
        network than that network gains over the tree.
        """
        tree, small, *hidden = map(self._score, found)
        if len(self.model.domain) > MAX_WIDTH or cells > CELLS_PER_ROW * self.train_weight:
            return False
        return max(hidden, default=small) <= 2 * small - tree

    def _log_density(self, network: MarkovNetwork) -> FloatArray:
        return network.log_potential(self.held_rows) - log_partition(network).value

    def _score(self, candidate: Candidate) -> float:
        return float(np.average(candidate.log_density, weights=self.held_weights))

    def _weights_of_all(self, base: MarkovNetwork) -> MarkovNetwork:
        if self.everything is None:
            return base
        return learn_weights(
            base, self.everything, valid=self.everything, objective="likelihood", start="model",
            prior_sd=base.provenance["weights"]["prior_sd"], max_iterations=100, patience=100,
            tolerance=1e-6,
        )  # fmt: skip

    def _hidden(
        self, base: MarkovNetwork, without: Candidate, tree: MarkovNetwork
    ) -> list[Candidate]:
        """Try hidden columns with more and more states over one thin network."""
        effort = self.effort
        cells = max(1, Expectations(base.form.features).plan.cells)  # 0 if all columns are constant
        if not effort.states or np.log(base.domain.cards).sum() <= np.log(cells):
            return []  # every joint state of the columns has a cell of its own
        rows = merge_rows(self.train.codes, self.train.weights)
        search = HiddenSearch(
            base, effort.states, effort.settings, effort.batches, self.rng,
            effort.hidden_cells // cells,
        )  # fmt: skip
        held = (self.held_rows, self.held_weights)
        found = search.best(rows, held, [without.log_density, self._log_density(tree)])
        if found is None:
            return []

        def finish() -> MarkovNetwork:
            everything, name = self.everything, hidden_name(self.model.domain)
            rows = None if everything is None else merge_rows(everything.codes, everything.weights)
            return found.network(without.finish(), tree, rows, name, effort.batches, self.rng)

        used = np.count_nonzero(found.shares[: len(found.fits)])
        name = f"{without.name}, {used} x {found.states} hidden states"
        return [Candidate(name, found.log_density, finish, hidden=True)]
