"""Tables of discrete rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import read_only
from conjoin.data.domain import Domain
from conjoin.data.label_values import is_missing
from conjoin.errors import DataError

Codes = npt.NDArray[np.unsignedinteger[Any]]


def code_dtype(cards: npt.NDArray[np.int64]) -> np.dtype[Any]:
    """Return the smallest unsigned type that can hold every code and the mark of a missing value."""
    largest = cards.max(initial=0)
    return np.dtype(np.uint8 if largest < 255 else np.uint16 if largest < 65_535 else np.uint32)


class Table:
    """Rows of state codes over a domain, with optional weights.

    A table keeps its own copy of the arrays it is made of, and does not let them be changed.

    Parameters
    ----------
    domain : Domain
        The variables that the columns stand for.
    codes : array of int, shape (rows, variables)
        State codes. A negative code, or the largest value of an unsigned type, marks a missing value.
    weights : array of float, optional
        One non-negative weight per row.

    Attributes
    ----------
    codes : array of uint8, uint16 or uint32
        The codes, read-only; `missing` marks a missing value.
    weights : array of float, or None
        The weights, read-only.

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
        self, domain: Domain, codes: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> None:
        self._fill(domain, codes, weights, copy=True)

    @classmethod
    def adopt(
        cls, domain: Domain, codes: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> Table:
        """Build a table on arrays that nobody else will change, without copying them."""
        table = cls.__new__(cls)
        table._fill(domain, codes, weights, copy=False)
        return table

    def _fill(
        self, domain: Domain, codes: npt.ArrayLike, weights: npt.ArrayLike | None, *, copy: bool
    ) -> None:
        self.domain = domain
        given = np.asarray(codes)
        if given.ndim != 2 or given.shape[1] != len(domain):
            raise DataError(
                f"a table over {len(domain)} variables needs codes of shape "
                f"(rows, {len(domain)}), not {given.shape}"
            )
        if given.dtype.kind not in "iu":
            raise DataError(f"codes must be integers, not {given.dtype}")
        dtype = code_dtype(domain.cards)
        self.missing = int(np.iinfo(dtype).max)
        if given.dtype == dtype:
            coded = given.copy() if copy else given
        else:
            coded = self._converted(given, dtype)
        self.codes: Codes = read_only(coded)
        self._check_codes()
        self.weights: npt.NDArray[np.float64] | None = None
        if weights is not None:
            numbers = np.array(weights, np.float64, copy=True if copy else None)
            if numbers.shape != (len(coded),):
                raise DataError(
                    f"{len(coded)} rows need {len(coded)} weights, not an array of shape {numbers.shape}"
                )
            if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
                raise DataError("weights must be finite and not negative")
            self.weights = read_only(numbers)

    def _converted(self, given: npt.NDArray[Any], dtype: np.dtype[Any]) -> Codes:
        """Return codes of another integer type as this table stores them."""
        unknown = given < 0 if given.dtype.kind == "i" else given == np.iinfo(given.dtype).max
        if given.size and given.max(initial=0, where=~unknown) >= self.missing:
            self._report_code(given, (given >= self.domain.cards) & ~unknown)
        coded: Codes = given.astype(dtype)
        if unknown.any():
            coded[unknown] = self.missing
        return coded

    def _check_codes(self) -> None:
        if not self.codes.size:
            return
        high = self.codes.max(axis=0)
        if (high >= self.domain.cards).any():  # too large, or missing
            wrong = (self.codes >= self.domain.cards) & (self.codes != self.missing)
            if wrong.any():
                self._report_code(self.codes, wrong)

    def _report_code(self, codes: npt.NDArray[Any], wrong: npt.NDArray[np.bool_]) -> None:
        row, i = np.argwhere(wrong)[0]
        raise DataError(
            f"row {row + 1}, variable {self.domain.names[i]!r}: there is no state number "
            f"{codes[row, i]}; it has {self.domain.cards[i]} states, counted from 0"
        )

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
        return not (self.codes == self.missing).any()

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
        return Table.adopt(domain, np.ascontiguousarray(self.codes[:, columns]), self.weights)

    def over(self, domain: Domain) -> Table:
        """Return the table over a domain that differs from its own by hidden variables.

        Hidden variables that the table lacks are missing in all rows.
        """
        if domain == self.domain:
            return self
        if domain == self.domain.observed:
            return Table.adopt(domain, self.codes[:, ~self.domain.hidden], self.weights)
        if domain.observed != self.domain:
            raise DataError(
                "the table's variables or states differ from the model's; read it with the model's "
                "domain (`read_table(path, domain=model.domain)`)"
            )
        return Table.adopt(domain, with_hidden(domain, self.codes), self.weights)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"<Table: {len(self):,} rows of {len(self.domain)} variables>"


def joint_codes(cards: npt.NDArray[np.int64], scope: Sequence[int]) -> Codes:
    """Return a row for every joint state of some variables, the last one fastest; others are 0.

    Examples
    --------
    >>> joint_codes(np.array([2, 5, 2]), [2, 0]).tolist()
    [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1]]
    """
    shape = tuple(int(cards[v]) for v in scope)
    codes = np.zeros((int(np.prod(shape, dtype=np.int64)), len(cards)), code_dtype(cards))
    if shape:
        codes[:, list(scope)] = np.stack(np.unravel_index(np.arange(len(codes)), shape), axis=1)
    return codes


def with_hidden(domain: Domain, codes: Codes) -> Codes:
    """Return codes of the visible variables with all hidden variables missing.

    Hidden variables come last. Codes of all variables are returned as they are.
    """
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
    """Return the code matrix of rows given as a `Table`, codes, or an iterable of labels.

    Parameters
    ----------
    domain : Domain
        The domain that the codes must be of.
    rows : Table, integer array, mapping or iterable of mappings
        The rows; a single mapping is one row. Rows need not have the hidden variables of the domain:
        these are then missing.
    complete : bool
        Whether missing values are an error; hidden variables may always be missing.
    ignored : int, optional
        The position of a variable whose values are not used and may be missing.
    """
    if isinstance(rows, Table):
        table = rows.over(domain)
    elif isinstance(rows, np.ndarray):
        given = np.atleast_2d(rows)
        shown = domain.observed if given.shape[1] == len(domain.observed) else domain
        table = Table.adopt(shown, given).over(domain)
    else:
        table = Table.from_rows(domain, [rows] if isinstance(rows, Mapping) else rows)
    if complete and not table.complete:
        lacking = (table.codes == table.missing) & ~domain.hidden
        if ignored is not None and lacking[:, ignored].any():
            codes = table.codes.copy()
            codes[:, ignored] = 0
            lacking[:, ignored] = False
            table = Table.adopt(domain, codes, table.weights)
        if lacking.any():
            row, column = np.argwhere(lacking)[0]
            raise DataError(
                f"row {row + 1} has no value for {domain.names[column]!r}; complete rows are needed"
            )
    return table.codes
