"""CPU time of short commands, each in a fresh process, next to its goal.

The table and the models are made here. Run it with an installed wheel to see compiled kernels; with a
source tree the first run compiles, so that each command runs once before it is measured.

    python benchmarks/bench_startup.py [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HEAVY = ("numba", "pandas", "sklearn", "scipy", "pyarrow.compute", "narwhals", "joblib")
FIT = (
    "import csv, conjoin; rows = list(csv.reader(open('small.csv')))[1:]; "
    "conjoin.JointModel().fit(rows)"
)
COMMANDS = [
    ("conjoin --help", ["--help"], 0.05),
    ("conjoin info", ["info", "small.mn"], 0.1),
    ("conjoin convert", ["convert", "small.dn", "-o", "converted.mn"], 0.15),
    ("conjoin score", ["score", "small.mn", "small.csv"], 0.3),
    ("conjoin query", ["query", "small.mn", "--given", "v0=1"], 0.25),
    ("conjoin learn", ["learn", "small.csv", "-o", "learned.dn"], 0.8),
]


def write_table(path, rows=300, columns=12):
    """Write a chain of binary columns, each like the one before it in four of five rows."""
    random = np.random.default_rng(1)
    table = np.empty((rows, columns), int)
    table[:, 0] = random.integers(0, 2, rows)
    for i in range(1, columns):
        table[:, i] = table[:, i - 1] ^ (random.random(rows) < 0.2)
    names = ",".join(f"v{i}" for i in range(columns))
    lines = [",".join(map(str, row)) for row in table.tolist()]
    path.write_text("\n".join([names, *lines]) + "\n")


def cpu_seconds(arguments, folder):
    """Run a fresh process; return the CPU time of all its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imported(code, folder):
    """Return the heavy modules that a piece of code imports."""
    report = f"\nimport sys\nsys.stderr.write(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    program = f"try:\n    {code}\nexcept SystemExit:\n    pass{report}"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stderr.strip().rpartition("\n")[2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path[1:] if p)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "small.csv")
        program = [sys.executable, "-m", "conjoin"]
        print(
            f"first learn {cpu_seconds([*program, 'learn', 'small.csv', '-o', 'small.dn'], folder):.2f} s"
        )
        cpu_seconds([*program, "convert", "small.dn", "-o", "small.mn"], folder)
        bare = min(cpu_seconds([sys.executable, "-c", "pass"], folder) for _ in range(runs))
        print(f"{'python -c pass':<20} {bare:6.3f} s")
        cases = [(label, [*program, *rest], f"from conjoin.cli.main import main; main({rest!r})", goal)
                 for label, rest, goal in COMMANDS]  # fmt: skip
        cases.append(("JointModel().fit", [sys.executable, "-c", FIT], FIT, 1.2))
        for label, arguments, code, goal in cases:
            first = cpu_seconds(arguments, folder)
            best = min(cpu_seconds(arguments, folder) for _ in range(runs))
            mark = "reached" if best <= goal else f"{best / goal:.1f} times the goal"
            print(
                f"{label:<20} {best:6.3f} s, goal {goal:4.2f} s, {mark}; first {first:.2f} s; "
                f"imports {imported(code, folder) or 'nothing heavy'}"
            )


if __name__ == "__main__":
    main()
