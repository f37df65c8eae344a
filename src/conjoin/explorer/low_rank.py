"""Tables with many lanes in little space.

The log-values of a learned hidden column are nearly all low-rank. Given the lane, each state of each
column has a value of its own; what remains of a table after these are taken out is the product of a few
numbers per cell and a basis that all tables share. The browser multiplies them out again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conjoin.data.arrays import FloatArray

TOLERANCE = 1e-13
"""Maximum error of a log-value, relative to the largest one; rounding alone is not much less."""


@dataclass(frozen=True, eq=False)
class LaneTable:
    """A table of log-values over some variables.

    Attributes
    ----------
    variables : tuple of int
        The variables, in the order of the axes.
    values : array
        The log-values. With lanes, the last axis is the lane or, with low rank, a row of the basis.
    has_lanes : bool
        Whether the values differ between lanes.
    clique : int
        The clique it belongs to, -1 if it has no variables.
    low_rank : bool
        Whether the last axis is to be multiplied by the basis.
    """

    variables: tuple[int, ...]
    values: FloatArray
    has_lanes: bool
    clique: int = -1
    low_rank: bool = False


def compact(tables: list[LaneTable], lanes: int) -> tuple[list[LaneTable], FloatArray]:
    """Return the same log-potential in less space, and the basis; if that fails, the tables as given.

    Tables with impossible cells stay as they are.
    """
    empty = np.zeros((0, lanes))
    wide = [t for t in tables if t.has_lanes and np.isfinite(t.values).all()]
    if not wide or lanes < 8:
        return tables, empty
    alone, rest = _without_single_states(wide)
    matrix = np.concatenate([t.values.reshape(-1, lanes) for t in rest] or [empty])
    basis = _row_space(matrix)
    size = sum(t.values.size for t in alone) + len(matrix) * len(basis) + basis.size
    if size >= sum(t.values.size for t in wide):
        return tables, empty
    small = [replace(t, values=t.values @ basis.T, low_rank=True) for t in rest]
    return [t for t in tables if t not in wide] + alone + small, basis


def _without_single_states(
    tables: list[LaneTable],
) -> tuple[list[LaneTable], list[LaneTable]]:
    """Split tables into the values of single states, and tables that are 0 where these suffice.

    The value of a state is the difference that it makes to the first cell of a table.
    """
    alone: dict[tuple[int, ...], LaneTable] = {}
    rest = []

    def add(table: LaneTable, variables: tuple[int, ...], values: FloatArray) -> None:
        known = alone.get(variables)
        clique = table.clique if variables else -1
        total = values if known is None else known.values + values
        alone[variables] = LaneTable(
            variables, total, True, clique if known is None else known.clique
        )

    for table in tables:
        values = table.values
        axes = values.ndim - 1
        origin = values[(0,) * axes]
        add(table, (), origin)
        left = values - origin
        for axis, v in enumerate(table.variables):
            line = values[tuple(slice(None) if a == axis else 0 for a in range(axes))] - origin
            add(table, (v,), line)
            left = left - line.reshape(
                [-1 if a == axis else 1 for a in range(axes)] + [len(origin)]
            )
        if axes > 1:
            rest.append(replace(table, values=left))
    return list(alone.values()), rest


def _row_space(matrix: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the rows of a matrix, found from random combinations of them."""
    lanes = matrix.shape[1]
    largest = float(np.abs(matrix).max(initial=0.0))
    rng = np.random.default_rng(0)
    count = 16
    while largest > 0:
        mixed = rng.normal(size=(min(count, len(matrix)), len(matrix))) @ matrix
        _, singular, basis = np.linalg.svd(mixed, full_matrices=False)
        basis = basis[singular > 1e-14 * singular[0]]
        if np.abs(matrix - (matrix @ basis.T) @ basis).max() <= TOLERANCE * largest:
            return basis
        if count >= min(lanes, len(matrix)):
            break
        count *= 2
    return np.zeros((0, lanes)) if largest == 0 else np.eye(lanes)
