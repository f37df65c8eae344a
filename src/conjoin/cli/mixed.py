"""What commands do with tables for models that have numbers."""

from __future__ import annotations

import argparse
import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.cli import arguments as shared
from conjoin.errors import DataError

if TYPE_CHECKING:
    from conjoin.data.arrays import FloatArray
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


def predicted(model: MixedNetwork, options: argparse.Namespace) -> dict[str, list[Any]]:
    """Return the columns of a table of predictions: text, or with --json numbers where it has them."""
    from conjoin.cli.distribution_text import plain
    from conjoin.inference.mixed import MixedAnswers
    from conjoin.models.left_out import naming_left_out

    name = options.target
    with naming_left_out(model):
        model.domain.check(name)
    answers = MixedAnswers(model, read_rows(model, options, without=name), options.random_state)
    if name in model.domain.numeric:
        found, scale = answers.number(name), model.scale(name)

        def values(numbers: FloatArray) -> list[Any]:
            if options.json:
                return [plain(scale.value(x)) for x in numbers.tolist()]
            return [scale.text(x) for x in numbers.tolist()]

        statistic = _statistic(found, options.statistic)
        exact = options.statistic != "mean" or scale.kind != "number"
        columns = {name: values(statistic) if exact else _figures(statistic, options.json)}
        for q in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2):
            columns[f"quantile {q:g}"] = values(found.quantile(q))
        return columns
    states = model.domain.categories[name].states
    p = answers.category(name)
    labels = [plain(state) if options.json else str(state) for state in states]
    columns = {name: [labels[best] for best in p.argmax(axis=1).tolist()]}
    for k, state in enumerate(states):
        columns[f"P({state})"] = _figures(p[:, k], options.json)
    return columns


def _statistic(found: NumberDistributions, statistic: str) -> Any:
    return {"mean": found.mean, "median": found.median, "mode": found.mode}[statistic]()


def _figures(numbers: FloatArray, as_json: bool) -> list[Any]:
    return numbers.tolist() if as_json else [f"{x:.6g}" for x in numbers]


def csv_text(columns: dict[str, list[Any]]) -> str:
    """Return columns of text as CSV."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    return page.getvalue()
