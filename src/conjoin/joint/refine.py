"""`refine`: from converted weights to a joint distribution that answers any question well.

The closed form makes every conditional a good one. It does not determine the probabilities of whole
groups of states that cannot be left by changing one column at a time; the likelihood does. So the
network is made thin enough for exact inference, its weights maximise the likelihood of the rows, and a
hidden column takes over the many weak interactions that thinning loses. Rows that are held out choose
among networks of different size, with and without a hidden column. The maximum-likelihood tree and a
Bayesian network are candidates, too, so the result is never worse than these on these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain
from conjoin.data.frames import as_table
from conjoin.data.holdout import hold_out
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, did_you_mean, names_lack_of_memory
from conjoin.inference.engines import log_partition
from conjoin.jobs import off_main_thread, one_thread
from conjoin.joint.dependence_tree import tree_network
from conjoin.joint.directed_network import fitted, learn_structure
from conjoin.joint.hidden_column import SETTINGS, Priors
from conjoin.joint.hidden_search import HiddenSearch
from conjoin.joint.likelihood import Expectations
from conjoin.joint.missing_values import joined, without_holes
from conjoin.joint.thinning import thin
from conjoin.joint.weight_learning import learn_weights
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import no_hidden_variables

HELD_OUT = 0.1
"""The share of the rows that chooses among networks, if there is no validation table."""

MIN_ROWS = 50
"""Fewer rows are too few to hold some out."""

MIN_GAIN = 1e-3
"""A larger network must predict held-out rows better by this, in nats per row."""

MIN_ERRORS = 2.0
"""A larger network, or a hidden column, must be better by this number of standard errors."""

TUNING_GAIN = 10.0
"""How much better all held-out rows together are under networks whose settings they chose, in nats."""

MAX_DIRECTED = 512
"""Bayesian networks are tried for at most this number of columns."""

MAX_WIDTH, CELLS_PER_ROW = 64, 64
"""Several sizes of thin networks are tried for at most this number of columns, and cells per row."""

MIN_STATES = 4
"""A hidden column has at least this number of states per fit."""

PRIOR_SDS = (0.1, 0.5, 2.0, 8.0)
"""Standard deviations of the prior around converted weights, to choose from."""


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
    """

    cells: tuple[int, ...]
    states: tuple[int, ...]
    settings: tuple[Priors, ...]
    hidden_cells: int
    batches: int


EFFORTS = {
    "quick": Effort((1 << 15,), (), (), 0, 0),
    "default": Effort((1 << 11, 1 << 15), (8, 32, 128), SETTINGS, 9 << 18, 128),
    "thorough": Effort(
        (1 << 12, 1 << 17), (8, 32, 128, 256), (*SETTINGS, *SETTINGS), 1 << 22, 1024
    ),
}
"""The settings of `effort`."""


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
    rows. The result allows exact inference, and does not depend on the order of the columns.

    Parameters
    ----------
    model : MarkovNetwork
        The result of `convert` for conditionals that were learned from the table.
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are drawn from a first network, which is learned with values drawn from
        the maximum-likelihood tree.
    valid : Table, array or frame, optional
        Rows that choose among the networks. By default a tenth of the table's rows are held out for
        that; the network that is chosen is then learned further on all rows.
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
    >>> from conjoin import Domain, Table, convert, learn, marginals
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((2, 3000)) < [[0.02], [0.1]]
    >>> seen = (a | b) ^ (rng.random(3000) < 0.05)
    >>> domain = Domain({"a": [0, 1], "b": [0, 1], "either": [0, 1], "seen": [0, 1]})
    >>> rows = Table(domain, np.stack([a, b, a | b, seen], axis=1).astype(int))
    >>> closed = convert(learn(rows, "hybrid", penalty=1.0), rows)
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
    if valid is None:
        train, held = hold_out(rows, HELD_OUT, rng)
    else:
        train, held = rows, _rows_of(model, valid).reordered(names)
    settings = EFFORTS[effort]

    def run() -> MarkovNetwork:
        complete = without_holes(whole, train, held, partial(_first_network, whole, settings), rng)
        everything = None if valid is not None else joined(*complete)
        return _Search(whole, *complete, everything, settings, rng).run(max_cells)

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
        settings=effort.settings[1:3],
    )
    return _Search(model, train, held, None, fewer, rng).run(None)


def _rows_of(model: MarkovNetwork, table: Any) -> Table:
    rows = as_table(table, model.domain)
    codes_of(model.domain, rows, complete=False)
    return rows


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A network in the making.

    Attributes
    ----------
    name : str
        What it is, for the provenance.
    log_density : array of float
        The log-probability of each distinct held-out row.
    finish : callable
        Learns it further on all rows, if some were held out, and returns the network.
    hidden : bool
        Whether it has a hidden column.
    """

    name: str
    log_density: FloatArray
    finish: Callable[[], MarkovNetwork]
    hidden: bool = False

    def beats(self, other: _Candidate, weights: FloatArray) -> bool:
        """Return whether it is better by more than the choice among candidates gains by chance."""
        mean, error = self._gain(other, weights)
        return mean > max(MIN_GAIN, MIN_ERRORS * error)

    def is_worth_tuning(self, counted: _Candidate, weights: FloatArray) -> bool:
        """Return whether it beats a network that is counted from the rows, without settings to choose."""
        mean, error = self._gain(counted, weights)
        return mean > max(MIN_GAIN, TUNING_GAIN / float(weights.sum()), error)

    def _gain(self, other: _Candidate, weights: FloatArray) -> tuple[float, float]:
        """Return the mean gain over another candidate, and its standard error."""
        gain = self.log_density - other.log_density
        count = float(weights.sum())
        mean = float(weights @ gain) / count
        return mean, float(np.sqrt(weights @ (gain - mean) ** 2)) / count


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
        found = [_Candidate("tree", self._log_density(tree), lambda: tree_network(everything))]
        edges = [f.variables for f in tree.factors if len(f.variables) == 2]
        left, right = np.array(edges, np.int64).reshape(-1, 2).T
        cards = self.model.domain.cards
        needed = int((cards[left] * cards[right]).sum())
        sizes = self.effort.cells if max_cells is None else (max_cells,)
        thinned: list[MarkovNetwork] = []
        for cells in sorted({max(size, needed) for size in sizes}):
            if thinned and (thinned[-1] is self.model or not self._worth_trying(cells, found)):
                break
            thinned.append(thin(self.model, self.train, max_cells=cells, tree=(left, right)))
            base = with_weights(thinned[-1], left, right, self.train, self.held)
            name = f"thin, {cells:,} cells"
            finish = partial(self._weights_of_all, base)
            found.append(_Candidate(name, self._log_density(base), finish))
            if len(thinned) == 1 or self._score(found[-1]) >= max(map(self._score, found)):
                # A larger network must be better than the smaller one with its hidden column to get one.
                found += self._hidden(base, found[-1], tree)
        best = found[1]
        for candidate in sorted(found[2:], key=lambda c: c.hidden):  # hidden columns come last
            best = candidate if candidate.beats(best, self.held_weights) else best
        directed = self._directed(everything)
        counted = max([found[0], *directed], key=self._score)
        found += directed
        best = best if best.is_worth_tuning(counted, self.held_weights) else counted
        network = best.finish()
        record = {"chosen": best.name, "held_out": {c.name: self._score(c) for c in found}}
        provenance = {**network.provenance, **self.model.provenance, "refined": record}
        return MarkovNetwork(network.domain, network.features, network.factors, provenance)

    def _directed(self, everything: Table) -> list[_Candidate]:
        """Return a Bayesian network, unless there are too many columns for the search."""
        if len(self.model.domain) > MAX_DIRECTED:
            return []
        parents = learn_structure(self.model, self.train, np.random.default_rng(0))
        density = fitted(self.train, parents).log_likelihood(self.held_rows)

        def finish() -> MarkovNetwork:
            return fitted(everything, parents).to_markov_network()

        return [_Candidate("Bayesian network", density, finish)]

    def _worth_trying(self, cells: int, found: Sequence[_Candidate]) -> bool:
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

    def _score(self, candidate: _Candidate) -> float:
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
        self, base: MarkovNetwork, without: _Candidate, tree: MarkovNetwork
    ) -> list[_Candidate]:
        """Try hidden columns with more and more states over one thin network."""
        effort = self.effort
        cells = Expectations(base.form.features).plan.cells
        if not effort.states or np.log(base.domain.cards).sum() <= np.log(cells):
            return []  # every joint state of the columns has a cell of its own
        allowed = effort.hidden_cells // (len(effort.settings) * cells)
        sizes = [
            s for s in dict.fromkeys(min(s, allowed) for s in effort.states) if s >= MIN_STATES
        ]
        rows = merge_rows(self.train.codes, self.train.weights)
        search = HiddenSearch(base, sizes, effort.settings, effort.batches, self.rng)
        held = (self.held_rows, self.held_weights)
        found = search.best(rows, held, [without.log_density, self._log_density(tree)])
        if found is None:
            return []

        def finish() -> MarkovNetwork:
            everything, name = self.everything, _hidden_name(self.model.domain)
            rows = None if everything is None else merge_rows(everything.codes, everything.weights)
            return found.network(without.finish(), tree, rows, name, effort.batches, self.rng)

        used = np.count_nonzero(found.shares[: len(found.fits)])
        name = f"{without.name}, {used} x {found.states} hidden states"
        return [_Candidate(name, found.log_density, finish, hidden=True)]


def with_weights(
    thinned: MarkovNetwork, left: Any, right: Any, train: Table, held: Table
) -> MarkovNetwork:
    """Learn the weights of a thin network by maximum likelihood, those of pairs of columns included."""
    domain = thinned.domain
    pairs = _pair_features(domain, left, right)
    features = Features.concatenate([thinned.form.features, pairs]).merged()
    features = _cells_instead(domain, features)
    network = MarkovNetwork(domain, features, provenance=thinned.provenance)
    return learn_weights(
        network, train, valid=held, objective="likelihood", start="model",
        prior_sd=PRIOR_SDS, max_iterations=300, patience=20, tolerance=1e-6,
    )  # fmt: skip


def _pair_features(domain: Domain, left: Any, right: Any) -> Features:
    """Return features of weight 0 for the joint states of pairs of columns, first states left out."""
    variables = domain.variables
    terms = [
        (0.0, {variables[a].name: s, variables[b].name: t})
        for a, b in zip(left.tolist(), right.tolist(), strict=True)
        for s in variables[a].states[1:]
        for t in variables[b].states[1:]
    ]
    return Features.from_terms(domain, terms)


def _cells_instead(domain: Domain, features: Features) -> Features:
    """Return one feature per cell of the tables of exact inference, if there are more features.

    They express the same networks. Long conjunctions over few columns can outnumber the joint states.
    """
    expectations = Expectations(features)
    tables = expectations.tables.tables(features.weights)
    if len(expectations.outside) or len(features) <= sum(table.table.size for table in tables):
        return features
    variables, terms = domain.variables, []
    for table in tables:
        for cell, weight in np.ndenumerate(table.table):
            states = zip(table.variables, cell, strict=True)
            terms.append(
                (float(weight), {variables[v].name: variables[v].states[s] for v, s in states})
            )
    return Features.from_terms(domain, terms).merged()


def _hidden_name(domain: Domain) -> str:
    """Return a name for the hidden column that no other column has."""
    name = "(hidden)"
    while name in domain.names:
        name = f"({name})"
    return name
