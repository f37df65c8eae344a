"""Bayesian networks from conditionals: against the converted Markov network, and against known networks.

    python benchmarks/bench_bayesian.py [tables] [networks] [--only nltcs,alarm] [--out FILE] [--print]

`tables` learns trees for the data sets of $CONJOIN_DATA/debd (kappa is chosen on their validation rows)
and makes four models of them: the published algorithm (cycles broken, nothing restored), the same with
edges restored, the search for an order, and the converted Markov network. Scores are those of the test
rows, in nats per row: PLL, CMLL (tables of at most 100 columns, the first 500 test rows) and the
log-likelihood, which is exact for Bayesian networks; that of the converted network is estimated unless
exact inference fits, and left out for tables of more than 100 columns. Seconds are CPU seconds after the
trees were learned.

`networks` draws 5,000 rows from each network of $CONJOIN_DATA/bif, for two seeds, and learns Bayesian
networks from them: as above from trees, and with pyAgrum by hill climbing (BIC) and by MIIC. Printed are
precision and recall of the skeleton, the structural Hamming distance between the CPDAGs, and the
Kullback-Leibler divergence of the joint distribution from the truth (20,000 fresh rows, the same for
all).

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

from conjoin import BayesianNetwork, Table, convert, learn, load, pll, read_table, sample
from conjoin import to_bayesian_network as bayesian
from conjoin.models.network import Network
from conjoin.scoring import cmll, log_likelihood
from goals import cpu, headline, machine

ROWS, FRESH = 5_000, 20_000
SEEDS = (2, 3)
"""Seeds 0 and 1 were used while methods were chosen."""
CMLL_ROWS, NARROW = 500, 100

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


# ---- tables --------------------------------------------------------------------------------------


MODELS = ("published", "restored", "order", "converted")


def made(name: str, dn: Any, train: Table, valid: Table) -> Network:
    """Return one of the models of a dependency network."""
    if name == "converted":
        return convert(dn, train)
    if name == "order":
        return bayesian(dn, train, "order", valid=valid, n_jobs=1)
    return bayesian(dn, train, restore=name == "restored", n_jobs=1)


def scored(name: str, model: Network, test: Table) -> Results:
    """Return the scores of a model on the test rows."""
    found: Results = {"pll": pll(model, test, n_jobs=1).mean}
    narrow = len(test.domain) <= NARROW
    if narrow:
        few = Table(test.domain, test.codes[:CMLL_ROWS])
        found["cmll"] = cmll(model, few, n_jobs=1).mean
    if narrow or name != "converted":
        likelihood = log_likelihood(model, test)
        found["ll"], found["exact"] = likelihood.mean, likelihood.exact
    return found


def tables(kept: Kept, only: list[str]) -> None:
    folder = Path(os.environ["CONJOIN_DATA"]) / "debd"
    for path in sorted(folder.iterdir(), key=lambda p: sum(f.stat().st_size for f in p.iterdir())):
        name = path.name
        if only and name not in only:
            continue
        keys = {m: f"{name}.{m}" for m in MODELS}
        if all(key in kept.found for key in keys.values()):
            continue
        parts = [read_table(path / f"{name}.{p}.data.gz") for p in ("train", "valid", "test")]
        train, valid, test = parts
        seconds, dn = cpu(lambda train=train, valid=valid: learn(train, "tree", valid=valid))
        kept.step(
            f"{name}.trees", lambda s=seconds, dn=dn, t=test: {"seconds": s, "pll": pll(dn, t).mean}
        )

        def work(m: str, dn: Any = dn, parts: Any = parts) -> Results:
            seconds, model = cpu(lambda: made(m, dn, parts[0], parts[1]))
            record = model.provenance.get("bayesian", {})
            kind, edges = record.get("cpd"), record.get("edges")
            return {"seconds": seconds, "edges": edges, "cpd": kind, **scored(m, model, parts[2])}

        for m in MODELS:
            kept.step(keys[m], lambda m=m, work=work: work(m))


def print_tables(kept: Kept) -> None:
    sets = [key.removesuffix(".trees") for key in kept.found if key.endswith(".trees")]
    for metric in ("pll", "cmll", "ll"):
        headline(f"{metric} of the test rows")
        print(f"{'':<10}" + "".join(f"{m:>14}" for m in ("trees", *MODELS)))
        for name in sets:
            cells = []
            for m in ("trees", *MODELS):
                found = kept.found.get(f"{name}.{m}", {})
                mark = "" if found.get("exact", True) or metric != "ll" else "~"
                cells.append(f"{mark}{found[metric]:.3f}" if metric in found else "")
            print(f"{name:<10}" + "".join(f"{cell:>14}" for cell in cells))
    headline("CPU seconds (edges) after the trees were learned")
    for name in sets:
        cells = []
        for m in MODELS:
            found = kept.found.get(f"{name}.{m}", {})
            edges = f" ({found['edges']})" if found.get("edges") else ""
            cells.append(f"{found['seconds']:.1f}{edges}" if found else "")
        print(f"{name:<10}" + "".join(f"{cell:>14}" for cell in cells))


# ---- known networks ------------------------------------------------------------------------------


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
    """Return what is compared: the first three include learning the trees."""
    from bench_known_networks import by_pyagrum

    trees = lambda: learn(table, "tree", n_jobs=1)  # noqa: E731
    return {
        "published": lambda: bayesian(trees(), table, restore=False, n_jobs=1),
        "restored": lambda: bayesian(trees(), table, n_jobs=1),
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
    parser.add_argument("what", nargs="*", default=["tables", "networks"])
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--out", default="bench_bayesian.json", help="where results are kept")
    parser.add_argument("--print", action="store_true", help="print what is there, and run nothing")
    arguments = parser.parse_args()
    print(machine())
    results = Kept(Path(arguments.out))
    chosen = [n for n in arguments.only.split(",") if n]
    for part in arguments.what:
        if part not in ("tables", "networks"):
            parser.error(f"{part!r} is neither 'tables' nor 'networks'")
        if not arguments.print:
            (tables if part == "tables" else networks)(results, chosen)
        (print_tables if part == "tables" else print_networks)(results)
