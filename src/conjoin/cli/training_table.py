"""The training table of `conjoin learn`: numbers as numbers or cut into bins, and how they are cut."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared
from conjoin.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from conjoin.data.mixed_table import MixedTable
    from conjoin.data.table import Table

BINS = "quantile:5"
"""How columns of numbers are cut by default."""

_KNOWN = "Use quantile:N, width:N, mdl:TARGET or dependence, or COLUMN=HOW, such as age=30,40,65"


def training_table(
    options: argparse.Namespace, needs_states: str | None
) -> tuple[Table | MixedTable, dict[str, str]]:
    """Read the training table; numbers stay numbers, unless bins are asked for or needed.

    Also return the columns that are left out, and why.

    Numbers in a folder of files are states.

    Parameters
    ----------
    options : Namespace
        The options of `conjoin learn`.
    needs_states : str, optional
        The option because of which numbers have to be cut into bins, if there is one.
    """
    from conjoin.data.column_kinds import left_out
    from conjoin.data.discretization import discretize_by
    from conjoin.data.mixed_table import MixedTable
    from conjoin.formats.table_files import read_columns, read_table

    how: dict[str | None, Any]
    if Path(options.table).is_dir():
        table = read_table(options.table, merge=True)
        if options.discretize:
            how = parse_discretize(options.discretize, table.domain.names)
            table = discretize_by(table, how)[0]
        return table, {}
    columns = read_columns(options.table, options.missing)
    rows = MixedTable.of_columns(columns, **shared.column_options(options))
    lost = left_out(columns, rows.names)
    how = dict.fromkeys(rows.domain.numeric, BINS)
    if options.discretize:
        how = parse_discretize(options.discretize, rows.names)
    elif rows.scales:
        if needs_states is None:
            return rows, lost
        print(
            f"conjoin: {needs_states} needs states, so numbers are cut into {BINS}; --discretize cuts "
            "them in another way",
            file=sys.stderr,
        )
    return rows.binned(how) if how else rows.as_states(), lost


def parse_discretize(given: list[str], names: Sequence[str]) -> dict[str | None, Any]:
    """Parse the values of --discretize into {column: how}, with None for all other columns.

    Examples
    --------
    >>> parse_discretize(["quantile:4", "age=30,40", "pay=width:3"], ["age", "pay"])
    {None: 'quantile:4', 'age': [30.0, 40.0], 'pay': 'width:3'}
    """
    from conjoin.data.discretization import METHODS

    wanted: dict[str | None, Any] = {}
    for text in given:
        name, how = (None, text) if _method(text) in METHODS else _split_column(text, names)
        if name in wanted:
            raise DataError(f"--discretize {text}: this is given twice")
        wanted[name] = how
        if _method(how) not in METHODS:
            try:
                wanted[name] = [float(cut) for cut in how.split(",")]
            except ValueError:
                raise DataError(f"--discretize {text}: {how!r} is unknown. {_KNOWN}") from None
    return wanted


def _method(how: str) -> str:
    return how.partition(":")[0]


def _split_column(text: str, names: Sequence[str]) -> tuple[str, str]:
    """Split COLUMN=HOW at the first equals sign that follows a known name."""
    signs = [i for i, letter in enumerate(text) if letter == "="]
    if not signs:
        raise DataError(f"--discretize {text}: there is no such method. {_KNOWN}")
    for i in signs:  # names may contain equals signs
        if text[:i] in names:
            return text[:i], text[i + 1 :]
    name = text[: signs[0]]
    raise DataError(f"there is no column {name!r}. " + did_you_mean(name, names))
