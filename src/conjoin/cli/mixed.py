"""What commands do with tables for models that have numbers."""

from __future__ import annotations

import argparse
import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.cli import arguments as shared

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
    present = shared.evidence_columns(path, table_columns(path) or (), model.names, without)
    unseen = "missing" if present == [without] else None
    part = shared.known_table(path, model.domain.subset(present), options, unseen)
    part.warn_of_far_numbers(without)
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
    holes = shared.cells_to_fill(holes, model.domain, options)
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
        if options.statistic != "mean":
            columns = {name: values(statistic)}
        elif options.json and scale.kind == "number":
            columns = {name: statistic.tolist()}
        else:
            columns = {name: [scale.mean_text(x) for x in statistic.tolist()]}
        for q in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2):
            columns[f"quantile {q:g}"] = values(found.quantile(q))
        return columns
    states = model.domain.categories[name].states
    p = answers.category(name)
    labels = [plain(state) if options.json else str(state) for state in states]
    columns = {name: [labels[best] for best in p.argmax(axis=1).tolist()]}
    for k, state in enumerate(states):
        own = p[:, k].tolist()
        columns[f"P({state})"] = own if options.json else [f"{x:.6g}" for x in own]
    return columns


def _statistic(found: NumberDistributions, statistic: str) -> Any:
    return {"mean": found.mean, "median": found.median, "mode": found.mode}[statistic]()


def csv_text(columns: dict[str, list[Any]]) -> str:
    """Return columns of text as CSV."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    return page.getvalue()
