"""CPDs written as a full table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.cpd import MAX_AXES, MAX_TABLE, log_distribution, log_normalized
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import TreeBasedCPD


class TableCPD(TreeBasedCPD):
    """A full table: one distribution for each joint state of the parents.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    parents : sequence of int
        The parents' positions.
    table : array of float
        Log-probabilities, with one axis per parent, and the axis of the target last.

    Examples
    --------
    >>> domain = Domain({"x1": [False, True], "x2": [False, True]})
    >>> cpd = TableCPD.of(domain, "x1", ["x2"], {True: 4 / 5, False: 2 / 5})
    >>> np.exp(cpd.log_probabilities(np.array([[0, 0], [0, 1]], np.uint8))).round(3)
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(
        self, cards: IntArray, target: int, parents: Sequence[int], table: npt.ArrayLike
    ) -> None:
        self.parents = tuple(int(p) for p in parents)
        self.table: FloatArray = np.asarray(table, np.float64)
        shape = tuple(int(cards[p]) for p in (*self.parents, target))
        if self.table.shape != shape:
            raise ModelError(f"expected a table of shape {shape}, not {self.table.shape}")
        if len({*self.parents, target}) != len(shape):
            raise ModelError("the parents of a table must differ from each other and the target")
        if self.table.size and not self.table.max() < np.inf:  # NaN is not, either
            raise ModelError("a log-probability must be a number or -inf, not NaN or infinite")
        self.cards, self.target = cards, int(target)

    @cached_property
    def trees(self) -> tuple[Tree, ...]:  # type: ignore[override]
        """The table as a complete tree."""
        leaves = self.table.reshape(-1, self.table.shape[-1])
        return (Tree.complete(self.parents, self.cards, leaves),)

    @property
    def blanket(self) -> tuple[int, ...]:
        """The parents, in order."""
        return tuple(sorted(self.parents))

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        index = tuple(codes[:, p].astype(np.intp) for p in self.parents)
        rows = self.table[index] if index else np.tile(self.table, (len(codes), 1))
        return log_normalized(rows)

    def moved(self, cards: IntArray, position: IntArray) -> TableCPD:
        """Return the CPD over reordered variables, given the new position of each."""
        parents = [position[p] for p in self.parents]
        return TableCPD(cards, position[self.target], parents, self.table)

    @classmethod
    def of(
        cls, domain: Domain, target: str, parents: Sequence[str], rows: Mapping[Any, Any] | Any
    ) -> TableCPD:
        """Build by names: `rows` is {(state of each parent): distribution}.

        A single parent's state needs no tuple; without parents, `rows` is the distribution itself.
        """
        positions = [domain.index(p) for p in parents]
        variable = domain[target]
        if not parents:
            return cls(domain.cards, domain.index(target), (), log_distribution(variable, rows))
        size = np.prod(domain.cards[positions], dtype=float) * len(variable)
        if size > MAX_TABLE or len(positions) >= MAX_AXES:
            raise ModelError(
                f"a table of {target!r} given {len(positions)} variables would have {size:.2g} "
                "entries; use rules or log-odds"
            )
        table = np.full([*domain.cards[positions], len(variable)], np.nan)
        if not isinstance(rows, Mapping):
            raise ModelError(
                f"the rows of {target!r} must be a mapping {{(states of {list(parents)}): "
                "distribution}"
            )
        for key, row in rows.items():
            states = key if isinstance(key, tuple) and len(key) == len(parents) else (key,)
            if len(states) != len(parents):
                raise ModelError(f"the row {key!r} must name a state of each of {list(parents)}")
            index = tuple(
                domain.variables[p].index(s) for p, s in zip(positions, states, strict=True)
            )
            if not np.isnan(table[index]).all():
                raise ModelError(f"the row {key!r} of {target!r} is given twice")
            table[index] = log_distribution(variable, row)
        absent = np.argwhere(np.isnan(table).any(axis=-1))
        if len(absent):
            where = ", ".join(
                f"{domain.names[p]} = {domain.variables[p].states[s]}"
                for p, s in zip(positions, absent[0], strict=True)
            )
            raise ModelError(f"the table of {target!r} has no row for {where}; add it")
        return cls(domain.cards, domain.index(target), positions, table)
