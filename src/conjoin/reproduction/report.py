"""The paper's tables and figure, made from result files, with the published values next to ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.formats.storage import write_bytes
from conjoin.reproduction.figure import draw_figure
from conjoin.reproduction.published import (
    CMLL,
    COLUMNS,
    DATA_SETS,
    PLL,
    SECONDS,
    in_paper_order,
    title_of,
)
from conjoin.reproduction.stored_results import read_result
from conjoin.scoring.result import signed_ranks

Results = dict[str, dict[str, Any]]
"""{data set: {step: result}}."""
Published = Mapping[str, tuple[float, ...]]

STEPS = dict(zip(COLUMNS, ("tree.lw", "tree.6", "logistic.lw", "logistic.6"), strict=True))
"""The step that reproduces each column of Table 4."""
TITLES = dict(zip(COLUMNS, ("tree LW", "tree DN2MN", "logistic LW", "logistic DN2MN"), strict=True))
BEYOND = {
    "tree.all": "tree, all orders",
    "tree.6.tuned": "tree, 2n rotations, tuned",
    "logistic.6.tuned": "logistic, tuned",
    "hybrid.6": "hybrid, 2n rotations",
    "hybrid.all": "hybrid, all orders",
    "hybrid.6.tuned": "hybrid, 2n rotations, tuned",
    "mean.all": "mean of tree and logistic",
}
"""Methods that are not in the paper."""
RECOMMENDED = "hybrid.6"
"""The default of `learn` and `convert`."""


def write_report(results: Results, out: Path) -> list[Path]:
    """Write report.md, all results as JSON and CSV, CMLL's sets and the figure; return the files."""
    about = read_result(out / "about.json") or {}
    scores, sets = _without_sets(results)
    texts = {
        "report.md": report(results, about),
        "results.json": json.dumps(scores, indent=1) + "\n",
        "sets.json": json.dumps(sets) + "\n",
        "summary.csv": _csv(results),
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
        "## Beyond the paper\n",
        _beyond(results, names),
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
        "`docs/scoring.md`.\n"
    )


# ---- helpers --------------------------------------------------------------------------------------


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


def _cell(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _score_cell(results: Results, name: str, step: str, metric: str) -> str:
    """Return the score of a step, that of CMLL with its Monte Carlo standard error."""
    cell = _cell(_score(results, name, step, metric))
    error = _value(results, name, f"{step}.cmll", "mc_stderr") if metric == "cmll" else None
    return cell if not cell or error is None else f"{cell} ± {error:.3f}"


def _best(published: Published, name: str) -> str:
    return f"{max(published[name]):.2f}" if name in published else ""


def _geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


# ---- the tables -----------------------------------------------------------------------------------


def _table_4(results: Results, names: Sequence[str], metric: str, published: Published) -> str:
    rows = []
    for name in names:
        row = [title_of(name)]
        for k, step in enumerate(STEPS.values()):
            cell = _score_cell(results, name, step, metric)
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
        ours_and_paper = [_geometric_mean(seconds) for seconds in zip(*both, strict=True)]
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


def _beyond(results: Results, names: Sequence[str]) -> str:
    pll_rows, cmll_rows = [], []
    for name in names:
        scores = [_cell(_score(results, name, step, "pll")) for step in BEYOND]
        pll_rows.append([title_of(name), _best(PLL, name), *scores])
        found = [_score(results, name, step, "cmll") for step in STEPS.values()]
        best = max((x for x in found if x is not None), default=None)
        ours = _score_cell(results, name, RECOMMENDED, "cmll")
        cmll_rows.append([title_of(name), _best(CMLL, name), _cell(best), ours])
    cmll_head = ["data set", "paper's best", "our best of the paper's four", BEYOND[RECOMMENDED]]
    return "\n".join(
        [
            "Test PLL:\n",
            table(["data set", "paper's best", *BEYOND.values()], pll_rows),
            "Test CMLL, with Monte Carlo standard errors:\n",
            table(cmll_head, cmll_rows),
            _cost(results, names),
        ]
    )


def _cost(results: Results, names: Sequence[str]) -> str:
    """Return the total cost of the recommended method, beside the paper's weight learning."""
    rows, ours, theirs = [], [], []
    for name in names:
        learn = _value(results, name, "hybrid.dn", "learn_seconds")
        convert = _value(results, name, RECOMMENDED, "seconds")
        if learn is None or convert is None:
            continue
        tree, logistic = SECONDS[name][::2] if name in SECONDS else (None, None)
        paper = "" if tree is None else f"{tree:g}, {logistic:g}"
        seconds = (learn, convert, learn + convert)
        rows.append([title_of(name), *(_cell(s, 2) for s in seconds), paper])
        if tree is not None and logistic is not None:
            ours.append(learn + convert)
            theirs.append(min(tree, logistic))
    if not ours:
        return ""
    means = [
        f"{_geometric_mean(ours):.2f}",
        f"{_geometric_mean(theirs):.1f} (the faster of the two)",
    ]
    rows.append(["geometric mean", "", "", *means])
    head = [
        "seconds", "learn and tune", "read, convert, write", "total",
        "the paper's LW: tree, logistic",
    ]  # fmt: skip
    return f"The cost of the recommended method ({BEYOND[RECOMMENDED]}):\n\n" + table(head, rows)


def _wins(results: Results, names: Sequence[str]) -> str:
    """Compare methods over the data sets, as the paper's text does."""
    compared = []
    for cpd in ("tree", "logistic"):
        for metric in ("pll", "cmll"):
            first, second = (
                [_score(results, n, f"{cpd}.{end}", metric) for n in names] for end in ("6", "lw")
            )
            compared.append((f"{cpd} DN2MN against {cpd} LW, {metric.upper()}", first, second))
    for metric, published in (("pll", PLL), ("cmll", CMLL)):
        first = [_score(results, n, RECOMMENDED, metric) for n in names]
        second = [max(published[n]) if n in published else None for n in names]
        what = f"{BEYOND[RECOMMENDED]} against the paper's best, {metric.upper()}"
        compared.append((what, first, second))
    rows = []
    for what, first, second in compared:
        both = zip(first, second, strict=True)
        pairs = [(a, b) for a, b in both if a is not None and b is not None]
        if len(pairs) > 1:
            found = signed_ranks([a for a, _ in pairs], [b for _, b in pairs])
            counts = (f"{n}" for n in (found.wins, found.losses, found.ties))
            rows.append([what, *counts, f"{found.p_value:.4f}"])
    return table(["methods", "wins", "losses", "ties", "p, two-tailed"], rows) if rows else ""


# ---- other files ----------------------------------------------------------------------------------


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


def _csv(results: Results) -> str:
    lines = ["data set,step,pll,cmll,mc_stderr,stderr,seconds"]
    for name, steps in results.items():
        for step, found in steps.items():
            cells = [found.get(k) for k in ("pll", "cmll", "mc_stderr", "stderr")]
            cells.append(found.get("seconds", found.get("learn_seconds")))
            lines.append(",".join([name, step, *("" if c is None else f"{c:.6g}" for c in cells)]))
    return "\n".join(lines) + "\n"
