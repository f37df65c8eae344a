"""Where the intervals of numbers end: between values beside which other columns differ.

Edges at quantiles cut groups of similar values, such as a range of codes that means one occupation. So
each interval is divided into small ones, and neighbours are merged until there are as many as before:
always the two whose merging loses the least of what the column tells about the others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.number_map import find_atoms
from conjoin.data.number_states import NumberStates
from conjoin.data.table import Table

MIN_ROWS = 8_000
"""In tables with fewer rows, much of what the rows of an interval tell about other columns is chance."""

PARTS, LARGEST = 8, 3.0
"""The number of small intervals per interval, and the maximum number of rows of an interval, in multiples
of their mean."""


def with_telling_edges(table: Table) -> Table:
    """Return the table with as many intervals of numbers, which tell more about other columns."""
    if table.numbers is None or len(table) < MIN_ROWS:
        return table
    variables = [
        _moved(table, v, v.numbers) if v.numbers is not None and v.numbers.intervals.any() else v
        for v in table.domain
    ]
    return Table.of_values(Domain(variables), table.signed_codes(), table.numbers, table.weights)


def _moved(table: Table, variable: Variable, states: NumberStates) -> Variable:
    """Return a column of numbers with other intervals."""
    values = table.column(variable.name)
    edges = _edges(table, variable.name, states)
    learned = NumberStates.learn(states.scale, values, table.weights, edges=edges)
    return Variable.of_numbers(replace(learned, absent=states.absent))


def _edges(table: Table, name: str, states: NumberStates) -> FloatArray:
    values = table.column(name)
    known = ~np.isnan(values)
    values, weights = values[known], None if table.weights is None else table.weights[known]
    edges, fixed = _divided(states, values, weights)
    state = np.searchsorted(edges, values, side="right")
    size = np.bincount(state, weights, len(edges) + 1).astype(np.float64)
    beside: list[IntArray | FloatArray] = []
    columns: list[IntArray] = []
    for v, card in enumerate(table.domain.cards.tolist()):
        if table.domain.names[v] != name and card > 1:
            code = np.minimum(table.codes[known, v].astype(np.int64), card)  # missing is beyond
            counts = np.bincount(state * (card + 1) + code, weights, len(size) * (card + 1))
            beside.append(counts.reshape(len(size), card + 1)[:, :card])
            columns.append(np.full(card, len(columns)))
    if not beside:
        return states.edges
    largest = LARGEST * float(size.sum()) / len(states)
    whole = np.asarray(np.concatenate(beside, axis=1), np.float64)
    wanted = len(states.edges)
    return _merged(edges, fixed, whole, size, np.concatenate(columns), wanted, largest)


def _divided(
    states: NumberStates, values: FloatArray, weights: FloatArray | None
) -> tuple[FloatArray, BoolArray]:
    """Return edges that divide each interval, and which stay: the outermost, and those of atoms."""
    atoms = find_atoms(values, np.ones(len(values)) if weights is None else weights)
    stays = np.zeros(len(states.edges) + 2, bool)  # between the two ends of the column
    stays[[1, -2]] = True
    stays[states.codes(atoms)] = stays[states.codes(atoms) + 1] = True
    edges = [states.edges]
    code = states.codes(values)
    for k in range(len(states.edges) + 1):
        inside, counts = np.unique(values[code == k], return_counts=True)
        below = np.cumsum(counts)
        wanted = np.arange(1, PARTS) * (below[-1] / PARTS)
        last = np.unique(np.searchsorted(below, wanted))
        last = last[last < len(inside) - 1]
        edges.append((inside[last] + inside[last + 1]) / 2)
    merged = np.unique(np.concatenate(edges))
    return merged, np.isin(merged, states.edges[stays[1:-1]])


def _merged(
    edges: FloatArray,
    fixed: BoolArray,
    counts: FloatArray,
    size: FloatArray,
    columns: IntArray,
    wanted: int,
    largest: float,
) -> FloatArray:
    """Merge intervals until `wanted` edges are left; `columns`: the column of each line of counts."""
    kept, beside = edges.tolist(), list(counts)
    rows, stays = size.tolist(), fixed.tolist()
    told = [_told(row, columns) for row in beside]

    def loss(k: int) -> float:
        if stays[k]:
            return np.inf
        lost = told[k] + told[k + 1] - _told(beside[k] + beside[k + 1], columns)
        return lost + (1e12 if rows[k] + rows[k + 1] > largest else 0.0)

    losses = [loss(k) for k in range(len(kept))]
    while len(kept) > wanted:
        k = int(np.argmin(losses))
        beside[k], rows[k] = beside[k] + beside[k + 1], rows[k] + rows[k + 1]
        told[k] = _told(beside[k], columns)
        for listed in (beside, rows, told):
            del listed[k + 1]
        del kept[k], stays[k], losses[k]
        for near in {max(k - 1, 0), min(k, len(kept) - 1)} if kept else ():
            losses[near] = loss(near)
    return np.array(kept)


def _told(counts: FloatArray, columns: IntArray) -> float:
    """Return the log-likelihood of the states of other columns beside an interval, in nats."""
    total = np.bincount(columns, counts).astype(np.float64)
    return float(_logs(counts).sum() - _logs(total).sum())


def _logs(counts: FloatArray) -> FloatArray:
    return np.asarray(counts * np.log(np.maximum(counts, 1e-300)))
