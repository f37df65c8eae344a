"""Find the cells of a table that do not fit the rest of their rows.

Rank the cells of a table by how improbable they are given the rest of their rows, and write them with
the values that the model would rather have seen (the most probable state, or the median of a number):
often typing errors. The tail is the probability of all
values that are as improbable as the one in the cell, or more so: of a number, of those at least as
extreme. A value that the model does not know has probability 0. Cells that are very odd do not count when
the other cells of their rows are judged. The oddest rows are printed, too, with their oddest cells. The
model may have been learned from the same table. A row that breaks a relation that always holds has an odd
cell with this rule as its reason. Row 1 is the first row below the header.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from conjoin.cli import arguments as shared
from conjoin.errors import ModelError

HEADER = (
    "row", "column", "value", "probability", "tail", "suggestion", "suggested probability", "surprise",
    "rule",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL", "TABLE")
    shared.add_output(
        parser,
        "FILE",
        "the .csv file to write: row (from 1), column, value, its probability, tail, suggestion, its "
        "probability, the surprise in bits, and the rule that the row breaks",
        "TABLE-check.csv",
    )
    add("--rows N", "print at most N rows (default 5)", type=int, default=5)
    add("--top N", "write at most N cells (default: 1%% of all cells)", type=int)
    shared.add_shared(parser, "--missing")
    shared.add_random_state(parser, "rows that are too large for exact inference")
    shared.add_shared(parser, "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import load
    from conjoin.formats.storage import write_bytes
    from conjoin.formats.table_files import read_columns
    from conjoin.inference.surprise import column_surprises

    path = shared.csv_path(options.output, "the cells")
    if options.top is not None and options.top < 1:
        raise ModelError(f"--top must be 1 or more, not {options.top}")
    if options.rows < 0:
        raise ModelError(f"--rows must be 0 or more, not {options.rows}")
    model = load(options.model)
    columns = read_columns(
        options.table, options.missing, model.domain.observed, shared.dialect(options)
    )
    ranking = column_surprises(model, columns, options.random_state)
    top = max(1, len(ranking) // 100) if options.top is None else options.top
    lines: list[Sequence[Any]] = [HEADER]
    cells = [cell for cell in ranking[:top] if cell.surprise > 0]
    for cell in cells:
        p, tail, q = cell.probability, cell.tail, cell.suggested_probability
        rather = f"{s:.12g}" if type(s := cell.suggestion) is float else s
        figures = f"{p:.6g}", f"{tail:.6g}", rather, f"{q:.6g}", f"{cell.surprise:.2f}", cell.rule
        lines.append([cell.row + 1, cell.column, cell.value, *figures])
    write_bytes(path, shared.csv_text(lines).encode())
    if not ranking.exact:
        print("conjoin: some probabilities are approximate (sampled)", file=sys.stderr)
    rows = [row.words(first_row=1) for row in ranking.odd_rows(options.rows)]
    shared.print_result(
        options,
        {"output": str(path), "cells": len(cells), "of": len(ranking), "exact": ranking.exact,
         "rows": rows},
        f"{path}: the {len(cells):,} most surprising of {len(ranking):,} cells",
        *(ranking.words(at, first_row=1) for at in range(min(len(cells), 5))),
        *(["the oddest rows:", *rows] if rows else []),
    )  # fmt: skip
