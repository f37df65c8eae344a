"""Feature search on the data sets of a folder: time, PLL and log-likelihood of validation rows.

    python benchmarks/bench_features.py FOLDER METHOD [NAME ...]

A data set NAME is FOLDER/NAME/NAME.train.data.gz and NAME.valid.data.gz. With `--start`, a table in CSV
format is split instead, and a refined network is extended top-down.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from conjoin import Table, learn_features, pll, read_table
from conjoin.data.holdout import hold_out
from conjoin.joint import learn_joint
from conjoin.scoring import log_likelihood


def search(folder: Path, method: str, name: str) -> None:
    """Learn from the training rows of a data set, and score its validation rows."""
    train = read_table(folder / name / f"{name}.train.data.gz")
    valid = read_table(folder / name / f"{name}.valid.data.gz", train.domain)
    started = time.process_time()
    mn = learn_features(train, method, valid=valid)
    seconds = time.process_time() - started
    exact = mn.provenance["features"]["objective"] == "likelihood"
    ll = f"{log_likelihood(mn, valid).mean:.4f}" if exact else "-"
    score = pll(mn, valid).mean
    print(
        f"| {name} | {method} | {seconds:.1f} | {len(mn.features):,} | {score:.4f} | {ll} |",
        flush=True,
    )


def finish(path: Path, seed: int, rounds: int, effort: str) -> None:
    """Refine a network, extend it top-down, and score rows that had no part in either."""
    table = read_table(path)
    table = Table(table.domain, table.codes)
    rest, check = hold_out(table, 0.2, np.random.default_rng(seed))
    _, refined = learn_joint(rest, random_state=seed, effort=effort)
    started = time.process_time()
    longer = learn_features(rest, start=refined, random_state=seed, max_rounds=rounds)
    seconds = time.process_time() - started
    before, after = (log_likelihood(mn, check).mean for mn in (refined, longer))
    print(
        f"| {path.name} | {seed} | {before:.4f} | {after:.4f} | "
        f"{len(longer.features) - len(refined.form.features.merged()):,} | {seconds:.1f} |",
        flush=True,
    )


def main() -> None:
    """Run the searches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("method")
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--start", action="store_true", help="extend refined networks of CSV tables"
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--effort", default="default", help="effort of the network to extend")
    parser.add_argument("--rounds", type=int, default=50, help="batches of features, at most")
    options = parser.parse_args()
    if options.start:
        for name in options.names:
            for seed in range(options.seeds):
                finish(options.folder / name, seed, options.rounds, options.effort)
        return
    names = options.names or sorted(path.name for path in options.folder.iterdir() if path.is_dir())
    for name in names:
        search(options.folder, options.method, name)


if __name__ == "__main__":
    main()
