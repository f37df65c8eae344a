"""Numeric columns cut into bins with readable labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.bin_labels import DIGITS, float_labels, integer_labels
from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import as_float, is_number
from conjoin.data.number_scale import LARGEST_INTEGER, NumberScale
from conjoin.data.table import Table
from conjoin.errors import DataError, did_you_mean

METHODS = ("quantile", "width")
MANY_NUMBERS, SEVERAL_NUMBERS = 20, 5
"""A column is continuous if it has more distinct numbers than the first, or more than the second if
some of them have a fraction."""


def discretize(
    table: Table,
    columns: str | Iterable[str] | None = None,
    *,
    method: str = "quantile",
    bins: int = 5,
    edges: Mapping[str, Sequence[float]] | None = None,
) -> tuple[Table, Discretizer]:
    """Cut numeric variables into bins with readable labels, such as "30-39".

    Integers get ranges that include both ends ("30-39"; "-5 to -1" where some are negative).
    Other numbers get ranges that include the lower end only ("0.5 to 1.2"), except that the last
    bin includes the maximum. Bins of dates have dates in their labels. Rows count with their weights;
    rows of weight 0 are ignored.

    Parameters
    ----------
    table : Table
        The rows, with columns of numbers, or columns that have numbers as states.
    columns : str or iterable of str, optional
        The variables to cut. By default every variable that has only numbers, and more different ones
        than `bins`. Variables named in `edges` are always cut.
    method : {"quantile", "width"}
        How to choose the cut points:

        - "quantile": bins of about equal weight, as far as ties allow. Ties can mean fewer bins.
        - "width": bins of equal width. One that would be empty is merged with the one below.
    bins : int
        The number of bins, 2 or more.
    edges : mapping of str to sequence of float, optional
        Inner cut points for some variables, in place of the method's. A value equal to a cut point
        belongs to the bin above it. These bins are kept even if they are empty.

    Returns
    -------
    Table
        The table with bins as states.
    Discretizer
        The cut points and labels, to cut other tables in the same way.

    Examples
    --------
    >>> from conjoin import Domain
    >>> ages = [17, 22, 25, 30, 38, 39, 40, 61, 90]
    >>> table = Table(Domain({"age": ages}), [[code] for code in range(9)])
    >>> binned, cuts = discretize(table, edges={"age": [30, 40]})
    >>> binned.domain
    Domain({'age': ['17-29', '30-39', '40-90']})
    >>> binned.codes.ravel().tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 2]
    >>> discretize(table, ["age"], bins=3)[0].domain
    Domain({'age': ['17-29', '30-39', '40-90']})
    >>> discretize(table, ["age"], bins=3, method="width")[0].domain
    Domain({'age': ['17-41', '42-65', '66-90']})
    """
    if method not in METHODS:
        raise DataError(f"there is no method {method!r}. " + did_you_mean(method, METHODS))
    if not isinstance(bins, int | np.integer) or isinstance(bins, bool) or bins < 2:
        raise DataError(f"bins must be a whole number, 2 or more, not {bins!r}")
    fixed = {name: _checked_edges(name, given) for name, given in (edges or {}).items()}
    scales = {scale.name: scale for scale in table.domain.scales}
    chosen = _chosen(table, columns, int(bins), fixed)
    table = table.as_states(chosen)
    cuts: dict[str, tuple[float, ...]] = {}
    labels: dict[str, tuple[str, ...]] = {}
    for name in chosen:
        seen, counts, integral = _counted(table, name)
        if name in fixed:
            inner = fixed[name]
        elif method == "quantile":
            inner = quantile_cuts(seen, counts, int(bins), integral)
        else:
            inner = width_cuts(seen, int(bins), integral)
        ends = [float(seen[0]), *inner, float(seen[-1])]
        cuts[name] = (min(ends), *inner, max(ends))
        if name in scales and scales[name].kind != "number":
            texts = _date_labels(scales[name], cuts[name])
        else:
            texts = integer_labels(name, inner, seen) if integral else float_labels(inner, seen)
        labels[name] = tuple(texts)
    discretizer = Discretizer(cuts, labels)
    return discretizer.apply(table), discretizer


def continuous(states: Sequence[Any]) -> bool:
    """Return whether states look like measurements: many numbers, or several with fractions."""
    if not all(map(is_number, states)) or len(states) <= SEVERAL_NUMBERS:
        return False
    return len(states) > MANY_NUMBERS or any(s != int(s) for s in states)


def discretize_by(
    table: Table, how: str | Mapping[str | None, Any] | Discretizer
) -> tuple[Table, Discretizer]:
    """Cut numeric variables as a short specification says; return the table and its cut points.

    "quantile:5" and "width:5" name a number of bins. They are for all variables that have only numbers,
    and more of them than bins. A mapping of variables to such strings or to lists of inner cut points
    has the key None for all other variables. The Discretizer of an earlier table cuts this one in the
    same way.
    """
    if isinstance(how, Discretizer):
        return how.apply(table.as_states(list(how.cuts))), how
    wanted: Any = {None: how} if isinstance(how, str) else how
    if not isinstance(wanted, Mapping):
        raise DataError(
            f'discretize takes "quantile:5", "width:5", a mapping of variables to these or to lists of '
            f"cut points, or a Discretizer; not {how!r}"
        )
    numbers = {scale.name for scale in table.domain.scales if scale.kind == "number"}
    table = table.as_states(numbers if None in wanted else numbers & {*map(str, wanted)})
    for name, cut in sorted(wanted.items(), key=lambda item: item[0] is None):  # the others last
        options: dict[str, Any] = {"edges": {name: cut}}
        if isinstance(cut, str):
            options = _options(cut)
        if name is not None:
            options["columns"] = [name]
        elif "edges" in options:
            raise DataError(f"cut points need the name of their variable: {{name: {cut!r}}}")
        table, _ = discretize(table, **options)
    return table, Discretizer.of(table.domain)


def _options(text: str) -> dict[str, Any]:
    """Read a method and its number of bins."""
    method, _, rest = text.partition(":")
    if method not in METHODS:
        raise DataError(f"there is no method {method!r}. " + did_you_mean(method, METHODS))
    if rest and not rest.isdecimal():
        raise DataError(f'"{method}" takes a number of bins: "{method}:5", not {text!r}')
    return {"method": method, "bins": int(rest)} if rest else {"method": method}


def _chosen(
    table: Table, columns: str | Iterable[str] | None, bins: int, fixed: Mapping[str, Any]
) -> list[str]:
    """Return the names of the variables to cut, in the order of the domain."""
    domain = table.domain
    if columns is None:
        wanted = [v.name for v in domain if _distinct_numbers(table, v) > bins]
    else:
        wanted = [columns] if isinstance(columns, str) else list(columns)
    wanted += fixed
    for name in wanted:
        domain.index(name)
    return [name for name in domain.names if name in wanted]


def _distinct_numbers(table: Table, variable: Variable) -> int:
    """Return how many different numbers a variable has, 0 if it has other states."""
    if variable.numbers is None:
        return len(variable) if all(map(is_number, variable.states)) else 0
    values = np.zeros(0) if table.numbers is None else table.column(variable.name)
    return np.unique(values[~np.isnan(values)]).size


def _date_labels(scale: NumberScale, cuts: Sequence[float]) -> list[str]:
    """Return labels of bins of dates, such as "2024-03-02 to 2024-03-09"."""
    scale = replace(scale, form=None)  # ranges of bins are read as ISO dates
    starts = ends = [scale.short(cut) for cut in cuts]
    if scale.kind == "date":
        ends = [*(scale.short(np.ceil(cut) - 1) for cut in cuts[:-1]), starts[-1]]
    return [f"{a} to {b}" if a != b else a for a, b in zip(starts[:-1], ends[1:], strict=True)]


def _checked_edges(name: str, given: Sequence[float]) -> list[float]:
    try:
        inner = [as_float(float(edge)) for edge in given]
    except (TypeError, ValueError):
        raise DataError(
            f"the edges of column {name!r} must be a list of numbers, not {given!r}"
        ) from None
    for edge in inner:
        if not math.isfinite(edge):
            raise DataError(
                f"the edges of column {name!r} contain {edge}; give only finite cut points; "
                "the outermost bins are unbounded"
            )
    for a, b in pairwise(inner):
        if a >= b:
            raise DataError(
                f"the edges of column {name!r} must increase, but {b:g} follows {a:g}; "
                "sort them and drop repeats"
            )
    return inner


def _counted(table: Table, name: str) -> tuple[FloatArray, FloatArray, bool]:
    """Return a variable's numbers in the table, their weights, and whether all states are integers."""
    states = table.domain[name].states
    for state in states:
        if not is_number(state):
            raise DataError(
                f"column {name!r} cannot be cut: its state {state!r} is not a number; "
                "leave the column out, or mark such values as missing"
            )
        if not math.isfinite(as_float(state)):
            raise DataError(
                f"column {name!r} cannot be cut: its state {str(state)[:30]} is not finite; "
                "mark such values as missing"
            )
        if isinstance(state, int) and abs(state) > LARGEST_INTEGER:
            raise DataError(
                f"column {name!r} cannot be cut: its state {state} is larger than 2^53; name the "
                "columns to cut without it, or divide it by a power of 10"
            )
    values, groups = np.unique([as_float(state) for state in states], return_inverse=True)
    counts = np.bincount(groups, table.counts(table.domain.index(name))).astype(np.float64)
    seen = counts > 0
    if not seen.any():
        raise DataError(f"column {name!r} has no values to cut; leave it out of `columns`")
    return values[seen], counts[seen], all(isinstance(state, int) for state in states)


def _short(value: float, low: float, high: float, integral: bool, digits: int = 1) -> float:
    """Round a number to the fewest digits that keep it above `low` and at most `high`."""
    for precision in range(digits, DIGITS + 1):
        for number in (value, high):
            cut = float(f"{number:.{precision}g}") + 0.0
            if low < cut <= high and (not integral or cut.is_integer()):
                return cut
    return high


def quantile_cuts(
    values: FloatArray, weights: FloatArray, bins: int, integral: bool
) -> list[float]:
    """Cut between the values whose boundaries are nearest to the weighted quantiles."""
    if len(values) == 1:
        return []
    below = np.cumsum(weights)
    total = float(below[-1])
    below = below[:-1]
    chosen = set()
    for k in range(1, bins):
        wanted = total * k / bins
        after = min(int(np.searchsorted(below, wanted)), len(below) - 1)
        before = max(after - 1, 0)
        lower_is_nearer = wanted - below[before] <= abs(below[after] - wanted) + 1e-9 * total
        chosen.add(before if lower_is_nearer else after)
    pairs = [(float(values[i]), float(values[i + 1])) for i in sorted(chosen)]
    return [_short(low / 2 + high / 2, low, high, integral) for low, high in pairs]


def width_cuts(values: FloatArray, bins: int, integral: bool) -> list[float]:
    """Cut at equal distances, leaving out cuts that would make a bin empty."""
    low, high = float(values[0]), float(values[-1])
    width = high / bins - low / bins
    raw = [float(f"{low + k * width:.12g}") for k in range(1, bins)]
    if integral:
        raw = [float(math.ceil(cut)) for cut in raw]
    raw = sorted({cut for cut in raw if low < cut <= high})
    firsts = np.searchsorted(values, raw)  # the first value of each bin
    cuts = []
    for k, (cut, first) in enumerate(zip(raw, firsts, strict=True)):
        if k + 1 == len(raw) or first < firsts[k + 1]:
            before, after = float(values[first - 1]), float(values[first])
            cuts.append(cut if integral else _short(cut, before, after, False, digits=4))
    return cuts


@dataclass(frozen=True)
class Discretizer:
    """Cut points and bin labels of some numeric variables.

    Make one with `discretize`, then use it on later tables of the same columns. A table's domain keeps
    the cut points, and so does a model that is learned from it: `Discretizer.of(model.domain)`.

    Examples
    --------
    >>> ages = Discretizer({"age": [17, 30, 40, 90]}, {"age": ["17-29", "30-39", "40-90"]})
    >>> table = Table(Domain({"age": [12, 30, 39, 40]}), [[0], [1], [2], [3], [-1]])
    >>> binned = ages.apply(table)
    >>> binned.domain
    Domain({'age': ['17-29', '30-39', '40-90']})
    >>> binned.codes.ravel().tolist()
    [0, 1, 1, 2, 255]
    """

    cuts: Mapping[str, tuple[float, ...]]  # for each variable those of its bins (see `Variable`)
    labels: Mapping[str, tuple[str, ...]]  # for each variable those of its bins, all different

    def __post_init__(self) -> None:
        if set(self.cuts) != set(self.labels):
            odd = sorted(set(self.cuts) ^ set(self.labels), key=str)[0]
            raise DataError(f"column {odd!r} needs both cut points and labels")
        cuts = {name: tuple(float(c) for c in given) for name, given in self.cuts.items()}
        labels = {name: tuple(self.labels[name]) for name in cuts}
        for name in cuts:
            Variable(name, labels[name], cuts[name])  # raises an error if they do not fit
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "labels", labels)

    def apply(self, table: Table) -> Table:
        """Return a table with the bins as the states of these variables."""
        table = table.as_states([name for name in table.domain.numeric if name in self.labels])
        codes, variables = table.signed_codes(), list(table.domain)
        for name, labels in self.labels.items():
            position = table.domain.index(name)
            if variables[position].states != labels:
                bins = Variable(name, labels, self.cuts[name])
                places = [self._place(bins, state) for state in variables[position].states]
                codes[:, position] = np.array([*places, -1])[codes[:, position]]
                variables[position] = bins
        domain = Domain(variables)
        if domain == table.domain:
            return table
        return Table.adopt(domain, codes, table.weights, table.numbers)

    def _place(self, bins: Variable, state: Any) -> int:
        """Return the bin of a state."""
        if is_number(state) or state in bins.states:
            return bins.index(state)
        raise DataError(
            f"column {bins.name!r}: state {state!r} is not a number, nor one of the "
            f"bins {', '.join(map(repr, bins.states[:12]))}; correct it or mark it as missing"
        )

    @classmethod
    def of(cls, domain: Domain) -> Discretizer:
        """Return the cut points and labels of those variables of a domain whose states are bins."""
        cut = [v for v in domain if v.cuts is not None and v.numbers is None]
        return cls({v.name: v.cuts for v in cut if v.cuts}, {v.name: v.states for v in cut})
