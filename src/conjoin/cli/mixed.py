"""What commands do with models that have numbers: conditions, histograms, tables."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.cli import arguments as shared
from conjoin.data.labels import shown
from conjoin.errors import DataError, ModelError
from conjoin.inference.condition_text import conditions_text

if TYPE_CHECKING:
    from conjoin.data.mixed_table import MixedDomain, MixedTable
    from conjoin.inference.number_distribution import NumberDistribution, NumberDistributions
    from conjoin.models.mixed import MixedNetwork

BARS = 10
"""Number of bars of a histogram."""

BLOCKS = " ▁▂▃▄▅▆▇█"
LEVEL = 0.9
"""The probability of intervals."""


def number_lines(found: NumberDistribution, name: str = "", width: int = 0) -> list[str]:
    """Return the mean, an interval and a small histogram of a number in two lines.

    Between its ends, the histogram has ten bars for ranges of the same width.
    """
    scale = found.scale
    low, high = (scale.number(end) for end in found.interval(LEVEL))
    ends = [scale.number(found.quantile(p)) for p in (0.01, 0.99)]
    label = f"{shown(name or scale.name):<{width}}"
    said = f"mean {scale.short(found.mean())}, {LEVEL:.0%} between {scale.short(low)} and "
    lines = [
        f"{label}  {said}{scale.short(high)}, median {scale.short(scale.number(found.median()))}"
    ]
    if ends[1] > ends[0]:
        bars = histogram(found, ends[0], ends[1])
        lines.append(f"{'':<{width}}  {scale.short(ends[0])} {bars} {scale.short(ends[1])}")
    return lines


def histogram(found: NumberDistribution, low: float, high: float) -> str:
    """Return bars for ranges of the same width between two numbers."""
    cuts = np.linspace(low, high, BARS + 1)
    below = np.array([found.cdf(cut) for cut in cuts.tolist()])
    p = np.maximum(np.diff(below), 0.0)
    p[0] += below[0]
    heights = np.ceil(p / p.max() * (len(BLOCKS) - 1)).astype(int) if p.max() > 0 else p.astype(int)
    return "".join(BLOCKS[height] for height in heights.tolist())


def number_report(found: NumberDistribution) -> dict[str, Any]:
    """Return what `number_lines` says, for JSON; dates are text."""
    quantiles = {str(p): _plain(found.quantile(p)) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
    mean = found.mean()
    if found.scale.kind != "number":
        return {"mean": found.scale.short(mean), "quantiles": quantiles}
    return {"mean": mean, "sd": found.sd(), "quantiles": quantiles}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float) else str(value)


def query(model: MixedNetwork, options: argparse.Namespace) -> None:
    """Answer the questions of `conjoin query`."""
    from conjoin.inference.conditions import Condition
    from conjoin.inference.mixed_evidence import MixedKnown
    from conjoin.inference.mixed_questions import likely_values, next_questions, probability

    unknown = ("task", "joint", "what_if", "evidence")
    asked = [name for name in unknown if getattr(options, name, None)]
    if asked:
        raise ModelError(
            f"--{asked[0].replace('_', '-')} needs a network of states; learn one with --discretize"
        )
    for name in options.target:
        model.domain.check(name)
    known = MixedKnown(model, ", ".join(options.given))
    given = [name for name, value in known.given.items() if not isinstance(value, Condition)]
    said = f" given {shown(conditions_text(known.given))}" if known.given else ""
    how = {"method": "exact", "exact": True, "note": known.run.note}
    if options.probability:
        event = probability(known, ", ".join(options.probability))
        if options.json:
            shared.print_json({"probability": float(event), **how})
        else:
            print(event)
        return
    if options.next is not None:
        shared.print_questions(next_questions(known, options.next), said, options.json)
        return
    if options.map:
        values = {name: _text(model, name, value) for name, value in likely_values(known).items()}
        if options.json:
            shared.print_json({"most_probable": values})
            return
        print(f"Most probable value of each column{said}")
        width = max(map(len, values))
        for name, value in values.items():
            print(f"{shown(name):<{width}}  {shown(value)}" + "  (given)" * (name in given))
        return
    names = options.target or [name for name in model.names if name not in given]
    if not options.json:
        print(f"Probabilities{said} ({known.run})")
    width = max((len(shown(name)) for name in names), default=0)
    report: dict[str, Any] = {}
    for name in names:
        if name in model.domain.numeric:
            found = known.number(name)
            report[name] = number_report(found)
            lines = number_lines(found, name, width)
        else:
            p = dict(zip(model.domain.categories[name].states, known.category(name), strict=True))
            report[name] = {str(state): float(x) for state, x in p.items()}
            states = "  ".join(f"{shown(state)} {x:.4f}" for state, x in p.items())
            lines = [f"{shown(name):<{width}}  {states}"]
        if not options.json:
            print("\n".join(lines))
    if options.json:
        shared.print_json({"marginals": report, **how})


def _text(model: MixedNetwork, name: str, value: Any) -> str:
    """Return a value of a column as text."""
    if name in model.domain.numeric:
        return model.scale(name).text(model.scale(name).number(value))
    return str(value)


def read_rows(
    path: str, model: MixedNetwork, missing: Any, without: str | None = None
) -> MixedTable:
    """Read the columns of a table that a model has, except one; absent columns are missing."""
    from conjoin.formats.table_files import read_table, table_columns

    names = table_columns(path)
    present = [n for n in model.names if n in (names or ()) and n != without]
    if not present:
        raise DataError(
            f"{path} has none of the columns of the model: {', '.join(model.names[:8])}"
        )
    part = read_table(path, model.domain.subset(present), missing=missing)
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

    rows = read_rows(options.table, model, options.missing)
    answers = MixedAnswers(model, rows, options.random_state)
    full = answers.draws(1)[0] if options.draw else answers.likely(options.numbers)
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
    rows = read_rows(options.table, model, options.missing, without=name)
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
