"""`conjoin demo`: handwritten digits, from a table to pictures that were never drawn."""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        description="Learn the 8x8 handwritten digits that scikit-learn ships, in black and white, as one "
        "joint distribution of 64 pixels and the digit; score it, draw new digits from it, and let it "
        "complete digits of which the lower half is hidden. Needs scikit-learn and matplotlib.",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PNG",
        default="conjoin-demo.png",
        help="the picture (default conjoin-demo.png)",
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed (default 0)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import FormatError, ModelError

    if options.seed < 0:
        raise ModelError(f"--seed must not be negative, not {options.seed}")
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

    from conjoin.conversion.dn2mn import convert
    from conjoin.formats.storage import write_bytes
    from conjoin.learning.learn import learn
    from conjoin.scoring.pll import pll

    started = time.perf_counter()
    if sys.stderr.isatty():
        print("(the first run also compiles, once)", file=sys.stderr)
    train, test = digits(options.seed)
    print(f"{len(train):,} digits to learn from, {len(test)} to test on, {len(train.domain)} variables")
    dn = learn(train, "hybrid", random_state=options.seed)
    print(f"learned    {dn!r}")
    mn = convert(dn, train)
    print(f"converted  {mn!r}")
    print(f"score      {pll(mn, test).mean:.2f} nats a digit, {_alone(train, test):.2f} without links")
    right = (mn.log_conditional("digit", test).argmax(axis=1) == test.codes[:, 0]).mean()
    print(f"           {right:.0%} of the test digits are recognised")
    new = drawn(mn, options.seed)
    shown = [int((test.codes[:, 0] == digit).argmax()) for digit in range(10)]
    halves = test.codes[shown, 1:]
    inks, told = completed(mn, halves, options.seed)
    write_bytes(path, picture(new, halves, inks, told))
    print(f"picture    {path} ({time.perf_counter() - started:.1f} s)")


def digits(seed: int) -> tuple[Table, Table]:
    """Return the digits as two tables: the digit, then the pixels row by row, 1 for ink."""
    import numpy as np
    from sklearn.datasets import load_digits

    from conjoin.data.domain import Domain
    from conjoin.data.table import Table

    images, labels = load_digits(return_X_y=True)
    codes = np.column_stack([labels, images >= 8]).astype(np.int64)
    codes = codes[np.random.default_rng(seed).permutation(len(codes))]
    domain = Domain({"digit": list(range(10)), **{name: [0, 1] for name in pixels()}})
    return Table(domain, codes[HELD_OUT:]), Table(domain, codes[:HELD_OUT])


def pixels() -> list[str]:
    """Return the names of the pixels."""
    return [f"row {row} column {column}" for row in range(SIDE) for column in range(SIDE)]


def _alone(train: Table, test: Table) -> float:
    """Return the score of the variables one by one, by their shares in the training rows."""
    import numpy as np

    columns = zip(test.codes.T, train.marginals(), strict=True)
    return float(sum(np.log(p[codes]).mean() for codes, p in columns))


def drawn(model: Network, seed: int) -> npt.NDArray[Any]:
    """Draw new digits, so many of each: digits by draws by pixels."""
    import numpy as np

    from conjoin.sampling.gibbs import sample

    tables = [
        sample(model, DRAWN, {"digit": digit}, chains=DRAWN, burn_in=200, random_state=seed + digit)
        for digit in range(10)
    ]
    return np.stack([table.codes[:, 1:] for table in tables])


def completed(
    model: Network, halves: npt.NDArray[Any], seed: int
) -> tuple[npt.NDArray[Any], list[str]]:
    """Return the chance of ink of each pixel given the upper half, and which digit it seems to be."""
    import numpy as np

    from conjoin.errors import ConvergenceWarning
    from conjoin.sampling.gibbs import gibbs

    names = pixels()
    known = len(names) // 2
    inks, told = halves.astype(float), []
    for row in inks:
        given = dict(zip(names[:known], row[:known].astype(int).tolist(), strict=True))
        with warnings.catch_warnings():  # a picture does not need four digits
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = gibbs(model, given, n_samples=200, random_state=seed)
        row[known:] = [found.marginals[name][1] for name in names[known:]]
        best = int(np.argmax(found.marginals["digit"]))
        told.append(f"{best}: {found.marginals['digit'][best]:.0%}")
    return inks, told


def picture(
    new: npt.NDArray[Any], halves: npt.NDArray[Any], inks: npt.NDArray[Any], told: list[str]
) -> bytes:
    """Return the picture, as the bytes of a PNG file."""
    import numpy as np
    from matplotlib.figure import Figure

    hidden = halves.astype(float)
    hidden[:, hidden.shape[1] // 2 :] = np.nan
    rows = [*new.transpose(1, 0, 2), hidden, inks, halves]
    labels = ["new digits", *[""] * (DRAWN - 1), "half hidden", "completed", "the truth"]
    figure = Figure(figsize=(9.6, 6.4), facecolor="white")
    axes = figure.subplots(len(rows), 10)
    for r, (label, line) in enumerate(zip(labels, rows, strict=True)):
        for c, ax in enumerate(axes[r]):
            ax.set_facecolor("#b9c7dd")  # what is hidden
            ax.imshow(line[c].reshape(SIDE, SIDE), cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color("#8a94a3")
        if label:
            axes[r, 0].set_ylabel(label, rotation=0, ha="right", va="center", labelpad=10)
    for c, text in enumerate(told):
        axes[0, c].set_title(str(c), fontsize=11)
        axes[DRAWN + 1, c].set_xlabel(text, fontsize=9, labelpad=2)
    figure.subplots_adjust(0.12, 0.02, 0.99, 0.95, 0.12, 0.2)
    for line_of_axes in axes[DRAWN:]:  # the two parts stand apart
        for ax in line_of_axes:
            box = ax.get_position()
            ax.set_position((box.x0, box.y0 - 0.015, box.width, box.height))
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120, metadata={"Software": None})
    return data.getvalue()
