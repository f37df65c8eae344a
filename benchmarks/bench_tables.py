"""Imputation and prediction of any column, against scikit-learn, on the tables of $CONJOIN_DATA.

20% of the known cells are hidden at random. Rivals see state numbers (missing: NaN); their numbers are
rounded to states. Numbers are cut into bins beforehand, for all alike. Tables are cut to
the first --rows rows of a random order. Times are CPU seconds of one thread (threads
that wait for each other would count, to the rivals' harm); kernels are compiled before.

    python benchmarks/bench_tables.py [--rows 3000] [--tables vote,car] [--columns 12] [--ours]
                                      [--part impute|predict|few] [--seeds 0,1,2,3]

`--seeds` hides cells several times; shares and times of the first part are then means.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from threadpoolctl import threadpool_limits

from conjoin import Domain, JointModel, Table, Variable, read_table
from goals import headline, machine


def binned(path):
    """Return a table of states: numbers are cut into five bins."""
    table = read_table(path)
    codes, variables = table.codes.astype(np.int64), list(table.domain)
    codes[table.holes] = -1
    for name in table.domain.numeric:
        v, x = table.domain.index(name), table.column(name)
        edges = np.unique(np.nanquantile(x, [0.2, 0.4, 0.6, 0.8], method="higher"))
        places = np.searchsorted(edges, x, side="right")
        occurring, codes[:, v] = np.unique(places, return_inverse=True)
        codes[np.isnan(x), v] = -1
        variables[v] = Variable(name, [f"bin {k}" for k in occurring.tolist()], ordered=True)
    return Table(Domain(variables), codes, table.weights)


def load(path, rows, rng):
    table = binned(path)
    return table.select(rng.permutation(len(table))[:rows])


def timed(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


def frequent(table):
    best = [table.counts(v).argmax() for v in range(len(table.domain))]
    return np.tile(best, (len(table), 1))


def iterative(estimator):
    def impute(table):
        known = np.where(table.codes == table.missing, np.nan, table.codes.astype(float))
        options = {}
        if estimator is not None:
            options = {"estimator": estimator, "initial_strategy": "most_frequent"}
        found = IterativeImputer(random_state=0, **options).fit_transform(known)
        return np.clip(np.round(found), 0, table.domain.cards - 1)

    return impute


@lru_cache(1)
def fitted(table):
    """Return a model of the table, and the time it took; both ways of imputing share it."""
    start = time.process_time()
    model = JointModel().fit(table)
    return model, time.process_time() - start


def ours(by):
    def impute(table):
        model, spent = fitted(table)
        return model.impute(table, by=by).codes, spent

    return impute


METHODS = {
    "most frequent": frequent,
    "IterativeImputer": iterative(None),
    "random forests": iterative(RandomForestClassifier(random_state=0)),
    "JointModel, by row": ours("row"),
    "JointModel, by cell": ours("cell"),
}
OURS = list(METHODS)[3:]


def recovered(path, rows, seed, methods):
    """Hide cells of a table, and return the share that each method recovers, and its times."""
    rng = np.random.default_rng(seed)
    table = load(path, rows, rng)
    hidden = (rng.random(table.codes.shape) < 0.2) & (table.codes != table.missing)
    lacking = Table(table.domain, np.where(hidden, table.missing, table.codes).astype(
        table.codes.dtype))  # fmt: skip
    found = []
    for method, impute in methods.items():
        learning = fitted(lacking)[1] if method in OURS else 0.0
        full, spent = timed(impute, lacking)
        full = full[0] if method in OURS else full
        found.append(((full == table.codes)[hidden].mean(), learning, spent))
    return np.array(found)


def imputation(names, folder, rows, rivals, seeds):
    headline(
        f"cells recovered of the 20% hidden, at most {rows:,} rows; CPU seconds (fit + impute)"
    )
    methods = {m: f for m, f in METHODS.items() if rivals or m in OURS}
    print(f"{'':<22}" + "".join(f"{m:>22}" for m in methods))
    wins, faster = dict.fromkeys(OURS, 0), dict.fromkeys(OURS, 0)
    for name in names:
        path = folder / f"{name}.csv.gz"
        means = np.mean([recovered(path, rows, seed, methods) for seed in seeds], axis=0)
        line, shares, seconds = f"{name:<22}", {}, {}
        for method, (share, learning, spent) in zip(methods, means, strict=True):
            shares[method], seconds[method] = share, learning + spent
            parts = f"{learning:.2f} + {spent:.2f}" if method in OURS else f"{spent:.2f}"
            line += f"{share:>8.4f}{parts:>12} s"
        print(line, flush=True)
        others = list(METHODS)[:3]
        for method in OURS if rivals else ():
            wins[method] += shares[method] > max(shares[m] for m in others)
            faster[method] += seconds[method] < min(seconds[m] for m in others[1:])
    for method in OURS if rivals else ():
        for what, count in (("recovers more than all three", wins[method]),
                            ("takes less time than the last two", faster[method])):  # fmt: skip
            verdict = "met" if 2 * count > len(names) else "MISSED"
            print(f"{method} {what} on {count} of {len(names)} tables: goal most, {verdict}")


def log_loss(p, truth):
    return float(-np.log(np.clip(p[np.arange(len(truth)), truth], 1e-12, 1)).mean())


def boosting(train, test, v):
    """Return the probabilities of gradient boosting, with a little for states it never saw."""
    counts = np.append(train.counts(v), np.zeros(256))  # it cannot split a class of one row
    known = (train.codes[:, v] != train.missing) & (counts[train.codes[:, v]] > 1)
    given = [np.where(t.codes == t.missing, np.nan, t.codes.astype(float)) for t in (train, test)]
    given = [np.delete(x, v, axis=1) for x in given]
    few = np.delete(train.domain.cards, v) < 250
    model = HistGradientBoostingClassifier(
        categorical_features=few, early_stopping=True, random_state=0
    ).fit(given[0][known], train.codes[known, v])
    p = np.full((len(test), int(train.domain.cards[v])), 1.0 / len(train))
    p[:, model.classes_] = model.predict_proba(given[1])
    return p / p.sum(axis=1, keepdims=True)


MODELS = {
    "JointModel": {},
    "closed form": {"refine": False},
    "hybrid": {"cpd": "hybrid"},
    "tree": {"cpd": "tree"},
}


def prediction(names, folder, rows, columns, rivals):
    headline(f"log loss of held-out rows, mean over at most {columns} columns; CPU seconds")
    models = MODELS if rivals else {"JointModel": {}}
    first = f"{'boosting, each':>20}" if rivals else ""
    print(f"{'':<22}{first}" + "".join(f"{m:>20}" for m in models) + "  better on" * rivals)
    close = 0
    for name in names:
        rng = np.random.default_rng(1)
        table = load(folder / f"{name}.csv.gz", rows, rng)
        cut = len(table) * 4 // 5
        train, test = (Table(table.domain, part) for part in (table.codes[:cut], table.codes[cut:]))
        several = [v for v in range(len(table.domain)) if np.count_nonzero(train.counts(v)) > 1]
        targets = rng.permutation(several)[:columns].tolist()
        found = {}
        for who in ("boosting",) * rivals + tuple(models):
            start = time.process_time()
            if who != "boosting":
                model = JointModel(**MODELS[who]).fit(train)
            losses = []
            for v in targets:
                known = test.codes[:, v] != test.missing
                if who == "boosting":
                    p = boosting(train, test, v)
                else:
                    p = model.predict_proba(test, table.domain.names[v])
                losses.append(log_loss(p[known], test.codes[known, v]))
            found[who] = np.array(losses), time.process_time() - start
        line = "".join(f"{loss.mean():>11.4f}{spent:>7.1f} s" for loss, spent in found.values())
        if not rivals:
            print(f"{name:<22}{line}", flush=True)
            continue
        theirs, own = found["boosting"][0], found["JointModel"][0]
        close += own.mean() <= theirs.mean() + 0.01
        print(f"{name:<22}{line}{np.count_nonzero(own <= theirs):>8} of {len(own)}", flush=True)
    if not rivals:
        return
    verdict = "met" if close == len(names) else "MISSED"
    print(f"at most 0.01 nats worse on {close} of {len(names)} tables: goal all, {verdict}")


def naive(train, test, v, known):
    """Return the distribution of a column by naive Bayes over some others, half a row more a cell."""
    card = int(train.domain.cards[v])
    p = np.tile(np.log(train.counts(v) + 0.5), (len(test), 1))
    for u in known:
        both = (train.codes[:, [u, v]] != train.missing).all(axis=1)
        counts = np.full((int(train.domain.cards[u]), card), 0.5)
        np.add.at(counts, (train.codes[both, u], train.codes[both, v]), 1)
        given = test.codes[:, u] != test.missing
        p[given] += np.log(counts / counts.sum(axis=0))[test.codes[given, u]]
    p = np.exp(p - p.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def few_known(names, folder, rows, columns, rivals):
    headline(
        f"log loss of {columns} random columns when 1, 3 or 8 random others are known; CPU seconds"
    )
    who = ("frequencies", "naive Bayes", *["closed form"] * rivals, "JointModel")
    print(f"{'':<22}{'known':>5}" + "".join(f"{w:>20}" for w in who))
    close, asked = 0, 0
    for name in names:
        rng = np.random.default_rng(2)
        table = load(folder / f"{name}.csv.gz", rows, rng)
        cut = len(table) * 4 // 5
        train, test = (
            Table(table.domain, part) for part in (table.codes[:cut], table.codes[cut:][:60])
        )
        several = [v for v in range(len(table.domain)) if np.count_nonzero(train.counts(v)) > 1]
        models = {w: JointModel(**MODELS[w]).fit(train) for w in who[2:]}
        for count in (1, 3, 8):
            if count >= len(several):
                continue
            losses, spent = {w: [] for w in who}, dict.fromkeys(who, 0.0)
            for _ in range(columns):
                v, *known = rng.permutation(several)[: count + 1].tolist()
                codes = np.full_like(test.codes, test.missing)
                codes[:, known] = test.codes[:, known]
                sparse, answered = Table(table.domain, codes), test.codes[:, v] != test.missing
                for w in who:
                    start = time.process_time()
                    if w in models:
                        p = models[w].predict_proba(sparse, table.domain.names[v])
                    else:
                        p = naive(train, sparse, v, known if w == "naive Bayes" else [])
                    spent[w] += time.process_time() - start
                    losses[w].append(log_loss(p[answered], test.codes[answered, v]))
            means = {w: np.mean(losses[w]) for w in who}
            close += means["JointModel"] <= min(means[w] for w in who[:2]) + 0.02
            asked += 1
            line = "".join(f"{means[w]:>11.4f}{spent[w]:>7.1f} s" for w in who)
            print(f"{name:<22}{count:>5}{line}", flush=True)
    verdict = "met" if close == asked else "MISSED"
    print(
        f"at most 0.02 nats worse than the better rival in {close} of {asked}: goal all, {verdict}"
    )


def warm_up():
    """Compile all kernels, on a small table with so many holes that some rows are sampled."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (200, 24))
    codes[:, 1:12] = np.where(rng.random((200, 11)) < 0.5, codes[:, :1], codes[:, 1:12])
    codes[rng.random(codes.shape) < 0.5] = 255
    table = Table(Domain({f"x{i}": range(6) for i in range(24)}), codes.astype(np.uint8))
    for method in OURS:
        METHODS[method](table)
    JointModel("hybrid").fit(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--columns", type=int, default=12)
    parser.add_argument("--tables", default="")
    parser.add_argument("--ours", action="store_true", help="without the slow rivals")
    parser.add_argument("--part", choices=("impute", "predict", "few"))
    parser.add_argument("--seeds", default="0")
    options = parser.parse_args()
    folder = Path(os.environ["CONJOIN_DATA"]) / "tables"
    names = sorted(p.name[:-7] for p in folder.glob("*.csv.gz"))
    if options.tables:
        names = options.tables.split(",")
    print(machine())
    warnings.simplefilter("ignore")
    warm_up()
    with threadpool_limits(1):
        if options.part in (None, "impute"):
            seeds = [int(seed) for seed in options.seeds.split(",")]
            imputation(names, folder, options.rows, not options.ours, seeds)
        if options.part in (None, "predict"):
            prediction(names, folder, options.rows, options.columns, not options.ours)
        if options.part in (None, "few"):
            few_known(names, folder, options.rows, options.columns, not options.ours)


if __name__ == "__main__":
    main()
