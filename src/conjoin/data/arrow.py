"""Columns of any frame, as Arrow holds them, become coded columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import Domain, Variable, is_missing, plain, typed_key
from conjoin.data.table import Table
from conjoin.errors import DataError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

IntArray = npt.NDArray[np.int64]

MISSING = ("", "?", "*", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "None", "NULL", "null")
"""What a cell of text holds when the value is unknown."""


EMPTY = "column {!r} has no values: all are missing; leave it out"


def table_from_arrow(table: pa.Table, domain: Domain | None = None, *, text: bool = False) -> Table:
    """Code every column of an Arrow table.

    Parameters
    ----------
    table : pyarrow.Table
        The columns.
    domain : Domain, optional
        The variables to look for; other columns are ignored. By default every column is a variable
        with its values as states: sorted, unless they are categories with an order of their own.
    text : bool
        The cells are text of a file: blanks around them do not count, some words stand for a missing
        value, and a column in which all are numbers is read as numbers.
    """
    names = table.column_names
    wanted = names if domain is None else list(domain.names)
    place = {name: i for i, name in enumerate(names)}
    if len(place) != len(names):
        twice = next(n for i, n in enumerate(names) if place[n] != i)
        raise DataError(f"two columns are called {twice!r}; rename one")
    for name in wanted:
        if name not in place:
            raise DataError(f"there is no column {name!r}. " + did_you_mean(name, names))
    variables, columns = [], []
    for i, name in enumerate(wanted):
        codes, labels = _dictionary(table.column(place[name]), name, text)
        if domain is None:
            recode, states = np.arange(len(labels)), labels
            if not getattr(table.column(place[name]).type, "ordered", False):
                recode, states = _sorted_states(labels, text)
            if not states:
                raise DataError(EMPTY.format(name))
            variables.append(Variable(name, states))
        else:
            recode = _recode(domain.variables[i], labels, codes)
        columns.append(np.where(codes >= 0, recode[codes], -1) if len(labels) else codes)
    matrix = np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), np.int64)
    return Table(Domain(variables) if domain is None else domain, matrix)


def _dictionary(column: Any, name: str, text: bool) -> tuple[IntArray, list[Any]]:
    """Return codes (-1 where missing) and the labels they stand for."""
    import pyarrow as pa

    try:
        array = column.combine_chunks()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
    except pa.ArrowException:
        raise DataError(
            f"column {name!r} holds values of type {column.type}, which cannot be states"
        ) from None
    codes = _codes(array.indices)
    labels = [v.strip() if text else plain(v) for v in array.dictionary.to_pylist()]
    unknown = np.array([is_missing(v) or (text and v in MISSING) for v in labels], bool)
    if unknown.any():
        codes = np.where((codes >= 0) & unknown[codes], -1, codes)
        codes = np.where(codes >= 0, (np.cumsum(~unknown) - 1)[codes], -1)
        labels = [label for label, u in zip(labels, unknown, strict=True) if not u]
    return _merge_labels(codes, labels)


def _codes(indices: Any) -> IntArray:
    """Return an Arrow array of integers, -1 where it is null.

    The buffers are read directly, because pyarrow's own conversion imports pandas.
    """
    valid, data = indices.buffers()
    rows = slice(indices.offset, indices.offset + len(indices))
    if not len(indices) or data is None:
        return np.full(len(indices), -1, np.int64)
    codes = np.frombuffer(data, np.dtype(str(indices.type)))[rows].astype(np.int64)
    if valid is not None:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[rows]
        codes[bits == 0] = -1
    return codes


def _merge_labels(codes: IntArray, labels: list[Any]) -> tuple[IntArray, list[Any]]:
    """Make labels that are the same one label."""
    distinct = {typed_key(label): label for label in reversed(labels)}
    if len(distinct) == len(labels):
        return codes, labels
    place = {key: i for i, key in enumerate(reversed(distinct))}
    recode = np.array([place[typed_key(v)] for v in labels], np.int64)
    return np.where(codes >= 0, recode[codes], -1), list(reversed(distinct.values()))


def _sorted_states(labels: list[Any], text: bool) -> tuple[IntArray, list[Any]]:
    """Return the new code of each label, and the labels in order."""
    values = _numbers(labels) if text else labels
    order = list(range(len(values)))
    try:
        order.sort(key=lambda i: values[i])
    except TypeError:  # labels of several types
        order.sort(key=lambda i: (type(values[i]).__name__, str(values[i])))
    recode = np.empty(len(labels), np.int64)
    recode[order] = np.arange(len(order))
    return recode, [values[i] for i in order]


def _numbers(labels: list[Any]) -> list[Any]:
    """Read labels as integers, or as floats, where every one of them is written as one."""
    if any("_" in label for label in labels):  # Python reads 1_000 as a number; people do not
        return labels
    for kind in (int, float):
        try:
            values = [kind(v) for v in labels]
        except ValueError:
            continue
        # "007" is not the number 7, and two spellings of a number must not become one state.
        canonical = all(str(v) == t for v, t in zip(values, labels, strict=True))
        if canonical or (kind is float and len(set(values)) == len(values) and _decimal(labels)):
            return values
    return labels


def _decimal(labels: list[str]) -> bool:
    return not any(v.lstrip("+-").startswith("0") and v.lstrip("+-")[1:2].isdigit() for v in labels)


def _recode(variable: Variable, labels: list[Any], codes: IntArray) -> IntArray:
    """Return the state code of each label: by value and type, else by text, else by number."""
    by_text: dict[str, list[int]] = {}
    for code, state in enumerate(variable.states):
        by_text.setdefault(str(state), []).append(code)
    recode = np.full(len(labels), -1, np.int64)
    for number, label in enumerate(labels):
        found = by_text.get(str(label), [])
        if not found and str(label).lower() in ("true", "false"):
            truth = str(label).lower() == "true"
            found = [c for c, s in enumerate(variable.states) if s is truth]
        if not found and isinstance(label, str | int | float):
            found = _by_value(variable, label)
        if len(found) > 1:
            exact = [c for c in found if type(variable.states[c]) is type(label)]
            found = exact or found
        if found:
            recode[number] = found[0]
        elif (codes == number).any():
            row = int(np.argmax(codes == number))
            raise DataError(
                f"row {row + 1}, column {variable.name!r}: {label!r} is not a state. "
                + did_you_mean(label, variable.states)
            )
    return recode


def _by_value(variable: Variable, text: str | int | float) -> list[int]:
    """Find a numeric state by its value: 1.0 for 1, say; or the bin of a number."""
    try:
        found = variable.by_number(float(text))
    except ValueError:
        return []
    return [] if found is None else [found]
