"""CMLL of whole test sets, and Gibbs sampling: speed against stated goals and a plain NumPy sampler.

    CONJOIN_DATA=FOLDER python benchmarks/bench_sampling.py [NAME ...]

FOLDER holds debd/NAME/NAME.{train,valid,test}.data.gz; by default the five smallest sets of the paper
are run. CPU seconds, kernels compiled before. The rival is Rao-Blackwellised Gibbs sampling in NumPy on a
conditioned network, for a few rows and scaled up; Libra's figures are constants. For a set of many
variables the rival is the general chain, set up and run for one row at a time.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from conjoin import Table, convert, learn_conditionals, read_table, sample
from conjoin.inference.chain import Sampler
from conjoin.inference.gibbs import gibbs
from conjoin.models.markov import MarkovNetwork
from conjoin.scoring import cmll, random_sets
from goals import cpu, headline, machine

FIVE = ("nltcs", "plants", "baudio", "jester", "bnetflix")

GOAL = {
    "logistic": dict(zip(FIVE, (0.05, 0.37, 0.70, 0.88, 0.70), strict=True)),
    "tree": dict(zip(FIVE, (0.5 / 3, 4.4 / 3, 15.5 / 3, 24.5 / 3, 19.9 / 3), strict=True)),
}
"""CPU seconds for the whole test set, 100 + 1,000 sweeps."""

LIBRA = {"nltcs": 993 / 3236, "plants": 4.1, "baudio": 6.0}
"""Seconds per row of Libra 1.1.2 (mnacc with Gibbs, 100 + 1,000 sweeps), tree networks, one thread of a
machine with two cores; measured once, beside the runs that made the goals."""


WIDE = "cwebkb"
WIDE_GOAL = 10
"""The general chain should take this many times as long, on a set of 839 variables."""


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
    headline("CMLL of the whole test set: CPU seconds, goal, rival")
    for cpd in ("logistic", "tree"):
        for name in names:
            train, valid, test = (
                read_table(folder / name / f"{name}.{part}.data.gz")
                for part in ("train", "valid", "test")
            )
            mn = convert(learn_conditionals(train, cpd, valid=valid), train)
            cmll(mn, Table(test.domain, test.codes[:2]))  # compile
            seconds, result = cpu(lambda m=mn, t=test: cmll(m, t), 2)
            sets = random_sets(mn.domain)
            plain = rival(mn, test.codes[0], sets, 20) * len(test)
            line = f"{name + ', ' + cpd:<20}{seconds:>7.2f} s"
            if name in GOAL[cpd]:
                share = seconds / GOAL[cpd][name]
                verdict = "met" if share <= 1 else "MISSED"
                line += f"   goal {GOAL[cpd][name]:.2f} s: {share:.2f} of it, {verdict}"
            line += f"   NumPy {plain / seconds:,.0f} times as long"
            if cpd == "tree" and name in LIBRA:
                line += f", Libra {LIBRA[name] * len(test) / seconds:,.0f} times"
            print(line)
            print(f"{'':<20}{result}")


def wide(folder: Path, rows: int = 256, few: int = 4) -> None:
    headline(f"CMLL of {WIDE}, {rows} rows: CPU seconds, goal, the general chain row by row")
    train, valid, test = (
        read_table(folder / WIDE / f"{WIDE}.{part}.data.gz") for part in ("train", "valid", "test")
    )
    table = Table(test.domain, test.codes[:rows])
    sets = random_sets(test.domain)
    for cpd in ("logistic", "tree"):
        mn = convert(learn_conditionals(train, cpd, valid=valid), train)

        def chains(mn: MarkovNetwork = mn) -> None:
            for part in sets:
                free = np.array([test.domain.index(name) for name in part])
                for row in test.codes[:few].tolist():
                    given = {v: state for v, state in enumerate(row) if v not in free}
                    sampler = Sampler(mn.form, given, free)
                    sampler.chain(np.random.SeedSequence(0), 100).run(1000, batches=25)

        cmll(mn, Table(test.domain, test.codes[:2]))  # compile
        seconds, result = cpu(lambda m=mn: cmll(m, table))
        times = cpu(chains)[0] * rows / few / seconds
        verdict = "met" if times >= WIDE_GOAL else "MISSED"
        print(
            f"{cpd:<20}{seconds:>7.2f} s   {times:.1f} times as long; goal {WIDE_GOAL}: {verdict}"
        )
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
    if (place / WIDE).is_dir():
        wide(place)
    joint(place, chosen)
