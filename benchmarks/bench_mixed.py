"""Tables of numbers and categories: CPU seconds of learning, predictions and filling in.

Generated tables. Learning is the whole command, user and system time, in a process of its own; kernels
are compiled before. Answers are those of a fitted `JointModel`, in one thread.

    python benchmarks/bench_mixed.py [--rows 10000] [--numbers 600]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from conjoin import JointModel
from goals import cpu, headline, machine, report
from synthetic import mixed_frame

HIDDEN_ROWS = 1_000
LEARN_GOAL, QUICK_GOAL, PREDICT_GOAL, FILL_GOAL = 20.0, 5.0, 1.0, 5.0  # seconds


def command_seconds(frame: pd.DataFrame, *options: str) -> float:
    """Return the CPU seconds of `conjoin learn`."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        frame.to_csv(table, index=False)
        before = os.times()
        command = ["-m", "conjoin", "learn", str(table), "-o", f"{folder}/table.conjoin", *options]
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def learning(frame: pd.DataFrame) -> None:
    size = f"{len(frame):,} rows x {frame.shape[1]} columns"
    report(f"conjoin learn, {size}", command_seconds(frame), LEARN_GOAL)
    report(f"conjoin learn --effort quick, {size}",
           command_seconds(frame, "--effort", "quick"), QUICK_GOAL)  # fmt: skip


def predictions(frame: pd.DataFrame) -> None:
    model = JointModel().fit(frame)
    for name in (frame.columns[0], frame.columns[-1]):
        seconds, _ = cpu(lambda name=name: model.predict(frame, target=name))
        report(f"{len(frame):,} predictions of {name!r}", seconds, PREDICT_GOAL)


def filled_in(frame: pd.DataFrame, rows: int) -> float:
    """Return the CPU seconds of filling in half of the cells of the first rows, given the others."""
    model = JointModel(unseen="missing").fit(frame[rows:])
    hidden = np.random.default_rng(0).random((rows, frame.shape[1])) < 0.5
    return cpu(lambda: model.impute(frame[:rows].mask(hidden)))[0]


def filling() -> None:
    frame = mixed_frame(2 * HIDDEN_ROWS, 7, 8)
    report(f"{HIDDEN_ROWS:,} rows x {frame.shape[1]} columns, half of the cells filled in",
           filled_in(frame, HIDDEN_ROWS), FILL_GOAL)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--numbers", type=int, default=600, help="columns of the wide table")
    options = parser.parse_args()
    print(machine())
    with threadpool_limits(1):
        filled_in(mixed_frame(400, 3, 4), 20)  # compile
        headline("CPU time")
        frame = mixed_frame(options.rows, 9, 10)
        predictions(frame)
        filling()
        learning(frame)
        learning(mixed_frame(500, options.numbers, 0))


if __name__ == "__main__":
    main()
