"""`conjoin`: run a command, and turn errors into one line.

Nothing heavy is imported here; commands import what they need when they run.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import threading
from collections.abc import Sequence

from conjoin import __version__
from conjoin.cli.arguments import check_shared
from conjoin.errors import ConjoinError

COMMANDS = (
    "demo", "learn", "convert", "query", "predict", "impute", "sample", "score", "weights", "info",
    "report", "reproduce",
)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for all commands."""
    parser = argparse.ArgumentParser(
        prog="conjoin",
        description="Learn one joint distribution over all columns of a table, or turn conditional "
        "distributions into one, and ask it anything.",
        epilog="'conjoin COMMAND --help' describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"conjoin {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:  # a command is a module; its docstring is the help
        module = importlib.import_module(f"conjoin.cli.{name}")
        summary, _, description = (module.__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=" ".join(description.split()),
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return its exit status."""
    options = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # the terminal may lack a character
            stream.reconfigure(errors="backslashreplace")
    try:
        check_shared(options)
        options.run(options)
        if sys.stdout is not None:  # None if it was closed
            sys.stdout.flush()
        return 0
    except ConjoinError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt as error:
        status = _fail("; ".join(["interrupted", *map(str, error.args)]), 130)
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


def _fail(message: str, status: int) -> int:
    print(f"conjoin: {message}", file=sys.stderr)
    return status
