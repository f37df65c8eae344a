"""How should the reliability of a conditional be measured? PLL gained over equal shares.

Conditionals are learned from the training rows. Shares are measured on one half of the validation rows
and judged on the other; no test row is read. The reliability of the conditional of X_i about its pair
with X_j, for variables with two states, is one of these:

skill         the gain of X_i's conditional over its marginal, in nats per row
information   the Fisher information about the pair: sum of p_i (1 - p_i) (x_j - q_j)^2 over the rows
precision     the same, divided by 1 + the score test of the pair's weight: 1 / (squared error + variance)
strength      the strength of the conditional's opinion, to the best of four powers
learned       `learn_say`: strength, and a difference for each pair

    python benchmarks/bench_reliability.py [DATA SET ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations

import numpy as np

from conjoin import DependencyNetwork, Table, convert, learn_conditionals, pll
from conjoin.conversion.base_distribution import resolve_base
from conjoin.data.arrays import FloatArray
from conjoin.data.holdout import deal_out
from conjoin.research import learn_say, weighted_conversion
from conjoin.research.pair_opinions import PairOpinions, Say
from conjoin.research.reproduction.experiment_files import Files, find_folder
from conjoin.research.say_learning import POWERS, expit, log_ratio

SETS = ("nltcs", "dna", "plants", "jester", "baudio", "bnetflix")


def probabilities(dn: DependencyNetwork, rows: Table) -> FloatArray:
    """Return P(x_i = 1 | the rest of the row), rows by variables."""
    return np.stack([np.exp(cpd.log_probabilities(rows.codes)[:, 1]) for cpd in dn.cpds], axis=1)


def skill(dn: DependencyNetwork, train: Table, rows: Table) -> FloatArray:
    """Return the same reliability for all pairs of a conditional."""
    p, q = probabilities(dn, rows), np.array([m[1] for m in train.marginals()])
    x = rows.codes.astype(bool)
    gain = np.log(np.where(x, p, 1 - p)).mean(axis=0) - np.log(np.where(x, q, 1 - q)).mean(axis=0)
    return np.repeat(np.maximum(gain, 1e-4)[:, None], len(gain), axis=1)


def information(dn: DependencyNetwork, train: Table, rows: Table) -> FloatArray:
    """Return the Fisher information about each pair."""
    p, q = probabilities(dn, rows), np.array([m[1] for m in train.marginals()])
    return (p * (1 - p)).T @ (rows.codes - q) ** 2 + 1e-9


def precision(dn: DependencyNetwork, train: Table, rows: Table) -> FloatArray:
    """Return the inverse of the squared error of each pair's weight, its variance included."""
    p, q = probabilities(dn, rows), np.array([m[1] for m in train.marginals()])
    known = information(dn, train, rows)
    slope = (rows.codes - p).T @ (rows.codes - q)
    return known / (1 + slope**2 / known)


def of_matrix(measure: Callable[..., FloatArray]) -> Callable[..., Say]:
    """Return the shares in proportion to a matrix of reliabilities."""

    def say(dn: DependencyNetwork, train: Table, rows: Table) -> Say:
        matrix = measure(dn, train, rows)
        pairs = np.array(list(combinations(range(len(matrix)), 2)))
        first, second = matrix[pairs[:, 0], pairs[:, 1]], matrix[pairs[:, 1], pairs[:, 0]]
        return Say(pairs, first / (first + second))

    return say


def strength(dn: DependencyNetwork, train: Table, rows: Table) -> Say:
    """Return the shares for the best power of the strengths."""
    opinions = PairOpinions.of(dn.form, resolve_base(dn.domain, None, train)[0])
    ratio = log_ratio(opinions)
    says = [Say(opinions.pairs, expit(power * ratio)) for power in POWERS]
    return max(says, key=lambda s: pll(weighted_conversion(dn, train, s, orders="all"), rows).mean)


MEASURES: dict[str, Callable[..., Say]] = {
    "skill": of_matrix(skill),
    "information": of_matrix(information),
    "precision": of_matrix(precision),
    "strength": strength,
    "learned": learn_say,
}


def main(names: list[str]) -> None:
    """Print a table of gains in PLL."""
    print("| data set | CPDs | 2n rotations | " + " | ".join(MEASURES) + " |")
    print("|---" * (len(MEASURES) + 3) + "|")
    for name in names or SETS:
        files = Files(name, find_folder(None))
        halves = [half for _, half in deal_out(files.valid, 2, np.random.default_rng(1))]
        for cpd in ("tree", "logistic"):
            dn = learn_conditionals(files.train, cpd, valid=files.valid, exhaustive=True)
            mean = convert(dn, files.train, orders="all")
            rotations = convert(dn, files.train)
            gains = []
            for measured, judged in (halves, halves[::-1]):
                base = pll(mean, judged).mean
                row = [pll(rotations, judged).mean - base]
                for measure in MEASURES.values():
                    say = measure(dn, files.train, measured)
                    weighed = weighted_conversion(dn, files.train, say, orders="all")
                    row.append(pll(weighed, judged).mean - base)
                gains.append(row)
            cells = " | ".join(f"{gain:+.3f}" for gain in np.mean(gains, axis=0))
            print(f"| {name} | {cpd} | {cells} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
