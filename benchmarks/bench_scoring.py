"""Scoring and weight learning: CPU seconds against Libra's figures, and against plain NumPy.

    CONJOIN_DATA=FOLDER python benchmarks/bench_scoring.py [NAME ...]

FOLDER holds debd/NAME/NAME.{train,valid,test}.data.gz; by default the five smallest sets of the paper
are run. Libra 1.1.2 (OCaml and C, one thread) was timed on a machine of the same kind; its figures are
constants here. The rival measured in the same run is the plain way: every conditional of every row by
NumPy, feature by feature.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from conjoin import (
    Domain,
    MarkovNetwork,
    Table,
    Variable,
    convert,
    learn_conditionals,
    pll,
    read_table,
    sample,
)
from conjoin.joint.weight_learning import learn_weights
from conjoin.models.markov import TableFactor
from conjoin.scoring import log_likelihood
from goals import cpu, headline, machine

LIBRA_SCORE = {"nltcs": 0.91, "plants": 4.6, "baudio": 5.7, "jester": 6.0, "bnetflix": 6.6}
LIBRA_WEIGHTS = {"nltcs": 7.2, "plants": 40.0, "baudio": 38.0, "jester": 19.0, "bnetflix": 33.0}
SCORE_GOAL, WEIGHTS_GOAL = 50, 5


def ratio(what: str, ours: float, theirs: float, goal: float | None, note: str = "") -> None:
    verdict = ""
    if goal is not None:
        verdict = f"; goal {goal}: {'met' if theirs / ours >= goal else 'MISSED'}"
    print(f"{what:<44}{ours:>8.3f} s {theirs:>8.2f} s {theirs / ours:>7.1f} times{verdict}  {note}")


def plain(mn, table: Table) -> float:
    """The score by `log_conditional`, on a part of the rows, scaled up."""
    few = Table(table.domain, table.codes[:200])
    rows = np.arange(len(few))

    def score() -> None:
        for i, name in enumerate(mn.domain.names):
            mn.log_conditional(name, few)[rows, few.codes[:, i]].sum()

    return cpu(score)[0] * len(table) / len(few)


def with_hidden_column(columns: int = 100, states: int = 512, rows: int = 3000) -> None:
    """Score a tree of binary columns with a hidden column of many states."""
    headline(f"{columns} columns and a hidden column of {states} states, {rows:,} rows")
    rng = np.random.default_rng(0)
    shown = [Variable(f"v{i}", range(2)) for i in range(columns)]
    factors = [
        TableFactor((int(rng.integers(i)), i, columns), 0.3 * rng.normal(size=(2, 2, states)))
        for i in range(1, columns)
    ]
    mn = MarkovNetwork(Domain([*shown, Variable("z", range(states), hidden=True)]), factors=factors)
    table = sample(mn, rows)
    for what, score, goal in (("PLL", pll, 1.0), ("log-likelihood", log_likelihood, 0.2)):
        score(mn, Table(table.domain, table.codes[:2]))  # compiles
        seconds = cpu(lambda s=score: s(mn, table), 3)[0]
        met = "met" if seconds <= goal else "MISSED"
        print(f"{what:<44}{seconds:>8.3f} s; goal {goal} s: {met}")


def main(folder: Path, names: list[str]) -> None:
    compiled = False
    for name in names:
        headline(name)
        train, valid, test = (
            read_table(folder / name / f"{name}.{part}.data.gz")
            for part in ("train", "valid", "test")
        )
        dn = learn_conditionals(train, "tree", valid=valid)
        mn = convert(dn, train)
        if not compiled:
            learn_weights(mn, test, prior_sd=0.1, max_iterations=1)
            pll(mn, test)
            compiled = True
        ours, score = cpu(lambda m=mn, t=test: pll(m, t), 5)
        what = f"test PLL of {len(mn.features):,} features"
        if name in LIBRA_SCORE:
            ratio(f"{what}, Libra", ours, LIBRA_SCORE[name], SCORE_GOAL, f"{score.mean:.3f}")
        ratio(f"{what}, NumPy", ours, plain(mn, test), None)
        ours, learned = cpu(lambda d=dn, t=train, v=valid: learn_weights(d, t, valid=v))
        note = f"test PLL {pll(learned, test).mean:.3f}"
        if name in LIBRA_WEIGHTS:
            ratio("weights from zero, tuned, Libra", ours, LIBRA_WEIGHTS[name], WEIGHTS_GOAL, note)
        else:
            print(f"weights from zero, tuned {ours:.2f} s {note}")
        ours, tuned = cpu(
            lambda m=mn, t=train, v=valid: learn_weights(m, t, valid=v, start="model")
        )
        print(f"{'fine-tuning of the converted network':<44}{ours:>8.2f} s"
              f"  test PLL {pll(tuned, test).mean:.3f}")  # fmt: skip
        headline(f"{name}: growth of scoring in rows and in features")
        for share in (0.25, 0.5, 1.0):
            rows = Table(test.domain, test.codes[: int(share * len(test))])
            print(f"{len(rows):>8,} rows     {cpu(lambda m=mn, r=rows: pll(m, r), 5)[0]:.4f} s")
        for kappa in (1e-8, 1e-4, 1e-2):
            other = convert(learn_conditionals(train, "tree", kappa=kappa), train)
            seconds = cpu(lambda m=other, t=test: pll(m, t), 5)[0]
            print(f"{len(other.features):>8,} features {seconds:.4f} s")


if __name__ == "__main__":
    print(machine())
    with_hidden_column()
    if "CONJOIN_DATA" not in os.environ:
        sys.exit("set CONJOIN_DATA to the folder of data sets")
    main(Path(os.environ["CONJOIN_DATA"]) / "debd", sys.argv[1:] or list(LIBRA_SCORE))
