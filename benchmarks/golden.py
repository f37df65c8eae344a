"""Golden results: what a change that only tidies up must not change.

Learns 20 tables of categories (14 binary sets, 6 tables with names; $CONJOIN_DATA), and records for each
one a hash of its conditionals and of its joint distribution, the likelihood of rows that were not learned
from, ten answers, and CPU seconds. Answers may differ by 1e-9, hashes not at all. Hashes depend on the
processor and on the releases of NumPy and numba: compare two commits on one machine.

    python benchmarks/golden.py --write before.json
    python benchmarks/golden.py --compare before.json [--sets vote,nltcs]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import conjoin as cj
from conjoin import learn_joint
from conjoin.scoring import log_likelihood
from goals import machine

DATA = Path(os.environ.get("CONJOIN_DATA", "../shared/data"))
BINARY = (
    "nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "bnetflix", "dna", "msweb", "book",
    "cwebkb", "cr52", "c20ng", "bbc",
)  # fmt: skip
TABLES = ("vote", "car", "mushroom", "soybean", "bnlearn_alarm", "college_plans")


def rows_of(name):
    """Return rows to learn from, to choose by (or None), and to score."""
    if name in BINARY:
        files = [DATA / "debd" / name / f"{name}.{p}.data.gz" for p in ("train", "valid", "test")]
        train = cj.read_table(files[0])
        return train, *(cj.read_table(path, train.domain) for path in files[1:])
    table = cj.read_table(DATA / "tables" / f"{name}.csv.gz")
    order = np.random.default_rng(7).permutation(len(table))[:6000]
    cut = len(order) * 4 // 5
    train, test = (cj.Table(table.domain, table.codes[p]) for p in (order[:cut], order[cut:]))
    return train, None, test


def digest(*arrays):
    found = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def network_digest(network):
    """Return a hash of the weights and tables of a Markov network."""
    rows = network.log_potential(np.zeros((1, len(network.domain)), np.int64))
    parts = [rows, network.features.weights, network.domain.cards]
    for factor in network.factors:
        parts += [np.array(factor.variables), getattr(factor, "values", np.zeros(0))]
    return digest(*parts)


def with_holes(table, rng):
    codes = table.codes[:100].copy()
    codes[rng.random(codes.shape) < 0.3] = table.missing
    return cj.Table(table.domain, codes)


def answers(joint, test):
    """Return ten lists of numbers: four marginals, two probabilities, two modes, rows, draws."""
    rng = np.random.default_rng(11)
    names, found = list(test.domain.names), []
    for number in range(8):
        row = test.codes[number]
        known = rng.choice(len(names), min(3, len(names) - 1), replace=False)
        given = {}
        for v in known.tolist():
            if row[v] != test.missing:
                given[names[v]] = test.domain[names[v]].states[row[v]]
        if number < 4:
            target = next(n for n in names if n not in given)
            found.append(list(cj.marginals(joint, given, targets=[target])[target].values()))
        elif number < 6:
            found.append([float(cj.probability(joint, given).log)])
        else:
            mode = cj.most_probable(joint, given)
            row = [test.domain[n].states.index(mode[n]) for n in names]
            found.append([float(code) for code in row])
    holes = with_holes(test, rng)
    found.append(log_likelihood(joint, holes).by_row.tolist())
    found.append(cj.sample(joint, 20, random_state=3).codes.sum(axis=1).tolist())
    return found


def measured(name):
    train, valid, test = rows_of(name)
    started = time.process_time()
    conditionals, joint = learn_joint(train, valid=valid)
    fitted = time.process_time()
    replies = answers(joint, test)
    replied = time.process_time()
    closed = cj.convert(conditionals, train)
    return {
        "conditionals": digest(closed.features.weights),
        "joint": network_digest(joint),
        "likelihood": log_likelihood(joint, test).mean,
        "answers": replies,
        "seconds to learn": round(fitted - started, 2),
        "seconds to answer": round(replied - fitted, 2),
    }


def differences(before, now):
    for what in ("conditionals", "joint"):
        if before[what] != now[what]:
            yield f"{what} {before[what]} -> {now[what]}"
    if abs(before["likelihood"] - now["likelihood"]) > 1e-9:
        yield f"likelihood {before['likelihood']:.6f} -> {now['likelihood']:.6f}"
    for number, (a, b) in enumerate(zip(before["answers"], now["answers"], strict=True)):
        if len(a) != len(b) or not np.allclose(a, b, rtol=1e-9, atol=1e-9):
            yield f"answer {number}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--sets", default=",".join((*TABLES, *BINARY)))
    options = parser.parse_args()
    before = json.loads(options.compare.read_text("utf-8")) if options.compare else {}
    results, changed = {}, 0
    print(machine())
    for name in options.sets.split(","):
        now = results[name] = measured(name)
        line = f"{name:14}{now['likelihood']:12.5f}{now['seconds to learn']:8.2f} CPU s"
        line += f"{now['seconds to answer']:8.2f}"
        if name in before:
            found = list(differences(before[name], now))
            changed += bool(found)
            line += f"  ({before[name]['seconds to learn']:.2f})  " + (", ".join(found) or "same")
        print(line, flush=True)
    if options.write:
        options.write.write_text(json.dumps(results), "utf-8")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
