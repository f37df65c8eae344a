"""`learn_mixed`: from a table of categories and numbers to one joint distribution.

Rows that are held out choose the map of each number, and weigh fits of the hidden column that differ in
size, priors and random starts. The fits that count are then continued on all rows, and stacked: their
states together are the states of one hidden column. In small tables, a network of bins is a further
component if it helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.mixed_table import MixedTable
from conjoin.data.row_hashing import content_order
from conjoin.data.table import Table
from conjoin.errors import ModelError, did_you_mean, names_lack_of_memory
from conjoin.inference.completion import completed
from conjoin.inference.mixed import MixedAnswers
from conjoin.jobs import one_thread
from conjoin.joint.binned_component import learn_binned, relearn_binned
from conjoin.joint.category_base import learn_base, relearned
from conjoin.joint.hidden_tables import stacking_weights
from conjoin.joint.mixture_choices import (
    BACKGROUND,
    FEW_ROWS,
    pair_cells_for,
    room_for,
    settings_for,
    within,
)
from conjoin.joint.mixture_fit import Bases, MixedRows, MixtureFit
from conjoin.joint.number_maps import MapChoice, choose_map, find_atoms, learn_map
from conjoin.joint.refine import MIN_ROWS
from conjoin.joint.stacked_component import stacked_component
from conjoin.models.markov import MarkovNetwork
from conjoin.models.mixed import (
    REST,
    BinnedComponent,
    GaussianComponent,
    MixedNetwork,
    scores_of,
)
from conjoin.models.number_map import NumberMap
from conjoin.progress import progress

MIN_COPIES = 0.1
"""If this share of the rows are copies of others, copies are held out together."""

HELD_OUT = 0.15
"""The share of the rows that chooses."""

MIN_SHARE = 0.02
"""Fits and components with a smaller weight are left out."""

PROMISING = 0.005
"""Fits with a smaller weight, as long as categories are independent, are not continued."""

SCORED_ROWS = 1_000
"""Maximum number of held-out rows whose score is recorded."""


class MixedEffort(NamedTuple):
    """How many fits are made.

    Attributes
    ----------
    starts : int
        Random starts of all fits.
    rows : int
        Maximum number of rows that the hidden column is learned from.
    binned_rows : int
        Maximum number of rows for which a network of bins is tried.
    binned : str, optional
        The effort of learning it (see `learn_joint`); by default it is a thin network.
    """

    starts: int
    rows: int
    binned_rows: int
    binned: str | None = None


EFFORTS = {
    "quick": MixedEffort(1, 4_000, 0),
    "default": MixedEffort(1, 10_000, 2_000),
    "thorough": MixedEffort(3, 40_000, 8_000, "default"),
}
"""The settings of `effort`."""


@names_lack_of_memory
def learn_mixed(
    table: MixedTable,
    *,
    effort: str = "default",
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> MixedNetwork:
    """Learn the joint distribution of a table of categories and numbers.

    The result does not depend on the order of the columns or rows.

    Parameters
    ----------
    table : MixedTable
        The rows, with at least one column of numbers.
    effort : {'quick', 'default', 'thorough'}
        How many fits are made, and from how many rows.
    random_state : int or numpy Generator
        The source of all random choices.
    n_jobs : int, optional
        The number of jobs at a time; it does not change the result.

    Examples
    --------
    >>> from conjoin.data.columns import Column
    >>> rng = np.random.default_rng(0)
    >>> smoker = rng.random(400) < 0.3
    >>> age = np.round(rng.normal(40 + 20 * smoker, 5))
    >>> columns = {"age": age, "smoker": np.where(smoker, "yes", "no")}
    >>> table = MixedTable.of_columns([Column.of_values(n, v) for n, v in columns.items()])
    >>> model = learn_mixed(table)
    >>> smokers = MixedAnswers(model, table.select(smoker))
    >>> bool(abs(smokers.number("age").mean()[0] - 60) < 2)
    True
    """
    if not table.scales:
        raise ModelError("a table without numbers needs no mixed network; use `learn_joint`")
    if not len(table):
        raise ModelError("a table without rows cannot be learned from")
    if effort not in EFFORTS:
        raise ModelError(f"effort {effort!r} is not known. " + did_you_mean(effort, EFFORTS))
    with one_thread():
        return _Learning(table, EFFORTS[effort], random_state, n_jobs).run()


def _stacked(fits: Sequence[MixtureFit], held: MixedRows) -> FloatArray:
    """Return the weights of fits that predict held-out rows best; the last is the background."""
    more = [-np.inf] * (len(fits) - 1) + [0.0]  # a row that only the background explains
    masses = [np.append(fit.log_mass(held), x) for fit, x in zip(fits, more, strict=True)]
    return stacking_weights(masses, np.append(held.weights, held.weights.mean()))


def _selected(fits: Sequence[MixtureFit], which: BoolArray) -> list[MixtureFit]:
    return [fit for fit, yes in zip(fits, which, strict=True) if yes]


def _in_content_order(table: MixedTable) -> MixedTable:
    """Return the rows in an order that depends on their contents, not on their order in the table."""
    categories = table.categories.reordered(table.categories.domain.sorted_names())
    codes = categories.codes.astype(np.float64)
    codes[categories.codes == categories.missing] = np.nan
    numbers = [table.column(name) for name in sorted(table.domain.numeric)]
    weights = np.ones(len(table)) if table.weights is None else table.weights
    return table.select(content_order(np.column_stack([codes, *numbers]), weights))


class _Learning:
    """Learning from one table, whose numbers and categories are sorted by name."""

    def __init__(
        self, table: MixedTable, effort: MixedEffort, random_state: Any, n_jobs: int | None
    ) -> None:
        self.domain, self.effort, self.n_jobs = table.domain, effort, n_jobs
        self.rng = np.random.default_rng(random_state)
        self.names = sorted(table.domain.numeric)
        table = _in_content_order(table)
        self.values = np.stack([table.column(name) for name in self.names], axis=1)
        self.steps = [table.domain.scale(name).step for name in self.names]
        self.categories = table.categories.reordered(table.categories.domain.sorted_names())
        self.weights = np.ones(len(table)) if table.weights is None else table.weights
        self.table = table
        self.held, self.train = self._split()

    def _split(self) -> tuple[IntArray, IntArray]:
        """Return the rows to choose by and the rows to learn from, in random order.

        Several numbers are hardly equal by chance, so rows that are equal in all columns are copies. If
        there are many, they stay together. The table has equal rows next to each other.
        """
        rows = len(self.table)
        wanted = 0 if rows < MIN_ROWS else max(1, round(HELD_OUT * rows))
        group = np.arange(rows)
        if len(self.names) > 1:
            codes, values = self.categories.codes, self.values
            same = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
            same = same.all(axis=1) & (codes[1:] == codes[:-1]).all(axis=1)
            copies = np.cumsum(np.append(0, ~same))[:rows]
            many = rows - 1 - copies[-1] >= MIN_COPIES * rows
            group = copies if many and np.bincount(copies).max() <= wanted else group
        place = np.argsort(self.rng.permutation(group[-1] + 1))[group]
        order = np.argsort(place, kind="stable")
        count = (
            int(np.searchsorted(place[order], place[order[wanted - 1]], "right")) if wanted else 0
        )
        return order[:count], order[count:]

    def run(self) -> MixedNetwork:
        """Return the network."""
        everything = np.arange(len(self.values))
        columns = range(len(self.names))
        atoms = [self._atoms(j) for j in columns]
        choices = [self._choice(j, atoms[j]) for j in columns]
        maps, final = (
            tuple(self._map(j, atoms[j], choices[j], rows) for j in columns)
            for rows in (self.train, everything)
        )
        states = self._state_domain(final)
        train, held = (rows[: self.effort.rows] for rows in (self.train, self.held))
        base, parts = self._parts(states, maps, train, held)
        fits, shares = self._fits(base, parts)
        network = self._network(maps, [stacked_component(fits, shares, states, self._hidden)])
        share, binned = self._binned(network)
        if len(held):
            rows = np.concatenate([self.train, self.held])[-self.effort.rows :]
            self._continue(fits, base, states, final, rows)
        components: list[GaussianComponent | BinnedComponent] = [
            stacked_component(fits, shares, states, self._hidden)
        ]
        if binned is not None:
            part, how = self._part(everything), (self.effort.binned, self.n_jobs)
            components.append(relearn_binned(binned, maps, part, self.names, final, *how))
        weights = np.ones(1) if binned is None else np.array([1 - share, share])
        kept = [
            (fit.settings.states, round(float(s), 4)) for fit, s in zip(fits, shares, strict=True)
        ]
        record = {"rows": len(self.values), "states and shares": kept, "binned": share}
        record |= self._held_out(network)
        return self._network(final, components, weights, {"mixed": record})

    def _network(
        self,
        maps: Sequence[NumberMap],
        components: Sequence[GaussianComponent | BinnedComponent],
        shares: FloatArray | None = None,
        provenance: dict[str, Any] | None = None,
    ) -> MixedNetwork:
        weights = np.ones(1) if shares is None else shares
        return MixedNetwork(self.domain, tuple(maps), tuple(components), weights, provenance or {})

    def _known(self, j: int, rows: IntArray) -> IntArray:
        """Return those of some rows that know a number; of all rows, if it is fewer than two."""
        known = ~np.isnan(self.values[:, j])
        found = rows[known[rows]]
        return found if len(found) > 1 else np.flatnonzero(known)

    def _atoms(self, j: int) -> FloatArray:
        rows = self._known(j, self.train)
        return find_atoms(self.values[rows, j], self.weights[rows])

    def _choice(self, j: int, atoms: FloatArray) -> MapChoice:
        rows, held = self._known(j, self.train), self.held[~np.isnan(self.values[self.held, j])]
        values, weights = self.values[rows, j], self.weights[rows]
        return choose_map(values, weights, self.steps[j], atoms, self.values[held, j])

    def _map(self, j: int, atoms: FloatArray, choice: MapChoice, rows: IntArray) -> NumberMap:
        known = self._known(j, rows)
        values, signed = self.values[known, j], self.domain.scale(self.names[j]).kind == "number"
        return learn_map(values, self.weights[known], self.steps[j], atoms, choice, signed=signed)

    def _state_domain(self, maps: Sequence[NumberMap]) -> Domain:
        """Return the domain of the categories, and of the numbers with atoms."""
        variables = list(self.categories.domain.variables)
        for name, mapped in zip(self.names, maps, strict=True):
            if len(mapped.atoms):
                variables.append(Variable(name, [*mapped.atoms.tolist(), REST]))
        return Domain(variables)

    @property
    def _hidden(self) -> str:
        """A name for the hidden column that no other column has."""
        name = "(hidden)"
        while name in self.domain.names:
            name = f"({name})"
        return name

    def _states(self, domain: Domain, maps: Sequence[NumberMap], rows: IntArray) -> Table:
        """Return the categories and atoms of some rows."""
        codes = self.categories.codes[rows].astype(np.int64)
        codes[self.categories.codes[rows] == self.categories.missing] = -1
        own = [
            mapped.atom_of(self.values[rows, j])[:, None]
            for j, mapped in enumerate(maps)
            if len(mapped.atoms)
        ]
        return Table(domain, np.concatenate([codes, *own], axis=1), self.weights[rows])

    def _rows(self, maps: Sequence[NumberMap], states: Table, rows: IntArray) -> MixedRows:
        codes = states.codes.astype(np.int64)
        return MixedRows(
            scores_of(maps, self.values[rows]), codes, states.domain.cards, self.weights[rows]
        )

    def _parts(
        self, domain: Domain, maps: Sequence[NumberMap], train: IntArray, held: IntArray
    ) -> tuple[MarkovNetwork | None, list[MixedRows]]:
        """Return the thin network of the categories, and the rows to learn from and to choose by."""
        tables = [self._states(domain, maps, rows) for rows in (train, held)]
        base = None
        if len(domain):
            most = pair_cells_for(len(self.names))
            base, *tables = learn_base(tables[0], tables[1], self.n_jobs, max_pair_cells=most)
        parts = zip(tables, (train, held), strict=True)
        return base, [self._rows(maps, states, rows) for states, rows in parts]

    def _fits(
        self, base: MarkovNetwork | None, parts: Sequence[MixedRows]
    ) -> tuple[list[MixtureFit], FloatArray]:
        """Return the fits that are stacked, and their shares."""
        train, held = parts
        bases = None if base is None else Bases(base)
        if not len(held):
            return [MixtureFit(FEW_ROWS, bases, self.rng).fit(train)], np.ones(1)
        room = room_for(0 if bases is None else bases.cells, len(self.names))
        settings = [*settings_for(train, room) * self.effort.starts, BACKGROUND]
        fits = [
            MixtureFit(setting, bases, self.rng).fit_mixture(train, held)
            for setting in progress(settings, "fitting mixtures")
        ]
        # Only fits that count without a network of the categories get one.
        promising = _stacked(fits, held) >= PROMISING
        promising[-1] = True
        chosen = _selected(fits, promising)
        fits = [fit.fit_network(train) for fit in progress(chosen, "fitting categories")]
        shares = _stacked(fits, held)
        kept = shares >= min(MIN_SHARE, shares.max())
        kept[-1] = True
        found, shares = _selected(fits, kept), shares[kept] / shares[kept].sum()
        kept = within([fit.settings for fit in found], shares, room * self.effort.starts)
        if not kept.all():
            found = _selected(found, kept)
            shares = _stacked(found, held)
        return found, shares

    def _continue(
        self,
        fits: Sequence[MixtureFit],
        base: MarkovNetwork | None,
        domain: Domain,
        maps: Sequence[NumberMap],
        rows: IntArray,
    ) -> None:
        """Continue the fits on all rows."""
        states = self._states(domain, maps, rows)
        if base is not None:
            states = completed(base, states)
            base = relearned(base, states)
        data = self._rows(maps, states, rows)
        bases = None if base is None else Bases(base)
        for fit in progress(fits, "fitting mixtures to all rows"):
            fit.fit_all(data, bases)

    def _held_out(self, network: MixedNetwork) -> dict[str, float]:
        """Return the mean log-probability of some rows that were held out, if there are any."""
        rows = self.held[:SCORED_ROWS]
        weights = self.weights[rows]
        if not weights.sum() > 0:
            return {}
        found = MixedAnswers(network, self.table.select(rows)).log_mass()
        return {"held_out": float(weights @ found / weights.sum())}

    def _binned(self, network: MixedNetwork) -> tuple[float, BinnedComponent | None]:
        """Return a network of bins, and the share that it deserves beside the fits, by held-out rows."""
        if not len(self.held) or len(self.values) > self.effort.binned_rows:
            return 0.0, None
        parts = [self._part(rows) for rows in (self.train, self.held)]
        found = learn_binned(parts, self.names, network.maps, self.effort.binned, self.n_jobs)
        other, held = self._network(network.maps, [found]), self.table.select(self.held)
        densities = [MixedAnswers(model, held).log_mass() for model in (network, other)]
        share = float(stacking_weights(densities, self.weights[self.held])[1])
        return (share, found) if share >= MIN_SHARE else (0.0, None)

    def _part(self, rows: IntArray) -> tuple[Table, FloatArray]:
        """Return the categories and numbers of some rows."""
        whole = self.categories
        categories = Table.adopt(whole.domain, whole.codes[rows], self.weights[rows])
        return categories, self.values[rows]
