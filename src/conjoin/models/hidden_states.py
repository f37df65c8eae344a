"""Markov networks with hidden variables on rows of visible ones: the hidden variables summed out.

All factors become tables over visible variables with one log-value per joint state of the hidden
variables, so that a row's log-potential with every hidden state is a sum of lines of these tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes
from conjoin.errors import DataError, ModelError
from conjoin.kernels.layouts import HiddenArrays, packed
from conjoin.models.cpd import log_normalized
from conjoin.models.feature_tables import scope_tables
from conjoin.models.markov import MarkovNetwork, TableFactor, as_table

MAX_VALUES = 1 << 27
"""Maximum number of log-values of all tables."""

BLOCK_VALUES = 1 << 22
"""Number of log-values of rows that are computed together."""


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
    def tables(self) -> HiddenArrays:
        """The tables as kernels read them."""
        return self._laid_out(self.factors)

    def averaged(self, marginals: list[FloatArray]) -> HiddenArrays:
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

    def _laid_out(self, factors: list[TableFactor]) -> HiddenArrays:
        """Lay out tables, with the joint states of all hidden variables as their last axis."""
        cards = self.domain.observed.cards
        seen, width = len(cards), int(np.prod(self.shape, dtype=np.int64))
        first, var, stride, base, values = [0], [], [], [0], []
        for factor in factors:
            shown = [v for v in factor.variables if v < seen]
            # An axis for every hidden variable, after all others.
            lacking = [v for v in range(seen, len(self.domain)) if v not in factor.variables]
            axes = [*factor.variables, *lacking]
            order = [axes.index(v) for v in [*shown, *range(seen, len(self.domain))]]
            wide = factor.table.reshape(*factor.table.shape, *[1] * len(lacking)).transpose(order)
            sizes = wide.shape[: len(shown)]
            var += shown
            stride += [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(shown))]
            first.append(len(var))
            base.append(base[-1] + int(np.prod(sizes, dtype=np.int64)))
            if base[-1] * width > MAX_VALUES:
                raise ModelError(
                    "the tables of all joint states of the hidden columns would be too large"
                )
            values.append(np.broadcast_to(wide, (*sizes, *self.shape)).reshape(-1, width))
        axis_var = np.array(var, np.int64)
        by_var = np.argsort(axis_var, kind="stable")
        table_of = np.repeat(np.arange(len(factors)), np.diff(first))
        together = np.concatenate([np.zeros((0, width)), *values])
        return HiddenArrays(
            state_first=packed(np.concatenate([[0], np.cumsum(cards)]), np.int64),
            base=packed(base[:-1], np.int64),
            first=packed(first, np.int64),
            var=packed(axis_var, np.int64),
            stride=packed(stride, np.int64),
            own_first=packed(np.searchsorted(axis_var[by_var], np.arange(seen + 1)), np.int64),
            own_table=packed(table_of[by_var], np.int64),
            own_stride=packed(np.array(stride, np.int64)[by_var], np.int64),
            values=packed(together, np.float64, 2),
            finite=bool(np.isfinite(together).all()),
        )

    def _blocks(self, codes: Codes, complete: bool) -> Iterator[tuple[slice, Codes]]:
        """Yield parts of a table, and the codes of visible variables; missing ones are one more state."""
        step = max(1, BLOCK_VALUES // max(1, self.tables.values.shape[1]))
        cards = self.domain.observed.cards
        shown = packed(np.minimum(codes[:, : len(cards)], cards), np.uint16, 2)
        if complete and (shown == cards).any():
            raise DataError("complete rows are needed; only hidden columns may be missing")
        for low in range(0, len(codes), step):
            yield slice(low, low + step), shown[low : low + step]

    def log_joints(self, codes: Codes) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the log-potentials of rows with each joint hidden state; known ones are respected."""
        from conjoin.kernels.hidden_scores import log_joints

        cards = self.domain.cards
        for rows, shown in self._blocks(codes, complete=True):
            joints = np.empty((len(shown), self.tables.values.shape[1]))
            log_joints(shown, self.tables, joints)
            cube = joints.reshape(len(shown), *self.shape)
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
        self, codes: Codes, chosen: IntArray | None = None, tables: HiddenArrays | None = None
    ) -> FloatArray:
        """Return the log-potential of each row with one visible variable changed, rows by states.

        The states of all visible variables are side by side, NaN for those that are not `chosen`. If
        visible values are missing, `tables` are those of `averaged`.
        """
        from conjoin.kernels.hidden_scores import log_changes

        used = self.tables if tables is None else tables
        variables = np.arange(len(self.domain.observed)) if chosen is None else chosen
        logs = np.full((len(codes), int(used.state_first[-1])), np.nan)
        for rows, shown in self._blocks(codes, complete=tables is None):
            log_changes(shown, used, packed(variables, np.int64), logs[rows])
        return logs

    def log_conditionals(
        self, codes: Codes, marginals: list[FloatArray] | None = None
    ) -> list[FloatArray]:
        """Return log P(X = state | the rest of the row) of each visible variable; see `averaged`."""
        tables = None if marginals is None else self.averaged(marginals)
        logs = self.log_changes(codes, tables=tables)
        return [
            log_normalized(part) for part in np.split(logs, self.tables.state_first[1:-1], axis=1)
        ]

    def log_conditional(self, position: int, codes: Codes) -> FloatArray:
        """Return the log-potential of each row with each state of a variable, not normalised."""
        seen = len(self.domain.observed)
        if position < seen:
            first = self.tables.state_first
            logs = self.log_changes(codes, np.array([position]))
            return logs[:, first[position] : first[position + 1]]
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
