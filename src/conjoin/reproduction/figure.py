"""Figure 1: the loss of accuracy of converted networks compared with their sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conjoin.reproduction.published import in_paper_order, title_of

LABELS = (
    "one order, one instance",
    "two orders, one instance",
    "one order, marginals",
    "two orders, marginals",
    "n rotations, marginals",
    "2n rotations, marginals",
)
"""The variants 1 to 6 of the conversion."""
COLOURS = ("#9ecae1", "#4292c6", "#fdd0a2", "#fd8d3c", "#a1d99b", "#238b45")


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
