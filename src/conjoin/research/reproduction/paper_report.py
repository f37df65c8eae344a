"""The paper's tables and figure, made from result files, with the published values next to ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.formats.storage import write_bytes
from conjoin.research.reproduction.experiment_files import read_result
from conjoin.research.reproduction.published import (
    CMLL,
    COLUMNS,
    DATA_SETS,
    PLL,
    SECONDS,
    in_paper_order,
    title_of,
)
from conjoin.scoring import signed_ranks

Results = dict[str, dict[str, Any]]
"""{data set: {step: result}}."""
Published = Mapping[str, tuple[float, ...]]

STEPS = dict(zip(COLUMNS, ("tree.lw", "tree.6", "logistic.lw", "logistic.6"), strict=True))
"""The step that reproduces each column of Table 4."""
TITLES = dict(zip(COLUMNS, ("tree LW", "tree DN2MN", "logistic LW", "logistic DN2MN"), strict=True))
LABELS = (
    "one order, one instance",
    "two orders, one instance",
    "one order, marginals",
    "two orders, marginals",
    "n rotations, marginals",
    "2n rotations, marginals",
)
"""The variants 1 to 6 of the conversion, the bars of Figure 1."""
COLOURS = ("#9ecae1", "#4292c6", "#fdd0a2", "#fd8d3c", "#a1d99b", "#238b45")


def write_report(results: Results, out: Path) -> list[Path]:
    """Write report.md, all results as JSON, CMLL's sets and the figure; return the files."""
    about = read_result(out / "about.json") or {}
    scores, sets = _without_sets(results)
    texts = {
        "report.md": report(results, about),
        "results.json": json.dumps(scores, indent=1) + "\n",
        "sets.json": json.dumps(sets) + "\n",
    }
    for name, text in texts.items():
        write_bytes(out / name, text.encode())
    return [*(out / name for name in texts), *draw_figure(results, out)]


def report(results: Results, about: dict[str, Any]) -> str:
    """Return the page: every table of Section 6, our values beside the paper's."""
    names = in_paper_order(results)
    parts = [
        "# Reproducing the paper\n",
        _about(about),
        "## Test PLL (Table 4)\n",
        _table_4(results, names, "pll", PLL),
        _verdicts(results, names),
        "## Test CMLL (Table 4)\n",
        "With Monte Carlo standard errors. The paper does not say which four sets of variables it used, "
        "so the values are only roughly comparable; ours are random and listed in `sets.json`.\n",
        _table_4(results, names, "cmll", CMLL),
        "## Running times in seconds (Table 5)\n",
        "Reading the training rows and writing the model are included; so is tuning, for LW.\n",
        _times(results, names),
        "## Converted networks compared with their source (Figure 1)\n",
        "The normalised PLL (PLL per variable) of the dependency network minus the normalised PLL of the "
        "converted Markov network: smaller is better, and negative means better than the source. An "
        "instance is a single base instance; marginals are base instances drawn from the marginals of "
        "the training rows. The last two columns use marginals, too.\n",
        _figure_table(results, names, "tree"),
        _figure_table(results, names, "logistic"),
        "## Wins and signed ranks\n",
        _wins(results, names),
    ]
    return "\n".join(part for part in parts if part)


def _about(about: dict[str, Any]) -> str:
    if not about:
        return ""
    return (
        f"Made by `{about['command']}` with Conjoin {about['conjoin']}, Python {about['python']}, NumPy "
        f"{about['numpy']} and numba {about['numba']} on {about['machine']}. Scores are in nats per "
        "row; higher is better. The paper's values are in brackets.\n\n"
        "LW learns the weights of a Markov network by maximum pseudo-likelihood, the paper's baseline. "
        "DN2MN is the paper's method, the conversion of a dependency network. Both start from the same "
        "conditionals, decision trees or logistic regressions. The scores PLL and CMLL are explained in "
        "`docs/how-it-works/scoring.md`.\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _value(results: Results, name: str, step: str, key: str) -> float | None:
    value = results[name].get(step, {}).get(key)
    return None if value is None else float(value)


def _score(results: Results, name: str, step: str, metric: str) -> float | None:
    """Return the score of a step; CMLL is a step of its own."""
    return _value(results, name, f"{step}.cmll" if metric == "cmll" else step, metric)


def _table_4(results: Results, names: Sequence[str], metric: str, published: Published) -> str:
    rows = []
    for name in names:
        row = [title_of(name)]
        for k, step in enumerate(STEPS.values()):
            score = _score(results, name, step, metric)
            cell = "" if score is None else f"{score:.3f}"
            error = _value(results, name, f"{step}.cmll", "mc_stderr") if metric == "cmll" else None
            if cell and error is not None:  # the Monte Carlo standard error
                cell += f" ± {error:.3f}"
            if cell and name in published:
                cell += f" ({published[name][k]:.2f})"
            row.append(cell)
        rows.append(row)
    return table(["data set", *TITLES.values()], rows)


def _verdicts(results: Results, names: Sequence[str]) -> str:
    """Say which PLLs are lower than the published ones by more than rounding and noise explain."""
    worse, total = [], 0
    for name in [n for n in names if n in PLL]:
        for column, theirs in zip(COLUMNS, PLL[name], strict=True):
            ours = _score(results, name, STEPS[column], "pll")
            if ours is None:
                continue
            total += 1
            slack = 0.02 if DATA_SETS[name].variables < 200 else 0.0015 * abs(theirs)
            if ours < theirs - slack:
                worse.append(f"{title_of(name)} {TITLES[column]} (by {theirs - ours:.3f})")
    if not total:
        return ""
    listed = ". Worse: " + "; ".join(worse) if worse else ""
    return (
        f"{total - len(worse)} of {total} scores agree with the paper's or are better (to 0.02; on the "
        f"five largest data sets, to 0.15%){listed}.\n"
    )


def _times(results: Results, names: Sequence[str]) -> str:
    rows = []
    pairs: dict[str, list[tuple[float, float]]] = {column: [] for column in COLUMNS}
    for name in names:
        row = [title_of(name)]
        for k, column in enumerate(COLUMNS):
            ours = _value(results, name, STEPS[column], "seconds")
            theirs = f" ({SECONDS[name][k]:g})" if name in SECONDS else ""
            row.append("" if ours is None else f"{ours:.2f}{theirs}")
            if ours is not None and name in SECONDS:
                pairs[column].append((ours, SECONDS[name][k]))
        row += [_speed_up(results, name, cpd) for cpd in ("tree", "logistic")]
        rows.append(row)
    means = []
    for both in pairs.values():
        ours_and_paper = np.exp(np.log(both).mean(axis=0)) if both else ()
        means.append("{:.2f} ({:.2f})".format(*ours_and_paper) if both else "")
    rows.append(["geometric mean", *means, "", ""])
    head = ["data set", *TITLES.values(), "tree speed-up with, without tuning", "logistic speed-up"]
    return table(head, rows)


def _speed_up(results: Results, name: str, cpd: str) -> str:
    """Return how much faster conversion is than weight learning, with and without its tuning."""
    tuned = _value(results, name, f"{cpd}.lw", "seconds")
    once = _value(results, name, f"{cpd}.lw", "seconds_without_tuning")
    fast = _value(results, name, f"{cpd}.6", "seconds")
    return f"{tuned / fast:.0f}, {once / fast:.0f}" if tuned and once and fast else ""


def _figure_table(results: Results, names: Sequence[str], cpd: str) -> str:
    rows = []
    for name in names:
        source = _value(results, name, f"{cpd}.dn", "npll")
        converted = [_value(results, name, f"{cpd}.{v}", "npll") for v in "123456"]
        if source is not None and None not in converted:
            rows.append(
                [title_of(name), *(f"{source - x:.4f}" for x in converted if x is not None)]
            )
    head = [
        f"{cpd} CPDs", "1 order, instance", "2 orders, instance", "1 order, marginals",
        "2 orders, marginals", "n rotations", "2n rotations",
    ]  # fmt: skip
    return table(head, rows) if rows else ""


def _wins(results: Results, names: Sequence[str]) -> str:
    """Compare methods over the data sets, as the paper's text does."""
    compared = []
    for cpd in ("tree", "logistic"):
        for metric in ("pll", "cmll"):
            first, second = (
                [_score(results, n, f"{cpd}.{end}", metric) for n in names] for end in ("6", "lw")
            )
            compared.append((f"{cpd} DN2MN against {cpd} LW, {metric.upper()}", first, second))
    rows = []
    for title, first, second in compared:
        both = zip(first, second, strict=True)
        pairs = [(a, b) for a, b in both if a is not None and b is not None]
        if len(pairs) > 1:
            ranks = signed_ranks([a for a, _ in pairs], [b for _, b in pairs])
            counts = (f"{n}" for n in (ranks.wins, ranks.losses, ranks.ties))
            rows.append([title, *counts, f"{ranks.p_value:.4f}"])
    return table(["methods", "wins", "losses", "ties", "p, two-tailed"], rows) if rows else ""


def _without_sets(results: Results) -> tuple[Results, dict[str, list[list[str]]]]:
    """Return the results without CMLL's sets, and the sets, which all models of a data set share."""
    scores: Results = {}
    sets = {}
    for name, steps in results.items():
        scores[name] = {}
        for step, result in steps.items():
            scores[name][step] = {k: v for k, v in result.items() if k != "sets"}
            if "sets" in result:
                sets[name] = result["sets"]
    return scores, sets


def draw_figure(results: dict[str, dict[str, Any]], out: Path) -> list[Path]:
    """Draw the figure as SVG and PNG; return the files, none if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 1, figsize=(11, 7.2), layout="constrained")
    _draw_panel(axes[0], results, "tree", "Decision trees")
    _draw_panel(axes[1], results, "logistic", "Logistic regression")
    axes[0].legend(
        ncols=3, fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.28)
    )
    files = [out / "figure1.svg", out / "figure1.png"]
    for path in files:
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return files


def _draw_panel(axis: Any, results: dict[str, dict[str, Any]], cpd: str, title: str) -> None:
    """Draw the bars of one kind of CPD, scaled to the largest difference of each data set."""
    variants = [f"{cpd}.{v}" for v in "123456"]
    shown = [n for n in in_paper_order(results) if {f"{cpd}.dn", *variants} <= set(results[n])]
    for place, name in enumerate(shown):
        source = results[name][f"{cpd}.dn"]["npll"]
        gaps = [source - results[name][variant]["npll"] for variant in variants]
        largest = max(abs(gap) for gap in gaps) or 1.0
        for k, gap in enumerate(gaps):
            axis.bar(
                place + (k - 2.5) * 0.14, gap / largest, 0.13, color=COLOURS[k],
                label=LABELS[k] if place == 0 else None,
            )  # fmt: skip
        axis.text(place, 1.04, f"{largest:.3f}", ha="center", va="bottom", fontsize=9)
    axis.set_title(f"{title}: difference in NPLL, divided by the largest", loc="left", pad=18)
    axis.set_xticks(range(len(shown)), [title_of(n) for n in shown], rotation=20, ha="right")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_ylim(top=1.15)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
