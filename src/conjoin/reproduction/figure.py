"""Figure 1: how much less accurate converted networks are than their sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conjoin.reproduction.published import DATA_SETS

LABELS = (
    "one order, one instance",
    "two orders, one instance",
    "one order, marginals",
    "two orders, marginals",
    "n rotations, marginals",
    "2n rotations, marginals",
)


def draw_figure(results: dict[str, dict[str, Any]], out: Path) -> list[Path]:
    """Draw the figure as SVG and PNG; return the files, none if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    names = [n for n in DATA_SETS if n in results] + sorted(set(results) - set(DATA_SETS))
    figure, axes = plt.subplots(2, 1, figsize=(11, 7.2), layout="constrained")
    colours = ["#9ecae1", "#4292c6", "#fdd0a2", "#fd8d3c", "#a1d99b", "#238b45"]
    for axis, cpd, title in zip(
        axes, ("tree", "logistic"), ("Decision trees", "Logistic regression"), strict=True
    ):
        shown = []
        for name in names:
            steps = results[name]
            if f"{cpd}.dn" in steps and all(f"{cpd}.{v}" in steps for v in "123456"):
                own = steps[f"{cpd}.dn"]["npll"]
                shown.append((name, [own - steps[f"{cpd}.{v}"]["npll"] for v in "123456"]))
        for place, (_, gaps) in enumerate(shown):
            largest = max(abs(gap) for gap in gaps) or 1.0
            for k, gap in enumerate(gaps):
                axis.bar(
                    place + (k - 2.5) * 0.14, gap / largest, 0.13, color=colours[k],
                    label=LABELS[k] if place == 0 else None,
                )  # fmt: skip
            axis.text(place, 1.04, f"{largest:.3f}", ha="center", va="bottom", fontsize=9)
        axis.set_title(f"{title}: difference in NPLL, divided by the largest", loc="left", pad=18)
        titles = [DATA_SETS[n].title if n in DATA_SETS else n for n, _ in shown]
        axis.set_xticks(range(len(shown)), titles, rotation=20, ha="right")
        axis.axhline(0, color="black", linewidth=0.8)
        axis.set_ylim(top=1.15)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].legend(
        ncols=3, fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.28)
    )
    files = [out / "figure1.svg", out / "figure1.png"]
    for path in files:
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return files
