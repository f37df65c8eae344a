"""Answers from a mixed network for the rows of a table, each with its own missing values.

Each component answers for itself (`conjoin.inference.component_answers`). Its answers are weighted by how
well it predicts what a row knows.
"""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table, code_dtype
from conjoin.errors import ModelError
from conjoin.inference.component_answers import BinnedAnswers, GaussianAnswers, normalized
from conjoin.inference.number_distribution import NumberDistributions
from conjoin.models.gaussians import Scores, drawn_states
from conjoin.models.hidden_states import log_sum
from conjoin.models.mixed import GaussianComponent, MixedNetwork, points_of, scores_of


def log_density(model: MixedNetwork, table: MixedTable) -> FloatArray:
    """Return the log-density of the known values of each row.

    It is the logarithm of a probability for categories, and of a probability per unit for numbers; that
    of an atom is its probability per step of the column. The density of columns together is that of some
    of them times that of the others given these, in any order.
    """
    return MixedAnswers(model, table).log_density()


Parts = list[GaussianAnswers | BinnedAnswers]
"""The answers of each component."""


class MixedAnswers:
    """Answers for the rows of a table.

    Parameters
    ----------
    model : MixedNetwork
        The model.
    table : MixedTable
        The rows, with columns in any order.
    random_state : int
        The seed of draws.
    scores : Scores, optional
        The cells that known numbers stand for, if they are not those of recorded values.
    """

    def __init__(
        self,
        model: MixedNetwork,
        table: MixedTable,
        random_state: int = 0,
        scores: Scores | None = None,
    ) -> None:
        self.model, self.table, self.random_state = model, table, random_state
        self.parts: Parts = []
        self.scores = points_of(model.maps, model.values(table)) if scores is None else scores
        for component in model.components:
            codes = model.codes(component, table, self.scores)
            if isinstance(component, GaussianComponent):
                self.parts.append(GaussianAnswers(model, component, codes, self.scores))
            else:
                self.parts.append(BinnedAnswers(model, component, codes, self.scores))
        with np.errstate(divide="ignore"):
            self.log_shares = np.log(model.shares)

    def select(self, rows: IntArray, random_state: int = 0) -> MixedAnswers:
        """Return the answers for some of the rows."""
        return MixedAnswers(self.model, self.table.select(rows), random_state, self.scores[rows])

    def log_density(self) -> FloatArray:
        """Return the log-density of the known values of each row (see `log_density`)."""
        known = ~np.isnan(self.model.values(self.table))
        steps = np.log([mapped.step for mapped in self.model.maps])
        return self.log_likelihood() - known @ steps

    def log_likelihood(self) -> FloatArray:
        """Return the log-density of the known values of each row, per step of the columns."""
        return np.asarray(log_sum(self._joint([part.log_likelihood() for part in self.parts])))

    def log_mass(self) -> FloatArray:
        """Return the log-probability of each row as recorded: of the cells of its known values.

        It is a sum over cells, each given the middles of the columns before it by name. Where cells are
        wide given the rest of the row, it differs from the density times the steps.
        """
        cells = scores_of(self.model.maps, self.model.values(self.table))
        return MixedAnswers(self.model, self.table, scores=cells).log_likelihood()

    def _joint(self, by_part: list[FloatArray]) -> FloatArray:
        return np.stack(by_part, axis=1) + self.log_shares

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category given the rest of each row, rows by states."""
        self.model.domain.categories.index(name)
        return self._category(name, *self._without(name))

    def number(self, name: str) -> NumberDistributions:
        """Return the distribution of a number given the rest of each row."""
        self.model.map_of(name)  # raises if there is no such number
        return self._number(name, *self._without(name))

    def _without(self, name: str) -> tuple[Parts, FloatArray]:
        """Return the answers of the components without a column, and the shares of the components."""
        parts = [part.without(name) for part in self.parts]
        return parts, normalized(self._joint([part.log_likelihood() for part in parts]))

    def _category(self, name: str, parts: Parts, shares: FloatArray) -> FloatArray:
        """Return the distribution of a category that is missing in all rows."""
        result = np.zeros((len(shares), len(self.model.domain.categories[name].states)))
        for k, part in enumerate(parts):
            rows = np.flatnonzero(shares[:, k] > 0)
            result[rows] += shares[rows, k, None] * part.select(rows).category(name)
        return result

    def _number(self, name: str, parts: Parts, shares: FloatArray) -> NumberDistributions:
        """Return the distribution of a number that is missing in all rows."""
        mapped, j = self.model.map_of(name), self.model.numbers.index(name)
        found = [part.number(j) for part in parts]
        return NumberDistributions(
            self.model.scale(name),
            mapped,
            np.asarray(sum(shares[:, [k]] * one.atoms for k, one in enumerate(found))),
            np.concatenate([shares[:, [k]] * one.weights for k, one in enumerate(found)], axis=1),
            np.concatenate([one.means for one in found], axis=1),
            np.concatenate([one.sds for one in found], axis=1),
            np.concatenate([one.low for one in found]),
            np.concatenate([one.high for one in found]),
        )

    def likely(self, numbers: str = "mean") -> MixedTable:
        """Return the table with each missing value filled in, given what its row knows.

        Parameters
        ----------
        numbers : {'mean', 'median', 'mode'}
            What is filled in for numbers; categories get their most probable state.
        """
        if numbers not in ("mean", "median", "mode"):
            raise ModelError(f"numbers must be 'mean', 'median' or 'mode', not {numbers!r}")
        filled = _Filled(self.table)
        incomplete = np.flatnonzero(self.table.holes.any(axis=1))
        if not len(incomplete):
            return filled.table()
        parts = [part.select(incomplete) for part in self.parts]
        shares = normalized(self._joint([part.log_likelihood() for part in parts]))
        for name, rows in filled.holes():
            at = np.searchsorted(incomplete, rows)
            known = [part.select(at) for part in parts], shares[at]
            if name in self.model.numbers:
                found = getattr(self._number(name, *known), numbers)()
                filled.put(name, rows, np.asarray(self.model.scale(name).rounded(found)))
            else:
                filled.put(name, rows, self._category(name, *known).argmax(axis=1))
        return filled.table()

    def draws(self, count: int) -> list[MixedTable]:
        """Return the table with its missing values drawn given what each row knows, several times."""
        rng = np.random.default_rng(self.random_state)
        shares = normalized(self._joint([part.log_likelihood() for part in self.parts]))
        values = self.model.values(self.table)
        result = []
        for _ in range(count):
            filled = _Filled(self.table)
            chosen = drawn_states(shares, rng)
            for k, part in enumerate(self.parts):
                rows = np.flatnonzero(chosen == k)
                if len(rows):
                    codes, numbers = part.select(rows).draw(values[rows], rng)
                    names = part.component.network.domain.observed.names
                    filled.put_all(self.model, rows, names, codes, numbers)
            result.append(filled.table())
        return result


class _Filled:
    """A copy of a table whose missing values are filled in."""

    def __init__(self, original: MixedTable) -> None:
        self.original = original
        self.codes = original.categories.codes.astype(np.int64)
        self.codes[original.categories.codes == original.categories.missing] = -1
        self.numbers = original.numbers.copy()

    def holes(self) -> list[tuple[str, IntArray]]:
        """Return the columns with missing values, and the rows that lack them."""
        original = self.original
        found = zip(original.names, original.holes.T, strict=True)
        return [(name, np.flatnonzero(hole)) for name, hole in found if hole.any()]

    def put(self, name: str, rows: IntArray, values: FloatArray | IntArray) -> None:
        """Fill in some rows of a column."""
        if name in self.original.domain.numeric:
            self.numbers[rows, self.original.domain.numeric.index(name)] = values
        else:
            self.codes[rows, self.original.categories.domain.index(name)] = values

    def put_all(
        self,
        model: MixedNetwork,
        rows: IntArray,
        names: tuple[str, ...],
        codes: IntArray,
        numbers: FloatArray,
    ) -> None:
        """Fill in whole rows; numbers are rounded to the resolution of their column."""
        for j, name in enumerate(model.numbers):
            at = self.original.domain.numeric.index(name)
            hole = np.isnan(self.original.numbers[rows, at])
            self.put(name, rows[hole], np.asarray(model.scale(name).rounded(numbers[hole, j])))
        for name in self.original.categories.domain.names:
            self.put(name, rows, codes[:, names.index(name)])

    def table(self) -> MixedTable:
        """Return the table."""
        original = self.original.categories
        codes = self.codes.astype(code_dtype(original.domain.cards))
        codes[self.codes < 0] = original.missing
        filled = Table.adopt(original.domain, codes, original.weights)
        return MixedTable(self.original.domain, filled, self.numbers)
