"""Finding planted errors: cells that do not fit the rest of their rows, on the tables of $CONJOIN_DATA.

Four kinds of errors, each in 1% of the cells that can have it, or of the rows:

- exchanged: two numbers of a row change places;
- slip: a number is multiplied or divided by ten;
- category: a category becomes another one of its column, all with equal probability;
- copy: a cell of any kind gets the value of another row.

The model is learned from the table with its errors. Each method ranks all known cells; its precision is
the share of wrong cells among as many cells as are wrong. Rivals: the rarity of the value in its column
(of a number, its rank from either end), and scikit-learn's IsolationForest, which ranks rows, with the
rarest cell of each row in front. "rows" is the share of rows with exchanged numbers that are odder than
99% of the rows without. Tables are cut to the first --rows rows of a random order.

    python benchmarks/bench_errors.py [--rows 2000] [--tables autos,mushroom] [--seeds 3] [--first-seed 0]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest

from conjoin import JointModel, read_table, surprises
from goals import headline, machine

TABLES = (
    "tables/abalone,tables/autos,tables/california_housing,tables/credit_approval,tables/hypothyroid,"
    "tables/page_blocks,tables/pima_diabetes,tables/r_openintro_yrbss,tables/south_german_credit,"
    "large/diamonds,tables/mushroom"
)
KINDS = ("exchanged", "slip", "category", "copy")
WHO = ("surprise", "rarity", "isolation forest")


def load(path, rows, rng):
    """Return a frame, and the scales of its columns of numbers."""
    table = read_table(path)
    table = table.select(rng.permutation(len(table))[:rows])
    scales = {name: table.domain.scale(name) for name in table.domain.numeric}
    columns = {}
    for v, variable in enumerate(table.domain):
        if variable.name in scales:
            columns[variable.name] = table.column(variable.name)
            continue
        labels = np.array([*map(str, variable.states), None], object)
        code = np.where(table.holes[:, v], len(variable), table.codes[:, v].astype(int))
        columns[variable.name] = labels[code]
    return pd.DataFrame(columns), scales


def planted(frame, scales, kind, share, rng):
    """Return a frame with errors, and where they are; None if no column can have them."""
    names, at = list(frame.columns), np.zeros(frame.shape, bool)
    numbers = [i for i, name in enumerate(names) if name in scales]
    columns = {
        "exchanged": numbers if len(numbers) > 1 else [],
        "slip": numbers,
        "category": [i for i in range(len(names)) if i not in numbers],
        "copy": list(range(len(names))),
    }[kind]
    columns = [i for i in columns if kind == "exchanged" or frame.iloc[:, i].nunique() > 1]
    if not columns:
        return None
    known = frame.notna().to_numpy()
    values = [frame.iloc[:, i].to_numpy(copy=True) for i in range(len(names))]
    if kind == "exchanged":
        wanted = max(1, round(share * len(frame)))
        for row in rng.permutation(len(frame)):
            i, j = rng.permutation(columns)[:2]
            if known[row, i] and known[row, j] and values[i][row] != values[j][row]:
                values[i][row], values[j][row] = values[j][row], values[i][row]
                at[row, [i, j]] = True
            if at.sum() == 2 * wanted:
                break
    else:
        can_be_wrong = np.zeros(frame.shape, bool)
        can_be_wrong[:, columns] = known[:, columns]
        cells = np.argwhere(can_be_wrong)
        wanted = max(1, round(share * len(cells)))
        for row, i in cells[rng.permutation(len(cells))]:
            old = values[i][row]
            if kind == "slip":
                new = float(scales[names[i]].rounded(old * (10 if rng.random() < 0.5 else 0.1)))
            elif kind == "category":
                states = sorted(set(values[i][known[:, i]]))
                new = states[rng.integers(len(states))]
            else:
                new = values[i][rng.integers(len(frame))]
            if not pd.isna(new) and new != old:
                values[i][row], at[row, i] = new, True
            if at.sum() == wanted:
                break
    return pd.DataFrame(dict(zip(names, values, strict=True))), at


def rarity(frame, scales):
    """Return the negative logarithm of the frequency of each cell's value; -inf where it is missing."""
    result = np.full(frame.shape, -np.inf)
    for i, name in enumerate(frame.columns):
        known = frame[name].notna().to_numpy()
        x = frame[name].to_numpy()[known]
        if name in scales:
            ends = [np.searchsorted(np.sort(sign * x), sign * x, "right") for sign in (-1, 1)]
            result[known, i] = -np.log(np.minimum(*ends) / len(x))
        else:
            _, inverse, count = np.unique(x.astype(str), return_inverse=True, return_counts=True)
            result[known, i] = -np.log(count[inverse] / len(x))
    return result


def isolation(frame, scales, rare, seed):
    """Return the anomaly of each row, and of each cell: rows in order, their rarest cells before all."""
    parts = [
        frame[[name]].fillna(frame[name].median())
        if name in scales
        else pd.get_dummies(frame[name])
        for name in frame.columns
    ]
    rows = np.concatenate([part.to_numpy(float) for part in parts], axis=1)
    anomaly = -IsolationForest(random_state=seed).fit(rows).score_samples(rows)
    place = np.argsort(np.argsort(-rare, axis=1), axis=1)
    return anomaly, np.where(np.isneginf(rare), -np.inf, anomaly[:, None] - 10.0 * place)


def ours(frame, seed, effort):
    """Return the surprise of each row and of each cell, and the CPU seconds of learning and checking."""
    start = time.process_time()
    model = JointModel(random_state=seed, effort=effort).fit(frame)
    learned = time.process_time()
    ranking = surprises(model, frame)
    spent = learned - start, time.process_time() - learned
    cells, rows = np.full(frame.shape, -np.inf), np.zeros(len(frame))
    names = list(frame.columns)
    for cell in ranking:
        cells[cell.row, names.index(cell.column)] = cell.surprise
    for row in ranking.odd_rows(len(frame)):
        rows[row.row] = row.surprise
    return rows, cells, spent


def precision(score, at):
    top = np.argsort(-score, axis=None, kind="stable")[: at.sum()]
    return at.ravel()[top].mean()


def in_front(score, wrong):
    """Return the share of wrong rows that are odder than 99% of the others."""
    return (score[wrong] > np.quantile(score[~wrong], 0.99)).mean()


def measured(path, kind, seed, options):
    """Return the number of errors, precisions, shares of rows in front, and seconds; or None."""
    rng = np.random.default_rng(seed)
    frame, scales = load(path, options.rows, rng)
    errors = planted(frame, scales, kind, options.share, rng)
    if errors is None:
        return None
    wrong, at = errors
    rows, cells, spent = ours(wrong, seed, options.effort)
    rare = rarity(wrong, scales)
    anomaly, isolated = isolation(wrong, scales, rare, seed)
    precisions = [precision(score, at) for score in (cells, rare, isolated)]
    bad, rarest = at.any(axis=1), np.where(np.isneginf(rare), 0.0, rare).max(axis=1)
    shares = [in_front(score, bad) for score in (rows, rarest, anomaly)]
    return at.sum(), precisions, shares, spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--tables", default=TABLES)
    parser.add_argument("--effort", default="default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.01)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    headline("Planted errors: precision at the number planted")
    print(machine())
    print("| table | kind | errors | " + " | ".join(WHO) + " | learn, check CPU s |")
    print("|---|---|--:|--:|--:|--:|--:|")
    precisions, shares, seconds = {kind: [] for kind in KINDS}, [], np.zeros(2)
    for name in options.tables.split(","):
        path = Path(os.environ["CONJOIN_DATA"]) / f"{name}.csv.gz"
        for kind in KINDS:
            seeds = range(options.first_seed, options.first_seed + options.seeds)
            results = [measured(path, kind, seed, options) for seed in seeds]
            if results[0] is None:
                continue
            count, found, rows, spent = (
                np.mean([result[k] for result in results], axis=0) for k in range(4)
            )
            precisions[kind].append(found)
            seconds += spent
            shares += [rows] if kind == "exchanged" else []
            cells = " | ".join(f"{x:.3f}" for x in found)
            print(f"| {name} | {kind} | {count:.0f} | {cells} | {spent[0]:.1f}, {spent[1]:.1f} |",
                  flush=True)  # fmt: skip
    means = {kind: np.mean(found, axis=0) for kind, found in precisions.items() if found}
    for kind, mean in means.items():
        verdict = "met" if mean[0] > max(mean[1:]) else "MISSED"
        print(
            f"| mean | {kind} | | {' | '.join(f'{x:.3f}' for x in mean)} | |   goal ahead, {verdict}"
        )
    mean = np.mean(list(means.values()), axis=0)
    times = mean[0] / max(mean[1:])
    verdict = "met" if times >= 1.5 else "MISSED"
    print(f"| mean | all | | {' | '.join(f'{x:.3f}' for x in mean)} | |   {times:.2f} times, goal 1.5, "
          f"{verdict}")  # fmt: skip
    if shares:
        mean = np.mean(shares, axis=0)
        verdict = "met" if mean[0] >= 0.9 else "MISSED"
        print(f"| mean | rows | | {' | '.join(f'{x:.3f}' for x in mean)} | |   goal 0.9, {verdict}")
    times = seconds[1] / seconds[0]
    print(f"checking takes {times:.2f} times learning, goal 3, {'met' if times <= 3 else 'MISSED'}")


if __name__ == "__main__":
    main()
