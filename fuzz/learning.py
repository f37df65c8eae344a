"""Models learned from a table, and from the same table in another order.

The order of rows and columns must not matter, nor the number of processes, nor whether equal rows are
given once with their number as weight.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

import conjoin
from conjoin import JointModel, Table
from conjoin.joint import learn_joint
from conjoin.scoring import log_likelihood
from fuzz.examples import random_table
from fuzz.trials import count

TOLERANCE = 1e-6
"""The largest difference of a log-likelihood per row: sums over rows in another order round
differently, and learning adds up these differences over its steps."""


def case(rng: np.random.Generator) -> str:
    """Learn twice, and compare the log-likelihoods of the rows."""
    task = TASKS[int(rng.integers(len(TASKS)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task(rng)
    count("models", 2)
    return task.__name__.replace("_", " ")


def _compare(one: np.ndarray, other: np.ndarray, what: str) -> None:
    worst = float(np.abs(one - other).max())
    assert worst <= TOLERANCE, f"{what} changes the log-likelihood of a row by {worst:.2g}"


def _conditionals(rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a random way to learn a network, and the score of each row."""
    cpd = str(rng.choice(["tree", "logistic", "hybrid", "mixed"]))

    def learned(rows: Table, n_jobs: int = 1) -> Any:
        # Rotations of the columns depend on their order by definition; all orders do not.
        return conjoin.convert(
            conjoin.learn_conditionals(rows, cpd, n_jobs=n_jobs), rows, orders="all"
        )

    return learned, lambda model, rows: conjoin.pll(model, rows, n_jobs=1).by_row


def _joint(rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the default way to learn a network, and the likelihood of each row."""
    effort = str(rng.choice(["quick", "default"]))

    def learned(rows: Table, n_jobs: int = 1) -> Any:
        return learn_joint(rows, n_jobs=n_jobs, random_state=0, effort=effort)[1]

    return learned, lambda model, rows: log_likelihood(model, rows).by_row


def _way(rng: np.random.Generator) -> tuple[Any, Any]:
    return (_joint if rng.random() < 0.5 else _conditionals)(rng)


def rows_in_another_order(rng: np.random.Generator) -> None:
    """Shuffle the rows."""
    table = random_table(rng)
    learned, score = _way(rng)
    order = rng.permutation(len(table.codes))
    weights = None if table.weights is None else table.weights[order]
    other = Table(table.domain, table.codes[order], weights)
    _compare(score(learned(table), table), score(learned(other), table), "the order of rows")


def columns_in_another_order(rng: np.random.Generator) -> None:
    """Shuffle the columns."""
    table = random_table(rng)
    learned, score = _way(rng)
    order = rng.permutation(len(table.domain))
    domain = conjoin.Domain([table.domain.variables[i] for i in order])
    other = Table(domain, table.codes[:, order], table.weights)
    _compare(score(learned(table), table), score(learned(other), other), "the order of columns")


def several_processes(rng: np.random.Generator) -> None:
    """Learn with two jobs; not a bit may change."""
    table = random_table(rng)
    learned, score = _way(rng)
    one, other = score(learned(table), table), score(learned(table, n_jobs=2), table)
    assert one.tobytes() == other.tobytes(), "the number of jobs changes the model"


def numbers_in_another_order(rng: np.random.Generator) -> None:
    """Shuffle the rows of a table with numbers."""
    size = int(rng.integers(60, 150))
    group = rng.integers(0, 3, size)
    table = pd.DataFrame(
        {
            "group": np.array(["a", "b", "c"])[group],
            "size": np.round(rng.normal(group, 1.0), 2),
            "count": rng.poisson(2.0 + group),
        }
    )
    shuffled = table.iloc[rng.permutation(size)]
    one = JointModel(random_state=0, n_jobs=1).fit(table)
    other = JointModel(random_state=0, n_jobs=1).fit(shuffled)
    _compare(one.score_samples(table), other.score_samples(table), "the order of rows")


TASKS = (
    rows_in_another_order, columns_in_another_order, several_processes, numbers_in_another_order,
)  # fmt: skip


def prepare() -> None:
    """Do nothing."""
