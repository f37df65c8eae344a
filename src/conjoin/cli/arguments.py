"""Arguments that several commands take."""

from __future__ import annotations

import argparse

from conjoin.errors import ModelError


def add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --seed; `what` says what it is for."""
    parser.add_argument("--seed", type=int, default=0, help=f"{what} (default 0)")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add --jobs."""
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=-1, help="how many cores to use (default all)"
    )


def check_seed_and_jobs(options: argparse.Namespace) -> None:
    """Refuse a negative seed, and 0 jobs."""
    if options.seed < 0:
        raise ModelError(f"--seed must not be negative, not {options.seed}")
    if getattr(options, "jobs", 1) == 0:
        raise ModelError("--jobs must not be 0; -1 is all cores")
