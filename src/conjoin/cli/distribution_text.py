"""Distributions of columns as text and for JSON, for `conjoin query`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conjoin.cli.arguments import by_text, plain
from conjoin.data.labels import shown
from conjoin.inference.number_distribution import NumberDistribution

BARS = 10
"""Number of bars of a histogram."""

BLOCKS = " ▁▂▃▄▅▆▇█"
SLICES = ["", *"▏▎▍▌▋▊▉"]
MOST_STATES = 8
"""Maximum number of states of a column that are shown on a terminal."""

LEVEL = 0.9
"""The probability of intervals."""


def distribution_lines(distribution: Any, name: str, width: int) -> list[str]:
    """Return the distribution of a column as lines of text; its name takes up `width` characters."""
    if isinstance(distribution, NumberDistribution):
        return list(map(_coloured, number_lines(distribution, name, width)))
    if sys.stdout.isatty():
        return _lines_with_bars(distribution, f"{shown(name):<{width}}")
    states = "  ".join(f"{shown(state)} {p:.4f}" for state, p in distribution.items())
    return [f"{shown(name):<{width}}  {states}"]


def _lines_with_bars(distribution: Mapping[Any, float], label: str) -> list[str]:
    """Return the most probable states with bars, in lines that fit into the terminal."""
    ranked = sorted(distribution.items(), key=lambda item: -item[1])
    items = []
    for state, p in ranked[:MOST_STATES]:
        eighths = round(p * 8 * BARS)
        bar = "█" * (eighths // 8) + SLICES[eighths % 8]
        items.append(f"{shown(state)} {bar} {p:.4f}" if bar else f"{shown(state)} {p:.4f}")
    if len(ranked) > MOST_STATES:
        rest = sum(p for _, p in ranked[MOST_STATES:])
        items.append(f"+{len(ranked) - MOST_STATES} more {rest:.4f}")
    lines = [label]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > shutil.get_terminal_size().columns:
            lines.append(" " * len(label))
        lines[-1] += f"  {item}"
    return list(map(_coloured, lines))


def _coloured(line: str) -> str:
    """Return a line with coloured bars, on a terminal and unless NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return line
    return re.sub("[\u2581-\u258f]+", "\x1b[36m\\g<0>\x1b[0m", line)


def distribution_report(distribution: Any) -> dict[str, Any]:
    """Return the distribution of a column for JSON."""
    if isinstance(distribution, NumberDistribution):
        return number_report(distribution)
    return by_text(distribution)


def number_lines(distribution: NumberDistribution, name: str = "", width: int = 0) -> list[str]:
    """Return the mean, an interval and a small histogram of a number in two lines."""
    scale, start = distribution.scale, f"{shown(name or distribution.scale.name):<{width}}"
    if distribution.absent == 1:
        return [f"{start}  absent"]
    low, high = (scale.number(end) for end in distribution.interval(LEVEL))
    ends = [scale.number(distribution.quantile(p)) for p in (0.01, 0.99)]
    absent = f"absent {distribution.absent:.4f}, otherwise " if distribution.absent else ""
    median = scale.number(distribution.median())
    texts = [
        scale.short(x, ends[1] - ends[0]) for x in (distribution.mean(), low, high, median, *ends)
    ]
    said = (
        f"{absent}mean {texts[0]}, {LEVEL:.0%} between {texts[1]} and {texts[2]}, median {texts[3]}"
    )
    lines = [f"{start}  {said}"]
    if ends[1] > ends[0]:
        bars = histogram(distribution, ends[0], ends[1])
        lines.append(f"{'':<{width}}  {texts[4]} {bars} {texts[5]}")
    return lines


def histogram(distribution: NumberDistribution, low: float, high: float) -> str:
    """Return bars for ranges of the same width between two numbers."""
    cuts = np.linspace(low, high, BARS + 1)
    below = np.array([distribution.cdf(cut) for cut in cuts.tolist()])
    p = np.maximum(np.diff(below), 0.0)
    p[0] += below[0]
    heights = np.ceil(p / p.max() * (len(BLOCKS) - 1)).astype(int) if p.max() > 0 else p.astype(int)
    return "".join(BLOCKS[height] for height in heights.tolist())


def number_report(distribution: NumberDistribution) -> dict[str, Any]:
    """Return what `number_lines` says, for JSON; dates are text."""
    quantiles = {str(p): plain(distribution.quantile(p)) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
    absent = {"absent": distribution.absent} if distribution.absent else {}
    rest = {
        **absent,
        "interval": list(map(plain, distribution.interval(LEVEL))),
        "quantiles": quantiles,
    }
    mean = distribution.mean()
    if distribution.scale.kind != "number":
        return {"mean": replace(distribution.scale, form=None).short(mean), **rest}
    return {"mean": mean, "sd": distribution.sd(), **rest}
