"""Questions with ranges of numbers: their CPU time next to a goal, and the error of the integrals.

Tables of $CONJOIN_DATA are learned first. A question is asked twice: the first time includes the plan of
the network and one run over its junction tree, which later questions share. The error is the largest
difference of a probability (of a state, or of numbers below seven values between the extremes of a
column) from the answers with many more points.

    CONJOIN_DATA=FOLDER python benchmarks/bench_ranges.py [--tables autos,pima_diabetes] [--effort quick]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

import conjoin as cj
from conjoin.data.mixed_table import MixedTable
from conjoin.formats.table_files import read_columns
from conjoin.joint.mixed_learning import learn_mixed
from conjoin.models import gaussian_boxes
from goals import cpu, headline, machine, report

FIRST_GOAL, GOAL, THREE_GOAL, NEXT_GOAL = 2.0, 0.5, 3.0, 2.0
QUESTIONS = {  # evidence, and targets if not all columns; then the target of the next question
    "pima_diabetes": (
        [("age > 40, mass > 30", ["class"]), ("age > 40, mass > 30", None),
         ("age > 40, mass > 30, plas < 120", None)],
        ("age", "mass > 30"),
    ),
    "hypothyroid": (
        [("age > 40", None), ("20 <= age < 30, TSH > 10", None),
         ("age > 40, TSH > 2, T3 < 2", ["Class"])],
        ("Class", "age > 40"),
    ),
    "autos": (
        [("price > 10000, city-mpg < 25", ["make"]), ("price > 10000, city-mpg < 25", None)],
        ("make", "price > 10000"),
    ),
    "credit_approval": (
        [("20 <= A2 < 30, A8 > 2", ["class"]), ("20 <= A2 < 30, A8 > 2, A15 > 0", ["class"])],
        ("class", None),
    ),
}  # fmt: skip


def probabilities(model, given, targets):
    """All probabilities of an answer side by side."""
    parts = []
    for answer in cj.marginals(model, given, targets=targets).values():
        if isinstance(answer, dict):
            parts.append(list(answer.values()))
        else:
            values = np.linspace(answer.scale.low, answer.scale.high, 7)
            parts.append([answer.cdf(x) for x in values])
    return np.concatenate(parts)


def error(model, given, targets):
    """The largest difference from answers with many more points."""
    more = {"MAX_POINTS": 1 << 14, "MAX_PER_COLUMN": 128, "PARTS_PER_SD": 40, "MAX_PARTS": 1024}
    found = probabilities(model, given, targets)
    with mock.patch.multiple(gaussian_boxes, **more):
        return np.abs(found - probabilities(model, given, targets)).max()


def measure(name, effort):
    path = Path(os.environ["CONJOIN_DATA"]) / "tables" / f"{name}.csv.gz"
    model = learn_mixed(MixedTable.of_columns(read_columns(path)), effort=effort)
    headline(f"{name}: {model}")
    questions, (target, known) = QUESTIONS[name]
    for given, targets in questions:
        ask = lambda given=given, targets=targets: repr(cj.marginals(model, given, targets=targets))  # noqa: E731
        first, _ = cpu(ask)
        again, _ = cpu(ask, 3)
        label = f"{given}: {', '.join(targets) if targets else 'all columns'}"
        report(f"{label}, first", first, FIRST_GOAL)
        goal = THREE_GOAL if given.count(",") > 1 else GOAL
        report(label, again, goal, f"error {error(model, given, targets):.0e}")
    seconds, _ = cpu(lambda: cj.next_questions(model, target, known))
    report(f"what to ask about {target} given {known or 'nothing'}", seconds, NEXT_GOAL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default=",".join(QUESTIONS))
    parser.add_argument("--effort", default="default")
    options = parser.parse_args()
    print(machine())
    with threadpool_limits(1):
        for name in options.tables.split(","):
            measure(name, options.effort)


if __name__ == "__main__":
    main()
