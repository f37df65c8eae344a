"""The training table of `conjoin learn`: which columns it has, and how they are cut into bins."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli.arguments import dialect
from conjoin.errors import DataError, ModelError, did_you_mean

if TYPE_CHECKING:
    from conjoin.data.table import Table

_KNOWN = "Use quantile:N or width:N, or COLUMN=HOW, such as age=30,40,65"


def training_table(options: argparse.Namespace) -> tuple[Table, dict[str, str]]:
    """Read the training table, and cut columns into bins if that is asked for.

    Also returns the columns that are left out, and why.
    """
    from conjoin.data.column_kinds import chosen_kinds, left_out
    from conjoin.data.columns import table_of_columns
    from conjoin.formats.parquet import folder_sample, folder_table
    from conjoin.formats.storage import errors_naming
    from conjoin.formats.table_files import read_columns

    path, settle = Path(options.table), partial(_settled, options)
    if path.is_dir():
        sample = folder_sample(path, options.missing or ())
        with errors_naming(path):
            kept = chosen_kinds(sample.columns, **_column_options(options))
        table = folder_table(path, sample, kept, merge=True, settle=settle)
        return table, left_out(sample.columns, kept)
    columns = read_columns(path, options.missing, dialect=dialect(options))
    with errors_naming(path):
        kept = chosen_kinds(columns, **_column_options(options))
        table = table_of_columns([c for c in columns if c.name in kept], kinds=kept)
    return settle(table), left_out(columns, kept)


def _settled(options: argparse.Namespace, table: Table) -> Table:
    """Return a table as it is learned from: with bins, absent values, and intervals that tell more."""
    from conjoin.data.absent_values import with_absent_values
    from conjoin.data.discretization import discretize_by
    from conjoin.data.telling_edges import with_telling_edges

    if options.discretize:
        table, _ = discretize_by(table, parse_discretize(options.discretize, table.names))
    table = table if options.no_absent else with_absent_values(table)
    return with_telling_edges(table)


def _column_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options about columns as `chosen_kinds` takes them."""
    kinds = {}
    for text in options.kind:
        name, sign, kind = text.rpartition("=")
        if not sign:
            raise ModelError(f"--kind {text}: write COLUMN=KIND, such as zip=category")
        kinds[name] = kind
    return {"include": options.include, "exclude": options.exclude, "kinds": kinds}


def parse_discretize(given: list[str], names: Sequence[str]) -> dict[str | None, Any]:
    """Parse the values of --discretize into {column: how}, with None for all other columns."""
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
