"""Models of categories and numbers as the browser reads them: trees and Gaussians.

The page shows a number in bins of equal width or, where one of these would hold nearly everything, in
bins of similar probability; an atom has a bin of its own. The bins are those of the page alone: the model
behind them stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.mixed_table import MixedTable
from conjoin.data.number_scale import NumberScale, number_text
from conjoin.data.table import Table
from conjoin.explorer.tables import BrowserTree, browser_tree
from conjoin.inference.mixed import MixedAnswers
from conjoin.models.mixed import BinnedComponent, GaussianComponent, MixedNetwork
from conjoin.models.number_map import NumberMap
from conjoin.reports.associations import Associations, counted

BINS = 16
"""Approximate number of bins of a number."""

OUTER = 2.2
"""The normal scores beyond which there is one bin on either side."""

EMPTY = 1e-3
"""Outermost bins with a smaller probability are joined with their neighbours."""

MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600)
"""Widths of bins of dates."""

DRAWS = 20_000
"""Number of rows that are drawn to find out which columns go together."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins in which the page shows a number.

    Attributes
    ----------
    scale : NumberScale
        The column.
    mapped : NumberMap
        Its map to normal scores.
    edges : array
        The values between the bins. For a column with a grid, they lie between the values of the grid.
    """

    scale: NumberScale
    mapped: NumberMap
    edges: FloatArray

    @classmethod
    def of(cls, scale: NumberScale, mapped: NumberMap) -> Bins:
        """Choose bins."""
        from scipy.special import ndtr

        low, high = mapped.to_values(np.array([-OUTER, OUTER]))
        step = scale.step or 0.0
        cuts = _months(scale, low, high)
        if cuts is None:
            width = max(_nice((high - low) / BINS), step)
            width = np.ceil(round(width / step, 9)) * step if step else width
            cuts = np.arange(np.ceil(low / width), np.floor(high / width) + 1) * width
        share = np.diff(ndtr(mapped.to_scores(cuts)))
        if len(cuts) < 3 or share.max(initial=0.0) > 0.5:
            cuts = mapped.to_values(np.linspace(-OUTER, OUTER, 12))
            cuts = np.unique(np.asarray(scale.rounded(cuts)))
        half = mapped.step / 2
        edges = cuts - half if step else cuts
        atoms = mapped.atoms
        near = np.abs(edges[:, None] - atoms) < 2 * half
        beside = np.concatenate([atoms - half, atoms + half])
        edges = np.unique(np.concatenate([edges[~near.any(axis=1)], beside]))
        below = ndtr(mapped.to_scores(edges))
        below += (atoms < edges[:, None]).any(axis=1)
        above = ndtr(-mapped.to_scores(edges)) + (atoms > edges[:, None]).any(axis=1)
        recorded = (edges > scale.low) & (edges < scale.high)  # on either side
        return cls(scale, mapped, edges[(below > EMPTY) & (above > EMPTY) & recorded])

    @property
    def scores(self) -> FloatArray:
        """The normal scores of the edges."""
        return self.mapped.to_scores(self.edges)

    @property
    def cuts(self) -> FloatArray:
        """The first value of each bin, and the last value of all."""
        half = self.mapped.step / 2 if self.scale.step else 0.0
        outer = self.mapped.to_values(np.array([-3.0, 3.0]))
        first, last = min(outer[0], self.edges[0]), max(outer[1], self.edges[-1])
        return np.concatenate([[first], self.edges + half, [last]])

    @property
    def _narrowest(self) -> float:
        """The width of the narrowest bin."""
        return float(np.diff(self.cuts[1:-1]).min(initial=self.scale.high - self.scale.low))

    def labels(self) -> list[str]:
        """Return the names of the bins."""
        grid, cuts = bool(self.scale.step), [float(c) for c in self.cuts]

        def text(x: float) -> str:
            return self.scale.short(x, 10 * self._narrowest)

        labels = [f"below {text(cuts[1])}"]
        if (np.abs(self.mapped.atoms + self.mapped.step - cuts[1]) < self.mapped.step / 4).any():
            labels = [f"up to {text(cuts[1] - self.mapped.step)}"]  # an atom
        for low, high in pairwise(cuts[1:-1]):
            last = high - self.mapped.step if grid else high
            labels.append(text(low) if text(low) == text(last) else f"{text(low)} to {text(last)}")
        return [*labels, f"{text(cuts[-2])} or more"]

    def place(self, values: FloatArray) -> Any:
        """Return the bin of each value."""
        return np.searchsorted(self.edges, values, side="right")

    def column(self) -> dict[str, Any]:
        """Return the column as the page shows it."""
        labels = self.labels()
        column = {
            "name": self.scale.name,
            "kind": "number",
            "states": labels,
            "python": [repr(s) for s in labels],
            "cuts": [float(number_text(float(c), self._narrowest / 1e6, 10)) for c in self.cuts],
            "open": True,
            "step": self.mapped.step if self.scale.step else 0,
        }
        if self.scale.kind != "number":
            column["dates"] = [self.scale.short(float(c)) for c in self.cuts]
        return column


def _months(scale: NumberScale, low: float, high: float) -> FloatArray | None:
    """Return the first days of months, quarters or years between two dates; None for shorter times."""
    unit = {"date": 1.0, "datetime": 86_400.0}.get(scale.kind)
    if unit is None:
        return None
    first, last = (np.datetime64(int(x // unit), "D").astype("datetime64[M]") for x in (low, high))
    begin, end = int(first.astype(np.int64)), int(last.astype(np.int64))
    step = next((m for m in MONTHS if end - begin <= m * BINS), 1200)
    if end - begin < 6:
        return None
    months = np.arange(begin - begin % step + step, end + 1, step).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.float64) * unit


def _nice(width: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least as large."""
    power = 10.0 ** np.floor(np.log10(width))
    return float(next(k * power for k in (1, 2, 5, 10) if k * power >= width * 0.999))


class MixedPage:
    """What the page needs of a mixed network.

    Parameters
    ----------
    model : MixedNetwork
        The model.
    max_cells : int
        Maximum number of cells of the tables of each component.

    Attributes
    ----------
    bins : dict
        The bins of each number.
    trees : list of BrowserTree
        The junction tree of each component.
    """

    def __init__(self, model: MixedNetwork, max_cells: int) -> None:
        self.model = model
        self.bins = {n: Bins.of(model.scale(n), model.map_of(n)) for n in model.numbers}
        self.trees = [browser_tree(part.network, max_cells) for part in model.components]

    def parts(self, describe: Any) -> tuple[list[dict[str, Any]], list[FloatArray]]:
        """Return the components, and their numbers one after another; `describe` writes a tree."""
        parts, numbers = [], []
        pairs = zip(self.model.components, self.trees, self.model.shares, strict=True)
        for component, tree, share in pairs:
            values = [t.values.ravel() for t in tree.tables] + [tree.basis.ravel()]
            part: dict[str, Any] = {
                "share": float(share),
                "tree": describe(tree),
                "length": int(sum(v.size for v in values)),
                "columns": self._columns(component, tree),
            }
            if isinstance(component, GaussianComponent):
                part["gaussians"] = [
                    {"column": self.model.names.index(n), "edges": self.bins[n].scores.tolist()}
                    for n in self.model.numbers
                ]
                values += [
                    component.gaussians.means.ravel(),
                    component.gaussians.covariances.ravel(),
                ]
            parts.append(part)
            numbers += values
        return parts, numbers

    def _columns(
        self, component: GaussianComponent | BinnedComponent, tree: BrowserTree
    ) -> list[dict[str, Any]]:
        """Return the columns of a component's network: which ones of the page they are.

        The states of a number's variable spread over bins of the page; all but the last (the rest, if
        there are Gaussians) have a line of probabilities.
        """
        found = []
        for name in component.network.domain.observed.names:
            column: dict[str, Any] = {"column": self.model.names.index(name)}
            if name in self.bins:
                column["spread"] = self._spread(component, name).tolist()
            found.append(column)
        assert len(found) == len(tree.places)
        return found

    def _spread(self, component: GaussianComponent | BinnedComponent, name: str) -> FloatArray:
        from scipy.special import ndtr

        bins, j = self.bins[name], self.model.numbers.index(name)
        atoms = np.eye(len(bins.edges) + 1)[bins.place(bins.mapped.atoms)]
        if isinstance(component, GaussianComponent):
            return atoms
        ends = np.concatenate([[-np.inf], component.cuts[j], [np.inf]])
        edges = np.concatenate([[-np.inf], bins.scores, [np.inf]])
        inside = ndtr(np.clip(edges, ends[:-1, None], ends[1:, None]))
        shares = np.diff(inside, axis=1)
        return np.concatenate([atoms, shares / shares.sum(axis=1, keepdims=True)])

    def binned(self, table: MixedTable) -> Table:
        """Return a table with numbers in the bins of the page, in the order of the page's columns."""
        from conjoin.data.domain import Domain, Variable

        variables, codes = [], []
        categories = table.categories
        missing = np.iinfo(np.uint16).max
        for name in self.model.names:
            if name in self.bins:
                values = table.numbers[:, table.domain.numeric.index(name)]
                variables.append(Variable(name, self.bins[name].labels()))
                codes.append(np.where(np.isnan(values), missing, self.bins[name].place(values)))
            else:
                own = categories.codes[:, categories.domain.index(name)].astype(np.int64)
                variables.append(categories.domain[name])
                codes.append(np.where(own == categories.missing, missing, own))
        stacked = np.stack(codes, axis=1).astype(np.uint16)
        return Table(Domain(variables), stacked, categories.weights)

    def associations(self) -> Associations:
        """Return which columns go together, in drawn rows."""
        domain = self.model.domain
        none = np.full((DRAWS, len(domain.categories)), -1, np.int64)
        holes = np.full((DRAWS, len(domain.scales)), np.nan)
        empty = MixedTable(domain, Table(domain.categories, none), holes)
        drawn = MixedAnswers(self.model, empty).draws(1)[0]
        return Associations(counted(self.binned(drawn)), False)
