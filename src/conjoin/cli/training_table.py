"""The training table of `conjoin learn`: which columns it has."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli.arguments import dialect
from conjoin.errors import ModelError

if TYPE_CHECKING:
    from conjoin.data.table import Table


def training_table(options: argparse.Namespace) -> tuple[Table, dict[str, str]]:
    """Read the training table.

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
    """Return a table as it is learned from: with absent values, and intervals that tell more."""
    from conjoin.data.absent_values import with_absent_values
    from conjoin.data.telling_edges import with_telling_edges

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
