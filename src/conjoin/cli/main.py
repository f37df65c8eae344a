"""`conjoin`: chooses the command and turns errors into one line.

Nothing heavy is imported here: commands import what they need when they run.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import threading
from collections.abc import Sequence

from conjoin import __version__
from conjoin.cli import (
    convert,
    demo,
    impute,
    info,
    learn,
    predict,
    query,
    report,
    reproduce,
    sample,
    score,
    weights,
)
from conjoin.errors import ConjoinError

COMMANDS = (
    demo, learn, convert, query, predict, impute, sample, score, weights, info, report,
    reproduce,
)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="conjoin",
        description="Learn conditional distributions from a table, or state them, and turn them into one "
        "joint distribution, in closed form.",
        epilog="'conjoin COMMAND --help' tells more of a command.",
    )
    parser.add_argument("--version", action="version", version=f"conjoin {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return its exit status."""
    options = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack a letter of a name
            stream.reconfigure(errors="backslashreplace")
    try:
        options.run(options)
        if sys.stdout is not None:  # it is if it was closed
            sys.stdout.flush()
        return 0
    except ConjoinError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt as error:
        status = _fail("; ".join(["interrupted", *map(str, error.args)]), 130)
        if any(thread.daemon and thread.name == "conjoin" for thread in threading.enumerate()):
            os._exit(status)  # while they are still inside kernels
        return status
    except BrokenPipeError:  # the reader of a pipe, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        return _fail(f"cannot write or read: {error.strerror or error}", 1)
    except MemoryError:
        return _fail("there is not enough memory for this", 1)
    except Exception as error:
        if os.environ.get("CONJOIN_DEBUG"):
            raise
        return _fail(
            f"internal error, please report it: {type(error).__name__}: {error} "
            "(set CONJOIN_DEBUG=1 to see where)",
            70,
        )


def _fail(message: str, status: int) -> int:
    print(f"conjoin: {message}", file=sys.stderr)
    return status
