"""`conjoin demo`: handwritten digits, from a table to pictures that were never drawn."""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli.arguments import add_seed, check_seed_and_jobs

if TYPE_CHECKING:
    import numpy.typing as npt

    from conjoin.data.table import Table
    from conjoin.models.network import Network

SIDE = 8
DRAWN = 3
"""How many new digits are drawn of each."""
HELD_OUT = 300


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="learn handwritten digits, draw new ones, complete halves",
        description="Learn the 8x8 handwritten digits that scikit-learn ships, in black and white, as "
        "one joint distribution of 64 pixels and the digit; score it, draw new digits from it, and "
        "complete digits of which the lower half is hidden. In the picture the grey of a pixel is its "
        "chance of ink: given all other pixels of a digit that was drawn, or given the upper half. "
        "Needs scikit-learn and matplotlib.",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PNG",
        default="conjoin-demo.png",
        help="the picture (default conjoin-demo.png)",
    )
    add_seed(parser, "the seed")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import FormatError, ModelError

    check_seed_and_jobs(options)
    path = Path(options.output)
    if path.suffix.lower() != ".png":
        raise FormatError("the picture must end in .png", options.output)
    if not path.absolute().parent.is_dir():
        raise FormatError("there is no such folder", str(path.parent))
    try:
        import matplotlib  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError:
        raise ModelError(
            'the demo needs scikit-learn and matplotlib: pip install "conjoin[demo]", or in a clone '
            'of the repository pip install ".[demo]"'
        ) from None

    from conjoin.conversion.convert import convert
    from conjoin.formats.storage import write_bytes
    from conjoin.learning.learn import learn
    from conjoin.scoring.pseudo_likelihood import pll

    started = time.perf_counter()
    if sys.stderr.isatty():
        print("(the first run also compiles, once)", file=sys.stderr)
    train, test = digits(options.seed)
    print(f"{len(train):,} digits to learn, {len(test)} to test, {len(train.domain)} variables")
    dn = learn(train, "logistic", random_state=options.seed)
    print(f"learned    {dn!r}: {pll(dn, test).mean:.2f} nats a test digit")
    mn = convert(dn, train)
    print(f"converted  {mn!r}: {pll(mn, test).mean:.2f} nats")
    print(f"           (each variable alone: {_alone(train, test):.2f} nats)")
    right = (mn.log_conditional("digit", test).argmax(axis=1) == test.codes[:, 0]).mean()
    print(f"recognised {right:.0%} of the test digits")
    new = drawn(mn, train, options.seed)
    shown = [int((test.codes[:, 0] == digit).argmax()) for digit in range(10)]
    halves = test.codes[shown, 1:]
    inks, told = completed(mn, halves, options.seed)
    write_bytes(path, picture(new, halves, inks, told))
    print(f"picture    {path} ({time.perf_counter() - started:.1f} s)")


def digits(seed: int) -> tuple[Table, Table]:
    """Return rows to learn and to test: the digit, then the pixels row by row, 1 for ink."""
    import numpy as np
    from sklearn.datasets import load_digits

    from conjoin.data.domain import Domain
    from conjoin.data.table import Table

    images, labels = load_digits(return_X_y=True)
    codes = np.column_stack([labels, images >= 8]).astype(np.int64)
    codes = codes[np.random.default_rng(seed).permutation(len(codes))]
    domain = Domain({"digit": list(range(10)), **{name: [0, 1] for name in pixels()}})
    return Table.adopt(domain, codes[HELD_OUT:]), Table.adopt(domain, codes[:HELD_OUT])


def pixels() -> list[str]:
    """Return the names of the pixels."""
    return [f"row {row} column {column}" for row in range(SIDE) for column in range(SIDE)]


def _alone(train: Table, test: Table) -> float:
    """Return the score of the variables one by one, by their shares in the training rows."""
    import numpy as np

    columns = zip(test.codes.T, train.marginals(), strict=True)
    return float(sum(np.log(p[codes]).mean() for codes, p in columns))


def drawn(model: Network, train: Table, seed: int) -> npt.NDArray[Any]:
    """Draw new digits; return the chance of ink of each pixel given all others, draws by digits."""
    import numpy as np

    from conjoin.inference.sampling import sample
    from conjoin.reports.calibration import all_conditionals
    from conjoin.scoring.conditionals import ConditionalScorer

    tables = [
        sample(model, DRAWN, {"digit": digit}, chains=DRAWN, random_state=seed + digit)
        for digit in range(10)
    ]
    codes = np.stack([table.codes for table in tables], axis=1)
    rows = codes.reshape(-1, codes.shape[-1])
    found = all_conditionals(ConditionalScorer.of(model.form), rows, train.marginals())
    ink = np.exp([log_p[:, 1] for log_p in found[1:]]).T
    return ink.reshape(DRAWN, 10, -1)


def completed(
    model: Network, halves: npt.NDArray[Any], seed: int
) -> tuple[npt.NDArray[Any], list[str]]:
    """Return the chance of ink of each pixel given the upper half, and which digit it seems to be."""
    import numpy as np

    from conjoin.errors import ConvergenceWarning
    from conjoin.inference.gibbs import gibbs

    names = pixels()
    known = len(names) // 2
    inks, told = halves.astype(float), []
    for row in inks:
        given = dict(zip(names[:known], row[:known].astype(int).tolist(), strict=True))
        with warnings.catch_warnings():  # a picture needs no precision
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = gibbs(model, given, random_state=seed)
        row[known:] = [found.marginals[name][1] for name in names[known:]]
        best = int(np.argmax(found.marginals["digit"]))
        told.append(f"{best}: {found.marginals['digit'][best]:.0%}")
    return inks, told


def picture(
    new: npt.NDArray[Any], halves: npt.NDArray[Any], inks: npt.NDArray[Any], told: list[str]
) -> bytes:
    """Return the picture, as the bytes of a PNG file."""
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    hidden = halves.astype(float)
    hidden[:, hidden.shape[1] // 2 :] = np.nan
    rows = [*new, hidden, inks, halves]
    labels = ["new digits", *[""] * (DRAWN - 1), "half hidden", "completed", "the truth"]
    step = SIDE + 2
    tops = [
        step * r + (5 if r >= DRAWN else 0) + (3 if r > DRAWN + 1 else 0) for r in range(len(rows))
    ]
    figure = Figure(figsize=(9.6, 6.2), facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(-17, 10 * step + 0.5), ylim=(tops[-1] + SIDE + 1, -4), aspect="equal")
    ax.set_axis_off()
    colours = colormaps["gray_r"].with_extremes(bad="#b9c7dd")  # what is hidden
    for top, label, line in zip(tops, labels, rows, strict=True):
        ax.text(-2, top + SIDE / 2, label, ha="right", va="center", fontsize=12)
        for c, image in enumerate(line):
            left = c * step
            box = (left, left + SIDE, top + SIDE, top)
            ax.imshow(image.reshape(SIDE, SIDE), cmap=colours, vmin=0, vmax=1, extent=box)
            outline = Rectangle((left, top), SIDE, SIDE, fill=False, ec="#8a94a3", lw=1)
            ax.add_patch(outline)
    for c, text in enumerate(told):
        middle = c * step + SIDE / 2
        ax.text(middle, -0.8, str(c), ha="center", va="bottom", fontsize=12)
        below = tops[DRAWN + 1] + SIDE + 0.6
        ax.text(middle, below, text, ha="center", va="top", fontsize=9)
    ax.set(xlim=(-17, 10 * step + 0.5), ylim=(tops[-1] + SIDE + 1, -4))
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120, metadata={"Software": None})
    return data.getvalue()
