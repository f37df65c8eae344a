"""What commands do with tables for models that have numbers."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.cli import arguments as shared
from conjoin.errors import DataError

if TYPE_CHECKING:
    from conjoin.data.mixed_table import MixedDomain, MixedTable
    from conjoin.inference.number_distribution import NumberDistributions
    from conjoin.models.mixed import MixedNetwork

LEVEL = 0.9
"""The probability of intervals."""


def read_rows(
    model: MixedNetwork, options: argparse.Namespace, without: str | None = None
) -> MixedTable:
    """Read the columns of a table that a model has, except one; absent columns are missing."""
    from conjoin.formats.table_files import table_columns

    path = options.table
    names = table_columns(path)
    present = [n for n in model.names if n in (names or ()) and n != without]
    if not present:
        raise DataError(
            f"{path} has none of the columns of the model: {', '.join(model.names[:8])}"
        )
    part = shared.known_table(path, model.domain.subset(present), options)
    part.warn_of_far_numbers()
    return widened(part, model.domain)


def widened(part: MixedTable, domain: MixedDomain) -> MixedTable:
    """Return a table of some columns as one of all; the other values are missing."""
    from conjoin.data.frames import widened as widened_states
    from conjoin.data.mixed_table import MixedTable

    numbers = np.full((len(part), len(domain.scales)), np.nan)
    for i, name in enumerate(domain.numeric):
        if name in part.domain.numeric:
            numbers[:, i] = part.column(name)
    return MixedTable(domain, widened_states(part.categories, domain.categories), numbers)


def impute(model: MixedNetwork, options: argparse.Namespace) -> dict[str, Any]:
    """Write a table with its missing values filled in; return what was done."""
    from conjoin.formats.table_files import table_columns, write_filled
    from conjoin.inference.mixed import MixedAnswers
    from conjoin.inference.mixed_mode import jointly
    from conjoin.inference.results import Run

    rows = read_rows(model, options)
    answers = MixedAnswers(model, rows, options.random_state)
    if options.draw:
        full = answers.draws(1)[0]
    else:
        full = answers.likely(options.numbers)
        if options.by == "row":
            alone, full = full, jointly(model, rows, full, options.numbers == "mode")
            if full is not alone:
                said = "the missing values of a row together are the best that a search found"
                shared.say_if_approximate(Run("ascent", note=said))
    present = set(table_columns(options.table) or ())
    listed = zip(rows.names, rows.holes.T, strict=True)
    holes = {name: hole for name, hole in listed if name in present}
    write_filled(options.table, full, holes, options.output, defuse=options.defuse)
    cells = np.stack(list(holes.values()), axis=1)
    return {
        "table": options.output,
        "rows": len(rows),
        "filled": int(cells.sum()),
        "filled_rows": int(cells.any(axis=1).sum()),
    }


def predicted(
    model: MixedNetwork, options: argparse.Namespace
) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of a table of predictions."""
    from conjoin.inference.mixed import MixedAnswers

    name = options.target
    model.domain.check(name)
    rows = read_rows(model, options, without=name)
    answers = MixedAnswers(model, rows, options.random_state)
    if name in model.domain.numeric:
        found = answers.number(name)
        ends = [found.quantile(p) for p in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)]
        scale = model.scale(name)
        values = _statistic(found, options.statistic)
        texts = [_number_text(scale, x, options.statistic) for x in values.tolist()]
        columns = [texts, *([scale.text(x) for x in end.tolist()] for end in ends)]
        header = [name, *(f"quantile {p:g}" for p in (0.05, 0.5, 0.95))]
        return header, [list(line) for line in zip(*columns, strict=True)]
    states = [str(state) for state in model.domain.categories[name].states]
    p = answers.category(name)
    lines = [
        [states[best], *(f"{x:.6g}" for x in row)]
        for best, row in zip(p.argmax(axis=1).tolist(), p, strict=True)
    ]
    return [name, *(f"P({state})" for state in states)], lines


def _statistic(found: NumberDistributions, statistic: str) -> Any:
    return {"mean": found.mean, "median": found.median, "mode": found.mode}[statistic]()


def _number_text(scale: Any, x: float, statistic: str) -> str:
    exact = statistic != "mean" or scale.kind != "number"
    return str(scale.text(x)) if exact else f"{x:.6g}"


def csv_text(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table of text as CSV."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerows([header, *lines])
    return page.getvalue()
