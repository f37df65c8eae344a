"""Learning from a folder of Parquet files that is larger than memory: CPU time and peak memory.

    python benchmarks/bench_parquet.py [ROWS] [--columns 20] [--mixed] [--folder FOLDER] [--keep]

Rows of binary columns are drawn from a mixture of trees (as in bench_growth.py) and written to files of
5 million rows, which are removed afterwards. With `--mixed`, half of the columns are numbers, some values
of which are missing, one is a date, and the others are categories (see `mixed_frame`). The folder is read
and learned from as `conjoin learn` does it, in a process of its own, so that the peak is its own.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench_growth import generated, peak
from conjoin import read_table
from conjoin.data import with_absent_values
from conjoin.joint import learn_joint
from goals import headline, machine
from synthetic import mixed_frame

MOST_MEMORY, MOST_MIXED = 4 * 1024, 2 * 1024
"""MB: the goals for 100 million rows of 20 columns, and for 5 million rows of 12 mixed ones."""

MISSING = 0.02
"""The share of missing values in columns of numbers."""

FILE_ROWS, BLOCK_ROWS = 5_000_000, 500_000


def binary(count: int, columns: int, seed: int) -> pa.Table:
    """Return rows of binary columns."""
    codes = generated(count, columns, seed=seed).codes
    return pa.table({f"c{j}": pa.array(codes[:, j].astype(bool)) for j in range(columns)})


def mixed(count: int, columns: int, seed: int) -> pa.Table:
    """Return rows of numbers with missing values, of one date, and of categories."""
    numbers = columns // 2
    frame = mixed_frame(count, numbers, columns - numbers - 1, 0, rows_seed=seed)
    rng = np.random.default_rng([2, seed])
    dates = np.datetime64("2020-01-01") + (rng.random(count) ** 2 * 2000).astype("timedelta64[D]")
    arrays = {name: pa.array(frame[name].to_numpy()) for name in frame}
    for name in list(frame)[:numbers]:
        arrays[name] = pa.array(frame[name].to_numpy(), mask=rng.random(count) < MISSING)
    return pa.table({**arrays, "date": pa.array(dates)})


def write(folder: Path, rows: int, columns: int, block_of: Callable[..., pa.Table]) -> None:
    """Write the files, each in blocks of rows that are drawn with a seed of their own."""
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        blocks = range(start, min(rows, start + FILE_ROWS), BLOCK_ROWS)
        writer = None
        for low in blocks:
            count = min(BLOCK_ROWS, rows - low)
            block = block_of(count, columns, seed=low)
            if writer is None:
                writer = parquet.ParquetWriter(folder / f"part{number:04}.parquet", block.schema)
            writer.write_table(block)
        if writer is not None:
            writer.close()


def learn_from(folder: Path, rows: int, goal: int) -> None:
    learn_joint(generated(200, 3))  # compile
    started = time.process_time()
    table = with_absent_values(read_table(folder, merge=True))
    read = time.process_time() - started
    counts = np.ones(len(table)) if table.weights is None else table.weights
    assert counts.sum() == rows
    after = peak()
    learn_joint(table)
    learned = time.process_time() - started - read
    most = peak()
    verdict = "met" if most <= goal else "MISSED"
    size = f"{rows:,} x {len(table.domain)}, {len(table):,} distinct rows"
    print(f"{size}: read in {read:.0f} s (peak {after:,.0f} MB), learned in {learned:.0f} s")
    print(f"peak {most:,.0f} MB of {goal:,}: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=100_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--mixed", action="store_true", help="numbers, dates and categories")
    parser.add_argument(
        "--folder", type=Path, help="where to write the files (default: a temporary folder)"
    )
    parser.add_argument("--keep", action="store_true", help="do not remove the files")
    parser.add_argument("--read", action="store_true", help="the files are there already")
    options = parser.parse_args()
    if options.read:
        learn_from(options.folder, options.rows, MOST_MIXED if options.mixed else MOST_MEMORY)
        return
    print(machine())
    headline("Learning from a folder of Parquet files")
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write(folder, options.rows, options.columns, mixed if options.mixed else binary)
        size = sum(file.stat().st_size for file in folder.glob("*.parquet"))
        print(f"{size / 2**20:,.0f} MB of files", flush=True)
        words = [__file__, str(options.rows), "--folder", str(folder), "--read"]
        words += ["--mixed"] if options.mixed else []
        subprocess.run([sys.executable, *words], check=True)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
