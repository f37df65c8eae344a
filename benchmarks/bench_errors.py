"""Finding planted errors: cells that do not fit the rest of their rows, on the tables of $CONJOIN_DATA.

One known cell in a hundred is replaced by another value of its column: any other state with equal
probability or, of a number, one with a digit lost, doubled, replaced or swapped with the next (a slip of
the finger), or the value of another row (a value in the wrong line). The model is learned from the table
with its errors. Each method ranks all known cells; its precision is the share of planted errors among as
many cells as were planted. "ratio" ranks by how much more probable the most probable value is than the
one in the cell. Rivals: the rarity of the value in its column (of a number, its rank from either end),
and scikit-learn's IsolationForest, which ranks rows, with the rarest cell of each row in front. Numbers
are cut into five bins beforehand, or kept with --numbers. Tables are cut to the first
--rows rows of a random order.

    python benchmarks/bench_errors.py [--rows 2000] [--tables vote,car] [--seeds 3] [--numbers]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest

from bench_tables import binned
from conjoin import JointModel, Table, read_table, surprises
from goals import headline, machine

TABLES = (
    "bnlearn_alarm,bnlearn_asia,car,college_plans,credit_approval,mushroom,r_openintro_yrbss,"
    "south_german_credit,soybean,vote"
)
WITH_NUMBERS = (
    "abalone,autos,california_housing,credit_approval,hypothyroid,page_blocks,pima_diabetes"
)


def load(path, rows, rng, numbers):
    table = read_table(path) if numbers else binned(path)
    return table.select(rng.permutation(len(table))[:rows])


def mistyped(scale, x, rng):
    """Return a number with a digit lost, doubled, replaced or swapped with the next one."""
    text = scale.text(x)
    digits = [i for i, sign in enumerate(text) if sign.isdigit()]
    i, how = digits[rng.integers(len(digits))], rng.integers(4)
    if how == 0:
        text = text[:i] + text[i + 1 :]
    elif how == 1:
        text = text[:i] + text[i] + text[i:]
    elif how == 2:
        text = f"{text[:i]}{rng.integers(10)}{text[i + 1 :]}"
    else:
        text = text[:i] + text[i + 1 : i + 2] + text[i] + text[i + 2 :]
    try:
        return float(scale.rounded(scale.number(text)))
    except ValueError:
        return x


def planted(table, share, how, rng):
    """Return a table with errors, and where they are."""
    codes = np.where(table.holes, -1, table.codes.astype(np.int64))
    numbers = np.empty((len(table), 0)) if table.numbers is None else table.numbers.copy()
    varied = [v.numbers is not None or len(v.states) > 1 for v in table.domain]
    known = np.argwhere(~table.holes & np.array(varied))
    wanted, at = max(1, round(share * len(known))), np.zeros(codes.shape, bool)
    for row, column in known[rng.permutation(len(known))]:
        variable, other = table.domain.variables[column], rng.integers(len(codes))
        if variable.numbers is not None:
            values = numbers[:, table.domain.numeric.index(variable.name)]
            new = (
                mistyped(variable.numbers.scale, values[row], rng)
                if how == "slip"
                else values[other]
            )
            if new != values[row] and not np.isnan(new):
                values[row], at[row, column] = new, True
        else:
            states = codes[:, column]
            new = rng.integers(len(variable)) if how == "slip" else states[other]
            if new not in (states[row], -1):
                states[row], at[row, column] = new, True
        if at.sum() == wanted:
            break
    return Table.of_values(table.domain, codes, numbers), at


def rarity(table):
    """Return the negative logarithm of the frequency of each cell's value; -inf where it is missing."""
    result = np.full(table.holes.shape, -np.inf)
    for column, variable in enumerate(table.domain):
        known = ~table.holes[:, column]
        if variable.numbers is not None:
            x = table.column(variable.name)[known]
            ends = [np.searchsorted(np.sort(sign * x), sign * x, "right") for sign in (-1, 1)]
            result[known, column] = -np.log(np.minimum(*ends) / len(x))
        else:
            counts = table.counts(column)
            result[known, column] = -np.log(counts[table.codes[known, column]] / counts.sum())
    return result


def isolation(table, seed):
    """Return the anomaly of each row at its rarest cell, and below all of these at the other cells."""
    parts = [
        table.codes[:, [i]] == np.arange(len(variable))
        for i, variable in enumerate(table.domain)
        if variable.numbers is None
    ]
    if table.numbers is not None:
        middle = np.nanmedian(table.numbers, axis=0)
        parts.append(np.where(np.isnan(table.numbers), middle, table.numbers))
    rows = np.concatenate(parts, axis=1).astype(float)
    anomaly = -IsolationForest(random_state=seed).fit(rows).score_samples(rows)
    rare = rarity(table)
    place = np.argsort(np.argsort(-rare, axis=1), axis=1)
    return np.where(np.isneginf(rare), -np.inf, anomaly[:, None] - 10.0 * place)


def ours(table, seed, effort):
    """Return the surprise of each cell, and how much more probable the most probable value is."""
    cut = None if table.numbers is None else "auto"
    model = JointModel(discretize=cut, random_state=seed, effort=effort).fit(table)
    bits, ratio = (np.full(table.holes.shape, -np.inf) for _ in range(2))
    for cell in surprises(model, table):
        at = cell.row, table.names.index(cell.column)
        bits[at] = cell.surprise
        ratio[at] = np.log(cell.suggested_probability / max(cell.probability, 1e-300))
    return bits, ratio


def precision(score, at):
    top = np.argsort(-score, axis=None, kind="stable")[: at.sum()]
    return at.ravel()[top].mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--tables")
    parser.add_argument("--numbers", action="store_true")
    parser.add_argument("--effort", default="default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.01)
    options = parser.parse_args()
    folder = Path(os.environ["CONJOIN_DATA"]) / "tables"
    headline("Planted errors: precision at the number planted")
    print(machine())
    print("| table | rows | errors | kind | surprise | ratio | rarity | isolation forest | CPU s |")
    print("|---|--:|--:|---|--:|--:|--:|--:|--:|")
    every = []
    tables = options.tables or (WITH_NUMBERS if options.numbers else TABLES)
    for name in tables.split(","):
        for how in ("slip", "line"):
            results, spent = [], 0.0
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                rng = np.random.default_rng(seed)
                table = load(folder / f"{name}.csv.gz", options.rows, rng, options.numbers)
                wrong, at = planted(table, options.share, how, rng)
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    bits, ratio = ours(wrong, seed, options.effort)
                spent += (time.process_time() - start) / options.seeds
                scores = (bits, ratio, rarity(wrong), isolation(wrong, seed))
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
