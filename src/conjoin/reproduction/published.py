"""The values that the paper prints (Lowd, UAI 2012, Tables 3 to 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class DataSet:
    """A row of Table 3: the paper's name, and the numbers of rows and variables."""

    title: str
    train: int
    valid: int
    test: int
    variables: int


DATA_SETS = {
    "nltcs": DataSet("NLTCS", 16_181, 2_157, 3_236, 16),
    "msnbc": DataSet("MSNBC", 291_326, 38_843, 58_265, 17),
    "kdd": DataSet("KDDCup 2000", 180_092, 19_907, 34_955, 64),
    "plants": DataSet("Plants", 17_412, 2_321, 3_482, 69),
    "baudio": DataSet("Audio", 15_000, 2_000, 3_000, 100),
    "jester": DataSet("Jester", 9_000, 1_000, 4_116, 100),
    "bnetflix": DataSet("Netflix", 15_000, 2_000, 3_000, 100),
    "msweb": DataSet("MSWeb", 29_441, 3_270, 5_000, 294),
    "book": DataSet("Book", 8_700, 1_159, 1_739, 500),
    "cwebkb": DataSet("WebKB", 2_803, 558, 838, 839),
    "cr52": DataSet("Reuters-52", 6_532, 1_028, 1_540, 889),
    "c20ng": DataSet("20 Newsgroups", 11_293, 3_764, 3_764, 910),
}
"""The 12 data sets, by file name, in the paper's order."""

QUICK = ("nltcs", "plants", "baudio", "jester", "bnetflix")
"""The data sets of a quick run."""

COLUMNS = ("tree.lw", "tree.dn2mn", "logistic.lw", "logistic.dn2mn")

PLL = {
    "nltcs": (-5.02, -4.93, -4.96, -4.95),
    "msnbc": (-4.32, -4.31, -6.06, -6.06),
    "kdd": (-2.05, -2.05, -2.06, -2.07),
    "plants": (-8.75, -9.17, -9.39, -9.50),
    "baudio": (-38.01, -37.77, -36.17, -36.11),
    "jester": (-51.42, -50.77, -49.01, -48.81),
    "bnetflix": (-54.32, -53.60, -51.15, -51.10),
    "msweb": (-8.20, -8.33, -8.70, -8.64),
    "book": (-34.60, -35.14, -33.86, -33.41),
    "cwebkb": (-149.37, -148.42, -153.13, -139.39),
    "cr52": (-82.57, -82.67, -81.44, -77.62),
    "c20ng": (-159.14, -152.84, -151.53, -147.76),
}
"""Table 4, test PLL, in the order of `COLUMNS`."""

CMLL = {
    "nltcs": (-5.25, -5.20, -5.23, -5.23),
    "msnbc": (-5.75, -5.80, -6.28, -6.28),
    "kdd": (-2.08, -2.07, -2.11, -2.12),
    "plants": (-10.00, -10.67, -10.76, -10.91),
    "baudio": (-38.25, -38.35, -36.93, -36.88),
    "jester": (-51.49, -51.42, -49.83, -49.76),
    "bnetflix": (-54.62, -54.50, -52.37, -52.31),
    "msweb": (-8.72, -8.77, -8.96, -8.93),
    "book": (-34.49, -35.44, -34.75, -34.09),
    "cwebkb": (-149.99, -151.88, -158.51, -143.05),
    "cr52": (-82.53, -85.16, -81.82, -79.60),
    "c20ng": (-156.08, -154.06, -151.93, -148.82),
}
"""Table 4, test CMLL, in the order of `COLUMNS`."""

SECONDS = {
    "nltcs": (4.9, 0.3, 2.3, 0.01),
    "msnbc": (73.3, 9.4, 7.6, 0.04),
    "kdd": (121.3, 3.8, 32.0, 0.12),
    "plants": (67.9, 1.6, 71.4, 0.17),
    "baudio": (147.4, 1.8, 139.3, 0.40),
    "jester": (56.6, 1.2, 311.7, 0.32),
    "bnetflix": (109.8, 2.0, 534.3, 0.43),
    "msweb": (452.8, 16.0, 308.6, 0.65),
    "book": (361.6, 1.4, 224.8, 1.10),
    "cwebkb": (177.5, 1.8, 386.3, 1.71),
    "cr52": (798.2, 3.3, 951.0, 2.66),
    "c20ng": (1952.9, 7.6, 3830.5, 7.61),
}
"""Table 5: seconds to learn a Markov network from a dependency network, tuning included."""


def in_paper_order(names: Iterable[str]) -> list[str]:
    """Return data sets in the order of the paper, others after them."""
    given = set(names)
    return [n for n in DATA_SETS if n in given] + sorted(given - set(DATA_SETS))


def title_of(name: str) -> str:
    """Return the paper's name of a data set, or its own."""
    return DATA_SETS[name].title if name in DATA_SETS else name
