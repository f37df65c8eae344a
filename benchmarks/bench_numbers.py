"""Numbers: log-densities of rows, coverage of intervals, and hidden numbers filled in.

Tables of $CONJOIN_DATA, cut to --rows random rows; 70% train, 30% test; means over columns, and seeds.

row        log-density of a test row, nats; numbers count per unit of their column
covered    numbers in their 90% interval, given the rest of the row: mean over columns (lowest to highest)
nRMSE      root mean squared error of numbers, 20% of the test cells hidden, over the column's deviation

Rivals of nRMSE: the column's mean; IterativeImputer (ridge regression on numbers and indicators); a
random forest per column on the others, three rounds from column means, as missForest does. Times are CPU
seconds of one thread: learning and filling in; kernels are compiled before.

    python benchmarks/bench_numbers.py [--rows 5000] [--tables abalone,autos] [--seeds 0,1]
        [--effort quick] [--rivals none]
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from threadpoolctl import threadpool_limits

from bench_columns import Split, paths, read
from column_scores import Kinds, as_numbers
from conjoin import JointModel
from goals import cpu, headline, machine

TABLES = (
    "abalone", "california_housing", "page_blocks", "hypothyroid", "credit_approval", "pima_diabetes",
    "south_german_credit", "autos",
)  # fmt: skip
LEAST, MOST = 0.87, 0.96  # of the numbers in their 90% intervals
HIDDEN, ROUNDS = 0.2, 3


@dataclass(frozen=True)
class Cells:
    """The rows of a split as arrays of numbers, then states of categories; which cells are hidden."""

    train: np.ndarray
    test: np.ndarray
    hidden: np.ndarray
    states: list[int]  # of the categories

    @classmethod
    def of(cls, split: Split, kinds: Kinds, hidden: pd.DataFrame) -> Cells:
        train, test = (
            np.column_stack(
                [as_numbers(part[name]) for name in kinds.numbers]
                + [kinds.codes(part[name]) for name in kinds.states]
            )
            for part in (split.train, split.test)
        )
        asked = hidden[[*kinds.numbers, *kinds.states]].to_numpy() & ~np.isnan(test)
        return cls(train, test, asked, [len(states) for states in kinds.states.values()])

    @property
    def lacking(self) -> np.ndarray:
        return np.where(self.hidden, np.nan, self.test)

    @property
    def numbers(self) -> int:
        return self.train.shape[1] - len(self.states)

    def nrmse(self, filled: np.ndarray) -> float:
        """Return the mean over columns; `filled` may lack the categories."""
        errors = []
        for j in range(self.numbers):
            at, deviation = self.hidden[:, j], np.nanstd(self.train[:, j])
            if at.any() and deviation > 0:
                error = filled[at, j] - self.test[at, j]
                errors.append(np.sqrt(np.mean(error**2)) / deviation)
        return float(np.mean(errors))

    def indicators(self, x: np.ndarray) -> np.ndarray:
        """Return numbers, and a column per state of a category."""
        columns = [x[:, : self.numbers]]
        for codes, states in zip(x.T[self.numbers :], self.states, strict=True):
            own = (codes[:, None] == np.arange(states)).astype(float)
            own[np.isnan(codes)] = np.nan
            columns.append(own)
        return np.column_stack(columns)


def ridge(cells: Cells) -> np.ndarray:
    imputer = IterativeImputer(random_state=0, keep_empty_features=True)
    return imputer.fit(cells.indicators(cells.train)).transform(cells.indicators(cells.lacking))


def forests(cells: Cells) -> np.ndarray:
    middle = np.array([
        np.nanmean(c) if j < cells.numbers else np.bincount(c[~np.isnan(c)].astype(int)).argmax()
        for j, c in enumerate(cells.train.T)
    ])  # fmt: skip
    filled = np.where(np.isnan(cells.train), middle, cells.train)
    hole = np.isnan(cells.lacking)
    result, trees = np.where(hole, middle, cells.lacking), []
    for j in range(filled.shape[1]):
        known = ~np.isnan(cells.train[:, j])
        make = RandomForestRegressor if j < cells.numbers else RandomForestClassifier
        forest = make(100, random_state=0)
        trees.append(forest.fit(np.delete(filled, j, axis=1)[known], filled[known, j]))
    for _ in range(ROUNDS):
        for j, forest in enumerate(trees):
            if hole[:, j].any():
                result[hole[:, j], j] = forest.predict(np.delete(result, j, axis=1)[hole[:, j]])
    return result


def covered(model: JointModel, kinds: Kinds, test: pd.DataFrame) -> list[float]:
    """Return the share of each number's values that lie in their 90% intervals."""
    shares = []
    for name in kinds.numbers:
        rows = test[test[name].notna()]
        low, high = model.interval(rows, 0.9, target=name).T
        truth = as_numbers(rows[name])
        shares.append(np.mean((as_numbers(low) <= truth) & (truth <= as_numbers(high))))
    return shares


def means(model: JointModel, kinds: Kinds, lacking: pd.DataFrame) -> np.ndarray:
    """Return the numbers of the rows, missing ones filled in with their means."""
    columns = []
    for name in kinds.numbers:
        values, missing = as_numbers(lacking[name]).copy(), lacking[name].isna().to_numpy()
        if missing.any():
            values[missing] = as_numbers(model.predict(lacking[missing], target=name))
        columns.append(values)
    return np.column_stack(columns)


def measured(split: Split, seed: int, options: argparse.Namespace) -> dict[str, float]:
    fit, model = cpu(lambda: JointModel(effort=options.effort, unseen="missing").fit(split.train))
    kinds = Kinds.of(model, split.train)
    at = np.random.default_rng([seed, 2]).random(split.test.shape) < HIDDEN
    hidden = pd.DataFrame(at, columns=split.test.columns)
    cells = Cells.of(split, kinds, hidden)
    fill, filled = cpu(lambda: means(model, kinds, split.test.mask(hidden)))
    shares = covered(model, kinds, split.test)
    found = {
        "row": float(model.score_samples(split.test).mean()),
        "covered": float(np.mean(shares)), "lowest": min(shares), "highest": max(shares),
        "nRMSE": cells.nrmse(filled), "seconds": fit + fill,
        "mean": cells.nrmse(np.broadcast_to(np.nanmean(cells.train, axis=0), cells.test.shape)),
    }  # fmt: skip
    if options.rivals == "forests":
        found["ridge"] = cells.nrmse(ridge(cells))
        seconds, grown = cpu(lambda: forests(cells))
        found |= {"forests": cells.nrmse(grown), "forests took": seconds}
    return found


def line(name: str, r: dict[str, float]) -> str:
    rivals = "".join(f"{r.get(rival, np.nan):>9.3f}" for rival in ("forests", "ridge", "mean"))
    return (
        f"{name:<22}{r['row']:>9.2f}{r['covered']:>9.3f} ({r['lowest']:.3f} to {r['highest']:.3f})"
        f"{r['nRMSE']:>9.3f}{rivals}{r['seconds']:>9.1f} s"
        f"{r.get('forests took', np.nan):>9.1f} s"
    )


def print_goals(results: list[dict[str, float]]) -> None:
    count = len(results)
    inside = sum(LEAST <= r["covered"] <= MOST for r in results)
    print(f"covered between {LEAST} and {MOST} on {inside} of {count} tables: goal all, "
          f"{'met' if inside == count else 'MISSED'}")  # fmt: skip
    if "forests" in results[0]:
        better = sum(r["nRMSE"] <= r["forests"] + 0.005 for r in results)
        print(f"nRMSE at most that of forests + .005 on {better} of {count} tables: goal most, "
              f"{'met' if 2 * better > count else 'MISSED'}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--effort", default="default")
    parser.add_argument("--rivals", choices=("none", "forests"), default="forests")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    headline("log-density of rows, 90% intervals, nRMSE of hidden numbers")
    print(f"{'':<22}{'row':>9}{'covered':>9}{'':<17}{'nRMSE':>9}{'forests':>9}{'ridge':>9}{'mean':>9}"
          f"{'Conjoin':>11}{'forests':>11}")  # fmt: skip
    files, results = paths(), []
    with threadpool_limits(1):
        for name in options.tables.split(","):
            whole, found = read(files[name]), []
            whole = whole.sample(min(options.rows, len(whole)), random_state=0)
            for seed in map(int, options.seeds.split(",")):
                found.append(measured(Split.of(whole, seed), seed, options))
            results.append({key: float(np.mean([f[key] for f in found])) for key in found[0]})
            print(line(name, results[-1]), flush=True)
    print_goals(results)


if __name__ == "__main__":
    main()
