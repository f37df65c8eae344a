"""The comparison of all methods as tables, and the systems that the paper speaks of next to its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conjoin.reproduction.comparison import TITLES
from conjoin.reproduction.published import title_of
from conjoin.reproduction.report import table
from conjoin.scoring.result import signed_ranks

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""{data set: {method: result}}."""

FIGURES = {
    "pll": ("Test PLL", "nats per row", "{:.2f}"),
    "cmll": (
        "Test CMLL",
        "nats per row, on up to 1,000 test rows, four random sets of variables",
        "{:.2f}",
    ),
    "ll": ("Test log-likelihood", "nats per row, where exact inference fits into 1 GiB", "{:.2f}"),
    "seconds": ("Time", "CPU seconds from the table to the network, choices included", "{:.1f}"),
    "size": ("Size", "number of weights; of a mixture, of components", "{:,}"),
}
"""Title, unit and format of each figure."""

NEIGHBOURS = (
    ("bayesian.published", "bayesian.order",
     "Hulten et al. [9], against a Bayesian network from a search over orders",
     "“The resulting BN was consistently less accurate than training one from scratch.” (Section 3)"),
    ("bayesian.published", "tree",
     "Hulten et al. [9], against the closed form, trees",
     "“this conversion process required searching through possible structures and led to less accurate "
     "models” (Section 1)"),
    ("top-down", "logistic.weights",
     "Della Pietra et al. [4], against Ravikumar et al. [15]",
     "“those algorithms have been shown to be less accurate and many orders of magnitude slower” "
     "(Section 6.2)"),
    ("bottom-up", "logistic.weights",
     "BLM of Davis and Domingos [3], against Ravikumar et al. [15]",
     "the same sentence"),
    ("generate-select", "logistic.weights",
     "GSSL of Van Haaren and Davis, against Ravikumar et al. [15]",
     "not in the paper: published in the same year"),
    ("staged", "logistic.weights",
     "L1 in stages of Lee et al., against Ravikumar et al. [15]",
     "not in the paper"),
    ("logistic", "logistic.weights",
     "the closed form, logistic, against Ravikumar et al. [15]",
     "“the MN is significantly more accurate than performing weight learning” (Section 7)"),
    ("tree.say", "tree",
     "weighted conditionals, trees, against 2n rotations",
     "beyond the paper"),
    ("tree.say", "tree.all",
     "weighted conditionals, trees, against all orders",
     "beyond the paper"),
    ("logistic.say", "logistic",
     "weighted conditionals, logistic, against 2n rotations (the same as all orders)",
     "beyond the paper"),
    ("hybrid.say", "hybrid",
     "weighted conditionals, hybrid, against 2n rotations",
     "beyond the paper"),
)  # fmt: skip
"""(method, rival, what they are, the paper's words)."""


def methods_report(results: Results) -> str:
    """Return all figures, one table each, and the comparison with the paper's words."""
    names = [name for name in results if results[name]]
    parts = [_summary(results, names)]
    for key, (title, unit, form) in FIGURES.items():
        parts += [f"## {title}\n", f"In {unit}.\n" if key != "size" else f"The {unit}.\n"]
        rows = [
            [shown, *(_cell(results[name].get(method), key, form) for name in names)]
            for method, shown in TITLES.items()
            if any(method in results[name] for name in names)
        ]
        parts.append(table(["method", *map(title_of, names)], rows))
    parts += ["## The neighbours, run again\n", neighbours(results)]
    return "\n".join(part for part in parts if part)


def neighbours(results: Results) -> str:
    """Return the systems that the paper speaks of: its words, and the same comparison here."""
    rows = []
    for method, rival, what, words in NEIGHBOURS:
        cells = [_against(results, method, rival, key) for key in ("pll", "cmll", "ll")]
        if any(cells):
            rows.append([what, words, *cells, _times(results, method, rival)])
    if not rows:
        return ""
    return table(["compared", "the paper", "PLL", "CMLL", "log-likelihood", "CPU time"], rows)


def _summary(results: Results, names: Sequence[str]) -> str:
    """Return how each method does over all data sets."""
    rows = []
    for method, title in TITLES.items():
        found = [results[name][method] for name in names if method in results[name]]
        if not found:
            continue
        done = sum(bool(result.get("finished")) for result in found)
        times = [result["seconds"] for result in found if "seconds" in result]
        total = f"{sum(times):.0f}" if times else ""
        gaps = [_gap(results, name, method) for name in names]
        known = [gap for gap in gaps if gap is not None]
        mean = f"{100 * np.mean(known):.1f}%" if known else ""
        rows.append([title, f"{done} of {len(found)}", mean, total])
    head = ["method", "finished", "PLL below the best, mean", "CPU seconds, all data sets"]
    return table(head, rows)


def _gap(results: Results, name: str, method: str) -> float | None:
    """Return how far the PLL of a method is below the best of a data set, as a share."""
    scores = [result["pll"] for result in results[name].values() if "pll" in result]
    own = results[name].get(method, {}).get("pll")
    return None if own is None or not scores else own / max(scores) - 1


def _cell(result: Mapping[str, Any] | None, key: str, form: str) -> str:
    """Return a figure, or why there is none."""
    if result is None:
        return ""
    if key in result:
        return form.format(result[key])
    if "stopped_after" in result:
        return f"> {result['stopped_after']:.0f} s"
    return "failed" if "failed" in result else "–"


def _pairs(results: Results, method: str, rival: str, key: str) -> list[tuple[float, float]]:
    both = [(found.get(method, {}), found.get(rival, {})) for found in results.values()]
    return [(a[key], b[key]) for a, b in both if key in a and key in b]


def _against(results: Results, method: str, rival: str, key: str) -> str:
    """Return on how many data sets a method is better, and the mean difference."""
    pairs = _pairs(results, method, rival, key)
    if not pairs:
        return ""
    first, second = zip(*pairs, strict=True)
    found = signed_ranks(first, second)
    mean = float(np.mean(np.subtract(first, second)))
    ties = f" ({found.ties} ties)" if found.ties else ""
    small = "< 0.001" if found.p_value < 0.001 else f"= {found.p_value:.3f}"
    p_value = f", p {small}" if len(pairs) > 5 else ""
    return f"better on {found.wins} of {len(pairs)}{ties}, mean {mean:+.2f}{p_value}"


def _times(results: Results, method: str, rival: str) -> str:
    """Return the geometric mean of the ratio of two times."""
    pairs = _pairs(results, method, rival, "seconds")
    if not pairs:
        return ""
    ratio = float(np.exp(np.mean([np.log(max(a, 1e-3) / max(b, 1e-3)) for a, b in pairs])))
    return f"× {ratio:.2g}"
