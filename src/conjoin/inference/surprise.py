"""What is odd in a table: cells that are improbable given the rest of their rows, and rows of such cells.

A cell is as improbable as all values together that are no more probable than the one that it holds, given
the rest of the row. Of a number these are the values that are at least as extreme, so that numbers and
categories have one scale. Its surprise is the logarithm of how much more probable the most probable
value is. A rare value in a column of many rare values is therefore no surprise, and neither is a value
that is as good as any other.

A wrong cell makes correct ones look odd, and two wrong cells may make each other look plausible. So the
oddest cell of a row is doubted if it is very odd, and does not count when the others are judged; then the
next. And a number that is far outside the bulk of its column is odd by itself, whatever the row says.

A row that breaks a rule of the model has an odd cell, at least as improbable as a row that breaks the
rule. If the row breaks several rules that share a column, it is the cell of this column, otherwise the
oddest cell of the rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from conjoin.data.answer_html import answer_html
from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.columns import Column, table_of_columns
from conjoin.data.frames import columns_of
from conjoin.data.labels import shown
from conjoin.data.rules import Rule, rounded, rule_values, with_rule_values
from conjoin.data.table import Table
from conjoin.errors import DataError, did_you_mean, names_lack_of_memory
from conjoin.inference.fine_answers import MAX_STATES
from conjoin.inference.joint_rows import JointRows
from conjoin.inference.number_distribution import TIE, NumberDistributions
from conjoin.inference.rule_keeping import broken
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network, network_of
from conjoin.progress import progress

SHOWN = 20
"""Maximum number of cells that are printed."""

LEVEL = 0.8
"""The probability of the range that is expected of a number."""

CELLS_AT_ONCE = 1 << 12
"""Number of cells whose suggestions are found together."""

SMALLEST = 1e-300
"""Numbers are at least as probable as this, and unlike unknown values not impossible."""

DOUBTED_BITS, MAX_DOUBTED = 8.0, 2
"""A cell with this surprise is doubted, and the maximum number of such cells per row."""

USUAL_BITS = 3.0
"""A surprise up to this is common, and does not make a row odd."""

REASONS = 3
"""Maximum number of cells that say why a row is odd."""

FIRST_STATES = 32
"""While no cell is doubted, known numbers of a row that lacks columns with more joint states than this
count with their states only, which is quicker (see `JointRows`)."""

BULK = 0.05, 0.25, 0.5, 0.75, 0.95
"""The quantiles of a column that say how far outside it a number is."""

STEEPEST, ALLOWANCE = 2.0, 9.0
"""Tails of columns fall at most like the exponential of this power; and the number of bits by which they
may be heavier than the bulk of their columns suggests."""


@dataclass(frozen=True)
class Surprise:
    """A cell of a table."""

    row: int  # the position of the row, counted from 0: ``frame.iloc[row]``
    column: str  # the column
    value: Any  # what the cell holds
    # The probability of this value given the rest of the row; 0 if the model does not know the
    # value. That of a number is the probability of the value as recorded, to the step of its column
    probability: float
    # The probability of all values that are as improbable as this one or more so, given the rest of
    # the row; of a number, of those that are at least as extreme (see `NumberDistributions.tails`),
    # less if it is far outside the bulk of its column
    tail: float
    # The most probable state given the rest of the row; of a number, the median, which lies in the
    # range that `Surprises.words` states
    suggestion: Any
    suggested_probability: float  # its probability
    # The base-2 logarithm of how much more probable the most probable state is than `tail`, in
    # bits; 0 if `tail` is more. Frequent numbers with a probability of their own count as states,
    # and all other numbers together as one more
    surprise: float
    # The rule that the row breaks, if this is why the cell is odd (see `data.rules`); the suggestion then
    # follows from the rule
    rule: str = ""


@dataclass(frozen=True)
class OddRow:
    """A row of a table, and why it is odd."""

    row: int  # its position, counted from 0
    surprise: float  # the sum of the surprises of its cells, of each what exceeds 3 bits
    cells: tuple[Surprise, ...]  # its oddest cells, at most three

    def words(self, first_row: int = 0) -> str:
        """Return the row in words."""
        cells = ", ".join(f"{shown(cell.column)}={shown(cell.value)}" for cell in self.cells)
        return f"row {self.row + first_row}: {cells} ({self.surprise:.0f} bits)"


class Surprises(Sequence[Surprise]):
    """The known cells of a table, the most surprising one first.

    Attributes
    ----------
    rows, columns : array of int
        Where the cells are, counted from 0; `columns` are positions in `names`.
    names : tuple of str
        The columns.
    exact : bool
        Whether no probability was sampled.
    """

    def __init__(self, cells: _Cells) -> None:
        self._cells = cells
        self.names, self.exact = tuple(column.name for column in cells.raw), cells.exact
        rows, columns = np.nonzero(cells.known)
        order = np.lexsort((columns, rows, -cells.bits[rows, columns]))
        self.rows, self.columns = rows[order], columns[order]

    @overload
    def __getitem__(self, at: int) -> Surprise: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Surprise]: ...
    def __getitem__(self, at: int | slice) -> Surprise | Sequence[Surprise]:
        if isinstance(at, slice):
            return self._some(np.arange(*at.indices(len(self))))
        if not -len(self) <= at < len(self):
            raise IndexError(f"there are {len(self)} cells, and none at {at}")
        return self._some(np.array([at % len(self)]))[0]

    def __iter__(self) -> Iterator[Surprise]:
        for low in range(0, len(self), CELLS_AT_ONCE):
            yield from self[low : low + CELLS_AT_ONCE]

    def _some(self, places: IntArray) -> list[Surprise]:
        """Return some cells; the suggestions for those of a column are found together."""
        result: dict[int, Surprise] = {}
        cells = self._cells
        for c in np.unique(self.columns[places]).tolist():
            chosen = places[self.columns[places] == c]
            rows = self.rows[chosen]
            for place, r, (value, p) in zip(
                chosen.tolist(), rows.tolist(), cells.suggested(c, rows), strict=True
            ):
                result[place] = Surprise(
                    r, self.names[c], cells.value(r, c), float(cells.probability[r, c]),
                    cells.tail(r, c), value, p, float(cells.bits[r, c]), cells.rule(r, c),
                )  # fmt: skip
        return [result[place] for place in places.tolist()]

    def __len__(self) -> int:
        return len(self.rows)

    def odd_rows(self, count: int = SHOWN) -> list[OddRow]:
        """Return the oddest rows, the oddest one first: those with the most surprise in all."""
        excess = np.maximum(np.where(self._cells.known, self._cells.bits, 0.0) - USUAL_BITS, 0.0)
        total = excess.sum(axis=1)
        rows = np.argsort(-total, kind="stable")[:count]
        listed = []
        for r in rows[total[rows] > 0].tolist():
            places = np.flatnonzero(self.rows == r)
            reasons = places[excess[r, self.columns[places]] > 0][:REASONS]
            listed.append(OddRow(r, float(total[r]), tuple(self._some(reasons))))
        return listed

    def words(self, at: int, first_row: int = 0) -> str:
        """Return a cell in words, with what was expected instead: of a number, a range."""
        r, c = int(self.rows[at]), int(self.columns[at])
        tail, rule = self._cells.tail(r, c), self._cells.rule(r, c)
        is_number = self._cells.is_number(c) and not rule
        start = f"row {r + first_row}: {shown(self.names[c])}={shown(self._cells.value(r, c))}"
        extreme = " as extreme" if is_number and tail else ""
        expected, p = self.expected(at)
        sure = f"{p:.0%}" if is_number and p == LEVEL else f"{p:.2g}"
        because = f" because {rule}" * bool(rule)
        return f"{start} ({tail:.2g}{extreme}), rather {expected} ({sure}){because}"

    def expected(self, at: int) -> tuple[str, float]:
        """Return what was expected of a cell, and its probability: a state, or a range of a number."""
        rows, c = self.rows[at : at + 1], int(self.columns[at])
        if self._cells.is_number(c) and not self._cells.rule(int(rows[0]), c):
            answer = self._cells.given_rest(rows).number(self.names[c])
            scale = answer.scale
            low, high = (np.clip(x[0], scale.low, scale.high) for x in answer.interval(LEVEL))
            if low != high:
                return f"{scale.short(low)} to {scale.short(high)}", LEVEL
        ((value, p),) = self._cells.suggested(c, rows)
        if self._cells.is_number(c):
            scale = self._cells.table.domain.scale(self.names[c])
            value = scale.text(scale.number(value))
        return shown(value), p

    def __repr__(self) -> str:
        lines = [self.words(at) for at in range(min(len(self), SHOWN))]
        if len(self) > SHOWN:
            lines.append(f"... and {len(self) - SHOWN:,} more cells")
        return "\n".join([*lines, "(rows are counted from 0)"] if lines else ["no known cells"])

    def _repr_html_(self) -> str:
        rows = []
        for at in range(min(len(self), SHOWN)):
            r, c = int(self.rows[at]), int(self.columns[at])
            expected, p = self.expected(at)
            held = f"{shown(self.names[c])} = {shown(self._cells.value(r, c))}"
            found = [str(r), held, f"{self._cells.tails[r, c]:.2g}"]
            rows.append([*found, f"{expected} ({p:.2g})"])
        note = f"{len(self) - SHOWN:,} more cells; " if len(self) > SHOWN else ""
        names = "row", "value", "probability", "expected instead"
        return answer_html("", rows, f"{note}rows are counted from 0", names)


class _Cells:
    """The cells of a table, each judged given those of its row that are not doubted."""

    def __init__(self, model: Network, raw: list[Column], table: Table, random_state: int) -> None:
        self.model, self.raw, self.table, self.seed = model, raw, table, random_state
        self.at = [table.domain.index(column.name) for column in raw]
        self.known: BoolArray = np.stack([column.codes >= 0 for column in raw], axis=1)
        self.doubted = np.zeros(table.holes.shape, bool)
        self.exact = True  # whether no probability was sampled
        # The probability of each value, of those no more probable, and of the most probable state
        self.probability, self.tails, self.best = np.zeros((3, *self.known.shape))
        self.blamed: dict[tuple[int, int], Rule] = {}  # the cells because of which rules are broken
        self.rule_bits = np.zeros(self.known.shape)
        rows = np.arange(len(table))
        self._judge(rows, FIRST_STATES)
        self._blame()
        # The conditionals of a dependency network need complete rows.
        for _ in range(0 if isinstance(model, DependencyNetwork) else MAX_DOUBTED):
            open_to_doubt = self.known & ~(table.holes | self.doubted)[:, self.at]
            bits = np.where(open_to_doubt, self.bits, 0.0)[rows]
            odd = bits.max(axis=1) >= DOUBTED_BITS
            rows, oddest = rows[odd], np.array(self.at)[bits[odd].argmax(axis=1)]
            self.doubted[rows, oddest] = True
            if len(rows):
                self._judge(rows)

    @property
    def bits(self) -> FloatArray:
        """The surprise of each cell."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.maximum(np.log2(self.best) - np.log2(self.tails), self.rule_bits)

    def tail(self, row: int, c: int) -> float:
        """Return the probability of a value that is as odd as that of a cell."""
        return float(min(self.tails[row, c], np.exp2(-self.rule_bits[row, c])))

    def rule(self, row: int, c: int) -> str:
        """Return the rule because of which a cell is odd, if there is one."""
        return self.blamed[row, c].text if (row, c) in self.blamed else ""

    def _blame(self) -> None:
        """Find the cells because of which rows break rules."""
        bits, places = self.bits, {column.name: c for c, column in enumerate(self.raw)}
        breaks = broken(self.model.rules, self.table)
        for row in np.flatnonzero(breaks.any(axis=0)).tolist():
            rules = [
                r
                for r, is_broken in zip(self.model.rules, breaks[:, row], strict=True)
                if is_broken
            ]
            while rules:
                shared = Counter(places[name] for rule in rules for name in rule.columns)
                c = max(shared, key=lambda c: (shared[c], bits[row, c], self.raw[c].name))
                rule = next(rule for rule in rules if self.raw[c].name in rule.columns)
                self.blamed[row, c] = rule
                self.rule_bits[row, c] = np.log2((rule.support + 2) / (rule.exceptions + 1))
                rules = [rule for rule in rules if self.raw[c].name not in rule.columns]

    def is_number(self, c: int) -> bool:
        """Return whether a column is one of numbers, and the table has their values."""
        return self.table.numbers is not None and self.raw[c].name in self.table.domain.numeric

    def given_rest(self, rows: IntArray, max_states: int = MAX_STATES) -> JointRows:
        """Return the answers for some rows, in which doubted cells are missing."""
        table = _without(self.table.select(rows), self.doubted[rows])
        return JointRows(self.model, table, self.seed, max_states)

    def _judge(self, rows: IntArray, max_states: int = MAX_STATES) -> None:
        for c, column in enumerate(progress(self.raw, "checking columns")):
            at = rows[self.known[rows, c]]
            answers = self.given_rest(at, max_states)
            if self.is_number(c):
                self._judge_numbers(c, at, answers.number(column.name))
                continue
            found, code = answers.answer(column.name), self.table.codes[at, self.at[c]]
            unknown = self.table.holes[at, self.at[c]]
            p = np.where(unknown, 0.0, found.p[np.arange(len(at)), np.where(unknown, 0, code)])
            rarer = found.p <= p[:, None] * (1 + TIE)
            self.probability[at, c], self.best[at, c] = p, found.p.max(axis=1)
            self.tails[at, c] = (found.p * rarer).sum(axis=1)
            self.exact = self.exact and bool(found.exact.all())

    def _judge_numbers(self, c: int, at: IntArray, given_rest: NumberDistributions) -> None:
        """Judge numbers; values that are no numbers are NaN."""
        values = self.table.column(self.raw[c].name)[at]
        known = ~np.isnan(values)
        safe = np.where(known, values, given_rest.scale.low)
        tails, best = given_rest.tails(safe)
        absent = np.zeros(len(at)) if given_rest.absent is None else given_rest.absent
        self.best[at, c] = np.maximum(best * (1 - absent), absent)
        tails = np.maximum(tails * np.exp2(-self._bits_outside(c, safe)) * (1 - absent), SMALLEST)
        self.tails[at, c] = np.where(known, tails, 0.0)
        p = (1 - absent) * np.exp(given_rest.log_mass(safe))
        self.probability[at, c] = np.where(known, p, 0.0)

    @cached_property
    def _bulks(self) -> list[list[float]]:
        """The middle of each column of numbers, and how far it reaches on either side."""
        nothing = _without(self.table.select(slice(1)), np.ones((1, len(self.table.domain)), bool))
        answers = JointRows(self.model, nothing, self.seed)
        return [
            [float(answers.number(column.name).quantile(p)[0]) for p in BULK]
            if self.is_number(c) and not isinstance(self.model, DependencyNetwork)
            else []
            for c, column in enumerate(self.raw)
        ]

    def _bits_outside(self, c: int, values: FloatArray) -> FloatArray:
        """Return how much less probable numbers are than their rank in the column suggests, in bits.

        The tails of the bulk of a column are taken to go on as those of a Weibull distribution. Wrong
        numbers in the training table hardly change its bulk.
        """
        bits = np.zeros(len(values))
        if not self._bulks[c]:
            return bits
        low, first, middle, last, high = self._bulks[c]
        for sign, near, far in (
            (1.0, last - middle, high - middle),
            (-1.0, middle - first, middle - low),
        ):
            if not 0 < near <= far:
                continue
            # A quarter and a twentieth of all values are beyond the two quantiles.
            power = np.log(np.log(10) / np.log(2)) / np.log(max(far / near, 1 + TIE))
            beyond = np.maximum(sign * (values - middle), 0.0) / far
            bits += np.log2(10) * beyond ** min(power, STEEPEST)
        return np.maximum(bits - ALLOWANCE, 0.0)

    def suggested(self, c: int, rows: IntArray) -> list[tuple[Any, float]]:
        """Return what is expected instead of some cells, with its probability.

        It is the value that follows from a rule, the most probable state, or the median.
        """
        found = self._most_probable(c, rows)
        for i, row in enumerate(rows.tolist()):
            if (row, c) in self.blamed:
                found[i] = self._implied(self.blamed[row, c], row, c) or found[i]
        return found

    def _implied(self, rule: Rule, row: int, c: int) -> tuple[Any, float] | None:
        """Return the value of a cell that follows from a rule, if there is one, with its probability."""
        name, table = self.raw[c].name, self.table.select(np.array([row]))
        value = rule.implied(rule_values(table, rule.columns), name)
        if np.isnan(value).any():
            return None
        column = rounded(table.domain[name], value)
        column_of = Column.of_table(with_rule_values(table, {name: column}), self.at[c])
        return column_of.labels[column_of.codes[0]], 1 - float(np.exp2(-self.rule_bits[row, c]))

    def _most_probable(self, c: int, rows: IntArray) -> list[tuple[Any, float]]:
        """Return the most probable states, or the medians, of some cells, with their probabilities."""
        answers, name = self.given_rest(rows), self.raw[c].name
        if not self.is_number(c):
            p, states = answers.states(name), self.table.domain[name].states
            return [(states[k], float(p[i, k])) for i, k in enumerate(p.argmax(axis=1).tolist())]
        number = answers.number(name)
        medians = np.clip(number.median(), number.scale.low, number.scale.high)
        p = np.exp(number.log_mass(medians))
        return [(number.scale.own(x), y) for x, y in zip(medians.tolist(), p.tolist(), strict=True)]

    def value(self, row: int, c: int) -> Any:
        """Return what a cell holds, as it was written."""
        return self.raw[c].labels[self.raw[c].codes[row]]


def _without(table: Table, cells: BoolArray) -> Table:
    """Return a table in which some cells are missing, which says nothing about cells that are absent."""
    codes, numbers = np.where(cells, -1, table.signed_codes()), table.numbers
    if numbers is not None:
        numeric = [table.domain.index(name) for name in table.domain.numeric]
        numbers = np.where(cells[:, numeric], np.nan, numbers)
    return Table.adopt(table.domain, codes, table.weights, numbers, table.domain.names)


@names_lack_of_memory
def surprises(model: Any, table: Any, *, random_state: int = 0) -> Surprises:
    """Rank the cells of a table by how improbable they are given the rest of their rows.

    Parameters
    ----------
    model : Network or JointModel
        The model, which may have been learned from the same table.
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are summed out. Columns that the model does not know are ignored; values
        that it does not know have probability 0.
    random_state : int
        The seed, for rows that are too large for exact inference.

    Returns
    -------
    surprises : Surprises
        A sequence of all known cells, the most surprising one first, each with the value that the model
        would rather have seen.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import JointModel
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(0, 3, 500)
    >>> table = np.stack([a, a, 2 - a], axis=1)
    >>> table[7, 1] = (table[7, 1] + 1) % 3  # a typing error
    >>> found = surprises(JointModel().fit(table), table)[0]
    >>> found.row, found.column, bool(found.suggestion == a[7])
    (7, 'v1', True)
    """
    joint = network_of(model)
    columns, coded = columns_of(table, domain=joint.domain), None
    if isinstance(table, Table) and table.domain == joint.domain.observed:
        coded = table  # which may know that an empty cell got lost
    return column_surprises(joint, columns, random_state, coded)


def column_surprises(
    model: Network, columns: Sequence[Column], random_state: int, coded: Table | None = None
) -> Surprises:
    """Rank the cells of columns (see `surprises`), which may have been coded before."""
    domain = model.domain.observed
    by_name = {column.name: column for column in columns}
    present = [name for name in domain.names if name in by_name]
    if not present:
        raise DataError(
            "the table has none of the columns of the model. "
            + did_you_mean(next(iter(by_name), ""), domain.names)
        )
    rows = len(columns[0].codes)
    none = Column("", np.full(rows, -1, np.int64), [], lacking=True)
    given = [by_name.get(name, none.renamed(name)) for name in domain.names]
    table = coded or table_of_columns(given, domain, strict=False)
    raw = [by_name[name] for name in present]
    return Surprises(_Cells(model, raw, table, random_state))
