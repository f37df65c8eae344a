"""All ways of learning a network: time, PLL, CMLL and log-likelihood of test rows.

    CONJOIN_DATA=FOLDER python benchmarks/bench_methods.py [--limit SECONDS] [--out FILE] [NAME ...]

FOLDER holds the data sets of debd. Networks are learned from the training rows, all choices are made on
the validation rows, and the test rows are scored once. Each method has a process of its own per data
set, which is stopped at the limit; it leaves the scores that it had. Results are kept in FILE, so that
the same command resumes. Printed are how each method does, and some pairs of methods.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from conjoin import Table, convert, learn_conditionals, learn_joint, pll
from conjoin.conversion.closed_form import MAX_LENGTH
from conjoin.data.holdout import sample_rows
from conjoin.errors import ConjoinError
from conjoin.inference import forecast
from conjoin.joint import learn_weights, tree_network
from conjoin.models import BayesianNetwork
from conjoin.research import learn_features, learn_say, to_bayesian_network, weighted_conversion
from conjoin.research.reproduction import DATA_SETS, Files, find_folder
from conjoin.scoring import cmll, log_likelihood, signed_ranks

MAX_BYTES = 1 << 30
"""The likelihood is computed if exact inference needs at most this much memory."""

CMLL_ROWS = 1_000
"""Maximum number of test rows by which CMLL is measured, the same for all methods."""

MAX_EXPANDED = 5e6
"""Averages over all orders are written out as plain conjunctions if there are at most this many."""

Method = Callable[[Table, Table], Any]
Results = dict[str, dict[str, dict[str, Any]]]
"""{data set: {method: figures}}."""


def conditionals(cpd: str, train: Table, valid: Table) -> Any:
    return learn_conditionals(train, cpd, valid=valid, n_jobs=1, exhaustive=True)


def closed_form(cpd: str, train: Table, valid: Table) -> Any:
    return convert(conditionals(cpd, train, valid), train)


def all_orders(cpd: str, weighted: bool, train: Table, valid: Table) -> Any:
    dn = conditionals(cpd, train, valid)
    # Chains are sampled much faster if all features are plain conjunctions.
    lengths = dn.features()[0].lengths
    longest = int(lengths.max(initial=0)) if (2.0**lengths).sum() <= MAX_EXPANDED else MAX_LENGTH
    settings = {"orders": "all", "max_length": max(longest, MAX_LENGTH)}
    if not weighted:
        return convert(dn, train, **settings)
    return weighted_conversion(dn, train, learn_say(dn, train, valid), **settings)


def weights(cpd: str, train: Table, valid: Table) -> Any:
    return learn_weights(conditionals(cpd, train, valid), train, valid=valid, n_jobs=1)


def bayesian(way: str, train: Table, valid: Table) -> Any:
    return to_bayesian_network(conditionals("tree", train, valid), train, way, valid=valid)


def features(way: str, train: Table, valid: Table) -> Any:
    return learn_features(train, way, valid=valid, n_jobs=1)


METHODS: dict[str, Method] = {
    "closed form, trees, 2n rotations": partial(closed_form, "tree"),
    "closed form, trees, all orders": partial(all_orders, "tree", False),
    "closed form, trees, weighted": partial(all_orders, "tree", True),
    "closed form, logistic": partial(closed_form, "logistic"),
    "closed form, logistic, weighted": partial(all_orders, "logistic", True),
    "closed form, hybrid": partial(closed_form, "hybrid"),
    "closed form, hybrid, weighted": partial(all_orders, "hybrid", True),
    "weight learning (Ravikumar et al.)": partial(weights, "logistic"),
    "weight learning, trees": partial(weights, "tree"),
    "maximum-likelihood tree (Chow and Liu)": lambda train, _: tree_network(train),
    "Bayesian network, cycles broken (Hulten et al.)": partial(bayesian, "break-cycles"),
    "Bayesian network, by order": partial(bayesian, "order"),
    "default joint": lambda train, valid: learn_joint(train, valid=valid, n_jobs=1)[1],
    "top-down (Della Pietra et al.)": partial(features, "top-down"),
    "bottom-up (Davis and Domingos)": partial(features, "bottom-up"),
}

HULTEN, TREES, RAVIKUMAR = (
    "Bayesian network, cycles broken (Hulten et al.)",
    "closed form, trees, 2n rotations",
    "weight learning (Ravikumar et al.)",
)
PAIRS = (
    (HULTEN, "Bayesian network, by order"),
    (HULTEN, TREES),
    ("top-down (Della Pietra et al.)", RAVIKUMAR),
    ("bottom-up (Davis and Domingos)", RAVIKUMAR),
    ("closed form, logistic", RAVIKUMAR),
    ("closed form, trees, weighted", TREES),
    ("closed form, trees, weighted", "closed form, trees, all orders"),
    ("closed form, logistic, weighted", "closed form, logistic"),
    ("closed form, hybrid, weighted", "closed form, hybrid"),
)
"""The methods that are compared with each other."""


def figures(name: str, method: str) -> Iterator[dict[str, float]]:
    """Yield the time of a method, and then its scores."""
    files = Files(name, find_folder(None))
    train, valid, test = files.train, files.valid, files.test
    started = time.process_time()
    model = METHODS[method](train, valid)
    yield {"seconds": time.process_time() - started}
    yield {"pll": pll(model, test, n_jobs=1).mean}
    few = sample_rows(test, CMLL_ROWS, np.random.default_rng(0))
    yield {"cmll": cmll(model, few, n_jobs=1).mean}
    if isinstance(model, BayesianNetwork) or fits(model):
        yield {"ll": log_likelihood(model, test).mean}
    yield {"finished": 1.0}


def fits(model: Any) -> bool:
    try:
        return forecast(model, max_memory=MAX_BYTES).bytes <= MAX_BYTES
    except ConjoinError:
        return False


def send(name: str, method: str, pipe: Any) -> None:
    for part in figures(name, method):
        pipe.send(part)
    pipe.close()


def run(name: str, method: str, limit: float) -> dict[str, float]:
    """Run a method in a process of its own; return its figures up to the limit."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=send, args=(name, method, theirs))
    process.start()
    theirs.close()
    process.join(limit)
    process.kill()
    process.join()
    found: dict[str, float] = {}
    try:
        while ours.poll():
            found |= ours.recv()
    except EOFError:
        pass
    return found


def summary(results: Results) -> None:
    """Print how each method does over all data sets."""
    print(
        "| method | finished | PLL below the best, mean | CPU seconds, all data sets |\n|---|---|---|---|"
    )
    for method in METHODS:
        found = {name: by[method] for name, by in results.items() if method in by}
        gaps = [
            score["pll"] / max(r["pll"] for r in results[name].values() if "pll" in r) - 1
            for name, score in found.items()
            if "pll" in score
        ]
        mean = f"{100 * np.mean(gaps):.1f}%" if gaps else ""
        seconds = sum(score.get("seconds", 0.0) for score in found.values())
        done = sum("finished" in score for score in found.values())
        print(f"| {method} | {done} of {len(found)} | {mean} | {seconds:.0f} |")


def against(results: Results, method: str, rival: str) -> str:
    """Return on how many data sets a method is better, and the mean difference, by every score."""
    cells = []
    for key in ("pll", "cmll", "ll", "seconds"):
        both = [(by.get(method, {}), by.get(rival, {})) for by in results.values()]
        pairs = np.array([(a[key], b[key]) for a, b in both if key in a and key in b]).reshape(
            -1, 2
        )
        first, second = pairs.T
        if not len(pairs):
            cells.append("")
        elif key == "seconds":
            ratio = np.log(np.maximum(first, 1e-3) / np.maximum(second, 1e-3)).mean()
            cells.append(f"× {np.exp(ratio):.2g}")
        else:
            ranks = signed_ranks(first, second)
            ties = f" ({ranks.ties} ties)" if ranks.ties else ""
            mean = f"mean {(first - second).mean():+.2f}, p = {ranks.p_value:.3f}"
            cells.append(f"better on {ranks.wins} of {len(pairs)}{ties}, {mean}")
    return f"| {method} | {rival} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*DATA_SETS, "dna", "bbc"])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per method and data set")
    parser.add_argument("--out", type=Path, default=Path("bench_methods.json"))
    options = parser.parse_args()
    kept: Results = json.loads(options.out.read_text()) if options.out.is_file() else {}
    for name in options.names:
        for method in METHODS:
            if method not in kept.setdefault(name, {}):
                kept[name][method] = run(name, method, options.limit)
                options.out.write_text(json.dumps(kept, indent=1))
    summary(kept)
    print(
        "\n| method | rival | PLL | CMLL | log-likelihood | CPU time |\n|---|---|---|---|---|---|"
    )
    for pair in PAIRS:
        print(against(kept, *pair))
