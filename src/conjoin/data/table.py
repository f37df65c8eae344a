"""Tables of discrete rows."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, read_only
from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import is_missing
from conjoin.data.labels import shown
from conjoin.data.number_states import NumberStates
from conjoin.errors import DataError, DataWarning

Codes = npt.NDArray[np.unsignedinteger[Any]]


def code_dtype(cards: npt.NDArray[np.int64]) -> np.dtype[Any]:
    """Return the smallest unsigned type that can hold every code and the mark of a missing value."""
    largest = cards.max(initial=0)
    return np.dtype(np.uint8 if largest < 255 else np.uint16 if largest < 65_535 else np.uint32)


class Table:
    """Rows of state codes over a domain, with the values of its columns of numbers, and optional weights.

    A column of numbers has a state, its interval, and a value in each row. A table does not let its
    arrays be changed.

    Parameters
    ----------
    domain : Domain
        The variables that the columns stand for.
    codes : array of int, shape (rows, variables)
        State codes. A negative code, or the largest value of an unsigned type, marks a missing value.
    weights : array of float, optional
        One non-negative weight per row.
    numbers : array of float, optional, shape (rows, columns of numbers)
        The values of the columns of numbers, NaN where one is missing. Without them, only the states
        of these columns are known.
    lacking : names, optional
        The columns that the source of the table does not have. Where a value of any other column is
        missing, it got lost.
    copy : bool
        Whether the table gets copies of the arrays: without them, nobody else may change these.

    Attributes
    ----------
    codes : array of uint8, uint16 or uint32
        The codes, read-only; `missing` marks a missing value.
    weights : array of float, or None
        The weights, read-only.
    numbers : array of float, or None
        The values of the columns of numbers, read-only.
    sample : Table, or None
        Some of the rows with the values of numbers, if only these have them (see `with_sample`).

    Examples
    --------
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> table = Table.from_rows(domain, [{"rain": "yes", "wet": "yes"}, ("no", None)])
    >>> table.codes
    array([[  1,   1],
           [  0, 255]], dtype=uint8)
    >>> [m.tolist() for m in table.marginals(pseudo=0)]
    [[0.5, 0.5], [0.0, 1.0]]
    """

    def __init__(
        self,
        domain: Domain,
        codes: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        numbers: npt.ArrayLike | None = None,
        lacking: Iterable[str] = (),
        *,
        copy: bool = True,
    ) -> None:
        self.domain, self.lacking = domain, tuple(lacking)
        self.sample: Table | None = None
        self.missing = int(np.iinfo(code_dtype(domain.cards)).max)
        self.codes: Codes = read_only(self._checked_codes(np.asarray(codes), copy))
        rows = len(self.codes)
        self.weights: npt.NDArray[np.float64] | None = None
        if weights is not None:
            given = np.array(weights, np.float64, copy=True if copy else None)
            if given.shape != (rows,):
                raise DataError(
                    f"{rows} rows need {rows} weights, not an array of shape {given.shape}"
                )
            if not (np.isfinite(given).all() and (given >= 0).all()):
                raise DataError("weights must be finite and not negative")
            self.weights = read_only(given)
        self.numbers: FloatArray | None = None
        if numbers is not None and domain.numeric:
            values = np.array(numbers, np.float64, copy=True if copy else None)
            if values.shape != (rows, len(domain.numeric)):
                raise DataError(
                    f"{rows} rows of {len(domain.numeric)} columns of numbers cannot have values "
                    f"of shape {values.shape}"
                )
            self.numbers = read_only(values)

    @classmethod
    def adopt(cls, *arguments: Any) -> Table:
        """Build a table on arrays that nobody else will change, without copying them."""
        return cls(*arguments, copy=False)

    @classmethod
    def of_values(
        cls,
        domain: Domain,
        codes: npt.NDArray[np.integer[Any]],
        numbers: FloatArray,
        weights: npt.ArrayLike | None = None,
    ) -> Table:
        """Build a table whose columns of numbers are given by their values only.

        `codes`: the states of all columns; those of numbers are replaced, unless they are absent.
        """
        full = np.array(codes, np.int64)
        for j, name in enumerate(domain.numeric):
            v, states = domain.index(name), domain.numbers(name)
            absent = np.isnan(numbers[:, j]) & (full[:, v] == len(states) - 1) & states.absent
            full[:, v] = np.where(absent, full[:, v], states.codes(numbers[:, j]))
        return cls.adopt(domain, full, weights, numbers)

    def _checked_codes(self, given: npt.NDArray[Any], copy: bool) -> Codes:
        """Return codes of any integer type as this table stores them."""
        cards = self.domain.cards
        if given.ndim != 2 or given.shape[1] != len(cards):
            raise DataError(
                f"a table over {len(cards)} variables needs codes of shape "
                f"(rows, {len(cards)}), not {given.shape}"
            )
        if given.dtype.kind not in "iu":
            raise DataError(f"codes must be integers, not {given.dtype}")
        unknown = given < 0 if given.dtype.kind == "i" else given == np.iinfo(given.dtype).max
        wrong = (given >= cards) & ~unknown
        if wrong.any():
            row, i = np.argwhere(wrong)[0]
            raise DataError(
                f"row {row + 1}, variable {self.domain.names[i]!r}: there is no state number "
                f"{given[row, i]}; it has {cards[i]} states, counted from 0"
            )
        coded: Codes = given.astype(code_dtype(cards), copy=copy)
        if coded.dtype != given.dtype:
            coded[unknown] = self.missing
        return coded

    @classmethod
    def from_rows(
        cls,
        domain: Domain,
        rows: Iterable[Mapping[str, Any] | Sequence[Any]],
        weights: npt.ArrayLike | None = None,
    ) -> Table:
        """Build a table from labels: mappings by name, or sequences in the order of the domain.

        A value that is None or NaN, or absent from a mapping, is missing.
        """
        codes = []
        for number, row in enumerate(rows, 1):
            values = (
                [row.get(name) for name in domain.names] if isinstance(row, Mapping) else list(row)
            )
            try:
                if isinstance(row, Mapping):
                    for name in row:
                        domain.index(name)
                if len(values) == len(domain.observed):
                    values += [None] * (len(domain) - len(values))  # hidden variables come last
                if len(values) != len(domain):
                    raise DataError(f"{len(values)} values for {len(domain)} variables")
                codes.append(
                    [
                        -1 if is_missing(value) else variable.index(value)
                        for variable, value in zip(domain, values, strict=True)
                    ]
                )
            except DataError as error:
                raise DataError(f"row {number}: {error}") from None
        return cls(domain, np.array(codes, np.int64).reshape(len(codes), len(domain)), weights)

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return not self.holes.any()

    def counts(self, position: int) -> npt.NDArray[np.float64]:
        """Return the (weighted) count of each state of one variable."""
        card = int(self.domain.cards[position])
        column = np.minimum(self.codes[:, position], card)  # missing is beyond the states
        counts = np.bincount(column, self.weights, minlength=card + 1)
        return counts[:card].astype(np.float64)

    def marginals(self, pseudo: float = 1.0) -> list[npt.NDArray[np.float64]]:
        """Estimate each variable's distribution, ignoring missing values.

        Parameters
        ----------
        pseudo : float
            A pseudo-count that is spread evenly over the states of each variable, so that no state gets
            probability 0 in a small table: (count + pseudo/states) / (rows + pseudo).
        """
        result = []
        for i, card in enumerate(self.domain.cards):
            counts = self.counts(i) + pseudo / card
            total = counts.sum()
            result.append(counts / total if total > 0 else np.full(card, 1 / card))
        return result

    def reordered(self, names: Sequence[str]) -> Table:
        """Return the table with its columns in another order."""
        if list(names) == list(self.domain.names):
            return self
        domain = self.domain.reordered(names)
        columns = [self.domain.index(name) for name in names]
        codes, numbers = np.ascontiguousarray(self.codes[:, columns]), self.numbers
        if numbers is not None:
            numbers = numbers[:, [self.domain.numeric.index(name) for name in domain.numeric]]
        result = Table.adopt(domain, codes, self.weights, numbers, self.lacking)
        return result if self.sample is None else result.with_sample(self.sample.reordered(names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.domain.names

    @cached_property
    def holes(self) -> BoolArray:
        """Which values are missing."""
        return np.asarray(self.codes == self.missing)

    def column(self, name: str) -> FloatArray:
        """Return the values of a column of numbers, NaN where one is missing."""
        if self.numbers is None:
            raise DataError(f"of column {name!r} only the states are known, not the values")
        return np.asarray(self.numbers[:, self.domain.numeric.index(self.domain.scale(name).name)])

    def select(self, rows: IntArray | BoolArray | slice) -> Table:
        """Return some of the rows."""
        weights, numbers = (None if x is None else x[rows] for x in (self.weights, self.numbers))
        return Table.adopt(self.domain, self.codes[rows], weights, numbers, self.lacking)

    def weighted(self, weights: npt.ArrayLike | None) -> Table:
        """Return the table with other weights."""
        return Table.adopt(self.domain, self.codes, weights, self.numbers, self.lacking)

    def with_sample(self, sample: Table) -> Table:
        """Return the table with a random sample of its rows, which has the values of numbers.

        A table larger than memory counts all rows by their states. `learn_joint` learns the network of
        the states from all rows, and where numbers lie within their states from the sample.
        """
        if sample.domain != self.domain:
            raise DataError("the sample has other columns or states than the table")
        result = Table.adopt(self.domain, self.codes, self.weights, self.numbers, self.lacking)
        result.sample = sample
        return result

    def with_rows(self, other: Table) -> Table:
        """Return the table with the rows of another one of the same domain below its own."""
        if other.domain != self.domain:
            raise DataError("the tables have different columns or states")
        if self.sample is not None or other.sample is not None:
            raise DataError("no rows can be added to a table whose numbers only a sample has")
        weights = numbers = None
        if self.weights is not None or other.weights is not None:
            both = [np.ones(len(t)) if t.weights is None else t.weights for t in (self, other)]
            weights = np.concatenate(both)
        if self.numbers is not None and other.numbers is not None:
            numbers = np.concatenate([self.numbers, other.numbers])
        codes = np.concatenate([self.codes, other.codes])
        return Table.adopt(self.domain, codes, weights, numbers)

    def with_states(self, count: int | None = None) -> Table:
        """Return the table with this number of intervals per number, or what suits the number of rows."""
        if self.numbers is None:
            return self
        variables = list(self.domain)
        for i, v in enumerate(variables):
            if v.numbers is not None:
                values = self.column(v.name)
                scale = v.numbers.scale.covering(values)
                states = NumberStates.learn(scale, values, self.weights, count)
                variables[i] = Variable.of_numbers(states)
        absent = [v.name for v in self.domain if v.numbers is not None and v.absent]
        plain = Table.of_values(Domain(variables), self.signed_codes(), self.numbers, self.weights)
        return plain.with_absent(absent, self.holes)

    def with_absent(self, names: Collection[str], holes: BoolArray | None = None) -> Table:
        """Return the table with one more state in some columns: that a cell has no value.

        `holes`: which values are missing nevertheless; by default none of these columns.
        """
        codes, variables = self.signed_codes(), list(self.domain)
        for name in names:
            v = self.domain.index(name)
            empty = self.holes[:, v] if holes is None else self.holes[:, v] & ~holes[:, v]
            codes[empty, v] = self.domain.cards[v]
            variables[v] = variables[v].with_absent()
        result = Table.adopt(Domain(variables), codes, self.weights, self.numbers)
        return result if self.sample is None else result.with_sample(self.sample.with_absent(names))

    @cached_property
    def absent(self) -> BoolArray:
        """Which cells have the state that there is no value (see `Variable.absent`)."""
        return np.asarray(self.codes == [len(v) - 1 if v.absent else -1 for v in self.domain])

    def recorded(self) -> Table:
        """Return the table as it is written down: what is absent is missing."""
        if not self.absent.any():
            return self
        codes = np.where(self.absent, -1, self.signed_codes())
        return Table.adopt(self.domain, codes, self.weights, self.numbers)

    def signed_codes(self) -> IntArray:
        """Return the codes, -1 where a value is missing."""
        return np.where(self.holes, -1, self.codes.astype(np.int64))

    def warn_of_far_numbers(self, target: str | None = None) -> None:
        """Warn (DataWarning) of columns with numbers far outside; those of `target` are no evidence."""
        for name in self.domain.numeric if self.numbers is not None else ():
            scale, x = self.domain.scale(name), self.column(name)
            far = np.unique(x[scale.is_far(x)])
            if len(far) and name != target:
                middle = (scale.low + scale.high) / 2
                many = f"{len(far) - 1:,} other value{'s' if len(far) > 2 else ''}"
                others = f" (and {many})" if len(far) > 1 else ""
                value = scale.short(far[np.abs(far - middle).argmax()])
                warnings.warn(
                    scale.far_words(f"{shown(name)}={shown(value)}{others}"),
                    DataWarning,
                    stacklevel=4,
                )

    def over(self, domain: Domain) -> Table:
        """Return the table over a domain that differs from its own by hidden variables.

        Hidden variables that the table lacks are missing in all rows.
        """
        if domain == self.domain:
            return self
        if domain == self.domain.observed:
            codes = self.codes[:, ~self.domain.hidden]
            return Table.adopt(domain, codes, self.weights, self.numbers)
        if domain.observed != self.domain:
            raise DataError(
                "the table's variables or states differ from the model's; read it with the model's "
                "domain (`read_table(path, domain=model.domain)`)"
            )
        return Table.adopt(domain, with_hidden(domain, self.codes), self.weights, self.numbers)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"<Table: {len(self):,} rows of {len(self.domain)} variables>"


def joint_codes(cards: npt.NDArray[np.int64], scope: Sequence[int]) -> Codes:
    """Return a row for every joint state of some variables, the last one fastest; others are 0."""
    shape = tuple(int(cards[v]) for v in scope)
    codes = np.zeros((int(np.prod(shape, dtype=np.int64)), len(cards)), code_dtype(cards))
    if shape:
        codes[:, list(scope)] = np.stack(np.unravel_index(np.arange(len(codes)), shape), axis=1)
    return codes


def with_hidden(domain: Domain, codes: Codes) -> Codes:
    """Return codes of the visible variables with all hidden variables, which come last, missing."""
    if codes.shape[1] == len(domain):
        return codes
    dtype = code_dtype(domain.cards)
    missing = np.iinfo(dtype).max
    full = np.full((len(codes), len(domain)), missing, dtype)
    seen = len(domain.observed)
    full[:, :seen] = codes
    full[:, :seen][codes >= domain.cards[:seen]] = missing
    return full


def codes_of(
    domain: Domain, rows: Any, *, complete: bool = True, ignored: int | None = None
) -> Codes:
    """Return the code matrix of rows given as a `Table`, codes, or an iterable of labels."""
    if isinstance(rows, Table):
        table = rows.over(domain)
    elif isinstance(rows, np.ndarray):
        given = np.atleast_2d(rows)
        shown = domain.observed if given.shape[1] == len(domain.observed) else domain
        table = Table.adopt(shown, given).over(domain)
    else:
        table = Table.from_rows(domain, [rows] if isinstance(rows, Mapping) else rows)
    lacking = table.holes & ~domain.hidden
    if ignored is not None:
        lacking[:, ignored] = False
    if complete and lacking.any():
        row, column = np.argwhere(lacking)[0]
        raise DataError(
            f"row {row + 1} has no value for {domain.names[column]!r}; complete rows are needed"
        )
    if ignored is not None and table.holes[:, ignored].any():
        codes = table.codes.copy()
        codes[:, ignored] = 0
        return codes
    return table.codes
