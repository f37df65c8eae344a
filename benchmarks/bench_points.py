"""Known numbers as points or as cells: what a mixed network predicts given one or the other.

Answers are given points, whose densities obey the chain rule. This compares them with answers given the
cells of recorded values, on test rows of tables of $CONJOIN_DATA (see bench_numbers.py).

    python benchmarks/bench_points.py [--rows 3000] [--tables abalone,autos] [--seed 5]
"""

from __future__ import annotations

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from bench_numbers import TABLES, Split, category_loss, known_numbers
from conjoin.inference.mixed import MixedAnswers
from conjoin.joint.mixed_learning import learn_mixed
from conjoin.models.mixed import points_of, scores_of


def answers(model, table, cells):
    """Answers given the known values, as cells or as points."""
    known = (scores_of if cells else points_of)(model.maps, model.values(table))
    return MixedAnswers(model, table, scores=known)


def scores(split, model, cells):
    """The log-probability of numbers, the log loss of categories and nRMSE."""
    given = answers(model, split.test, cells)
    numbers = [part.log_mass(truth).mean() for part, truth in known_numbers(split, given)]
    hidden = split.lacking()
    lacking, filled = answers(model, hidden, cells), hidden.numbers.copy()
    for j, name in enumerate(split.numbers):
        rows = np.isnan(filled[:, j])
        filled[rows, j] = lacking.number(name).mean()[rows]
    return np.mean(numbers), category_loss(split, given), split.nrmse(filled)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    print(f"{'':<22}{'number':>18}{'category':>18}{'nRMSE':>18}   (points, cells)")
    for name in options.tables.split(","):
        split = Split(name, options.rows, options.seed)
        model = learn_mixed(split.train)
        both = zip(scores(split, model, False), scores(split, model, True), strict=True)
        print(f"{name:<22}" + "".join(f"{a:>10.4f}{b:>8.4f}" for a, b in both), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
