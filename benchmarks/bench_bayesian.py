"""Bayesian networks learned from rows of known networks: the graph, and the distance from the truth.

    python benchmarks/bench_bayesian.py [--only alarm,child] [--out FILE] [--print]

5,000 rows are drawn from each network of $CONJOIN_DATA/bif, for two seeds. Bayesian networks are learned
from them: from trees, by breaking cycles and by order, and with pyAgrum by hill climbing (BIC) and by
MIIC. Printed are precision and recall of the skeleton, the structural Hamming distance between the
CPDAGs, and the Kullback-Leibler divergence of the joint distribution from the truth (20,000 fresh rows,
the same for all).

Finished steps are kept in FILE, so that the same command resumes.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from conjoin import (
    BayesianNetwork,
    Table,
    learn_conditionals,
    load,
    sample,
)
from conjoin.research import to_bayesian_network as bayesian
from goals import cpu, headline, machine

ROWS, FRESH = 5_000, 20_000
SEEDS = (2, 3)
"""Seeds 0 and 1 were used while methods were chosen."""

Results = dict[str, Any]


class Kept:
    """Results by name, written to a file after each step."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: Results = json.loads(path.read_text()) if path.is_file() else {}

    def step(self, name: str, work: Callable[[], Results]) -> Results:
        if name not in self.found:
            self.found[name] = work()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.found, indent=1))
            print(name, self.found[name], flush=True)
        return self.found[name]


def graph_of(bn: BayesianNetwork) -> np.ndarray:
    """Return whether each variable (rows) is a parent of each other one (columns)."""
    edge = np.zeros((len(bn.domain), len(bn.domain)), bool)
    for cpd in bn.cpds:
        edge[list(cpd.blanket), cpd.target] = True
    return edge


def equivalence_class(dag: np.ndarray) -> np.ndarray:
    """Return the CPDAG of a DAG: an edge that could be turned round is there in both directions.

    Edges of v-structures keep their direction, and so do those that Meek's first three rules imply.
    """
    n, linked = len(dag), dag | dag.T
    fixed = np.zeros_like(dag)
    for c in range(n):
        parents = np.flatnonzero(dag[:, c])
        for a in parents:
            fixed[a, c] |= any(not linked[a, b] and a != b for b in parents)
    while True:
        before = fixed.copy()
        free = linked & ~fixed & ~fixed.T
        for a, b in np.argwhere(free):
            others = np.arange(n)
            into = fixed[:, a] & ~linked[:, b] & (others != b)  # c -> a - b
            through = fixed[a] & fixed[:, b]  # a -> c -> b
            both = np.flatnonzero(free[a] & fixed[:, b])  # a - c -> b, a - d -> b
            apart = any(not linked[c, d] for c in both for d in both if c < d)
            fixed[a, b] |= bool(into.any() or through.any() or apart) and not fixed[b, a]
        if (fixed == before).all():
            return linked & ~fixed.T


def compared(truth: np.ndarray, found: np.ndarray) -> Results:
    """Return precision and recall of the skeleton, and the distance between the CPDAGs."""
    upper = np.triu(np.ones_like(truth), 1)
    here, there = (found | found.T) & upper, (truth | truth.T) & upper
    one, two = equivalence_class(truth), equivalence_class(found)
    same = (one == two) & (one == two).T
    right = int((here & there).sum())
    return {
        "precision": right / max(1, int(here.sum())),
        "recall": right / max(1, int(there.sum())),
        "hamming": int((~same & upper).sum()),
        "edges": int(here.sum()),
    }


def learners(table: Table) -> dict[str, Callable[[], BayesianNetwork]]:
    """Return what is compared: the first two include learning the trees."""
    from bench_known_networks import by_pyagrum

    trees = lambda: learn_conditionals(table, "tree", n_jobs=1)  # noqa: E731
    return {
        "cycles": lambda: bayesian(trees(), table, n_jobs=1),
        "order": lambda: bayesian(trees(), table, "order", n_jobs=1),
        "hill climbing": lambda: by_pyagrum(table, "hill climbing"),
        "MIIC": lambda: by_pyagrum(table, "MIIC"),
    }


def networks(kept: Kept, only: list[str]) -> None:
    for path in sorted((Path(os.environ["CONJOIN_DATA"]) / "bif").glob("*.bif.gz")):
        name = path.name.split(".")[0]
        if only and name not in only:
            continue
        truth: BayesianNetwork = load(path)
        for seed in SEEDS:
            table = sample(truth, ROWS, random_state=seed)
            fresh = sample(truth, FRESH, random_state=1000 + seed)
            expected = truth.log_likelihood(fresh)

            def work(learner: Callable[[], BayesianNetwork], e: Any = expected, f: Any = fresh,
                     truth: Any = truth) -> Results:  # fmt: skip
                seconds, bn = cpu(learner)
                kl = float((e - bn.log_likelihood(f)).mean())
                cpd = bn.provenance.get("bayesian", {}).get("cpd")
                result = compared(graph_of(truth), graph_of(bn))
                return {**result, "kl": kl, "seconds": seconds, "cpd": cpd}

            for how, learner in learners(table).items():
                kept.step(f"{name}/{seed}/{how}", lambda lr=learner, w=work: w(lr))


def print_networks(kept: Kept) -> None:
    found: dict[str, dict[str, list[Results]]] = {}
    for key, result in kept.found.items():
        if "/" in key:
            name, _, how = key.split("/")
            found.setdefault(name, {}).setdefault(how, []).append(result)
    for title, metric in (
        ("skeleton, precision", "precision"),
        ("skeleton, recall", "recall"),
        ("structural Hamming distance of the CPDAGs", "hamming"),
        ("Kullback-Leibler divergence from the truth, in nats", "kl"),
        ("CPU seconds", "seconds"),
    ):
        headline(f"{title} (mean of {len(SEEDS)} seeds)")
        methods = list(next(iter(found.values()), {}))
        print(f"{'':<12}" + "".join(f"{m:>15}" for m in methods))
        for name, by_method in found.items():
            means = [np.mean([r[metric] for r in by_method.get(m, [])]) for m in methods]
            print(f"{name:<12}" + "".join(f"{mean:>15.3f}" for mean in means))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--out", default="bench_bayesian.json", help="where results are kept")
    parser.add_argument("--print", action="store_true", help="print what is there, and run nothing")
    arguments = parser.parse_args()
    print(machine())
    results = Kept(Path(arguments.out))
    chosen = [n for n in arguments.only.split(",") if n]
    if not arguments.print:
        networks(results, chosen)
    print_networks(results)
