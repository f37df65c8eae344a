"""Pictures and reports of a `JointModel`; pictures of graphs show numbers as bins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.domain import Domain, Variable
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.estimator.encoding import BINS
from conjoin.estimator.fitted import Fitted
from conjoin.inference.mixed import MixedAnswers
from conjoin.models.markov import MarkovNetwork
from conjoin.models.mixed import MixedNetwork

if TYPE_CHECKING:
    from conjoin.explorer.page import Explorer

DRAWN_ROWS = 5_000
"""Number of rows that are drawn from a mixed network to learn a network of bins from."""


def drawn_rows(model: MixedNetwork, count: int, seed: int) -> MixedTable:
    """Return rows that are drawn from a mixed network."""
    domain = model.domain
    none = np.full((count, len(domain.categories)), -1, np.int64)
    empty = MixedTable(
        domain, Table(domain.categories, none), np.full((count, len(domain.scales)), np.nan)
    )
    return MixedAnswers(model, empty, seed).draws(1)[0]


def network_of_bins(model: MixedNetwork, seed: int = 0) -> MarkovNetwork:
    """Return a network of states that resembles a mixed network: learned from its draws, cut into bins.

    It is meant for pictures of what depends on what, not for probabilities.
    """
    from conjoin.joint.learning import learn_joint

    rows = drawn_rows(model, DRAWN_ROWS, seed)
    ends = np.array([(scale.low, scale.high) for scale in rows.scales]).T
    rows = MixedTable(rows.domain, rows.categories, np.clip(rows.numbers, *ends))
    table = _named_atoms(rows, rows.binned(dict.fromkeys(rows.domain.numeric, BINS)))
    return learn_joint(table, effort="quick", random_state=seed)[1]


def _named_atoms(rows: MixedTable, table: Table) -> Table:
    """Return a table of bins in which a bin that holds one number only is called by this number."""
    variables = list(table.domain)
    for scale in rows.scales:
        i = table.domain.index(scale.name)
        variable, codes, x = variables[i], table.codes[:, i], rows.column(scale.name)
        if variable.cuts is None or scale.kind != "number":
            continue
        inside = [x[codes == s] for s in range(len(variable))]
        labels = [
            scale.text(own[0]) if len(own) and own.min() == own.max() else label
            for own, label in zip(inside, variable.states, strict=True)
        ]
        variables[i] = Variable(scale.name, labels, variable.cuts)
    return Table.adopt(Domain(variables), table.codes, table.weights)


class Pictures(Fitted):
    """Graphs, reports and the explorer of a fitted model."""

    def as_network(self) -> MarkovNetwork:
        """Return the network of states; if the model has numbers, a similar one of bins.

        Pictures show this network. With numbers, it is learned from draws, and only resembles the model.
        """
        self._fitted()
        if not isinstance(self.model_, MixedNetwork):
            return self.model_
        if self.bins_ is None:
            self.bins_ = network_of_bins(self.model_, self.seed_)
        return self.bins_

    def to_networkx(self) -> Any:
        """Return the graph of the model as a networkx graph."""
        from conjoin.reports import to_networkx

        return to_networkx(self.as_network())

    def plot(self, **options: Any) -> Any:
        """Draw the graph of the model."""
        from conjoin.reports import plot

        return plot(self.as_network(), **options)

    def report(
        self,
        path: str | Path,
        X: Any = None,  # noqa: N803
        *,
        train: Any = None,
        title: str | None = None,
        explorer: bool = False,
    ) -> None:
        """Write an HTML page about the model: its columns, what goes with what, and how good it is.

        Parameters
        ----------
        path : str or Path
            The file to write.
        X : array or frame, optional
            Rows that it was not fitted to, to check its predictions on.
        train : array or frame, optional
            The rows that it was fitted to: the page describes them, lists what looks odd in them, and
            compares predictions for `X` with gradient boosting, if that is installed.
        title : str, optional
            The heading.
        explorer : bool
            Whether the page ends with the explorer.
        """
        from conjoin.reports import write_report

        self._fitted()
        write_report(
            self,
            path,
            train,
            X,
            conditionals=self.network_,
            title=title or f"{self.n_rows_:,} rows of {self.n_features_in_:,} columns",
            explorer=self.explore(train).html if explorer else None,
        )

    def explore(self, X: Any = None, *, title: str | None = None) -> Explorer:  # noqa: N803
        """Return a page on which the model can be explored; a notebook shows it.

        Parameters
        ----------
        X : array or frame, optional
            Rows to compare the model with: their frequencies are marked beside its probabilities. The
            rows themselves are not part of the page.
        title : str, optional
            The heading.

        Returns
        -------
        Explorer
            ``.save(path)`` writes the page to a file, ``.open()`` shows it in a browser.
        """
        from conjoin.explorer.page import explore

        self._fitted()
        heading = title or f"{self.n_rows_:,} rows of {self.n_features_in_:,} columns"
        return explore(self, X, title=heading)
