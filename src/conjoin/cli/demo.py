"""Learn handwritten digits, draw new ones, complete halves.

Learn one joint distribution of the digit and its 64 black-and-white pixels from the 8x8 handwritten
digits that scikit-learn ships; score it, draw new digits from it, and complete digits whose lower
half is hidden. In the picture, the grey of a pixel is its probability of ink: given all other
pixels of a drawn digit, or given the upper half. Needs scikit-learn and matplotlib.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    import numpy.typing as npt

    from conjoin.data.table import Table
    from conjoin.models.network import Network

SIDE = 8
"""The width and height of an image, in pixels."""
DRAWN = 3
"""The number of new images drawn of each digit."""
HELD_OUT = 300
"""The number of images kept for testing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    shared.add_output(parser, "PNG", "the picture to write", default="conjoin-demo.png")
    shared.add_random_state(parser, "the split and the draws")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    path = Path(options.output)
    _check(path)

    from conjoin.conversion.closed_form import convert
    from conjoin.formats.storage import write_bytes
    from conjoin.learning.conditional_learning import learn_conditionals
    from conjoin.scoring.pseudo_likelihood import pll

    started = time.perf_counter()
    train, test = load_images(options.random_state)
    print(f"{len(train):,} digits to learn, {len(test)} to test, {len(train.domain)} variables")
    dn = learn_conditionals(train, "logistic", random_state=options.random_state)
    print("scores     mean log-probability of a test digit, each pixel given all the others")
    print(f"learned    {dn!r}: {pll(dn, test).mean:.2f}")
    mn = convert(dn, train)
    print(f"converted  {mn!r}: {pll(mn, test).mean:.2f}")
    print(f"           (without the others: {_independent_pll(train, test):.2f})")
    right = (mn.log_conditional("digit", test).argmax(axis=1) == test.codes[:, 0]).mean()
    print(f"recognised {right:.0%} of the test digits")
    new = draw_digits(mn, options.random_state)
    first_of_each = [int((test.codes[:, 0] == digit).argmax()) for digit in range(10)]
    images = test.codes[first_of_each, 1:]
    ink, guesses = complete_digits(mn, images, options.random_state)
    write_bytes(path, picture(new, images, ink, guesses))
    print(f"picture    {path} ({time.perf_counter() - started:.1f} s)")


def _check(path: Path) -> None:
    """Reject a picture that cannot be written, and missing libraries, before any work is done."""
    from conjoin.errors import FormatError, ModelError
    from conjoin.formats.storage import check_folder

    if path.suffix.lower() != ".png":
        raise FormatError("the name of the picture must end in .png", str(path))
    check_folder(path)
    try:
        import matplotlib  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError:
        raise ModelError(
            'the demo needs scikit-learn and matplotlib: pip install "conjoin[demo]", or in a clone '
            'of the repository pip install ".[demo]"'
        ) from None


def load_images(random_state: int) -> tuple[Table, Table]:
    """Return training and test rows: the digit, then the pixels row by row, 1 for ink."""
    import numpy as np
    from sklearn.datasets import load_digits

    from conjoin.data.domain import Domain
    from conjoin.data.table import Table

    images, labels = load_digits(return_X_y=True)
    codes = np.column_stack([labels, images >= 8]).astype(np.int64)
    codes = codes[np.random.default_rng(random_state).permutation(len(codes))]
    domain = Domain({"digit": list(range(10)), **{name: [0, 1] for name in pixel_names()}})
    return Table.adopt(domain, codes[HELD_OUT:]), Table.adopt(domain, codes[:HELD_OUT])


def pixel_names() -> list[str]:
    """Return the names of the pixels."""
    return [f"row {row} column {column}" for row in range(SIDE) for column in range(SIDE)]


def _independent_pll(train: Table, test: Table) -> float:
    """Return the PLL of the training marginals, which know nothing of the other variables."""
    import numpy as np

    columns = zip(test.codes.T, train.marginals(), strict=True)
    return float(sum(np.log(p[codes]).mean() for codes, p in columns))


def draw_digits(model: Network, random_state: int) -> npt.NDArray[Any]:
    """Draw new digits; return each pixel's probability of ink given the rest, draws by digits."""
    import numpy as np

    from conjoin.data.table import Table
    from conjoin.inference.sampling import sample

    tables = [
        sample(
            model,
            DRAWN,
            {"digit": digit},
            method="gibbs",
            chains=DRAWN,
            random_state=random_state + digit,
        )
        for digit in range(10)
    ]
    codes = np.stack([table.codes for table in tables], axis=1)
    rows = Table(model.domain, codes.reshape(-1, codes.shape[-1]))
    ink = np.exp([model.log_conditional(name, rows)[:, 1] for name in pixel_names()])
    return ink.T.reshape(DRAWN, 10, -1)


def complete_digits(
    model: Network, images: npt.NDArray[Any], random_state: int
) -> tuple[npt.NDArray[Any], list[str]]:
    """Return each pixel's probability of ink given the upper half, and the digit it seems to be."""
    import numpy as np

    from conjoin.errors import ConvergenceWarning
    from conjoin.inference.gibbs import gibbs

    names = pixel_names()
    half = len(names) // 2
    ink, guesses = images.astype(float), []
    for row in ink:
        given = dict(zip(names[:half], row[:half].astype(int).tolist(), strict=True))
        with warnings.catch_warnings():  # a picture needs no precision
            warnings.simplefilter("ignore", ConvergenceWarning)
            answer = gibbs(model, given, random_state=random_state)
        row[half:] = [answer.marginals[name][1] for name in names[half:]]
        best = int(np.argmax(answer.marginals["digit"]))
        guesses.append(f"{best}: {answer.marginals['digit'][best]:.0%}")
    return ink, guesses


def picture(
    new: npt.NDArray[Any], images: npt.NDArray[Any], ink: npt.NDArray[Any], guesses: list[str]
) -> bytes:
    """Return the picture as the bytes of a PNG file."""
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    hidden = images.astype(float)
    hidden[:, hidden.shape[1] // 2 :] = np.nan
    rows = [*new, hidden, ink, images]
    labels = ["new digits", *[""] * (DRAWN - 1), "half hidden", "completed", "the truth"]
    figure = Figure(figsize=(9.6, 6.2), facecolor="white")
    axes = figure.subplots(len(rows), 10)
    figure.subplots_adjust(left=0.12, right=0.99, bottom=0.02, top=0.94, wspace=0.15, hspace=0.25)
    colours = colormaps["gray_r"].with_extremes(bad="#b9c7dd")  # hidden pixels
    for line, label, line_axes in zip(rows, labels, axes, strict=True):
        line_axes[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=12)
        for image, ax in zip(line, line_axes, strict=True):
            ax.imshow(image.reshape(SIDE, SIDE), cmap=colours, vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[])
    for digit, guess in enumerate(guesses):
        axes[0, digit].set_title(str(digit), fontsize=12)
        axes[DRAWN + 1, digit].set_xlabel(guess, fontsize=9)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120, metadata={"Software": None})
    return data.getvalue()
