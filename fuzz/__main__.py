"""Run random trials for some time and print what happened.

Each kind of trial runs in a process of its own, so that a crash is a failure like any other. A failure is
printed with its number; ``--case NUMBER`` runs that case again.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from fuzz.trials import trial

KINDS = ("files", "queries", "numbers", "rules", "faults", "learning", "parallel", "soak")

SHOWN = 3
"""Maximum number of failures of one kind that are printed in full."""


def main() -> int:
    """Run the trials that were asked for; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)} (default all)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60, help="time for all kinds together (default 60)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="start of the random numbers (default 0)"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default 0)")
    parser.add_argument("--case", type=int, help="run a single case of one kind, in this process")
    options = parser.parse_args()
    kinds = options.kinds or list(KINDS)
    for kind in kinds:
        if kind not in KINDS:
            parser.error(f"there is no kind {kind!r}; choose from {', '.join(KINDS)}")
    if options.case is not None:
        import numpy as np

        module = importlib.import_module(f"fuzz.{kinds[0]}")
        module.prepare()
        print(module.case(np.random.default_rng([options.seed, options.case])))
        return 0
    failed = False
    for kind in kinds:
        started = time.monotonic()
        tally = trial(kind, options.seed, options.seconds / len(kinds), options.first)
        total, wall = sum(tally.outcomes.values()), time.monotonic() - started
        print(
            f"{kind}: {total:,} cases in {wall:.0f} s ({tally.cpu_seconds:.0f} s of CPU)",
            flush=True,
        )
        for what, count in sorted(tally.counted.items()):
            print(f"  {count:>9,}  {what} in all")
        for outcome, count in sorted(tally.outcomes.items()):
            print(f"  {count:>9,}  {outcome}")
        for k, (number, message) in enumerate(tally.failures.items()):
            failed = True
            print(f"FAILED: python -m fuzz {kind} --seed {options.seed} --case {number}")
            if k < SHOWN:
                print(message)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
