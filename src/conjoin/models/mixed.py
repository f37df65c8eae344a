"""`MixedNetwork`: one joint distribution of categories and numbers.

It is a mixture of components. A Gaussian component has a hidden column; given its state, the normal
scores of the numbers have a Gaussian distribution, and the categories follow a Markov network. In a
binned component, bins of the numbers are states of a Markov network like the categories, and the position
within a bin depends on nothing else. In both, the atoms of a number (see `NumberMap`) are states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, read_only
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.number_scale import NumberScale
from conjoin.errors import DataError, ModelError
from conjoin.models.gaussians import Gaussians, Scores
from conjoin.models.markov import MarkovNetwork
from conjoin.models.number_map import NumberMap

REST = "other"
"""The state of a number that is not one of its atoms, in a Gaussian component."""


@dataclass(frozen=True, eq=False)
class GaussianComponent:
    """A hidden column whose states have a Gaussian each.

    Attributes
    ----------
    network : MarkovNetwork
        The categories, a variable for each number that has atoms (its atoms, and `REST`), and the hidden
        column. Its log Z is 0.
    gaussians : Gaussians
        The normal scores of the numbers given the hidden state.
    """

    network: MarkovNetwork
    gaussians: Gaussians


@dataclass(frozen=True, eq=False)
class BinnedComponent:
    """A network of bins.

    Attributes
    ----------
    network : MarkovNetwork
        The categories, and a variable for each number: its atoms, then its bins; perhaps a hidden column.
    cuts : tuple of array
        The normal scores between the bins of each number.
    """

    network: MarkovNetwork
    cuts: tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class MixedNetwork:
    """A joint distribution of categories and numbers.

    Attributes
    ----------
    domain : MixedDomain
        The columns, in the order of the user's table.
    maps : tuple of NumberMap
        The map of each number, in the order of `numbers`.
    components : tuple of GaussianComponent or BinnedComponent
        The components.
    shares : array of float
        Their probabilities.
    provenance : mapping
        How it was learned.
    """

    domain: MixedDomain
    maps: tuple[NumberMap, ...]
    components: tuple[GaussianComponent | BinnedComponent, ...]
    shares: FloatArray
    provenance: Mapping[str, Any] = field(default_factory=dict)

    kind = "mixed network"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", read_only(np.array(self.shares, np.float64)))
        if len(self.maps) != len(self.numbers):
            raise ModelError("a mixed network needs a map for each column of numbers")
        if not self.components or self.shares.shape != (len(self.components),):
            raise ModelError("a mixed network needs components, and a share for each")

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers, sorted by name: the order of maps, Gaussians and cuts."""
        return tuple(sorted(self.domain.numeric))

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in the order of the user's table."""
        return self.domain.names

    def scale(self, name: str) -> NumberScale:
        """Return the scale of a column of numbers."""
        return self.domain.scale(name)

    def map_of(self, name: str) -> NumberMap:
        """Return the map of a column of numbers."""
        self.domain.scale(name)
        return self.maps[self.numbers.index(name)]

    def values(self, table: MixedTable) -> FloatArray:
        """Return the numbers of a table in the order of `numbers`."""
        self.check(table)
        own = list(table.domain.numeric)
        return table.numbers[:, [own.index(name) for name in self.numbers]]

    def check(self, table: MixedTable) -> None:
        """Raise an error if a table has other columns or states."""
        same = set(table.domain.numeric) == set(self.numbers)
        mine, theirs = self.domain.categories, table.categories.domain
        if not same or sorted(mine.names) != sorted(theirs.names):
            raise DataError("the columns of the table are not those of the model")
        if theirs.reordered(mine.names) != mine:
            raise DataError("the states of the table are not those of the model")

    def codes(
        self, component: GaussianComponent | BinnedComponent, table: MixedTable, scores: Scores
    ) -> IntArray:
        """Return the states of the visible variables of a component's network; -1 where missing.

        A number that has a score is not one of its atoms.
        """
        shown, values = component.network.domain.observed, self.values(table)
        own, codes = table.categories.domain, np.full((len(table), len(shown)), -1, np.int64)
        for i, name in enumerate(shown.names):
            if name in self.numbers:
                j = self.numbers.index(name)
                middle = scores.middle[:, j]
                rest = np.full(len(table), len(self.maps[j].atoms))
                if isinstance(component, BinnedComponent):
                    rest += np.searchsorted(component.cuts[j], middle, side="right")
                atom = self.maps[j].atom_of(values[:, j])
                codes[:, i] = np.where(np.isnan(middle), atom, rest)
            else:
                column = table.categories.codes[:, own.index(name)].astype(np.int64)
                codes[:, i] = np.where(column == table.categories.missing, -1, column)
        return codes

    def __repr__(self) -> str:
        a, b = len(self.domain.categories), len(self.numbers)
        states = [
            len(c.gaussians.means) for c in self.components if isinstance(c, GaussianComponent)
        ]
        hidden = f", {sum(states)} hidden states" if states else ""
        return f"<MixedNetwork: {a} categories, {b} numbers{hidden}>"


def scores_of(maps: Sequence[NumberMap], values: FloatArray) -> Scores:
    """Return the normal scores of the cells of numbers; NaN for missing values and atoms."""
    middle, width = np.full(values.shape, np.nan), np.ones(values.shape)
    for j, mapped in enumerate(maps):
        rest = np.flatnonzero(mapped.atom_of(values[:, j]) == len(mapped.atoms))
        low, high = mapped.cell(values[rest, j])
        middle[rest, j], width[rest, j] = (low + high) / 2, high - low
    return Scores(middle, width, np.ones(len(maps), bool))


def points_of(maps: Sequence[NumberMap], values: FloatArray) -> Scores:
    """Return the normal scores of numbers, and the rise of the score per step as their width.

    The density of a score times this width is the density of the number per step.
    """
    middle, width = np.full(values.shape, np.nan), np.ones(values.shape)
    for j, mapped in enumerate(maps):
        rest = np.flatnonzero(mapped.atom_of(values[:, j]) == len(mapped.atoms))
        middle[rest, j] = mapped.to_scores(values[rest, j])
        width[rest, j] = mapped.slopes_at(values[rest, j]) * mapped.step
    return Scores(middle, width)
