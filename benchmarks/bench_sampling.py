"""CMLL of test sets, and Gibbs sampling: speed against a plain NumPy sampler.

    CONJOIN_DATA=FOLDER python benchmarks/bench_sampling.py [NAME ...]

FOLDER holds debd/NAME/NAME.{train,valid,test}.data.gz; by default the five smallest sets of the paper
are run. CPU seconds, kernels compiled before. The rival is Rao-Blackwellised Gibbs sampling in NumPy on a
conditioned network, for a few rows and scaled up; Libra's figures are constants.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from conjoin import Table, convert, learn_conditionals, read_table, sample
from conjoin.inference.gibbs import gibbs
from conjoin.models.markov import MarkovNetwork
from conjoin.scoring import cmll, random_sets
from goals import cpu, headline, machine

FIVE = ("nltcs", "plants", "baudio", "jester", "bnetflix")

GOAL = 20
"""The rival should take at least this many times as long."""

ROWS = 256
"""Number of rows that are scored."""

LIBRA = {"nltcs": 993 / 3236, "plants": 4.1, "baudio": 6.0}
"""Seconds per row of Libra 1.1.2 (mnacc with Gibbs, 100 + 1,000 sweeps), tree networks, one thread of a
machine with two cores; measured once, beside the runs that made the goals."""


def rival(mn: MarkovNetwork, row: np.ndarray, sets, sweeps: int) -> float:
    """Return the CPU seconds of plain NumPy for one row, scaled to 1,100 sweeps."""
    domain = mn.domain
    rng = np.random.default_rng(0)
    setup = drawing = 0.0
    for part in sets:
        start = time.process_time()
        free = [domain.index(name) for name in part]
        given = {v: int(row[v]) for v in range(len(domain)) if v not in free}
        left = mn.features.condition(given)
        left = left.select(np.flatnonzero(left.lengths > 0)).merged()
        state = row.copy()[None]
        touching = {v: left.touching(v) for v in free}
        members = {v: left.tests.members(touching[v][1], 2) for v in free}
        total = dict.fromkeys(free, 0.0)
        ready = time.process_time()
        setup += ready - start
        for _ in range(sweeps):
            for v in free:
                rest = touching[v][0]
                truth = rest.tests.truth(state)[:, 0].astype(np.float64)
                ends = np.concatenate([[0.0], np.cumsum(1 - truth[rest.indices])])
                holds = ends[rest.indptr[1:]] == ends[rest.indptr[:-1]]
                logits = (rest.weights * holds) @ members[v]
                p = 1 / (1 + np.exp(logits[0] - logits[1]))
                total[v] += p
                state[0, v] = rng.random() < p
        drawing += time.process_time() - ready
    return setup + drawing / sweeps * 1100


def scores(folder: Path, names: list[str]) -> None:
    headline(f"CMLL of {ROWS} rows, 100 + 1,000 sweeps: CPU seconds, rival, goal")
    for cpd in ("logistic", "tree"):
        for name in names:
            train, valid, test = (
                read_table(folder / name / f"{name}.{part}.data.gz")
                for part in ("train", "valid", "test")
            )
            mn = convert(learn_conditionals(train, cpd, valid=valid), train)
            cmll(mn, Table(test.domain, test.codes[:2]))  # compile
            rows = Table(test.domain, test.codes[:ROWS])
            seconds, result = cpu(lambda m=mn, t=rows: cmll(m, t))
            plain = rival(mn, test.codes[0], random_sets(mn.domain), 20) * len(rows)
            verdict = "met" if plain >= GOAL * seconds else "MISSED"
            line = f"{name + ', ' + cpd:<20}{seconds:>7.2f} s   NumPy {plain / seconds:,.0f} times"
            if cpd == "tree" and name in LIBRA:
                line += f", Libra {LIBRA[name] * len(rows) / seconds:,.0f} times"
            line += f"; goal {GOAL}: {verdict}"
            print(line)
            print(f"{'':<20}{result}")


def joint(folder: Path, names: list[str]) -> None:
    headline("Gibbs over all variables: sweeps per CPU second, one chain")
    for name in names:
        train = read_table(folder / name / f"{name}.train.data.gz")
        dn = learn_conditionals(train, "tree", kappa=1e-3)
        for model in (dn, convert(dn, train)):
            sample(model, 10, chains=1)  # compile
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, _ = cpu(lambda m=model: gibbs(m, n_samples=400, burn_in=0, chains=1), 2)
            rate = 400 / seconds
            print(
                f"{name + ', ' + model.kind:<34}{rate:>10,.0f} sweeps/s of {len(train.domain)} variables"
            )


if __name__ == "__main__":
    place = Path(os.environ["CONJOIN_DATA"]) / "debd"
    chosen = sys.argv[1:] or list(FIVE)
    print(machine())
    scores(place, chosen)
    joint(place, chosen)
