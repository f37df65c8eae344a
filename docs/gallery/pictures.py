"""What the pictures of the gallery have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

BLUE, ORANGE, GREY = "#3949ab", "#ff7043", "#b0b7c3"


def figure(width: float = 7.0, height: float = 3.2, **options: Any) -> Any:
    """Return a figure and its axes, in the colours of the site."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.hashsalt": "conjoin",  # same data, same bytes
            "svg.fonttype": "none",
        }
    )
    return plt.subplots(figsize=(width, height), layout="constrained", **options)


def save(picture: Any, script: str) -> None:
    """Write a picture beside its script, or into the folder given on the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(script).parent
    path = folder / Path(script).with_suffix(".svg").name
    picture.savefig(path, metadata={"Date": None})
