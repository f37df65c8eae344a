"""What a `JointModel` answers about the rows of a table, in the types of the user's table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.columns import Column, table_of_columns
from conjoin.data.domain import Domain
from conjoin.data.number_scale import NumberScale
from conjoin.data.table import Codes, Table, with_hidden
from conjoin.errors import ConvergenceWarning, DataError, ModelError
from conjoin.estimator.encoding import Fills, values_of
from conjoin.inference.completion import Completion
from conjoin.inference.hidden_mode import improved
from conjoin.inference.joint_rows import STATISTICS, JointRows
from conjoin.inference.rule_keeping import mended, warn_of_broken
from conjoin.inference.terms import as_markov_network
from conjoin.models.joint import Joint
from conjoin.models.network import Network

ROW_STATES = 1 << 6
"""Known numbers of a row count with their values if the missing columns that these depend on have at
most this number of joint states: a table has many rows, so the limit is lower than for one question."""

SMALLEST = 1e-300
"""Where the states that are values have a smaller probability, nothing is known about the value."""


class Answers(JointRows):
    """Answers for the rows of a table from a model."""

    model: Joint

    def __init__(self, model: Network, table: Table, random_state: int = 0) -> None:
        super().__init__(model, table, random_state, ROW_STATES)

    def probabilities(self, name: str, bins: Sequence[Any] | None = None) -> FloatArray:
        """Return the distribution of a column: of its states, or of bins of a number.

        `bins`: the cut points between bins of a number; a value at a cut point belongs above it.
        """
        if bins is None:
            return self._present(name)
        inner = self.domain.scale(name).numbers(list(bins)).tolist()
        if any(a >= b for a, b in pairwise(inner)):
            raise ModelError(f"bins must be cut points that increase, not {list(bins)}")
        numbers = self.number(name)
        ends = [np.zeros(len(self.table)), *(numbers.cdf(x, strict=True) for x in inner)]
        below = np.stack([*ends, np.ones(len(self.table))], axis=1)
        return np.maximum(np.diff(below, axis=1), 0.0)

    def _present(self, name: str) -> FloatArray:
        """Return the distribution of the states of a column that are values, if it has one."""
        p, variable = self.states(name), self.domain[name]
        if not variable.absent:
            return p
        present = p[:, :-1].sum(axis=1, keepdims=True)
        even = np.full((1, len(variable) - 1), 1 / (len(variable) - 1))
        return np.where(present > SMALLEST, p[:, :-1] / np.maximum(present, SMALLEST), even)

    def predicted(self, name: str, statistic: str | None) -> Any:
        """Return one value per row: the most probable state, or a statistic of a number."""
        number = name in self.domain.numeric
        statistic = checked_statistic(statistic, number)
        if number:
            found = getattr(self.number(name), statistic)()
            return as_array(found, self.domain.scale(name), exact=statistic != "mean")
        p, states = self._present(name), list(self.domain[name].values)
        if statistic == "mode":
            return states_array(states)[p.argmax(axis=1)]
        return _state_statistic(name, p, states, statistic)

    def score(self, name: str, truth: Column, sample_weight: npt.ArrayLike | None) -> float:
        """Return the accuracy, or R2, of the predictions of a column in the rows with a true value."""
        known, number = truth.codes >= 0, name in self.domain.numeric
        true = table_of_columns([truth.renamed(name)], Domain([self.domain[name]]), strict=number)
        if not known.any():
            raise DataError(f"no row has a value of {name!r} to compare its prediction with")
        weights = np.asarray(known if sample_weight is None else sample_weight, np.float64)[known]
        if not number:
            right = self._present(name).argmax(axis=1) == true.codes[:, 0]
            return float(np.average(right[known], weights=weights))
        values = true.column(name)[known]
        errors = values - self.number(name).mean()[known]
        rest = weights @ errors**2
        total = weights @ (values - np.average(values, weights=weights)) ** 2
        return float(1 - rest / total if total else rest == 0)

    def completed(self, by: str, statistic: str, *, fill_absent: bool) -> Table:
        """Return the rows without missing values, but for those that are absent."""
        if by not in ("row", "cell"):
            raise ModelError(f"by must be 'row' or 'cell', not {by!r}")
        checked_statistic(statistic, True)
        if self.fine is not None or self.absent.any():
            return self._mended([self.filled(statistic, fill_absent=fill_absent)])[0]
        if self.chain is not None and by == "cell":
            return self._mended([self.filled(statistic, fill_absent=fill_absent)])[0]
        codes = imputed_codes(self.model, self.table, by, self.seed)
        if self.chain is not None:  # the most probable value is the most probable row
            single = np.flatnonzero(self.table.holes.sum(axis=1) == 1)
            codes[single] = self.select(single).filled(statistic).codes
        numbers = None if self.table.numbers is None else self.filled(statistic).numbers
        return self._mended([Table.adopt(self.domain, codes, self.table.weights, numbers)])[0]

    def drawn(self, count: int) -> list[Table]:
        """Return the rows with missing values drawn, several times; the rules of the model are kept."""
        return self._mended(super().drawn(count))

    def _mended(self, tables: list[Table]) -> list[Table]:
        """Return tables in which cells that were filled in are changed so that rules hold."""
        rules = self.model.rules
        warn_of_broken(rules, self.table, "Values that were known are left as they are")
        free = self.table.holes | self.table.absent
        return [mended(rules, table, free) for table in tables]

    def fills(self, full: Table) -> Fills:
        """Return the values that a filled table has in place of the missing ones."""
        holes = self.holes(full)
        return {name: (hole, values_of(full, name, hole)) for name, hole in holes.items()}

    def holes(self, full: Table) -> dict[str, BoolArray]:
        """Return the columns of which a filled table has more values, and the rows of these."""
        holes = (self.table.holes | self.absent) & ~full.absent
        listed = zip(self.table.names, holes.T, strict=True)
        return {name: hole for name, hole in listed if hole.any()}


def checked_statistic(statistic: str | None, number: bool) -> str:
    """Return a statistic, by default the mean of a number and the most probable state."""
    if statistic is None:
        return "mean" if number else "mode"
    if statistic not in STATISTICS:
        raise ModelError(f"statistic must be 'mean', 'median' or 'mode', not {statistic!r}")
    return statistic


def _state_statistic(name: str, p: FloatArray, states: Sequence[Any], statistic: str) -> FloatArray:
    """Return the mean or median of states that are numbers."""
    if not all(isinstance(s, int | float) for s in states):
        raise DataError(f"the states of {name!r} are not numbers, so they have no {statistic}")
    values = np.array(states, np.float64)
    if statistic == "mean":
        return np.asarray(p @ values)
    order = np.argsort(values)
    reached = np.cumsum(p[:, order], axis=1) >= 0.5
    return np.asarray(np.array(states)[order][reached.argmax(axis=1)])


def as_array(numbers: FloatArray, scale: NumberScale, *, exact: bool = True) -> Any:
    """Return numbers as an array of a column's type: rounded to its grid if `exact`; dates as dates."""
    if scale.kind == "number":
        if not exact:
            return numbers
        rounded = np.asarray(scale.rounded(numbers))
        whole = scale.integer and np.isfinite(rounded).all() and (np.abs(rounded) < 2**62).all()
        return rounded.astype(np.int64) if whole else rounded
    flat = [scale.value(x) for x in np.ravel(numbers).tolist()]
    if scale.utc:
        flat = [None if v is None else v.replace(tzinfo=None) for v in flat]
    kind = "datetime64[D]" if scale.kind == "date" else "datetime64[us]"
    return np.array(flat, kind).reshape(np.shape(numbers))


def states_array(states: Sequence[Any]) -> Any:
    """Return states as an array: of their own type if they are numbers or booleans, or of objects."""
    kinds = set(map(type, states))
    if kinds <= {int, float} or kinds == {bool}:
        return np.array(states)
    result = np.empty(len(states), object)
    result[:] = states
    return result


def imputed_codes(model: Network, table: Table, by: str = "row", random_state: int = 0) -> Codes:
    """Return codes without missing values: most probable rows or cells; warn of approximations."""
    rows = Completion(model, table.codes, random_state)
    codes, exact = rows.modes() if by == "row" else rows.likely()
    if not exact.all():
        warnings.warn(
            f"{np.count_nonzero(~exact):,} of {len(exact):,} rows were too large for exact inference, "
            "and are filled in approximately, by sampling",
            ConvergenceWarning,
            stacklevel=3,
        )
    if by == "cell" or not model.domain.hidden.any():
        return codes
    # The better of two completions, that with the most probable hidden states and that of the most
    # probable state of each cell, is improved by changes of single cells.
    network = as_markov_network(model)
    candidates = [codes, rows.likely()[0]]
    scores = [network.log_potential(completion) for completion in candidates]
    better = np.where((scores[0] >= scores[1])[:, None], *candidates)
    full = with_hidden(model.domain, better)
    found = improved(network.hidden_states, full, table.holes)[0]
    return found[:, : better.shape[1]].astype(better.dtype)
