"""`to_bayesian_network`: from a dependency network to a Bayesian network over the same columns.

The graph of a dependency network has cycles. There are two ways to a graph without: removing the edges
that matter least (`conjoin.bayesian.cycle_breaking`), and searching for the order of the columns with the
best score, with the network's strongest interactions as candidate parents
(`conjoin.bayesian.directed_search`). The conditionals are then learned again from all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Any, TypeVar

import numpy as np

from conjoin.bayesian.cycle_breaking import TreeFamily, acyclic_parents, restored_parents
from conjoin.bayesian.dependence_tree import tree_network
from conjoin.bayesian.directed_network import fitted, learn_structure
from conjoin.bayesian.directed_search import MAX_FAMILY_CELLS, Parents
from conjoin.conversion.convert import convert
from conjoin.data.frames import as_table
from conjoin.data.holdout import hold_out
from conjoin.data.row_hashing import in_content_order
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, did_you_mean
from conjoin.inference.completion import completed
from conjoin.learning.learn import KINDS, learn
from conjoin.learning.options import Options
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.cpd import CPD
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import conditionals_of

T = TypeVar("T")
U = TypeVar("U")

METHODS = ("break-cycles", "order")
CPDS = ("auto", "table", *KINDS)

HELD_OUT = 0.1
"""The share of the rows that chooses between tables and trees, if there is no validation table."""

MIN_ERRORS = 2.0
"""Trees must predict them better than tables by this number of standard errors."""


def to_bayesian_network(
    dn: DependencyNetwork,
    table: Any,
    method: str = "break-cycles",
    *,
    cpd: str = "auto",
    valid: Any = None,
    restore: bool = True,
    kappa: float | None = None,
    penalty: float | None = None,
    min_leaf: float = 10.0,
    pseudo: float = 1.0,
    max_cells: float | None = None,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> BayesianNetwork:
    """Turn a dependency network into a Bayesian network.

    The result does not depend on the order of rows and columns.

    Parameters
    ----------
    dn : DependencyNetwork
        The network that `learn` found for the table, with CPDs of any kind.
    table : Table, 2-dimensional array, or frame
        The training rows.
    method : {'break-cycles', 'order'}
        How the graph becomes acyclic:

        * "break-cycles" (Hulten, Chickering and Heckerman, 2003): the cost of an edge j -> i is what
          the tree of i loses in score, the log-likelihood of the rows less -log(kappa) per split, when
          it is grown again without j. The cheapest edge on a cycle is removed and its tree is grown
          again, until no cycle is left. CPDs of other kinds are represented by trees over the same
          parents while cycles are broken.
        * "order": a search for the order of the columns whose best tables have the highest score (BDeu);
          candidate parents are the network's strongest interactions. Trees and regressions then choose
          among all columns that come before.
    cpd : {'auto', 'tree', 'table', 'logistic', 'hybrid', 'mixed', 'boosted'}
        The kind of CPD of the result. "auto" is "tree" after breaking cycles; after a search for an
        order it is "table", or "tree" if trees clearly predict held-out rows better. Tables have at most
        16,384 cells. Regressions and boosted trees of many parents are not tables, so they allow
        sampling and scores of complete rows, but not exact inference, unless `max_cells` is given.
    valid : Table, array or frame, optional
        Rows on which kappa and the kind of CPD are chosen; by default a tenth of the table.
    restore : bool
        After breaking cycles, give columns those of their former parents back that no longer close a
        cycle. Without this the result is that of the published algorithm, which is much sparser.
    kappa : float, optional
        The strength of the structure prior of trees; by default the network's own, or else chosen.
    penalty : float, optional
        The L1 penalty of regressions; by default the network's own, or else chosen.
    min_leaf, pseudo : float
        The settings of leaves, as in `learn`.
    max_cells : float, optional
        The maximum number of joint states of a column and its parents, for formats and engines that
        need tables; the parents that matter least are removed.
    random_state : int or numpy Generator
        Holds out rows, and draws the orders to start from.
    n_jobs : int, optional
        The number of parallel jobs of `learn`. The result does not depend on it.

    Returns
    -------
    BayesianNetwork
        Its provenance has the method, and the numbers of edges before and after.

    Examples
    --------
    >>> from conjoin import Domain
    >>> rng = np.random.default_rng(0)
    >>> rain, fog = rng.random((2, 500)) < 0.3
    >>> wet = np.where(rng.random(500) < 0.9, rain | fog, rain)
    >>> domain = Domain({"rain": ["no", "yes"], "fog": ["no", "yes"], "wet": ["no", "yes"]})
    >>> rows = Table(domain, np.stack([rain, fog, wet], axis=1).astype(int))
    >>> bn = to_bayesian_network(learn(rows, "tree"), rows)
    >>> bn
    <BayesianNetwork: 3 variables, 2 edges>
    >>> round(float(np.exp(bn.log_likelihood({"rain": "no", "fog": "no", "wet": "no"}))[0]), 2)
    0.52
    """
    dn = conditionals_of(dn)
    _check(dn, method, cpd)
    names = dn.domain.sorted_names()
    rows = in_content_order(as_table(table, dn.domain))
    codes_of(dn.domain, rows, complete=False)
    if not len(rows):
        raise ModelError("the table has no rows to learn from")
    held = None if valid is None else as_table(valid, dn.domain).reordered(names)
    rng = np.random.default_rng(random_state)
    learner = _Learner(
        dn.reordered(names), rows.reordered(names), held, cpd, Options(min_leaf, pseudo),
        np.inf if max_cells is None else float(max_cells), rng, n_jobs,
    )  # fmt: skip
    learned = dn.provenance.get("learned", {})
    learner.kappa, learner.penalty = kappa, learned.get("penalty") if penalty is None else penalty
    cpds = learner.by_order() if method == "order" else learner.by_breaking(restore)
    record = {
        "method": method,
        "cpd": learner.cpd,
        "edges": sum(len(found.blanket) for found in cpds),
        "edges_before": sum(len(given.blanket) for given in dn.cpds),
        **learner.record,
    }
    found = BayesianNetwork(learner.dn.domain, cpds, {**dn.provenance, "bayesian": record})
    return found.reordered(dn.domain.names)


def _check(dn: Any, method: str, cpd: str) -> None:
    if not isinstance(dn, DependencyNetwork):
        raise ModelError(f"expected a dependency network, not {type(dn).__name__}; see `learn`")
    if method not in METHODS:
        raise ModelError(f"there is no method {method!r}. " + did_you_mean(method, METHODS))
    if cpd not in CPDS:
        raise ModelError(f"there is no kind of CPD {cpd!r}. " + did_you_mean(cpd, CPDS))


class _Learner:
    """Learns one network, from rows with columns in the order of their names."""

    def __init__(
        self,
        dn: DependencyNetwork,
        table: Table,
        valid: Table | None,
        cpd: str,
        options: Options,
        max_cells: float,
        rng: np.random.Generator,
        n_jobs: int | None,
    ) -> None:
        self.dn, self.table, self.valid, self.cpd, self.options = dn, table, valid, cpd, options
        self.max_cells, self.rng, self.n_jobs = max_cells, rng, n_jobs
        self.kappa: float | None = None
        self.penalty: float | None = None
        self.record: dict[str, Any] = {}

    # ---- breaking cycles ----------------------------------------------------------------------

    def by_breaking(self, restore: bool) -> Sequence[CPD]:
        """Return the CPDs after the cheapest edges on cycles were removed."""
        blankets = self.dn.blankets()
        kappa = self._own_kappa(blankets)
        families = self._families(blankets, kappa)
        parents = acyclic_parents(families, blankets)
        self.record.update(kappa=kappa, edges_left=sum(map(len, parents)))
        if restore:
            parents = restored_parents(families, parents, blankets)
        if self.cpd in ("auto", "tree"):
            self.cpd = "tree"
            chosen = [
                family.within(own, self.max_cells) for family, own in _pairs(families, parents)
            ]
            return [family.cpd(own) for family, own in _pairs(families, chosen)]
        if self.cpd == "table":
            return self._counted(self.table, parents, kappa).cpds
        if restore:
            earlier = _earlier(parents)
            parents = [tuple(above & set(own)) for above, own in _pairs(earlier, blankets)]
        return self._small_cpds(self._learned(self.table, parents))

    def _own_kappa(self, blankets: Sequence[Parents]) -> float:
        """Return the kappa that was given, that of the network, or the best for these parents."""
        learned = self.dn.provenance.get("learned", {})
        kappa = learned.get("kappa") if self.kappa is None else self.kappa
        if kappa is None:
            kappa = self._learned(self.table, blankets, "tree").provenance["learned"]["kappa"]
        return float(kappa)

    # ---- a search over orders -----------------------------------------------------------------

    def by_order(self) -> Sequence[CPD]:
        """Return the CPDs for the best order of the columns."""
        train, held = self.table, self.valid
        if held is None and self.cpd == "auto":
            train, held = hold_out(self.table, HELD_OUT, self.rng)
        complete = _filled(train)
        parents = learn_structure(convert(self.dn, complete), complete, self.rng, None)
        if self.cpd == "auto":
            assert held is not None
            self._choose(train, parents, _filled(held))
        if self.cpd == "table":
            return self._counted(self.table, parents).cpds
        return self._small_cpds(self._learned(self.table, _earlier(parents)))

    def _choose(self, train: Table, parents: Sequence[Parents], held: Table) -> None:
        """Choose between tables and trees by the likelihood of held-out rows."""
        self.cpd = "tree"
        cpds = self._small_cpds(self._learned(train, _earlier(parents)))
        networks = [self._counted(train, parents), BayesianNetwork(train.domain, cpds)]
        tables, trees = (bn.log_likelihood(held) for bn in networks)
        weights = np.ones(len(held)) if held.weights is None else held.weights
        gain = np.average(trees - tables, weights=weights)
        error = np.sqrt(weights @ (trees - tables - gain) ** 2) / weights.sum()
        if gain <= MIN_ERRORS * error:
            self.cpd = "table"
        self.record["held_out"] = {
            name: float(np.average(log_p, weights=weights))
            for name, log_p in (("table", tables), ("tree", trees))
        }

    # ---- both ---------------------------------------------------------------------------------

    def _families(self, parents: Sequence[Collection[int]], kappa: float) -> list[TreeFamily]:
        return [
            TreeFamily(self.table, v, own, kappa, self.options) for v, own in enumerate(parents)
        ]

    def _small(
        self, parents: Sequence[Parents], max_cells: float, kappa: float
    ) -> Sequence[Parents]:
        """Return parents without those that matter least, until every table is small enough."""
        cards = self.table.domain.cards
        sizes = [np.prod(cards[[*own, v]], dtype=float) for v, own in enumerate(parents)]
        if max(sizes, default=0.0) <= max_cells:
            return parents
        families = self._families(parents, kappa)
        return [family.within(own, max_cells) for family, own in _pairs(families, parents)]

    def _counted(
        self, table: Table, parents: Sequence[Parents], kappa: float = 1.0
    ) -> BayesianNetwork:
        """Return a network of tables."""
        return fitted(
            _filled(table), self._small(parents, min(self.max_cells, MAX_FAMILY_CELLS), kappa)
        )

    def _small_cpds(self, dn: DependencyNetwork) -> Sequence[CPD]:
        """Return CPDs, learned again where they depend on too many columns for a table."""
        parents = dn.blankets()
        kappa = dn.provenance["learned"].get("kappa", 1.0)
        small = self._small(parents, self.max_cells, kappa)
        return dn.cpds if small is parents else self._learned(self.table, small).cpds

    def _learned(
        self, table: Table, allowed: Sequence[Collection[int]], kind: str | None = None
    ) -> DependencyNetwork:
        """Learn CPDs that depend on no other columns than those allowed."""
        names = table.domain.names
        others = {
            name: [other for u, other in enumerate(names) if u != v and u not in own]
            for v, (name, own) in enumerate(zip(names, map(set, allowed), strict=True))
        }
        return learn(
            table, kind or self.cpd, valid=self.valid, kappa=self.kappa, penalty=self.penalty,
            forbidden=others, min_leaf=self.options.min_leaf, pseudo=self.options.pseudo,
            random_state=int(self.rng.integers(2**31)), n_jobs=self.n_jobs,
        )  # fmt: skip


def _pairs(first: Sequence[T], second: Sequence[U]) -> Iterator[tuple[T, U]]:
    return zip(first, second, strict=True)


def _filled(table: Table) -> Table:
    """Return complete rows: missing values are drawn from the maximum-likelihood tree."""
    return table if table.complete else completed(tree_network(table), table)


def _earlier(parents: Sequence[Parents]) -> list[set[int]]:
    """Return for each column those before it in an order in which parents come first."""
    order = list(TopologicalSorter(dict(enumerate(parents))).static_order())
    place = {v: p for p, v in enumerate(order)}
    return [set(order[: place[v]]) for v in range(len(order))]
