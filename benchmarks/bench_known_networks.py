"""Distance to the truth: rows drawn from known Bayesian networks, against hill climbing with BIC.

5,000 rows are drawn from each network of $CONJOIN_DATA/bif. A query asks for the distribution of one
random column given 1 to 5 others, with the values of a fresh row of the network. Printed is the mean
Kullback-Leibler divergence of the answers from those of the true network, times 1,000, over all seeds:
of `learn_joint` with its defaults, of pyAgrum's greedy hill climbing (BIC, pseudo-count 0.1), and of the
true structure with probabilities counted from the same rows (pseudo-count 0.1). Seconds are CPU seconds
of learning, per network.

    python benchmarks/bench_known_networks.py [--networks alarm,asia] [--seeds 0,1,2,3] [--random 4]

`--random N` uses N generated sparse networks of 70 to 200 columns instead; there are no goals for them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyagrum as gum

from conjoin import BayesianNetwork, Table, TableCPD, load
from conjoin.inference import Completion
from conjoin.joint import learn_joint
from conjoin.models.network import Network
from goals import cpu, headline, machine
from synthetic import random_bayesian_network

ROWS, QUERIES, PSEUDO_COUNT = 5_000, 200, 0.1
MODELS = ("Conjoin", "hill climbing", "true structure")


def drawn(bn: BayesianNetwork, count: int, rng: np.random.Generator) -> Table:
    """Draw rows, column by column."""
    codes = np.zeros((count, len(bn.domain)), np.int64)
    left = {cpd.target: cpd for cpd in bn.cpds}
    while left:
        for cpd in [c for c in left.values() if not left.keys() & set(c.blanket)]:
            p = np.exp(cpd.log_probabilities(codes))
            above = p.cumsum(axis=1) > rng.random((count, 1)) * p.sum(axis=1, keepdims=True)
            codes[:, cpd.target] = above.argmax(axis=1)
            del left[cpd.target]
    return Table(bn.domain, codes)


def queries(bn: BayesianNetwork, rng: np.random.Generator) -> tuple[Table, np.ndarray]:
    """Return rows in which only the evidence is known, and the target of each."""
    rows = drawn(bn, QUERIES, rng).codes
    known = np.full(rows.shape, -1)
    targets = np.zeros(QUERIES, np.int64)
    for q in range(QUERIES):
        width = min(int(rng.integers(1, 6)), len(bn.domain) - 1)
        chosen = rng.choice(len(bn.domain), width + 1, replace=False)
        targets[q], given = chosen[0], chosen[1:]
        known[q, given] = rows[q, given]
    return Table(bn.domain, known), targets


def answers(model: Network, asked: Table, targets: np.ndarray) -> list[np.ndarray]:
    """Return the distribution of the target of each query, by exact inference."""
    found, _ = Completion(model, asked.codes).all_marginals()
    ends = np.cumsum(model.domain.cards)
    rows = enumerate(targets.tolist())
    return [found[q, ends[t] - model.domain.cards[t] : ends[t]] for q, t in rows]


def divergence(truth: list[np.ndarray], found: list[np.ndarray]) -> float:
    """Return the mean Kullback-Leibler divergence."""
    total = 0.0
    for p, q in zip(truth, found, strict=True):
        some = p > 0
        total += float(p[some] @ np.log(p[some] / q[some]))
    return total / len(truth)


def refitted(bn: BayesianNetwork, table: Table) -> BayesianNetwork:
    """Return the same structure, with probabilities counted from the rows."""
    cards, cpds = bn.domain.cards, []
    for cpd in bn.cpds:
        scope = [*cpd.blanket, cpd.target]
        counts = np.full(cards[scope], PSEUDO_COUNT)
        np.add.at(counts, tuple(table.codes[:, scope].T.astype(np.int64)), 1)
        log_p = np.log(counts / counts.sum(axis=-1, keepdims=True))
        cpds.append(TableCPD(cards, cpd.target, cpd.blanket, log_p))
    return BayesianNetwork(bn.domain, cpds)


def by_pyagrum(table: Table, method: str = "hill climbing") -> BayesianNetwork:
    """Return the network that pyAgrum finds by hill climbing with BIC, or by MIIC."""
    cards, names = table.domain.cards, [f"v{i}" for i in range(len(table.domain))]
    states = gum.BayesNet()
    for name, card in zip(names, cards.tolist(), strict=True):
        states.add(gum.RangeVariable(name, "", 0, card - 1))
    learner = gum.BNLearner(pd.DataFrame(table.codes, columns=names), states)
    if method == "MIIC":
        learner.useMIIC()
    else:
        learner.useGreedyHillClimbing()
        learner.useScoreBIC()
    learner.useSmoothingPrior(PSEUDO_COUNT)
    learner.setNumberOfThreads(1)
    found = learner.learnBN()
    cpds = []
    for name in names:
        cpt = found.cpt(name)
        scope = [names.index(other) for other in reversed(cpt.names)]
        cpds.append(TableCPD(cards, scope[-1], scope[:-1], np.log(cpt.toarray())))
    return BayesianNetwork(table.domain, cpds)


def measured(bn: BayesianNetwork, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the divergence and the CPU seconds of each of the models."""
    rng = np.random.default_rng(seed)
    table, (asked, targets) = drawn(bn, ROWS, rng), queries(bn, rng)
    fits = [
        cpu(lambda: learn_joint(table, random_state=seed)[1]),
        cpu(lambda: by_pyagrum(table)),
        cpu(lambda: refitted(bn, table)),
    ]
    truth = answers(bn, asked, targets)
    found = [divergence(truth, answers(model, asked, targets)) for _, model in fits]
    return np.array(found), np.array([seconds for seconds, _ in fits])


def networks(arguments: argparse.Namespace) -> Iterator[tuple[str, BayesianNetwork]]:
    """Yield the networks to learn."""
    for number in range(arguments.random):
        columns = int(np.linspace(70, 200, max(2, arguments.random))[number])
        yield f"random, {columns}", random_bayesian_network(columns, seed=number)
    if not arguments.random:
        folder = Path(os.environ["CONJOIN_DATA"]) / "bif"
        wanted = arguments.networks.split(",") if arguments.networks else ["*"]
        for path in sorted(p for name in wanted for p in folder.glob(f"{name}.bif.gz")):
            model = load(path)
            assert isinstance(model, BayesianNetwork)
            yield path.name.split(".")[0], model


def compare(arguments: argparse.Namespace) -> None:
    seeds = [int(s) for s in arguments.seeds.split(",")]
    headline(
        f"KL x 1000 of {QUERIES} queries after {ROWS:,} rows, mean of {len(seeds)} seeds; CPU s"
    )
    print(f"{'':<16}{'columns':>8}" + "".join(f"{name:>22}" for name in MODELS) + f"{'ratio':>8}")
    ratios = []
    for name, bn in networks(arguments):
        kl, seconds = np.mean([measured(bn, seed) for seed in seeds], axis=0)
        ratios.append(kl[0] / kl[1])
        line = "".join(f"{1e3 * k:>13.3f}{s:>7.2f} s" for k, s in zip(kl, seconds, strict=True))
        print(f"{name:<16}{len(bn.domain):>8}{line}{ratios[-1]:>8.2f}", flush=True)
    wins, mean = sum(r <= 1 for r in ratios), float(np.exp(np.mean(np.log(ratios))))
    goals = (
        f"at most that of hill climbing on {wins} of {len(ratios)} networks: goal all but one",
        f"geometric mean of the ratios to hill climbing {mean:.3f}: goal below 1",
    )
    for goal, met in zip(goals, (wins >= len(ratios) - 1, mean < 1), strict=True):
        verdict = "" if arguments.random else ", met" if met else ", MISSED"
        print(goal.split(":")[0] if arguments.random else goal + verdict)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", default="", help="names, separated by commas")
    parser.add_argument("--seeds", default="0,1,2,3")
    parser.add_argument("--random", type=int, default=0, help="number of generated networks")
    print(machine())
    compare(parser.parse_args())
