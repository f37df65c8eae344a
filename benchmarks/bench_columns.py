"""Every column predicted from all others: Conjoin's default against LightGBM, one model per column.

Tables of $CONJOIN_DATA, at most 60,000 rows. Splits are random: 30% of the rows, but at most 3,000,
are test rows, all others are training rows. Both models see the same rows and the same kinds of
columns, as Conjoin finds them: columns that it leaves out are left out for both; dates are days.

log loss   categories: mean over the test rows, nats, then over columns
nRMSE      numbers: root mean squared error of the conditional mean over the rows' deviation

Probabilities are at least 1e-6, and those of states that the training rows lack are 1e-6. Missing
values of the target are not scored, other missing values stay missing. Columns of one state are not
scored. Times are CPU seconds of one thread: learning, then answering; kernels are compiled before.

    python benchmarks/bench_columns.py [--tables diamonds,abalone] [--splits 3] [--first 0]
        [--rows 12000] [--rivals none] [--valid] [--categories-only] [--half-hidden] [--json FILE]

`--rows` limits the training rows. `--valid` scores a quarter of the training rows (at most 3,000)
instead of the test rows, for choices that test rows must not influence. `--categories-only` also
learns a model without the numbers of the table. `--half-hidden` hides half of the cells of 1,000
test rows, and scores these, too.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from column_scores import Kinds, column_scores, mean_scores
from conjoin import JointModel
from conjoin.data.frames import MISSING
from goals import cpu, headline, machine
from synthetic import mixed_frame

MOST_ROWS, MOST_TEST_ROWS, HALF_HIDDEN_ROWS = 60_000, 3_000, 1_000
CLOSE, FAR = 1.02, 1.10  # times the score of LightGBM: for half of the tables, and for all
HARM = 0.005  # how much worse numbers may make categories, nats


@dataclass(frozen=True)
class Split:
    """Training and test rows of a table."""

    train: pd.DataFrame
    test: pd.DataFrame

    @classmethod
    def of(cls, frame: pd.DataFrame, seed: int, share: float = 0.3) -> Split:
        order = np.random.default_rng(seed).permutation(len(frame))[:MOST_ROWS]
        cut = min(int(share * len(order)), MOST_TEST_ROWS)
        train, test = (frame.iloc[at].reset_index(drop=True) for at in (order[cut:], order[:cut]))
        return cls(train, test)

    def within_training(self, seed: int) -> Split:
        """Hold out a quarter of the training rows."""
        return Split.of(self.train, 1000 + seed, 0.25)

    def limited(self, rows: int | None) -> Split:
        return Split(self.train[:rows], self.test)


def paths() -> dict[str, Path]:
    """Return the files of all tables, large ones first."""
    folder = Path(os.environ["CONJOIN_DATA"])
    files = [
        path for part in ("large", "tables") for path in sorted((folder / part).glob("*.csv.gz"))
    ]
    return {path.name.removesuffix(".csv.gz"): path for path in files}


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, na_values=list(MISSING), keep_default_na=False, low_memory=False)


def learned(train: pd.DataFrame) -> tuple[float, JointModel]:
    return cpu(lambda: JointModel(unseen="missing").fit(train))


def answers(
    model: JointModel, kinds: Kinds, rows: pd.DataFrame, asked: pd.DataFrame
) -> dict[str, np.ndarray]:
    """Return probabilities of states, or means, of the rows of each column where `asked` is true."""
    return {
        name: model.predict_proba(rows[asked[name]], target=name)
        if name in kinds.states
        else model.predict(rows[asked[name]], target=name)
        for name in kinds.names
        if asked[name].any()
    }


def scored(answer, kinds: Kinds, test: pd.DataFrame, rows: pd.DataFrame, asked: pd.DataFrame):
    """Return the scores of the cells where `asked` is true, given rows, and the CPU seconds."""
    seconds, found = cpu(lambda: answer(rows, asked))
    scores = column_scores(found, kinds, test, asked)
    return {**mean_scores(scores, kinds), "answer": seconds, "columns": scores}


def half_hidden(answer, kinds: Kinds, test: pd.DataFrame, seed: int):
    some = test[:HALF_HIDDEN_ROWS]
    hidden = np.random.default_rng([seed, 1]).random(some.shape) < 0.5
    return scored(answer, kinds, some, some.mask(hidden), some.notna() & hidden)


def categories_only(split: Split, kinds: Kinds):
    train = split.train[list(kinds.states)]
    fit, model = learned(train)
    own = Kinds(kinds.states, [])
    test = split.test[list(kinds.states)]
    found = scored(
        lambda rows, asked: answers(model, own, rows, asked), own, test, test, test.notna()
    )
    return {"fit": fit, **found}


def lightgbm(split: Split, kinds: Kinds):
    from lightgbm_columns import LightGBMColumns

    fit, models = cpu(lambda: LightGBMColumns(split.train, kinds))
    known = split.test.notna()
    return {"fit": fit, **scored(models.answers, kinds, split.test, split.test, known)}


def measured(split: Split, seed: int, options: argparse.Namespace):
    """Return the results of one split."""
    fit, model = learned(split.train)
    kinds = Kinds.of(model, split.train)

    def answer(rows, asked):
        return answers(model, kinds, rows, asked)

    found = {
        "rows": len(split.train), "categories": len(kinds.states), "numbers": len(kinds.numbers),
        "ours": {"fit": fit, **scored(answer, kinds, split.test, split.test, split.test.notna())},
    }  # fmt: skip
    if options.half_hidden:
        found["half hidden"] = half_hidden(answer, kinds, split.test, seed)
    if options.categories_only and kinds.states and kinds.numbers:
        found["categories only"] = categories_only(split, kinds)
    if options.rivals == "lightgbm":
        found["lightgbm"] = lightgbm(split, kinds)
    return found


def mean_over(splits: list[dict], part: str, score: str) -> float:
    return float(np.mean([found[part][score] for found in splits]))


def shown(splits: list[dict], part: str) -> str:
    """Return the two scores of a part and its times."""
    texts = [f"{mean_over(splits, part, s):.3f}" for s in ("log loss", "nRMSE")]
    scores = " /".join(f"{text.replace('nan', '-'):>6}" for text in texts)
    seconds = [mean_over(splits, part, t) for t in ("fit", "answer") if t in splits[0][part]]
    return f"{scores}{' + '.join(f'{t:.1f}' for t in seconds):>15} s"


def wanted_parts(options: argparse.Namespace) -> list[str]:
    asked = {
        "ours": True,
        "lightgbm": options.rivals == "lightgbm",
        "half hidden": options.half_hidden,
        "categories only": options.categories_only,
    }
    return [part for part, wanted in asked.items() if wanted]


def line(name: str, splits: list[dict], parts: list[str]) -> str:
    first = splits[0]
    columns = f"{first['categories']} + {first['numbers']}"
    results = "".join(f"{shown(splits, p) if p in first else '-':>32}" for p in parts)
    return f"{name:<22}{first['rows']:>7,}{columns:>9}{results}"


def print_goals(results: dict[str, list[dict]]) -> None:
    """Print how many tables are close to LightGBM, and whether numbers ever made categories worse."""
    for score in ("log loss", "nRMSE"):
        both = [splits for splits in results.values() if "lightgbm" in splits[0]]
        ratios = [mean_over(s, "ours", score) / mean_over(s, "lightgbm", score) for s in both]
        ratios = [ratio for ratio in ratios if not np.isnan(ratio)]
        if not ratios:
            continue
        close, near = (sum(ratio <= limit for ratio in ratios) for limit in (CLOSE, FAR))
        verdict = "met" if 2 * close >= len(ratios) and near == len(ratios) else "MISSED"
        print(f"{score}: within LightGBM + 2% on {close} of {len(ratios)} tables: goal half; within "
              f"+ 10% on {near}: goal all; {verdict}")  # fmt: skip
    harm = {
        name: mean_over(s, "ours", "log loss") - mean_over(s, "categories only", "log loss")
        for name, s in results.items()
        if "categories only" in s[0]
    }
    if harm:
        worst = max(harm, key=harm.get)
        verdict = "met" if harm[worst] <= HARM else "MISSED"
        print(f"numbers change the log loss of categories by at most {harm[worst]:+.4f} ({worst}): "
              f"goal {HARM}, {verdict}")  # fmt: skip


def warm_up() -> None:
    """Compile or load the kernels: with and without numbers, for thin networks and for others."""
    frame = mixed_frame(300, 3, 8)
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    categories = frame.select_dtypes(exclude="number")
    for table, refine in ((frame, True), (categories, True), (categories, False)):
        model = JointModel(refine=refine).fit(table)
        answers(model, Kinds.of(model, table), table, table.notna())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", help="names of tables, with commas; default: all")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first split")
    parser.add_argument("--rows", type=int, help="maximum number of training rows")
    parser.add_argument("--rivals", choices=("none", "lightgbm"), default="lightgbm")
    parser.add_argument("--valid", action="store_true", help="score a part of the training rows")
    parser.add_argument("--categories-only", action="store_true")
    parser.add_argument("--half-hidden", action="store_true")
    parser.add_argument("--json", type=Path, help="a file for all results, by table and split")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    files, parts = paths(), wanted_parts(options)
    names = options.tables.split(",") if options.tables else list(files)
    warnings.simplefilter("ignore")
    print(machine())
    headline("every column from all others: log loss / nRMSE, CPU seconds (fit + answers)")
    titles = {"ours": "Conjoin", "lightgbm": "LightGBM"}
    print(f"{'':<22}{'rows':>7}{'columns':>9}" + "".join(f"{titles.get(p, p):>32}" for p in parts))
    results: dict[str, list[dict]] = {}
    with threadpool_limits(1):
        warm_up()
        for name in names:
            frame, splits = read(files[name]), []
            for seed in range(options.first, options.first + options.splits):
                split = Split.of(frame, seed)
                split = split.within_training(seed) if options.valid else split
                splits.append({"seed": seed, "valid": options.valid,
                               **measured(split.limited(options.rows), seed, options)})  # fmt: skip
                results[name] = splits
                if options.json:
                    options.json.write_text(json.dumps(results, indent=1))
            print(line(name, splits, parts), flush=True)
    print_goals(results)


if __name__ == "__main__":
    main()
