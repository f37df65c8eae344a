"""Pictures and reports of a `JointModel`."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.estimator.fitted import Fitted

if TYPE_CHECKING:
    from conjoin.views.explorer.explorer_page import Explorer


class Pictures(Fitted):
    """Graphs, reports and the explorer of a fitted model."""

    def to_networkx(self) -> Any:
        """Return the graph of the model as a networkx graph."""
        from conjoin.views.reports import to_networkx

        self._fitted()
        return to_networkx(self.model_)

    def plot(self, **options: Any) -> Any:
        """Draw the graph of the model."""
        from conjoin.views.reports import plot

        self._fitted()
        return plot(self.model_, **options)

    def report(
        self,
        path: str | Path,
        X: Any = None,  # noqa: N803
        *,
        train: Any = None,
        title: str | None = None,
        explorer: bool = False,
        target: str | None = None,
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
        target : str, optional
            The column that matters most: the findings are about it.
        """
        from conjoin.views.reports import write_report

        self._fitted()
        write_report(
            self,
            path,
            train,
            X,
            conditionals=self.network_,
            title=title or f"{self.n_rows_:,} rows of {self.n_features_in_:,} columns",
            explorer=self.explore(train).html if explorer else None,
            target=target,
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
        from conjoin.views.explorer.explorer_page import explore

        self._fitted()
        heading = title or f"{self.n_rows_:,} rows of {self.n_features_in_:,} columns"
        return explore(self, X, title=heading)

    def _repr_html_(self) -> str:
        if hasattr(self, "model_"):
            from conjoin.views.reports import html_card

            return html_card(self.model_, self.n_rows_)
        return f"<pre>{escape(repr(self))}</pre>"
