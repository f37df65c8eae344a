"""Numeric columns cut into bins with readable labels."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Table, code_dtype
from conjoin.errors import DataError, did_you_mean

Floats = npt.NDArray[np.float64]

METHODS = ("quantile", "width", "mdl")
LARGEST_INTEGER = 2**53
"""Integers up to this size are exact as floats."""
MAX_CELLS = 20_000_000
"""The most cells in the table of a variable's values by the target's states."""
DIGITS = 17
"""So many significant digits tell any two floats apart."""


def _is_number(state: Any) -> bool:
    return isinstance(state, int | float) and not isinstance(state, bool)


def _as_float(state: float) -> float:
    """Return a number as a float, an integer beyond all floats as an infinity."""
    try:
        return float(state) + 0.0  # -0.0 becomes 0.0
    except OverflowError:
        return math.inf if state > 0 else -math.inf


@dataclass(frozen=True)
class Discretizer:
    """Cut points and bin labels of some numeric variables.

    Make one with `discretize`, then use it on later tables of the same columns.

    Parameters
    ----------
    cuts : mapping of str to sequence of float
        For each variable, ascending numbers, one more than it has bins. Bin k holds the values
        from `cuts[k]` to `cuts[k + 1]`, the latter not included. The first and the last number
        are the extremes of the data; values beyond them belong to the outermost bins.
    labels : mapping of str to sequence of str
        For each variable, the labels of its bins, all different.

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

    cuts: Mapping[str, tuple[float, ...]]
    labels: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        if set(self.cuts) != set(self.labels):
            odd = sorted(set(self.cuts) ^ set(self.labels), key=str)[0]
            raise DataError(f"column {odd!r} needs both cut points and labels")
        cuts = {name: tuple(float(c) for c in given) for name, given in self.cuts.items()}
        labels = {name: tuple(self.labels[name]) for name in cuts}
        for name, numbers in cuts.items():
            if not all(map(math.isfinite, numbers)):
                raise DataError(f"column {name!r}: cut points must be finite, not {numbers}")
            steps = [b - a for a, b in pairwise(numbers)]
            if any(step < 0 for step in steps) or any(step == 0 for step in steps[1:-1]):
                raise DataError(f"column {name!r}: sort the cut points {numbers}, without repeats")
            if not labels[name] or len(numbers) != len(labels[name]) + 1:
                raise DataError(
                    f"column {name!r}: {len(numbers)} cut points make {len(numbers) - 1} bins; "
                    f"give as many labels, not {len(labels[name])}"
                )
            if not all(isinstance(label, str) for label in labels[name]):
                raise DataError(f"column {name!r}: bin labels must be text, not {labels[name]}")
            Variable(name, labels[name])  # refuses equal labels
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "labels", labels)

    def apply(self, table: Table) -> Table:
        """Return a table with the bins as the states of these variables.

        Parameters
        ----------
        table : Table
            A table with these variables. A state is a number, or one of the bin labels already.
            Other variables stay as they are, missing values stay missing.

        Examples
        --------
        >>> warm = Discretizer({"t": [-5, 0, 9.5]}, {"t": ["-5 to 0", "0 to 9.5"]})
        >>> binned = warm.apply(Table(Domain({"t": [-7.5, 0.0, 30.0]}), [[2], [0], [1]]))
        >>> [binned.domain["t"].states[code] for code in binned.codes[:, 0]]
        ['0 to 9.5', '-5 to 0', '0 to 9.5']
        >>> warm.apply(binned) is binned
        True
        """
        variables = list(table.domain)
        places: dict[int, npt.NDArray[np.int64]] = {}
        for name, labels in self.labels.items():
            position = table.domain.index(name)
            if variables[position].states != labels:
                places[position] = self._places(variables[position])
                variables[position] = Variable(name, labels)
        if not places:
            return table
        domain = Domain(variables)
        dtype = code_dtype(domain.cards)
        missing = np.iinfo(dtype).max
        codes = np.empty(table.codes.shape, dtype)
        for position in range(len(domain)):
            column = table.codes[:, position]
            lookup = np.full(table.missing + 1, missing, dtype)
            card = table.domain.cards[position]
            lookup[:card] = places.get(position, np.arange(card))
            codes[:, position] = lookup[column]
        return Table(domain, codes, table.weights)

    def _places(self, variable: Variable) -> npt.NDArray[np.int64]:
        """Return the bin of each state of a variable."""
        inner, labels = self.cuts[variable.name][1:-1], self.labels[variable.name]
        places = []
        for state in variable.states:
            if _is_number(state):
                places.append(bisect_right(inner, _as_float(state)))
            elif isinstance(state, str) and state in labels:
                places.append(labels.index(state))
            else:
                raise DataError(
                    f"column {variable.name!r}: state {state!r} is not a number, nor one of the "
                    f"bins {', '.join(map(repr, labels[:12]))}; correct it or mark it as missing"
                )
        return np.array(places, np.int64)

    def to_json(self) -> dict[str, dict[str, list[Any]]]:
        """Return plain dictionaries and lists, fit for JSON.

        Examples
        --------
        >>> Discretizer({"age": [17, 30, 90]}, {"age": ["17-29", "30-90"]}).to_json()
        {'age': {'cuts': [17.0, 30.0, 90.0], 'labels': ['17-29', '30-90']}}
        """
        return {
            name: {"cuts": list(cuts), "labels": list(self.labels[name])}
            for name, cuts in self.cuts.items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Mapping[str, Sequence[Any]]]) -> Discretizer:
        """Return the discretizer that `to_json` wrote.

        Examples
        --------
        >>> Discretizer.from_json({"age": {"cuts": [17, 30, 90], "labels": ["17-29", "30-90"]}})
        Discretizer(cuts={'age': (17.0, 30.0, 90.0)}, labels={'age': ('17-29', '30-90')})
        """
        try:
            cuts = {name: tuple(map(float, entry["cuts"])) for name, entry in data.items()}
            labels = {name: tuple(entry["labels"]) for name, entry in data.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                "a discretizer is written as {column: {'cuts': [numbers], 'labels': [texts]}}; "
                f"this is not: {error!r}"
            ) from None
        return cls(cuts, labels)


def discretize(
    table: Table,
    columns: str | Iterable[str] | None = None,
    *,
    method: str = "quantile",
    bins: int = 5,
    edges: Mapping[str, Sequence[float]] | None = None,
    target: str | None = None,
) -> tuple[Table, Discretizer]:
    """Cut numeric variables into bins with readable labels, such as "30-39".

    Integers get ranges that include both ends ("30-39"; "-5 to -1" where some are negative).
    Other numbers get ranges that include the lower end only ("0.5 to 1.2"), but the last bin
    includes the maximum too. Rows count with their weight; those of weight 0 do not count.

    Parameters
    ----------
    table : Table
        The rows. Numeric columns of files and frames have their distinct numbers as states.
    columns : str or iterable of str, optional
        The variables to cut. By default every variable, except `target`, whose states are all
        numbers and more than `bins`. Those named in `edges` are cut in any case.
    method : {"quantile", "width", "mdl"}
        How to choose the cut points:

        - "quantile": bins of about equal weight, as far as ties allow. Ties can mean fewer bins.
        - "width": bins of equal width. One that would be empty is merged with the one below.
        - "mdl": the cuts that tell most about `target`, as long as they pay for themselves by the
          minimum description length criterion of Fayyad and Irani (1993). It finds the number of
          bins itself, one if no cut is worth it. Rows without a target do not count.
    bins : int
        The number of bins, 2 or more.
    edges : mapping of str to sequence of float, optional
        Inner cut points for some variables, in place of the method's. A value equal to a cut point
        belongs to the bin above it. These bins are kept even if they are empty.
    target : str, optional
        The variable that "mdl" is to predict. It is not cut.

    Returns
    -------
    Table
        The table with bins as states.
    Discretizer
        The cut points and labels, to treat other tables alike.

    Examples
    --------
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
    names = _chosen(table.domain, columns, int(bins), fixed, target)
    if method == "mdl" and target is None and any(name not in fixed for name in names):
        raise DataError('the method "mdl" needs the variable to predict; give target="..."')
    cuts: dict[str, tuple[float, ...]] = {}
    labels: dict[str, tuple[str, ...]] = {}
    for name in names:
        values, groups = _values(table, name)
        counts = np.zeros(len(values))
        np.add.at(counts, groups, table.counts(table.domain.index(name)))
        seen = values[counts > 0]
        if not len(seen):
            raise DataError(f"column {name!r} has no values to cut; leave it out of `columns`")
        integral = all(isinstance(state, int) for state in table.domain[name].states)
        if name in fixed:
            inner = fixed[name]
        elif method == "quantile":
            inner = _quantile_cuts(seen, counts[counts > 0], int(bins), integral)
        elif method == "width":
            inner = _width_cuts(seen, int(bins), integral)
        else:
            assert target is not None
            inner = _mdl_cuts(*_by_target(table, name, values, groups, target), integral)
        texts = _integer_labels(name, inner, seen) if integral else _float_labels(inner, seen)
        labels[name] = tuple(texts)
        ends = [float(seen[0]), *inner, float(seen[-1])]
        cuts[name] = (min(ends), *inner, max(ends))
    discretizer = Discretizer(cuts, labels)
    return discretizer.apply(table), discretizer


def _chosen(
    domain: Domain,
    columns: str | Iterable[str] | None,
    bins: int,
    fixed: Mapping[str, Any],
    target: str | None,
) -> list[str]:
    """Return the names of the variables to cut, in the order of the domain."""
    if target is not None:
        domain.index(target)
    if columns is None:
        wanted = [
            v.name
            for v in domain
            if v.name != target and len(v) > bins and all(map(_is_number, v.states))
        ]
    else:
        wanted = [columns] if isinstance(columns, str) else list(columns)
    wanted += fixed
    for name in wanted:
        domain.index(name)
    if target in wanted:
        raise DataError(
            f"the target {target!r} cannot be cut in the same call; leave it out of `columns` and "
            "`edges`, or cut it first in a call of its own"
        )
    return [name for name in domain.names if name in wanted]


def _checked_edges(name: str, given: Sequence[float]) -> list[float]:
    try:
        inner = [_as_float(float(edge)) for edge in given]
    except (TypeError, ValueError):
        raise DataError(
            f"the edges of column {name!r} must be a list of numbers, not {given!r}"
        ) from None
    for edge in inner:
        if not math.isfinite(edge):
            raise DataError(
                f"the edges of column {name!r} contain {edge}; give finite inner cut points only, "
                "the outermost bins take all the rest"
            )
    for a, b in pairwise(inner):
        if a >= b:
            raise DataError(
                f"the edges of column {name!r} must ascend, but {b:g} follows {a:g}; "
                "sort them and drop repeats"
            )
    return inner


def _values(table: Table, name: str) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return a variable's numbers, ascending, and the place of each state among them."""
    numbers = []
    for state in table.domain[name].states:
        if not _is_number(state):
            raise DataError(
                f"column {name!r} cannot be cut: its state {state!r} is not a number; "
                "leave the column out, or mark such values as missing"
            )
        if not math.isfinite(_as_float(state)):
            raise DataError(
                f"column {name!r} cannot be cut: its state {str(state)[:30]} is not finite; "
                "mark such values as missing"
            )
        if isinstance(state, int) and abs(state) > LARGEST_INTEGER:
            raise DataError(
                f"column {name!r} cannot be cut: its state {state} is beyond 2^53; name the "
                "columns to cut without it, or divide it by a power of 10"
            )
        numbers.append(_as_float(state))
    values, groups = np.unique(np.array(numbers), return_inverse=True)
    return values, groups.astype(np.int64)


def _between(low: float, high: float, integral: bool) -> float:
    """Return a short number near the middle of two: above the lower, at most the higher."""
    return _short(low / 2 + high / 2, low, high, integral)


def _short(value: float, low: float, high: float, integral: bool, digits: int = 1) -> float:
    """Round a number to as few digits as leave it above `low` and at most at `high`."""
    for precision in range(digits, DIGITS + 1):
        for number in (value, high):
            cut = float(f"{number:.{precision}g}") + 0.0
            if low < cut <= high and (not integral or cut.is_integer()):
                return cut
    return high


def _quantile_cuts(values: Floats, weights: Floats, bins: int, integral: bool) -> list[float]:
    """Cut at the boundaries between values that are nearest to the weighted quantiles."""
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
    return [_between(float(values[i]), float(values[i + 1]), integral) for i in sorted(chosen)]


def _width_cuts(values: Floats, bins: int, integral: bool) -> list[float]:
    """Cut at equal distances, but so that no bin is empty."""
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


def _by_target(
    table: Table, name: str, values: Floats, groups: npt.NDArray[np.int64], target: str
) -> tuple[Floats, Floats]:
    """Return a variable's values and the weight of each with each state of the target."""
    own, other = table.domain.index(name), table.domain.index(target)
    both = (table.codes[:, own] != table.missing) & (table.codes[:, other] != table.missing)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    both &= weights > 0
    kept, rows = np.unique(groups[table.codes[both, own]], return_inverse=True)
    classes, sides = np.unique(table.codes[both, other], return_inverse=True)
    if len(kept) * len(classes) > MAX_CELLS:
        raise DataError(
            f"the target {target!r} has {len(classes)} states, too many to cut the {len(kept)} "
            f"values of {name!r} by; cut the target first, in a call of its own"
        )
    shape = len(kept), len(classes)
    cells = np.bincount(rows * shape[1] + sides, weights[both], minlength=shape[0] * shape[1])
    return values[kept], cells.reshape(shape).astype(np.float64)


def _entropy(counts: Floats) -> Floats:
    """Return the entropy of each row of counts, in bits."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    return -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=1)


def _mdl_cuts(values: Floats, counts: Floats, integral: bool) -> list[float]:
    """Cut where it lowers the target's entropy enough: Fayyad and Irani's recursion."""
    cuts = []
    todo = [(0, len(values))]
    while todo:
        start, stop = todo.pop()
        split = _best_split(counts[start:stop])
        if split is not None:
            at = start + split
            cuts.append(_between(float(values[at - 1]), float(values[at]), integral))
            todo += [(start, at), (at, stop)]
    return sorted(cuts)


def _best_split(counts: Floats) -> int | None:
    """Return the row before which to cut, or None if no cut is accepted."""
    if len(counts) < 2:
        return None
    left = np.cumsum(counts, axis=0)
    right = np.cumsum(counts[::-1], axis=0)[::-1][1:]
    whole, left = left[-1:], left[:-1]
    classes = int((whole > 0).sum())
    if classes < 2:
        return None
    total = float(whole.sum())
    entropies = _entropy(left), _entropy(right)
    after = (left.sum(axis=1) * entropies[0] + right.sum(axis=1) * entropies[1]) / total
    best = int(np.argmax(after <= after.min() + 1e-12))  # the first of several that are equal
    before = float(_entropy(whole)[0])
    gain = before - float(after[best])
    spent = classes * before
    for side, entropy in zip((left, right), entropies, strict=True):
        spent -= int((side[best] > 0).sum()) * float(entropy[best])
    delta = classes * math.log2(3) + math.log1p(-2 * 3.0**-classes) / math.log(2) - spent
    accepted = gain > (math.log2(max(total - 1, 1.0)) + delta) / total
    return best + 1 if accepted else None


def _integer_labels(name: str, inner: Sequence[float], seen: Floats) -> list[str]:
    """Return labels such as "30-39", both ends included."""
    low, high = int(seen[0]), int(seen[-1])
    starts = [math.ceil(cut) for cut in inner]
    for a, b, cut in zip(starts, starts[1:], inner[1:], strict=False):
        if a == b:
            raise DataError(
                f"the edges of column {name!r} leave no whole number just below {cut:g}; "
                "drop that edge"
            )
    dash = " to " if min([low, *starts]) < 0 else "-"
    firsts, lasts = [low, *starts], [*(start - 1 for start in starts), high]
    labels = [
        str(first) if first == last else f"{first}{dash}{last}"
        for first, last in zip(firsts, lasts, strict=True)
    ]
    return _with_open_ends(labels, [str(start) for start in starts], inner, seen)


def _float_labels(inner: Sequence[float], seen: Floats) -> list[str]:
    """Return labels such as "0.5 to 1.2", the lower end included, the upper not."""
    low, high = float(seen[0]), float(seen[-1])
    texts = [_cut_text(inner, k, seen) for k in range(len(inner))]
    firsts = [_outer_text(low, ROUND_FLOOR), *texts]
    lasts = [*texts, _outer_text(high, ROUND_CEILING)]
    labels = [
        first if first == last else f"{first} to {last}"
        for first, last in zip(firsts, lasts, strict=True)
    ]
    return _with_open_ends(labels, texts, inner, seen)


def _with_open_ends(
    labels: list[str], texts: Sequence[str], inner: Sequence[float], seen: Floats
) -> list[str]:
    """Rename the outermost bins that lie beyond all data, which fixed edges can make."""
    if inner and inner[0] <= seen[0]:
        labels[0] = f"below {texts[0]}"
    if inner and inner[-1] > seen[-1]:
        labels[-1] = f"{texts[-1]} or more"
    return labels


def _cut_text(inner: Sequence[float], k: int, seen: Floats) -> str:
    """Write a cut point with as few digits as keep the values and the other cuts on their side."""
    cut = inner[k]
    after = int(np.searchsorted(seen, cut))
    low = float(seen[after - 1]) if after else -math.inf
    high = float(seen[after]) if after < len(seen) else math.inf
    others = (*inner[max(k - 1, 0) : k], *inner[k + 1 : k + 2])
    tolerance = min((abs(cut - other) for other in others), default=math.inf) / 100
    for precision in range(6, DIGITS):
        text = _text(cut, precision)
        if low < float(text) <= high and abs(float(text) - cut) <= tolerance:
            return text
    return _text(cut, DIGITS)


def _outer_text(value: float, rounding: str) -> str:
    """Write an extreme with 6 digits, rounded outwards."""
    text = _text(value, 6)
    inwards = float(text) > value if rounding == ROUND_FLOOR else float(text) < value
    if inwards:
        text = _text(float(Context(prec=6, rounding=rounding).create_decimal(value)), 6)
    return text


def _text(value: float, digits: int) -> str:
    """Write a number with at most so many significant digits, thousands without an exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < 1e15 else text
