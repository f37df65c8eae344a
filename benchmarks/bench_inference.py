"""Inference: exact answers against references and pyAgrum, and how far approximations are off.

    CONJOIN_DATA=FOLDER python benchmarks/bench_inference.py [--defaults nltcs,plants,10000x50,10000x50x4]

FOLDER holds uai/*.uai with .evid, .PR and .MAR beside them, bif/*.bif.gz and the data sets of debd. Times
are CPU seconds. With --defaults, only default networks are measured: they are learned first, from a data
set of debd or from a generated table of rows, columns and states.
pyAgrum, if it is installed, is measured in the same run: a fresh LazyPropagation a query, all posteriors.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path

import numpy as np

import conjoin as cj
from bench_growth import generated
from conjoin.formats.uai import read_evidence
from conjoin.inference import exact
from conjoin.inference.completion import Completion
from conjoin.inference.plan import TooLarge
from conjoin.joint import learn_joint
from goals import headline, machine

UAI_GOAL = 120.0
REFUSAL_GOAL = 1.0
MARGINALS_GOAL = 0.020
ROWS_GOAL = 2.0
MISSING = (0.1, 0.5)


def timed(function):
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def reference_marginals(path):
    words = path.read_text().split()[1:]
    arrays, at = [], 1
    for _ in range(int(words[0])):
        size = int(words[at])
        arrays.append(np.array(words[at + 1 : at + 1 + size], float))
        at += 1 + size
    return arrays


def distance(found, true):
    return max(np.abs(p - q).max() for p, q in zip(found, true, strict=True))


def warm_up():
    domain = cj.Domain.numbered([2, 2, 2])
    terms = [(1.0, {"v0": 1, "v1": 1}), (0.5, {"v2": 0})]
    mn = cj.MarkovNetwork(domain, cj.Features.from_terms(domain, terms))
    cj.marginals(mn)
    cj.log_partition(mn)
    for method in ("bp", "gibbs"):
        cj.marginals(mn, method=method)
    cj.log_partition(mn, method="ais", chains=2, steps=2)


def uai_exact(folder):
    headline("UAI problems: log10 Z to 1e-3, marginals to 1e-5 of the reference")
    total, worst = 0.0, 0.0
    for path in sorted(folder.glob("*.uai")):
        model = cj.load(path)
        given = read_evidence(Path(f"{path}.evid"), model.domain)
        planning, cost = timed(lambda m=model, g=given: _forecast(m, g))
        if cost is None:
            worst = max(worst, planning)
            print(f"{path.stem:<22} refused after {planning:.2f} s")
            continue
        z_time, z = timed(lambda m=model, g=given: cj.log_partition(m, g).value / math.log(10))
        m_time, found = timed(lambda m=model, g=given: cj.marginals(m, g).arrays())
        z_error = abs(z - float(Path(f"{path}.PR").read_text().split()[1]))
        m_error = distance(found, reference_marginals(Path(f"{path}.MAR")))
        total += planning + z_time + m_time
        verdict = "met" if z_error < 1e-3 and m_error < 1e-5 else "MISSED"
        print(
            f"{path.stem:<22}{planning:>6.2f} s plan {z_time:>6.2f} s Z {m_time:>6.2f} s MAR  "
            f"off by {z_error:.0e}, {m_error:.0e}: {verdict}  (forecast: {cost})"
        )
    verdict = "met" if total <= UAI_GOAL else "MISSED"
    print(f"in all {total:.1f} s; goal {UAI_GOAL:.0f} s: {verdict}")
    if worst:
        print(f"slowest refusal {worst:.2f} s; goal {REFUSAL_GOAL:.0f} s")


def _forecast(model, given):
    try:
        return cj.inference.forecast(model, given)
    except TooLarge:
        return None


def cases(bn, count=20):
    """Evidence on a quarter of the variables, drawn from the network itself."""
    rng = np.random.default_rng(0)
    rows = exact.sample(bn, count, random_state=1).codes
    chosen = [rng.permutation(len(bn.domain))[: len(bn.domain) // 4 + 1] for _ in rows]
    return [{int(v): int(row[v]) for v in which} for row, which in zip(rows, chosen, strict=True)]


def agrum_network(gum, bn):
    theirs = gum.BayesNet()
    for i, variable in enumerate(bn.domain):
        theirs.add(gum.LabelizedVariable(f"v{i}", "", [f"s{k}" for k in range(len(variable))]))
    for cpd in bn.cpds:
        for p in cpd.parents:
            theirs.addArc(f"v{p}", f"v{cpd.target}")
    for cpd in bn.cpds:
        cpt = theirs.cpt(f"v{cpd.target}")
        names = [f"v{p}" for p in (*cpd.parents, cpd.target)]
        order = [names.index(name) for name in reversed(cpt.names)]
        cpt[:] = np.ascontiguousarray(np.exp(cpd.table).transpose(order))
    return theirs


def _number(posterior):
    return int(posterior.names[0][1:])


def against_agrum(folder):
    headline("Marginals of all variables: ms a query, and pyAgrum's LazyPropagation")
    try:
        import pyagrum as gum
    except ImportError:
        print("pyAgrum is not installed")
        return
    planned, fresh = [], []
    for path in sorted(folder.glob("*.bif.gz")):
        bn = cj.load(path)
        theirs, questions = agrum_network(gum, bn), cases(bn)
        named = [
            {bn.domain.names[v]: bn.domain.variables[v].states[s] for v, s in q.items()}
            for q in questions
        ]

        def rival(q, net=theirs):
            lazy = gum.LazyPropagation(net)
            lazy.setEvidence({f"v{v}": s for v, s in q.items()})
            lazy.makeInference()
            return [lazy.posterior(v) for v in net.names()]

        error = 0.0
        for q, g in zip(questions, named, strict=True):
            true = [p.toarray() for p in sorted(rival(q), key=_number)]
            error = max(error, distance(cj.marginals(bn, g).arrays(), true))

        def ours(model=bn, given=named, forget=False):
            for g in given:
                if forget:
                    exact.compiled(model).plans.clear()
                cj.marginals(model, g)

        def best(function, n=len(named)):  # noqa: B008
            return min(timed(function)[0] for _ in range(7)) / n

        slow = best(lambda r=rival, qs=questions: [r(q) for q in qs])
        quick, new = best(ours), best(lambda f=ours: f(forget=True))
        planned.append(quick / slow)
        fresh.append(new / slow)
        print(
            f"{path.name.split('.')[0]:<12} pyAgrum {slow * 1e3:>7.3f}  ours {quick * 1e3:>7.3f}, "
            f"planning anew {new * 1e3:>7.3f}  ratio {quick / slow:.3f}, {new / slow:.3f}  "
            f"off by {error:.0e}"
        )
    for what, ratios in (("planned", planned), ("planning anew", fresh)):
        mean = float(np.exp(np.mean(np.log(ratios))))
        verdict = "met" if mean <= 1 else "MISSED"
        print(f"geometric mean of the ratios, {what}: {mean:.3f}; goal 1: {verdict}")


def many_queries(folder):
    headline("10,000 queries with one pattern of evidence, against one")
    for name in ("asia", "alarm", "hailfinder"):
        path = folder / f"{name}.bif.gz"
        if not path.exists():
            continue
        bn = cj.load(path)
        table = exact.sample(bn, 10_000, random_state=0)
        codes = table.codes.astype(np.int64)
        codes[
            :, np.random.default_rng(0).permutation(len(bn.domain))[len(bn.domain) // 4 + 1 :]
        ] = -1
        hidden = cj.Table(bn.domain, codes)
        one = cj.Table(bn.domain, codes[:1])
        Completion(bn, one.codes).all_marginals()
        single, _ = timed(lambda b=bn, t=one: Completion(b, t.codes).all_marginals())
        many, _ = timed(lambda b=bn, t=hidden: Completion(b, t.codes).all_marginals())
        print(
            f"{name:<12} one {single * 1e3:>7.2f} ms, 10,000 {many * 1e3:>8.1f} ms: "
            f"{many / single:,.0f} times one"
        )


def approximations(folder):
    headline("Approximations: largest and mean error of a probability, error of log10 Z")
    print(f"{'':<22}{'BP':>26}{'Gibbs':>22}{'AIS (100 x 300)':>29}")
    for path in sorted(folder.glob("*.uai")):
        model = cj.load(path)
        given = read_evidence(Path(f"{path}.evid"), model.domain)
        true = reference_marginals(Path(f"{path}.MAR"))
        log10 = float(Path(f"{path}.PR").read_text().split()[1])
        words = []
        seconds, found = timed(lambda a=model, g=given: cj.marginals(a, g, method="bp"))
        errors = np.concatenate([np.abs(p - q) for p, q in zip(found.arrays(), true, strict=True)])
        z = cj.log_partition(model, given, method="bp").value / math.log(10) - log10
        mark = "" if found.run.converged else "*"
        words.append(f"{errors.max():.3f} {errors.mean():.4f} {z:+.2f} {seconds:.1f}s{mark:<1}")
        try:
            seconds, found = timed(lambda a=model, g=given: cj.marginals(a, g, method="gibbs"))
            errors = np.concatenate(
                [np.abs(p - q) for p, q in zip(found.arrays(), true, strict=True)]
            )
            mark = "" if found.run.converged else "*"
            words.append(f"{errors.max():.3f} {errors.mean():.4f} {seconds:.1f}s{mark:<1}")
        except cj.ConjoinError:
            words.append("no instance found")
        try:
            seconds, found = timed(
                lambda a=model, g=given: cj.log_partition(a, g, method="ais", steps=300)
            )
            z = found.value / math.log(10) - log10
            words.append(f"{z:+.2f} ± {found.error / math.log(10):.2f} {seconds:.1f}s")
        except cj.ConjoinError:
            words.append("no chain survived")
        print(f"{path.stem:<22}" + "".join(f"{w:>27}" for w in words), flush=True)
    print("* did not converge, or chains disagree")


def training_rows(folder, name):
    """Return the training rows of a data set, or a generated table: ROWSxCOLUMNS[xSTATES]."""
    if not name[0].isdigit():
        return cj.read_table(folder / name / f"{name}.train.data.gz")
    rows, columns, *states = map(int, name.split("x"))
    bits = int(math.log2(states[0])) if states else 1
    codes = generated(rows, columns * bits).codes.reshape(rows, columns, bits)
    domain = cj.Domain.numbered([1 << bits] * columns)
    return cj.Table(domain, codes @ (1 << np.arange(bits)))


def default_networks(folder, names):
    headline("Default networks: all marginals, once planned; 1,000 rows of 50 columns imputed")
    for name in names:
        train = training_rows(folder, name)
        _, model = learn_joint(train)
        cj.marginals(model)
        seconds = min(timed(lambda m=model: cj.marginals(m))[0] for _ in range(7))
        verdict = "met" if seconds <= MARGINALS_GOAL else "MISSED"
        print(
            f"{name:<11} {len(train.domain):>5} columns: marginals {seconds * 1e3:>7.2f} ms, goal "
            f"{MARGINALS_GOAL * 1e3:.0f} ms: {verdict}",
            flush=True,
        )
        columns = np.arange(min(50, len(train.domain)))
        few = cj.Table(train.domain.subset(columns), np.ascontiguousarray(train.codes[:, columns]))
        if len(columns) < len(train.domain):
            _, model = learn_joint(few)
        for share in MISSING:
            codes = few.codes[:1000].astype(np.uint16)
            codes[np.random.default_rng(0).random(codes.shape) < share] = np.iinfo(np.uint16).max
            rows, _ = timed(lambda m=model, c=codes: Completion(m, c).modes())
            reached = "met" if rows <= ROWS_GOAL else "MISSED"
            print(
                f"{'':<11} {len(codes):,} rows of {len(columns)} columns, {share:.0%} missing, imputed "
                f"in {rows:.2f} s, goal {ROWS_GOAL:.0f} s: {reached}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--defaults", type=lambda names: names.split(","))
    defaults = parser.parse_args().defaults
    print(machine())
    if "CONJOIN_DATA" not in os.environ:
        raise SystemExit("set CONJOIN_DATA to the folder of data sets")
    data = Path(os.environ["CONJOIN_DATA"])
    if defaults:
        default_networks(data / "debd", defaults)
        raise SystemExit
    warm_up()
    against_agrum(data / "bif")
    many_queries(data / "bif")
    uai_exact(data / "uai")
    approximations(data / "uai")
