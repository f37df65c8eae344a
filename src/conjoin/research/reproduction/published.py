"""The values that the paper prints (Lowd, UAI 2012, Tables 3 to 5), from published.csv."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DataSet:
    """A row of Table 3: the paper's name, and the numbers of rows and variables."""

    title: str
    train: int
    valid: int
    test: int
    variables: int


COLUMNS = ("tree.lw", "tree.dn2mn", "logistic.lw", "logistic.dn2mn")
"""The methods of Tables 4 and 5."""

_LINES = Path(__file__).with_name("published.csv").read_text(encoding="utf-8").splitlines()
_ROWS = list(csv.DictReader(_LINES))

DATA_SETS = {
    row["name"]: DataSet(
        row["title"], *(int(row[size]) for size in ("train", "valid", "test", "variables"))
    )
    for row in _ROWS
}
"""The 12 data sets, by file name, in the paper's order."""

QUICK = ("nltcs", "plants", "baudio", "jester", "bnetflix")
"""The data sets of a quick run."""


def _figures(score: str) -> dict[str, tuple[float, ...]]:
    """Return the four figures of each data set, in the order of `COLUMNS`."""
    return {row["name"]: tuple(float(row[f"{score} {c}"]) for c in COLUMNS) for row in _ROWS}


PLL, CMLL = _figures("pll"), _figures("cmll")
"""Table 4: scores on the test rows."""

SECONDS = _figures("seconds")
"""Table 5: seconds to learn a Markov network from a dependency network, tuning included."""


def in_paper_order(names: Iterable[str]) -> list[str]:
    """Return data sets in the order of the paper, others after them."""
    given = set(names)
    return [n for n in DATA_SETS if n in given] + sorted(given - set(DATA_SETS))


def title_of(name: str) -> str:
    """Return the paper's name of a data set, or its own."""
    return DATA_SETS[name].title if name in DATA_SETS else name
