"""Numeric columns cut into bins with readable labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray
from conjoin.data.bin_labels import float_labels, integer_labels
from conjoin.data.cut_points import mdl_cuts, quantile_cuts, width_cuts
from conjoin.data.dependence_cuts import FINE_BINS, MOST_BINS, dependence_cuts
from conjoin.data.discretizer import Discretizer
from conjoin.data.domain import Domain
from conjoin.data.label_values import as_float, is_number
from conjoin.data.table import Table
from conjoin.errors import DataError, did_you_mean

METHODS = ("quantile", "width", "mdl", "dependence")
FEW_BINS = 5
"""Number of bins of "quantile" and "width" if it is not given."""
MANY_NUMBERS, SEVERAL_NUMBERS = 20, 5
"""A column is continuous if it has more distinct numbers than the first, or more than the second if
some of them have a fraction."""
LARGEST_INTEGER = 2**53
"""Integers up to this size are exact as floats."""


def discretize(
    table: Table,
    columns: str | Iterable[str] | None = None,
    *,
    method: str = "quantile",
    bins: int | None = None,
    edges: Mapping[str, Sequence[float]] | None = None,
    target: str | None = None,
    max_cells: int = 20_000_000,
) -> tuple[Table, Discretizer]:
    """Cut numeric variables into bins with readable labels, such as "30-39".

    Integers get ranges that include both ends ("30-39"; "-5 to -1" where some are negative).
    Other numbers get ranges that include the lower end only ("0.5 to 1.2"), except that the last
    bin includes the maximum. Rows count with their weights; rows of weight 0 are ignored.

    Parameters
    ----------
    table : Table
        The rows. Numeric columns of files and frames have their distinct numbers as states.
    columns : str or iterable of str, optional
        The variables to cut. By default every variable, except `target`, whose states are all
        numbers and which has more states than `bins` (than 5 for "mdl" and "dependence"). Variables
        named in `edges` are always cut.
    method : {"quantile", "width", "mdl", "dependence"}
        How to choose the cut points:

        - "quantile": bins of about equal weight, as far as ties allow. Ties can mean fewer bins.
        - "width": bins of equal width. One that would be empty is merged with the one below.
        - "mdl": the cuts that are most informative about `target`, as long as the minimum description
          length criterion of Fayyad and Irani (1993) accepts them. It chooses the number of bins
          itself, one if no cut is accepted. Rows without a target are ignored.
        - "dependence": the cuts that tell something about any other column of the table. Fine bins are
          merged with their neighbours unless some other column differs between them.
    bins : int, optional
        The number of bins, 2 or more, by default 5; for "dependence" the maximum number of bins, by
        default 16.
    edges : mapping of str to sequence of float, optional
        Inner cut points for some variables, in place of the method's. A value equal to a cut point
        belongs to the bin above it. These bins are kept even if they are empty.
    target : str, optional
        The variable that "mdl" predicts. It is not cut.
    max_cells : int
        Maximum number of cells in a table of a variable's values by the target's states, for "mdl".

    Returns
    -------
    Table
        The table with bins as states.
    Discretizer
        The cut points and labels, to cut other tables in the same way.

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
    if bins is None:
        bins = MOST_BINS if method == "dependence" else FEW_BINS
    if not isinstance(bins, int | np.integer) or isinstance(bins, bool) or bins < 2:
        raise DataError(f"bins must be a whole number, 2 or more, not {bins!r}")
    fixed = {name: _checked_edges(name, given) for name, given in (edges or {}).items()}
    few = int(bins) if method in ("quantile", "width") else FEW_BINS
    names = _chosen(table.domain, columns, few, fixed, target)
    if method == "mdl" and target is None and any(name not in fixed for name in names):
        raise DataError('the method "mdl" needs the variable to predict; give target="..."')
    cuts: dict[str, tuple[float, ...]] = {}
    labels: dict[str, tuple[str, ...]] = {}
    telling: dict[str, list[float]] = {}
    if method == "dependence":
        telling = _by_dependence(table, [name for name in names if name not in fixed], int(bins))
    for name in names:
        values, groups, counts, integral = _counted(table, name)
        seen = values[counts > 0]
        if name in fixed:
            inner = fixed[name]
        elif name in telling:
            inner = telling[name]
        elif method == "quantile":
            inner = quantile_cuts(seen, counts[counts > 0], int(bins), integral)
        elif method == "width":
            inner = width_cuts(seen, int(bins), integral)
        else:
            assert target is not None
            inner = mdl_cuts(*_by_target(table, name, values, groups, target, max_cells), integral)
        texts = integer_labels(name, inner, seen) if integral else float_labels(inner, seen)
        labels[name] = tuple(texts)
        ends = [float(seen[0]), *inner, float(seen[-1])]
        cuts[name] = (min(ends), *inner, max(ends))
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

    "quantile:5" and "width:5" name a number of bins, and "mdl:class" the variable to predict;
    "dependence" chooses cuts that tell something about the other variables, "dependence:8" at most 8
    bins. They are for all variables that have only numbers, and more of them than bins (than 5 for "mdl"
    and "dependence"). A mapping of variables to such strings or to lists of inner cut points has the
    key None for all other variables. The Discretizer of an earlier table cuts this one in the same way.

    Examples
    --------
    >>> table = Table(Domain({"age": range(20, 60), "pay": range(40)}), [[i, i] for i in range(40)])
    >>> discretize_by(table, {"age": [30, 40], None: "width:2"})[0].domain
    Domain({'age': ['20-29', '30-39', '40-59'], 'pay': ['0-19', '20-39']})
    """
    if isinstance(how, Discretizer):
        return how.apply(table), how
    wanted: Any = {None: how} if isinstance(how, str) else how
    if not isinstance(wanted, Mapping):
        raise DataError(
            f'discretize takes "quantile:5", "width:5", "mdl:TARGET", "dependence", a mapping of '
            f"variables to these or to lists of cut points, or a Discretizer; not {how!r}"
        )
    for name, one in sorted(wanted.items(), key=lambda item: item[0] is None):  # the others last
        options: dict[str, Any] = {"edges": {name: one}}
        if isinstance(one, str):
            options = _options(one)
        if name is not None:
            options["columns"] = [name]
        elif "edges" in options:
            raise DataError(f"cut points need the name of their variable: {{name: {one!r}}}")
        table, _ = discretize(table, **options)
    return table, Discretizer.of(table.domain)


def _options(text: str) -> dict[str, Any]:
    """Read a method and its number of bins or its target."""
    method, _, rest = text.partition(":")
    if method not in METHODS:
        raise DataError(f"there is no method {method!r}. " + did_you_mean(method, METHODS))
    if method == "mdl":
        if not rest:
            raise DataError('"mdl" needs the variable to predict: "mdl:NAME"')
        return {"method": method, "target": rest}
    if rest and not rest.isdecimal():
        raise DataError(f'"{method}" takes a number of bins: "{method}:5", not {text!r}')
    return {"method": method, "bins": int(rest)} if rest else {"method": method}


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
            if v.name != target and len(v) > bins and all(map(is_number, v.states))
        ]
    else:
        wanted = [columns] if isinstance(columns, str) else list(columns)
    wanted += fixed
    for name in wanted:
        domain.index(name)
    if target in wanted:
        raise DataError(
            f"the target {target!r} cannot be cut in the same call; leave it out of `columns` and "
            "`edges`, or cut it first in a separate call"
        )
    return [name for name in domain.names if name in wanted]


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


def _values(table: Table, name: str) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Return a variable's numbers, ascending, and the place of each state among them."""
    numbers = []
    for state in table.domain[name].states:
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
        numbers.append(as_float(state))
    values, groups = np.unique(np.array(numbers), return_inverse=True)
    return values, groups.astype(np.int64)


def _counted(table: Table, name: str) -> tuple[FloatArray, npt.NDArray[np.int64], FloatArray, bool]:
    """Return a variable's numbers, each state's place, their weights, and whether all are integers."""
    values, groups = _values(table, name)
    counts = np.zeros(len(values))
    np.add.at(counts, groups, table.counts(table.domain.index(name)))
    if not (counts > 0).any():
        raise DataError(f"column {name!r} has no values to cut; leave it out of `columns`")
    return values, groups, counts, all(isinstance(s, int) for s in table.domain[name].states)


def _by_dependence(table: Table, names: list[str], bins: int) -> dict[str, list[float]]:
    """Return the cuts of variables that tell something about other variables."""
    fine, numbers = {}, {}
    for name in names:
        values, groups, counts, integral = _counted(table, name)
        seen = counts > 0
        fine[name] = quantile_cuts(values[seen], counts[seen], FINE_BINS, integral)
        numbers[name] = values[groups]
    return dependence_cuts(table, fine, numbers, bins)


def _by_target(
    table: Table,
    name: str,
    values: FloatArray,
    groups: npt.NDArray[np.int64],
    target: str,
    max_cells: int,
) -> tuple[FloatArray, FloatArray]:
    """Return a variable's values and the weight of each with each state of the target."""
    own, other = table.domain.index(name), table.domain.index(target)
    both = (table.codes[:, own] != table.missing) & (table.codes[:, other] != table.missing)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    both &= weights > 0
    kept, rows = np.unique(groups[table.codes[both, own]], return_inverse=True)
    classes, sides = np.unique(table.codes[both, other], return_inverse=True)
    if len(kept) * len(classes) > max_cells:
        raise DataError(
            f"the target {target!r} has {len(classes)} states, too many to cut the {len(kept)} "
            f"values of {name!r} by; cut the target first, in a separate call"
        )
    shape = len(kept), len(classes)
    cells = np.bincount(rows * shape[1] + sides, weights[both], minlength=shape[0] * shape[1])
    return values[kept], cells.reshape(shape).astype(np.float64)
