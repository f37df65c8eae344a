"""Learning the joint of large tables: CPU time and peak memory, next to their goals.

    python benchmarks/bench_growth.py [ROWSxCOLUMNS ...]

Conditionals, conversion and refining, all with default settings.

The columns of the generated tables are binary and depend on each other: rows come from a mixture of four
trees. Each size runs in a process of its own, so that the peak is its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

from conjoin import Domain, Table, convert, learn_conditionals, pll, refine
from conjoin.joint import learn_joint
from conjoin.scoring import log_likelihood
from goals import headline, machine

GOALS = {
    (10_000, 50): 10.0,
    (100_000, 50): 10.0,
    (1_000_000, 50): 90.0,
    (10_000, 800): 30.0,
    (500, 2_000): 20.0,
}
"""CPU seconds by rows and columns."""
TREES, REACH = 4, 8
TEST_ROWS = 2_000


def generated(rows: int, columns: int, seed: int = 0) -> Table:
    """Rows of a mixture of trees, in which the parent of a column is one of the few before it.

    The trees do not depend on the seed.
    """
    trees, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    tree = rng.integers(0, TREES, rows)
    chance = trees.beta(0.7, 0.7, (TREES, columns, 2)).astype(np.float32)
    codes = np.zeros((rows, columns), np.uint8)
    for j in range(columns):
        parent = trees.integers(max(0, j - REACH), max(1, j), TREES)
        above = codes[np.arange(rows), parent[tree]]
        codes[:, j] = rng.random(rows, dtype=np.float32) < chance[tree, j, above]
    return Table(Domain.numbered([2] * columns), codes)


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def one_size(rows: int, columns: int) -> None:
    learn_joint(generated(200, 3))  # compile
    everything = generated(rows + TEST_ROWS, columns)
    table, test = (
        Table(everything.domain, part)
        for part in (everything.codes[:rows], everything.codes[rows:])
    )
    del everything
    before, started = peak(), time.process_time()
    conditionals = learn_conditionals(table, "mixed", random_state=0)
    learned = time.process_time() - started
    joint = refine(convert(conditionals, table), table)
    seconds, memory = time.process_time() - started, peak() - before
    goal, room = GOALS.get((rows, columns), np.inf), 600 * rows / 2**20 + 1024
    verdict = "met" if seconds <= goal and memory <= room else "MISSED"
    print(
        f"{rows:>9,} x {columns:<5,} {seconds:>6.1f} s of {goal:<4g} ({learned:.1f} s for conditionals) "
        f"{memory:>6,.0f} MB of {room:<6,.0f} LL {log_likelihood(joint, test).mean:.3f} "
        f"PLL {pll(joint, test).mean:.3f}: {verdict}",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["size"]:
        one_size(int(sys.argv[2]), int(sys.argv[3]))
        sys.exit()
    print(machine())
    headline("Joints of generated tables: CPU time and memory beyond the table, each with its goal")
    wanted = [tuple(map(int, size.split("x"))) for size in sys.argv[1:]] or list(GOALS)
    for rows, columns in wanted:
        subprocess.run([sys.executable, __file__, "size", str(rows), str(columns)], check=True)
