"""Conversion and files: goals, growth and memory.

    python benchmarks/bench_conversion.py

The rival measured in the same run is the plain way to do the same job: the paper's Tables 1 and 2
written as loops over features and rotations, with a dictionary for the merging.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from conjoin import DependencyNetwork, convert, load, read_table, write_table
from conjoin.conversion.base_distribution import Product
from conjoin.models import LogLinearCPD
from goals import best_of, headline, machine, report
from synthetic import random_network, random_table


def plain_conversion(dn: DependencyNetwork, q: list[np.ndarray]) -> dict[tuple, float]:
    """Average over all rotations of the order and its reverse, feature by feature, in Python."""
    n = len(dn.domain)
    features, owner = dn.features()
    members = features.tests.members()
    merged: dict[tuple, float] = {}
    for f, (weight, tests) in enumerate(features):
        target = int(owner[f])
        listed = [(int(features.tests.var[t]), int(t)) for t in tests]
        probability = {
            t: float(q[v][: members.shape[1]] @ members[t, : len(q[v])]) for v, t in listed
        }
        for sign in (1, -1):
            around = sorted(listed, key=lambda item: sign * (item[0] - target) % n)
            places = [sign * (v - target) % n for v, _ in around] + [n]
            for kept in range(1, len(around) + 1):
                share = weight * (places[kept] - places[kept - 1]) / (2 * n)
                for _, t in around[kept:]:
                    share *= probability[t]
                tests_kept = [t for _, t in around[:kept]]
                for key, w in (
                    (tuple(sorted(tests_kept)), share),
                    (tuple(sorted(tests_kept[1:])), -share * probability[tests_kept[0]]),
                ):
                    if key:
                        merged[key] = merged.get(key, 0.0) + w
    return merged


def fresh(dn: DependencyNetwork) -> DependencyNetwork:
    return DependencyNetwork(dn.domain, dn.cpds)


def at_audio_size() -> None:
    headline("100 variables, 3,500 leaves, 2n rotations with merging, one core")
    dn = random_network(100, 35)
    table = random_table(dn.domain, 15_000)
    base = Product(table.marginals())
    mn = convert(dn, base=base)
    seconds = best_of(lambda: convert(dn, base=base), 40)
    report(f"convert, {len(mn.features):,} features", seconds, goal=0.010)
    report(
        "the first time: features read off the trees too",
        best_of(lambda: convert(fresh(dn), base=base)),
    )
    report("marginals of 15,000 rows", best_of(table.marginals))
    start = time.perf_counter()
    rival = plain_conversion(dn, base.marginals)
    plain = time.perf_counter() - start
    same = len(rival) == len(mn.features)
    report(
        "the same in plain Python loops",
        plain,
        note=f"{plain / seconds:.0f} times slower; same size: {same}",
    )
    for longest in (6, 0):
        options = {"base": base, "orders": "all", "max_length": longest}
        count = len(convert(dn, **options).features)
        label = f"all orders, expanded up to {longest} tests, {count:,} features"
        report(label, best_of(lambda o=options: convert(dn, **o), 3))


def logistic() -> None:
    headline("Logistic CPDs")
    rng = np.random.default_rng(0)
    for n in (100, 400):
        domain = random_network(n, 1).domain
        cpds = [
            LogLinearCPD.of(
                domain,
                v.name,
                [(0.1, {v.name: v.states[1]})]
                + [
                    (float(rng.normal()), {v.name: v.states[1], u.name: u.states[1]})
                    for u in domain
                    if u is not v
                ],
            )
            for v in domain
        ]
        dn = DependencyNetwork(domain, cpds)
        dn.features()
        report(f"{n} variables, {n * n:,} weights", best_of(lambda d=dn: convert(d), 5))


def growth() -> None:
    headline("Growth with the network")
    for trees in (100, 200, 400, 800, 1600):
        dn = random_network(trees, 35)
        dn.features()
        mn = convert(dn)
        seconds = best_of(lambda d=dn: convert(d), 3)
        count, each = len(mn.features), seconds / len(mn.features) * 1e9
        print(
            f"{trees:>6} trees {count:>10,} features {seconds * 1e3:>9.1f} ms {each:>7.0f} ns each"
        )


def five_million() -> None:
    headline("5 million output features within 2 GiB (in a process of its own)")
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from synthetic import random_network\n"
        "from conjoin import convert\n"
        "dn = random_network(3000, 100, depth=12)\n"
        "start = time.perf_counter(); mn = convert(dn); seconds = time.perf_counter() - start\n"
        "import resource\n"
        "print(len(mn.features), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    count, seconds, gib = (float(x) for x in done.stdout.split())
    verdict = "met" if gib <= 2 and count >= 5e6 else "MISSED"
    print(
        f"{count:,.0f} features in {seconds:.1f} s, peak memory {gib:.2f} GiB: goal 2 GiB {verdict}"
    )


def files() -> None:
    headline("Files")
    dn = random_network(100, 35)
    table = random_table(dn.domain, 15_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dn.save(folder / "audio.dn")
        write_table(table, folder / "audio.data")
        mn = convert(dn, table)
        report(
            "read 15,000 x 100 .data",
            best_of(lambda: read_table(folder / "audio.data", dn.domain)),
            0.005,
        )
        start = time.perf_counter()
        np.loadtxt(folder / "audio.data", np.uint8, delimiter=",")
        rival = time.perf_counter() - start
        report("the same by numpy.loadtxt", rival)
        for ending in (".conjoin", ".mn"):
            path = folder / f"model{ending}"
            report(
                f"write {ending}, {len(mn.features):,} features",
                best_of(lambda p=path: mn.save(p), 5),
            )
            report(f"read {ending}", best_of(lambda p=path: load(p), 3))
        command = [sys.executable, "-m", "conjoin"]
        convert_it = [*command, "convert", "audio.dn", "-o", "audio.mn", "--data", "audio.data"]
        for what, arguments, goal in (
            ("import conjoin", [sys.executable, "-c", "import conjoin"], 0.3),
            ("conjoin --help", [*command, "--help"], 0.3),
            ("conjoin convert, data and model included", convert_it, 0.3),
        ):
            run = lambda a=arguments: subprocess.run(a, cwd=folder, capture_output=True, check=True)  # noqa: E731
            report(what, best_of(run, 7), goal)


if __name__ == "__main__":
    print(machine())
    at_audio_size()
    logistic()
    growth()
    five_million()
    files()
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
