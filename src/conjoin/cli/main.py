"""`conjoin`: run a command, and turn errors into one line.

Nothing heavy is imported here; commands import what they need when they run.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Container, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from conjoin import __version__
from conjoin.data.labels import shown
from conjoin.errors import ConjoinError, ConvergenceWarning, DataWarning, did_you_mean
from conjoin.progress import reported

OWN_WARNINGS = (ConvergenceWarning, DataWarning)
PACKAGE = str(Path(__file__).parents[1])

COMMANDS = {
    "demo": "learn a real table, ask questions, and write its explorer and report",
    "learn": "learn a model from a table",
    "convert": "turn a dependency network into a Markov network",
    "query": "ask a model for probabilities",
    "predict": "predict a column of a table from the others",
    "check": "find the cells of a table that do not fit the rest of their rows",
    "impute": "fill in the missing values of a table",
    "sample": "draw rows from a model",
    "score": "score a model on a table",
    "weights": "learn or tune the weights of a network by pseudo-likelihood or likelihood",
    "info": "describe a model or a table file",
    "report": "write a page about a model",
    "explore": "write a page on which a model can be explored",
    "mcp": "let an assistant ask a model: a server of the Model Context Protocol",
    "reproduce": "run the evaluation of the paper",
}
"""Each command, a module of this package, and its help: the first line of the module's docstring."""

GREETING = """\
Conjoin learns one joint distribution from a table, and answers any question about it:

  conjoin learn table.csv                          writes table.conjoin
  conjoin query table.conjoin --given "age > 40"   what to expect of all other columns
  conjoin explore table.conjoin --open             the same in a browser

'conjoin demo' does all of this with a real table; 'conjoin --help' lists all commands."""

QUICK = ("convert", "query", "score", "info")
"""Commands without products of large matrices: the threads of OpenBLAS, which start when NumPy is
imported, would cost more than everything else that `info` does."""


def build_parser(chosen: Container[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser; only the modules of the chosen commands are imported."""
    parser = argparse.ArgumentParser(
        prog="conjoin",
        description="Learn one joint distribution over all columns of a table, or turn conditional "
        "distributions into one, and ask it anything.",
        epilog="'conjoin COMMAND --help' describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"conjoin {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in chosen:
            module = import_module(f"conjoin.cli.{name}")
            command.description = " ".join((module.__doc__ or "").partition("\n\n")[2].split())
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the terminal may lack a character
            stream.reconfigure(errors="backslashreplace")
    if words and words[0] in QUICK:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        parser = build_parser(words)
        if words and not words[0].startswith("-") and words[0] not in COMMANDS:
            parser.error(f"there is no command {words[0]!r}. {did_you_mean(words[0], COMMANDS)}")
        options = parser.parse_args(words)
        if options.command is None:
            print(GREETING)
            return 0
        from conjoin.cli.arguments import check_shared

        check_shared(options)
        options.started = time.perf_counter()
        with warnings.catch_warnings():
            for category in OWN_WARNINGS:
                warnings.simplefilter("always", category)
            warnings.showwarning = _shown_by(warnings.showwarning)
            with reported(options.command):
                options.run(options)
        if sys.stdout is not None:  # None if it was closed
            sys.stdout.flush()
        return 0
    except ConjoinError as error:  # options are written differently here than in Python
        return _fail(re.sub(r"\bmethod='(\w+)'", r"--method \1", str(error)), 1)
    except KeyboardInterrupt:
        status = _fail("interrupted", 130)
        if any(thread.daemon and thread.name == "conjoin" for thread in threading.enumerate()):
            os._exit(status)  # threads inside kernels cannot be stopped
        return status
    except BrokenPipeError:  # the program that read our output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        return _fail(f"cannot read or write: {error.strerror or error}", 1)
    except MemoryError:
        return _fail("not enough memory", 1)
    except Exception as error:
        if os.environ.get("CONJOIN_DEBUG"):
            raise
        return _fail(
            f"internal error, please report it: {type(error).__name__}: {error} "
            "(set CONJOIN_DEBUG=1 to see where)",
            70,
        )


def _shown_by(others: Callable[..., None]) -> Callable[..., None]:
    """Return a function that prints each of our warnings as one line, once, and leaves others alone."""
    said = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        ours = place and str(place[0]).startswith(PACKAGE)
        if ours or issubclass(category, OWN_WARNINGS):
            if str(message) not in said:
                print(f"conjoin: warning: {_printable(str(message))}", file=sys.stderr)
            said.add(str(message))
        else:
            others(message, category, *place, **more)

    return show


def _fail(message: str, status: int) -> int:
    print("conjoin: " + _printable(message), file=sys.stderr)
    return status


def _printable(message: str) -> str:
    lines = [line if line.isprintable() else shown(line) for line in message.split("\n")]
    return "\n".join(lines)
