"""Markov networks with hidden variables on rows of visible ones: the hidden variables summed out.

All factors become tables over visible variables with one log-value per joint state of the hidden
variables, so that a row's log-potential with every hidden state is a sum of lines of these tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes
from conjoin.errors import DataError, ModelError
from conjoin.models.cpd import log_normalized
from conjoin.models.feature_tables import scope_tables
from conjoin.models.markov import MarkovNetwork, TableFactor, as_table

MAX_VALUES = 1 << 27
"""Maximum number of log-values of all tables."""

BLOCK_VALUES = 1 << 22
"""Number of log-values of rows that are computed together."""


class VisibleTable(NamedTuple):
    """A table of log-values over visible variables, with a line per joint state of these."""

    variables: list[int]
    strides: IntArray  # the distance between the lines of two neighbouring states
    lines: FloatArray  # joint states of the visible variables by those of the hidden ones

    def places(self, codes: IntArray) -> IntArray:
        """Return the line of each row."""
        return codes[:, self.variables] @ self.strides


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """A network with hidden variables, which come last in its domain, as tables."""

    domain: Domain
    factors: list[TableFactor]

    @classmethod
    def of(cls, model: MarkovNetwork) -> HiddenStates:
        """Write a network as tables."""
        cards = model.domain.cards
        tables = [as_table(factor, cards) for factor in model.factors]
        scopes = model.features.by_scope()
        total = sum(np.prod(cards[list(scope)], dtype=float) for scope in scopes)
        if total > MAX_VALUES:
            raise ModelError("a network with hidden columns has features of too many variables")
        tables += scope_tables(model.features, list(scopes), list(scopes.values()))
        return cls(model.domain, tables)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of states of each hidden variable."""
        return tuple(self.domain.cards[self.domain.hidden].tolist())

    @cached_property
    def tables(self) -> list[VisibleTable]:
        """The tables over visible variables."""
        return self._laid_out(self.factors)

    @cached_property
    def first(self) -> IntArray:
        """The number of each visible variable's first state, all states counted one after another."""
        return np.concatenate([[0], np.cumsum(self.domain.observed.cards)])

    def averaged(self, marginals: list[FloatArray]) -> list[VisibleTable]:
        """Return the tables with a missing value as one more state: the average over `marginals`."""
        larger = []
        for factor in self.factors:
            table = factor.table
            for axis, v in enumerate(factor.variables):
                if self.domain.hidden[v]:
                    continue
                lines = np.moveaxis(table, axis, -1)
                p = marginals[v]
                mean = np.where(p > 0, lines, 0.0) @ p
                table = np.concatenate([table, np.expand_dims(mean, axis)], axis=axis)
            larger.append(replace(factor, table=table))
        return self._laid_out(larger)

    def _laid_out(self, factors: list[TableFactor]) -> list[VisibleTable]:
        """Lay out tables, with the joint states of all hidden variables as their last axis."""
        seen, width = len(self.domain.observed), int(np.prod(self.shape, dtype=np.int64))
        tables, total = [], 0
        for factor in factors:
            shown = [v for v in factor.variables if v < seen]
            # An axis for every hidden variable, after all others.
            lacking = [v for v in range(seen, len(self.domain)) if v not in factor.variables]
            axes = [*factor.variables, *lacking]
            order = [axes.index(v) for v in [*shown, *range(seen, len(self.domain))]]
            wide = factor.table.reshape(*factor.table.shape, *[1] * len(lacking)).transpose(order)
            sizes = wide.shape[: len(shown)]
            total += int(np.prod(sizes, dtype=np.int64)) * width
            if total > MAX_VALUES:
                raise ModelError(
                    "the tables of all joint states of the hidden columns would be too large"
                )
            strides = [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(shown))]
            lines = np.broadcast_to(wide, (*sizes, *self.shape)).reshape(-1, width)
            tables.append(VisibleTable(shown, np.array(strides, np.int64), lines))
        return tables

    def _blocks(self, codes: Codes, complete: bool) -> Iterator[tuple[slice, IntArray]]:
        """Yield parts of a table, and the codes of visible variables; missing ones are one more state."""
        step = max(1, BLOCK_VALUES // int(np.prod(self.shape, dtype=np.int64)))
        cards = self.domain.observed.cards
        shown = np.minimum(codes[:, : len(cards)].astype(np.int64), cards)
        if complete and (shown == cards).any():
            raise DataError("complete rows are needed; only hidden columns may be missing")
        for low in range(0, len(codes), step):
            yield slice(low, low + step), shown[low : low + step]

    def log_joints(self, codes: Codes) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the log-potentials of rows with each joint hidden state; known ones are respected."""
        cards = self.domain.cards
        for rows, shown in self._blocks(codes, complete=True):
            cube = self._sum(self.tables, shown).reshape(len(shown), *self.shape)
            for axis, v in enumerate(np.flatnonzero(self.domain.hidden).tolist()):
                given = codes[rows, v].astype(np.int64)[:, None]
                other = (given < cards[v]) & (given != np.arange(cards[v]))
                np.moveaxis(cube, 1 + axis, 1)[other] = -np.inf
            yield rows, cube

    def log_potential(self, codes: Codes) -> FloatArray:
        """Return the log-potential of each row, summed over its missing hidden variables."""
        result = np.empty(len(codes))
        for rows, cube in self.log_joints(codes):
            result[rows] = log_sum(cube.reshape(len(cube), -1))
        return result

    def log_changes(
        self, codes: Codes, chosen: IntArray | None = None, tables: list[VisibleTable] | None = None
    ) -> FloatArray:
        """Return the log-potential of each row with one visible variable changed, rows by states.

        The states of all visible variables are side by side, NaN for those that are not `chosen`. If
        visible values are missing, `tables` are those of `averaged`.
        """
        used = self.tables if tables is None else tables
        finite = all(np.isfinite(table.lines).all() for table in used)
        logs = np.full((len(codes), int(self.first[-1])), np.nan)
        for rows, shown in self._blocks(codes, complete=tables is None):
            joint = self._sum(used, shown)
            for v in range(len(self.domain.observed)) if chosen is None else chosen.tolist():
                inside = [table for table in used if v in table.variables]
                if finite:
                    rest = joint - self._sum(inside, shown)
                else:
                    rest = self._sum([t for t in used if v not in t.variables], shown)
                changed = shown.copy()
                for state in range(self.first[v], self.first[v + 1]):
                    changed[:, v] = state - self.first[v]
                    logs[rows, state] = log_sum(rest + self._sum(inside, changed))
        return logs

    def _sum(self, tables: list[VisibleTable], codes: IntArray) -> FloatArray:
        """Return the sums of the lines of tables, rows by joint hidden states."""
        total = np.zeros((len(codes), int(np.prod(self.shape, dtype=np.int64))))
        for table in tables:
            total += table.lines[table.places(codes)]
        return total

    def log_conditionals(
        self, codes: Codes, marginals: list[FloatArray] | None = None
    ) -> list[FloatArray]:
        """Return log P(X = state | the rest of the row) of each visible variable; see `averaged`."""
        tables = None if marginals is None else self.averaged(marginals)
        logs = self.log_changes(codes, tables=tables)
        return [log_normalized(part) for part in np.split(logs, self.first[1:-1], axis=1)]

    def log_conditional(self, position: int, codes: Codes) -> FloatArray:
        """Return the log-potential of each row with each state of a variable, not normalised."""
        seen = len(self.domain.observed)
        if position < seen:
            logs = self.log_changes(codes, np.array([position]))
            return logs[:, self.first[position] : self.first[position + 1]]
        given = codes.copy()
        given[:, position] = np.iinfo(codes.dtype).max
        result = np.empty((len(codes), self.shape[position - seen]))
        for rows, cube in self.log_joints(given):
            lines = np.moveaxis(cube, 1 + position - seen, 1)
            result[rows] = log_sum(lines.reshape(*lines.shape[:2], -1))
        return result


def log_sum(lines: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of the exponentials along the last axis."""
    top = lines.max(axis=-1)
    finite = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(finite + np.log(np.exp(lines - finite[..., None]).sum(axis=-1)))
