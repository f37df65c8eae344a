"""`to_bayesian_network`: from a dependency network to a Bayesian network over the same columns.

The graph of a dependency network has cycles. There are two ways to a graph without: removing the edges
that matter least (`conjoin.research.cycle_breaking`), and searching for the order of the columns with the
best score, with the network's strongest interactions as candidate parents
(`conjoin.joint.directed_search`). The conditionals are then learned again from all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from conjoin.conversion.closed_form import convert
from conjoin.data import as_table
from conjoin.data.holdout import hold_out
from conjoin.data.row_hashing import in_content_order
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, did_you_mean
from conjoin.inference.completion import completed
from conjoin.joint.dependence_tree import tree_network
from conjoin.joint.directed_network import fitted, learn_structure
from conjoin.joint.directed_search import MAX_FAMILY_CELLS, Parents
from conjoin.learning.conditional_learning import learn_conditionals
from conjoin.learning.options import Options
from conjoin.models import BayesianNetwork, DependencyNetwork
from conjoin.models.cpd import CPD
from conjoin.models.network import conditionals_of
from conjoin.research.cycle_breaking import TreeFamily, acyclic_parents

METHODS = ("break-cycles", "order")
CPDS = ("auto", "table", "tree")

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
    kappa: float | None = None,
    min_leaf: float = 10.0,
    max_cells: float | None = None,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> BayesianNetwork:
    """Turn a dependency network into a Bayesian network.

    The result does not depend on the order of rows and columns.

    Parameters
    ----------
    dn : DependencyNetwork
        The network that `learn_conditionals` found for the table, with CPDs of any kind.
    table : Table, 2-dimensional array, or frame
        The training rows.
    method : {'break-cycles', 'order'}
        How the graph becomes acyclic:

        * "break-cycles" (Hulten, Chickering and Heckerman, 2003): the cost of an edge j -> i is what
          the tree of i loses in score, the log-likelihood of the rows less -log(kappa) per split, when
          it is grown again without j. The cheapest edge on a cycle is removed and its tree is grown
          again, until no cycle is left. CPDs of other kinds are replaced by trees over the same parents.
        * "order": a search for the order of the columns whose best tables have the highest score (BDeu);
          candidate parents are the network's strongest interactions. Trees may then choose among all
          columns that come before.
    cpd : {'auto', 'tree', 'table'}
        The kind of CPD of the result. "auto" is "tree" after breaking cycles; after a search for an
        order it is "table", or "tree" if trees clearly predict held-out rows better. Tables have at most
        16,384 cells.
    valid : Table, array or frame, optional
        Rows on which kappa and the kind of CPD are chosen; by default a tenth of the table.
    kappa : float, optional
        The strength of the structure prior of trees; by default the network's own, or else chosen.
    min_leaf : float
        The minimum number of rows in a leaf, as in `learn_conditionals`.
    max_cells : float, optional
        The maximum number of joint states of a column and its parents, for formats and engines that
        need tables; the parents that matter least are removed.
    random_state : int or numpy Generator
        Holds out rows, and draws the orders to start from.
    n_jobs : int, optional
        The number of parallel jobs of `learn_conditionals`. The result does not depend on it.

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
    >>> bn = to_bayesian_network(learn_conditionals(rows, "tree"), rows)
    >>> bn
    <BayesianNetwork: 3 variables, 2 edges>
    >>> round(float(np.exp(bn.log_likelihood({"rain": "no", "fog": "no", "wet": "no"}))[0]), 2)
    0.52
    """
    dn = conditionals_of(dn)
    if not isinstance(dn, DependencyNetwork):
        raise ModelError(
            f"expected a dependency network, not {type(dn).__name__}; see `learn_conditionals`"
        )
    if method not in METHODS:
        raise ModelError(f"there is no method {method!r}. " + did_you_mean(method, METHODS))
    if cpd not in CPDS:
        raise ModelError(f"there is no kind of CPD {cpd!r}. " + did_you_mean(cpd, CPDS))
    names = dn.domain.sorted_names()
    rows = in_content_order(as_table(table, dn.domain))
    codes_of(dn.domain, rows, complete=False)
    if not len(rows):
        raise ModelError("the table has no rows to learn from")
    held = None if valid is None else as_table(valid, dn.domain).reordered(names)
    learner = _BayesianLearner(
        dn.reordered(names), rows.reordered(names), held, cpd, Options(min_leaf), kappa,
        np.inf if max_cells is None else float(max_cells),
        np.random.default_rng(random_state), n_jobs,
    )  # fmt: skip
    cpds = learner.by_order() if method == "order" else learner.by_breaking()
    record = {
        "method": method,
        "cpd": learner.cpd,
        "edges": sum(len(cpd.blanket) for cpd in cpds),
        "edges_before": sum(len(cpd.blanket) for cpd in dn.cpds),
        **learner.record,
    }
    bn = BayesianNetwork(learner.dn.domain, cpds, {**dn.provenance, "bayesian": record})
    return bn.reordered(dn.domain.names)


@dataclass
class _BayesianLearner:
    """Learns one network, from rows with columns in the order of their names."""

    dn: DependencyNetwork
    table: Table
    valid: Table | None
    cpd: str  # "auto" becomes the kind that is chosen
    options: Options
    kappa: float | None
    max_cells: float
    rng: np.random.Generator
    n_jobs: int | None
    record: dict[str, Any] = field(default_factory=dict)

    def by_breaking(self) -> Sequence[CPD]:
        """Return the CPDs after the cheapest edges on cycles were removed."""
        blankets = self.dn.blankets()
        kappa = self._own_kappa(blankets)
        families = self._families(blankets, kappa)
        parents = acyclic_parents(families, blankets)
        self.record["kappa"] = kappa
        if self.cpd == "table":
            return self._counted(self.table, parents, kappa).cpds
        self.cpd = "tree"
        return [
            family.cpd(family.within(allowed, self.max_cells))
            for family, allowed in zip(families, parents, strict=True)
        ]

    def _own_kappa(self, blankets: Sequence[Parents]) -> float:
        """Return the kappa that was given, that of the network, or the best for these parents."""
        learned = self.dn.provenance.get("learned", {})
        kappa = learned.get("kappa") if self.kappa is None else self.kappa
        if kappa is None:
            kappa = self._learned(self.table, blankets).provenance["learned"]["kappa"]
        return float(kappa)

    def by_order(self) -> Sequence[CPD]:
        """Return the CPDs for the best order of the columns."""
        train, held = self.table, self.valid
        if len(train) == 1 and self.cpd == "auto":
            self.cpd = "table"  # no row is left to choose by
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

    def _families(self, parents: Sequence[Collection[int]], kappa: float) -> list[TreeFamily]:
        return [
            TreeFamily(self.table, v, allowed, kappa, self.options)
            for v, allowed in enumerate(parents)
        ]

    def _small(
        self, parents: Sequence[Parents], max_cells: float, kappa: float
    ) -> Sequence[Parents]:
        """Return parents without those that matter least, until every table is small enough."""
        families = zip(self._families(parents, kappa), parents, strict=True)
        return [family.within(allowed, max_cells) for family, allowed in families]

    def _counted(
        self, table: Table, parents: Sequence[Parents], kappa: float = 1.0
    ) -> BayesianNetwork:
        return fitted(
            _filled(table), self._small(parents, min(self.max_cells, MAX_FAMILY_CELLS), kappa)
        )

    def _small_cpds(self, dn: DependencyNetwork) -> Sequence[CPD]:
        """Return CPDs, learned again where they depend on too many columns for a table."""
        parents = dn.blankets()
        kappa = dn.provenance["learned"].get("kappa", 1.0)
        small = self._small(parents, self.max_cells, kappa)
        return dn.cpds if small == list(parents) else self._learned(self.table, small).cpds

    def _learned(self, table: Table, allowed: Sequence[Collection[int]]) -> DependencyNetwork:
        """Learn trees that depend on no other columns than those allowed."""
        names = table.domain.names
        others = {
            name: [other for u, other in enumerate(names) if u != v and u not in parents]
            for v, (name, parents) in enumerate(zip(names, allowed, strict=True))
        }
        return learn_conditionals(
            table, "tree", valid=self.valid, kappa=self.kappa, forbidden=others,
            min_leaf=self.options.min_leaf, random_state=int(self.rng.integers(2**31)),
            n_jobs=self.n_jobs,
        )  # fmt: skip


def _filled(table: Table) -> Table:
    """Return complete rows: missing values are drawn from the maximum-likelihood tree."""
    return table if table.complete else completed(tree_network(table), table)


def _earlier(parents: Sequence[Parents]) -> list[set[int]]:
    """Return for each column those before it in an order in which parents come first."""
    order = list(TopologicalSorter(dict(enumerate(parents))).static_order())
    place = {v: p for p, v in enumerate(order)}
    return [set(order[: place[v]]) for v in range(len(order))]
