"""Learn a real table, ask questions, and write its explorer and report.

Learn the joint distribution of 344 penguins, a table that comes with Conjoin (Palmer Station, Antarctica;
CC0), by the commands that you would use for your own table: learn, query and report. The last line is the
address of the explorer, with a question already asked.
"""

from __future__ import annotations

import argparse
import shlex
import time
from importlib.resources import files
from pathlib import Path

from conjoin.cli import arguments as shared

TABLE = "penguins"
"""The name of the table: this package has its CSV file, and its source and licence."""

QUESTIONS = (
    ("species=Gentoo, sex=female", ["body_mass_g"]),
    ("island=Dream, bill_length_mm > 46", ["species", "sex"]),
)
"""What is known, and what is asked for."""

SHOWN = "#island=Dream&bill_length_mm=words:bill_length_mm%20%3E%2046&/target=species"
"""The end of the explorer's address: what is known, and what is asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    shared.add_output(
        parser, "FOLDER", "the folder to write to, which is made", default="conjoin-demo"
    )


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.storage import write_bytes

    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    for ending in ("csv", "txt"):
        content = (files("conjoin.cli") / f"{TABLE}.{ending}").read_bytes()
        write_bytes(folder / f"{TABLE}.{ending}", content)
    table, model = (str(folder / f"{TABLE}.{ending}") for ending in ("csv", "conjoin"))
    _run("learn", table, "-o", model)
    for given, targets in QUESTIONS:
        asked = [word for target in targets for word in ("--target", target)]
        _run("query", model, "--given", given, *asked)
    _run("report", model, "--data", table, "-o", str(folder / f"{TABLE}-report.html"))
    print(f"Open this in a browser:\n{(folder / f'{TABLE}.html').resolve().as_uri()}{SHOWN}")


def _run(*words: str) -> None:
    """Show a command, and run it."""
    from conjoin.cli.main import build_parser

    print(f"$ conjoin {shlex.join(words)}")
    options = build_parser(words).parse_args(words)
    options.started = time.perf_counter()
    shared.check_shared(options)
    options.run(options)
    print()
