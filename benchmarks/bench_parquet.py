"""Learning from a folder of Parquet files that is larger than memory: CPU time and peak memory.

    python benchmarks/bench_parquet.py [ROWS] [--columns 20] [--folder FOLDER] [--keep]

Rows of binary columns are drawn from a mixture of trees (as in bench_growth.py) and written to files of
5 million rows, which are removed afterwards. The folder is read and learned from in a process of its own,
so that the peak is its own.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench_growth import generated, peak
from conjoin import read_table
from conjoin.joint import learn_joint
from goals import headline, machine

MOST_MEMORY = 4 * 1024
"""MB: the goal for 100 million rows of 20 columns."""

FILE_ROWS, BLOCK_ROWS = 5_000_000, 500_000


def write(folder: Path, rows: int, columns: int) -> None:
    """Write the files, each in blocks of rows that are drawn with a seed of their own."""
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        blocks = range(start, min(rows, start + FILE_ROWS), BLOCK_ROWS)
        writer = None
        for low in blocks:
            count = min(BLOCK_ROWS, rows - low)
            codes = generated(count, columns, seed=low).codes
            block = pa.table({f"c{j}": pa.array(codes[:, j].astype(bool)) for j in range(columns)})
            if writer is None:
                writer = parquet.ParquetWriter(folder / f"part{number:04}.parquet", block.schema)
            writer.write_table(block)
        if writer is not None:
            writer.close()


def learn_from(folder: Path, rows: int) -> None:
    learn_joint(generated(200, 3))  # compile
    started = time.process_time()
    table = read_table(folder, merge=True)
    read = time.process_time() - started
    counts = np.ones(len(table)) if table.weights is None else table.weights
    assert counts.sum() == rows
    after = peak()
    learn_joint(table)
    learned = time.process_time() - started - read
    most = peak()
    verdict = "met" if most <= MOST_MEMORY else "MISSED"
    size = f"{rows:,} x {len(table.domain)}, {len(table):,} distinct rows"
    print(f"{size}: read in {read:.0f} s (peak {after:,.0f} MB), learned in {learned:.0f} s")
    print(f"peak {most:,.0f} MB of {MOST_MEMORY:,}: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=100_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument(
        "--folder", type=Path, help="where to write the files (default: a temporary folder)"
    )
    parser.add_argument("--keep", action="store_true", help="do not remove the files")
    parser.add_argument("--read", action="store_true", help="the files are there already")
    options = parser.parse_args()
    if options.read:
        learn_from(options.folder, options.rows)
        return
    print(machine())
    headline("Learning from a folder of Parquet files")
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write(folder, options.rows, options.columns)
        size = sum(file.stat().st_size for file in folder.glob("*.parquet"))
        print(f"{size / 2**20:,.0f} MB of files", flush=True)
        words = [__file__, str(options.rows), "--folder", str(folder), "--read"]
        subprocess.run([sys.executable, *words], check=True)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
