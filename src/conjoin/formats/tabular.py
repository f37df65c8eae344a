"""CSV and Parquet tables, through pyarrow."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.domain import Domain, Variable, is_missing, plain
from conjoin.data.table import Table
from conjoin.errors import ConjoinError, DataError, FormatError, did_you_mean
from conjoin.formats.storage import decoded, read_bytes, write_bytes

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = ("", "?", "*", "NA", "NaN", "nan", "None", "null")
"""What a cell of a CSV file holds when the value is unknown."""


def read_csv(path: Path, domain: Domain | None = None) -> Table:
    """Read a CSV file with a header line.

    Parameters
    ----------
    path : Path
        The file.
    domain : Domain, optional
        The variables to look for; other columns are ignored. By default every column is a variable,
        its states sorted, and numbers where every value of the column is one.
    """
    import pyarrow as pa
    from pyarrow import csv

    raw = read_bytes(path)
    if not raw.strip():
        raise FormatError("the file is empty", str(path))
    if raw.count(b'"') % 2:
        raise FormatError("a quotation mark is opened and never closed", str(path))
    header = _header(decoded(raw, path), path)
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise FormatError(
            f"the header {header[0][:40]!r} has no commas; columns must be separated by commas",
            str(path),
            1,
        )
    bad: list[Any] = []

    def note(row: Any) -> str:
        bad.append(row)
        return "skip"

    text = pa.dictionary(pa.int32(), pa.string())
    try:
        table = csv.read_csv(
            io.BytesIO(raw),
            read_options=csv.ReadOptions(column_names=header, skip_rows=1, use_threads=False),
            parse_options=csv.ParseOptions(invalid_row_handler=note, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(header, text),
                null_values=list(MISSING),
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException as error:
        raise FormatError(f"cannot be read as CSV: {error}", str(path)) from None
    if bad:
        row = bad[0]
        raise FormatError(
            f"{row.actual_columns} values, where the header has {row.expected_columns}",
            str(path),
            row.number,
        )
    return _from_arrow(table, domain, str(path), convert=True)


def _header(text: str, path: Path) -> list[str]:
    import csv as plain_csv

    line = re.split("\r\n|\n|\r", text, maxsplit=1)[0]
    try:
        names = [name.strip() for name in next(plain_csv.reader([line]), [])]
    except plain_csv.Error as error:
        raise FormatError(f"the header cannot be read: {error}", str(path), 1) from None
    if not names:
        raise FormatError("the first line must name the columns", str(path), 1)
    seen = set()
    for name in names:
        if not name:
            raise FormatError("a column has no name in the header", str(path), 1)
        if name in seen:
            raise FormatError(f"two columns are called {name!r}; rename one", str(path), 1)
        seen.add(name)
    return names


def read_parquet(path: Path, domain: Domain | None = None) -> Table:
    """Read a Parquet file; its types are kept as labels."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(io.BytesIO(read_bytes(path)), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"cannot be read as Parquet: {error}", str(path)) from None
    return _from_arrow(table, domain, str(path), convert=False)


def _from_arrow(table: pa.Table, domain: Domain | None, path: str, *, convert: bool) -> Table:
    """Code every column; `convert` reads numbers out of text."""
    names = table.column_names
    wanted = names if domain is None else list(domain.names)
    there = set(names)
    for name in wanted:
        if name not in there:
            raise FormatError(f"there is no column {name!r}. " + did_you_mean(name, names), path)
    variables, columns = [], []
    place = {name: i for i, name in enumerate(names)}
    for i, name in enumerate(wanted):
        codes, labels = _dictionary(table.column(place[name]), name, path, convert)
        if domain is None:
            order, states = _sorted_states(labels, convert)
            if not states:
                raise FormatError(f"column {name!r} has no values: all are missing", path)
            try:
                variables.append(Variable(name, states))
            except ConjoinError as error:
                raise FormatError(str(error), path) from None
            recode = order
        else:
            recode = _recode(domain.variables[i], labels, codes, path)
        columns.append(np.where(codes >= 0, recode[codes], -1) if len(labels) else codes)
    matrix = np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), np.int64)
    try:
        return Table(Domain(variables) if domain is None else domain, matrix)
    except DataError as error:
        raise FormatError(str(error), path) from None


def _dictionary(
    column: Any, name: str, path: str, strip: bool
) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Return codes (-1 where missing) and the labels they stand for."""
    import pyarrow as pa

    try:
        array = column.combine_chunks()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
    except pa.ArrowException:
        raise FormatError(
            f"column {name!r} holds values of type {column.type}, which cannot be states", path
        ) from None
    codes = np.asarray(array.indices.cast(pa.int64()).fill_null(-1), np.int64)
    labels = [v.strip() if strip else plain(v) for v in array.dictionary.to_pylist()]
    if strip:
        labels = [None if v in MISSING else v for v in labels]
    unknown = np.array([is_missing(v) for v in labels], bool)
    if unknown.any():
        codes = np.where((codes >= 0) & unknown[codes], -1, codes)
        labels = [label for label, u in zip(labels, unknown, strict=True) if not u]
        codes = np.where(codes >= 0, (np.cumsum(~unknown) - 1)[codes], -1)
    distinct = list(dict.fromkeys(labels))
    if strip and len(distinct) < len(labels):  # spellings that differed by blanks only
        place = {label: i for i, label in enumerate(distinct)}
        codes = np.where(codes >= 0, np.array([place[v] for v in labels])[codes], -1)
        labels = distinct
    return codes, labels


def _sorted_states(labels: list[Any], convert: bool) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Return the new code of each label, and the labels in order."""
    values = _numbers(labels) if convert else labels
    known = list(range(len(values)))
    try:
        known.sort(key=lambda i: values[i])
    except TypeError:  # labels of several types
        known.sort(key=lambda i: (type(values[i]).__name__, str(values[i])))
    order = np.full(len(labels), -1, np.int64)
    order[known] = np.arange(len(known))
    return order, [values[i] for i in known]


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


def _recode(
    variable: Variable, labels: list[Any], codes: np.ndarray[Any, Any], path: str
) -> np.ndarray[Any, Any]:
    """Return the state code of each label, found by its value or, failing that, by its text."""
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
        if not found and not (codes == number).any():
            continue
        if not found:
            row = int(np.argmax(codes == number))
            raise FormatError(
                f"row {row + 1}, column {variable.name!r}: {label!r} is not a state. "
                + did_you_mean(label, variable.states),
                path,
            )
        recode[number] = found[0]
    return recode


def _by_value(variable: Variable, text: str | int | float) -> list[int]:
    """Find a numeric state by its value: 1.0 for 1, say."""
    try:
        value = float(text)
    except ValueError:
        return []
    return [
        code
        for code, state in enumerate(variable.states)
        if isinstance(state, int | float) and not isinstance(state, bool) and state == value
    ]


def write_csv(table: Table, path: Path) -> None:
    """Write a CSV file with a header line; missing values are empty."""
    import csv as plain_csv

    if table.weights is not None:
        raise FormatError("a CSV file cannot hold weights; use .data", str(path))
    for variable in table.domain:
        texts = [str(s) for s in variable.states]
        unclear = [t for t in texts if t in MISSING or texts.count(t) > 1]
        if unclear:
            raise FormatError(
                f"the state {unclear[0]!r} of {variable.name!r} could not be told from a missing "
                "value, or from another state, in a CSV file; use .data",
                str(path),
            )
    out = io.StringIO()
    writer = plain_csv.writer(out, lineterminator="\n")
    writer.writerow(table.domain.names)
    columns = []
    for i, variable in enumerate(table.domain):
        labels = np.array([*map(str, variable.states), ""], object)
        codes = np.where(table.codes[:, i] == table.missing, len(variable), table.codes[:, i])
        columns.append(labels[codes])
    writer.writerows(zip(*columns, strict=True))
    write_bytes(path, out.getvalue().encode())
