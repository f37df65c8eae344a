"""Learning dependency networks: speed against scikit-learn in the same run, scale and memory.

    CONJOIN_DATA=FOLDER python benchmarks/bench_learning.py [NAME ...] [growth]

FOLDER holds debd/NAME/NAME.train.data.gz and .valid.data.gz; by default the five smallest sets of the
paper are run. scikit-learn must be installed; its trees are fitted once, without tuning, ours with the
whole kappa path. Its logistic regressions are fitted for a few targets and scaled up. With "growth", how
time and memory grow with rows and variables is shown on generated tables.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from conjoin import Domain, Table, learn_conditionals, read_table
from conjoin.data.packed_table import pack_table
from conjoin.data.parent_rules import parent_rules
from conjoin.learning.logistic_path import LogisticPath
from conjoin.learning.options import LAMBDAS
from goals import cpu, headline, machine

FIVE = ("nltcs", "plants", "baudio", "jester", "bnetflix")


def ratio(what: str, ours: float, theirs: float, goal: float) -> None:
    times = theirs / ours
    verdict = "met" if times >= goal else "MISSED"
    print(
        f"{what:<34}{ours:>8.2f} s {theirs:>9.2f} s {times:>7.1f} times; goal {goal:.0f}: {verdict}"
    )


def rival_trees(table: Table, kappa: float) -> float:
    x = table.codes.astype(np.float32)
    gain = -np.log(kappa) / np.log(2) / len(table)  # bits a row

    def fit() -> None:
        for i in range(x.shape[1]):
            DecisionTreeClassifier(
                criterion="entropy", min_samples_leaf=10, min_impurity_decrease=gain
            ).fit(np.delete(x, i, axis=1), x[:, i])

    return cpu(fit)[0]


def rival_logistic(table: Table, targets: list[int]) -> float:
    x = table.codes.astype(np.float64)

    def fit() -> None:
        for i in targets:
            others = np.delete(x, i, axis=1)
            for penalty in LAMBDAS:
                LogisticRegression(
                    l1_ratio=1.0, solver="liblinear", C=1 / penalty, tol=1e-4,
                    intercept_scaling=100, max_iter=1000,
                ).fit(others, x[:, i])  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cpu(fit)[0] * x.shape[1] / len(targets)


def against_scikit_learn(folder: Path, names: list[str]) -> None:
    headline("CPU seconds: ours, scikit-learn's")
    small = Table(Domain.numbered([2, 2, 2]), np.random.default_rng(0).integers(0, 2, (99, 3)))
    for cpd in ("tree", "logistic", "hybrid"):
        learn_conditionals(small, cpd)  # compile
    for name in names:
        train, valid = (
            read_table(folder / name / f"{name}.{part}.data.gz") for part in ("train", "valid")
        )
        ours, dn = cpu(lambda t=train, v=valid: learn_conditionals(t, "tree", valid=v), 3)
        kappa = dn.provenance["learned"]["kappa"]
        ratio(f"{name}, trees, whole kappa path", ours, rival_trees(train, kappa), 50)
        rules = parent_rules(train.domain, None, None)

        def whole_path(t=train, r=rules) -> None:
            regressions = LogisticPath(t, None, r)
            for penalty in LAMBDAS:
                regressions.advance(penalty)

        path, _ = cpu(whole_path)
        step = max(1, len(train.domain) // 4)
        usable = [
            i for i in range(0, len(train.domain), step) if len(np.unique(train.codes[:, i])) > 1
        ]
        ratio(f"{name}, L1 logistic, 13 penalties", path, rival_logistic(train, usable), 10)
        hybrid, _ = cpu(lambda t=train, v=valid: learn_conditionals(t, "hybrid", valid=v))
        times = hybrid / path
        verdict = "met" if times <= 2 else "MISSED"
        print(
            f"{name + ', hybrid':<34}{hybrid:>8.2f} s, {times:.1f} of logistic; goal 2: {verdict}"
        )


SIZES = ((100_000, 100), (300_000, 100), (1_000_000, 100), (100_000, 500), (100_000, 2000))


def generated(rows: int, columns: int) -> Table:
    """A table whose columns are noisy conjunctions of eight hidden ones."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, (rows, 8), dtype=np.uint8)
    codes = np.empty((rows, columns), np.uint8)
    for j in range(columns):
        noise = rng.random(rows, dtype=np.float32) < 0.25
        codes[:, j] = (hidden[:, j % 8] & hidden[:, (j // 8) % 8]) ^ noise
    return Table(Domain.numbered([2] * columns), codes)


def growth() -> None:
    headline("Trees on generated tables: growth in rows and variables (two jobs)")
    print("peak memory beyond the table given; the goal is the packed table, the model and 500 MB")
    for rows, columns in SIZES:  # a process each: the peak is that of a process
        subprocess.run([sys.executable, __file__, "size", str(rows), str(columns)], check=True)


def one_size(rows: int, columns: int) -> None:
    learn_conditionals(generated(99, 3), "tree", kappa=1e-4)  # compile
    data = generated(rows, columns)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    start, cpu_start = time.perf_counter(), time.process_time()
    dn = learn_conditionals(data, "tree", kappa=1e-4, n_jobs=2)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before
    leaves = sum(c.tree.n_leaves for c in dn.cpds)
    packed = pack_table(data)
    size = packed.sets.nbytes
    for cpd in dn.cpds:
        tree = cpd.tree
        size += sum(part.nbytes for part in (tree.var, tree.ptr, tree.child, tree.value))
    allowed = size / 2**20 + 500
    print(
        f"{rows:>9,} x {columns:<5,} {seconds:>8.1f} s, {cpu_seconds:.1f} s CPU, {leaves:>9,} leaves, "
        f"{peak:,.0f} of {allowed:,.0f} MB: {'met' if peak <= allowed else 'MISSED'}",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["size"]:
        one_size(int(sys.argv[2]), int(sys.argv[3]))
        sys.exit()
    print(machine())
    wanted = [name for name in sys.argv[1:] if name != "growth"]
    if "CONJOIN_DATA" not in os.environ:
        print("set CONJOIN_DATA to the folder of data sets for the comparison with scikit-learn")
    elif wanted or "growth" not in sys.argv:
        against_scikit_learn(Path(os.environ["CONJOIN_DATA"]) / "debd", wanted or list(FIVE))
    if "growth" in sys.argv:
        growth()
