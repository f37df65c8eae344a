"""Finding planted errors: cells that do not fit the rest of their rows, on the tables of $CONJOIN_DATA.

One known cell in a hundred is replaced by another state of its column: any other with equal
probability (a slip of the finger), or the value of another row (a value in the wrong line). The model is
learned from the table with its errors. Each method ranks all known cells; its precision is the share of
planted errors among as many cells as were planted. Rivals: the rarity of the value in its column, and
scikit-learn's IsolationForest, which ranks rows, with the rarest cell of each row in front. Numbers with
many values are cut into five bins beforehand. Tables are cut to the first --rows rows of a random order.

    python benchmarks/bench_errors.py [--rows 2000] [--tables vote,car] [--seeds 3]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest

from conjoin import JointModel, Table, surprises
from conjoin.data.columns import columns_with_values, table_of_columns
from conjoin.data.discretization import continuous, discretize_by
from conjoin.formats.table_files import read_columns
from goals import headline, machine

TABLES = (
    "bnlearn_alarm,bnlearn_asia,car,college_plans,credit_approval,mushroom,r_openintro_yrbss,"
    "south_german_credit,soybean,vote"
)


def load(path, rows, rng):
    table = table_of_columns(columns_with_values(read_columns(path)))
    table = Table(table.domain, table.codes[rng.permutation(len(table))[:rows]])
    bins = {v.name: "quantile:5" for v in table.domain if continuous(v.states)}
    return discretize_by(table, bins)[0] if bins else table


def planted(table, share, how, rng):
    """Return a table with errors, and where they are."""
    codes, cards = table.codes.astype(np.int64), table.domain.cards
    known = np.argwhere((table.codes != table.missing) & (cards > 1))
    cells = known[rng.permutation(len(known))]
    wanted, done = max(1, round(share * len(known))), []
    for r, v in cells:
        old = codes[r, v]
        new = rng.integers(cards[v]) if how == "slip" else table.codes[rng.integers(len(codes)), v]
        if new != old and new != table.missing:
            codes[r, v] = new
            done.append((r, v))
        if len(done) == wanted:
            break
    at = np.zeros(codes.shape, bool)
    at[tuple(np.array(done).T)] = True
    return Table(table.domain, codes.astype(table.codes.dtype)), at


def rarity(table):
    """Return the negative logarithm of the frequency of each cell's value; -inf where it is missing."""
    result = np.full(table.codes.shape, -np.inf)
    for v in range(len(table.domain)):
        known = table.codes[:, v] != table.missing
        counts = table.counts(v)
        result[known, v] = -np.log(counts[table.codes[known, v]] / counts.sum())
    return result


def isolation(table, seed):
    """Return the anomaly of each row at its rarest cell, and below all of these at the other cells."""
    hot = [table.codes[:, [v]] == np.arange(card) for v, card in enumerate(table.domain.cards)]
    rows = np.concatenate(hot, axis=1).astype(float)
    anomaly = -IsolationForest(random_state=seed).fit(rows).score_samples(rows)
    rare = rarity(table)
    place = np.argsort(np.argsort(-rare, axis=1), axis=1)
    return np.where(np.isneginf(rare), -np.inf, anomaly[:, None] - 10.0 * place)


def ours(table, seed):
    """Return the surprise of each cell, and the negative logarithm of its probability."""
    found = surprises(JointModel(discretize=None, random_state=seed).fit(table), table)
    gap, low = (np.full(table.codes.shape, -np.inf) for _ in range(2))
    position = [table.domain.index(name) for name in found.names]
    for cell in found:
        at = cell.row, position[found.names.index(cell.column)]
        gap[at], low[at] = cell.surprise, -np.log(max(cell.probability, 1e-300))
    return gap, low


def precision(score, at):
    top = np.argsort(-score, axis=None, kind="stable")[: at.sum()]
    return at.ravel()[top].mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--tables", default=TABLES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.01)
    options = parser.parse_args()
    folder = Path(os.environ["CONJOIN_DATA"]) / "tables"
    headline("Planted errors: precision at the number planted")
    print(machine())
    print(
        "| table | rows | errors | kind | surprise | -log P | rarity | isolation forest | CPU s |"
    )
    print("|---|--:|--:|---|--:|--:|--:|--:|--:|")
    every = []
    for name in options.tables.split(","):
        for how in ("slip", "line"):
            results, spent = [], 0.0
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                rng = np.random.default_rng(seed)
                table = load(folder / f"{name}.csv.gz", options.rows, rng)
                wrong, at = planted(table, options.share, how, rng)
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    gap, low = ours(wrong, seed)
                spent += (time.process_time() - start) / options.seeds
                scores = (gap, low, rarity(wrong), isolation(wrong, seed))
                results.append([precision(score, at) for score in scores])
            mean = np.mean(results, axis=0)
            every.append(mean)
            cells = " | ".join(f"{x:.3f}" for x in mean)
            print(
                f"| {name} | {len(table)} | {at.sum()} | {how} | {cells} | {spent:.1f} |",
                flush=True,
            )
    cells = " | ".join(f"{x:.3f}" for x in np.mean(every, axis=0))
    print(f"| mean | | | | {cells} | |")


if __name__ == "__main__":
    main()
